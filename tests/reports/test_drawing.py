"""Static figures: all displays, or none at all."""

from __future__ import annotations

import shutil
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from theodolite.reports.displays import Display, add_slider
from theodolite.reports.drawing import write_figures


@dataclass(frozen=True, kw_only=True, eq=False)
class Plain(Display):
    """The smallest display there is."""

    name: str = "one"
    kind: str = "plain"
    heading: str = "One"
    title: str = "One"
    note: str = "Nothing."
    fails: bool = False

    def frame(self) -> Any:
        raise NotImplementedError

    def plot(self) -> Any:
        from plotly.graph_objects import Figure, Scatter

        if self.fails:
            raise RuntimeError("no plot")
        return Figure(Scatter(x=[1, 2], y=[3, 4], name="<b>"), {"height": 300})


@pytest.fixture
def browser() -> None:
    pytest.importorskip("kaleido")
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"))):
        pytest.skip("there is no Chromium to draw with")


@pytest.mark.slow
@pytest.mark.usefixtures("browser")
def test_every_display_is_written_whole_in_every_format(tmp_path: Path) -> None:
    written = write_figures([Plain(), Plain(name="two"), Plain()], tmp_path / "figures")
    assert [path.name for path in written] == ["one.png", "one.svg", "two.png", "two.svg", "one-2.png", "one-2.svg"]
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == sorted(path.name for path in written)
    head = written[0].read_bytes()
    assert head[:8] == b"\x89PNG\r\n\x1a\n" and head[-8:-4] == b"IEND"
    assert (int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")) == (2000, 600)
    assert ElementTree.parse(written[1]).getroot().get("width") == "1000"


def test_if_one_display_fails_nothing_is_written_or_changed(tmp_path: Path) -> None:
    pytest.importorskip("kaleido")
    (tmp_path / "one.png").write_bytes(b"old")
    with pytest.raises(RuntimeError, match="no plot"):
        write_figures([Plain(), Plain(name="two", fails=True)], tmp_path)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("one.png", b"old")]


def test_if_drawing_ends_early_nothing_is_written_or_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kaleido = pytest.importorskip("kaleido")

    def half(orders: list[dict[str, Any]], **_: Any) -> None:
        orders[0]["path"].write_bytes(b"whole")

    monkeypatch.setattr(kaleido, "write_fig_from_object_sync", half)
    (tmp_path / "one.png").write_bytes(b"old")
    with pytest.raises(RuntimeError, match=r"one\.svg could not be drawn"):
        write_figures([Plain(), Plain(name="two")], tmp_path)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("one.png", b"old")]


def test_without_kaleido_one_sentence_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kaleido", None)
    with pytest.raises(ImportError, match=r'pip install "theodolite\[figures\]"'):
        write_figures([Plain()], tmp_path / "figures")
    assert not (tmp_path / "figures").exists()


def test_figures_are_dark_on_white_without_controls_but_say_what_they_showed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kaleido = pytest.importorskip("kaleido")
    figures: list[dict[str, Any]] = []

    def keep(orders: list[dict[str, Any]], **_: Any) -> None:
        figures.extend(order["fig"] for order in orders)
        for order in orders:
            order["path"].write_bytes(b"whole")

    class Sliding(Plain):
        def plot(self) -> Any:
            return add_slider(super().plot(), {0: [{"y": [0]}], 50: [{"y": [1]}]}, prefix="step", traces=[0])

    monkeypatch.setattr(kaleido, "write_fig_from_object_sync", keep)
    write_figures([Sliding()], tmp_path)
    png, svg = figures
    assert png == svg and not {"sliders", "updatemenus", "frames"} & {name for name, value in png["layout"].items() if value}
    assert [note["text"] for note in png["layout"]["annotations"]] == ["step 50"]
    assert png["layout"]["template"]["layout"]["paper_bgcolor"] == "#ffffff"
