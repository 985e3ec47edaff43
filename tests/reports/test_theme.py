"""One palette for white and near-black and for all eyes, and pens that tell series apart."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from theodolite.core.states import ISOLAYER, PRE_TRAINED
from theodolite.reports.theme import (
    CLASS_COLOURS,
    COLOURED_STATES,
    GREY,
    INK,
    PALETTE,
    RAMP,
    Pen,
    colours_of,
    panel_grid,
    ramp_colours,
    state_pens,
    template,
    unit_pens,
)

LIGHT, DARK = "#ffffff", "#14161a"
# Machado, Oliveira & Fernandes 2009, severity 1, on linear RGB.
EYES = {
    "usual": np.eye(3),
    "protan": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deutan": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
}


def linear(colour: str) -> NDArray[np.float64]:
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def lab(seen: NDArray[np.float64]) -> NDArray[np.float64]:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x = to_xyz @ np.clip(seen, 0, 1) / np.array([0.9505, 1, 1.089])
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("colour", [*PALETTE, GREY])
@pytest.mark.parametrize("ground", [LIGHT, DARK])
def test_lines_and_letters_stand_out_on_both_backgrounds(colour: str, ground: str) -> None:
    assert contrast(colour, ground) >= 3


def test_letters_for_one_background_are_easy_to_read() -> None:
    assert contrast(INK["light"], LIGHT) >= 7 and contrast(INK["dark"], DARK) >= 7 and contrast(INK["paper"], LIGHT) >= 7
    assert min(contrast(INK["any"], LIGHT), contrast(INK["any"], DARK)) >= 4


@pytest.mark.parametrize("eyes", EYES)
def test_colours_stay_apart_for_all_eyes(eyes: str) -> None:
    seen = [lab(EYES[eyes] @ linear(colour)) for colour in PALETTE]
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) > 15


def test_colours_that_are_too_similar_would_be_noticed() -> None:
    seen = [lab(EYES["deutan"] @ linear(colour)) for colour in ("#d55e00", "#b08a00")]
    assert float(np.linalg.norm(seen[0] - seen[1])) < 5


def test_the_ramp_gets_lighter_at_each_step_and_is_visible_on_both_backgrounds() -> None:
    steps = ramp_colours(13)
    light = [luminance(colour) for colour in steps]
    assert light == sorted(light) and len(set(light)) == 13
    assert (steps[0], steps[-1], steps[6]) == (RAMP[0], RAMP[-1], RAMP[2])
    assert min(min(contrast(colour, LIGHT), contrast(colour, DARK)) for colour in steps) > 2.5
    assert ramp_colours(1) == [RAMP[0]]


def test_a_state_has_one_colour_wherever_it_is() -> None:
    everywhere = colours_of(COLOURED_STATES)
    assert colours_of(["isobn"])["isobn"] == everywhere["isobn"]
    assert colours_of(["fine-tuned, tokens"])["fine-tuned, tokens"] == everywhere["fine-tuned"]
    mixed = colours_of(["mine", "pre-trained", "pre-trained, cls"])
    assert mixed["pre-trained"] == everywhere["pre-trained"]
    assert len(set(mixed.values())) == 3


def test_all_backgrounds_but_papers_are_transparent() -> None:
    assert {template(theme).layout.paper_bgcolor for theme in ("any", "light", "dark")} == {"rgba(0,0,0,0)"}
    assert template("paper").layout.plot_bgcolor == "#ffffff"


def test_classes_of_a_cloud_have_different_colours() -> None:
    assert len(set(CLASS_COLOURS)) == len(CLASS_COLOURS) == 12


def test_titles_of_panels_are_text() -> None:
    figure = panel_grid(["<b>x</b>", "y"])
    assert [each.text for each in figure.layout.annotations] == ["&lt;b&gt;x&lt;/b&gt;", "y"]


def test_states_come_first_in_their_order_and_by_their_titles() -> None:
    pens = state_pens(["other", f"{ISOLAYER}, table 2", PRE_TRAINED])
    assert [pen.name for pen in pens.values()] == ["pre-trained", "isotropy layer, table 2", "other"]


def test_no_two_of_many_names_look_the_same() -> None:
    pens = state_pens([f"setting {i}" for i in range(24)])
    assert len({(pen.colour, pen.symbol, pen.dash) for pen in pens.values()}) == 24


def test_a_name_is_escaped_in_a_trace() -> None:
    (pen,) = state_pens(["<b>x</b>"]).values()
    trace = pen.draw([(0, 1, "")])
    assert trace.name == trace.legendgroup == "&lt;b&gt;x&lt;/b&gt;"


def test_units_of_one_state_and_step_share_a_colour() -> None:
    pens = unit_pens({name: [] for name in ("a, [CLS], last step", "a, tokens, last step", "a, tokens, before step 1")})
    colours = {name: pen.colour for name, pen in pens.items()}
    assert colours["a, [CLS], last step"] == colours["a, tokens, last step"] != colours["a, tokens, before step 1"]
    assert [name for name, pen in pens.items() if pen.dash == "dot"] == ["a, [CLS], last step"]


def test_joined_lines_have_gaps_between_them() -> None:
    trace = Pen(name="n", colour="#000000").draw_together([[(0, 1, "a"), (1, 2, "b")], [(0, 3, "c")]])
    assert trace.x == (0, 1, None, 0, None) and trace.y == (1, 2, None, 3, None) and trace.text == ("a", "b", "", "c", "")
