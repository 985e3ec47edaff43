"""States: one order, and titles for tables and legends."""

from __future__ import annotations

import pytest

from theodolite.core.states import AFTER, BEFORE, DIFFERENCE, FINE_TUNED, ISOBN, PRE_TRAINED, STATES, state_order, state_title


def test_every_state_is_listed_once_and_training_comes_in_order() -> None:
    assert len(set(STATES)) == len(STATES)
    assert sorted([FINE_TUNED, DIFFERENCE, PRE_TRAINED, ISOBN], key=state_order) == [PRE_TRAINED, FINE_TUNED, ISOBN, DIFFERENCE]
    assert state_order(BEFORE) < state_order(AFTER)


def test_unknown_states_come_last() -> None:
    assert sorted(["something else", DIFFERENCE], key=state_order) == [DIFFERENCE, "something else"]


@pytest.mark.parametrize(
    ("state", "title"),
    [
        ("isobn", "IsoBN"),
        ("istar", "I-STAR"),
        ("isolayer, table 2", "isotropy layer, table 2"),
        ("pre-trained", "pre-trained"),
        ("my state, isobn", "my state, isobn"),
        ("", ""),
    ],
)
def test_titles(state: str, title: str) -> None:
    assert state_title(state) == title
