"""What a picture of a space shows with each point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from theodolite.spaces.space import Space

# Names in a picture, and the columns of a space they come from; of two columns for one name the last counts.
_COLUMNS = (("token", "word"), ("token", "token"), ("text", "sentence"), ("label", "label"))


def picture_columns(space: Space, texts: Any = None) -> dict[str, Sequence[Any]]:
    """What a picture keeps of each row: `token`, `text`, `label` and `frequency`, as far as they are known.

    Parameters
    ----------
    space
        The space whose vectors are drawn.
    texts
        The texts or `Examples` that were encoded. Rows of tokens hold the number of their text, and get the text itself from
        here; without it they have none.

    Returns
    -------
    dict
        One value per row under each name. `frequency` is on the Zipf scale, None for a word that is not known.
    """
    rows = space.rows
    columns = {name: rows[column] for name, column in _COLUMNS if column in rows}
    if "text" not in columns and "text" in rows and texts is not None:
        sides = rows["side"] if "side" in rows else [0] * space.n
        first = getattr(texts, "texts", texts)
        second = getattr(texts, "second", None) or first
        columns["text"] = [(second if side else first)[number] for number, side in zip(rows["text"], sides, strict=True)]
    if "frequency" in rows:
        # A frequency of 0 is what wordfreq gives for a word it does not have.
        columns["frequency"] = [float(value) if value and value == value else None for value in rows["frequency"]]
    return columns
