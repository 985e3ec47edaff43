"""The page: one file that contains all it needs, lets nothing else run, and is written whole or not at all."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from report_samples import finding_of, pictures_of, study

import theodolite as th
from theodolite.core.result import Effect, Judged, Result, Verdict
from theodolite.core.rows import Row
from theodolite.reports.drawing import report
from theodolite.reports.page import (
    ASSETS,
    MARK,
    check_target,
    content_policy,
    json_for_page,
    packed_plotly,
    plotly_script,
    report_html,
)


class Parsed(HTMLParser):
    """What a browser would make of a page: its elements, and what each script and style contains."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.embedded: list[tuple[str, dict[str, str | None], str]] = []
        self.texts: list[str] = []
        self._raw: list[str] | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._raw = [] if tag in ("script", "style") else None

    def handle_data(self, data: str) -> None:
        (self.texts if self._raw is None else self._raw).append(data)

    def handle_endtag(self, tag: str) -> None:
        if self._raw is not None:
            self.embedded.append((*self.elements[-1], "".join(self._raw)))
        self._raw = None

    def data(self, id: str) -> str:
        (text,) = [text for _, attributes, text in self.embedded if attributes.get("id") == f"data-{id}"]
        return text


@pytest.fixture(scope="module")
def result() -> Result:
    return study(points=200)


@pytest.fixture(scope="module")
def html(result: Result) -> str:
    return report_html([result])


@pytest.fixture(scope="module")
def parsed(html: str) -> Parsed:
    return Parsed(html)


def policy_of(parsed: Parsed) -> dict[str, list[str]]:
    (policy,) = [
        a["content"] or "" for t, a in parsed.elements if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    ]
    return {parts[0]: parts[1:] for parts in (part.split() for part in policy.split(";"))}


def test_nothing_is_loaded(parsed: Parsed) -> None:
    for tag, attributes in parsed.elements:
        assert tag not in ("iframe", "object", "embed", "base", "form", "img")
        assert not {"src", "srcset", "action", "style"} & set(attributes), (tag, attributes)
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        if "href" in attributes:
            assert (attributes["href"] or "").startswith(("#", "data:,"))


def test_the_policy_lets_only_the_pages_own_scripts_and_styles_through(parsed: Parsed) -> None:
    policy = policy_of(parsed)
    assert policy["default-src"] == ["'none'"]
    allowed = policy["script-src"] + policy["style-src"]
    assert not {"'unsafe-inline'", "'unsafe-eval'", "*"} & set(allowed)
    for tag, attributes, text in parsed.embedded:
        if tag == "script" and attributes.get("type") == "application/json":
            continue
        # Plotly is compressed; what is run is what comes out of it.
        content = gzip.decompress(base64.b64decode(text)) if attributes.get("id") == "plotly" else text.encode()
        digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
        assert f"'sha256-{digest}'" in policy[f"{tag}-src"], text[:80]


def test_verdicts_come_before_figures_before_tables_before_provenance(parsed: Parsed) -> None:
    ids = [attributes["id"] for tag, attributes in parsed.elements if tag == "section" and "id" in attributes]
    order = ["top", "verdicts", "figures", "tables", "provenance"]
    assert [id for id in ids if id in order] == order


def test_every_link_of_the_contents_leads_somewhere(parsed: Parsed) -> None:
    ids = {attributes.get("id") for _, attributes in parsed.elements}
    links = [(attributes["href"] or "")[1:] for tag, attributes in parsed.elements if tag == "a"]
    assert len(links) > 10
    assert set(links) <= ids


def test_ids_are_unique(parsed: Parsed) -> None:
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_verdicts_say_outcome_why_interval_and_what_the_paper_shows(parsed: Parsed) -> None:
    text = " ".join(" ".join(parsed.texts).split())
    assert "All three repairs lower the tuned score." in text
    assert "[−0.03, −0.012]" in text
    assert "What the papers’ own tables say: ✗ 1 disagrees" in text
    assert "RP21, table 1: ✗ disagrees" in text
    assert "theodolite study run rp21 --model minilm" in text


def test_the_data_of_the_page_is_json(parsed: Parsed) -> None:
    blocks = [(a["id"], text) for tag, a, text in parsed.embedded if a.get("type") == "application/json"]
    assert {"data-look", "data-clouds", "data-table-0", "data-table-all", "data-figure-0", "data-numbers-0"} <= {
        id for id, _ in blocks
    }
    for _, text in blocks:
        json.loads(text)
        assert not set("<>&\u2028\u2029") & set(text)


def test_the_same_results_give_the_same_bytes(result: Result, html: str) -> None:
    assert report_html([result]) == html


def test_without_text_no_sentence_and_no_token_is_in_the_file(tmp_path: Path) -> None:
    strange = "xyzzyx"
    tokens = [f"{strange}{i}" for i in range(300)]
    pictures = pictures_of(300, text=f" {strange}")
    result = study(pictures=tuple(replace(picture, columns={**picture.columns, "token": tokens}) for picture in pictures))
    report([result], tmp_path / "with.html")
    report([result], tmp_path / "without.html", text=False)
    assert strange.encode() in (tmp_path / "with.html").read_bytes()
    silent = (tmp_path / "without.html").read_bytes()
    assert strange.encode() not in silent
    assert b"this file contains no sentence and no token of the data" in silent


HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror=alert(1)>",
    "{{ 7 * 7 }}{% for x in y %}",
    "<!--<script>",
    "\x00\x1b[31m\x7f\u0085",
    "\u202eright to left\u202c \u2066x",
    "\ud800 lone",
    "'\"><svg onload=alert(1)>",
    "javascript:alert(1)",
    "../../../etc/passwd",
]


@pytest.fixture(scope="module")
def hostile() -> Parsed:
    """A page of two results in which every string that could come from outside is hostile."""
    (before, after) = pictures_of(len(HOSTILE))
    columns = dict.fromkeys(("token", "text", "label", "pos"), HOSTILE)
    whole = "".join(HOSTILE)
    tables = [{"title": whole, "metrics": HOSTILE, "rows": ["model"], "note": whole, "settings": HOSTILE}]
    result = study(
        name=whole,
        title=whole,
        provenance={
            **{nasty: nasty for nasty in HOSTILE},
            "command": whole,
            "settings": dict(zip(HOSTILE, HOSTILE, strict=True)),
            "tables": tables,
        },
        notes=tuple(HOSTILE),
        findings=tuple(finding_of(topic=n, metric=n, meaning=n, action=n, healthy=n, model=n) for n in HOSTILE),
        rows=tuple(
            Row(metric=nasty, value=1.0, model=nasty, setting=nasty, task=nasty, state=nasty, label=nasty * (i % 2), layer=layer)
            for i, nasty in enumerate(HOSTILE)
            for layer in (0, 1)
        ),
        verdicts=tuple(map(_verdict, HOSTILE)),
        pictures=tuple(
            replace(picture, about={**picture.about, "model": whole, "task": whole, "state": nasty}, columns=columns)
            for picture, nasty in zip((before, after), HOSTILE, strict=False)
        ),
    )
    return Parsed(report_html([result, result]))


def _verdict(nasty: str) -> Verdict:
    judged = Judged(source=nasty, outcome="supported", why=nasty, effects=(Effect(name=nasty, value=1.0, how=nasty),))
    return Verdict(claim=nasty, title=nasty, rule=nasty, model=nasty, measured=judged, printed=(judged,))


def test_hostile_strings_make_no_element_and_no_attribute(hostile: Parsed, parsed: Parsed) -> None:
    assert {tag for tag, _ in hostile.elements} <= {tag for tag, _ in parsed.elements} | {"small", "span"}
    assert not [name for _, attributes in hostile.elements for name in attributes if name.startswith("on") or name == "src"]
    allowed = {name for _, attributes in parsed.elements for name in attributes}
    assert {name for _, attributes in hostile.elements for name in attributes} <= allowed
    test_the_policy_lets_only_the_pages_own_scripts_and_styles_through(hostile)
    test_the_data_of_the_page_is_json(hostile)


def test_hostile_strings_are_shown_as_they_are_but_for_invisible_characters(hostile: Parsed) -> None:
    text = "".join(hostile.texts)
    for nasty in ("</script><script>window.hacked = 1</script>", "<img src=x onerror=alert(1)>", "{{ 7 * 7 }}{% for x in y %}"):
        assert nasty in text
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\u202a-\u202e\u2066-\u2069]", text)
    assert "49" not in hostile.texts


def test_a_string_of_ten_megabytes_is_cut() -> None:
    huge = "x" * 10_000_000
    result = study(name=huge, title=huge, notes=(huge,), provenance={"command": huge, huge: huge}, points=5)
    start = time.perf_counter()
    text = report_html([result])
    assert len(text) < 6_500_000
    assert time.perf_counter() - start < 20


def test_several_runs_have_names_of_their_own_and_are_together() -> None:
    parsed = Parsed(report_html([study("same", points=5), study("same", points=5), study("other", models=("n",), points=5)]))
    run = json.loads(parsed.data("table-0"))["columns"][0]
    assert (run["name"], run["names"]) == ("run", ["same", "same (2)", "other"])
    assert parsed.texts.count("same (2)") >= 2
    # All three have the title of one study, and their cards are folded below one table of claims.
    title = study("same", points=5).title
    assert title in parsed.texts and "3 runs side by side" not in " ".join(parsed.texts)
    heads = [
        attributes["href"]
        for tag, attributes in parsed.elements
        if tag == "a" and attributes.get("href", "").startswith("#claim-")
    ]
    assert len(set(heads)) == len(heads) == sum(tag == "article" for tag, _ in parsed.elements)


def test_an_empty_result_still_makes_a_page() -> None:
    parsed = Parsed(report_html([Result(verb="rows")]))
    assert "provenance" in {attributes.get("id") for _, attributes in parsed.elements}
    assert len("".join(text for _, _, text in parsed.embedded)) < 200_000  # without Plotly, as nothing is plotted
    with pytest.raises(ValueError, match="at least one result"):
        report_html([])


def test_twenty_thousand_points_with_their_sentences_fit_eight_megabytes(tmp_path: Path) -> None:
    result = study(pictures=pictures_of(20_000, text=" and something longer that goes on for a while, as sentences do"))
    report([result], tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size < 8_000_000


def test_a_study_of_two_models_is_built_within_ten_seconds() -> None:
    result = study(models=("one", "two"), points=10_000)
    start = time.perf_counter()
    report_html([result])
    assert time.perf_counter() - start < 10


def test_a_place_that_cannot_be_written_to_is_refused(result: Result, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        report([result], tmp_path / "nowhere" / "r.html")
    with pytest.raises(ValueError, match=r"does not end in \.html, \.md or \.tex"):
        report([result], tmp_path / "r.txt")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(IsADirectoryError):
        check_target(tmp_path / "folder.html")


def test_only_a_report_is_replaced_unless_asked(result: Result, tmp_path: Path) -> None:
    place = tmp_path / "r.html"
    place.write_text("<p>precious</p>")
    with pytest.raises(FileExistsError, match="is not an HTML report; choose another name, or replace it with overwrite=True"):
        report([result], place)
    assert place.read_text() == "<p>precious</p>"
    assert report([result], place, overwrite=True) == place
    assert MARK in place.read_text()
    report([result], place)


def test_a_name_that_ends_in_md_gets_markdown_of_one_result(result: Result, tmp_path: Path) -> None:
    place = tmp_path / "r.md"
    report([result], place)
    assert place.read_text(encoding="utf-8").startswith("# RP21: what fine-tuning does to isotropy\n")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        report([result], place)
    with pytest.raises(ValueError, match="shows one result, not 2"):
        report([result, result], place, overwrite=True)


def test_a_page_is_whole_or_absent(result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "r.html"
    report([result], place)
    before = place.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk is full"):
        report([result], place, text=False)
    assert place.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_a_saved_result_gives_the_same_page(result: Result, html: str, tmp_path: Path) -> None:
    result.save(tmp_path / "saved")
    assert report_html([Result.load(tmp_path / "saved")]) == html


def test_escaping_is_undone_by_json() -> None:
    hostile = {"x": "</script><!-- & \u2028\u2029 {{ 7*7 }} \x00 '\""}
    text = json_for_page(hostile)
    assert json.loads(text) == hostile
    assert not set("<>&\u2028\u2029") & set(text)


def test_lone_surrogates_become_question_marks() -> None:
    assert json_for_page("\ud800") == '"?"'


def test_the_policy_allows_only_what_it_was_given() -> None:
    policy = content_policy(["alert(1)"], ["b {}"], "abc")
    assert "default-src 'none'" in policy and "'unsafe-inline'" not in policy
    assert content_policy(["alert(2)"], ["b {}"], "abc") != policy


def test_no_script_ends_its_own_element(parsed: Parsed) -> None:
    assert "</script" not in packed_plotly().lower()
    assert len([tag for tag, _ in parsed.elements if tag == "script"]) == len(
        [tag for tag, _, _ in parsed.embedded if tag == "script"]
    )


def test_plotly_is_the_published_bundle_with_its_licence() -> None:
    # The SHA-256 of plotly-cartesian.min.js in the package plotly.js-cartesian-dist-min 4.1.1 on npm.
    published = "79542150855a52c567260e3137095dbe2b744e6d702a5cabe67da246942fba7a"
    assert hashlib.sha256(plotly_script().encode()).hexdigest() == published
    assert gzip.decompress(base64.b64decode(packed_plotly())).decode() == plotly_script()
    assert (ASSETS / "plotly" / "LICENSE").read_text().startswith("MIT License")


@pytest.mark.slow
def test_a_page_is_small_whatever_verb_it_is_of() -> None:
    X = np.random.default_rng(0).standard_normal((300, 16))
    labels = [str(i % 2) for i in range(len(X))]
    results = [
        th.survey(X), th.compare(X, X + 1, bootstrap=0), th.probe(X[:60], labels=labels[:60]), th.advise(X, labels=labels),
        th.calibrate(X, canonical=np.ones((250, 16)) + X[:250]), study(points=200),
    ]  # fmt: skip
    assert {result.verb for result in results} == {"survey", "compare", "probe", "advise", "calibrate", "study"}
    for result in results:
        assert len(report_html([result]).encode()) < 1_000_000, result.verb


def test_what_all_runs_note_is_said_once() -> None:
    runs = [replace(study(points=5, models=(name,)), notes=("said by all", f"said by {name}")) for name in ("first", "second")]
    html = report_html(runs)
    assert [html.count(f"<li>said by {who}</li>") for who in ("all", "first", "second")] == [1, 1, 1]
