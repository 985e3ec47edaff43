"""The same texts under different settings of one encoder: pooling, prompt and length limit."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from theodolite.core.vectors import Floats, Indices
from theodolite.models.encoder import Encoder, positions_of
from theodolite.models.extraction import extract_space

POOLINGS = {"mean": "mean pooling", "cls": "[CLS] pooling", "last": "last-token pooling", "max": "max pooling"}
PROMPTS = ("", "query: ", "passage: ")  # tried besides those of the model
LIMITS = (32, 64, 128, 256, 384, 512, 1024, 2048, 4096, 8192)  # tokens; common choices


@dataclass(frozen=True, kw_only=True)
class EncodingSetting:
    """How a text becomes a vector: the unit, what is put before the text, and the number of tokens that it is cut to."""

    unit: str
    prompt: str = ""
    max_length: int | None = None

    def words(self) -> str:
        """The setting in words."""
        return ", ".join(self._named().values())

    def changes(self, other: EncodingSetting) -> str:
        """In words, how this setting differs from the other one."""
        own, others = self._named(), other._named()
        return " and ".join(f"{own[name]} instead of {others[name]}" for name in own if own[name] != others[name])

    def _named(self) -> dict[str, str]:
        return {
            "unit": POOLINGS.get(self.unit, "the model's default"),
            "prompt": f"prompt {self.prompt!r}" if self.prompt else "no prompt",
            "limit": f"at most {self.max_length:,} tokens" if self.max_length else "no length limit",
        }


class Reencoder:
    """Some texts, encoded under any setting that is asked for."""

    def __init__(self, encoder: Encoder, texts: Sequence[str], *, layer: Any, options: Mapping[str, Any]) -> None:
        self.encoder, self.texts = encoder, list(texts)
        self._layer, self._options = layer, dict(options)

    @property
    def prompts(self) -> list[str]:
        """The prompts to try: none, those that the model has, and two that are common."""
        module = None if self.encoder.pipeline is None else self.encoder.pipeline.module
        own = [str(prompt) for prompt in (getattr(module, "prompts", None) or {}).values() if prompt]
        return list(dict.fromkeys([*PROMPTS[:1], *own, *PROMPTS[1:]]))

    @property
    def most_tokens(self) -> int | None:
        """The largest length limit that the encoder allows."""
        return None if self.encoder.is_static else positions_of(self.encoder.module)

    def limits(self, low: int, high: int | None) -> list[int]:
        """Common length limits from low to high, and the largest that the encoder allows, as far as they are within its reach."""
        most = self.most_tokens
        if most is None:
            return []
        return sorted(limit for limit in {*LIMITS, most} if low <= limit <= min(most, most if high is None else high))

    def lengths(self, prompt: str) -> Indices:
        """The number of tokens of every text before any is cut, special ones included."""
        encoded = self.encoder.tokenizer(self._prompted(prompt), truncation=False, verbose=False)["input_ids"]
        return np.array([len(ids) for ids in encoded], dtype=np.intp)

    def vectors(self, setting: EncodingSetting, rows: Indices | None = None) -> Floats:
        """The vectors of some of the texts under a setting."""
        encoder = self.encoder.limited(setting.max_length)
        prompt = setting.prompt
        if setting.unit == "text":
            encoder = encoder.for_role("", prompt)
            # Static vectors in memory, such as model2vec's, have no prompts of their own.
            if encoder.pipeline is not None and encoder.pipeline.prompt == prompt:
                prompt = ""
        space = self._space(encoder, self._prompted(prompt, rows), setting.unit)
        return np.asarray(space[space.layers[-1]])

    def poolings(self, prompt: str, max_length: int | None, rows: Indices) -> dict[str, Floats]:
        """The vectors of some of the texts by every pooling, from one pass, and by the model's own encode if it has one."""
        texts = self._prompted(prompt, rows)
        space = self._space(self.encoder.limited(max_length), texts, "tokens", specials=not self.encoder.is_static)
        states, text = np.asarray(space[space.layers[-1]]), np.asarray(space.rows["text"])
        starts = np.searchsorted(text, np.arange(len(texts)))
        counts = np.diff(np.append(starts, len(text)))[:, None]
        pooled = {
            "mean": np.add.reduceat(states, starts) / np.maximum(counts, 1),
            "cls": states[starts],
            "last": states[starts + counts[:, 0] - 1],
            "max": np.maximum.reduceat(states, starts),
        }
        if self.encoder.pipeline is not None:
            pooled = {"text": self.vectors(EncodingSetting(unit="text", prompt=prompt, max_length=max_length), rows)} | pooled
        return pooled

    def _prompted(self, prompt: str, rows: Indices | None = None) -> list[str]:
        texts = self.texts if rows is None else [self.texts[row] for row in rows]
        return [prompt + text for text in texts]

    def _space(self, encoder: Encoder, texts: list[str], unit: Any, **more: Any) -> Any:
        layer = "last" if unit == "text" else self._layer
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a setting that is only tried may cut texts
            return extract_space(encoder, texts, unit=unit, layers=layer, **self._options, **more)
