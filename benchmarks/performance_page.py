"""The page docs/performance.md and its pictures from the committed records: tables, misses, scaling, and an estimate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from curves import Bar, Line, Panel, bars, in_proportion, number, picture
from table import Result, markdown

Results = Mapping[str, Sequence[Result]]

DOCS = Path(__file__).parents[1] / "docs"
WRITTEN = Path(__file__).with_name("RESULTS.md")
"""Tables that are written by hand; those with goals end with value, goal and verdict."""
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
    "training": "Fine-tuning",
    "direct": "DirectProbe",
    "grid": "Grid of classifier probes",
    "loss": "IsoScore as a loss",
    "layer": "The isotropy layer",
    "advice": "Advice",
}
BOUNDS = {"at most": "≤", "at least": "≥"}
# What the chart at the top shows: the comparisons with other programs, by table and beginning of the case, wins and losses alike.
COMPARISONS = {
    "Survey, against spectralyte's audit": ("peers", "survey with findings of 10,000 × 768, against spectralyte"),
    "Survey, against vecscope's audit": ("peers", "survey with findings of 10,000 × 768, against vecscope"),
    "Four measures, against IsoScore alone": ("peers", "four measures of 100,000 × 768"),
    "I(W), against a plain NumPy loop": ("eig", "I(W)"),
    "Cluster-based repair, against a loop over points": ("repair", "cluster-based repair"),
    "k-means, against scikit-learn's KMeans": ("kmeans", "k-means of 100,000 × 768, k = 27, against KMeans"),
    "k-means, against MiniBatchKMeans": ("kmeans", "k-means of 100,000 × 768, k = 27, against MiniBatchKMeans"),
    "IsoScore as a loss, against SVD through autograd": ("loss", "IsoScore, forward and backward, 32 × 768"),
    "Grid of probes, against scikit-learn's search": ("grid", "full grid, POS"),
}
# What is estimated at the end of the page.
ROWS, WIDTH, WORKERS = 1_000_000_000, 1_024, 100


def files(records: Mapping[str, Any]) -> dict[Path, str]:
    """The page and its pictures by their paths.

    Parameters
    ----------
    records
        By table: what it was measured on, and its results.
    """
    results = {table: [Result.from_dict(each) for each in record["results"]] for table, record in records.items()}
    drawings = {DOCS / "images" / f"scaling-{name}.svg": picture(*drawing) for name, drawing in curves(results).items()}
    chart = {DOCS / "images" / "performance.svg": bars(compared(results), chart_words(results))}
    return {DOCS / "performance.md": page(records, results), **chart, **drawings}


def page(records: Mapping[str, Any], results: Results) -> str:
    parts = {
        "opening": opening(results),
        "chart": f"![{chart_words(results)}](images/performance.svg)",
        "machine": machine_line(records),
        "usual": usual_way(records),
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


def opening(results: Results) -> str:
    """What a reader should take from the page, in three sentences."""
    largest = max(shard_costs(results), key=lambda measures: measures["n"])
    ratios = sorted(bar.value for bar in compared(results))
    faster = sum(ratio > 1 for ratio in ratios)
    lost, count = goals_missed(results)
    size = f"{largest['n'] / 1e6:.0f} million vectors of {largest['d']:.0f} dimensions"
    return (
        f"A survey of {size} with all metrics takes {largest['cpu'] / 60:.0f} minutes of one core, and "
        f"{largest['anonymous']:.0f} MB of memory whatever the number of vectors. "
        f"Theodolite was faster than the other program in {faster} of {len(ratios)} comparisons: from {ratios[0]:.2g} to "
        f"{ratios[-1]:.0f} times as fast, {ratios[len(ratios) // 2]:.2g} times in the median. "
        f"Of the {count} goals that we set ourselves, {count - len(lost)} are met; the others are [listed below](#where-we-miss)."
    )


def compared(results: Results) -> list[Bar]:
    """How many times as fast as each of the other programs, slowest first."""
    found = [
        Bar(label, next(result.value for result in results.get(table, ()) if result.case.startswith(case)))
        for label, (table, case) in COMPARISONS.items()
        if any(result.case.startswith(case) for result in results.get(table, ()))
    ]
    return sorted(found, key=lambda bar: bar.value)


def chart_words(results: Results) -> str:
    """The chart for readers who do not see it."""
    return (
        "Times as fast as another program. " + "; ".join(f"{bar.label}: {number(bar.value)}" for bar in compared(results)) + "."
    )


def machine_line(records: Mapping[str, Any]) -> str:
    """The machine of all records, once."""
    machines = {
        tuple(record["machine"][name] for name in ("processor", "cores", "memory", "Python")) for record in records.values()
    }
    return "; ".join(
        f"{name}, {cores} cores, {memory}, Linux, Python {python}" for name, cores, memory, python in sorted(machines)
    )


def goals_missed(results: Results) -> tuple[list[str], int]:
    """One line per goal that was not met, in the records and in the tables of RESULTS.md, and the number of all goals."""
    goals = [
        (result.verdict, f"{result.case}: {result.value:.3g} {result.unit}, goal {BOUNDS[result.sense]} {result.goal:g}")
        for table in results.values()
        for result in table
    ]
    heading = ""
    for line in WRITTEN.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if line.endswith(("| met |", "| MISSED |")):
            case, *_, value, goal, verdict = (cell.strip() for cell in line.strip("|").split("|"))
            goals.append((verdict, f"{heading}: {case}: {value}, goal {goal}"))
    lines = [f"- {goal}" for verdict, goal in goals if verdict == "MISSED"]
    return lines, sum(verdict in ("met", "MISSED") for verdict, _ in goals)


def missed(results: Results) -> str:
    """The goals that were not met, as a list."""
    lines, count = goals_missed(results)
    return "\n".join([f"{len(lines)} of {count} goals were missed:", "", *lines])


def tables(records: Mapping[str, Any], results: Results) -> str:
    """A table of results for each subject; how it was measured, if not like most."""
    usual = usual_way(records)
    sections = []
    for table, title in TITLES.items():
        if table in records:
            way = measured_with(records[table]["machine"])
            sections += [f"### {title}", markdown(results[table]), *[f"Measured with {way}."] * (way != usual)]
    return "\n\n".join(sections)


def usual_way(records: Mapping[str, Any]) -> str:
    """How most tables were measured."""
    return Counter(measured_with(record["machine"]) for record in records.values()).most_common(1)[0][0]


def measured_with(machine: Mapping[str, str]) -> str:
    """The version that was measured, when, and by which clock; the machine itself is described once."""
    version = machine["packages"].partition(",")[0]
    clock = machine.get("clock") or f"elapsed time, {'one thread' if machine['OMP_NUM_THREADS'] == '1' else 'all cores'}"
    return f"{version} on {machine['date']}: {clock}"


def survey_parts(results: Results) -> str:
    """What a survey with all metrics took, in products X @ U."""
    whole = [result for result in results.get("survey", ()) if "all metrics" in result.case]
    return " ".join(f"Measured: {result.case} took {result.value:.3g} GEMMs ({result.ours})." for result in whole)


def scaling(results: Results) -> str:
    """What grows with what: pictures, and their numbers as tables."""
    sections = []
    drawings = {name: f"![{alt}](images/scaling-{name}.svg)" for name, (_, alt) in curves(results).items()}
    rows: list[tuple[str, ...]]
    shards = shard_costs(results)
    if shards:
        names: tuple[str, ...] = ("cpu", "per_million", "anonymous", "file")
        costs = [{**m, "per_million": m["cpu"] / m["n"] * 1e6} for m in shards]
        rows = [(f"{m['n']:,.0f} × {m['d']:.0f}", *(f"{m[name]:,.1f}" for name in names)) for m in costs]
        head = ("rows", "CPU s", "CPU s per million rows", "memory of the process, MB", "mapped pages, MB")
        sections.append(f"### Survey of memory-mapped shards, all metrics\n\n{drawings['survey']}\n\n{grid(head, rows)}")
    texts = text_costs(results)
    if texts:
        rows = [tuple(f"{m[name]:,.{digits}f}" for name, digits in (("texts", 0), ("cpu", 1), ("megabytes", 0))) for m in texts]
        table = grid(("texts", "CPU s", "MB"), rows)
        sections.append(f"### Extraction and survey of all layers, nothing stored\n\n{drawings['extraction']}\n\n{table}")
    direct = [result.measures for result in results.get("direct-scaling", ())]
    if direct:
        names = ("n", "d", "labels", "seconds", "gigabytes")
        rows = [tuple(f"{m[name]:,.0f}" if m[name] >= 100 else f"{m[name]:.3g}" for name in names) for m in direct]
        table = grid(("rows", "dimensions", "labels", "s", "GB"), rows)
        about = "Each panel changes one size; the others are 5,000 rows, 768 dimensions and 17 labels."
        sections.append(f"### DirectProbe of separable clouds\n\n{about}\n\n{drawings['direct-probe']}\n\n{table}")
    workers = results.get("workers", ())
    if workers:
        sections.append(f"### One worker against two\n\n{drawings['workers']}\n\n{markdown(workers)}")
    return "\n\n".join(sections) or "Not measured yet."


def curves(results: Results) -> dict[str, tuple[list[Panel], str]]:
    """The pictures of scaling by name: their panels, and what they show in words."""
    found: dict[str, tuple[list[Panel], str]] = {}
    if shards := shard_costs(results):
        cpu, process, mapped = ([(m["n"], m[name]) for m in shards] for name in ("cpu", "anonymous", "file"))
        read = [(m["n"], 4e-6 * m["n"] * m["d"]) for m in shards]
        panels = [
            Panel("rows", "processor time, s", [Line("measured", cpu), in_proportion("in proportion to the rows", cpu)]),
            Panel(
                "rows",
                "memory, MB",
                [
                    Line("mapped pages, which the system can drop", mapped),
                    Line("memory of the process", process),
                    Line("size of the input", read, reference=True),
                ],
            ),
        ]
        found["survey"] = panels, f"A survey takes {told(cpu, 'rows', 's')}; its memory is {told(process, 'rows', 'MB')}."
    if texts := text_costs(results):
        cpu, memory = ([(m["texts"], m[name]) for m in texts] for name in ("cpu", "megabytes"))
        panels = [
            Panel("texts", "processor time, s", [Line("measured", cpu), in_proportion("in proportion to the texts", cpu)]),
            Panel("texts", "memory above the encoder, MB", [Line("measured", memory), in_proportion("in proportion", memory)]),
        ]
        found["extraction"] = panels, f"Extraction takes {told(cpu, 'texts', 's')}, and {told(memory, 'texts', 'MB')}."
    if direct := results.get("direct-scaling"):
        panels, words = [], []
        for axis, size in (("rows", "n"), ("dimensions", "d"), ("labels", "labels")):
            points = [(r.measures[size], r.measures["seconds"]) for r in direct if f"against {axis}" in r.case]
            panels.append(Panel(axis, "time, s", [Line("measured", points), in_proportion("in proportion", points)]))
            words.append(told(points, axis, "s"))
        found["direct-probe"] = panels, f"DirectProbe takes {'; '.join(words)}."
    if workers := results.get("workers"):
        times = [(count, workers[-1].measures[name]) for count, name in ((1, "one"), (2, "two"))]
        halved = [(count, times[0][1] / count) for count, _ in times]
        lines = [Line("measured", times), Line("divided by the workers", halved, reference=True)]
        panels = [Panel("worker processes", "elapsed time, s", lines)]
        found["workers"] = panels, f"A survey takes {times[0][1]:.0f} s with one worker and {times[1][1]:.0f} s with two."
    return found


def told(points: Sequence[tuple[float, float]], size: str, unit: str) -> str:
    """A line as words, for readers who do not see it."""
    return ", ".join(f"{number(y)} {unit} with {number(x)} {size}" for x, y in points)


def shard_costs(results: Results) -> list[dict[str, float]]:
    return [result.measures for result in results.get("shards", ()) if "cpu" in result.measures]


def text_costs(results: Results) -> list[dict[str, float]]:
    """What every corpus of the extraction cost; the first is the one that each of the others was compared with."""
    costs = [result.measures for result in results.get("extraction", ()) if "texts" in result.measures]
    if not costs:
        return []
    return [{"texts": costs[0]["few"], "cpu": costs[0]["few_cpu"], "megabytes": costs[0]["few_megabytes"]}, *costs]


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def billion(records: Mapping[str, Any], results: Results) -> dict[str, str]:
    """What a survey of a billion vectors costs on a hundred workers, from the largest survey of shards that was measured."""
    largest = max(shard_costs(results), key=lambda measures: measures["n"])
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
        "rate": f"{3 * all_bytes / WORKERS / seconds / 1e6:,.0f}",
        "moments": f"{matrix_bytes / 1e6:.1f}",
        "rounds": f"{(WORKERS - 1).bit_length()}",
        "eigenvectors": f"{2 * matrix_bytes / 1e6:.1f}",
        "memory": f"{largest['anonymous'] * wider:,.0f}",
    }
