"""Data files: byte-order marks, encodings and line ends, the byte that does not fit, and vectors that are parsed once."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from theodolite.core.vectors import array
from theodolite.spaces.readers.data_files import DataError, EmptyFileError, File, locate, parsed_source


def write(path: Path, content: bytes) -> File:
    path.write_bytes(content)
    return locate(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_lines_end_at_newlines_only_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    text = "one\u2028two\x85\x0b\r\n\nਊ three\r\nfour"  # the third line begins with a character that has the byte 0x0A
    file = write(tmp_path / "t", text.encode(encoding))
    plain = "utf-8" if encoding == "utf-8-sig" else encoding
    assert "".join(file.lines(plain)) == text
    assert list(file.numbered_lines(plain)) == [(1, "one\u2028two\x85\x0b"), (2, ""), (3, "ਊ three"), (4, "four")]


def test_an_empty_file_has_no_line(tmp_path: Path) -> None:
    assert list(write(tmp_path / "t", b"").lines()) == []
    for content in (b"", b"\n \n", b"\xef\xbb\xbf"):
        with pytest.raises(EmptyFileError, match="t: the file is empty"):
            list(write(tmp_path / "t", content).numbered_lines())


@pytest.mark.parametrize(
    ("content", "encoding", "line", "offset", "byte"),
    [
        (b"caf\xe9\n", "utf-8", 1, 3, "E9"),
        (b"a\n" * 9000 + b"\xff b\n", "utf-8", 9001, 18000, "FF"),
        (b"a\nb\xc3", "utf-8", 2, 3, "C3"),  # cut in the middle of a character
        ("a\n".encode("utf-16-le") + b"\x00\xdc", "utf-16-le", 2, 4, "00"),
    ],
)
def test_a_byte_that_does_not_fit_is_named(
    tmp_path: Path, content: bytes, encoding: str, line: int, offset: int, byte: str
) -> None:
    file = write(tmp_path / "t", content)
    with pytest.raises(DataError, match=f"t, line {line}: byte 0x{byte} at offset {offset} is not {encoding} text"):
        list(file.lines(encoding))


def test_the_way_out_is_an_option_only_if_there_is_one(tmp_path: Path) -> None:
    file = write(tmp_path / "t", b"\xff")
    with pytest.raises(DataError, match=r"name its encoding, for example encoding='latin-1'$"):
        list(file.lines("utf-8"))
    with pytest.raises(DataError, match=r"convert it to UTF-8 first$"):
        list(file.lines())


def test_an_unknown_encoding_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="encoding 'latin-99' is not known; examples are utf-8, latin-1"):
        list(write(tmp_path / "t", b"a").lines("latin-99"))


def test_a_blank_line_between_others_is_an_error(tmp_path: Path) -> None:
    assert list(write(tmp_path / "t", b"a\nb\n\n\n").gapless_lines()) == [(1, "a"), (2, "b")]
    with pytest.raises(DataError, match="t, line 2: the line is blank"):
        list(write(tmp_path / "t", b"a\n\n\nb\n").gapless_lines())


def test_the_content_of_a_folder_is_in_natural_order(tmp_path: Path) -> None:
    for name in ("b10", "b9", "a", ".hidden", "_temporary"):
        (tmp_path / name).touch()
    assert [file.local and file.local.name for file in locate(tmp_path).entries()] == ["a", "b9", "b10"]


def test_a_missing_file_suggests_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "vectors.npy").touch()
    with pytest.raises(FileNotFoundError, match=r"did you mean .*vectors\.npy"):
        locate(tmp_path / "vectros.npy")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        locate(tmp_path / "nowhere" / "v.npy")
    with pytest.raises(FileNotFoundError, match=r"memory://theodolite/none\.npy"):
        locate("memory://theodolite/none.npy")


def test_a_url_of_this_machine_is_a_local_file(tmp_path: Path) -> None:
    (tmp_path / "a b").touch()
    assert locate(f"file://{tmp_path}/a%20b").local == tmp_path / "a b"


@pytest.mark.slow
@pytest.mark.parametrize("is_full", [False, True])
def test_parsed_vectors_are_the_same_on_every_pass_also_if_the_temporary_folder_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    class FullDisk(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError("no space left on device")

    if is_full:
        monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: FullDisk())
    passes = []

    def vectors() -> Iterator[list[float]]:
        passes.append(1)
        return ([float(i), -float(i)] for i in range(100_000))

    source = parsed_source(write(tmp_path / "t", b""), vectors, d=2)
    rows = np.array([0, 70_000, 99_999])
    for _ in range(3):
        np.testing.assert_array_equal(source.take(rows)[:, 0], rows)
        np.testing.assert_array_equal(array(source)[:, 1], -np.arange(100_000))
    # The first look for faults, then one pass in all, or one for every reading.
    assert len(passes) == (7 if is_full else 2)
