"""Which columns hold the vectors, in frames, tables and series in memory and in files: those the user names, or the only ones.

pandas, polars, Arrow and Hugging Face datasets are recognised by their module, so that none of them has to be imported.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from theodolite.core.spelling import name_list, option

_MODULES = ("pandas", "polars", "pyarrow", "datasets")


def is_frame(X: Any) -> bool:
    """Whether something is a frame, a table, a dataset, or a series of one of the libraries that are known here."""
    return type(X).__module__.partition(".")[0] in _MODULES


def is_plain_frame(X: Any) -> bool:
    """Whether every column of a frame is one dimension, so that the frame can be taken as a whole."""
    module = type(X).__module__.partition(".")[0]
    if module not in ("pandas", "polars") or not hasattr(X, "columns") or not hasattr(X, "dtypes") or hasattr(X, "collect"):
        return False
    # pandas has kinds of NumPy, polars has names such as Float32.
    kinds = {getattr(entry, "kind", str(entry)[:1].lower()) for entry in X.dtypes}
    if len(X.columns) < 2 or kinds not in ({"f"}, {"i"}):
        return False
    try:
        return len(vector_columns(column_names(X), ["floats"] * len(X.columns))) == len(X.columns)
    except ValueError:  # raised again by whoever looks for the vectors
        return False


def frame_vectors(frame: Any, columns: Sequence[str] | None = None) -> NDArray[Any]:
    """The vectors of a frame with number columns or one column of vectors, or of a series of vectors."""
    if isinstance(columns, str):
        columns = columns.split(",")
    table = _arrow_table(frame)
    if table is not None:
        return _from_arrow(table, columns)
    if not hasattr(frame, "columns"):
        return _stacked(list(frame))
    places = _pandas_places(frame, columns)
    if _pandas_kind(frame.iloc[:, places[0]]) == "vectors":
        return _stacked(list(frame.iloc[:, places[0]]))
    chosen = frame if len(places) == frame.shape[1] and places == sorted(places) else frame.iloc[:, places]
    # Only types of pandas' own need it: a missing number becomes nan, which the gate names by row and column.
    if any(not isinstance(entry, np.dtype) for entry in chosen.dtypes):
        return np.asarray(chosen.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(chosen.to_numpy())


def other_frame_columns(frame: Any, columns: Sequence[str] | None = None) -> list[str]:
    """The names of a frame's columns that do not hold its vectors; none for a series."""
    if isinstance(columns, str):
        columns = columns.split(",")
    names, table = column_names(frame), _arrow_table(frame)
    if not names:
        return []
    if table is None:
        used = [names[i] for i in _pandas_places(frame, columns)]
    else:
        used = [table.schema.names[i] for i in _arrow_places(table, columns)]
    return [name for name in names if name not in used]


def frame_column(frame: Any, name: str) -> list[Any]:
    """The values of one column of a frame, such as the labels of its rows."""
    names = column_names(frame)
    places = choose_columns(names, [name])
    if len(places) > 1:
        raise ValueError(f"{name!r} names {len(places)} columns; name one of them")
    table = _arrow_table(frame, [names[places[0]]])
    return list(frame.iloc[:, places[0]]) if table is None else table.column(names[places[0]]).to_pylist()


def column_names(frame: Any) -> list[str]:
    """The names of a frame's columns; none for a series."""
    if hasattr(frame, "collect_schema") and hasattr(frame, "collect"):  # a frame of polars that is not computed yet
        return list(frame.collect_schema().names())
    names = getattr(frame, "column_names", None) or getattr(frame, "columns", None)
    return [] if names is None else [str(name) for name in names]


def arrow_kind(kind: Any) -> ColumnKind:
    """What a column of an Arrow type holds."""
    name = str(kind)
    if hasattr(kind, "value_type") and "list" in name:
        return "vectors" if arrow_kind(kind.value_type) in ("floats", "ints") else "other"
    if name.startswith(("float", "double", "halffloat")):
        return "floats"
    return "ints" if name.startswith(("int", "uint", "bool")) else "other"


def arrow_block(columns: dict[str, Any], *, d: int | None = None, start: int = 0) -> NDArray[Any]:
    """The vectors of some rows: of one column of lists, or of several columns of numbers."""
    import pyarrow.compute as compute

    name, values = next(iter(columns.items()))
    if arrow_kind(values.type) != "vectors":
        for name, values in columns.items():
            _refuse_nulls(name, values, start, "is missing; every entry must be a number")
        dtype = np.result_type(*(values.type.to_pandas_dtype() for values in columns.values()))
        block = np.empty((len(values), len(columns)), dtype)
        for i, values in enumerate(columns.values()):
            block[:, i] = _numbers(values)
        return block
    _refuse_nulls(name, values, start, "has no vector; drop such rows")
    lengths = compute.list_value_length(values).to_numpy(zero_copy_only=False) if len(values) else np.zeros(0, int)
    d = d if d is not None else int(lengths[0]) if len(lengths) else 0
    for row in np.flatnonzero(lengths != d)[:1]:
        problem = f"row {start + row} of column {name!r} has {lengths[row]} entries, the first has {d}"
        raise ValueError(f"{problem}; drop such rows")
    entries = values.flatten()
    _refuse_nulls(name, entries, start, "has a missing entry; every entry must be a number", width=max(1, d))
    return _numbers(entries).reshape(len(values), d)


def _numbers(values: Any) -> NDArray[Any]:
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _refuse_nulls(column: str, values: Any, start: int, problem: str, *, width: int = 1) -> None:
    """Raise an error that names the first row with a gap; `values` has `width` entries per row, from row `start` on."""
    if values.null_count:
        gap = int(np.flatnonzero(_numbers(values.is_null()))[0])
        raise ValueError(f"row {start + gap // width} of column {column!r} {problem}")


def _arrow_table(frame: Any, names: Sequence[str] | None = None) -> Any:
    """A frame as an Arrow table, if it is polars', Arrow's or a dataset; with `names` only those columns. None for pandas'."""
    module = type(frame).__module__.partition(".")[0]
    if module == "pandas":
        return None
    import pyarrow as pa

    if module == "datasets":
        if not hasattr(frame, "with_format") or not hasattr(frame, "__getitem__") or isinstance(frame, dict):
            kind = type(frame).__name__
            raise TypeError(f"a {kind} has no rows to read; choose a split, such as dataset['train'], loaded without streaming")
        frame = frame.select_columns(list(names or _vector_features(frame))).with_format("arrow")[:]
    elif module == "polars":
        frame = frame.collect() if hasattr(frame, "collect") else frame
        frame = frame.to_arrow()
    if isinstance(frame, (pa.Array, pa.ChunkedArray)):
        return pa.table({"vectors": frame})
    return frame


def _vector_features(dataset: Any) -> list[str]:
    """Columns of a dataset that could hold vectors: texts and images are not read."""
    schema = dataset.features.arrow_schema
    return [field.name for field in schema if arrow_kind(field.type) != "other"] or list(dataset.column_names)


def _from_arrow(table: Any, columns: Sequence[str] | None) -> NDArray[Any]:
    import pyarrow as pa

    names = list(table.schema.names)
    joined = {}
    for i in _arrow_places(table, columns):
        chunks = getattr(table.column(i), "chunks", [table.column(i)])
        joined[names[i]] = pa.concat_arrays(chunks) if chunks else pa.array([], table.schema.field(i).type)
    return arrow_block(joined)


def _arrow_places(table: Any, columns: Sequence[str] | None) -> list[int]:
    """Positions of the columns of an Arrow table that hold the vectors."""
    kinds = [arrow_kind(field.type) for field in table.schema]
    names = list(table.schema.names)
    return vector_columns(names, kinds, columns, first_values=lambda i: table.column(i)[:SAMPLED_ROWS].to_pylist())


def _pandas_places(frame: Any, columns: Sequence[str] | None) -> list[int]:
    """Positions of the columns of a frame of pandas that hold the vectors."""
    names = [str(name) for name in frame.columns]
    series = [frame.iloc[:, i] for i in range(len(names))]
    kinds = [_pandas_kind(column) for column in series]
    return vector_columns(names, kinds, columns, first_values=lambda i: series[i].iloc[:SAMPLED_ROWS].tolist())


def _pandas_kind(series: Any) -> ColumnKind:
    kind = getattr(series.dtype, "kind", "O")
    if kind == "f":
        return "floats"
    if kind in "iub":
        return "ints"
    first = next((value for value in series if value is not None), None)
    is_vector = not isinstance(first, (str, bytes)) and np.ndim(first) == 1 if first is not None else False
    return "vectors" if is_vector else "other"


def _stacked(values: Sequence[Any]) -> NDArray[Any]:
    """Vectors one below the other."""
    rows = [np.asarray(row) for row in values]
    shapes = {row.shape for row in rows}
    if len(shapes) > 1 or (rows and rows[0].ndim != 1):
        different = ", ".join(map(str, sorted(shapes)[:3]))
        raise ValueError(f"the entries of the series have the shapes {different}; each must be a vector, and all of one length")
    return np.asarray(rows)


# What a column holds: one vector per row, one number per row, or anything else.
ColumnKind: TypeAlias = Literal["vectors", "floats", "ints", "other"]

# Names of columns that number, label or date a row. As a dimension they would dominate all others.
_ROW_NAME = re.compile(
    r"|unnamed: 0|__index_level_0__|pmid|rowid|docid|uid|(.*[_ .-])?"
    r"(id|ids|idx|index|row|doc|label|labels|target|class|cluster|score|price|year|date|time|timestamp)"
)
# Rows that show what a column holds.
SAMPLED_ROWS = 20


def choose_columns(names: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Positions of the columns that a user names, in the user's order."""
    # Reversed, so that the first of two columns of one name counts.
    position = {name: i for i, name in reversed(list(enumerate(names)))}
    places: list[int] = []
    for column in columns:
        first, colon, last = column.partition(":")
        # A plain name first: it may hold a colon or an asterisk itself.
        if column in position:
            matches = [position[column]]
        elif colon and first in position and last in position:
            matches = list(range(position[first], position[last] + 1))
        else:
            matches = [i for i, name in enumerate(names) if fnmatchcase(name, column)]
        if not matches:
            raise ValueError(f"there is no column {column!r}; the columns are {name_list(names, most=8, near=column)}")
        places += matches
    if not places:
        raise ValueError("no column is chosen; name at least one")
    repeated, count = Counter(places).most_common(1)[0]
    if count > 1:
        raise ValueError(f"column {names[repeated]!r} is chosen twice; name each column once")
    return places


def vector_columns(
    names: Sequence[str],
    kinds: Sequence[ColumnKind],
    columns: Sequence[str] | None = None,
    *,
    first_values: Callable[[int], Sequence[Any]] = lambda _: (),
    is_named: bool = True,
) -> list[int]:
    """Positions of the columns that hold the vectors: those the user names, the only column of vectors, or the number columns.

    Columns of text are left out. Columns whose names are counted (d0, d1, d2, …) are taken without any others. If none are, row
    numbers, labels and whole numbers among the number columns are an error rather than a guess.
    """
    if columns is not None:
        places = choose_columns(names, columns)
        _require_numbers(names, kinds, places)
        return places
    vectors = [i for i, kind in enumerate(kinds) if kind == "vectors"]
    if len(vectors) > 1:
        several = ", ".join(names[i] for i in vectors)
        raise ValueError(f"there are several list columns ({several}); choose one with {option('columns', 'NAME')}")
    if vectors:
        return vectors
    numbers = [i for i, kind in enumerate(kinds) if kind in ("floats", "ints")]
    if not numbers:
        raise ValueError(f"no column holds numbers or vectors; the columns are {name_list(names, most=8)}")
    double, count = Counter(names[i] for i in numbers).most_common(1)[0]
    if count > 1:
        raise ValueError(f"column {double!r} occurs twice; give each column its own name")
    groups = _counted_groups(names, numbers) if is_named else {}
    for prefix, group in groups.items():
        counts = sorted(int(names[i].removeprefix(prefix)) for i in group)
        is_gapless = counts in (list(range(len(group))), list(range(1, len(group) + 1)))
        if len(groups) > 1 or (not is_gapless and len(group) < len(numbers)):
            problem = f"are {len(groups)} groups" if len(groups) > 1 else "have a gap, and there are other number columns"
            listed = name_list([f"{names[group[0]]}:{names[group[-1]]}" for group in groups.values()], most=4)
            longest = max(groups.values(), key=len)
            choice = option("columns", f"{names[longest[0]]}:{names[longest[-1]]}")
            raise ValueError(f"the counted columns {listed} {problem}; choose the columns of the vector, such as {choice}")
        numbers = group
        # Numbers alone also name the columns of a table that was read without its header, in which one may number the rows.
        if prefix and is_gapless:
            return group
    if problem := _suspicion(names, kinds, numbers, first_values, is_named=is_named):
        raise ValueError(problem)
    return numbers


def _suspicion(
    names: Sequence[str],
    kinds: Sequence[ColumnKind],
    numbers: Sequence[int],
    first_values: Callable[[int], Sequence[Any]],
    *,
    is_named: bool,
) -> str:
    """What is wrong with taking all number columns for dimensions: one of them numbers, labels or dates the rows."""
    if len(names) == 1:
        return ""
    others = [name for name, kind in zip(names, kinds, strict=True) if kind == "other"]
    named = [i for i in numbers if is_named and _ROW_NAME.fullmatch(names[i].strip().lower())]
    integers = [i for i in numbers if kinds[i] == "ints"]
    if named:
        suspects, problem = named, "looks like a row number or label, not a dimension"
    elif 0 < len(integers) < len(numbers):
        suspects, problem = integers, f"holds whole numbers, {len(numbers) - len(integers)} other columns hold floats"
    elif len(numbers) == 1 and others:
        suspects, problem = list(numbers), f"alone holds numbers, next to {name_list(others, most=4)}"
    else:
        suspects, problem = [i for i in numbers if _counts_rows(first_values(i))], "counts up like a row number, others do not"
        if len(suspects) == len(numbers):
            return ""
    if not suspects:
        return ""
    rest = [i for i in numbers if i not in suspects]
    is_range = bool(rest) and rest[-1] - rest[0] == len(rest) - 1
    choice = option("columns", f"{names[rest[0]]}:{names[rest[-1]]}" if is_range else "NAMES")
    return f"column {names[suspects[0]]!r} {problem}; choose the columns of the vector with {choice}"


def _counts_rows(values: Sequence[Any]) -> bool:
    """Whether numbers are whole and each is one more than the last; ten may also rise by other steps, as no vector's would."""
    if len(values) < 3 or not all(
        isinstance(value, int) or (isinstance(value, float) and value.is_integer()) for value in values
    ):
        return False
    steps = [after - before for before, after in pairwise(values)]
    return set(steps) == {1} or (len(values) >= 10 and min(steps) > 0)


def _require_numbers(names: Sequence[str], kinds: Sequence[ColumnKind], places: Sequence[int]) -> None:
    for i in places:
        if names.count(names[i]) > 1:
            raise ValueError(f"column {names[i]!r} occurs twice; give each column its own name")
        if kinds[i] == "vectors" and len(places) > 1:
            raise ValueError(f"column {names[i]!r} holds whole vectors; choose it alone, not with {len(places) - 1} more")
        if kinds[i] == "other":
            choice = option("columns", "NAMES")
            raise ValueError(f"column {names[i]!r} does not hold numbers; choose the columns of the vector with {choice}")


def _counted_groups(names: Sequence[str], numbers: Sequence[int]) -> dict[str, list[int]]:
    """The number columns that have a count at the end of their name, by what is before it, if two or more share that."""
    groups: dict[str, list[int]] = {}
    for i in numbers:
        if match := re.fullmatch(r"(.*?)[0-9]{1,9}", names[i]):
            groups.setdefault(match[1], []).append(i)
    return {prefix: group for prefix, group in groups.items() if len(group) > 1}
