"""What every verb concludes on data whose truth is known: writes known_truth.json and the table of docs/verdicts.md.

`python benchmarks/known_truth.py` needs the folders that THEODOLITE_DATA and THEODOLITE_MODELS name: it encodes CISI with
granite-30m and all-MiniLM-L6-v2. The seeds did not serve to make the rules; the encoders did, on other texts. `--quick` repeats
every case a few times and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import theodolite as th
from theodolite.advice.diagnosis import DIRECTIONS
from theodolite.core.intervals import share_interval

HERE = Path(__file__).parent
RECORD = HERE / "known_truth.json"
PAGE = HERE.parent / "docs" / "verdicts.md"
FIRST_SEED = 70_000  # far from the seeds of tests and of other scripts
ROWS = 400

Rows = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """One kind of data, what a verb must conclude on it, and how often it is drawn."""

    verb: str
    data: str
    expected: tuple[str, ...]
    conclude: Callable[[np.random.Generator], str]
    times: int = 100


class Vectors:
    """Texts of CISI and their vectors by two encoders, encoded once."""

    def __init__(self) -> None:
        from theodolite.tasks import read_beir

        folder = Path(os.environ["THEODOLITE_DATA"]) / "cisi"
        self.collection = read_beir(folder)
        models = Path(os.environ["THEODOLITE_MODELS"])
        options: dict[str, Any] = {"max_length": 128, "progress": False}
        self.granite, self.queries = (
            np.asarray(th.extract(str(models / "granite-30m"), texts=texts, unit="cls", layers="last", **options)[-1])
            for texts in (list(self.collection.documents), list(self.collection.queries))
        )
        self.minilm = np.asarray(th.extract("demo", texts=list(self.collection.documents), layers="last", **options)[-1])

    def rows(self, random: np.random.Generator, count: int = ROWS) -> Rows:
        """The numbers of some documents, drawn without repetition."""
        return np.asarray(random.choice(len(self.granite), count, replace=False))


def turned(X: Rows, random: np.random.Generator) -> Rows:
    """The rows under a random rotation or reflection."""
    return np.asarray(X @ np.linalg.qr(random.standard_normal((X.shape[1], X.shape[1])))[0], dtype=np.float32)


def rounded(X: Rows, axis: int | None) -> Rows:
    """The rows as int8 with one step for the file, each column (axis 0) or each row (axis 1), multiplied out again."""
    step = np.abs(X).max(axis=axis, keepdims=axis is not None) / 127
    return np.asarray(np.round(X / step) * step, dtype=np.float32)


def _rounded_copy(axis: int | None, X: Rows, _: np.random.Generator) -> Rows:
    return rounded(X, axis)


def compare_cases(vectors: Vectors) -> Iterator[Case]:
    def pair(change: Callable[[Rows, np.random.Generator], Rows], **options: Any) -> Callable[..., str]:
        def conclude(random: np.random.Generator) -> str:
            X = vectors.granite[vectors.rows(random)]
            return verdict(th.compare(X, change(X, random), metrics=["iso_score"], bootstrap=0, progress=False, **options))

        return conclude

    yield Case("compare", "a copy", ("identical",), pair(lambda X, _: X.copy()), 20)
    yield Case("compare", "a rotated copy", ("turned",), pair(turned))
    lengths = pair(lambda X, random: (X * random.uniform(0.5, 2, (len(X), 1))).astype(np.float32))
    yield Case("compare", "a copy with other lengths", ("same up to length",), lengths)
    for name, axis in (("file", None), ("column", 0), ("row", 1)):
        copy = pair(partial(_rounded_copy, axis))
        yield Case("compare", f"an int8 copy, one step per {name}", ("same up to precision",), copy)
    yield Case("compare", "a float16 copy", ("same up to precision",), pair(lambda X, _: X.astype(np.float16)))
    yield Case("compare", "the first 128 dimensions", ("first dimensions",), pair(lambda X, _: X[:, :128].copy()))

    def re_embedded(X: Rows, random: np.random.Generator) -> Rows:
        mixed = X.copy()
        rows = random.choice(len(X), len(X) // 5, replace=False)
        mixed[rows] = turned(X, random)[rows]
        return mixed

    yield Case("compare", "a fifth of the rows from another model", ("partly re-embedded",), pair(re_embedded))

    def other_model(random: np.random.Generator) -> str:
        rows = vectors.rows(random)
        options: dict[str, Any] = {"metrics": ["iso_score"], "bootstrap": 0, "paired": True, "progress": False}
        return verdict(th.compare(vectors.granite[rows], vectors.minilm[rows], **options))

    yield Case("compare", "the same texts by another model", ("different",), other_model, 20)

    def same_population(random: np.random.Generator) -> str:
        rows = vectors.rows(random, 2 * ROWS)
        options: dict[str, Any] = {"metrics": ["iso_score"], "bootstrap": 0, "progress": False}
        return verdict(th.compare(vectors.granite[rows[:ROWS]], vectors.granite[rows[ROWS:]], **options))

    yield Case("compare", "two samples of one population", ("no shift found",), same_population, 200)

    def shifted(random: np.random.Generator) -> str:
        rows = vectors.rows(random, len(vectors.queries) * 2)
        options: dict[str, Any] = {"metrics": ["iso_score"], "bootstrap": 0, "progress": False}
        return verdict(th.compare(vectors.granite[rows], vectors.queries, **options))

    yield Case("compare", "documents and queries", ("shifted",), shifted, 20)


def probe_cases(vectors: Vectors) -> Iterator[Case]:
    def labelled(count: int, dimensions: int, gap: float) -> Callable[[np.random.Generator], str]:
        def conclude(random: np.random.Generator) -> str:
            X = vectors.granite[vectors.rows(random, count)]
            X = X[:, :dimensions] / X[:, :dimensions].std()
            labels = np.array(["a", "b", "c"])[random.integers(0, 3, count)]
            X = X + gap * random.standard_normal((3, dimensions))[np.searchsorted(["a", "b", "c"], labels)]
            return verdict(th.probe(X, list(labels), progress=False))

        return conclude

    yield Case(
        "probe", "noise labels, 120 rows in 384 dimensions", ("separable by dimension alone",), labelled(120, 384, 0.0), 50
    )
    yield Case("probe", "noise labels, 300 rows in 16 dimensions", ("not separable",), labelled(300, 16, 0.0), 20)
    yield Case("probe", "three groups far apart, 300 rows in 16 dimensions", ("separable",), labelled(300, 16, 4.0), 20)


def survey_cases(vectors: Vectors) -> Iterator[Case]:
    def causes(change: Callable[[Rows, np.random.Generator], Rows]) -> Callable[[np.random.Generator], str]:
        def conclude(random: np.random.Generator) -> str:
            result = th.survey(change(vectors.minilm[vectors.rows(random, 1000)], random), progress=False)
            flagged = [finding for finding in result.findings if finding.severity]
            return flagged[0].cause if flagged else verdict(result)

        return conclude

    def own(random: np.random.Generator) -> str:
        return verdict(th.survey(vectors.granite[vectors.rows(random, 1000)], progress=False))

    def with_direction(X: Rows, random: np.random.Generator) -> Rows:
        direction = turned(np.eye(1, X.shape[1]), random)
        return np.asarray(X + 3 * X.std() * np.sqrt(X.shape[1]) * random.standard_normal((len(X), 1)) * direction)

    def with_copies(X: Rows, random: np.random.Generator) -> Rows:
        return np.concatenate([X, X[random.choice(len(X), len(X) // 3, replace=False)]])

    def with_mean(X: Rows, random: np.random.Generator) -> Rows:
        return np.asarray(X + 2 * np.linalg.norm(X, axis=1).mean() * turned(np.eye(1, X.shape[1]), random))

    yield Case("survey", "vectors that a sound encoder ships", ("OK", "watch"), own, 10)
    yield Case("survey", "one planted direction", DIRECTIONS, causes(with_direction), 10)
    yield Case("survey", "a third of the rows copied", ("duplicates",), causes(with_copies), 10)
    yield Case("survey", "a planted mean", ("mean",), causes(with_mean), 10)


def advise_cases(vectors: Vectors) -> Iterator[Case]:
    def noise(random: np.random.Generator) -> str:
        X = vectors.granite[vectors.rows(random, 300)]
        return verdict(th.advise(X, labels=list(random.permutation(["a", "b", "c"] * 100)), progress=False))

    yield Case("advise", "labels without meaning", ("not shown", "leave it alone"), noise, 10)


def calibrate_cases(vectors: Vectors) -> Iterator[Case]:
    def pairs(related: bool) -> Callable[[np.random.Generator], str]:
        def conclude(random: np.random.Generator) -> str:
            rows = vectors.rows(random)
            X = vectors.granite[rows]
            others = X + 0.3 * X.std() * random.standard_normal(X.shape)
            matches = np.arange(len(X)) % 2 == 0
            others[~matches] = X[random.permutation(len(X))[~matches]]
            scores = matches if related else random.permutation(matches)
            return verdict(th.calibrate(X, pairs=others, scores=scores.astype(float), progress=False))

        return conclude

    yield Case("calibrate", "pairs whose scores are shuffled", ("does not separate",), pairs(related=False), 100)
    yield Case("calibrate", "copies with noise against random pairs", ("separates",), pairs(related=True), 20)


def gate_cases(vectors: Vectors) -> Iterator[Case]:
    bounds = '[survey]\nsource = "vectors.npy"\n[bounds]\niso_score = { drop = 0.05 }\nmean_cosine = { rise = 0.05 }\n'

    def judged(change: Callable[[Rows], Rows]) -> Callable[[np.random.Generator], str]:
        def conclude(random: np.random.Generator) -> str:
            rows = vectors.rows(random, 2 * ROWS)
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                (folder / "theodolite.toml").write_text(f'baseline = "baseline"\n{bounds}')
                np.save(folder / "vectors.npy", vectors.granite[rows[:ROWS]])
                th.gate(config=folder / "theodolite.toml", update=True, progress=False)
                np.save(folder / "vectors.npy", change(vectors.granite[rows[ROWS:]]))
                return verdict(th.gate(config=folder / "theodolite.toml", progress=False))

        return conclude

    yield Case("gate", "another sample of the same population", ("pass",), judged(lambda X: X), 100)
    yield Case("gate", "a space shrunk towards its mean", ("breach",), judged(lambda X: X.mean(axis=0) + 0.2 * X), 20)

    def wrecked(random: np.random.Generator) -> str:
        """Judged queries, and an index whitened to full rank on a few rows."""
        rows = vectors.rows(random, 300)
        whitened = th.repair.fit("whiten", vectors.granite[rows]).transform
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            lines = ["query\tdocument\tgrade"]
            judged = vectors.collection.judgements
            for query, document, grade in zip(judged.query, judged.document, judged.grade, strict=True):
                if document >= 0:
                    lines.append(f"{query}\t{document}\t{grade:g}")
            (folder / "qrels.tsv").write_text("\n".join(lines) + "\n")
            text = 'source = "index.npy"\nqueries = "queries.npy"\njudgements = "qrels.tsv"\n"ndcg@10" = { drop = 0.01 }\n'
            (folder / "theodolite.toml").write_text(f'baseline = "baseline"\n[retrieval]\n{text}')
            np.save(folder / "index.npy", vectors.granite)
            np.save(folder / "queries.npy", vectors.queries)
            th.gate(config=folder / "theodolite.toml", update=True, progress=False)
            np.save(folder / "index.npy", whitened(vectors.granite))
            np.save(folder / "queries.npy", whitened(vectors.queries))
            return verdict(th.gate(config=folder / "theodolite.toml", progress=False))

    yield Case("gate", "a whitened index with judged queries", ("breach",), wrecked, 5)


def verdict(result: th.Result) -> str:
    """The verdict of a result's answer."""
    assert result.answer is not None
    return result.answer.verdict


def measured(case: Case, quick: bool) -> dict[str, Any]:
    """How often a verb concluded what it must, and what it concluded otherwise."""
    times, start = max(2, case.times // 20) if quick else case.times, time.process_time()
    verdicts = Counter(case.conclude(np.random.default_rng(FIRST_SEED + number)) for number in range(times))
    right = sum(verdicts[each] for each in case.expected)
    low, high = share_interval(right, times)
    record = {"verb": case.verb, "data": case.data, "expected": case.expected, "right": right, "times": times}
    record |= {"low": low, "high": high, "verdicts": dict(verdicts), "seconds": round(time.process_time() - start, 1)}
    print(f"{case.verb}: {case.data}: {right} of {times} ({dict(verdicts)})", flush=True)
    return record


def table(records: list[dict[str, Any]]) -> str:
    """The table of the page."""
    lines = ["| verb | data | right answer | right | other answers |", "|---|---|---|---|---|"]
    for record in records:
        others = {name: count for name, count in record["verdicts"].items() if name not in record["expected"]}
        wrong = ", ".join(f"{name} ({count})" for name, count in others.items()) or "–"
        share = f"{record['right']} of {record['times']}"
        lines.append(f"| `{record['verb']}` | {record['data']} | {' or '.join(record['expected'])} | {share} | {wrong} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="repeat every case a few times, and write nothing")
    parser.add_argument("--only", default="", help="only the cases of this verb; the others keep their records")
    arguments = parser.parse_args()
    vectors = Vectors()
    makers = {"compare": compare_cases, "probe": probe_cases, "survey": survey_cases, "advise": advise_cases}
    makers |= {"calibrate": calibrate_cases, "gate": gate_cases}
    kept = json.loads(RECORD.read_text()) if RECORD.exists() and arguments.only else []
    records = []
    for verb, cases in makers.items():
        if arguments.only in ("", verb):
            records += [measured(case, arguments.quick) for case in cases(vectors)]
        else:
            records += [record for record in kept if record["verb"] == verb]
        if not arguments.quick:
            RECORD.write_text(json.dumps(records, indent=1) + "\n")
    if not arguments.quick:
        head, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- verdicts: begin -->")
        tail = rest.partition("<!-- verdicts: end -->")[2]
        PAGE.write_text(f"{head}<!-- verdicts: begin -->\n{table(records)}\n<!-- verdicts: end -->{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
