"""The demo that needs no torch: survey, repair and compare a table of real word vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from theodolite.cli.frame import progress, stdout

if TYPE_CHECKING:
    from theodolite.cli.survey import Surveyed

REPAIRS = ("zero-mean", "global")
SAMPLE = 5_000  # half of what a survey takes by itself: the demo measures three clouds and should not be long
METRICS = ("iso_score", "mean_cosine", "effective_rank", "hubness")


def run_static(folder: Path) -> None:
    """Survey 32,000 real vectors, fit two repairs, apply them, and show what changed."""
    from theodolite.cli.survey import survey_file
    from theodolite.cli.tables import show_findings, show_header, show_rows
    from theodolite.core.rows import write_rows
    from theodolite.spaces.demo import demo_vectors

    vectors = demo_vectors()
    original = folder / "vectors.npy"
    write(vectors, original)
    console = stdout()
    surveyed = survey_file(str(original), None, None, sample=SAMPLE)
    show_header(console, str(original), surveyed.cloud)
    show_rows(console, surveyed.rows)
    console.print()
    show_findings(console, surveyed.findings)
    rows = list(surveyed.rows)
    for name in REPAIRS:
        repaired = folder / f"{name}.npy"
        console.print()
        console.print(f"{name}: {repair_file(name, original, folder / f'repair-{name}', repaired)}", markup=False)
        after = survey_file(str(repaired), None, None, sample=SAMPLE, findings=False)
        rows += after.rows
    write_rows(rows, folder / "rows.json")
    console.print()
    compare_surveyed(console, surveyed, after)
    say_where(console, folder)


def write(vectors: Any, path: Path) -> None:
    """One array to a file."""
    from theodolite.spaces import write_vectors

    write_vectors([vectors], path, n=len(vectors), d=vectors.shape[1], dtype=vectors.dtype, overwrite=True)


def repair_file(name: str, path: Path, folder: Path, to: Path) -> str:
    """Fit, save and apply a repair; returns what changed, in a line."""
    from theodolite.cli.repair import change, repair_named, write_repaired
    from theodolite.core.moments import Moments
    from theodolite.repairs import save_repair
    from theodolite.spaces import read

    repair = repair_named(name)()
    with progress() as bars:
        opened = read(path)
        repair.fit(opened.watched(bars.rows(f"fitting {name}", opened.n)))
        save_repair(repair, folder, overwrite=True)
        write_repaired(repair, opened, to, overwrite=True)
    return change(Moments.of(opened), Moments.of(read(to)))


def compare_surveyed(console: Any, first: Surveyed, second: Surveyed) -> None:
    """The table of `theodolite compare`, for the metrics that tell most."""
    from theodolite.cli.tables import show_comparisons
    from theodolite.metrics.compare import compare

    with progress() as bars:
        compared = compare(first.cloud, second.cloud, METRICS, bootstrap=50, progress=bars.steps("half-samples"))
    console.print(f"A = {first.path}, B = {second.path}", markup=False)
    show_comparisons(console, compared)


def say_where(console: Any, folder: Path) -> None:
    """What lies where, and what to try next."""
    console.print(
        f"\nIn {folder}: vectors.npy, {', '.join(f'{name}.npy' for name in REPAIRS)}, the fitted repairs, "
        "and rows.json with all numbers."
        f"\nNext: theodolite survey {folder / 'vectors.npy'} --bootstrap 200",
        markup=False,
        soft_wrap=True,
    )
