"""The states a model can be measured in: their names, the order in which they are shown, and their titles in tables."""

from __future__ import annotations

PRE_TRAINED = "pre-trained"
FINE_TUNING = "fine-tuning"
FINE_TUNED = "fine-tuned"
ISOLAYER = "isolayer"
ISOBN = "isobn"
COSREG = "cosreg"
ISTAR = "istar"
BEFORE = "before"
AFTER = "after"
DIFFERENCE = "difference"
# Of rows that say how closely a target follows a column; also the name of the record with all of it.
EXPLAINED = "explained"

# All states, earliest first.
STATES = (PRE_TRAINED, BEFORE, FINE_TUNING, FINE_TUNED, AFTER, ISOLAYER, ISOBN, COSREG, ISTAR, DIFFERENCE)

_TITLES = {ISOLAYER: "isotropy layer", ISOBN: "IsoBN", COSREG: "cosine regularisation", ISTAR: "I-STAR"}


def state_order(state: str) -> int:
    """The position of a state in STATES, for sorting; an unknown one comes last. Forms of a state stand where it stands."""
    name = base_state(state)
    return STATES.index(name) if name in STATES else len(STATES)


def base_state(state: str) -> str:
    """A state without what tells forms of it apart: "isolayer" of "isolayer, deeper"."""
    return state.partition(",")[0]


def state_title(state: str) -> str:
    """The title of a state in a table or a legend; what follows a comma in the name stays.

    Examples
    --------
    >>> state_title("isolayer, table 2")
    'isotropy layer, table 2'
    """
    name, comma, rest = state.partition(",")
    return _TITLES.get(name, name) + comma + rest
