"""Labels are matched with rows, and the labels of held-out rows with the fitted ones."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.core.spelling import ON_COMMAND_LINE
from theodolite.probes.label_codes import check_label_sets, labelled, single_precision


def test_labels_become_numbers_in_order() -> None:
    data = labelled([[0.0], [1.0], [2.0]], ["b", "a", "b"])
    assert data.classes.tolist() == ["a", "b"] and data.codes.tolist() == [1, 0, 1]
    assert data.X.dtype == np.float32


def test_values_too_large_for_single_precision_are_named() -> None:
    with pytest.raises(ValueError, match="inf at row 1, column 0"):
        single_precision(np.array([[1.0], [1e300]]))


def test_labels_that_are_all_fitted_are_all_usable() -> None:
    usable, unseen = check_label_sets(["A", "B", "C"], ["C", "A", "A"])
    assert usable.all() and unseen == []


def test_unseen_labels_are_dropped_on_request_and_counted() -> None:
    usable, unseen = check_label_sets(["A", "B"], ["D", "A", "C", "D"], drop_unseen=True)
    assert usable.tolist() == [False, True, False, False] and unseen == [("C", 1), ("D", 2)]


def test_unseen_labels_are_an_error_that_names_the_row_and_the_option() -> None:
    with pytest.raises(
        ValueError, match=r"held-out row 1 has a label that no fitted row has; all unseen labels: C \(1\).*drop_unseen=True"
    ):
        check_label_sets(["A", "B"], ["A", "C"])
    token = ON_COMMAND_LINE.set(True)
    try:
        with pytest.raises(ValueError, match="--drop-unseen"):
            check_label_sets(["A", "B"], ["A", "C"])
    finally:
        ON_COMMAND_LINE.reset(token)


def test_at_least_one_row_must_be_usable() -> None:
    with pytest.raises(ValueError, match=r"no held-out row has a label that was fitted; theirs are C \(2\)"):
        check_label_sets(["A", "B"], ["C", "C"], drop_unseen=True)
