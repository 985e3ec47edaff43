"""Simulated item-level records for every claim: at its boundary, with a true effect, and under pure scaling.

The sizes of the noise are those of runs of rp21, il23 and zs22 on small encoders: what matters is how large the parts of seeds,
items and repetitions are next to each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any, Literal

import numpy as np

from theodolite.core.rows import Row
from theodolite.core.states import PRE_TRAINED
from theodolite.studies.claims.evidence import SELECTED, Evidence, ModelOrigin, Records
from theodolite.studies.claims.rules import ClaimedEffect
from theodolite.studies.spec import Claim, StudySpec

Scenario = Literal["boundary", "true", "scaling"]

ITEMS, DRAWS, LAYERS, SWEEP = 120, 150, (0, 1, 2, 3), ("1", "3", "12")
# By metric: standard deviation over seeds, of one item, and over k-means starts or initialisations; and a plausible value.
NOISE = {
    "spearman": (0.004, 0.30, 0.004, 0.7),
    "log_partition_isotropy": (0.15, 2.0, 0.02, -6.0),
    "log_partition_isotropy_unit_norm": (0.015, 0.2, 0.002, -0.7),
    "between_share": (0.004, 0.05, 0.002, 0.3),
    "frequency_r2": (0.006, 0.1, 0.0, 0.2),
    "iso_score": (0.004, 0.04, 0.0, 0.05),
    "ev_1": (0.02, 0.2, 0.0, 0.4),
    "ev_1_centered": (0.02, 0.2, 0.0, 0.4),
    "score": (0.01, 0.25, 0.0, 0.7),
    "probe_accuracy": (0.004, 0.35, 0.004, 0.8),
}
# Sizes of a true effect: about four standard errors at five seeds.
TRUE = {name: 4 * float(np.hypot(seed / np.sqrt(5), item / np.sqrt(ITEMS))) for name, (seed, item, _, _) in NOISE.items()}
MODELS = {"@larger": ("large", 768), "@smaller": ("small", 128), "@RoBERTa": ("roberta-x", 768), "@BERT": ("bert-x", 768)}


# A task of every claim that has no tasks of its own.
TASK = "stsb"
# How much fine-tuning raises a similarity where a claim needs a model that has learned.
GAIN = 0.25


def simulate(
    spec: StudySpec, claim: Claim, scenario: Scenario, rng: np.random.Generator, *, seeds: int = 5, heavy: bool = False
) -> Evidence:
    """Rows and records of a claim whose effects are at the boundary, truly there, or made by a larger scale alone.

    The claim's premises hold. With `heavy`, items and seeds have Student's t with three degrees of freedom and the same variance.
    """
    layouts: list[dict[str, Any]] = []
    learns = bool(claim.premises.learned)
    world = _World(rng, seeds, heavy=heavy, gain=GAIN if learns else 0.0)
    nothing = Evidence(
        source="simulated", rows=(), records=Records()
    )  # primary effects go over tasks, never over what was measured
    for effect in (each for declared in claim.primary for each in declared.on(claim.tasks, nothing)):
        if effect.rule in ("difference", "largest over layers"):
            world.add_numbers(effect, scenario)
        else:
            layouts += _simulated_layouts(effect, scenario, world)
    world.add_scores(claim)
    records = Records()
    # As a result's tables would give them, without the detour, which takes most of the time.
    draws = {tuple(record[key] for key in ("metric", *SELECTED, "seed")): record for record in world.draws}
    records.__dict__.update(draws=draws, layouts=layouts)
    rows = [replace(row, study=spec.name) for row in world.rows] or [
        Row(metric="clusters", value=1.0, model="m", study=spec.name)
    ]
    origins = {model: ModelOrigin("pre-trained") for model in ("m", *(name for name, _ in MODELS.values()))}
    return Evidence(source="simulated", rows=tuple(rows), records=records, origins=origins)


class _World:
    """The numbers of all cells that the effects of a claim read, each once."""

    def __init__(self, rng: np.random.Generator, seeds: int, *, heavy: bool, gain: float) -> None:
        self.rng, self.seeds, self.heavy, self.gain = rng, seeds, heavy, gain
        self.rows: list[Row] = []
        self.draws: list[dict[str, Any]] = []
        self._cells: set[tuple[Any, ...]] = set()
        self._shared: dict[tuple[Any, ...], Any] = {}

    def noise(self, sd: float, size: Any = None) -> Any:
        """Draws with mean 0 and a standard deviation, normal or with heavy tails."""
        return sd * (self.rng.standard_t(3, size) / np.sqrt(3) if self.heavy else self.rng.standard_normal(size))

    def add_scores(self, claim: Claim) -> None:
        """The scores by which a claim's tasks count as learned, if its effects have not read them already."""
        learned = claim.premises.learned
        if not learned:
            return
        if learned["metric"] == "accuracy":  # as a tagger has it: a row alone, next to the share of the largest class
            for task, seed in product(learned.get("tasks") or claim.tasks, range(self.seeds)):
                about = {"model": "m", "task": task, "state": "fine-tuned", "seed": seed, "n": 400}
                self.rows += [Row(metric=metric, value=value, **about) for metric, value in SCORES.items()]
            needs = learned.get("needs")
            if needs and not any(row.metric == needs for row in self.rows):
                self.rows += [Row(metric=needs, value=0.8, model="m", task=task) for task in claim.tasks]
            return
        fields = {name: value for name, value in learned.items() if name != "metric"}
        models = sorted({fields["model"] for effect in claim.primary for _, fields, _ in _cells(effect) if "model" in fields})
        for task, state, model in product(claim.tasks or [TASK], ("fine-tuned", PRE_TRAINED), models or [""]):
            self._add(learned["metric"], {**fields, "task": task, "state": state, **({"model": model} if model else {})}, 0.0, "")

    def add_numbers(self, effect: ClaimedEffect, scenario: Scenario) -> None:
        for metric, fields, carries in _cells(effect):
            shift = 0.0
            # What a larger scale changes is I(W) alone; all other metrics are exactly as they were.
            unchanged = scenario == "scaling" and not effect.scale
            if carries and not unchanged:
                shift = _shift(effect, metric, scenario)
            self._add(metric, fields, shift, _way(effect), exact=unchanged)
            if effect.scale:
                unit = effect.scale["metric"]
                boundary = float(effect.scale.get("boundary", 0.0))
                sign = -1 if effect.side == "below" else 1
                small = 0.0 if not carries or scenario != "true" else sign * TRUE[unit]
                base = boundary - NOISE[unit][3] if effect.rule == "largest over layers" and carries else 0.0
                self._add(unit, fields, base + small, "difference", exact=scenario == "scaling")

    def _add(self, metric: str, fields: Mapping[str, Any], shift: float, way: str, *, exact: bool = False) -> None:
        key = (metric, *sorted({"task": TASK, **fields}.items(), key=str))
        if key in self._cells:
            return
        self._cells.add(key)
        seed_sd, item_sd, start_sd, base = NOISE[metric]
        task, state = fields.get("task", TASK), fields.get("state", "")
        base += self.gain if metric == "spearman" and state != PRE_TRAINED else 0.0
        true = base * np.exp(shift) if way == "log ratio" else base * (1 + shift) if way == "share" else base + shift
        common = self._once(("items", metric, task), lambda: self.noise(item_sd, ITEMS))
        single = state == PRE_TRAINED
        own = 0.0 if exact else self.noise(item_sd, ITEMS)
        for seed in [0] if single else range(self.seeds):
            drift = 0.0 if single else self._once(("seed", metric, task, seed), lambda: self.noise(seed_sd))
            if not single and not exact:
                drift += self.noise(seed_sd)  # of this cell alone: pairing does not remove it
            items = common + own + (0.0 if exact else self.noise(item_sd / 2, ITEMS))
            starts = self.rng.normal(0, start_sd, 5) if start_sd and not exact else np.zeros(0)
            extra = float(starts.mean()) if len(starts) else 0.0
            value = true + (0.0 if exact else drift) + float(items.mean()) + extra
            model, d = MODELS.get(fields.get("model", ""), ("m", 128))
            named = {"task": task, **{name: fields.get(name, "") for name in ("state", "setting", "label")}}
            row = Row(metric=metric, value=value, model=model, d=d, seed=seed, layer=fields.get("layer"), **named)
            self.rows.append(row)
            resampled = value + _weights() @ items / ITEMS - items.mean()
            self.draws.append({
                "metric": metric, "model": model, **named, "layer": row.layer, "seed": seed, "value": value, "n": ITEMS,
                "units": "items", "items": resampled, "repeats": (value - extra + starts).tolist(),
                "repeated": "k-means starts" if len(starts) else "",
            })  # fmt: skip

    def _once(self, key: tuple[Any, ...], make: Any) -> Any:
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]


@cache
def _weights() -> Any:
    drawn = np.random.default_rng(0).integers(0, ITEMS, (DRAWS, ITEMS))
    return np.stack([np.bincount(row, minlength=ITEMS) for row in drawn]).astype(float)


def _cells(effect: ClaimedEffect) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """The metric and fields of every cell that an effect reads, and whether the effect is added there."""
    options = effect.parameters
    if effect.rule == "largest over layers":
        for layer in LAYERS:  # the last layer is the largest one
            yield options["metric"], {**options["of"], "setting": options["settings"][0], "layer": layer}, layer == LAYERS[-1]
        return
    over = options.get("over", "")
    metric = options["metric"]
    for is_of, side in ((True, options["of"]), (False, options["minus"])):
        inner = [(True, {})] if isinstance(metric, str) else [(True, metric["of"]), (False, metric["minus"])]
        for is_inner, more in inner:
            fields = {**side, **more}
            names, choices = list(fields), [v if isinstance(v, list) else [v] for v in fields.values()]
            name = metric if isinstance(metric, str) else metric["metric"]
            for values, task in product(product(*choices), options.get("tasks") or [""]):
                cell = {**dict(zip(names, values, strict=True)), **({"task": task} if task else {})}
                for place in _places(over):
                    upper = place.get("layer", LAYERS[-1]) in LAYERS[len(LAYERS) // 2 :]
                    yield name, {**cell, **place}, is_of and is_inner and (upper or over == "layers")


def _places(over: str) -> list[dict[str, Any]]:
    if over == "label":
        return [{"label": label} for label in SWEEP]
    return [{"layer": layer} for layer in LAYERS] if over else [{}]


def _way(effect: ClaimedEffect) -> str:
    metric = effect.parameters.get("metric")
    nested = metric.get("way") if isinstance(metric, Mapping) else None
    return str(effect.parameters.get("way") or nested or "difference")


def _shift(effect: ClaimedEffect, metric: str, scenario: Scenario) -> float:
    """What is added to the cells of the first side."""
    start = effect.boundary - NOISE[metric][3] if effect.rule == "largest over layers" else 0.0
    if effect.side == "inside":
        return effect.boundary if scenario == "boundary" else 0.0
    if scenario == "boundary":
        return start + (0.0 if effect.rule == "largest over layers" else effect.boundary)
    size = TRUE[metric] / (NOISE[metric][3] if _way(effect) in ("share", "log ratio") else 1.0)
    middle = 0.0 if effect.rule == "largest over layers" else effect.boundary
    return start + middle + size * (-1 if effect.side == "below" else 1)


# What a tagger scores on 400 test rows, and what one that ignores the input would.
SCORES = {"accuracy": 0.8, "majority_share": 0.3}
LABELS = 17
# Noise of a label's place, in units of the spread of labels, with which two layouts have a similarity of 0.5 (by the mean of
# Fisher's z); the second with heavy tails.
HALF_ALIKE = (0.97, 1.22)


def _simulated_layouts(effect: ClaimedEffect, scenario: Scenario, world: _World) -> list[dict[str, Any]]:
    records = []
    for task in effect.parameters["tasks"]:
        base = world.noise(1.0, (LABELS, 6))
        for seed in range(world.seeds):
            if effect.rule in ("similarity against height", "lowest similarity"):
                records += _course(base, task, seed, scenario, world)
            else:
                records += _states(effect, base, task, seed, scenario, world)
    return records


def _course(base: Any, task: str, seed: int, scenario: Scenario, world: _World) -> list[dict[str, Any]]:
    records = []
    for layer in range(5):
        about = {"state": "fine-tuning", "setting": "", "layer": layer, "seed": seed, "side": "tracked", "task": task}
        noise = HALF_ALIKE[world.heavy] if scenario == "boundary" else 0.05 + 0.06 * layer
        records.append(_layout(base, {**about, "step": 0}))
        moved = base if scenario == "scaling" else base + world.noise(noise, base.shape)
        records.append(_layout(moved, {**about, "step": 100}, scale=3.0 if scenario == "scaling" else 1.0))
    return records


def _states(effect: ClaimedEffect, base: Any, task: str, seed: int, scenario: Scenario, world: _World) -> list[dict[str, Any]]:
    records = []
    sign = -1 if effect.side == "below" else 1
    for is_of, side in ((True, effect.parameters["of"]), (False, effect.parameters["minus"])):
        if side.get("state") == PRE_TRAINED and seed > 0:  # all seeds share the encoder that they begin with
            continue
        about = {**side, "layer": 2, "seed": seed, "step": None, "task": task}
        tuned = is_of and scenario == "true"
        scale = 2.0 if is_of and scenario == "scaling" else 1.0
        train = base if scenario == "scaling" else base + world.noise(0.15, base.shape)
        for part in ("train", "test"):
            noise = 0.0 if part == "train" or scenario == "scaling" else (0.6 if tuned else 0.2)
            points = train + world.noise(noise, base.shape)
            wider = 1 + 0.35 * sign if tuned and effect.rule == "label distances" else 1.0
            clusters = None
            if effect.rule == "clusters per label":
                rate = 0.05 if tuned else 0.8
                clusters = (1 + (np.zeros(LABELS, int) if scenario == "scaling" else world.rng.poisson(rate, LABELS))).tolist()
            records.append(_layout(points * wider, {**about, "side": part}, scale=scale, clusters=clusters))
    return records


def _layout(points: Any, about: Mapping[str, Any], *, scale: float = 1.0, clusters: list[int] | None = None) -> dict[str, Any]:
    distances = scale * np.linalg.norm(points[:, None] - points[None], axis=-1)
    return {
        "model": "m", **about, "norm": scale, "overlaps": 0, "labels": [f"L{i}" for i in range(len(points))],
        "clusters": clusters or [1] * len(points), "inside": [scale] * len(points),
        "distances": distances[np.triu_indices(len(points), 1)].tolist(),
    }  # fmt: skip
