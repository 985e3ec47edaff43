"""Every verb concludes, and every display shows the same conclusion and the same commands, which the command line accepts."""

from __future__ import annotations

import html
import json
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

import theodolite as th
from theodolite.cli.app import app
from theodolite.core.result import VERDICTS, Result
from theodolite.reports.drawing import html_of, text_of
from theodolite.reports.page import latex_of, markdown_of, report_html

RECORDS = Path(__file__).parents[2] / "docs" / "studies" / "records"
N, D = 160, 8


def of_survey() -> Result:
    return th.survey("x.npy")


def of_compare() -> Result:
    return th.compare("x.npy", "y.npy")


def of_verify() -> Result:
    return th.verify("x.npy", "y.npy")


def of_probe() -> Result:
    return th.probe("x.npy", labels="labels.txt")


def of_advise() -> Result:
    return th.advise("x.npy", labels="labels.txt")


def of_calibrate() -> Result:
    return th.calibrate("x.npy", pairs="y.npy", scores="scores.txt", match=0.5)


def of_gate() -> Result:
    Path("theodolite.toml").write_text('[survey]\nsource = "x.npy"\n[bounds]\nmean_cosine = { max = 0.1 }\n')
    return th.gate()


def of_migrate() -> Result:
    return th.migrate("x.npy", "y.npy", queries_old="x.npy", queries_new="y.npy", judgements="same.tsv")


def of_study() -> Result:
    folders = sorted(RECORDS.glob("rp21-*"))
    if not folders:
        pytest.skip("the records of studies are in the repository, not in the sdist")
    result = th.study("rp21").check(folders[0]).result
    assert result is not None
    return result


VERBS: dict[str, Callable[[], Result]] = {
    "survey": of_survey,
    "compare": of_compare,
    "verify": of_verify,
    "probe": of_probe,
    "advise": of_advise,
    "calibrate": of_calibrate,
    "gate": of_gate,
    "migrate": of_migrate,
    "study": of_study,
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Result]]:
    """No results yet, in a folder with files to measure."""
    rng = np.random.default_rng(3)
    labels = np.arange(N) % 2
    X = rng.standard_normal((N, D)) + 4 * labels[:, None] * np.eye(D)[0] + 6 * np.eye(D)[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("answers"))
        np.save("x.npy", X.astype(np.float32))
        np.save("y.npy", (X + rng.standard_normal((N, D)) * rng.uniform(0, 2, (N, 1))).astype(np.float32))
        Path("labels.txt").write_text("".join(f"{'ab'[label]}\n" for label in labels))
        Path("same.tsv").write_text("".join(f"{row}\t{other}\n" for row in range(N) for other in (row, (row + 2) % N)))
        np.savetxt("scores.txt", rng.uniform(0, 1, N))
        yield {}


@pytest.fixture(params=VERBS)
def result(request: pytest.FixtureRequest, results: dict[str, Result]) -> Result:
    """What a verb returns, measured once."""
    measured = results[request.param] = results.get(request.param) or VERBS[request.param]()
    return measured


def parse(words: str) -> None:
    """Parse a command as the command line would, without running it; a call in Python must be one expression."""
    if words.startswith("th."):
        compile(words, words, "eval")
        return
    for line in words.split(" && "):
        name, *rest = shlex.split(line)
        command: Any = typer.main.get_command(app)
        assert name == "theodolite"
        context = None
        while hasattr(command, "commands"):
            assert rest, f"{line!r} names no command"
            name, command, rest = rest[0], command.commands[rest[0]], rest[1:]
        command.make_context(name, rest, parent=context)


def test_an_unknown_option_does_not_parse() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse("theodolite survey x.npy --colour red")
    with pytest.raises(KeyError):
        parse("theodolite repair mend x.npy")


def test_the_answer_is_one_sentence_with_a_declared_verdict(result: Result) -> None:
    answer = result.answer
    assert answer is not None
    if result.verb in VERDICTS:
        assert answer.verdict in VERDICTS[result.verb]
    assert re.fullmatch(r"[A-Z0-9“\"'].*[.]", answer.sentence) or answer.sentence[0].islower(), answer.sentence
    assert not re.search(r"[.!?] [A-Z]", answer.sentence), f"more than one sentence: {answer.sentence}"
    assert all(reason.strip() for reason in answer.reasons)


def test_every_command_parses(result: Result) -> None:
    assert result.answer is not None
    for words in [command.words for command in result.answer.next] + [f.command for f in result.findings if f.command]:
        parse(words)


def test_every_display_opens_with_the_same_answer_without_any_note(result: Result) -> None:
    bare = replace(result, notes=())
    answer = bare.answer
    assert answer is not None
    expected = [answer.sentence, *answer.reasons, *(command.words for command in answer.next)]
    page = re.sub(r"<script.*?</script>", "", report_html([bare]), flags=re.DOTALL)
    displays = {
        "terminal": text_of(bare, width=10_000),
        "notebook": html.unescape(html_of(bare)),
        "page": html.unescape(page),
        "markdown": re.sub(r"\\(.)", r"\1", markdown_of(bare)),
        "latex": latex_of(bare),
    }
    for display, text in displays.items():
        places = [text.find(words) for words in expected]
        assert min(places) >= 0, f"{display} lacks {expected[places.index(-1)]!r}"
        assert places == sorted(places), display
    assert json.loads(json.dumps(bare.to_dict()))["answer"]["sentence"] == answer.sentence


def test_the_notes_do_not_change_the_answer_on_the_screen(result: Result) -> None:
    assert result.answer is not None
    with_notes, without = (text_of(each, width=10_000).splitlines() for each in (result, replace(result, notes=())))
    count = with_notes.index(next(line for line in with_notes if result.answer.sentence in line))
    assert with_notes[: count + 1] == without[: count + 1]
