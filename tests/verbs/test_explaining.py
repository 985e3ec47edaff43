"""`survey(explain=True)`: columns of every kind of input, the sentence on the first screen, and errors that name the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import theodolite as th
from theodolite.cli.app import app
from theodolite.core.result import Result
from theodolite.spaces import Space

N = 240
random = np.random.default_rng(0)
LENGTHS = np.exp(random.normal(4, 1, N)).astype(int) + 2
X = random.standard_normal((N, 8))
X[:, 3] += 3 * (np.log(LENGTHS) - 4)
TEXTS = [f"{i:03} ".ljust(length, "x") for i, length in enumerate(LENGTHS + 4)]
LANGUAGES = random.choice(["en", "de", "fr"], N).tolist()


def written(folder: Path, kind: str) -> Path:
    """The vectors with ids, texts and languages next to them, as a table."""
    import pandas

    frame = pandas.DataFrame({f"x{i}": X[:, i] for i in range(8)})
    frame.insert(0, "id", [f"doc-{i}" for i in range(N)])
    frame["text"], frame["language"] = TEXTS, LANGUAGES
    path = folder / f"table.{kind}"
    {"csv": lambda: frame.to_csv(path, index=False), "parquet": lambda: frame.to_parquet(path)}[kind]()
    return path


def first_link(result: Result) -> dict[str, Any]:
    links: list[dict[str, Any]] = result.records["explained"].to_pylist()
    return next(link for link in links if link["target"] == "direction 1")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_brings_its_columns_along(tmp_path: Path, kind: str) -> None:
    result = th.survey(written(tmp_path, kind), explain=True)
    assert {link["column"] for link in result.records["explained"].to_pylist()} == {"text length", "language"}
    link = first_link(result)
    assert link["column"] == "text length" and link["is_clear"] and link["value"] > 0.9
    row = next(row for row in result.rows if row.state == "explained" and row.label == "direction 1")
    assert (row.metric, row.setting, row.value, row.low) == ("rank_correlation", "text length", link["value"], link["low"])
    assert result.answer is not None
    sentences = result.answer.reasons[-2:]
    assert sentences[0].startswith(
        f"Direction 1 ({link['share']:.0%} of the variance) follows text length: r = {link['value']:.2f} [{link['low']:.2f}, "
    )
    assert sentences[1].startswith("None of the 2 columns explains direction 2 (")
    text = repr(result)
    assert "rows are treated as independent" in text
    again = Result.load(result.save(tmp_path / "saved"))
    assert repr(again) == text
    # Without it, the same numbers and nothing else.
    plain = th.survey(written(tmp_path, kind))
    assert [row for row in result.rows if row.state != "explained"] == list(plain.rows) and "explained" not in plain.records


def test_a_frame_and_a_space_bring_theirs() -> None:
    import pandas

    frame = pandas.DataFrame({"vector": list(X), "length": LENGTHS, "language": LANGUAGES})
    assert first_link(th.survey(frame, explain=True))["column"] == "length"
    space = Space.of({0: random.standard_normal(X.shape), 6: X}, rows={"sentence": TEXTS, "label": LANGUAGES})
    result = th.survey(space, explain=True)
    assert first_link(result)["column"] == "text length"
    assert {row.layer for row in result.rows if row.state == "explained"} == {6}


def test_tokens_of_one_text_are_kept_together() -> None:
    text = np.repeat(np.arange(48), 5)
    rows = {"text": text.tolist(), "token": ["t"] * N, "position": np.tile(np.arange(5), 48).tolist(), "length": LENGTHS.tolist()}
    from theodolite.spaces.space import Origin

    result = th.survey(Space.of({0: X}, rows=rows, origin=Origin(pooling="tokens")), explain=True, findings=False)
    assert first_link(result)["by_text"] and "rows of one text are kept together" in repr(result)
    assert any("column token was skipped: all rows have the same value" in note for note in result.notes)


def test_an_encoder_counts_its_tokens(tiny: Any) -> None:
    texts = ["the cat sat on the mat " * count + "a" * (count % 3) for count in random.integers(1, 6, 60)]
    result = th.survey(str(tiny("bert")), texts=texts, unit="mean", explain=True, layers="last")
    columns = {link["column"] for link in result.records["explained"].to_pylist()}
    assert "number of tokens" in columns and "id" not in columns


def test_errors_name_the_way_out(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(ValueError, match=r"explain=True needs columns that describe the rows, but x.npy has none"):
        th.survey(tmp_path / "x.npy", explain=True)
    with pytest.raises(ValueError, match=r"explain=True needs the vectors, which store=False does not keep; leave one out"):
        th.survey("demo", texts=["a", "b"], explain=True, store=False)
    outcome = CliRunner().invoke(app, ["survey", str(tmp_path / "x.npy"), "--explain"])
    assert outcome.exit_code == 2 and "--explain needs columns" in outcome.output and "Traceback" not in outcome.output


def test_a_column_that_cannot_be_compared_is_a_note() -> None:
    import pandas

    result = th.survey(pandas.DataFrame({"vector": list(X), "constant": [1] * N}), explain=True)
    assert "nothing was explained: no column can be compared with the rows" in result.notes
    assert "column constant was skipped: all rows have the same value" in result.notes


def test_the_command_line_and_the_page_show_it(tmp_path: Path) -> None:
    path, page = written(tmp_path, "parquet"), tmp_path / "page.html"
    outcome = CliRunner().invoke(app, ["survey", str(path), "--explain", "--report", str(page)])
    assert outcome.exit_code == 0 and "follows text length: r = 0.9" in " ".join(outcome.output.split())
    assert "follows text length" in page.read_text(encoding="utf-8")
