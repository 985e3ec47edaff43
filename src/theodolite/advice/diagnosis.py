"""Findings: measured numbers compared with what healthy spaces show, and what the unusual ones come from.

An unusual number belongs to the first cause, in a fixed order, without which it is usual again on at most 1,000 rows. That a
remedy clears a number does not make it a recommendation: on a masked language model, whitening heals the uniformity and halves
the quality of search. So findings say what is unusual and what that is known to cost, and never which repair to apply.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.kmeans import nearest_centroids
from theodolite.core.moments import row_norms
from theodolite.core.result import Answer, Finding, Severity
from theodolite.core.rows import Row
from theodolite.core.sampling import sample_rows
from theodolite.core.vectors import Floats, Indices
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.cosine import dimension_contributions, mean_cosine
from theodolite.metrics.nearest_rows import neighbours_of
from theodolite.metrics.neighbours import NEAR, island_components, outlying_rows
from theodolite.metrics.populations import two_populations
from theodolite.metrics.registry import METRICS

EXAMPLES = 5  # rows that a finding names at most
# How far a number must be beyond its bound, as a share of the bound, or of its distance to 1 if that is smaller; a share of rows
# also by two standard errors. Healthy clouds rarely get there by chance (benchmarks/healthy_clouds.py).
DEAD_BAND = 0.1
FEWEST_ROWS = 30  # of fewer, chance alone makes numbers unusual
CAUSE_ROWS = 1_000  # rows on which causes are looked for
# What a cause must come to before numbers are put down to it, half of what is unusual: the mean cosine, the share of the variance
# of each direction, the variation of the lengths.
LEAST = {"mean": 0.1, "direction": 0.075, "lengths": 0.05}
ROGUE = 5.0  # times the mean square of an average dimension from which one is left out
FAR = 0.1  # distance by cosine from the mean beyond which two rows are not copies, however narrow the cone
ALIGNED = 0.9  # share of one coordinate in a direction from which the two are called the same
DIRECTIONS = ("one direction", "two directions", "three directions")
UNEXPLAINED, POPULATIONS = "unexplained", "two populations"


@dataclass(frozen=True)
class FindingRule:
    """When a metric is worth a look, and when it is bad; `action` says what that is known to cost, or what to look at."""

    topic: str
    metric: str
    watch: float
    bad: float
    source: str
    meaning: str
    action: str
    examples: str = ""
    judged: str = ""
    is_share: bool = False

    def beyond(self, value: float, bound: float) -> float:
        """How far a value is beyond a bound, on the side of `bad`; negative on the other side."""
        return bound - value if self.bad < self.watch else value - bound

    def exceeds(self, value: float, bound: float, n: int) -> bool:
        """Whether a value of n rows is beyond a bound by more than chance and a dead band explain."""
        deviation = 2 * math.sqrt(bound * (1 - bound) / n) if self.is_share else 0.0
        band = DEAD_BAND * min(abs(bound), abs(1 - bound)) + deviation
        return math.isfinite(bound) and self.beyond(value, bound) > band

    @property
    def healthy(self) -> str:
        """The healthy range in words."""
        return f"at least {self.watch:g}" if self.bad < self.watch else f"at most {self.watch:g}"


# All rules, those that name a cause first; every metric is one that a survey measures by default. Bounds are a starting point,
# not a law: they are between what healthy and unhealthy spaces showed (table in docs/ranges.md).
# fmt: off
RULES: tuple[FindingRule, ...] = (
    FindingRule("cone", "mean_cosine", watch=0.2, bad=0.95,
         source="0 is isotropic; all-MiniLM-L6-v2 sentences show 0.02, the same encoder as a masked language model 0.47",
         meaning="{similar_pairs:.0%} of random pairs have a cosine above 0.8{cone}",
         action="a cutoff from another encoder does not carry over; search was unharmed up to 0.88 (study do-no-harm), "
                "and higher values were not measured"),
    FindingRule("dominant direction", "ev_1_centered", watch=0.15, bad=0.4,
         source="all-MiniLM-L6-v2 sentences show 0.05, the masked language model 0.19, fine-tuned BERT 0.4 to 0.9 (IL23)",
         meaning="the first principal component holds {ev_1_centered:.0%} of the variance, {ev_1:.0%} before centring",
         action="find out what it encodes (length, frequency, source); of 24 scores without the first direction, 5 rose and 8 "
                "fell beyond doubt (study do-no-harm)"),
    FindingRule("rogue dimensions", "largest_variance_ratio", watch=5.0, bad=25.0,
         source="1 is even; all-MiniLM-L6-v2 sentences show 1.6, tokens of the masked language model 33",
         meaning="{widest}",
         action="such dimensions dominate distances and hide what the others encode (Timkey & van Schijndel 2021)"),
    FindingRule("near-duplicates", "near_duplicates", watch=0.02, bad=0.1, examples="copies", is_share=True,
         source="0 in a deduplicated set; STS-B sentences, which repeat, show 0.13",
         meaning="{near_duplicates:.1%} of rows have another at cosine 0.99 or more, "
                 "and {exact_duplicates:.1%} repeat an earlier row exactly",
         action="copies fill search results, and leak from training into test rows; if their texts differ, the encoder does not "
                "distinguish them"),
    # Never bad: vectors alone do not show that the groups come from two models.
    FindingRule(POPULATIONS, "second_population", watch=0.0, bad=1.0, examples="second_rows",
         source="0 in 65 of 66 spaces of one encoder (docs/verify.md)",
         meaning="{second_population:.1%} of rows share hardly any neighbours with the others and vary in unrelated directions, "
                 "as the vectors of another model or of very different texts do",
         action="compare the rows named here with the others: a search in one group does not rank the other; if two models or "
                "settings may have made the file, verify it against the model to find the rows that are not its own"),
    FindingRule("lengths", "norm_variation", watch=0.1, bad=0.5,
         source="0 for normalised vectors; mean-pooled sentences of all-MiniLM-L6-v2 show 0.21, tokens 0.40",
         meaning="the rows' lengths vary by {norm_variation:.0%} around {mean_norm:.3g}",
         action="this costs nothing with cosine; with inner product, long rows come first"),
    FindingRule("isotropy", "iso_score", watch=0.1, bad=0.01,
         source="1 is isotropic; all-MiniLM-L6-v2 sentences show 0.24, the masked language model 0.05, fine-tuned BERT 0.003",
         meaning="the variance fills about {participation_ratio:.0f} of {d} dimensions evenly",
         action="isotropy is not quality: a low IsoScore alone is not known to cost anything, and pure noise has 0.97"),
    # A mean cosine c alone gives about -2 sqrt(c): the bound is that of the cone.
    FindingRule("partition", "log_partition_isotropy_unit_norm", watch=-0.9, bad=-2.0,
         source="0 is isotropic; all-MiniLM-L6-v2 sentences show -0.16, the masked language model -1.4",
         meaning="I(W), which is 1 if no direction is preferred, is {partition_isotropy:.2g}, "
                 "and {partition_isotropy_centered:.2g} after centring; RP21 prints 1e-5 for tokens of pre-trained BERT",
         action="it is not known to cost more than the large mean or dominant direction behind it"),
    FindingRule("effective rank", "effective_rank", watch=0.3, bad=0.1, judged="effective_rank_share",
         source="as a share of what the rows can fill; all-MiniLM-L6-v2 sentences show 0.45, the masked language model 0.15",
         meaning="effective rank {effective_rank:.0f} of {ceiling}; "
                 "{dimensions_95:.0f} principal components hold 95% of the variance",
         action="it is not known to cost anything; fewer dimensions may be enough for search"),
    FindingRule("conditioning", "condition_number", watch=1e6, bad=math.inf,
         source="all-MiniLM-L6-v2 sentences show 1e3; layer norms and dead units leave directions with almost no variance",
         meaning="the widest direction has {condition_number:.0e} times the variance of the narrowest",
         action="whitening to full rank would amplify rounding noise"),
    # Mean cosine c alone gives about -4 (1 - c): the bounds are those of the cone, whose cost was measured.
    FindingRule("uniformity", "uniformity", watch=-3.0, bad=-0.2,
         source="-4 fills the sphere, 0 is a point; all-MiniLM-L6-v2 sentences show -3.8, the masked language model -1.9",
         meaning="the unit vectors cover the sphere {coverage}",
         action="it is not known to cost more than the large mean behind it"),
    FindingRule("hubness", "hubness", watch=2.5, bad=5.0, examples="hubs",
         source="0 is none; sentences of all-MiniLM-L6-v2 and of the masked language model show 1.3 to 1.9",
         meaning="the most popular 1% of rows take up {hub_share:.1%} of all top-10 results",
         action="read the hubs named here: they push better answers out of search results"),
    FindingRule("never retrieved", "never_retrieved", watch=0.05, bad=0.2, examples="lonely", is_share=True,
         source="sentences of all-MiniLM-L6-v2 and of the masked language model show 0.01 to 0.02",
         meaning="{never_retrieved:.1%} of rows are not among the 10 nearest of any other row",
         action="read the rows named here: a search with these vectors as queries never finds them"),
    FindingRule("zero vectors", "zero_rows", watch=0.0, bad=0.01, examples="zeros", is_share=True,
         source="healthy data has none",
         meaning="{zero_rows:.2%} of rows are exactly zero",
         action="they match nothing: find the empty texts or failed calls behind them"),
    # Never bad: it costs nothing if the index uses the measure that the encoder was trained for.
    FindingRule("cosine or inner product", "metric_agreement", watch=0.9, bad=0.0,
         source="1 for normalised vectors; mean-pooled sentences of all-MiniLM-L6-v2 before normalising show 0.67",
         meaning="the 10 nearest rows by cosine and by inner product agree in {metric_agreement:.0%}",
         action="an index set to the other measure returns different rows: use the one the encoder was trained for"),
    FindingRule("distance contrast", "relative_contrast", watch=1.5, bad=1.2,
         source="1 carries no signal; pure noise in 384 dimensions shows 1.24, all-MiniLM-L6-v2 sentences 3.8",
         meaning="a random row is {relative_contrast:.2f} times as far away as the nearest one",
         action="check that the vectors come from the encoder and texts you expect: noise looks like this"),
    FindingRule("outliers", "outliers", watch=0.01, bad=0.05, examples="outlying", is_share=True,
         source="all-MiniLM-L6-v2 sentences show 0.00, tokens of the masked language model 0.15",
         meaning="{outliers:.2%} of rows are unusually far from their nearest neighbour",
         action="read the rows named here: they may be another language, code, broken text or another model's vectors"),
    FindingRule("islands", "islands", watch=0.01, bad=0.1, examples="cut_off", is_share=True,
         source="0 in all spaces of docs/ranges.md",
         meaning="{islands:.2%} of rows are in small parts cut off from the rest of the neighbour graph",
         action="a graph index may not reach them: read the rows named here"),
    FindingRule("density", "density_variation", watch=0.6, bad=1.0,
         source="all-MiniLM-L6-v2 sentences show 0.36, tokens of the masked language model 0.83",
         meaning="the distance to the 10 nearest rows varies by {density_variation:.0%} over the space",
         action="one similarity cutoff will not fit everywhere: use ranks, or cutoffs per region"),
    FindingRule("stability", "retrieval_stability", watch=0.9, bad=0.75,
         source="1 is stable; all-MiniLM-L6-v2 sentences show 0.97, pure noise 0.82",
         meaning="after a small change of the query, {retrieval_stability:.0%} of its 10 nearest rows are the same",
         action="small changes of a query change its results: retrieve a longer list and re-rank it"),
    FindingRule("intrinsic dimension", "intrinsic_dimension", watch=2.0, bad=1.0,
         source="TwoNN; the real spaces of docs/ranges.md show 3 to 15; it does not predict search quality",
         meaning="locally the cloud extends in about {intrinsic_dimension:.1f} directions",
         action="check for duplicated or templated texts"),
)
# fmt: on


def findings(cloud: Cloud, rows: Sequence[Row]) -> list[Finding]:
    """What the rows of a survey mean, worst first; a rule whose metric was not measured is left out.

    Parameters
    ----------
    cloud
        The cloud that was surveyed.
    rows
        Its rows, as `theodolite.metrics.metric_rows` returns them.
    """
    return diagnose(cloud, rows)[0]


def diagnose(cloud: Cloud, rows: Sequence[Row], others: Sequence[Finding] = ()) -> tuple[list[Finding], Answer]:
    """All findings, worst first, including `others` that were made elsewhere, and the verdict on them in one sentence."""
    if cloud.n < FEWEST_ROWS:
        rows_are = "1 row is" if cloud.n == 1 else f"{cloud.n} rows are"
        few = f"{rows_are} too few to judge a space: survey at least {FEWEST_ROWS}, preferably 1,000."
        return [], Answer(verdict="not judged", sentence=few)
    # A metric without a value has no finding: its row says why.
    facts = Facts(cloud, {row.metric: row.value for row in rows if math.isfinite(row.value)})
    judged = {rule.topic: _judge(rule, facts) for rule in RULES if rule.metric in facts}
    flagged = {rule: judged[rule.topic].value for rule in RULES if rule.topic in judged and judged[rule.topic].severity}
    for topic, cause in _causes(cloud, flagged).items():
        judged[topic] = replace(judged[topic], cause=cause)
    ordered = sorted([*others, *judged.values()], key=lambda finding: -finding.severity)
    unusual = [finding for finding in ordered if finding.severity]
    if not unusual:
        checks = f"All {len(ordered)} checks are within their usual ranges." if ordered else "No measured metric has a check."
        return ordered, Answer(verdict="OK" if ordered else "not judged", sentence=checks)
    if not cloud.moments.has_spread:
        vector = "zero" if not cloud.moments.mean.any() else "the same vector"
        return ordered, Answer(verdict="bad", sentence=f"All {cloud.n:,} rows are {vector}: check what made them.")
    counts = Counter(finding.cause for finding in unusual)
    # Of the worst, the one whose cause accounts for most.
    worst = [finding for finding in unusual if finding.severity == unusual[0].severity]
    lead = max(worst, key=lambda finding: (finding.cause != UNEXPLAINED, counts[finding.cause]))
    account = (
        f"; this accounts for {counts[lead.cause]} of {len(unusual)} unusual numbers"
        if lead.cause != UNEXPLAINED and len(unusual) > 1
        else ""
    )
    words: tuple[str, ...] = ("OK", "watch", "bad")
    return ordered, Answer(verdict=words[lead.severity], sentence=f"{_sentence(lead, facts)}{account}.")


def _sentence(lead: Finding, facts: Facts) -> str:
    """The size of a finding's cause, in one sentence without its full stop."""
    count = next((number for number, words in enumerate(DIRECTIONS, 1) if lead.cause.endswith(words)), 0)
    if count:
        values = facts.cloud.eigenvalues
        share = f"{values[:count].sum() / values.sum():.0%} of the variance"
        if lead.cause.startswith("mean"):
            return (
                f"A shared mean (mean cosine {facts['mean_cosine']:.2f}) and {DIRECTIONS[count - 1]} ({share}) dominate the rows"
            )
        return f"{DIRECTIONS[count - 1].capitalize()} {'explains' if count == 1 else 'explain'} {share}"
    sentence = {
        POPULATIONS: "The rows look like two populations: {second_population:.1%} share hardly any neighbours with the others",
        "duplicates": "{near_duplicates:.1%} of rows have another row at cosine 0.99 or more",
        "mean": "The rows share a large mean: two random rows have a cosine of {mean_cosine:.2f} on average",
        "lengths": "The lengths of the rows vary by {norm_variation:.0%} around {mean_norm:.3g}",
        "rogue dimensions": "{widest_dimension} of the variance",
    }.get(lead.cause)
    words = lead.meaning if sentence is None else sentence.format_map(facts)
    if (lead.cause, lead.topic) == ("lengths", "cosine or inner product"):  # the lengths themselves are in their range
        words = f"{lead.meaning}, because the lengths of the rows vary by {facts['norm_variation']:.0%}"
    return words[:1].upper() + words[1:]


def _causes(cloud: Cloud, flagged: Mapping[FindingRule, float]) -> dict[str, str]:
    """The cause of each flagged topic: the first whose remedy clears it on a sample of the rows."""
    if not flagged:
        return {}
    X = cloud.sample[_cause_rows(cloud, flagged)].astype(np.result_type(cloud.source.dtype, np.float32), copy=False)
    is_whole = len(X) == cloud.n and X.dtype == cloud.sample.dtype
    part = cloud if is_whole else Cloud(X, sample=max(2, len(X)))
    # On fewer rows some numbers are smaller for that alone, so it is the change that is carried over to all rows.
    is_second = _in_second_population(cloud, X) if any(rule.topic == POPULATIONS for rule in flagged) else None
    before = Facts(part, {rule.judged or rule.metric: flagged[rule] for rule in flagged if len(X) == cloud.n})
    cleared = {} if is_second is None else {POPULATIONS: POPULATIONS}
    for cause, changed in _remedies(X, part, is_second):
        left = [rule for rule in flagged if rule.topic not in cleared]
        if not left:
            break
        if not changed.size or np.array_equal(changed, X):
            continue
        after = Facts(Cloud(changed, sample=max(2, len(changed))), {})
        for rule in left:
            name = rule.judged or rule.metric
            with suppress(Undefined, ZeroDivisionError):
                ideal = 1.0 if rule.bad < rule.watch else 0.0
                value = ideal + (float(after[name]) - ideal) * (flagged[rule] - ideal) / (float(before[name]) - ideal)
                if rule.beyond(value, rule.watch) <= 0:
                    cleared[rule.topic] = cause
    return dict.fromkeys((rule.topic for rule in flagged), UNEXPLAINED) | _merged(cleared, part)


def _cause_rows(cloud: Cloud, flagged: Mapping[FindingRule, float]) -> Indices:
    """Rows of the cloud's sample to look for causes on: at random, each with its nearest if that is a copy of it."""
    rows = sample_rows(len(cloud.sample), CAUSE_ROWS, seed=cloud.seed)
    if len(rows) == len(cloud.sample) or all(METRICS[rule.metric].needs != "sample" for rule in flagged):
        return rows
    with suppress(Undefined):
        table = neighbours_of(cloud)
        position = np.searchsorted(cloud.sample_index, table.rows)  # among the sampled rows, of rows that are not zero
        copies = np.flatnonzero((table.distance[:, 0] <= 1 - NEAR) & np.isin(position, rows))
        partners = np.setdiff1d(position[table.index[copies, 0]], rows)
        others = np.setdiff1d(rows, np.append(position[copies], partners))
        rows = np.sort(np.append(np.setdiff1d(rows, others[: len(partners)]), partners))[:CAUSE_ROWS]
    return rows


def _in_second_population(cloud: Cloud, X: Floats) -> NDArray[np.bool_]:
    """Which of some rows are nearer to the smaller population of a cloud than to the larger one, by their directions."""
    groups = two_populations(cloud)
    assert groups is not None
    sides = [_unit_rows(cloud.sample[np.isin(cloud.sample_index, rows)]) for rows in (groups.minority, groups.majority)]
    centroids = np.stack([side.mean(axis=0, dtype=np.float64) for side in sides])
    return np.asarray(nearest_centroids(_unit_rows(X), centroids) == 0)


def _unit_rows(X: Floats) -> Floats:
    norms = row_norms(X)[:, None]
    return np.asarray(X / np.where(norms > 0, norms, 1), dtype=X.dtype)


def _remedies(X: Floats, cloud: Cloud, is_second: NDArray[np.bool_] | None = None) -> Iterator[tuple[str, Floats]]:
    """Each cause in its fixed order, with the rows X of a cloud as they are without it; all of them if it is not there."""
    if len(X) < 3:
        return
    if is_second is not None:
        yield POPULATIONS, X[~is_second]
    yield "zero vectors", X[X.any(axis=1)]
    mean = X.mean(axis=0, dtype=np.float64)
    centred = (X - mean).astype(X.dtype)
    yield "duplicates", X[_without_copies(X, centred)]
    if has_mean := METRICS["mean_cosine"].value(cloud)[0] > LEAST["mean"]:
        yield "mean", centred
    values = cloud.spectrum.values
    top = cloud.spectrum.vectors[:, : len(DIRECTIONS)][:, values[: len(DIRECTIONS)] > LEAST["direction"] * values.sum()]
    removed = [(centred - (centred @ top[:, :count]) @ top[:, :count].T).astype(X.dtype) for count in range(1, top.shape[1] + 1)]
    for words, rows in zip(DIRECTIONS, removed, strict=False):
        yield words, (rows + mean).astype(X.dtype)
    for words, rows in zip(DIRECTIONS, removed if has_mean else (), strict=False):
        yield f"mean and {words}", rows
    squares = np.square(X, dtype=np.float64).mean(axis=0)
    yield "rogue dimensions", X[:, squares <= ROGUE * squares.mean()]
    if METRICS["norm_variation"].value(cloud)[0] > LEAST["lengths"]:
        yield "lengths", _unit_rows(X)


def _without_copies(X: Floats, centred: Floats) -> Indices:
    """The rows without copies of earlier ones, which are as near as `NEAR` says, but seen from the mean: a cone has no copies."""
    try:
        table = neighbours_of(Cloud(centred, sample=len(centred)))
        gap = min((1 - NEAR) / max(1 - mean_cosine(X), 1 - NEAR), FAR)
    except Undefined:
        return np.arange(len(X))
    is_copy = ((table.distance <= gap) & (table.index < np.arange(table.m)[:, None])).any(axis=1)
    return np.setdiff1d(np.arange(len(X)), table.rows[is_copy])


def _merged(cleared: Mapping[str, str], cloud: Cloud) -> dict[str, str]:
    """The causes with one number of directions; what takes both mean and directions belongs to the latter if each is a cause."""
    families = {topic: cause.removeprefix("mean and ") for topic, cause in cleared.items()}
    directions = {cause for cause in cleared.values() if cause in DIRECTIONS}
    combined = {cause for cause in cleared.values() if cause.startswith("mean and ")}
    if not directions and not combined:
        return dict(cleared)
    most = max((cause for cause in families.values() if cause in DIRECTIONS), key=DIRECTIONS.index)
    top = cloud.spectrum.vectors[:, : DIRECTIONS.index(most) + 1]
    alone = "rogue dimensions" if (np.square(top).max(axis=0) > ALIGNED).all() else most
    both = alone if directions and "mean" in cleared.values() else f"mean and {most}"
    return {topic: alone if cause in directions else both if cause in combined else cause for topic, cause in cleared.items()}


class Facts(dict[str, Any]):
    """What the sentences of findings are made of, by name: metrics of a survey, and details computed when needed.

    A metric that was not measured is measured when a sentence needs it, or raises `Undefined`.
    """

    def __init__(self, cloud: Cloud, values: Mapping[str, float]) -> None:
        super().__init__(values)
        self.cloud = cloud

    def __missing__(self, name: str) -> Any:
        return getattr(self, name) if name in vars(Facts) else METRICS[name].function(self.cloud)

    @property
    def d(self) -> int:
        """Number of dimensions."""
        return self.cloud.d

    @property
    def ceiling(self) -> int:
        """The largest number of dimensions that the rows can fill."""
        return max(1, min(self.cloud.d, self.cloud.n - 1))  # n rows about their mean have at most rank n - 1

    @property
    def effective_rank_share(self) -> float:
        """The effective rank as a share of what the rows can fill."""
        return float(self["effective_rank"]) / self.ceiling

    @property
    def partition_isotropy_centered(self) -> float:
        """I(W) about the mean."""
        return math.exp(self["log_partition_isotropy_centered"])

    @property
    def coverage(self) -> str:
        """How well the unit vectors cover the sphere, in words."""
        return "well" if self["uniformity"] < -3 else "only in part"

    @property
    def cone(self) -> str:
        """Which dimensions most of a large mean cosine comes from; nothing if it is spread over many."""
        if self["mean_cosine"] <= 0.1:
            return ""
        shares = dimension_contributions(self.cloud) / self["mean_cosine"]
        top = np.argsort(shares)[::-1][:3]
        share = float(shares[top].sum())
        return f"; dimensions {', '.join(map(str, top))} carry {share:.0%} of the mean" if share > 0.25 else ""

    @property
    def widest_dimension(self) -> str:
        """The dimension of largest variance, and its share of the total."""
        variances = self.cloud.moments.squared_deviations
        return f"dimension {variances.argmax()} alone holds {variances.max() / variances.sum():.1%}"

    @property
    def widest(self) -> str:
        """The same with what an even share would be, and the three widest."""
        variances = self.cloud.moments.squared_deviations
        top = np.argsort(variances)[::-1][:3]
        return (
            f"{self.widest_dimension} of the variance ({self.d} even ones would hold {1 / self.d:.1%} each); "
            f"the widest three ({', '.join(map(str, top))}) hold {variances[top].sum() / variances.sum():.1%}"
        )

    @property
    def hubs(self) -> Indices:
        """Rows that most others have as a neighbour, most listed first."""
        table = neighbours_of(self.cloud)
        return table.rows[np.argsort(-table.occurrences(), kind="stable")]

    @property
    def lonely(self) -> Indices:
        """Rows that are nobody's neighbour."""
        table = neighbours_of(self.cloud)
        return table.rows[np.flatnonzero(table.occurrences() == 0)]

    @property
    def copies(self) -> Indices:
        """Rows that have another row at almost the same place."""
        table = neighbours_of(self.cloud)
        return table.rows[table.distance[:, 0] <= 1 - NEAR]  # as `near_duplicates` counts them

    @property
    def outlying(self) -> Indices:
        """Rows far from all others, farthest first."""
        return outlying_rows(self.cloud)

    @property
    def cut_off(self) -> Indices:
        """Rows on islands of the neighbour graph."""
        return np.array([row for island in island_components(self.cloud) for row in island], dtype=np.intp)

    @property
    def second_rows(self) -> Indices:
        """Rows of the smaller of two populations."""
        groups = two_populations(self.cloud)
        return np.array([], dtype=np.intp) if groups is None else groups.minority

    @property
    def zeros(self) -> Indices:
        """Sampled rows that are zero."""
        return self.cloud.sample_index[np.flatnonzero(~self.cloud.sample.any(axis=1))]


def _judge(rule: FindingRule, facts: Facts) -> Finding:
    value, n = float(facts[rule.judged or rule.metric]), min(facts.cloud.n, facts.cloud.sample_size)
    bounds: dict[Severity, float] = {"bad": rule.bad, "watch": rule.watch}
    verdict: Severity = next((word for word, bound in bounds.items() if rule.exceeds(value, bound, n)), "good")
    is_good = verdict == "good"
    try:
        meaning = rule.meaning.format_map(facts)
        examples = () if is_good or not rule.examples else tuple(int(row) for row in facts[rule.examples][:EXAMPLES])
    except Undefined as undefined:
        meaning, examples = f"details are not defined: {undefined}", ()
    fields = {name: getattr(rule, name) for name in ("topic", "metric", "healthy", "source")}
    return Finding(**fields, verdict=verdict, value=value, meaning=meaning, action="" if is_good else rule.action, rows=examples)
