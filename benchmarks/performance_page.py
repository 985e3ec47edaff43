"""The page docs/performance.md from the committed records: tables, what was missed, scaling, and an estimate from both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from table import Result, markdown

TEMPLATE = Path(__file__).with_name("performance_template.md")
TITLES = {
    "survey": "Survey against one matrix product",
    "peers": "Packages that measure the same things",
    "eig": "I(W) against a plain program",
    "memory": "Memory beyond the input",
    "repair": "Cluster-based repair",
    "kmeans": "K-means",
    "extraction": "Extraction",
    "tracking": "Tracking during fine-tuning",
    "direct": "DirectProbe",
    "grid": "Grid of classifier probes",
    "loss": "IsoScore as a loss",
    "layer": "The isotropy layer",
    "advice": "Advice",
}
MISSES_LISTED = 30
# What is estimated at the end of the page.
ROWS, WIDTH, WORKERS = 1_000_000_000, 1_024, 100


def page(records: Mapping[str, Any]) -> str:
    """The whole page.

    Parameters
    ----------
    records
        By table: what it was measured on, and its results.
    """
    results = {table: [Result.from_dict(each) for each in record["results"]] for table, record in records.items()}
    parts = {
        "missed": missed(results),
        "tables": tables(records, results),
        "survey": survey_parts(results),
        "scaling": scaling(results),
        **billion(records, results),
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part)
    return text


def missed(results: Mapping[str, Sequence[Result]]) -> str:
    """One line per goal that was not met."""
    every = [result for table in results.values() for result in table]
    lines = [
        f"- {result.case}: {result.value:.3g} {result.unit}, goal {'≤' if result.sense == 'at most' else '≥'} {result.goal:g}"
        for result in every
        if result.verdict == "MISSED"
    ]
    count = sum(result.verdict in ("met", "MISSED") for result in every)
    head = f"{len(lines)} of the {count} goals below were missed"
    return f"{head}:\n\n" + "\n".join(lines[:MISSES_LISTED]) if lines else f"{head}."


def tables(records: Mapping[str, Any], results: Mapping[str, Sequence[Result]]) -> str:
    """A table of results for each subject, and what each was measured on."""
    sections = []
    for table, title in TITLES.items():
        if results.get(table):
            about = records[table]["machine"]
            where = "; ".join(f"{name}: {about[name]}" for name in about)
            sections.append(f"### {title}\n\n{markdown(results[table])}\n\nMeasured on {where}.")
    return "\n\n".join(sections)


def survey_parts(results: Mapping[str, Sequence[Result]]) -> str:
    """What a survey with all metrics took, in products X @ U."""
    whole = [result for result in results.get("survey", ()) if "all metrics" in result.case]
    return " ".join(f"Measured: {result.case} took {result.value:.3g} GEMMs ({result.ours})." for result in whole)


def scaling(results: Mapping[str, Sequence[Result]]) -> str:
    """Curves as tables: what grows with what."""
    sections = []
    rows: list[tuple[str, ...]]
    shards = [result.measures for result in results.get("shards", ()) if "cpu" in result.measures]
    if shards:
        names: tuple[str, ...] = ("cpu", "per_million", "anonymous", "file")
        costs = [{**m, "per_million": m["cpu"] / m["n"] * 1e6} for m in shards]
        rows = [(f"{m['n']:,.0f} × {m['d']:.0f}", *(f"{m[name]:,.1f}" for name in names)) for m in costs]
        head = ("rows", "CPU s", "CPU s per million rows", "memory of the process, MB", "mapped pages, MB")
        sections.append(f"**Survey of memory-mapped shards, all metrics.**\n\n{grid(head, rows)}")
    texts = [result.measures for result in results.get("extraction", ()) if "texts" in result.measures]
    if texts:
        first: tuple[str, ...] = (f"{texts[0]['few']:,.0f}", f"{texts[0]['few_cpu']:,.1f}", f"{texts[0]['few_megabytes']:,.0f}")
        rows = [first, *((f"{m['texts']:,.0f}", f"{m['cpu']:,.1f}", f"{m['megabytes']:,.0f}") for m in texts)]
        sections.append(f"**Extraction and survey of all layers, nothing stored.**\n\n{grid(('texts', 'CPU s', 'MB'), rows)}")
    direct = [result.measures for result in results.get("direct-scaling", ())]
    if direct:
        names = ("n", "d", "labels", "seconds", "gigabytes")
        rows = [tuple(f"{m[name]:,.0f}" if m[name] >= 100 else f"{m[name]:.3g}" for name in names) for m in direct]
        sections.append(f"**DirectProbe of separable clouds.**\n\n{grid(('rows', 'd', 'labels', 's', 'GB'), rows)}")
    workers = results.get("workers", ())
    if workers:
        sections.append(f"**One worker against two.**\n\n{markdown(workers)}")
    return "\n\n".join(sections) or "Not measured yet."


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def billion(records: Mapping[str, Any], results: Mapping[str, Sequence[Result]]) -> dict[str, str]:
    """What a survey of a billion vectors costs on a hundred workers, from the largest survey of shards that was measured."""
    measured = [result.measures for result in results["shards"] if "cpu" in result.measures]
    largest = max(measured, key=lambda measures: measures["n"])
    per_row = largest["cpu"] / largest["n"]
    wider = (WIDTH / largest["d"]) ** 2  # products, and the matrices in memory, grow with d^2
    seconds = per_row * wider * ROWS / WORKERS
    all_bytes, matrix_bytes = ROWS * WIDTH * 4, WIDTH**2 * 8
    return {
        "base_rows": f"{largest['n']:,.0f}",
        "base_width": f"{largest['d']:.0f}",
        "per_million": f"{per_row * 1e6:.1f}",
        "processor": f"{records['shards']['machine']['processor']}",
        "rows": f"{ROWS:,}",
        "width": f"{WIDTH:,}",
        "workers": f"{WORKERS}",
        "terabytes": f"{all_bytes / 1e12:.1f}",
        "gigabytes": f"{all_bytes / WORKERS / 1e9:.0f}",
        "seconds": f"{seconds:,.0f}",
        "hours": f"{seconds / 3600:.1f}",
        "core_hours": f"{seconds * WORKERS / 3600:,.0f}",
        "rate": f"{2 * all_bytes / WORKERS / seconds / 1e6:,.0f}",
        "moments": f"{matrix_bytes / 1e6:.1f}",
        "rounds": f"{(WORKERS - 1).bit_length()}",
        "eigenvectors": f"{2 * matrix_bytes / 1e6:.1f}",
        "memory": f"{largest['anonymous'] * wider:,.0f}",
    }
