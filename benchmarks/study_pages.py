"""Write docs/study-NAME.md of every study from the records in docs/studies/records: `python benchmarks/study_pages.py`.

`python benchmarks/study_pages.py --add NAME RUN` first adds the run of a study in the folder RUN. Otherwise neither models nor
data are needed: claims are judged again from rows and item-level records.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from theodolite.core.result import Result
from theodolite.studies import study, study_names

DOCS = Path(__file__).parents[1] / "docs"
RECORDS = DOCS / "studies" / "records"
ENCODERS = {
    "tiny-mlm": "two layers, d = 128, trained from new weights as a masked language model on 10 million tokens of public English "
    "text, with minilm-mlm as its teacher",
    "minilm-mlm": "all-MiniLM-L6-v2 re-trained as a masked language model on the same text (six layers, d = 384), which brings "
    "back the shape of a pre-trained space; it is not a model that never saw contrastive training",
    "all-MiniLM-L6-v2": "the demo's encoder, contrastively fine-tuned (six layers, d = 384): its state called pre-trained is the "
    "encoder as it comes",
}
# What of the paper's protocol has not been run yet, and the time on one core that it would take, estimated from what was run.
LEFT = {
    "rp21": "four more seeds of minilm-mlm, about half an hour of one core each.",
    "il23": "minilm-mlm: an estimated 15 to 20 hours. tiny-mlm learns nothing of CoLA (Matthews 0 for every method), so the gain "
    "of a share that IL23-b claims has no value there.",
    "zs22": "minilm-mlm: an estimated 10 hours.",
    "do-no-harm": "",
}
CAVEAT = (
    "The encoders are none of the paper's: nothing here reproduces a printed number, and a claim that needs the paper's models "
    "is *not measured*. The same command with Hub ids runs them. "
)
HEAD = """# {title}

{citation}. [The paper]({link}); [what a study is](studies.md).

{caveat}`$THEODOLITE_DATA` is a folder with the tasks' releases, `$THEODOLITE_MODELS` one with the encoders.
Written by `benchmarks/study_pages.py` from the rows and item-level records in `docs/studies/records`.

{encoders}
{left}"""


def pages() -> Iterator[tuple[Path, str]]:
    """The path and the text of every page; a study without a run has none."""
    for name in study_names():
        folders = sorted(folder for folder in RECORDS.glob(f"{name}-*") if (folder / "result.json").is_file())
        if not folders:
            continue
        spec = study(name).spec
        encoders = sorted({row.model for folder in folders for row in Result.load(folder).rows})
        lines = "\n".join(f"- **{encoder}**: {ENCODERS[encoder]}." for encoder in encoders)
        left = f"\nNot run yet: {LEFT[name]}\n" if LEFT[name] else ""
        about = {
            "title": spec.title,
            "citation": spec.citation[0].upper() + spec.citation[1:],
            "link": spec.link,
            "caveat": CAVEAT if spec.claims else "",
        }
        parts = [HEAD.format(**about, encoders=lines, left=left)]
        parts += [_run(name, folder, single=len(folders) == 1) for folder in folders]
        yield DOCS / f"study-{name}.md", "\n".join(parts)


def _run(name: str, folder: Path, *, single: bool) -> str:
    """What one run gave, judged from its records; under a heading of its own if there are several."""
    with TemporaryDirectory() as scratch:
        page = Path(scratch) / "page.md"
        result = study(name).check(folder).result
        assert result is not None
        result.report(page)
        text = page.read_text(encoding="utf-8")
    body = text.partition("\n")[2].lstrip("\n")  # without the title, which the page has
    if single:
        return body
    return f"## {folder.name.removeprefix(f'{name}-')}\n\n" + re.sub(r"^#", "##", body, flags=re.MULTILINE)


def add(name: str, run: Path) -> Path:
    """Export a run's records; folders of data and models are written as the variables that tests find them by."""
    places = {variable: os.environ[variable].rstrip("/") for variable in ("THEODOLITE_DATA", "THEODOLITE_MODELS")}
    models = Result.load(run).provenance["models"]
    folder = study(name).export(RECORDS / "-".join([name, *([next(iter(models))] if len(models) == 1 else ["encoders"])]), to=run)
    about = folder / "result.json"
    text = about.read_text(encoding="utf-8").replace(f" --to {run}", "")
    for variable, place in places.items():
        text = text.replace(place, f"${variable}")
    about.write_text(text, encoding="utf-8")
    json.loads(text)
    return folder


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--add", nargs=2, metavar=("NAME", "RUN"))
    options = parser.parse_args()
    if options.add:
        print(add(options.add[0], Path(options.add[1])))
    for path, text in pages():
        path.write_text(text, encoding="utf-8")
        print(path)
