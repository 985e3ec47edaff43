"""The pages of metrics and of repairs match the registries.

`THEODOLITE_WRITE_DOCS=1 pytest tests/contract/test_docs.py` writes them again.
"""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path

import pytest

from theodolite.metrics import METRICS
from theodolite.repairs import REPAIRS

DOCS = Path(__file__).parents[2] / "docs"

NEEDS = {
    "sums": "one pass",
    "moments": "one pass",
    "second pass": "two or three passes",
    "sample": "sample",
    "pairs": "two inputs",
    "reference": "one pass",
}
# Each heading of the page, with the modules whose metrics it lists.
FAMILIES = {
    "How the variance is spread": ("isoscore", "spectral"),
    "The partition function": ("partition",),
    "Cosines, lengths and dimensions": ("cosine", "sphere"),
    "Neighbours and copies": ("neighbours", "populations"),
}
METRICS_INTRODUCTION = """# Metrics

Use this page to look up a number that a survey prints, or to choose what to measure. To find out what is unusual in your own
vectors, run `theodolite survey`, which compares the numbers with [healthy ranges](ranges.md). Do not use a metric to decide which
encoder is better: [the shape of a space is not its score](explanation/anisotropy.md#what-it-does-not-cost). On the site,
[metrics in detail](reference/metric-details.md) adds formulas, healthy ranges, and when each metric misleads.

Every metric is a function in `theodolite.metrics` that takes a *cloud*: vectors, one per row. A survey measures all except
ABSENT
If a metric is not defined for an input, its value is `nan` and the result says why.

The last column says what a metric reads. Those that compare rows with rows read a *sample*: 10,000 rows drawn with a fixed seed,
or all rows if there are fewer (`--sample` changes the size). The others read every row, in one or more passes. RP21 is Rajaee and
Pilehvar (2021); IL23 is Attieh et al. (2023).
"""
REPAIRS_INTRODUCTION = """# Repairs

Use this page to see which repairs there are. To find out whether any of them helps on your data, run
[`theodolite repair advise`](advice.md). In RP21, repairs raise the scores of pre-trained encoders and often lower those of
fine-tuned ones ([why](explanation/repairs-that-harm.md)), so measure the task score before you keep one.

Every repair is a scikit-learn transformer in `theodolite.repairs` and a name for `theodolite repair fit`. Fit it on one set of
vectors, then apply the same fitted repair to documents and queries. If a repair is *affine*, it is one matrix and one bias, and
`theodolite repair export` can [put it into a model or an index](shipping.md).
"""


# What the columns for range and source repeat.
RANGE = re.compile(r", (?:in [\[(][^;:]*?[\])]|at (?:least|most) \d)(?=[.;: ])")
SOURCE = re.compile(r" \((?:[A-Z][^()]* \d{4}[^()]*|IL23 eq\. 1)\)")


def metrics_page() -> str:
    needing = [f"`{name}`" for name, entry in METRICS.items() if entry.needs in ("pairs", "reference")]
    unasked = [f"`{name}`" for name, entry in METRICS.items() if not entry.default and f"`{name}`" not in needing]
    absent = (
        f"{' and '.join(needing)}, which need a second input, and\n"
        f"{' and '.join(unasked)}, which it measures if you name them with `--metrics`."
    )
    lines = [METRICS_INTRODUCTION.replace("ABSENT", absent)]
    families = {module: family for family, modules in FAMILIES.items() for module in modules}
    for family in FAMILIES:
        lines += [f"## {family}", "", "| metric | what it measures | range | source | reads |", "|---|---|---|---|---|"]
        for name, entry in METRICS.items():
            if families[entry.function.__module__.rpartition(".")[2]] == family:
                meaning = SOURCE.sub("", RANGE.sub("", entry.summary))
                lines.append(f"| `{name}` | {meaning} | {entry.range} | {entry.paper or '—'} | {NEEDS[entry.needs]} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


# The end of a summary, which the column "affine" replaces.
TAGS = re.compile(r" (?:One pass, |Learns nothing, )?(?:not )?affine\.$", re.IGNORECASE)


def repairs_page() -> str:
    lines = [
        REPAIRS_INTRODUCTION,
        "| name | class | what it does | affine | parameters |",
        "|---|---|---|---|---|",
    ]
    for name, kind in REPAIRS.items():
        summary = TAGS.sub("", (inspect.getdoc(kind) or "").partition("\n")[0])
        parameters = ", ".join(f"`{key}={value!r}`" for key, value in kind().get_params().items()) or "—"
        lines.append(f"| `{name}` | `{kind.__name__}` | {summary} | {'yes' if kind.is_affine else 'no'} | {parameters} |")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("name", "page"), [("metrics.md", metrics_page), ("repairs.md", repairs_page)])
def test_the_page_is_what_the_registry_says(name: str, page: object) -> None:
    text = page()  # type: ignore[operator]
    if os.environ.get("THEODOLITE_WRITE_DOCS"):
        (DOCS / name).write_text(text, encoding="utf-8")
    assert (DOCS / name).read_text(encoding="utf-8") == text
