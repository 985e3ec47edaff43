"""Exported slices: what may be put together, and what is refused."""

import pyarrow
import pytest

from theodolite.core.result import Result
from theodolite.core.rows import Row
from theodolite.studies.slices import merge_slices


def part(seed, records=None, **versions):
    row = Row(metric="spearman", value=0.5 + seed, seed=seed, model="m")
    facts = {"study": "rp21", "models": {"m": "hash"}, "step_versions": versions}
    return Result(verb="study", rows=(row,), records=records or {}, provenance=facts)


def spectra(*seeds):
    """The spectra of a tuned state with these seeds, and that of the state before, which all slices have."""
    clouds = [("pre-trained", 0), *(("fine-tuned", seed) for seed in seeds)]
    lines = [{"state": state, "seed": seed, "k": k, "value": seed + 1 / k} for state, seed in clouds for k in (1, 2)]
    return {"spectra": pyarrow.Table.from_pylist(lines)}


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


def test_records_of_every_seed_are_kept_once():
    merged = merge_slices(part(0, spectra(0, 1)), part(2, spectra(2)))
    assert sorted(map(str, merged.records["spectra"].to_pylist())) == sorted(map(str, spectra(0, 1, 2)["spectra"].to_pylist()))


def test_records_of_an_earlier_release_lack_columns():
    earlier = {"spectra": spectra(0)["spectra"].drop_columns(["seed"])}
    merged = merge_slices(part(0, earlier), part(1, spectra(1))).records["spectra"]
    assert merged.to_pylist() == spectra(1)["spectra"].to_pylist()
