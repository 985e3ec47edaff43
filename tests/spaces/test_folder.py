"""The space on disk: what is opened is what was written, and a folder that is not whole is not opened."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from theodolite.core import files
from theodolite.core.files import BusyError, Lock
from theodolite.core.vectors import array
from theodolite.spaces import Space, is_space, row_table
from theodolite.spaces.folder import FORMAT, StoredSpaceError, read_layer, write_about

from .sample_space import LAYERS, D, N, X, assert_same, digests, names, the_space

SHAPE: dict[str, Any] = {"layers": LAYERS, "n": N, "d": D, "dtype": np.dtype("f4"), "origin": {"model": "m"}}
rng = np.random.default_rng(3)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    the_space().save(tmp_path / "s")
    return tmp_path / "s"


# Saving and opening


def test_round_trip(tmp_path: Path) -> None:
    the_space().save(tmp_path / "s")
    assert is_space(tmp_path / "s") and not is_space(tmp_path)
    assert names(tmp_path) == ["s"]
    assert names(tmp_path / "s") == ["layer-00.npy", "layer-01.npy", "layer-07.npy", "rows.parquet", "space.json"]
    assert_same(Space.open(tmp_path / "s"), the_space())
    assert_same(Space.open(tmp_path / "s", verify=False), the_space())
    np.testing.assert_array_equal(np.load(tmp_path / "s" / "layer-07.npy"), X[7])  # others can read it


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
def test_every_float_type_comes_back_bit_by_bit(tmp_path: Path, dtype: str) -> None:
    Y = rng.normal(size=(5, 2)).astype(dtype)
    Space.of({0: Y}).save(tmp_path / "s")
    found = Space.open(tmp_path / "s")
    np.testing.assert_array_equal(found[0], Y)
    assert found.dtype == np.dtype(dtype).newbyteorder("=") and dict(found.rows) == {}


def test_saving_what_was_opened_gives_the_same_bytes(tmp_path: Path) -> None:
    the_space().save(tmp_path / "a")
    Space.open(tmp_path / "a").save(tmp_path / "b")
    Space.open(tmp_path / "b").save(tmp_path / "b", overwrite=True)  # over itself, while it is mapped
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


def test_layers_are_mapped_and_read_only(tmp_path: Path) -> None:
    the_space().save(tmp_path / "s")
    layer = Space.open(tmp_path / "s")[-1]
    assert isinstance(layer.base, np.memmap) and type(layer[[0, 2]]) is np.ndarray
    with pytest.raises(ValueError, match="read-only"):
        layer[0] = 0


def test_a_space_saved_in_many_blocks_and_row_groups_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theodolite.spaces.folder.BLOCK_BYTES", 7 * D * 4)
    monkeypatch.setattr(row_table, "BATCH", 8)
    the_space().save(tmp_path / "s")
    assert_same(Space.open(tmp_path / "s"), the_space())


# Replacing


def test_a_space_is_replaced_only_with_overwrite(stored: Path) -> None:
    before = digests(stored)
    with pytest.raises(FileExistsError, match="exists already; choose another folder, or replace it with overwrite=True"):
        Space.of({0: X[0]}).save(stored)
    assert digests(stored) == before
    Space.of({0: X[0] + 1}).save(stored, overwrite=True)
    np.testing.assert_array_equal(Space.open(stored)[0], X[0] + 1)
    assert names(stored) == ["layer-00.npy", "space.json"] and names(stored.parent) == ["s"]


def test_a_folder_that_is_not_a_space_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(FileExistsError, match=r"does not contain a space\.json of the verb extract, so it is not replaced"):
        the_space().save(tmp_path / "photos", overwrite=True)
    assert names(tmp_path) == ["photos"] and names(tmp_path / "photos") == ["cat.jpg"]


def test_a_failed_save_leaves_what_was_there(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digests(stored)

    def failing(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("theodolite.spaces.folder.write_about", failing)
    with pytest.raises(OSError, match="no space left"):
        Space.of({0: X[0]}).save(stored, overwrite=True)
    assert digests(stored) == before and names(stored.parent) == ["s"]


@pytest.mark.slow
def test_a_space_that_is_being_written_is_not_saved_over(tmp_path: Path) -> None:
    with Lock(tmp_path / "s"), pytest.raises(BusyError, match="is writing to"):
        the_space().save(tmp_path / "s")
    assert names(tmp_path) == []


def test_a_crash_between_the_two_renames_loses_nothing(stored: Path) -> None:
    before = digests(stored)
    stored.rename(files.backup_path(stored))
    with pytest.raises(FileExistsError):
        Space.of({0: X[0]}).save(stored)
    assert digests(stored) == before and names(stored.parent) == ["s"]


# Folders that are not whole


@pytest.mark.parametrize("name", ["layer-00.npy", "layer-07.npy", "rows.parquet"])
@pytest.mark.parametrize("verify", [True, False])
def test_a_missing_or_truncated_file(stored: Path, name: str, verify: bool) -> None:
    content = (stored / name).read_bytes()
    (stored / name).write_bytes(content[:-1])
    with pytest.raises(StoredSpaceError, match=rf"{name} is cut short: it has .* bytes instead of"):
        Space.open(stored, verify=verify)
    (stored / name).write_bytes(content + b"x")
    with pytest.raises(StoredSpaceError, match=f"{name} is too long"):
        Space.open(stored, verify=verify)
    (stored / name).unlink()
    with pytest.raises(StoredSpaceError, match=f"has no {name}, which space.json lists"):
        Space.open(stored, verify=verify)


@pytest.mark.parametrize("name", ["layer-00.npy", "layer-07.npy", "rows.parquet"])
def test_one_changed_bit_is_found(stored: Path, name: str) -> None:
    content = bytearray((stored / name).read_bytes())
    content[len(content) // 2] ^= 1
    (stored / name).write_bytes(content)
    with pytest.raises(StoredSpaceError, match=f"{name} has SHA-256 .* its content was changed"):
        Space.open(stored)
    assert Space.open(stored, verify=False).n == N  # the way out for somebody who knows why


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "space.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_changed_description(stored: Path) -> None:
    edit(stored, origin={"model": "another"})
    with pytest.raises(StoredSpaceError, match="was changed after it was written"):
        Space.open(stored)
    assert Space.open(stored, verify=False).origin.model == "another"


def test_a_newer_format_says_what_to_do(stored: Path) -> None:
    edit(stored, format=FORMAT + 1, layers="something else altogether")
    with pytest.raises(
        StoredSpaceError, match=f"format {FORMAT + 1}, this version of theodolite reads up to {FORMAT}: pip install"
    ):
        Space.open(stored)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": None},
        {"format": "1"},
        {"layers": [0, 1]},
        {"layers": []},
        {"n": N + 1},
        {"d": D + 1},
        {"dtype": "float64"},
        {"origin": {"no such": 1}},
        {"files": {"../x": {"bytes": 1, "sha256": ""}}},
        {"files": []},
    ],
)
def test_descriptions_that_do_not_fit(stored: Path, changes: dict[str, Any]) -> None:
    edit(stored, **changes)
    with pytest.raises(StoredSpaceError, match=r"space\.json"):
        Space.open(stored, verify=False)


def test_a_description_that_is_not_json(stored: Path) -> None:
    (stored / "space.json").write_text('{"format": 1')
    with pytest.raises(StoredSpaceError, match="is not JSON"):
        Space.open(stored)


@pytest.mark.parametrize("rows", [N - 1, N + 1])
def test_rows_of_another_length_than_the_layers(stored: Path, rows: int) -> None:
    row_table.write_row_table({"word": np.arange(rows)}, rows, stored / "rows.parquet")
    write_about(stored, **SHAPE)  # all hashes are right
    with pytest.raises(StoredSpaceError, match=rf"rows.parquet has {rows} rows, but the layers have n={N}"):
        Space.open(stored)


def test_a_layer_of_another_shape(stored: Path) -> None:
    np.save(stored / "layer-01.npy", X[1][:-1])
    write_about(stored, **SHAPE)
    with pytest.raises(StoredSpaceError, match=r"layer-01.npy holds \(49, 3\) float32, space.json says \(50, 3\) float32"):
        Space.open(stored)


def test_a_place_without_a_space(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(FileNotFoundError, match=r"holds no space: there is no space\.json in it"):
            Space.open(place)


# One layer as a source


def test_one_layer_by_its_number(stored: Path) -> None:
    for layer in LAYERS:
        np.testing.assert_array_equal(array(read_layer(stored, key=str(layer))), X[layer])
    with pytest.raises(ValueError, match=r"is a space of 3 layers; choose one of 0, 1, 7 with key=NUMBER"):
        read_layer(stored, key=None)
    with pytest.raises(ValueError, match="has no layer '2'; choose one of 0, 1, 7 with key=NUMBER"):
        read_layer(stored, key="2")


def test_the_only_layer_needs_no_number(tmp_path: Path) -> None:
    Space.of({4: X[0]}).save(tmp_path / "s")
    np.testing.assert_array_equal(array(read_layer(tmp_path / "s", key=None)), X[0])


def test_a_layer_is_checked_when_it_is_read(stored: Path) -> None:
    content = bytearray((stored / "layer-01.npy").read_bytes())
    content[-1] ^= 1
    (stored / "layer-01.npy").write_bytes(content)
    with pytest.raises(StoredSpaceError, match="its content was changed"):
        read_layer(stored, key="1")
    np.testing.assert_array_equal(array(read_layer(stored, key="0")), X[0])


def test_a_full_disk_is_told_in_a_unit_that_shows_the_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from theodolite.spaces import folder

    monkeypatch.setattr(folder.shutil, "disk_usage", lambda _: SimpleNamespace(free=12_288))
    with pytest.raises(OSError, match=r"s needs 2\.5 MB, but only 12\.3 kB are free"):
        folder.require_disk_space(tmp_path, 2_500_000, tmp_path / "s")
