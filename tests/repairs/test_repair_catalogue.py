"""Repairs by name: hints and settings in short form; on disk whole or absent, checked when read, replaced only on request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from theodolite.core import files
from theodolite.repairs import (
    REPAIRS,
    ClusterRemoveDirections,
    RemoveDirections,
    Repair,
    StoredRepairError,
    Whiten,
    ZeroMean,
    catalogue,
    load_repair,
    make_repair,
    repair_named,
    save_repair,
)
from theodolite.repairs.base import FittingPath


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
        ("global", {"directions": None, "clusters": None}, RemoveDirections()),  # None leaves a setting to the repair
    ],
)
def test_settings_reach_the_repair(name: str, options: dict[str, Any], repair: Repair) -> None:
    assert repr(make_repair(name, **options)) == repr(repair)


def test_settings_that_a_repair_does_not_have_are_named() -> None:
    with pytest.raises(ValueError, match="ZeroMean has no setting 'directions'; it has none"):
        make_repair("zero-mean", directions=3)
    with pytest.raises(ValueError, match="RemoveDirections has no setting 'gain'; it has n_directions, which"):
        make_repair("global", gain=3)


def cloud(seed: int = 0) -> np.ndarray[Any, Any]:
    return (np.random.default_rng(seed).standard_normal((400, 16)) * np.arange(1, 17) + 3).astype(np.float32)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_repair(RemoveDirections(2).fit(cloud()), tmp_path / "repair")
    return tmp_path / "repair"


def change(folder: Path, **values: Any) -> None:
    about = json.loads((folder / catalogue.ABOUT).read_text())
    (folder / catalogue.ABOUT).write_text(json.dumps({**about, **values}))


@pytest.mark.parametrize(
    "repair", [RemoveDirections(9, which="bottom"), Whiten(5, shrinkage=0.1), ClusterRemoveDirections(5, 3, seed=2)]
)
def test_settings_and_bits_are_the_same_after_loading(repair: Any, tmp_path: Path) -> None:
    repair.fit(cloud())
    save_repair(repair, tmp_path / "deep" / "folder")
    loaded = load_repair(tmp_path / "deep" / "folder")
    assert repr(loaded) == repr(repair)
    np.testing.assert_array_equal(loaded.transform(cloud(1)), repair.transform(cloud(1)))
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["folder"]


def test_column_names_are_the_same_after_loading(tmp_path: Path) -> None:
    import pandas

    frame = pandas.DataFrame(cloud(), columns=[f"dim{i}" for i in range(16)])
    repair = ZeroMean().fit(frame)
    save_repair(repair, tmp_path / "repair")
    loaded = load_repair(tmp_path / "repair")
    assert list(loaded.get_feature_names_out()) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(frame.rename(columns=lambda name: name.replace("dim", "axis")))


def test_numpy_numbers_as_options(tmp_path: Path) -> None:
    save_repair(RemoveDirections(np.int64(3)).fit(cloud()), tmp_path / "repair")
    assert load_repair(tmp_path / "repair").get_params()["n_directions"] == 3


@pytest.mark.parametrize("where", [0, 100, -1])
def test_one_changed_byte_is_detected(saved: Path, where: int) -> None:
    content = bytearray((saved / catalogue.ARRAYS).read_bytes())
    content[where] ^= 1
    (saved / catalogue.ARRAYS).write_bytes(content)
    with pytest.raises(StoredRepairError, match="SHA-256"):
        load_repair(saved)


def test_errors_name_what_is_wrong_with_the_folder(saved: Path) -> None:
    change(saved, params={"gain": 3})
    with pytest.raises(StoredRepairError, match="gain"):
        load_repair(saved)
    change(saved, params={}, d=17)
    with pytest.raises(StoredRepairError, match="d=17"):
        load_repair(saved)
    change(saved, repair="os.system")
    with pytest.raises(StoredRepairError, match=r"os\.system"):
        load_repair(saved)
    change(saved, format=99)
    with pytest.raises(StoredRepairError, match="format 99"):
        load_repair(saved)
    (saved / catalogue.ABOUT).write_text('{"format": 1}')
    with pytest.raises(StoredRepairError, match="lacks 'repair'"):
        load_repair(saved)
    (saved / catalogue.ABOUT).write_text("{")
    with pytest.raises(StoredRepairError, match="not JSON"):
        load_repair(saved)
    (saved / catalogue.ABOUT).unlink()
    with pytest.raises(FileNotFoundError, match="does not hold a saved repair"):
        load_repair(saved)


def test_a_missing_file_of_arrays(saved: Path) -> None:
    (saved / catalogue.ARRAYS).unlink()
    with pytest.raises(StoredRepairError, match=r"has no repair\.safetensors"):
        load_repair(saved)


def test_nothing_is_replaced_without_overwrite(saved: Path, tmp_path: Path) -> None:
    other = ZeroMean().fit(cloud())
    with pytest.raises(FileExistsError, match="overwrite=True"):
        save_repair(other, saved)
    assert isinstance(load_repair(saved), RemoveDirections)
    save_repair(other, saved, overwrite=True)
    assert isinstance(load_repair(saved), ZeroMean)
    assert [path.name for path in tmp_path.iterdir()] == ["repair"]


def test_a_folder_of_other_things_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("all of it")
    with pytest.raises(FileExistsError, match=r"does not contain a repair\.json"):
        save_repair(ZeroMean().fit(cloud()), tmp_path / "thesis", overwrite=True)
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "all of it"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_failed_write_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool) -> None:
    if overwrite:
        save_repair(RemoveDirections(2).fit(cloud()), tmp_path / "repair")

    def full_disk(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(files, "sync", full_disk)
    with pytest.raises(OSError, match="no space"):
        save_repair(ZeroMean().fit(cloud()), tmp_path / "repair", overwrite=overwrite)
    assert [path.name for path in tmp_path.iterdir()] == (["repair"] if overwrite else [])
    if overwrite:
        assert isinstance(load_repair(tmp_path / "repair"), RemoveDirections)


def test_only_fitted_repairs_of_the_registry_are_saved(tmp_path: Path) -> None:
    class Mine(ZeroMean):
        pass

    with pytest.raises(NotFittedError):
        save_repair(ZeroMean(), tmp_path / "repair")
    with pytest.raises(TypeError, match="Mine is not one of the repairs"):
        save_repair(Mine().fit(cloud()), tmp_path / "repair")
    assert not (tmp_path / "repair").exists()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"repair": ["whiten"]}, r"repair is \['whiten'\]; it must be text"),
        ({"repair": {}}, "repair is {}; it must be text"),
        ({"params": []}, r"params is \[\]; it must be a table"),
        ({"d": "16"}, "d is '16'; it must be a whole number"),
        ({"fitted_on": ["x"]}, "fitted_on is .*; it must be a table"),
        ({"fitted_on": {"texts": 3}}, "texts is 3; it must be a list"),
        ({"fitted_on": {"layer": "last"}}, "layer is 'last'; it must be a whole number"),
        ({"feature_names": 3}, "feature_names is 3; it must be a list"),
    ],
)
def test_a_value_of_another_type_is_one_sentence(saved: Path, values: dict[str, Any], message: str) -> None:
    change(saved, **values)
    with pytest.raises(StoredRepairError, match=message):
        load_repair(saved)


def test_a_repair_of_an_earlier_release_without_the_later_keys_is_loaded(saved: Path) -> None:
    about = json.loads((saved / catalogue.ABOUT).read_text())
    for name in ("fitted_on", "feature_names", "theodolite"):
        del about[name]
    (saved / catalogue.ABOUT).write_text(json.dumps({**about, "later": 1}))
    assert load_repair(saved).fitted_on_ == FittingPath()
