"""All layers of an encoder against sentence-transformers' `encode` of the same texts, which gives the last one; and memory.

As a script, `extraction.py TEXTS` prints the memory that a survey of all layers of so many texts took without storing them.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from memory import STATUS, Watch
from scale import Scale
from table import Result
from timing import best_in_turns, run, shown

WORDS = (
    "the a one some every old young quick slow green small large bright river house teacher market engine garden letter window "
    "doctor village child mountain paper question answer winter train story of in on under near with without before after walks "
    "writes finds sells paints carries opens remembers measures follows and but because while"
)
FEW, MANY = 4_000, 16_000
MEASURES = ("iso_score", "log_partition_isotropy", "ev_1", "mean_cosine")


def texts(count: int) -> list[str]:
    """Lines of 3 to 40 common words, most of them short, as sentences are."""
    draw, words = random.Random(0), WORDS.split()
    return [" ".join(draw.choices(words, k=min(40, 3 + int(draw.expovariate(1 / 10))))) for _ in range(count)]


def measure(scale: Scale, folder: Path) -> Iterator[Result]:
    del folder
    few, many = (min(count, max(scale.survey)) for count in (FEW, MANY))
    yield speed(few, scale.repeats)
    yield flat(many, peak(many), few, peak(few))


def speed(count: int, repeats: int) -> Result:
    from sentence_transformers import SentenceTransformer

    from theodolite.models import Encoder, extract_space
    from theodolite.models.location import demo_folder

    lines = texts(count)
    encoder, peer = Encoder.load("demo"), SentenceTransformer(str(demo_folder()))
    extract_space(encoder, lines[:64])
    peer.encode(lines[:64])
    ours, theirs = best_in_turns(lambda: extract_space(encoder, lines), lambda: peer.encode(lines), repeats=repeats)
    return Result(
        table="extraction",
        case=f"{encoder.n_layers} layers of {count:,} texts, mean of tokens",
        value=ours / theirs,
        sense="at most",
        goal=1.25,
        ours=shown(ours),
        theirs=f"sentence-transformers' encode, last layer only, {shown(theirs)}",
    )


def peak(count: int) -> float:
    """Megabytes that a survey of all layers took in a process of its own."""
    return float(json.loads(run([sys.executable, __file__, str(count)]).splitlines()[-1])) if STATUS.exists() else math.nan


def flat(count: int, found: float, small: int, before: float) -> Result:
    return Result(
        table="extraction",
        case=f"memory of a survey of all layers of {count:,} texts, nothing stored",
        value=found / before,
        sense="at most",
        goal=1.25,
        ours=f"{found:.0f} MB",
        theirs=f"the same of {small:,} texts, {before:.0f} MB",
        note="" if STATUS.exists() else "needs /proc",
    )


def child(count: int) -> float:
    """What a survey of the tokens of all layers took above the texts and the loaded encoder."""
    from theodolite.models import Encoder, survey_layers

    lines = texts(count)
    encoder = Encoder.load("demo", device="cpu")
    survey_layers(encoder, lines[:8], MEASURES, unit="tokens")  # loads every module
    watch = Watch()
    watch.start()
    survey_layers(encoder, lines, MEASURES, unit="tokens")
    return watch.end()[0]


if __name__ == "__main__":
    print(json.dumps(child(int(sys.argv[1]))))
