"""A program that ends writers at every point where they touch the disk, and looks at what is left; started by the tests.

A writer runs in a forked process. An audit hook counts its calls that change the disk under the case's folder (opening for
writing, creating, renaming, removing, truncating; fsync is counted too), and at the chosen one the process is killed, loses power
(as killed, and what was not synced is cut in half), finds the disk full, or is interrupted. Then a further process reads the
result, which must be the old or the new one as a whole, writes it again, and must find it whole, with nothing left behind.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
KILLED = 9


class Writer:
    """Writes version 1, 2 or 3 to a folder, over what is there, and says which one is there; 0 for none."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def prepare(self) -> None:
        """Make what all cases share, in `home`."""

    def start(self, folder: Path) -> None:
        """Put version 1 there."""
        self.write(folder, 1)

    def write(self, folder: Path, version: int) -> None:
        raise NotImplementedError

    def read(self, folder: Path) -> int:
        raise NotImplementedError


def rows(version: int) -> list[Any]:
    from theodolite.core.rows import Row

    return [Row(metric="m", value=version + i / 7, layer=i, label="[/] \u2028") for i in range(5)]


def result(version: int) -> Any:
    from theodolite.core.pictures import draw_picture
    from theodolite.core.result import Result, table_of

    X = np.random.default_rng(version).normal(size=(20, 3))
    records = {"items": table_of([{"version": version}]), "more": table_of([{"version": version}])}
    return Result(verb="survey", title=str(version), rows=tuple(rows(version)), pictures=(draw_picture(X),), records=records)


class Rows(Writer):
    ending = ".parquet"

    def write(self, folder: Path, version: int) -> None:
        result(version).save(folder / f"rows{self.ending}")

    def read(self, folder: Path) -> int:
        from theodolite.core.rows import read_rows

        stored = read_rows(folder / f"rows{self.ending}")
        assert stored == rows(int(stored[0].value))
        return int(stored[0].value)


class JsonLines(Rows):
    ending = ".jsonl"


class ResultFolder(Writer):
    def write(self, folder: Path, version: int) -> None:
        result(version).save(folder / "result")

    def read(self, folder: Path) -> int:
        from theodolite.core.result import Result

        loaded = Result.load(folder / "result")
        version = int(loaded.title)
        assert list(loaded.rows) == rows(version)
        assert [table["version"].to_pylist() for table in loaded.records.values()] == [[version]] * 2
        np.testing.assert_array_equal(loaded.pictures[0].points, result(version).pictures[0].points)
        return version


class Report(Writer):
    def write(self, folder: Path, version: int) -> None:
        result(version).report(folder / "report.html")

    def read(self, folder: Path) -> int:
        text = (folder / "report.html").read_text(encoding="utf-8")
        assert text.endswith("</html>") or text.rstrip().endswith("</html>")
        (version,) = (version for version in (1, 2, 3) if f"<title>{version}" in text)
        return version


class Repair(Writer):
    def fitted(self, version: int) -> Any:
        from theodolite.repairs import ZeroMean

        return ZeroMean().fit(np.full((4, 3), float(version)) + np.eye(4, 3))

    def write(self, folder: Path, version: int) -> None:
        from theodolite.repairs import save_repair

        save_repair(self.fitted(version), folder / "repair", overwrite=True)

    def read(self, folder: Path) -> int:
        from theodolite.repairs import load_repair

        X = load_repair(folder / "repair").transform(np.zeros((1, 3)))
        (version,) = (v for v in (1, 2, 3) if np.array_equal(self.fitted(v).transform(np.zeros((1, 3))), X))
        return version


class Space(Writer):
    """Part by part, as `extract` writes."""

    def vectors(self, version: int) -> Any:
        return np.random.default_rng(version).normal(size=(12, 4)).astype(np.float32)

    def write(self, folder: Path, version: int) -> None:
        from theodolite.spaces import SpaceWriter

        X, options = self.vectors(version), {"layers": [0, 1], "n": 12, "d": 4, "rows": {"text": [str(version)] * 12}}
        with SpaceWriter(folder / "space", fingerprint=str(version), overwrite=True, **options) as writer:
            for part in set(range(3)) - writer.done:
                at = np.arange(4 * part, 4 * part + 4)
                writer.write(part, at, {0: X[at], 1: -X[at]})
            writer.finish()

    def read(self, folder: Path) -> int:
        from theodolite.spaces import Space

        space = Space.open(folder / "space")
        version = int(space.rows["text"][0])
        np.testing.assert_array_equal(space[0].X if hasattr(space[0], "X") else np.asarray(space[0]), self.vectors(version))
        np.testing.assert_array_equal(np.asarray(space[1]), -self.vectors(version))
        return version


class WholeSpace(Space):
    """At once, from memory."""

    def write(self, folder: Path, version: int) -> None:
        from theodolite.spaces import Space

        X = self.vectors(version)
        Space.of({0: X, 1: -X}, rows={"text": [str(version)] * 12}).save(folder / "space", overwrite=True)


class Cache(Writer):
    """The cache has no versions: an entry is right, or ignored."""

    def prepare(self) -> None:
        for version in (1, 2, 3):
            np.save(self.home / f"{version}.npy", np.random.default_rng(version).normal(size=(200, 4)))

    def write(self, folder: Path, version: int) -> None:
        from theodolite.spaces.cache import cached_moments

        os.environ["THEODOLITE_CACHE"] = str(folder)
        cached_moments(self.home / f"{version}.npy")

    def read(self, folder: Path) -> int:
        from theodolite.core.moments import Moments
        from theodolite.spaces.cache import cached_moments

        os.environ["THEODOLITE_CACHE"] = str(folder)
        stored = [Moments.load(entry) for entry in (folder / "moments").glob("*.npz")]
        for version in (1, 2, 3):
            right = Moments.of(np.load(self.home / f"{version}.npy"))
            stored = [moments for moments in stored if not np.array_equal(moments.mean, right.mean)]
            np.testing.assert_array_equal(cached_moments(self.home / f"{version}.npy")[0].mean, right.mean)
        assert not stored, "an entry of no file"
        return 2


class Study(Writer):
    def write(self, folder: Path, version: int) -> None:
        from theodolite.core.result import Result
        from theodolite.studies.runner import run_steps
        from theodolite.studies.steps import Sources, Store

        steps, store = self.plan(version), Store(folder / "study" / "steps")
        outcome = run_steps(steps, store, Sources())
        if outcome.failed:
            raise next(iter(outcome.failed.values()))
        measured = [row for step in steps for row in store.rows(step)]
        Result(verb="study", title=str(version), rows=tuple(measured)).save(folder / "study")

    def plan(self, version: int) -> Any:
        from theodolite.core.rows import Row
        from theodolite.studies.steps import Action, Step

        def run(work: Any) -> Any:
            below = [float((need / "made").read_text()) for need in work.inputs.values()]
            value = work.settings["version"] + sum(below)
            (work.folder / "made").write_text(str(value))
            return [Row(metric="m", value=value)]

        first = Step(Action("first", run), {"version": version})
        return [first, Step(Action("second", run), {"version": version}, {"under": first})]

    def read(self, folder: Path) -> int:
        from theodolite.core.result import Result
        from theodolite.studies.steps import Store

        loaded = Result.load(folder / "study")
        version, store = int(loaded.title), Store(folder / "study" / "steps")
        assert [row.value for row in loaded.rows] == [version, 2 * version]
        for step in (step for v in (1, 2, 3) for step in self.plan(v) if store.has(step)):
            assert store.damaged(step) is None
        return version


class Tune(Writer):
    """With validation, so that the best epoch's checkpoint counts; weights are compared bit by bit."""

    def prepare(self) -> None:
        import torch
        from transformers import BertConfig, BertModel, BertTokenizerFast

        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "dog", "cat"]
        torch.manual_seed(0)
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=16, **sizes)).save_pretrained(self.home / "bert")
        tokenizer = BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}, model_max_length=16)
        tokenizer.save_pretrained(self.home / "bert")
        for split, count in (("train", 24), ("dev", 8)):
            lines = [f"{mood} {noun},{mood}" for mood in ("good", "bad") for noun in ("dog", "cat")] * (count // 4)
            (self.home / f"{split}.csv").write_text("text,label\n" + "\n".join(lines) + "\n")
        weights = {}
        for version in (1, 2, 3):
            self.write(self.home / str(version), version)
            weights[self.digest(self.home / str(version))] = version
        (self.home / "weights.json").write_text(json.dumps(weights))

    def start(self, folder: Path) -> None:
        shutil.copytree(self.home / "1" / "run", folder / "run")

    def write(self, folder: Path, version: int) -> None:
        import warnings

        from theodolite.tasks import own_task
        from theodolite.tuning import TuneSettings, fine_tune

        warnings.simplefilter("ignore")
        task = own_task({s: self.home / f"{s}.csv" for s in ("train", "dev")}, "classification", name="moods")
        options = {"epochs": 2, "batch_size": 8, "validation": 0.3, "device": "cpu", "track": None, "seed": version}
        settings = TuneSettings(model=str(self.home / "bert"), task=task, output=str(folder / "run"), **options)
        fine_tune(settings, overwrite=True)

    def digest(self, folder: Path) -> str:
        from theodolite.core.files import hashes_in

        hashes = hashes_in(folder / "run" / "model")
        return " ".join(hashes[name] for name in hashes if name.endswith(".safetensors"))

    def read(self, folder: Path) -> int:
        from theodolite.core.result import Result
        from theodolite.tuning.runs import read_settings

        version = int(Result.load(folder / "run").provenance["settings"]["seed"])
        assert read_settings(folder / "run")["seed"] == version
        assert json.loads((self.home / "weights.json").read_text())[self.digest(folder)] == version
        return version


WRITERS: dict[str, type[Writer]] = {
    "rows": Rows, "jsonl": JsonLines, "result": ResultFolder, "report": Report, "repair": Repair, "space": Space,
    "whole-space": WholeSpace, "cache": Cache, "study": Study, "tune": Tune,
}  # fmt: skip


def install(folder: Path, at: int, mode: str) -> Callable[[], int]:
    """End this process, or fail, at the call number `at`; the result counts the calls."""
    count, dead = 0, False
    before = {path.stat().st_ino for path in folder.rglob("*") if path.is_file()}
    synced: set[int] = set()

    def point() -> None:
        nonlocal count, dead
        count += 1
        if count != at or dead:
            return
        dead = True
        if mode == "full":
            raise OSError(errno.ENOSPC, "No space left on device")
        if mode == "interrupt":
            raise KeyboardInterrupt
        if mode == "power":
            for path in folder.rglob("*"):
                if path.is_file() and path.stat().st_ino not in before | synced:
                    os.truncate(path, path.stat().st_size // 2)
        os._exit(KILLED)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if dead or not arguments or (event not in EVENTS and event != "open"):
            return
        if event == "open" and not (arguments[2] or 0) & WRITING:
            return
        # A number is an open file, and a name that is not a whole path is one in an open folder, as in rmtree.
        place = arguments[0]
        if isinstance(place, int) or not Path(os.fsdecode(place)).is_absolute() or os.fsdecode(place).startswith(str(folder)):
            point()

    fsync = os.fsync

    def counted_fsync(handle: int) -> None:
        point()
        fsync(handle)
        synced.add(os.fstat(handle).st_ino)

    sys.addaudithook(hook)
    os.fsync = counted_fsync
    return lambda: count


def fork(work: Callable[[], Any]) -> tuple[int, Any]:
    """Do work in another process: its exit code, and what it returned or what went wrong."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        run_child(work, writing)
    os.close(writing)
    return collect(child, reading)


def run_child(work: Callable[[], Any], writing: int) -> NoReturn:
    try:
        answer = {"value": work()}
    except BaseException as error:
        text = traceback.format_exc()
        answer = {"error": type(error).__name__, "message": str(error), "traceback": text}
    with open(writing, "w") as pipe:
        json.dump(answer, pipe)
    os._exit(0)


def collect(child: int, reading: int) -> tuple[int, Any]:
    with open(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), json.loads(text) if text else {}


def leftovers(folder: Path) -> list[str]:
    """What is not complete. The file of a lock may stay after a kill: the kernel has the lock itself."""
    names = (str(path.relative_to(folder)) for path in folder.rglob("*"))
    return sorted(name for name in names if ("/." in f"/{name}" and not name.endswith(".lock")) or name.endswith(".partial"))


def rehearse(writer: Writer, first: Path) -> int:
    """Put version 1 into a folder that all cases copy, import here what writing and reading import, and count the calls."""
    first.mkdir()
    folder = first.with_name("rehearsal")

    def write() -> tuple[int, list[str]]:
        known = set(sys.modules)
        writer.start(first)
        shutil.copytree(first, folder)
        calls = install(folder, 0, "count")
        writer.write(folder, 2)
        count = calls()
        writer.read(folder)
        return count, [name for name in sys.modules if name not in known and not name.startswith("__")]

    code, answer = fork(write)
    assert code == 0 and "error" not in answer, answer.get("traceback")
    count, names = answer["value"]
    for name in names:
        with contextlib.suppress(ImportError):  # some put modules there that cannot be imported by name
            importlib.import_module(name)
    shutil.rmtree(folder)
    gc.freeze()  # else each process copies these modules' pages when it first collects
    return int(count)


def crash(writer: Writer, first: Path, folder: Path, mode: str, at: int) -> tuple[bool, list[str]]:
    """One case: whether the writer came as far as the call, and what is wrong with what it left."""
    shutil.copytree(first, folder)
    faults: list[str] = []

    def end() -> int:
        calls = install(folder, at, mode)
        try:
            writer.write(folder, 2)
        except (OSError, KeyboardInterrupt):
            if mode not in ("full", "interrupt"):
                raise
        return calls()

    code, answer = fork(end)
    if code == 0 and "error" in answer:
        faults.append(f"writing: {answer['traceback']}")
    reached = code == KILLED or answer.get("value", 0) >= at

    def look() -> list[Any]:
        found: list[Any] = [writer.read(folder)]
        writer.write(folder, 3)
        found.append(writer.read(folder))
        writer.write(folder, 2)
        return [*found, writer.read(folder), leftovers(folder)]

    _, answer = fork(look)
    if "error" in answer:
        faults.append(f"after {mode} at {at}: {answer['traceback']}")
    elif isinstance(writer, Cache):
        faults += [f"left behind: {answer['value'][3]}"] * bool(answer["value"][3])
    elif answer["value"][0] not in (1, 2) or answer["value"][1:] != [3, 2, []]:
        faults.append(f"after {mode} at {at}: {answer['value']}")
    shutil.rmtree(folder)
    return reached, faults


def both_at_once(writer: Writer, first: Path, folder: Path, versions: tuple[int, int]) -> tuple[list[Any], list[str]]:
    """Two processes write at the same time: what each of them said, and what is wrong with the result."""
    shutil.copytree(first, folder)
    gate_reading, gate_writing = os.pipe()
    children = []
    for version in versions:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(gate_writing)
            os.read(gate_reading, 1)  # ends when the parent opens the gate
            run_child(lambda version=version: writer.write(folder, version), writing)
        os.close(writing)
        children.append((child, reading))
    os.close(gate_reading)
    os.close(gate_writing)
    answers = [collect(*child)[1] for child in children]
    faults = [a["traceback"] for a in answers if "error" in a and a["error"] != "BusyError"]
    written = {version for version, answer in zip(versions, answers, strict=True) if "error" not in answer}
    _, answer = fork(lambda: [writer.read(folder), leftovers(folder)])
    if "error" in answer:
        faults.append(answer["traceback"])
    elif not isinstance(writer, Cache) and (answer["value"][0] not in written or answer["value"][1]):
        faults.append(f"{answer['value']} after {sorted(written)} were written")
    shutil.rmtree(folder)
    return [a.get("message", "") for a in answers], faults


def main() -> None:
    """Arguments: name of the writer, modes, folder to work in, and 5 for every 5th point; several modes start evenly apart.

    The mode `both` comes last, with its number of repetitions: `rows kill,power,both folder 4 2`.
    """
    name, modes, home, every, *both = sys.argv[1], sys.argv[2].split(","), Path(sys.argv[3]).resolve(), *map(int, sys.argv[4:])
    (home / "shared").mkdir(parents=True)
    writer = WRITERS[name](home / "shared")
    # Imported once, before the forks; nothing of it is used here, so that no thread is running when the process forks.
    import plotly.graph_objects  # noqa: F401
    import pyarrow.parquet  # noqa: F401

    import theodolite.core.result
    import theodolite.repairs
    import theodolite.reports.drawing
    import theodolite.spaces

    if name == "tune":
        import theodolite.tuning
        import theodolite.tuning.training  # noqa: F401
    code, answer = fork(writer.prepare)
    assert code == 0 and "error" not in answer, answer.get("traceback")
    first = home / "first"
    points = rehearse(writer, first)
    faults: list[str] = []
    cases, sentences = dict.fromkeys(modes, 0), []
    ending = [mode for mode in modes if mode != "both"]
    for number, mode in enumerate(ending):
        for at in range(1 + number * every // len(ending), points + 1, every):
            reached, wrong = crash(writer, first, home / f"{mode}-{at}", mode, at)
            faults += wrong if reached else [*wrong, f"{mode}: the writer ended before call {at}, but had {points} before"]
            cases[mode] += 1
    for number in range(*both or [0]):
        said, wrong = both_at_once(writer, first, home / str(number), (2, 2) if name == "tune" else (2, 3))
        faults += wrong
        sentences += said
        cases["both"] += 1
    print(json.dumps({"points": points, "cases": cases, "faults": faults, "said": sorted({s for s in sentences if s})}))


if __name__ == "__main__":
    main()
