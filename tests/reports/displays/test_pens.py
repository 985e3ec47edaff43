"""Pens: colour, symbol and dash tell series apart, and a state has one colour."""

from __future__ import annotations

from theodolite.core.states import ISOLAYER, PRE_TRAINED
from theodolite.reports.displays.pens import state_pens, unit_pens


def test_states_come_first_in_their_order_and_by_their_titles() -> None:
    pens = state_pens(["other", f"{ISOLAYER}, table 2", PRE_TRAINED])
    assert [pen.name for pen in pens.values()] == ["pre-trained", "isotropy layer, table 2", "other"]


def test_no_two_of_many_names_look_the_same() -> None:
    pens = state_pens([f"setting {i}" for i in range(24)])
    assert len({(pen.colour, pen.symbol, pen.dash) for pen in pens.values()}) == 24


def test_a_name_is_escaped_in_a_trace() -> None:
    (pen,) = state_pens(["<b>x</b>"]).values()
    assert pen.style()["name"] == pen.style()["legendgroup"] == "&lt;b&gt;x&lt;/b&gt;"


def test_units_of_one_state_and_step_share_a_colour() -> None:
    pens = unit_pens({name: [] for name in ("a, [CLS], last step", "a, tokens, last step", "a, tokens, before step 1")})
    colours = {name: pen.colour for name, pen in pens.items()}
    assert colours["a, [CLS], last step"] == colours["a, tokens, last step"] != colours["a, tokens, before step 1"]
    assert [name for name, pen in pens.items() if pen.dash == "dot"] == ["a, [CLS], last step"]
