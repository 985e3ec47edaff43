"""Repairs by name: names with hints, settings in short form, and errors that list what there is."""

from __future__ import annotations

from typing import Any

import pytest

from theodolite.repairs import REPAIRS, ClusterRemoveDirections, RemoveDirections, Repair, make_repair, repair_named


@pytest.mark.parametrize("name", REPAIRS)
def test_every_name_makes_a_repair_with_its_defaults(name: str) -> None:
    repair = make_repair(name)
    assert type(repair) is repair_named(name) is REPAIRS[name]
    assert repair.get_params() == REPAIRS[name]().get_params()


@pytest.mark.parametrize("name", ["cluster-based", "cluster_based", "Cluster-Based"])
def test_case_and_hyphens_do_not_matter(name: str) -> None:
    assert repair_named(name) is ClusterRemoveDirections


@pytest.mark.parametrize(("name", "hint"), [("globl", "did you mean 'global'?"), ("zzz", "known: zero-mean, standardize")])
def test_unknown_names_get_a_hint(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"there is no repair '{name}'; {hint}".replace("?", r"\?")):
        make_repair(name)


@pytest.mark.parametrize(
    ("name", "options", "repair"),
    [
        ("global", {"directions": 3}, RemoveDirections(3)),
        ("global", {"n_directions": 3, "which": "bottom"}, RemoveDirections(3, which="bottom")),
        ("global", {"directions": 0}, RemoveDirections(0)),
        ("cluster-based", {"clusters": 5, "directions": 2, "seed": 7}, ClusterRemoveDirections(5, 2, seed=7)),
        ("global", {"seed": 7}, RemoveDirections()),  # it has no seed
        ("whiten", {"components": 4, "shrinkage": 0.5}, REPAIRS["whiten"](4, shrinkage=0.5)),
        ("drop-rogue", {"dimensions": 2}, REPAIRS["drop-rogue"](2)),
    ],
)
def test_settings_reach_the_repair(name: str, options: dict[str, Any], repair: Repair) -> None:
    assert repr(make_repair(name, **options)) == repr(repair)


def test_settings_that_a_repair_does_not_have_are_named() -> None:
    with pytest.raises(ValueError, match="ZeroMean has no setting 'directions'; it has none"):
        make_repair("zero-mean", directions=3)
    with pytest.raises(ValueError, match="RemoveDirections has no setting 'gain'; it has n_directions, which"):
        make_repair("global", gain=3)
