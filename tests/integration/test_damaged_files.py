"""Whatever a file holds, a reader gives its content or one sentence of ours: a seeded fuzzer over every reader.

Each case damages a whole file of its kind and reads it to its end, in 2 GB and 20 seconds. THEODOLITE_FUZZ_CASES sets the number
of cases; `fuzz_driver.py` runs many, and counts those that end the process too.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import theodolite
from theodolite.advice.gate import GateFile
from theodolite.core.files import sha256_of
from theodolite.core.pictures import draw_picture
from theodolite.core.result import Finding, Result, table_of
from theodolite.core.rows import Row, read_rows, write_rows
from theodolite.core.vectors import array
from theodolite.repairs import Whiten, load_repair, save_repair
from theodolite.spaces import Origin, Space, SpaceWriter, read
from theodolite.spaces.readers.label_files import read_labels, read_scores
from theodolite.spaces.readers.text_files import read_texts
from theodolite.studies.runner import run_steps
from theodolite.studies.slices import Slices
from theodolite.studies.spec import load_spec
from theodolite.studies.steps import Action, Sources, Step, Store
from theodolite.tasks import load_task, own_task
from theodolite.tasks.retrieval import judgements_of, read_beir
from theodolite.verbs.repairing import apply

CASES = int(os.environ.get("THEODOLITE_FUZZ_CASES", "400"))
SOURCE = str(Path(theodolite.__file__).parent)
# What a case may take.
MOST_BYTES, MOST_SECONDS = 2 * 2**30, 20

X = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)
TEXTS = ["a cat", "the dog", "no idea", "some, text", "quotes", "more", "end"]
LABELS = ["NOUN", "VERB", "NOUN", "X", "VERB", "NOUN", "X"]
TABLE = {"text": TEXTS, "label": LABELS, **{f"d{i}": X[:, i] for i in range(3)}}
CONLLU = "".join(
    f"# text = {text}\n"
    + "".join(
        f"{i}\t{word}\t{word}\tNOUN\tNN\tNumber=Sing\t{i - 1}\tdep\t_\tEntity=B\n" for i, word in enumerate(text.split(), start=1)
    )
    + "\n"
    for text in TEXTS
)


def whole(path: Any, **options: Any) -> np.ndarray:
    return array(read(path, **options))


def save_table(path: Path) -> None:
    rows = zip(*TABLE.values(), strict=True)
    mark = {".csv": ",", ".tsv": "\t", ".txt": ";"}[path.suffix]
    quoted = [[f'"{cell}"' if mark in str(cell) else str(cell) for cell in row] for row in rows]
    path.write_text("\n".join(mark.join(row) for row in [list(TABLE), *quoted]) + "\n")


def save_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def save_jsonl(path: Path) -> None:
    save_lines(path, [json.dumps({"text": t, "label": y, "v": x.tolist()}) for t, y, x in zip(TEXTS, LABELS, X, strict=True)])


def save_safetensors(path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"X": X, "bias": X[0]}, path, metadata={"about": "a test"})


def save_lists(path: Path) -> None:
    pq.write_table(pa.table({"text": TEXTS, "label": LABELS, "v": list(X)}), path)


def save_faiss(path: Path, kind: str = "Flat") -> None:
    faiss = pytest.importorskip("faiss")
    rows = np.random.default_rng(1).standard_normal((80, 4)).astype(np.float32)
    index = faiss.index_factory(4, kind)
    index.train(rows)
    index.add_with_ids(rows, np.arange(80)[::-1].copy()) if "IDMap" in kind else index.add(rows)
    faiss.write_index(index, str(path))


def save_wide(path: Path, mark: str, *, decimal: str = ".") -> None:
    """Numbers alone, as many programs write them."""
    save_lines(path, [mark.join(f"{value:.6g}" for value in x).replace(".", decimal) for x in X.tolist()])


def save_cells(path: Path) -> None:
    """A table with one column of lists."""
    save_lines(path, ["id;v", *(f"w{i};{x.tolist()}" for i, x in enumerate(X))])


def save_rows(path: Path) -> None:
    write_rows([Row(metric="iso_score", value=0.5, n=7, d=3, label=label) for label in LABELS], path)


def save_space(folder: Path) -> None:
    Space.of({0: X, 1: 2 * X}, rows={"text": TEXTS, "label": LABELS}).save(folder)


def read_space(folder: Path) -> None:
    for verify in (True, False):
        space = Space.open(folder, verify=verify)
        for column in space.rows.values():
            list(column)
        array(space[1])


def examples(kind: str, path: Path, **options: Any) -> None:
    load_task(own_task({"train": path}, kind, **options), "train")


def study_text(path: Path) -> None:
    path.write_bytes((Path(SOURCE) / "studies" / "rp21" / "study.toml").read_bytes())


# The file of the train split of a task's release, and its lines.
LEX = "{0}\t{1}\t{1}\tADP\tIN\t_\t0\tdep\t_\t_\t_\tP\t{1}\tp.Locus\tp.Goal\t_\t_\t_\tO-P"
RELEASES: dict[str, tuple[str, list[str]]] = {
    "stsb": ("sts-train.csv", [f"main\tfiles\t2012\t000{i}\t{i / 2}\t{text}\t{text}" for i, text in enumerate(TEXTS)]),
    "cola": ("in_domain_train.tsv", [f"gj04\t{i % 2}\t*\t{text}" for i, text in enumerate(TEXTS)]),
    "trec-6": ("train_5500.label", [f"NUM:dist {text}" for text in TEXTS]),
    "rte": ("train.tsv", ["index\tsentence1\tsentence2\tlabel", *(f"1\t{text}\t{text}\tentailment" for text in TEXTS)]),
    "mrpc": ("train.tsv", ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *(f"1\t1\t2\t{text}\t{text}" for text in TEXTS)]),
    "ps-role": (
        "streusle.ud_train.conllulex",
        [line for text in TEXTS for line in (*(LEX.format(i, w) for i, w in enumerate(text.split(), start=1)), "")],
    ),
}


def release(task: str, lines: list[str]) -> tuple[Callable[[Path], Any], Callable[[Path], Any]]:
    """How the train split of a task's release is written and read."""
    return lambda path: save_lines(path, lines), lambda path: load_task(task, "train", path.parent)


def save_beir(path: Path) -> None:
    folder = path.parent if path.suffix == ".jsonl" else path.parent.parent
    (folder / "qrels").mkdir(exist_ok=True)
    for name in ("corpus", "queries"):
        save_lines(folder / f"{name}.jsonl", [json.dumps({"_id": f"{i}", "title": "", "text": t}) for i, t in enumerate(TEXTS)])
    save_lines(folder / "qrels" / "test.tsv", ["query-id\tcorpus-id\tscore", *(f"{i}\t{i}\t1" for i in range(7))])


def judged(path: Path) -> None:
    judgements_of(path, queries=7, documents=7)


def save_result(path: Path) -> None:
    rows = tuple(Row(metric="iso_score", value=0.5, n=7, d=3, label=label) for label in LABELS)
    words = dict.fromkeys(("topic", "metric", "healthy", "source", "meaning", "action"), "word")
    folder = next(folder for folder in path.parents if folder.name == "result")
    records = {"items": table_of([{"label": label, "value": 1.0} for label in LABELS])}
    Result(
        verb="survey",
        rows=rows,
        findings=(Finding(verdict="good", value=1.0, **words),),
        pictures=(draw_picture(X),),
        records=records,
    ).save(folder)


def read_result(path: Path) -> None:
    """As it is, and with the hash that the damaged file has, so that its reader sees it."""
    folder = next(folder for folder in path.parents if folder.name == "result")
    if path.parent != folder or path.suffix == ".parquet":
        about = json.loads((folder / "result.json").read_bytes())
        about["files"][path.relative_to(folder).as_posix()] = sha256_of(path)
        about.pop("sha256", None)  # of the rest of this file
        (folder / "result.json").write_text(json.dumps(about))
    Result.load(folder)


def read_arrays(path: Path) -> None:
    """A repair whose arrays have the hash that is stored."""
    about = json.loads((path.parent / "repair.json").read_bytes())
    (path.parent / "repair.json").write_text(json.dumps({**about, "sha256": sha256_of(path)}))
    load_repair(path.parent)


def repaired(path: Path) -> None:
    """A table with other columns, which are read a second time."""
    apply(Whiten().fit(X), path, to=path.with_name("repaired.parquet"), columns=["d*"], overwrite=True, progress=False)


STEP = Step(Action("measure", lambda _: [Row(metric="m", value=1.0)]), {"seed": 1}, title="a step")


def save_step(path: Path) -> None:
    run_steps([STEP], Store(path.parent.parent), Sources())


def read_step(path: Path) -> None:
    store = Store(path.parent.parent)
    for step in (STEP, STEP.folder):
        store.rows(step)
        store.about(step)


def unfinished(folder: Path) -> SpaceWriter:
    return SpaceWriter(folder, fingerprint="f", layers=(0,), n=7, d=3, dtype=np.float32, origin=Origin())


def save_journal(path: Path) -> None:
    """A space of which one part was written."""
    with unfinished(path.parent.with_name("space")) as writer:
        writer.write(0, np.arange(3), {0: X[:3]})


def read_journal(path: Path) -> None:
    """The other part of it, in a copy, because that changes the files."""
    with tempfile.TemporaryDirectory() as home:
        shutil.copytree(path.parent, Path(home) / path.parent.name)
        with unfinished(Path(home) / "space") as writer:
            if 1 not in writer.done:
                writer.write(1, np.arange(3, 7), {0: X[3:]})


def slices(path: Path) -> Slices:
    """The steps of a run, without a run: only what is in the file matters."""
    self = Slices.__new__(Slices)
    self._path, self._key = path, "0123456789abcdef0123"
    return self


def save_baseline(path: Path) -> None:
    np.save(path.parent.with_name("vectors.npy"), X)
    path.parent.with_name("theodolite.toml").write_text(GATE)
    result = theodolite.survey(X, metrics=["iso_score", "mean_cosine"], findings=False, progress=False)
    result.save(path.parent)
    result.save(path.parent.with_name("result"))


def gated(path: Path) -> None:
    theodolite.gate(path.parent.with_name("result"), config=path.parent.with_name("theodolite.toml"), progress=False)


def reported(path: Path) -> None:
    theodolite.report([path], to=path.with_name("report.md"), overwrite=True)


GATE = """baseline = "baseline"

[survey]
source = "vectors.npy"
metrics = ["iso_score", "mean_cosine"]

[bounds]
iso_score = { min = 0.1, drop = 0.05 }
mean_cosine = { max = 0.99 }
"""


# A name for each reader: the file's name, how it is written, and how it is read.
Entry = tuple[str, Callable[[Path], Any], Callable[[Path], Any]]
READERS: dict[str, Entry] = {
    "npy": ("x.npy", lambda path: np.save(path, X), whole),
    "npy, columns first": ("x.npy", lambda path: np.save(path, np.asfortranarray(X)), whole),
    "npz": ("x.npz", lambda path: np.savez(path, X=X, y=X[0]), whole),
    "npz, compressed": ("x.npz", lambda path: np.savez_compressed(path, X=X), whole),
    "safetensors": ("x.safetensors", save_safetensors, whole),
    "parquet": ("x.parquet", save_lists, whole),
    "parquet, columns": ("x.parquet", lambda path: pq.write_table(pa.table(TABLE), path), lambda path: whole(path, columns="d*")),
    "csv": ("x.csv", save_table, lambda path: whole(path, columns="d0:d2")),
    "tsv": ("x.tsv", save_table, whole),
    "table in a txt": ("x.txt", save_table, whole),
    "jsonl": ("x.jsonl", save_jsonl, whole),
    "txt": ("x.txt", lambda path: np.savetxt(path, X), whole),
    "vec": ("x.vec", lambda path: save_lines(path, ["7 3", *(f"w{i} {x} {y} {z}" for i, (x, y, z) in enumerate(X))]), whole),
    "csv, lists": ("x.csv", save_cells, whole),
    "csv, no header": ("x.csv", lambda path: save_wide(path, ","), whole),
    "csv, decimal commas": ("x.csv", lambda path: save_wide(path, ";", decimal=","), lambda path: whole(path, decimal=",")),
    "txt, decimal commas": ("x.txt", lambda path: save_wide(path, " ", decimal=","), lambda path: whole(path, decimal=",")),
    "jsonl, lists": ("x.jsonl", lambda path: save_lines(path, [json.dumps(x) for x in X.tolist()]), whole),
    "jsonl, columns": (
        "x.jsonl", lambda path: save_lines(path, [json.dumps({"n": 1, "d0": x[0], "d1": x[1]}) for x in X.tolist()]), whole,
    ),
    "faiss": ("x.index", save_faiss, whole),
    **{
        f"faiss, {kind}": ("x.faiss", lambda path, kind=kind: save_faiss(path, kind), whole)
        for kind in ("IVF4,Flat", "HNSW8,Flat", "PQ2x4", "IVF4,PQ2x4", "SQ8", "PCA2,Flat", "IDMap,Flat")
    },
    "texts": ("x.txt", lambda path: save_lines(path, TEXTS), read_texts),
    "labels": ("y.txt", lambda path: save_lines(path, LABELS), read_labels),
    "labels, csv": ("y.csv", save_table, read_labels),
    "labels, jsonl": ("y.jsonl", save_jsonl, read_labels),
    "labels, parquet": ("y.parquet", save_lists, read_labels),
    "labels, npy": ("y.npy", lambda path: np.save(path, np.array(LABELS)), read_labels),
    "scores": ("s.npy", lambda path: np.save(path, X[:, 0]), read_scores),
    "own csv": ("t.csv", save_table, lambda path: examples("classification", path)),
    "own jsonl": ("t.jsonl", save_jsonl, lambda path: examples("classification", path)),
    "own pairs": (
        "t.tsv", save_table,
        lambda path: examples("similarity", path, columns={"text_b": "label", "score": "d0"}, score_range=(-9, 9)),
    ),
    "conllu": ("t.conllu", lambda path: path.write_text(CONLLU), lambda path: examples("tagging", path)),
    "relations": ("t.conllu", lambda path: path.write_text(CONLLU), lambda path: examples("word_pairs", path)),
    "conll": ("t.conll", lambda path: save_lines(path, ["a\tX", "b\tY", "", "c\tX"]), lambda path: examples("tagging", path)),
    "rows, jsonl": ("r.jsonl", save_rows, read_rows),
    "rows, json": ("r.json", save_rows, read_rows),
    "rows, parquet": ("r.parquet", save_rows, read_rows),
    "space": ("space/space.json", lambda path: save_space(path.parent), lambda path: read_space(path.parent)),
    "space, rows": ("space/rows.parquet", lambda path: save_space(path.parent), lambda path: read_space(path.parent)),
    "space, layer": ("space/layer-01.npy", lambda path: save_space(path.parent), lambda path: read_space(path.parent)),
    "repair": ("r/repair.json", lambda path: save_repair(Whiten().fit(X), path.parent), lambda path: load_repair(path.parent)),
    "repair, arrays": ("r/repair.safetensors", lambda path: save_repair(Whiten().fit(X), path.parent), read_arrays),
    "repaired parquet": ("x.parquet", lambda path: pq.write_table(pa.table(TABLE), path), repaired),
    "repaired csv": ("x.csv", save_table, repaired),
    "space, unfinished": (".space.partial/.journal", save_journal, read_journal),
    "study, slices": (
        "slices.json",
        lambda path: path.write_text(json.dumps({"0123456789abcdef0123": [STEP.folder]})),
        lambda path: slices(path).merged([STEP]),
    ),
    "study": ("study.toml", study_text, load_spec),
    "study, step": (f"steps/{STEP.folder}/step.json", save_step, read_step),
    "study, rows of a step": (f"steps/{STEP.folder}/rows.parquet", save_step, read_step),
    "result": ("result/result.json", save_result, read_result),
    "result, rows": ("result/rows.parquet", save_result, read_result),
    "result, picture": ("result/pictures/01.parquet", save_result, read_result),
    "result, records": ("result/records/items.parquet", save_result, read_result),
    "gate, baseline": ("baseline/result.json", save_baseline, gated),
    "report, rows": ("r.jsonl", save_rows, reported),
    "report, result": ("result/result.json", save_result, lambda path: reported(path.parent)),
    "gate": ("theodolite.toml", lambda path: path.write_text(GATE), GateFile.read),
    "beir, corpus": ("corpus.jsonl", save_beir, lambda path: read_beir(path.parent)),
    "beir, queries": ("queries.jsonl", save_beir, lambda path: read_beir(path.parent)),
    "beir, judgements": ("qrels/test.tsv", save_beir, lambda path: read_beir(path.parent.parent)),
    "judgements, csv": ("j.csv", lambda path: save_lines(path, ["query,document", *(f"{i},{i}" for i in range(7))]), judged),
    "judgements, jsonl": ("j.jsonl", lambda path: save_lines(path, [f'{{"q": {i}, "d": {i}}}' for i in range(7)]), judged),
    "judgements, parquet": ("j.parquet", lambda path: pq.write_table(pa.table({"q": range(7), "d": range(7)}), path), judged),
    **{task: (name, *release(task, lines)) for task, (name, lines) in RELEASES.items()},
}  # fmt: skip

# What a file may hold by accident or on purpose: long numbers, deep nesting, other types, control characters.
PIECES = [
    b"9" * 400, b"-1", b"0", b"1e999", b"nan", b"null", b"true", b"{}", b"[]", b"[" * 100_000, b'{"a":' * 20_000, b'"', b"'",
    b",", b"\t", b"\n", b"\n\n", b"\r", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc2\x85", b"\xe2\x80\xa8", b"\x1b[31m",
    b"F32", b"I64", b"shape", b"18446744073709551615", b"[[", b"]]", b"=", b"#", b"a = [" * 5_000, b"\\u0000", b"\\ud800",
    b"d0", b"_", b"1-2", b"1.1",
]  # fmt: skip


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The content after one to three accidents, most of them near the start, where headers are."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        size = len(data)
        place = rng.randrange(min(size, rng.choice((16, 128, 512, size))) or 1) if size else 0
        if rng.random() < 0.2:
            place = max(0, size - 1 - place)
        match rng.randrange(8):
            case 0 if size:
                data[place] ^= 1 << rng.randrange(8)
            case 1 if size:
                data[place] = rng.randrange(256)
            case 2:
                del data[place:]
            case 3:
                del data[place : place + rng.choice((1, 2, 8, 64))]
            case 4:
                data[place:place] = rng.choice(PIECES)
            case 5:
                piece = rng.choice(PIECES)
                data[place : place + len(piece)] = piece
            case 6:
                data[place:place] = data[place : place + rng.choice((4, 32, 256))]
            case _:
                numbers = list(re.finditer(rb"\d+", bytes(data)))
                if numbers:
                    match = rng.choice(numbers[:40])
                    data[match.start() : match.end()] = rng.choice(PIECES[:12])
    return bytes(data)


ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1e308,
    float("nan"),
    10**400,
    "",
    "x",
    "\ud800",
    "../x",
    [],
    {},
    [[]],
    [None],
    {"a": 1},
    ["x"] * 3,
]


def retyped(content: bytes, ending: str, rng: random.Random) -> bytes:
    """JSON or TOML that is whole, but in which a value is another one, or is missing."""
    if ending == ".toml":
        values = list(re.finditer(rb"= *([^=\n]+)$", content, re.MULTILINE))
        match = rng.choice(values)
        value = rng.choice(
            (b"1", b"-1", b"true", b'""', b'"x"', b"[]", b"{}", b"nan", b"1e999", b"[[1]]", b"1979-05-27", b"{ a = 1 }")
        )
        return content[: match.start(1)] + value + content[match.end(1) :]
    lines = [content] if ending == ".json" else content.split(b"\n")
    number = rng.choice([i for i, line in enumerate(lines) if line.strip()])
    record = json.loads(lines[number])
    if isinstance(record, dict) and "files" in record:
        record.pop("sha256", None)  # of a result itself, which would hide every other change
    places: list[tuple[Any, Any]] = []

    def visit(value: Any) -> None:
        for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            places.append((value, key))
            visit(value[key])

    visit(record)
    for _ in range(rng.choice((1, 1, 2))):
        if not places or rng.random() < 0.03:
            record = rng.choice(ODD)
            break
        holder, key = rng.choice(places)
        if rng.random() < 0.2 and isinstance(holder, dict):
            holder.pop(key, None)
        else:
            holder[key] = rng.choice(ODD)
    lines[number] = json.dumps(record).encode()
    return b"\n".join(lines)


def innermost(traceback: TracebackType | None) -> str:
    """The file of the line that raised."""
    assert traceback is not None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_filename


def fault(read: Callable[[Path], Any], path: Path) -> str | None:
    """What is wrong with how a reader takes a file; None if it reads it, or says in one sentence of ours why not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read(path)
    except (ValueError, OSError) as error:
        if not innermost(error.__traceback__).startswith(SOURCE):
            return f"{type(error).__name__} of another library: {error}"
        if "\n" in str(error) or not str(error).strip():
            return f"not one sentence: {error}"
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, MemoryError):
                return f"more memory than there is: {error}"
            cause = cause.__cause__ or cause.__context__
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@contextmanager
def limited_memory() -> Iterator[None]:
    """Let allocations fail that are far beyond what a case may take, so that they do not end the machine."""
    statm, before = Path("/proc/self/statm"), resource.getrlimit(resource.RLIMIT_AS)
    if statm.exists():
        now = int(statm.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + 2 * MOST_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def memory(*, forget: bool = False) -> int:
    """Bytes that the process took at most since this was last told to forget; 0 where the system does not say."""
    try:
        if forget:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@dataclass
class Summary:
    """What the cases of some readers came to."""

    cases: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0
    bytes: int = 0


def run_cases(
    folder: Path,
    cases: range,
    seed: int = 0,
    *,
    readers: dict[str, Entry],
    on_case: Callable[[int, str, Summary], None] = lambda *_: None,
) -> Summary:
    """Damage files and read them; a case depends on its number and the seed alone, so that it can be run again."""
    originals = {}
    for number, (name, write, _) in enumerate(readers.values()):
        (folder / str(number)).mkdir()
        path = folder / str(number) / name
        write(path)
        originals[path] = path.read_bytes()
    summary = Summary()
    entries = list(zip(readers.items(), originals.items(), strict=True))
    for case in cases:
        rng = random.Random(f"{seed} {case}")
        (reader, (_, _, read)), (path, content) = entries[case % len(entries)]
        ending = ".jsonl" if path.name == ".journal" else path.suffix
        is_retyped = ending in (".json", ".jsonl", ".toml") and rng.random() < 0.5
        path.write_bytes(retyped(content, ending, rng) if is_retyped else damaged(content, rng))
        on_case(case, reader, summary)
        before, start = memory(forget=True), time.perf_counter()
        with limited_memory():
            message = fault(read, path)
        seconds, taken = time.perf_counter() - start, memory() - before
        if seconds > MOST_SECONDS or taken > MOST_BYTES:
            message = f"{seconds:.0f} s, {taken / 2**30:.1f} GB"
        summary.cases[reader] = summary.cases.get(reader, 0) + 1
        summary.seconds, summary.bytes = max(summary.seconds, seconds), max(summary.bytes, taken)
        if message is not None:
            summary.faults.append(f"{reader}, case {case}: {message[:300]}")
        path.write_bytes(content)
    return summary


@pytest.mark.slow
def test_a_damaged_file_gives_one_sentence(tmp_path: Path) -> None:
    summary = run_cases(tmp_path, range(CASES), readers=READERS)
    assert not summary.faults, f"{len(summary.faults)} of {CASES} cases:\n" + "\n".join(summary.faults[:20])
    assert sum(summary.cases.values()) == CASES


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the system does not say how much memory was taken")
def test_what_takes_too_much_memory_or_time_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("test_damaged_files.MOST_BYTES", 2**26)
    monkeypatch.setattr("test_damaged_files.MOST_SECONDS", 0.2)
    entries: dict[str, Callable[[Path], Any]] = {
        "fills": lambda _: np.ones(2**24).sum(),
        "fails": lambda _: np.ones(2**40),
        "waits": lambda _: time.sleep(0.3),
        "reads": lambda path: path.read_bytes(),
    }
    readers: dict[str, Entry] = {name: ("x.npy", lambda path: np.save(path, X), read) for name, read in entries.items()}
    faults = run_cases(tmp_path, range(4), readers=readers).faults
    assert [each.partition(",")[0] for each in faults] == ["fills", "fails", "waits"]


def test_the_committed_run_of_many_cases_found_no_fault() -> None:
    summary = json.loads(Path(__file__).with_name("fuzz_summary.json").read_bytes())
    parts = (summary["files"], summary["folders"])
    assert sum(part["cases"] for part in parts) >= 20_000 and not [fault for part in parts for fault in part["faults"]]
    assert set(summary["files"]["cases_by_reader"]) == set(READERS)


@pytest.mark.parametrize("reader", READERS)
def test_the_whole_file_is_read(reader: str, tmp_path: Path) -> None:
    name, write, read = READERS[reader]
    path = tmp_path / name
    write(path)
    read(path)


@pytest.mark.parametrize("reader", READERS)
def test_an_empty_file_gives_one_sentence(reader: str, tmp_path: Path) -> None:
    name, write, read = READERS[reader]
    path = tmp_path / name
    write(path)
    path.write_bytes(b"")
    assert fault(read, path) is None
