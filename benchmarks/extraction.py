"""All layers of an encoder against sentence-transformers' `encode` of the same texts, which gives the last one; and memory.

As a script, `extraction.py TEXTS` prints the memory that a survey of all layers of so many texts took without storing them.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
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
FEW = 4_000
MEASURES = ("iso_score", "log_partition_isotropy", "ev_1", "mean_cosine")


def texts(count: int) -> list[str]:
    """Lines of 3 to 40 common words, most of them short, as sentences are."""
    draw, words = random.Random(0), WORDS.split()
    return [" ".join(draw.choices(words, k=min(40, 3 + int(draw.expovariate(1 / 10))))) for _ in range(count)]


def measure(scale: Scale, folder: Path) -> Iterator[Result]:
    del folder
    yield speed(min(FEW, max(scale.texts)), scale.repeats)
    fewest = cost_of(scale.texts[0])
    for count in scale.texts[1:]:
        yield flat(count, cost_of(count), scale.texts[0], fewest)


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


def cost_of(count: int) -> dict[str, float]:
    """Megabytes and seconds that a survey of all layers took in a process of its own."""
    if not STATUS.exists():
        return {"megabytes": math.nan, "cpu": math.nan}
    cost: dict[str, float] = json.loads(run([sys.executable, __file__, str(count)]).splitlines()[-1])
    return cost


def flat(count: int, cost: dict[str, float], small: int, before: dict[str, float]) -> Result:
    return Result(
        table="extraction",
        case=f"memory of a survey of all layers of {count:,} texts, nothing stored",
        value=cost["megabytes"] / before["megabytes"],
        sense="at most",
        goal=1.25,
        ours=f"{cost['megabytes']:.0f} MB, {shown(cost['cpu'])} of processor time",
        theirs=f"the same of {small:,} texts, {before['megabytes']:.0f} MB, {shown(before['cpu'])}",
        note="" if STATUS.exists() else "needs /proc",
        measures={"texts": count, "few": small, "few_megabytes": before["megabytes"], "few_cpu": before["cpu"], **cost},
    )


def child(count: int) -> dict[str, float]:
    """What a survey of the tokens of all layers took above the texts and the loaded encoder."""
    from theodolite.models import Encoder
    from theodolite.models.batches import TokenReading
    from theodolite.models.streaming import survey_reading

    lines = texts(count)
    encoder = Encoder.load("demo", device="cpu")
    survey_reading(TokenReading.of(encoder, lines[:8], unit="tokens"), MEASURES)  # loads every module
    watch = Watch()
    watch.start()
    busy = time.process_time()
    survey_reading(TokenReading.of(encoder, lines, unit="tokens"), MEASURES)
    return {"megabytes": watch.end()[0], "cpu": time.process_time() - busy}


if __name__ == "__main__":
    print(json.dumps(child(int(sys.argv[1]))))
