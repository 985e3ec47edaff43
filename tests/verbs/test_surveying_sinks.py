"""A decoder whose first position takes most of the norm: the survey of its tokens names the position and the dimension."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")

from architectures import build_architecture

import theodolite as th


def test_a_decoder_with_a_sink_is_told_so(tmp_path: Path) -> None:
    import torch
    from transformers import GPT2Model

    folder = build_architecture("GPT-2", tmp_path / "sink")
    model = GPT2Model.from_pretrained(folder)
    with torch.no_grad():
        model.wpe.weight[0, 3] += 500.0  # layer 0 keeps it as it is
    model.save_pretrained(folder)
    texts = ["the cat sat on the mat", "a dog by the river bank", "the bank of a river"] * 4
    plain = th.survey(build_architecture("GPT-2", tmp_path / "plain"), texts=texts, unit="tokens", layers=0)
    found = th.survey(folder, texts=texts, unit="tokens", layers=0)
    topics = {finding.topic: finding for finding in found.findings}
    sink, massive = topics["attention sink"], topics["massive activation"]
    assert sink.verdict == "bad" and "position 0" in sink.meaning
    assert massive.verdict == "bad" and "dimension 3" in massive.meaning
    assert not {finding.topic for finding in plain.findings if finding.severity} & {"attention sink", "massive activation"}
