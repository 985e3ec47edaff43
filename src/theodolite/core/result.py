"""The Result of a verb: rows, findings and verdicts, pictures, item-level records, and where all of it comes from."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, get_args, overload

import numpy as np

from theodolite.core.declared import as_declared
from theodolite.core.files import (
    Marker,
    atomic_files,
    parse_json,
    reading,
    recover_files,
    recover_folder,
    sha256_of,
    write_json,
)
from theodolite.core.pictures import Picture, read_picture, write_picture
from theodolite.core.rows import HASH, ROW_ENDINGS, Row, read_rows, values_hash, write_rows

if TYPE_CHECKING:
    import pandas
    import pyarrow

FORMAT = 1
SCHEMA = 2  # of what `to_dict` returns, for programs that read it; 1 had no answer
ABOUT = "result.json"
ROWS = "rows.parquet"
AGAIN = "run the verb again"

Severity: TypeAlias = Literal["good", "watch", "bad"]
# Of measured rows; and of printed ones, which have no intervals.
Outcome: TypeAlias = Literal["supported", "contradicted", "inconclusive", "not measured", "agrees", "disagrees", "not printed"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


# How the rows of two sides that correspond are related; `theodolite.probes.correspondence` names the first that holds.
RELATIONS = (
    "identical",
    "same up to precision",
    "same up to length",
    "nearly the same",
    "first dimensions",
    "turned",
    "linear map",
    "partly re-embedded",
    "different",
)
# The words that the answer of each verb may have; those of a survey get worse. A study's answer counts its outcomes instead.
VERDICTS: Mapping[str, tuple[str, ...]] = {
    "survey": ("not judged", "OK", "watch", "bad"),
    "compare": (*RELATIONS, "no shift found", "shifted"),
    "verify": (*RELATIONS, "another setting", "another model"),
    "probe": ("separable", "separable by dimension alone", "not separable"),
    "advise": ("apply", "leave it alone", "not shown"),
    "migrate": ("keep", "bridge", "two-stage", "re-index", "not shown"),
    "repair": ("written", "self-test passed", "self-test failed"),
    "calibrate": ("separates", "does not separate", "cutoff only"),
    "gate": ("pass", "breach"),
    "tune": ("learned", "not learned", "collapsed"),
}


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command to paste, or in Python a call.

    Parameters
    ----------
    words
        The command, as it is typed.
    why
        What it is for, in a few words.
    """

    words: str
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a verb concludes.

    Parameters
    ----------
    verdict
        One of the verb's words in `VERDICTS`.
    sentence
        The conclusion in one plain sentence, with its number.
    reasons
        At most three further sentences.
    next
        What to run next, usually one command.
    """

    verdict: str
    sentence: str
    reasons: tuple[str, ...] = ()
    next: tuple[Command, ...] = ()

    def __post_init__(self) -> None:
        if len(self.reasons) > 3:
            raise ValueError(f"an answer has {len(self.reasons)} reasons; it may have at most three")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One judged number of a survey.

    Parameters
    ----------
    topic, verdict
        What it is about, and how it is: good, watch or bad.
    value, metric
        The judged number, and the metric it comes from.
    healthy, source
        The healthy range in words, and where the range comes from.
    meaning, action
        What the number means here, and what that is known to cost or what to look at; no action if it is good.
    command
        What to paste to measure it; empty if the answer of the result has it.
    cause
        What the number comes from, such as "mean" or "duplicates", or "unexplained"; empty if it is good.
    rows, names
        Row numbers of a few examples, and their ids or texts if the input has any.
    model, layer
        What was surveyed.
    """

    topic: str
    verdict: Severity
    value: float
    metric: str
    healthy: str
    source: str
    meaning: str
    action: str
    command: str = ""
    cause: str = ""
    rows: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    model: str = ""
    layer: int | None = None

    def __repr__(self) -> str:
        cause = f" ({self.cause})" if self.cause else ""
        return f"<{'OK' if self.verdict == 'good' else self.verdict}: {self.topic}, {self.metric} {self.value:.4g}{cause}>"

    def __str__(self) -> str:
        return f"{self.topic}: {self.meaning}"

    @property
    def severity(self) -> int:
        """0 for good, 1 for watch, 2 for bad."""
        return get_args(Severity).index(self.verdict)


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One quantity that a verdict is based on.

    Parameters
    ----------
    name, value
        What it is, and the number.
    low, high, level
        Its interval, if it has one, and the coverage of that interval.
    n, how
        The number of items behind it, and what the interval covers.
    counts
        The number of items by task, if it is a mean over tasks.
    primary
        Whether it decides the verdict; otherwise it is only shown.
    claimed, side, boundary
        Where the claim expects it, such as "above 0"; on which side ("above", "below" or "inside") of which number that is.
    place
        Where it is: "for" or "against" the claim, "open", "scale" (scale alone could explain it), "one run" or "quick run" (which
        decide nothing), or "no interval"; empty for printed numbers.
    more, more_of
        How many more units of which kind would decide it if it is as large as observed; None if up to ten times as many would
        not, or none can be drawn.
    """

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    level: float = 0.95
    n: int | None = None
    how: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    primary: bool = True
    claimed: str = ""
    side: str = ""
    boundary: float = 0.0
    place: str = ""
    more: int | None = None
    more_of: str = ""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The outcome of a claim's rule on one set of rows.

    Parameters
    ----------
    source
        Whose rows: measured here, or the table that printed them.
    outcome, why
        The outcome, and one sentence with the figures behind it.
    effects
        The quantities behind it, those that decide first.
    command
        What to run to decide an open claim; empty if no run would.
    lean
        "for" if every deciding effect points the claimed way, "against" if one does not; empty if there is none.
    unmet
        What of the claim's premises does not hold: "learned", "pre-trained", or "layers" if the encoder has too few; empty if
        all do.
    part
        The part of the claim that was judged, if a premise of the rest does not hold.
    encoders
        The encoders that it stands on, each with what it is.
    seeds, tasks
        The fine-tuning seeds and the tasks that entered.
    left_out
        Tasks that did not enter, each with the reason.
    remarks
        What a reader of the outcome must know besides.
    """

    source: str
    outcome: Outcome
    why: str
    effects: tuple[Effect, ...] = ()
    command: str = ""
    lean: str = ""
    unmet: str = ""
    part: str = ""
    encoders: Mapping[str, str] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    tasks: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim, judged on one model's measured rows and on the rows that its sources print.

    Parameters
    ----------
    claim, title, rule
        The claim's id, its title, and the name of the rule that judges it.
    model
        The model that was measured.
    measured, printed
        The outcome on measured rows, and on each printed table.
    stated
        What the paper itself says, in its own words or nearly so.
    """

    claim: str
    title: str
    rule: str
    model: str
    measured: Judged
    printed: tuple[Judged, ...] = ()
    stated: str = ""


class InputFacts(TypedDict, total=False):
    """What a result says of one input; a verb may add more."""

    name: str
    unit: str | None
    dtype: str | None
    texts: str
    n: int | None
    d: int | None
    held_out: int


class Provenance(TypedDict, total=False):
    """What reports and gates read of a result's provenance; a verb may add more."""

    command: str
    date: str
    versions: str
    name: str
    study: str
    inputs: list[InputFacts | str]
    settings: dict[str, Any]
    tables: list[dict[str, Any]]
    advice: dict[str, Any]
    rerun: dict[str, Any]
    own_tasks: dict[str, str]
    step_hashes: dict[str, str]
    outcome: dict[str, Any]
    failed: list[dict[str, str]]


@dataclass(frozen=True, kw_only=True)
class _About:
    """The content of `result.json`."""

    format: int
    verb: str
    title: str
    notes: tuple[str, ...]
    provenance: Provenance
    findings: tuple[Finding, ...]
    verdicts: tuple[Verdict, ...]
    files: dict[str, str]
    answer: Answer | None = None
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Result(Sequence[Row]):
    """What a verb measured: a sequence of rows that also knows what they mean and where they come from.

    Parameters
    ----------
    verb
        The verb that made it: `survey`, `compare`, `probe`, `tune`, `study`.
    title
        What was measured, in a few words.
    answer
        The conclusion; None for what was measured before there were answers, and for tables without one.
    rows
        The numbers.
    findings
        What a survey's numbers mean, worst first.
    verdicts
        A study's claims, judged.
    pictures
        Clouds of points, for the report.
    records
        Item-level tables by name (per-pair cosines, centroid paths, spectra), for the report and for claims.
    conditions
        On how much the result stands, if that is not all there is: samples, quick runs.
    notes
        Sentences that belong next to the numbers: what was dropped or left out, and why.
    provenance
        Command, inputs, settings, models and versions, as plain values.
    """

    verb: str
    title: str = ""
    answer: Answer | None = None
    rows: tuple[Row, ...] = ()
    findings: tuple[Finding, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    pictures: tuple[Picture, ...] = ()
    records: Mapping[str, pyarrow.Table] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require_verdict(self.verb, self.answer)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, index: int | slice) -> Row | tuple[Row, ...]:
        return self.rows[index]

    def __repr__(self) -> str:
        return str(_drawing().text_of(self))

    def _repr_html_(self) -> str:
        return str(_drawing().html_of(self))

    @property
    def inputs(self) -> list[Mapping[str, Any]]:
        """What the provenance says of each input: its name, and often its unit, n and d."""
        return [facts if isinstance(facts, Mapping) else {"name": str(facts)} for facts in self.provenance.get("inputs") or ()]

    def where(self, **values: Any) -> Result:
        """The same result with only the rows whose fields have these values.

        Parameters
        ----------
        values
            Fields of a row and what they must equal, such as `metric="iso_score", layer=6`.
        """
        unknown = next((name for name in values if name not in Row.FIELDS), None)
        if unknown is not None:
            raise ValueError(f"a row has no field {unknown!r}; it has {', '.join(Row.FIELDS)}")
        matching = tuple(row for row in self.rows if all(getattr(row, name) == value for name, value in values.items()))
        return replace(self, rows=matching)

    def value(self, metric: str, **values: Any) -> float:
        """The one value of a metric among the rows that match; an error if there is none, or more than one.

        Parameters
        ----------
        metric
            Name of the metric.
        values
            Further fields of the row, such as `layer=6` or `state="after"`.
        """
        matching = self.where(metric=metric, **values).rows
        if len(matching) != 1:
            conditions = ", ".join(f"{name}={value!r}" for name, value in {"metric": metric, **values}.items())
            raise LookupError(
                f"{len(matching)} rows have {conditions}; name fields that only one row has, such as layer or state"
            )
        return matching[0].value

    def frame(self) -> pandas.DataFrame:
        """All rows as a pandas DataFrame, one column per field of a row that any of them has."""
        # Not a dependency: whoever wants a frame has pandas.
        try:
            import pandas
        except ImportError:
            raise ImportError("a frame needs pandas; install it with: pip install pandas") from None
        kept = [
            name
            for name in Row.FIELDS
            if not self.rows or name in ("metric", "value") or any(getattr(row, name) not in (None, "") for row in self.rows)
        ]
        return pandas.DataFrame([asdict(row) for row in self.rows], columns=kept)

    def plot(self, name: str | None = None) -> Any:
        """A Plotly figure of the result.

        Parameters
        ----------
        name
            Which of its figures, by the name that the report gives it; the first one by default.
        """
        return _drawing().figure_of(self, name)

    def report(self, path: str | os.PathLike[str], *, text: bool = True, overwrite: bool = True) -> Path:
        """Write the result as one HTML file that loads nothing from the network; as Markdown or LaTeX by the ending of the name.

        Parameters
        ----------
        path
            The `.html`, `.md` or `.tex` file to write.
        text
            Whether sentences and tokens may appear on the page.
        overwrite
            Whether an earlier report of that name may be replaced; any other file never is.
        """
        return Path(_drawing().report(self, to=path, text=text, overwrite=overwrite))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the rows to a `.parquet`, `.json` or `.jsonl` file, or the whole result to a folder of any other name.

        A folder can be read back with `Result.load`, shown with `theodolite report`, and compared with later runs.

        Parameters
        ----------
        path
            The file or folder to write. A folder with a result of the same verb is updated, with all of the new result or none
            of it; other files in it stay.

        Raises
        ------
        FileExistsError
            The folder has files that this would replace and that are not of a result of the same verb.
        """
        path = Path(path)
        if path.suffix in ROW_ENDINGS:
            write_rows(self.rows, path)
            return path
        require_result_folder(path, self.verb)
        import pyarrow.parquet as parquet

        path.mkdir(parents=True, exist_ok=True)
        with atomic_files(path, ABOUT) as folder:
            require_result_folder(path, self.verb)  # again: another process may have written it since
            write_rows(self.rows, folder / ROWS)
            names = [ROWS]
            for number, picture in enumerate(self.pictures, start=1):
                names.append(f"pictures/{number:02d}.parquet")
                (folder / "pictures").mkdir(exist_ok=True)
                write_picture(picture, folder / names[-1])
            for name, table in self.records.items():
                names.append(f"records/{name}.parquet")
                (folder / "records").mkdir(exist_ok=True)
                parquet.write_table(table, folder / names[-1], compression="zstd")
            about = self.to_dict()
            del about["rows"], about["schema"]
            about |= {"format": FORMAT, "files": {name: sha256_of(folder / name) for name in names}}
            about = json.loads(json.dumps(about))  # as it is read, where all keys are texts
            write_json(folder / ABOUT, {**about, HASH: values_hash(about)})
        return path

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Read what `save` wrote: a folder, or a file of rows.

        Nothing outside the folder is read, and every file is compared with the hash it was saved with.

        Parameters
        ----------
        path
            A folder that a verb or `save` wrote, or a `.parquet`, `.json` or `.jsonl` file of rows.

        Raises
        ------
        FileNotFoundError
            There is nothing at that path, or one of the result's files is missing.
        ValueError
            The folder does not hold a result as it was saved; the message names the file and what is wrong with it.
        """
        path = Path(path)
        recover_folder(path)
        if path.is_file():
            return cls(verb="rows", title=f"Rows of {path.name}", rows=_rows(path))
        if not path.is_dir():
            raise FileNotFoundError(f"there is no result {path}; name a folder that a verb wrote, or a file of rows")
        recover_files(path, ABOUT)
        about = _about(path)
        # The rows are checked even if the list of files leaves them out.
        files = {name: _inside(path, name) for name in {ROWS: "", **about.files}}
        for name, file in files.items():
            if sha256_of(file) != about.files.get(name):
                raise ValueError(f"{file} is not the file that was saved: its SHA-256 differs; {AGAIN}")
        return cls(
            rows=_rows(files[ROWS]),
            pictures=tuple(read_picture(file) for name, file in files.items() if name.startswith("pictures/")),
            records={file.stem: read_records(file) for name, file in files.items() if name.startswith("records/")},
            **{
                name: getattr(about, name)
                for name in ("verb", "title", "answer", "findings", "verdicts", "conditions", "notes", "provenance")
            },
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: all but pictures and records; nan and infinity become null."""
        values = {"schema": SCHEMA, "answer": None if self.answer is None else _plain(asdict(self.answer))}
        values |= {name: _plain(getattr(self, name)) for name in ("verb", "title", "conditions", "notes", "provenance")}
        values |= {name: [_plain(asdict(item)) for item in getattr(self, name)] for name in ("rows", "findings", "verdicts")}
        return values

    @classmethod
    def joined(cls, results: Sequence[Result], *, title: str = "") -> Result:
        """Several results of one verb as one: all rows, findings, verdicts, pictures, records and notes, in order.

        The answers of surveys become one: the worst verdict, and what each input came to.

        Parameters
        ----------
        results
            At least one result. Tables of the same name in `records` are joined, one under the other.
        title
            Title of the whole; by default the titles of the parts.
        """
        first = results[0]
        if len(results) == 1:
            return replace(first, title=title or first.title)
        sequences: dict[str, Any] = {
            name: tuple(item for result in results for item in getattr(result, name))
            for name in ("rows", "findings", "verdicts", "pictures", "conditions", "notes")
        }
        tables = dict.fromkeys(name for result in results for name in result.records)
        inputs = [item for result in results for item in result.provenance.get("inputs", ())]
        return cls(
            verb=first.verb,
            title=title or ", ".join(result.title for result in results),
            answer=_joined_answer(results) if first.verb == "survey" else None,
            records={name: _stacked([result.records[name] for result in results if name in result.records]) for name in tables},
            provenance={**first.provenance, "inputs": inputs},
            **sequences,
        )


def _joined_answer(results: Sequence[Result]) -> Answer | None:
    """The answer of the result with the worst verdict, in a sentence that names every result."""
    answers = [result.answer for result in results if result.answer is not None]
    if len(answers) < len(results):
        return None
    worst = max(answers, key=lambda answer: VERDICTS["survey"].index(answer.verdict))
    names = {
        verdict: [r.title for r, a in zip(results, answers, strict=True) if a.verdict == verdict]
        for verdict in VERDICTS["survey"]
    }
    listed = "; ".join(f"{verdict}: {', '.join(names[verdict])}" for verdict in reversed(names) if names[verdict])
    return replace(worst, sentence=f"Of {len(results)} inputs, {listed}.", reasons=(worst.sentence,))


def require_result_folder(path: str | os.PathLike[str], verb: str) -> Path:
    """The folder, if a result could be saved to it; called before long work rather than after it."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"{path} is a file; name a folder, or a file that ends in {', '.join(ROW_ENDINGS)}")
    other = next((path / name for name in (ABOUT, ROWS, "pictures", "records") if (path / name).exists()), None)
    if other is not None and not Marker(ABOUT, verb).is_in(path):
        raise FileExistsError(
            f"{other} does not belong to a result of the verb {verb}, so it is not replaced; use another folder"
        )
    return path


def table_of(records: Iterable[Mapping[str, Any]]) -> pyarrow.Table:
    """Records as a table for `Result.records`."""
    import pyarrow

    return pyarrow.Table.from_pylist([dict(record) for record in records])


def read_records(path: Path) -> pyarrow.Table:
    """One table of a result's records."""
    import pyarrow.parquet as parquet

    with reading(path, "a table of records", again=AGAIN):
        return parquet.read_table(path)


class LateTables(Mapping[str, "pyarrow.Table"]):
    """Tables for `Result.records` that are made when they are first asked for.

    Arrow imports pandas with its first table, which would double the time of a small survey that is only printed.
    """

    def __init__(self, records: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self._records = dict(records)
        self._tables: dict[str, pyarrow.Table] = {}

    def extended(self, records: Mapping[str, Sequence[Mapping[str, Any]]]) -> LateTables:
        """The same with further lines, or further tables."""
        return LateTables({**self._records, **{name: [*self._records.get(name, ()), *more] for name, more in records.items()}})

    def __getitem__(self, name: str) -> pyarrow.Table:
        if name not in self._tables:
            self._tables[name] = table_of(self._records[name])
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)


def _require_verdict(verb: str, answer: Answer | None) -> None:
    words = VERDICTS.get(verb)
    if answer is not None and words is not None and answer.verdict not in words:
        raise ValueError(f"{answer.verdict!r} is not a verdict of {verb}; it must be one of {', '.join(words)}")


def _drawing() -> Any:
    # The one upward import, late and by name: a result draws itself, as a pandas frame does, but the drawing is in `reports`.
    return import_module("theodolite.reports.drawing")


def _stacked(tables: Sequence[pyarrow.Table]) -> pyarrow.Table:
    import pyarrow

    # Permissive: records may be stored in single precision, or lack a column that later releases have.
    return pyarrow.concat_tables(tables, promote_options="permissive")


def _plain(value: Any) -> Any:
    """Values as JSON has them: lists for tuples, None for nan and infinity, Python's numbers for NumPy's."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _inside(folder: Path, name: str) -> Path:
    """A file of the folder, refused if it is missing or a link that leads out of it."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{path} points outside the result's folder, to {path.resolve()}; copy the file itself into the folder")
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; {AGAIN}")
    return path


def _about(folder: Path) -> _About:
    if not (folder / ABOUT).is_file():
        raise ValueError(f"{folder} does not hold a result: it has no {ABOUT}; name a folder that a verb finished writing")
    text = _inside(folder, ABOUT).read_bytes()
    try:
        about = parse_json(text)
    except ValueError as error:
        raise ValueError(f"{folder / ABOUT} is not JSON ({error}); {AGAIN}") from error
    if not isinstance(about, dict) or not isinstance(about.get("files"), dict):
        raise ValueError(f"{folder / ABOUT} does not describe a result; {AGAIN}")
    # Results of earlier releases have no hash of this file.
    if (digest := about.pop(HASH, None)) is not None and digest != values_hash(about):
        raise ValueError(f"{folder / ABOUT} is not the file that was saved: its SHA-256 differs; {AGAIN}")
    if about.get("format") != FORMAT:
        raise ValueError(f"{folder / ABOUT} has format {about.get('format')!r}; this version reads format {FORMAT}")
    try:
        described: _About = as_declared(_About, about)
        _require_verdict(described.verb, described.answer)
    except ValueError as error:
        raise ValueError(f"{folder / ABOUT} does not describe a result ({error}); {AGAIN}") from None
    return described


def _rows(path: Path) -> tuple[Row, ...]:
    try:
        return tuple(read_rows(path))
    except ValueError as error:
        raise ValueError(f"{path} does not hold rows ({error}); {AGAIN}") from error
