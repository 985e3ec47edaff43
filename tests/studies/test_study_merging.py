"""Exported slices: what may be put together, and what is refused."""

import pytest

from theodolite.core.result import Result
from theodolite.core.rows import Row
from theodolite.studies.slices import merge_slices


def part(seed, **versions):
    row = Row(metric="spearman", value=0.5 + seed, seed=seed, model="m")
    return Result(verb="study", rows=(row,), provenance={"study": "rp21", "models": {"m": "hash"}, "step_versions": versions})


def test_slices_of_the_same_versions_are_put_together():
    merged = merge_slices(part(0, layers=4, sweep=2), part(1, layers=4, tune=3))
    assert [row.seed for row in merged.rows] == [0, 1]
    assert merged.provenance["step_versions"] == {"layers": 4, "sweep": 2, "tune": 3}


def test_records_made_by_another_version_of_a_step_are_refused():
    with pytest.raises(
        ValueError, match=r"its 'layers' steps are from version 3, and those of this run from version 4; export to a new"
    ):
        merge_slices(part(0, layers=3), part(1, layers=4))
    old = part(0)
    del old.provenance["step_versions"]
    with pytest.raises(ValueError, match="'layers' steps are from an unknown version"):
        merge_slices(old, part(1, layers=4))
