"""Which revision of a model a run takes."""

import shutil

import pytest

pytest.importorskip("accelerate", reason="the extra models is not installed")

from theodolite.studies import study
from theodolite.studies.requests import identify_models
from theodolite.studies.spec import load_spec

PINNED = "86b5e0934494bd15c9632b12f734a8a67f723594"
OTHER = "0123456789abcdef0123456789abcdef01234567"


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
    with pytest.raises(ValueError, match="has no revision after the @"):
        identify_models("bert-base-uncased@")


@pytest.mark.slow
@pytest.mark.usefixtures("hub")
def test_rows_carry_the_revision_that_was_loaded(releases, tmp_path):
    settings = {"tuning.epochs": 1, "tuning.track": None, "methods": ["plain"], "choose.learning_rate": [1e-4]}
    options = {"data": releases, "tasks": ["cola"], "seeds": [0], "settings": settings, "to": tmp_path / "run"}
    for revision in (PINNED, OTHER):
        result = study("il23").run(f"bert-base-uncased@{revision}", progress=False, **options)
        assert {row.revision for row in result} == {revision}, "rows of an earlier run with another revision are left out"


def test_pinned_revisions_are_commits_of_ids_that_the_study_has():
    for name in ("rp21", "il23", "zs22"):
        models = load_spec(name).models
        assert any(model.revisions for model in models)
        for model in models:
            assert set(model.revisions) <= set(model.hub)
            assert all(len(commit) == 40 and int(commit, 16) for commit in model.revisions.values())
