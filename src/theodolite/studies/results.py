"""What a run of a study leaves for people and for the report: rows, verdicts, pictures, paths and spectra in one folder."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from theodolite.core.pictures import read_picture
from theodolite.core.result import Verdict
from theodolite.core.rows import Row, current_versions, write_rows
from theodolite.studies.actions.look import PICTURE, SPECTRUM
from theodolite.studies.actions.while_training import PATHS
from theodolite.studies.spec import Study
from theodolite.studies.step import Step, in_order
from theodolite.studies.store import Store

TABLES = {PATHS: "paths.parquet", SPECTRUM: "spectra.parquet"}


def gather(study: Study, plan: Sequence[Step], store: Store) -> list[Row]:
    """The rows of all steps that are done, each once, under the study's name."""
    found: dict[Row, None] = {}
    for step in in_order(plan):
        if store.has(step):
            found.update(dict.fromkeys(replace(row, study=study.name) for row in store.rows(step)))
    return list(found)


def publish(
    study: Study,
    plan: Sequence[Step],
    store: Store,
    folder: str | os.PathLike[str],
    *,
    rows: Sequence[Row],
    verdicts: Sequence[Verdict],
    facts: Mapping[str, Any],
) -> None:
    """Write the run's folder anew from the steps that are done; `facts` are told under its name."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    done = [step for step in in_order(plan) if store.has(step)]
    write_rows(rows, place / "rows.parquet")
    _write_json(place / "verdicts.json", [asdict(verdict) for verdict in verdicts])
    _write_pictures(done, store, place / "pictures")
    for inside, name in TABLES.items():
        _write_table([store.place(step) / inside for step in done if (store.place(step) / inside).is_file()], place / name)
    about = {"name": study.name, "title": study.title, "kind": "study", "study": study.name, "versions": current_versions()}
    _write_json(place / "run.json", {**about, **facts})


def _write_pictures(done: Sequence[Step], store: Store, place: Path) -> None:
    partial = place.with_name(f".{place.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for step in done:
        path = store.place(step) / PICTURE
        if path.is_file():
            about = read_picture(path).about
            words = (about.get("model"), about.get("task"), about.get("state"), step.settings["seed"], about.get("layer"))
            shutil.copyfile(path, partial / f"{cleaned('-'.join(map(str, words)))}.parquet")
    shutil.rmtree(place, ignore_errors=True)
    os.replace(partial, place)


def cleaned(name: str) -> str:
    """A name that stays in its folder on every system: letters, digits, dots, dashes and underscores, not led by a dot."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:100] or "unnamed"


def _write_table(paths: Sequence[Path], place: Path) -> None:
    import pyarrow
    import pyarrow.parquet as parquet

    tables = [table for table in map(parquet.read_table, paths) if table.num_rows]
    place.unlink(missing_ok=True)
    if tables:
        partial = place.with_name(f".{place.name}.partial")
        parquet.write_table(pyarrow.concat_tables(tables), partial)
        os.replace(partial, place)


def _write_json(path: Path, content: Any) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(partial, path)
