"""The public side of studies: `study(name)` gives a `Study`, which plans, runs, judges and checks itself."""

from __future__ import annotations

import inspect
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from theodolite.core.engines import chosen_engine
from theodolite.core.files import UNFINISHED, Lock
from theodolite.core.pictures import Picture
from theodolite.core.result import ABOUT, Result, require_result_folder, table_of
from theodolite.core.rows import current_versions, today
from theodolite.core.spelling import ON_COMMAND_LINE, command_line, option, shell_word, with_options
from theodolite.core.states import PRE_TRAINED
from theodolite.spaces.readers.data_files import DataError
from theodolite.studies.claims.evidence import ModelOrigin
from theodolite.studies.claims.judging import Check, Rerun, chance_note, compare_printed, judge_claims, study_answer
from theodolite.studies.claims.paper_tables import paper_table_cells
from theodolite.studies.requests import Layers, ModelNames, Request, Tasks, identify_models, load_plan
from theodolite.studies.runner import Outcome, StepReport, Watcher, run_steps
from theodolite.studies.slices import Slices, first_pictures, merge_slices
from theodolite.studies.spec import Claim, StudySpec, load_spec
from theodolite.studies.steps import Step, Store, in_order
from theodolite.verbs.inputs import Paths, Reading

if TYPE_CHECKING:
    from theodolite.models.location import Download

# Where runs are kept, relative to the working directory, unless a folder is given; and the folder of the steps inside of it.
FOLDER = "theodolite-studies"
STEPS = "steps"
SLICES = "slices.json"
# Begins the title of a run with small sizes.
QUICK = "Quick run, not final"
SMALL_SIZES = "Made with the study's small sizes, so that intervals are wide and no claim is decided."
# Columns of a picture that hold what people wrote.
TEXT_COLUMNS = ("text", "token")
# Points of a picture that `export` keeps.
EXPORTED_POINTS = 3_000


# Options of a run that describe files of the user's own.
OWN_FILES = ("own", "kind", "column", "score_range", "encoding")


class RunOptions(TypedDict, total=False):
    """What decides the steps of a run; `Study.run` describes them."""

    data: str | os.PathLike[str] | None
    tasks: Tasks | None
    seeds: Iterable[int] | None
    layers: Layers | None
    quick: bool
    settings: Mapping[str, Any] | None
    origin: str | None
    to: str | os.PathLike[str] | None
    own: Mapping[str, Paths] | None
    kind: str | None
    column: Mapping[str, str] | None
    score_range: tuple[float, float] | None
    encoding: str | None
    trust_remote_code: bool
    trust_plan: bool


def study(name: str | os.PathLike[str]) -> Study:
    """A study by its name, or from a TOML file of the user's own.

    Parameters
    ----------
    name
        One of `study_names()`, such as "rp21", or the path of a `.toml` file.

    Raises
    ------
    DataError
        There is no such study or file, or something in the file is wrong.

    Examples
    --------
    >>> study("rp21").claims[0].title
    'Still anisotropic after fine-tuning'
    """
    return Study(load_spec(name))


@dataclass(frozen=True)
class PlannedStep:
    """A step of a plan: what it is, and whether its result is there already."""

    title: str
    kind: str
    done: bool


@dataclass(frozen=True, repr=False)
class Plan:
    """The steps of a run in the order they are done; prints as one line per step, and what would be downloaded."""

    steps: tuple[PlannedStep, ...]
    downloads: tuple[Download, ...] = ()

    @property
    def missing(self) -> int:
        """How many steps are still to do."""
        return sum(not step.done for step in self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        lines = [f"{'done   ' if step.done else 'missing'}  {step.title}" for step in self.steps]
        lines += [f"{len(self)} steps, {self.missing} missing", *map(str, self.downloads)]
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class Study:
    """A paper's experiment, ready to run on one's own encoders.

    Parameters
    ----------
    spec
        The content of its TOML file.
    """

    spec: StudySpec

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def title(self) -> str:
        return self.spec.title

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What the paper claims."""
        return self.spec.claims

    def __repr__(self) -> str:
        counts = f"{len(self.claims)} claims, {len(self.spec.printed)} printed numbers"
        return f"Study({self.spec.reference!r}: {counts}; {self.title})"

    def show(self) -> str:
        """The study's TOML file, which can be saved under another name and changed."""
        return Path(self.spec.path).read_text(encoding="utf-8")

    def folder(self, to: str | os.PathLike[str] | None = None) -> Path:
        """The folder of a run.

        Parameters
        ----------
        to
            The folder that the user named; `theodolite-studies/NAME` in the working directory by default.
        """
        return Path(FOLDER) / self.name if to is None else Path(to)

    def run(
        self,
        models: ModelNames,
        *,
        workers: int | None = None,
        engine: str | None = None,
        dry_run: bool = False,
        text: bool = True,
        progress: bool | Watcher | None = None,
        **options: Unpack[RunOptions],
    ) -> Result:
        """Run what is missing of the study, judge its claims, and save the result to the run's folder.

        Every step is kept under a hash of all that decides its result: the same call continues where an earlier one stopped, and
        a changed setting repeats only what depends on it. A step that fails does not stop the others; it is named in the notes
        and under `provenance["failed"]`.

        Parameters
        ----------
        models
            Encoders to run with: Hub ids (`ID@REVISION` for another revision than the study's, or than the newest), folders, or
            "demo".
        data
            The folder with the tasks' own files; None reads them from the Hub.
        tasks
            Only these tasks of the study, by name; or `Task` objects, to run the study on data of one's own. Claims over several
            tasks are then judged over the tasks that were run.
        seeds
            Seeds of the fine-tunings; the study's own by default. Runs into one folder with other seeds or tasks, and all else
            equal, are slices of one run: the result has them all.
        layers
            Only these layers: numbers, "last", or text such as "0,6,12"; by default those that the study uses.
        quick
            Whether to use the study's small sizes, which take minutes and give wide intervals.
        settings
            Settings of the study to change, by dotted name, such as `{"tuning.epochs": 1}`.
        origin
            What the last training of the encoders was that the study does not know: "pre-trained" for language modelling, or
            "tuned". Claims about a pre-trained encoder are not judged on any other.
        to
            The run's folder; `theodolite-studies/NAME` by default.
        workers, engine
            Where the work runs: a number of workers on this machine, or the address of a Dask scheduler, such as
            `tcp://10.0.0.1:8786`. What `joblib.parallel_config` says, or one step after
            the other in this process, by default. Every worker must see the run's folder and the models.
        own, kind, column, score_range, encoding
            The user's own files by split, to run the study on them, as `theodolite.verbs.inputs.Reading` describes them.
        trust_remote_code
            Whether to run code that comes with the models; the study's file cannot allow it.
        dry_run
            Whether to do nothing and write nothing: the result has what earlier runs have measured.
        text
            Whether the pictures keep the sentence and the token of each point.
        trust_plan
            Whether to run the plan of a study of one's own, which is Python code next to its TOML file.
        progress
            True or False to report finished steps on stderr or not; None does so in a terminal and on the command line. An object
            with `begins`, `ends` and `fails` is called instead.

        Returns
        -------
        Result
            Rows, verdicts, pictures, and the records "paths", "spectra" and "paper_tables" (the cells of the paper's tables
            with what was measured in them).
        """
        request, folder, steps = self._requested(models, options)
        # Earlier runs with other settings share the store; a key says which of its steps this run may use.
        store = Store(folder / STEPS)
        finished = [step for step in steps if store.has(step)]
        slices, command = Slices(folder / SLICES, request), command_line() or self._call(request)
        if dry_run:
            return self._result(request, slices.merged(steps), store, Outcome(reused=finished), command, text=text)
        require_result_folder(folder, "study")
        UNFINISHED.add(folder)
        with chosen_engine(workers, engine), _watching(progress, len(steps), len(finished)) as watcher:
            outcome = run_steps(steps, store, request.sources, watcher=watcher)
        with Lock(folder / STEPS, wait=math.inf):  # another slice may end at the same time: the last one has them both
            merged, commands = slices.keep(steps, command)
            result = self._result(request, merged, store, outcome, commands, text=text)
            result.save(folder)
        UNFINISHED.discard(folder)
        return result

    def plan(self, models: ModelNames, *, downloads: bool = False, **options: Unpack[RunOptions]) -> Plan:
        """The steps of a run, and which of them are done; nothing is run.

        Parameters
        ----------
        models
            Encoders to run with, as for `run`.
        downloads
            Whether to say what the Hub would send for each model.
        **options
            As for `run`: all but where the work runs and what is shown.
        """
        request, folder, steps = self._requested(models, options)
        store = Store(folder / STEPS)
        planned = tuple(PlannedStep(step.title, step.action.kind, store.has(step)) for step in steps)
        if not downloads:
            return Plan(planned)
        from theodolite.models.location import download_of

        locations, revisions = request.sources.models, request.sources.revisions
        return Plan(planned, tuple(download_of(location, revision=revisions.get(name)) for name, location in locations.items()))

    def _requested(self, models: ModelNames, options: RunOptions) -> tuple[Request, Path, list[Step]]:
        """What a run asks for, its folder, and its steps in the order they are done."""
        values: dict[str, Any] = dict(options)
        origin, to, trust_plan = values.pop("origin", None), values.pop("to", None), values.pop("trust_plan", False)
        own_files = Reading(**{name: values.pop(name) for name in OWN_FILES if name in values})
        trusted = values.get("trust_remote_code", False)
        identified = identify_models(models, self.spec, origin=origin, trust_remote_code=trusted)
        request = Request(self.spec, identified, own_files=own_files, changes=values.pop("settings", None), **values)
        return request, self.folder(to), _ordered_steps(request, trust_plan=trust_plan)

    def check(self, to: str | os.PathLike[str] | None = None) -> Check:
        """Compare a run's numbers with the printed ones, side by side, and judge the claims again.

        Parameters
        ----------
        to
            The run's folder; `theodolite-studies/NAME` by default.

        Raises
        ------
        FileNotFoundError
            There is no run in the folder.
        ValueError
            The folder holds something else.
        """
        folder = self.folder(to)
        if not (folder / ABOUT).is_file():
            way = f"run the study first, or name the folder of a run with {option('to', 'FOLDER')}"
            raise FileNotFoundError(f"there is no run of {self.name} in {folder}; {way}")
        result = Result.load(folder)
        if (run_of := result.provenance.get("study")) != self.name:
            raise ValueError(f"{folder} holds a run of {run_of or result.verb}, not of {self.name}")
        return self._judged(result)

    def export(self, folder: str | os.PathLike[str], *, to: str | os.PathLike[str] | None = None) -> Path:
        """Write the rows, records and pictures of a run, with the hashes of its steps, without weights, vectors or texts.

        A model's pictures of one state and task are those of its first seed, with at most 3,000 points each.

        `check` and `theodolite report` read the folder as they read that of a run, so that a page can be built from it. A folder
        that already holds other seeds or tasks of the same run gets these too, so that slices may come from several machines.

        Parameters
        ----------
        folder
            The folder to write.
        to
            The run's folder; `theodolite-studies/NAME` by default.

        Raises
        ------
        FileNotFoundError
            There is no run in the folder.
        ValueError
            The folder holds something else, or the folder to write holds records of other encoders or settings.
        """
        result = self.check(to).result
        pictures = [picture.thinned(EXPORTED_POINTS, without=TEXT_COLUMNS) for picture in first_pictures(result.pictures)]
        result = replace(result, pictures=tuple(pictures))
        if (Path(folder) / ABOUT).is_file():
            result = self._judged(merge_slices(Result.load(folder), result)).result
        return result.save(folder)

    def _judged(self, result: Result) -> Check:
        """The verdicts, and the numbers next to the printed ones, by rows and records alone: without the models or the data."""
        facts = result.provenance
        quick = bool(facts.get("quick"))
        # The list may have been written after the run; what the user or the encoder's own files said is kept with the run.
        origins = {name: ModelOrigin(**fields) for name, fields in facts.get("origins", {}).items()}
        for name, weights in facts.get("models", {}).items():
            # A commit of the Hub comes with the id as the name; a folder may be called like any model.
            listed = self.spec.known_origin(weights, *([name] if len(weights) == 40 else []))
            if listed is not None:
                origins.setdefault(name, listed)
        verdicts = tuple(
            judge_claims(
                self.spec, result.rows, result.records, own_tasks=facts.get("own_tasks"), rerun=Rerun(**facts.get("rerun", {})),
                origins=origins, quick=quick,
            )
        )  # fmt: skip
        comparisons = tuple(compare_printed(self.spec, result.rows, quick=quick))
        pre_trained = [name for name, origin in origins.items() if origin.kind == PRE_TRAINED]
        cells = paper_table_cells(self.spec, comparisons, pre_trained)
        seeds = sorted({row.seed for row in result.rows if row.seed is not None})  # of all slices
        checked = replace(
            result,
            verdicts=verdicts,
            provenance={
                **facts,
                "origins": {name: asdict(origin) for name, origin in origins.items()},
                "settings": {**facts.get("settings", {}), **({"seeds": seeds} if seeds else {})},
            },
            records={**result.records, **({"paper_tables": table_of(cells)} if cells else {})},
            answer=study_answer(verdicts, result.rows),
            conditions=(SMALL_SIZES,) if quick else (),
        )
        return Check(comparisons=comparisons, verdicts=verdicts, quick=quick, result=checked)

    def _result(self, request: Request, steps: list[str], store: Store, outcome: Outcome, command: str, *, text: bool) -> Result:
        """What the finished steps have measured, with the claims judged on it."""
        import pyarrow

        finished = [step for step in steps if store.has(step)]
        descriptions = {step: store.about(step) for step in finished}
        # Several steps may say the same: each method of fine-tuning scores the state that it starts from.
        rows = tuple(dict.fromkeys(replace(row, study=self.name) for step in finished for row in store.rows(step)))
        pictures = [picture for step in finished if (picture := store.picture(step)) is not None]
        tables: dict[str, list[pyarrow.Table]] = {}
        for step in finished:
            for name, table in store.records(step).items():
                tables.setdefault(name, []).append(table)
        rerun = Rerun(models={model.name: model.id for model in request.models}, options=_options(request))
        result = Result(
            verb="study",
            # In the title, because that is what every display begins with.
            title=f"{QUICK}: {self.title}" if request.quick else self.title,
            rows=rows,
            pictures=tuple(_without_columns(picture, () if text else TEXT_COLUMNS) for picture in pictures),
            records={name: pyarrow.concat_tables(of, promote_options="permissive") for name, of in tables.items()},
            provenance={
                "command": command,
                "name": self.name,
                "study": self.name,
                "models": {model.name: model.weights for model in request.models},
                "origins": {model.name: asdict(model.origin) for model in request.models},
                "own_tasks": {name: task.score for name, task in request.own_tasks.items()},
                "rerun": asdict(rerun),
                "paper": f"{self.spec.citation}; {self.spec.link}",
                "quick": request.quick,
                "date": today(),
                "settings": request.settings,
                "tables": [dict(table) for table in self.spec.tables],
                "versions": current_versions(),
                "steps": {name: len(getattr(outcome, name)) for name in ("done", "reused", "failed", "blocked")},
                "step_hashes": {step: fields["title"] for step, fields in descriptions.items()},
                "step_versions": {fields["kind"]: fields["version"] for fields in descriptions.values()},
                "failed": [{"step": step.title, "error": str(error)} for step, error in outcome.failed.items()],
            },
        )
        result = self._judged(result).result
        return replace(result, notes=tuple(filter(None, [*self._notes(request, outcome), chance_note(result.verdicts)])))

    def _notes(self, request: Request, outcome: Outcome) -> Iterator[str]:
        yield from self.spec.notes
        yield from (model.caveat for model in request.models if model.caveat)
        if outcome.failed:
            lost = len(outcome.failed) + len(outcome.blocked)
            yield f"{lost} steps of this run failed, or need one that did: what they measure is missing here."
            yield from (f"Failed: {step.title}: {error}" for step, error in outcome.failed.items())

    def _call(self, request: Request) -> str:
        """The run as a call in Python."""
        own = {name: getattr(request.own_files, name) for name in OWN_FILES}
        tasks = [task if isinstance(task, str) else task.name for task in request.requested_tasks]
        if own["own"]:
            tasks.pop()  # the task of these files comes last, and has no other name to call it by
        options: dict[str, Any] = {"data": request.sources.data, "tasks": tasks, "seeds": list(request.seeds or ())}
        options |= {"layers": request.layers, "quick": request.quick, "settings": dict(request.changes or {}), **own}
        options |= {"origin": _declared(request)}
        arguments = [f"{name}={value!r}" for name, value in options.items() if value not in (None, [], {}, False)]
        return f"theodolite.study({self.spec.reference!r}).run({', '.join([repr([m.id for m in request.models]), *arguments])})"


for _method in (Study.run, Study.plan):
    _kinds = ((name, kind.__forward_arg__) for name, kind in RunOptions.__annotations__.items())
    _shown = {name: (kind, False if kind == "bool" else None) for name, kind in _kinds}
    _method.__signature__ = with_options(inspect.signature(_method), _shown)  # type: ignore[union-attr]


def _declared(request: Request) -> str | None:
    """The origin that the user declared."""
    return next((model.origin.kind for model in request.models if model.origin.known_by == "declared"), None)


def _options(request: Request) -> str:
    """The options of a run on the command line that a run of what is missing needs too."""
    own = request.own_files
    options: list[tuple[str, Any]] = [("--data", request.sources.data)]
    options += [("--set", f"{name}={json.dumps(value)}") for name, value in (request.changes or {}).items()]
    for split, paths in (own.own or {}).items():
        files = [paths] if isinstance(paths, (str, os.PathLike)) else paths
        options += [("--own", f"{split}={path}") for path in files]
    options += [("--kind", own.kind)]
    options += [("--origin", _declared(request))]
    return " ".join(f"{name} {shell_word(str(value))}" for name, value in options if value is not None)


def _ordered_steps(request: Request, *, trust_plan: bool) -> list[Step]:
    plan = load_plan(request.spec, trust=trust_plan)
    try:
        return in_order(plan(request))
    except (LookupError, TypeError, AttributeError) as error:  # a setting of the study's file that its plan cannot use
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"the settings do not fit its plan ({reason}); correct them", file=request.spec.path) from error


def _watching(progress: bool | Watcher | None, total: int, done: int) -> AbstractContextManager[Watcher | None]:
    """The watcher that the caller gave, or one that reports on stderr if somebody reads it."""
    if progress is None:
        progress = sys.stderr.isatty() or ON_COMMAND_LINE.get()
    return StepReport(total, done) if progress is True else nullcontext(progress or None)


def _without_columns(picture: Picture, names: Sequence[str]) -> Picture:
    return replace(picture, columns={name: column for name, column in picture.columns.items() if name not in names})
