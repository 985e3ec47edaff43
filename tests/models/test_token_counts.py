"""A tokenizer that does not fit is noticed: unknown tokens, cut texts and confused texts are counted, shown and judged."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")
pytest.importorskip("transformers", reason="the extra `models` is not installed")

import numpy as np

from theodolite.models.encoder import Encoder
from theodolite.models.extraction import extract_space
from theodolite.models.location import EncoderError
from theodolite.models.tokens import TokenizerWarning, counts_line
from theodolite.spaces.space import Space
from theodolite.verbs.comparing import compare
from theodolite.verbs.extracting import extract
from theodolite.verbs.probing import probe
from theodolite.verbs.surveying import survey

Tiny = Callable[[str], Path]

DOCS = Path(__file__).parents[2] / "docs" / "encoders.md"
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ALPHABET = ("C", "c", "N", "n", "O", "o", "Cl", "Br", "(", ")", "=", "1", "2", ">>", ".")
REACTIONS = ["CCO.CC(=O)Cl>>CC(=O)OCC", "c1ccccc1Br.N>>Nc1ccccc1", "C1CCCCC1Br.N>>NC1CCCCC1", "CC(=O)O", "cnc", "CNC"]


@pytest.fixture
def raw_folder(tmp_path: Path) -> Path:
    """A BERT for chemical reactions as people keep it: configuration, weights and `vocab.txt`, but no tokenizer."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    folder = tmp_path / "reactions"
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=len(SPECIALS) + len(ALPHABET), **sizes)).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join((*SPECIALS, *ALPHABET)) + "\n")
    return folder


def test_a_raw_folder_is_refused_or_warned_of(raw_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"of \d+ tokens \(\d\d\.\d%\) are unknown .* accept it with allow_unknown=True"):
        extract(raw_folder, REACTIONS, to=tmp_path / "space", progress=False)
    assert not (tmp_path / "space").exists()
    with pytest.warns(TokenizerWarning) as caught:
        space = extract(raw_folder, REACTIONS, allow_unknown=True, progress=False)
    assert any("are unknown to the tokenizer" in str(each.message) for each in caught)
    assert any("have the same tokens as another" in str(each.message) for each in caught)
    # The tokenizer reads lower case: what it knows of one molecule it knows of the other.
    tokenizer = Encoder.load(raw_folder, device="cpu").tokenizer
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in REACTIONS]
    unknown = sum(row.count(tokenizer.unk_token_id) for row in ids)
    assert (space.origin.counts["tokens"], space.origin.counts["unknown"]) == (sum(map(len, ids)), unknown)
    assert space.origin.counts["confused"] == len(REACTIONS) - len({tuple(row) for row in ids}) > 0


def test_the_code_in_the_documentation_mends_it(raw_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = next(block for block in re.findall(r"```python\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL) if "vocab.txt" in block)
    assert len([line for line in code.splitlines() if line and not line.startswith(("import", "from"))]) <= 10
    monkeypatch.chdir(raw_folder.parent)
    exec(compile(code, "docs", "exec"), {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        space = extract(raw_folder, REACTIONS, unit="tokens", progress=False)
    assert (space.origin.counts["unknown"], space.origin.counts["confused"]) == (0, 0)
    first = [token for token, text in zip(space.rows["token"], space.rows["text"], strict=True) if text == 0]
    assert "".join(first) == REACTIONS[0] and "Cl" in first


def test_every_verb_that_encodes_shows_the_counts(tiny: Tiny, tmp_path: Path) -> None:
    texts = ["the cat sat", "the dog", "the Dog", "a river bank " * 30]
    line = "4 texts cut; 1 of 4 different texts tokenize the same as another"
    with pytest.warns(TokenizerWarning, match="1 of 4 texts are longer than max_length=64 and were cut"):
        space = extract(tiny("bert"), texts, to=tmp_path / "space", progress=False)
    assert line in counts_line(space.origin.counts) == counts_line(Space.open(tmp_path / "space").origin.counts)
    for stored in (True, False):
        assert any(line in note for note in survey(tiny("bert"), texts=texts, store=stored, progress=False).notes)
    assert any(line in note for note in survey(str(tmp_path / "space"), progress=False).notes)
    assert sum(line in note for note in compare(tiny("bert"), tiny("bert"), texts=texts, progress=False).notes) == 2
    table = tmp_path / "own.csv"
    table.write_text("text,label\n" + "".join(f"the cat {letter},x\na dog {letter},y\n" for letter in "abcdefgh"))
    probed = probe(tiny("bert"), own={"train": table}, kind="classification", hold_out=0, progress=False)
    assert any(note.endswith("16 texts cut") for note in probed.notes)


def test_texts_as_long_as_allowed_are_not_cut(tiny: Tiny) -> None:
    encoder = Encoder.load(tiny("bert"), device="cpu", max_length=5)
    counts = extract_space(encoder, ["a dog a", "a dog", "a dog a dog"]).origin.counts
    assert (counts["cut"], counts["texts"], counts["max_length"]) == (1, 3, 5)


def test_a_slow_tokenizer_is_counted_too(tiny: Tiny) -> None:
    class Slow:
        """The fast tokenizer without what only fast ones have."""

        def __init__(self, inner: object) -> None:
            self.inner = inner
            self.is_fast = False

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

        def __call__(self, *args: object, **options: object) -> object:
            encoded = self.inner(*args, **options)  # type: ignore[operator]
            encoded._encodings = None
            return encoded

    fast = Encoder.load(tiny("bert"), device="cpu", max_length=5)
    slow = Encoder.load(fast.module, tokenizer=Slow(fast.tokenizer), max_length=5)
    texts = ["a dog a", "a dog", "a dog a dog"]
    assert extract_space(slow, texts).origin.counts == extract_space(fast, texts).origin.counts


def test_weights_that_are_not_numbers_are_an_error_that_names_the_layer(tiny: Tiny, tmp_path: Path) -> None:
    encoder = Encoder.load(tiny("bert"), device="cpu")
    encoder.module.encoder.layer[1].output.dense.weight.data[0, 0] = np.nan
    with pytest.raises(EncoderError, match=r"layer 2 of tiny-bert gives values that are not finite"):
        extract_space(encoder, ["the cat"], to=tmp_path / "space")
    assert not (tmp_path / "space" / "space.json").exists()
    assert np.isfinite(extract_space(encoder, ["the cat"], layers=[0, 1])[1]).all()


def test_code_of_a_folder_never_runs(tiny: Tiny, tmp_path: Path) -> None:
    mark, folder = tmp_path / "mark", tmp_path / "code"
    shutil.copytree(tiny("bert"), folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(f"open({str(mark)!r}, 'w')\n")
    with pytest.raises(EncoderError, match="runs code of its own"):
        Encoder.load(folder)
    assert not mark.exists()


def test_pickled_code_in_weights_never_runs(tiny: Tiny, tmp_path: Path) -> None:
    import pickle

    mark, folder = tmp_path / "mark", tmp_path / "pickled"
    shutil.copytree(tiny("bert"), folder)
    (folder / "model.safetensors").unlink()

    class Hostile:
        def __reduce__(self) -> tuple[object, tuple[str, str]]:
            return open, (str(mark), "w")

    import torch

    torch.save({"weight": Hostile()}, folder / "pytorch_model.bin", pickle_module=pickle)
    with pytest.raises(EncoderError, match="is not the folder of an encoder"):
        Encoder.load(folder)
    assert not mark.exists()


@pytest.mark.slow
def test_the_command_line_warns_in_one_line(tiny: Tiny, tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    (tmp_path / "texts.txt").write_text("the cat sat\n" + "a river bank " * 30 + "\n")
    command = [sys.executable, "-m", "theodolite", "extract", str(tiny("bert")), "--texts", "texts.txt", "--to", "space"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=True, timeout=600)
    assert done.stderr == "theodolite: warning: 1 of 2 texts are longer than --max-length 64 and were cut\n"
    assert "1 of 2 texts cut" in done.stdout
