"""The rules behind findings, as declarations: metric, bounds, where the bounds come from, the sentence, the thing to try.

Bounds are a place to start, not a law: they stand between what healthy and unhealthy spaces showed (table in docs/ranges.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theodolite.advice.facts import Facts


@dataclass(frozen=True, kw_only=True)
class Rule:
    """When a metric is worth a look (`watch`) and when it is `bad`; bad below watch means that low values are the bad ones."""

    topic: str
    metric: str
    watch: float
    bad: float
    source: str
    meaning: Callable[[Facts], str]
    action: str
    examples: Callable[[Facts], NDArray[np.intp]] | None = None
    of: Callable[[Facts], float] | None = None
    """What is judged, where it is not the metric itself."""

    def value(self, facts: Facts) -> float:
        """The number that is judged."""
        return facts[self.metric] if self.of is None else self.of(facts)

    def exceeds(self, value: float, bound: float) -> bool:
        """True where the value lies beyond a bound, on the side of `bad`."""
        return value < bound if self.bad < self.watch else value > bound

    @property
    def healthy(self) -> str:
        """The healthy range in words."""
        return f"at least {self.watch:g}" if self.bad < self.watch else f"at most {self.watch:g}"


def _cone(facts: Facts) -> str:
    sentence = f"{facts['similar_pairs']:.0%} of random pairs have cosine above 0.8"
    if facts["mean_cosine"] > 0.1:
        dimensions, share = facts.contributions()
        named = ", ".join(map(str, dimensions))
        sentence += (
            f"; dimensions {named} carry {share:.0%} of the mean; centring alone brings it to {facts['mean_cosine_centered']:.2f}"
        )
    return sentence


def _rogue(facts: Facts) -> str:
    dimensions, shares = facts.widest()
    return (
        f"dimension {dimensions[0]} alone holds {shares[0]:.1%} of the variance ({facts.cloud.d} even ones would hold "
        f"{1 / facts.cloud.d:.1%} each); the widest three ({', '.join(map(str, dimensions))}) hold {shares.sum():.1%}"
    )


RULES: tuple[Rule, ...] = (
    Rule(
        topic="cone",
        metric="mean_cosine",
        watch=0.2,
        bad=0.4,
        source="0 is isotropic; all-MiniLM-L6-v2 sentences show 0.02, the same encoder as a masked language model 0.47",
        meaning=_cone,
        action="subtract the mean from documents and queries alike: repair fit zero-mean",
    ),
    Rule(
        topic="isotropy",
        metric="iso_score",
        watch=0.1,
        bad=0.01,
        source="1 is isotropic; all-MiniLM-L6-v2 sentences show 0.24, the masked language model 0.05, fine-tuned BERT 0.003",
        meaning=lambda f: f"the variance fills about {f['participation_ratio']:.0f} of {f.cloud.d} dimensions evenly",
        action="remove dominant directions, and check the task score before keeping it: repair fit global",
    ),
    Rule(
        topic="partition",
        metric="log_partition_isotropy_unit_norm",
        watch=-0.5,
        bad=-2.0,
        source="0 is isotropic; all-MiniLM-L6-v2 sentences show -0.16, the masked language model -1.4",
        meaning=lambda f: (
            f"I(W) is {f['partition_isotropy']:.2g} as it lies and {math.exp(f['log_partition_isotropy_centered']):.2g} "
            "about the mean; RP21 prints 1e-5 for tokens of pre-trained BERT"
        ),
        action="centre first; if it stays low, remove dominant directions: repair fit global",
    ),
    Rule(
        topic="effective rank",
        metric="effective_rank",
        of=lambda f: f["effective_rank"] / f.ceiling,
        watch=0.3,
        bad=0.1,
        source="as a share of what the rows can fill; all-MiniLM-L6-v2 sentences show 0.45, the masked language model 0.15",
        meaning=lambda f: (
            f"effective rank {f['effective_rank']:.0f} of {f.ceiling}; {f['dimensions_95']:.0f} principal components hold 95 % "
            "of the variance"
        ),
        action="where search quality allows it, a smaller index will do: repair fit whiten --components",
    ),
    Rule(
        topic="dominant direction",
        metric="ev_1_centered",
        watch=0.15,
        bad=0.4,
        source="all-MiniLM-L6-v2 sentences show 0.05, the masked language model 0.19, fine-tuned BERT 0.4 to 0.9 (IL23)",
        meaning=lambda f: (
            f"the first principal component holds {f['ev_1_centered']:.0%} of the variance, {f['ev_1']:.0%} before centring"
        ),
        action="look at what it encodes (length, frequency, source); then repair fit global --directions 1",
    ),
    Rule(
        topic="rogue dimensions",
        metric="largest_variance_ratio",
        watch=5.0,
        bad=25.0,
        source="1 is even; all-MiniLM-L6-v2 sentences show 1.6, tokens of the masked language model 33",
        meaning=_rogue,
        action="give every dimension the same weight: repair fit standardize, or repair fit drop-rogue",
    ),
    Rule(
        topic="conditioning",
        metric="condition_number",
        watch=1e6,
        bad=math.inf,
        source="all-MiniLM-L6-v2 sentences show 1e3; layer norms and dead units leave directions with almost no variance",
        meaning=lambda f: f"the widest direction has {f['condition_number']:.0e} times the variance of the narrowest",
        action="do not whiten to full rank: name the components to keep, or shrink",
    ),
    Rule(
        topic="uniformity",
        metric="uniformity",
        watch=-3.0,
        bad=-2.0,
        source="-4 fills the sphere, 0 is a point; all-MiniLM-L6-v2 sentences show -3.8, the masked language model -1.9",
        meaning=lambda f: f"the unit vectors cover the sphere {'well' if f['uniformity'] < -3 else 'in part only'}",
        action="a contrastive objective spreads them; without training, repair fit whiten",
    ),
    Rule(
        topic="hubness",
        metric="hubness",
        watch=2.5,
        bad=5.0,
        source="0 is none; sentences of all-MiniLM-L6-v2 and of the masked language model show 1.3 to 1.9",
        meaning=lambda f: f"the most listed 1 % of rows take {f['hub_share']:.1%} of all places among the 10 nearest",
        action="look at the hubs named here; centring often helps, else rank by mutual neighbours",
        examples=lambda f: f.hubs(),
    ),
    Rule(
        topic="never retrieved",
        metric="never_retrieved",
        watch=0.05,
        bad=0.2,
        source="sentences of all-MiniLM-L6-v2 and of the masked language model show 0.01 to 0.02",
        meaning=lambda f: (
            f"{f['never_retrieved']:.1%} of rows are among nobody's 10 nearest: a search from inside never shows them"
        ),
        action="read the rows named here: empty or boilerplate texts go; otherwise treat hubness first",
        examples=lambda f: f.lonely(),
    ),
    Rule(
        topic="near-duplicates",
        metric="near_duplicates",
        watch=0.02,
        bad=0.1,
        source="0 in a deduplicated set; STS-B sentences, which repeat, show 0.13",
        meaning=lambda f: (
            f"{f['near_duplicates']:.1%} of rows have another at cosine 0.99 or more, {f['exact_duplicates']:.1%} repeat an "
            "earlier row exactly"
        ),
        action="deduplicate the texts; if the texts differ, the encoder does not tell them apart",
        examples=lambda f: f.copies(),
    ),
    Rule(
        topic="lengths",
        metric="norm_variation",
        watch=0.1,
        bad=0.5,
        source="0 for normalised vectors; mean-pooled sentences of all-MiniLM-L6-v2 show 0.21, tokens 0.40",
        meaning=lambda f: f"the rows' lengths vary by {f['norm_variation']:.0%} around {f['mean_norm']:.3g}",
        action="decide on cosine or inner product; for cosine, scale the rows to length 1 before indexing",
    ),
    Rule(
        topic="zero vectors",
        metric="zero_rows",
        watch=0.0,
        bad=0.01,
        source="none in a sound set",
        meaning=lambda f: f"{f['zero_rows']:.2%} of rows are exactly zero",
        action="find the empty texts or failed calls behind them, and drop them",
        examples=lambda f: f.zeros(),
    ),
    Rule(
        topic="cosine or inner product",
        metric="metric_agreement",
        watch=0.9,
        bad=0.5,
        source="1 for normalised vectors; mean-pooled sentences of all-MiniLM-L6-v2 before normalising show 0.67",
        meaning=lambda f: f"the 10 nearest by cosine and by inner product share {f['metric_agreement']:.0%}",
        action="set the index to the measure the encoder was trained for, or scale the rows to length 1",
    ),
    Rule(
        topic="distance contrast",
        metric="relative_contrast",
        watch=1.5,
        bad=1.2,
        source="1 carries no signal; pure noise in 384 dimensions shows 1.24, all-MiniLM-L6-v2 sentences 3.8",
        meaning=lambda f: f"a random row is {f['relative_contrast']:.2f} times as far as the nearest one",
        action="check that the vectors come from the encoder and texts you think; re-rank a longer list",
    ),
    Rule(
        topic="outliers",
        metric="outliers",
        watch=0.01,
        bad=0.05,
        source="all-MiniLM-L6-v2 sentences show 0.00, tokens of the masked language model 0.15",
        meaning=lambda f: f"{f['outliers']:.2%} of rows are unusually far from their nearest neighbour",
        action="read the rows named here: foreign language, code, broken text, another model's vectors",
        examples=lambda f: f.outlying(),
    ),
    Rule(
        topic="islands",
        metric="islands",
        watch=0.01,
        bad=0.1,
        source="0 in all spaces of docs/ranges.md",
        meaning=lambda f: f"{f['islands']:.2%} of rows sit in small parts cut off from the rest of the neighbour graph",
        action="graph indexes may not reach them: deduplicate, or raise the number of links",
        examples=lambda f: f.cut_off(),
    ),
    Rule(
        topic="density",
        metric="density_variation",
        watch=0.6,
        bad=1.0,
        source="all-MiniLM-L6-v2 sentences show 0.36, tokens of the masked language model 0.83",
        meaning=lambda f: f"the distance to the 10 nearest varies by {f['density_variation']:.0%} over the space",
        action="one similarity threshold will not fit everywhere: use ranks, or thresholds per region",
    ),
    Rule(
        topic="stability",
        metric="retrieval_stability",
        watch=0.9,
        bad=0.75,
        source="1 is stable; all-MiniLM-L6-v2 sentences show 0.97, pure noise 0.82",
        meaning=lambda f: f"a small step of the query keeps {f['retrieval_stability']:.0%} of its 10 nearest",
        action="retrieve a longer list and re-rank it",
    ),
    Rule(
        topic="intrinsic dimension",
        metric="intrinsic_dimension",
        watch=2.0,
        bad=1.0,
        source="TwoNN; the real spaces of docs/ranges.md show 3 to 15; it does not predict search quality",
        meaning=lambda f: f"locally the cloud extends in about {f['intrinsic_dimension']:.1f} directions",
        action="check for duplicated or templated texts",
    ),
)
"""All rules; every metric is measured by a survey."""
