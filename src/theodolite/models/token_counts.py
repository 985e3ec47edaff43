"""Whether a tokenizer fits its texts: how many tokens it does not know, how many texts it cuts, and which texts it confuses.

A wrong tokenizer gives vectors like any other, so it shows only here.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from theodolite.core.spelling import option
from theodolite.models.encoder import Encoder
from theodolite.models.location import EncoderError
from theodolite.models.tokens import TextInputs, Tokens

# Shares of unknown tokens, and of confused texts, from which there is a warning; of unknown tokens also an error.
WORTH_A_WARNING = 0.01
TOO_MANY_UNKNOWN = 0.2


class TokenizerWarning(UserWarning):
    """The tokenizer may not fit the texts; the message says what was counted."""


@dataclass(frozen=True, kw_only=True)
class TokenCounts:
    """What a tokenizer made of some texts."""

    texts: int = 0
    tokens: int = 0
    unknown: int = 0
    cut: int = 0
    distinct: int = 0
    confused: int = 0
    max_length: int = 0

    @property
    def unknown_share(self) -> float:
        """Unknown tokens as a share of all."""
        return self.unknown / max(1, self.tokens)

    @property
    def confused_share(self) -> float:
        """Confused texts as a share of the distinct ones."""
        return self.confused / max(1, self.distinct)

    def to_dict(self) -> dict[str, int]:
        """Plain values, for the origin of a space."""
        return asdict(self)

    def check(self, *, allow_unknown: bool) -> None:
        """Warn about what is worth a look, and raise if a fifth of the tokens is unknown."""
        sentences = warnings_of(self.to_dict())
        if self.unknown_share >= TOO_MANY_UNKNOWN and not allow_unknown:
            raise EncoderError(f"{sentences[0]}; mend the tokenizer, or accept it with {option('allow_unknown')}")
        for sentence in sentences:
            warnings.warn(sentence, TokenizerWarning, stacklevel=4)


def count_tokens(encoder: Encoder, parts: Sequence[tuple[TextInputs, Tokens]]) -> TokenCounts:
    """Count what a tokenizer made of texts."""
    try:
        unknown_id = encoder.tokenizer.unk_token_id
    except RecursionError:  # transformers looks for the unknown token's number under the unknown token
        fault = f"the unknown token of {encoder.name}'s tokenizer is not in its vocabulary"
        raise ValueError(f"{fault}; correct unk_token in tokenizer_config.json, or copy the model again") from None
    tokens = unknown = cut = 0
    distinct: set[int] = set()
    sequences: set[int] = set()
    for inputs, made in parts:
        own = made.ids[~made.special]
        tokens += len(own)
        unknown += 0 if unknown_id is None else int((own == unknown_id).sum())
        cut += 0 if made.shortened is None else int(made.shortened.sum())
        seconds = inputs.second if inputs.second is not None else [""] * len(inputs.texts)
        for index, pair in enumerate(zip(inputs.texts, seconds, strict=True)):
            # 64-bit hashes instead of the texts: of a million texts, two are mistaken for each other with probability 3e-8.
            distinct.add(hash(pair))
            sequences.add(hash(made.ids[made.of(index)].tobytes()))
    return TokenCounts(
        texts=sum(len(inputs.texts) for inputs, _ in parts),
        tokens=tokens,
        unknown=unknown,
        cut=cut,
        distinct=len(distinct),
        confused=max(0, len(distinct) - len(sequences)),
        max_length=encoder.max_length or 0,
    )


def counts_line(counts: Mapping[str, Any]) -> str:
    """The counts that a space carries in its origin, in one line; empty if it has none."""
    if not counts:
        return ""
    known = TokenCounts(**counts)
    return (
        f"{known.tokens:,} tokens, {known.unknown_share:.1%} unknown; {known.cut:,} of {known.texts:,} texts cut; "
        f"{known.confused:,} of {known.distinct:,} distinct texts have the tokens of another"
    )


def warnings_of(counts: Mapping[str, Any]) -> list[str]:
    """A sentence for each count that is worth a look, unknown tokens first."""
    known = TokenCounts(**counts)
    sentences = []
    if known.unknown_share >= WORTH_A_WARNING:
        sentences.append(
            f"{known.unknown:,} of {known.tokens:,} tokens ({known.unknown_share:.1%}) are unknown to the tokenizer, so it may "
            "not be the one that the encoder was trained with"
        )
    if known.cut:
        limit = option("max_length", str(known.max_length))
        sentences.append(f"{known.cut:,} of {known.texts:,} texts are longer than {limit} and were cut")
    if known.confused_share >= WORTH_A_WARNING:
        sentences.append(
            f"{known.confused:,} of {known.distinct:,} distinct texts ({known.confused_share:.1%}) become the same tokens as "
            "another, so the encoder cannot tell them apart"
        )
    return sentences
