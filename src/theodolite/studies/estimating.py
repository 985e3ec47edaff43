"""How long the missing steps of a study would take: as finished steps of the same kind did, or measured on a few batches."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from theodolite.core.numbers import duration_text
from theodolite.core.states import ISOLAYER
from theodolite.studies.shared_steps import VECTORS, limited_examples, tuning_settings
from theodolite.studies.steps import Sources, Step, Store

if TYPE_CHECKING:
    from theodolite.models.estimates import Download


# Settings that say what a step works with; two steps that differ in others, such as the classifier of a probe, may take very
# different times.
SUBJECT = frozenset({"seed", "layer", "model", "task", "data", "split"})


@dataclass(frozen=True)
class KindEstimate:
    """What the missing steps of one kind take.

    Parameters
    ----------
    kind, count
        The kind, and how many steps are missing.
    seconds
        What those take together whose time is known.
    unknown
        How many steps have a time that is not known.
    source
        Where the time comes from.
    """

    kind: str
    count: int
    seconds: float
    unknown: int
    source: str

    def __str__(self) -> str:
        if self.unknown == self.count:
            return f"{self.count} {self.kind}: not known before one has run"
        rest = f", {self.unknown} not known" if self.unknown else ""
        return f"{self.count} {self.kind} {duration_text(self.seconds)} ({self.source}{rest})"


def estimate_steps(steps: Sequence[Step], store: Store, sources: Sources) -> tuple[KindEstimate, ...]:
    """What the missing steps of a plan take, by kind; fine-tunings and encodings that no finished step is like are measured.

    Parameters
    ----------
    steps
        The plan.
    store
        Its finished steps, which know how long they took.
    sources
        Where models and data are.
    """
    finished = [step for step in steps if store.has(step)]
    missing = [step for step in steps if not store.has(step)]
    seconds = {step.key: float(store.about(step).get("seconds", 0.0)) for step in finished}
    measured: dict[tuple[object, ...], float] = {}
    estimates = []
    for kind in dict.fromkeys(step.action.kind for step in missing):
        group = [step for step in missing if step.action.kind == kind]
        times: list[float] = []
        found: set[str] = set()
        for step in group:
            known = [each for each in finished if each.action.kind == kind and _work(each) == _work(step)]
            alike = [each for each in known if _subject(each) == _subject(step)] or known
            if alike:
                found.add("as finished steps took")
                times.append(statistics.median(seconds[each.key] for each in alike))
            elif "preset" in step.settings or kind == VECTORS.kind:
                key = (kind, *_subject(step), str(step.settings.get("unit") or step.settings.get("method")))
                if key not in measured:
                    measured[key] = (_encoding_seconds if kind == VECTORS.kind else _tuning_seconds)(step, sources)
                found.add("measured on a few batches")
                times.append(measured[key])
        source = " or ".join(sorted(found))
        estimates.append(KindEstimate(kind, len(group), sum(times), len(group) - len(times), source))
    return tuple(estimates)


def downloads(sources: Sources) -> list[Download]:
    """What the Hub would send for each model.

    Parameters
    ----------
    sources
        Where models are.
    """
    from theodolite.models.estimates import download_of

    return [download_of(place, revision=sources.revisions.get(name)) for name, place in sources.models.items()]


def _work(step: Step) -> dict[str, object]:
    """The settings that decide how much is to be done, whatever it is done with."""
    return {name: value for name, value in step.settings.items() if name not in SUBJECT}


def _subject(step: Step) -> tuple[str, str]:
    """The model and the task of a step, or of what it reads."""
    about = step.settings.get("model")
    if about is not None:
        return str(about["name"]), str(step.settings.get("task", ""))
    return next((_subject(need) for need in step.needs.values()), ("", ""))


def _tuning_seconds(step: Step, sources: Sources) -> float:
    from theodolite.models.estimates import download_of, measurable
    from theodolite.tuning.estimating import training_cost

    with TemporaryDirectory() as folder:
        settings = tuning_settings(step.settings, sources, Path(folder) / "run")
        download = download_of(settings.model, revision=settings.revision)
        place = measurable(settings.model, download, Path(folder) / "random")
        if not download.weights_are_here:
            settings = replace(settings, model=place, revision=None)
        data = sources.data_for(step.settings["task"])
        seconds = training_cost(settings, data, only_layer=settings.method == ISOLAYER).seconds
        return seconds * len(step.settings.get("candidates", [None]))


def _encoding_seconds(step: Step, sources: Sources) -> float:
    from theodolite.models.encoder import Encoder
    from theodolite.models.estimates import download_of, encoding_cost, measurable

    settings, name = step.settings, step.settings["model"]["name"]
    revision = sources.revisions.get(name)
    with TemporaryDirectory() as folder:
        download = download_of(sources.models[name], revision=revision)
        place = measurable(sources.models[name], download, Path(folder))
        # A tuned encoder has the shape of the one it comes from, and takes as long.
        encoder = Encoder.load(place, revision=revision if download.weights_are_here else None)
        texts = limited_examples(settings, sources)
        return encoding_cost(encoder, texts, unit=settings["unit"], layers=settings["layers"] or "all").seconds
