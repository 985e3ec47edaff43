"""How long missing steps take: as finished ones did, measured otherwise; and which revision of a model a run takes."""

import json
import shutil

import pytest

pytest.importorskip("accelerate", reason="the extra models is not installed")

from theodolite.studies import study
from theodolite.studies.planning import identify_models
from theodolite.studies.spec import load_spec

PINNED = "86b5e0934494bd15c9632b12f734a8a67f723594"
OTHER = "0123456789abcdef0123456789abcdef01234567"
OPTIONS = {"settings": {"tuning.epochs": 1, "tuning.track": None}, "tasks": ["cola"], "seeds": [0, 1]}


@pytest.fixture
def hub(study_bert, tmp_path, monkeypatch):
    """A Hub that cannot be reached, whose cache has two revisions of bert-base-uncased."""
    from huggingface_hub import constants

    home = tmp_path / "hub" / "models--bert-base-uncased"
    for commit in (PINNED, OTHER):
        shutil.copytree(study_bert, home / "snapshots" / commit)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(OTHER)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.mark.usefixtures("hub")
def test_the_studys_revision_unless_another_is_named():
    (pinned,) = identify_models("bert-base-uncased", load_spec("rp21"))
    (named,) = identify_models(f"bert-base-uncased@{OTHER}", load_spec("rp21"))
    (newest,) = identify_models("bert-base-uncased", load_spec("il23"))  # which has another BERT
    assert [model.revision for model in (pinned, named, newest)] == [PINNED, OTHER, OTHER]
    assert pinned.name == named.name == "bert-base-uncased" and pinned.identity != named.identity
    with pytest.raises(ValueError, match=r"two models are called 'bert-base-uncased'.*give one revision of it"):
        identify_models(["bert-base-uncased", f"bert-base-uncased@{OTHER}"], load_spec("rp21"))
    with pytest.raises(ValueError, match="names no revision after the @"):
        identify_models("bert-base-uncased@")


@pytest.mark.usefixtures("hub")
def test_rows_carry_the_revision_that_was_loaded(releases, tmp_path):
    options = {**OPTIONS, "seeds": [0], "settings": {**OPTIONS["settings"], "methods": ["plain"]}, "data": releases}
    for revision in (PINNED, OTHER):
        result = study("il23").run(f"bert-base-uncased@{revision}", to=tmp_path / "run", progress=False, **options)
        assert {row.revision for row in result} == {revision}, "rows of an earlier run with another revision are left out"


def test_pinned_revisions_are_commits_of_ids_that_the_study_has():
    for name in ("rp21", "il23", "zs22"):
        models = load_spec(name).models
        assert any(model.revisions for model in models)
        for model in models:
            assert set(model.revisions) <= set(model.hub)
            assert all(len(commit) == 40 and int(commit, 16) for commit in model.revisions.values())


def test_what_is_left_is_measured_at_first_and_then_as_finished_steps_took(study_bert, releases, tmp_path):
    options = {**OPTIONS, "settings": {**OPTIONS["settings"], "methods": ["plain"]}, "data": releases, "to": tmp_path / "run"}
    plan = study("il23").plan(study_bert, **options, estimate=True)
    assert not (tmp_path / "run").exists()
    choose, tune = plan.estimates
    assert (choose.kind, choose.count, choose.unknown) == ("choose", 1, 0) and choose.seconds > tune.seconds > 0  # 4 candidates
    assert (tune.kind, tune.count, tune.unknown) == ("tune-chosen", 2, 0)
    assert repr(plan).splitlines()[-1].startswith("about ")
    assert "2 tune" in repr(plan) and "measured on a few batches" in repr(plan) and "nothing would be downloaded" in repr(plan)
    study("il23").run(study_bert, **{**options, "seeds": [0]}, progress=False)
    (about,) = (tmp_path / "run" / "steps").glob("tune-chosen-*/step.json")
    about.write_text(json.dumps({**json.loads(about.read_text()), "seconds": 7200.0}))
    (later,) = study("il23").plan(study_bert, **options, estimate=True).estimates
    assert (later.count, later.seconds, later.source) == (1, 7200.0, "as finished steps took")
    assert study("il23").plan(study_bert, **{**options, "seeds": [0]}, estimate=True).estimates == ()
    # Another method is other work, of which the finished one says nothing.
    both = {**options, "seeds": [0], "settings": {**options["settings"], "methods": ["plain", "isobn"]}}
    (other,) = study("il23").plan(study_bert, **both, estimate=True).estimates
    assert (other.count, other.source) == (1, "measured on a few batches") and other.seconds < 7200
