"""Findings: measured numbers compared with what healthy spaces show, in words, with the smallest thing to try."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from theodolite.core.result import Finding, Severity
from theodolite.core.rows import Row
from theodolite.core.spelling import TypedInput
from theodolite.core.vectors import Indices
from theodolite.metrics.cloud import Cloud, Undefined
from theodolite.metrics.cosine import dimension_contributions
from theodolite.metrics.nearest_rows import neighbours_of
from theodolite.metrics.neighbours import NEAR, island_components, outlying_rows
from theodolite.metrics.registry import METRICS

EXAMPLES = 5  # rows that a finding names at most


@dataclass(frozen=True)
class FindingRule:
    """When a metric is worth a look, and when it is bad."""

    topic: str
    metric: str
    watch: float
    bad: float
    source: str
    meaning: str
    action: str
    examples: str = ""
    judged: str = ""

    def exceeds(self, value: float, bound: float) -> bool:
        """Whether a value is beyond a bound, on the side of `bad`."""
        return value < bound if self.bad < self.watch else value > bound

    @property
    def healthy(self) -> str:
        """The healthy range in words."""
        return f"at least {self.watch:g}" if self.bad < self.watch else f"at most {self.watch:g}"


# All rules; every metric is one that a survey measures by default. Bounds are a starting point, not a law: they are between
# what healthy and unhealthy spaces showed (table in docs/ranges.md).
# fmt: off
RULES: tuple[FindingRule, ...] = (
    FindingRule("cone", "mean_cosine", watch=0.2, bad=0.95,
         source="0 is isotropic; all-MiniLM-L6-v2 sentences show 0.02, the same encoder as a masked language model 0.47; search "
                "was unharmed up to 0.88 (study do-no-harm), and nothing above that was measured",
         meaning="{similar_pairs:.0%} of random pairs have cosine above 0.8, so a threshold taken from another encoder does "
                 "not hold; ranking need not suffer (study do-no-harm){cone}",
         action="set thresholds with theodolite calibrate; before binary codes, subtract the mean: {fit:zero-mean}"),
    FindingRule("isotropy", "iso_score", watch=0.1, bad=0.01,
         source="1 is isotropic; all-MiniLM-L6-v2 sentences show 0.24, the masked language model 0.05, fine-tuned BERT 0.003",
         meaning="the variance fills about {participation_ratio:.0f} of {d} dimensions evenly",
         action="remove dominant directions, and check the task score before keeping it: {fit:global}"),
    FindingRule("partition", "log_partition_isotropy_unit_norm", watch=-0.5, bad=-2.0,
         source="0 is isotropic; all-MiniLM-L6-v2 sentences show -0.16, the masked language model -1.4",
         meaning="I(W), which is 1 if no direction is preferred, is {partition_isotropy:.2g}, "
                 "and {partition_isotropy_centered:.2g} after centring; RP21 prints 1e-5 for tokens of pre-trained BERT",
         action="centre first; if it stays low, remove dominant directions: {fit:global}"),
    FindingRule("effective rank", "effective_rank", watch=0.3, bad=0.1, judged="effective_rank_share",
         source="as a share of what the rows can fill; all-MiniLM-L6-v2 sentences show 0.45, the masked language model 0.15",
         meaning="effective rank {effective_rank:.0f} of {ceiling}; "
                 "{dimensions_95:.0f} principal components hold 95 % of the variance",
         action="if search quality allows it, a smaller index is enough: {fit:whiten components={dimensions_95:.0f}}"),
    FindingRule("dominant direction", "ev_1_centered", watch=0.15, bad=0.4,
         source="all-MiniLM-L6-v2 sentences show 0.05, the masked language model 0.19, fine-tuned BERT 0.4 to 0.9 (IL23)",
         meaning="the first principal component holds {ev_1_centered:.0%} of the variance, {ev_1:.0%} before centring",
         action="look at what it encodes (length, frequency, source); then remove it: {fit:global directions=1}"),
    FindingRule("rogue dimensions", "largest_variance_ratio", watch=5.0, bad=25.0,
         source="1 is even; all-MiniLM-L6-v2 sentences show 1.6, tokens of the masked language model 33",
         meaning="{widest}",
         action="drop them (drop-rogue), or give every dimension the same weight: {fit:standardize}"),
    FindingRule("conditioning", "condition_number", watch=1e6, bad=math.inf,
         source="all-MiniLM-L6-v2 sentences show 1e3; layer norms and dead units leave directions with almost no variance",
         meaning="the widest direction has {condition_number:.0e} times the variance of the narrowest",
         action="do not whiten to full rank: set the number of components to keep, or shrink"),
    FindingRule("uniformity", "uniformity", watch=-3.0, bad=-2.0,
         source="-4 fills the sphere, 0 is a point; all-MiniLM-L6-v2 sentences show -3.8, the masked language model -1.9",
         meaning="the unit vectors cover the sphere {coverage}",
         action="a contrastive objective spreads them; without training: {fit:whiten}"),
    FindingRule("hubness", "hubness", watch=2.5, bad=5.0, examples="hubs",
         source="0 is none; sentences of all-MiniLM-L6-v2 and of the masked language model show 1.3 to 1.9",
         meaning="the 1 % of rows that are neighbours most often fill {hub_share:.1%} of all lists of the 10 nearest",
         action="look at the hubs named here; centring often helps, otherwise rank by mutual neighbours"),
    FindingRule("never retrieved", "never_retrieved", watch=0.05, bad=0.2, examples="lonely",
         source="sentences of all-MiniLM-L6-v2 and of the masked language model show 0.01 to 0.02",
         meaning="{never_retrieved:.1%} of rows are not among the 10 nearest of any other row: "
                 "a search with these vectors as queries never finds them",
         action="read the rows named here: remove empty or boilerplate texts; otherwise treat hubness first"),
    FindingRule("near-duplicates", "near_duplicates", watch=0.02, bad=0.1, examples="copies",
         source="0 in a deduplicated set; STS-B sentences, which repeat, show 0.13",
         meaning="{near_duplicates:.1%} of rows have another at cosine 0.99 or more, "
                 "{exact_duplicates:.1%} repeat an earlier row exactly",
         action="deduplicate the texts; if the texts differ, the encoder does not distinguish them"),
    FindingRule("lengths", "norm_variation", watch=0.1, bad=0.5,
         source="0 for normalised vectors; mean-pooled sentences of all-MiniLM-L6-v2 show 0.21, tokens 0.40",
         meaning="the rows' lengths vary by {norm_variation:.0%} around {mean_norm:.3g}",
         action="decide on cosine or inner product; for cosine, scale the rows to length 1: {fit:unit-length}"),
    FindingRule("zero vectors", "zero_rows", watch=0.0, bad=0.01, examples="zeros",
         source="none in a sound set",
         meaning="{zero_rows:.2%} of rows are exactly zero",
         action="find the empty texts or failed calls behind them, and drop them"),
    FindingRule("cosine or inner product", "metric_agreement", watch=0.9, bad=0.5,
         source="1 for normalised vectors; mean-pooled sentences of all-MiniLM-L6-v2 before normalising show 0.67",
         meaning="the 10 nearest by cosine and by inner product share {metric_agreement:.0%}",
         action="set the index to the measure the encoder was trained for, or scale the rows to length 1: {fit:unit-length}"),
    FindingRule("distance contrast", "relative_contrast", watch=1.5, bad=1.2,
         source="1 carries no signal; pure noise in 384 dimensions shows 1.24, all-MiniLM-L6-v2 sentences 3.8",
         meaning="a random row is {relative_contrast:.2f} times as far as the nearest one",
         action="check that the vectors come from the encoder and texts you expect; re-rank a longer list"),
    FindingRule("outliers", "outliers", watch=0.01, bad=0.05, examples="outlying",
         source="all-MiniLM-L6-v2 sentences show 0.00, tokens of the masked language model 0.15",
         meaning="{outliers:.2%} of rows are unusually far from their nearest neighbour",
         action="read the rows named here: foreign language, code, broken text, another model's vectors"),
    FindingRule("islands", "islands", watch=0.01, bad=0.1, examples="cut_off",
         source="0 in all spaces of docs/ranges.md",
         meaning="{islands:.2%} of rows are in small parts cut off from the rest of the neighbour graph",
         action="graph indexes may not reach them: deduplicate, or raise the number of links"),
    FindingRule("density", "density_variation", watch=0.6, bad=1.0,
         source="all-MiniLM-L6-v2 sentences show 0.36, tokens of the masked language model 0.83",
         meaning="the distance to the 10 nearest varies by {density_variation:.0%} over the space",
         action="one similarity threshold will not fit everywhere: use ranks, or thresholds per region"),
    FindingRule("stability", "retrieval_stability", watch=0.9, bad=0.75,
         source="1 is stable; all-MiniLM-L6-v2 sentences show 0.97, pure noise 0.82",
         meaning="after a small change of the query, {retrieval_stability:.0%} of its 10 nearest are the same",
         action="retrieve a longer list and re-rank it"),
    FindingRule("intrinsic dimension", "intrinsic_dimension", watch=2.0, bad=1.0,
         source="TwoNN; the real spaces of docs/ranges.md show 3 to 15; it does not predict search quality",
         meaning="locally the cloud extends in about {intrinsic_dimension:.1f} directions",
         action="check for duplicated or templated texts"),
)
# fmt: on


def findings(cloud: Cloud, rows: Sequence[Row], source: TypedInput | None = None) -> list[Finding]:
    """What the rows of a survey mean, worst first; a rule whose metric was not measured is left out.

    Parameters
    ----------
    cloud
        The cloud that was surveyed.
    rows
        Its rows, as `theodolite.metrics.metric_rows` returns them.
    source
        How commands name the vectors; a file `vectors.npy` by default.
    """
    # A metric without a value has no finding: its row says why.
    facts = Facts(cloud, {row.metric: row.value for row in rows if math.isfinite(row.value)}, source or TypedInput())
    judged = [_judge(rule, facts) for rule in RULES if rule.metric in facts]
    return sorted(judged, key=lambda finding: -finding.severity)


class Facts(dict[str, Any]):
    """What the sentences of findings are made of, by name: metrics of a survey, and details computed when needed.

    A metric that was not measured is measured when a sentence needs it, or raises `Undefined`.
    """

    def __init__(self, cloud: Cloud, values: Mapping[str, float], source: TypedInput) -> None:
        super().__init__(values)
        self.cloud = cloud
        self.source = source

    def __missing__(self, name: str) -> Any:
        return getattr(self, name) if name in vars(Facts) else METRICS[name].function(self.cloud)

    @property
    def fit(self) -> _Fit:
        """The command that fits a repair, with its name and settings as the format: `{fit:global directions=1}`."""
        return _Fit(self.source)

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
        """Which dimensions a large mean cosine comes from, and what centring achieves; nothing if it is small."""
        if self["mean_cosine"] <= 0.1:
            return ""
        parts = dimension_contributions(self.cloud)
        top = np.argsort(parts)[::-1][:3]
        return (
            f"; dimensions {', '.join(map(str, top))} carry {float(parts[top].sum() / parts.sum()):.0%} of the mean; "
            f"centring alone brings it to {self['mean_cosine_centered']:z.2f}"
        )

    @property
    def widest(self) -> str:
        """The dimensions of largest variance, and their shares of the total."""
        variances = self.cloud.moments.squared_deviations
        top = np.argsort(variances)[::-1][:3]
        shares = variances[top] / variances.sum()
        return (
            f"dimension {top[0]} alone holds {shares[0]:.1%} of the variance ({self.d} even ones would hold {1 / self.d:.1%} "
            f"each); the widest three ({', '.join(map(str, top))}) hold {shares.sum():.1%}"
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
    def zeros(self) -> Indices:
        """Sampled rows that are zero."""
        return self.cloud.sample_index[np.flatnonzero(~self.cloud.sample.any(axis=1))]


@dataclass(frozen=True)
class _Fit:
    source: TypedInput

    def __format__(self, spec: str) -> str:
        repair, *settings = spec.split()
        values: dict[str, Any] = {name: int(value) for name, _, value in (each.partition("=") for each in settings)}
        return self.source.fit(repair, **values)


def _judge(rule: FindingRule, facts: Facts) -> Finding:
    value = float(facts[rule.judged or rule.metric])
    verdict: Severity = "bad" if rule.exceeds(value, rule.bad) else "watch" if rule.exceeds(value, rule.watch) else "good"
    is_good = verdict == "good"
    try:
        meaning = rule.meaning.format_map(facts)
        examples = () if is_good or not rule.examples else tuple(int(row) for row in facts[rule.examples][:EXAMPLES])
    except Undefined as undefined:
        meaning, examples = f"details are not defined: {undefined}", ()
    # The command that a rule ends with is a field of the finding.
    action, _, fit = ("" if is_good else rule.action).partition(": {fit:")
    action, command = action.format_map(facts), f"{{fit:{fit}".format_map(facts) if fit else ""
    about = {name: getattr(rule, name) for name in ("topic", "metric", "healthy", "source")}
    return Finding(**about, verdict=verdict, value=value, meaning=meaning, action=action, command=command, rows=examples)
