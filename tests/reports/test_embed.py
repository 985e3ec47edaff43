"""What is embedded in a page: JSON that cannot end its element, and a policy that allows nothing else."""

from __future__ import annotations

import json

from theodolite.reports.embed import content_policy, json_for_page, page_script, plotly_script


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


def test_no_script_ends_its_own_element() -> None:
    assert "</script" not in page_script().lower() and "</script" not in plotly_script().lower()
