"""What explained variance allows an IsoScore to be, and the slips that audits find in printed tables."""

from __future__ import annotations

import numpy as np
import pytest

from theodolite.metrics.isoscore import iso_score
from theodolite.metrics.spectral import explained_variance_curve
from theodolite.studies.claims.audits import largest_iso_score
from theodolite.studies.claims.judging import audit_tables, study_notes
from theodolite.studies.spec import load_spec


@pytest.mark.parametrize("offset", [0.0, 0.7, 5.0])
@pytest.mark.parametrize("seed", range(5))
def test_no_cloud_exceeds_the_iso_score_that_its_explained_variance_allows(seed: int, offset: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 6)) * np.sort(rng.uniform(0.2, 3, 6)) + offset * rng.standard_normal(6)
    score = iso_score(X)
    assert score <= largest_iso_score(list(explained_variance_curve(X, 3)), 6, centred=False) + 1e-9
    assert score <= largest_iso_score(list(explained_variance_curve(X - X.mean(axis=0), 3)), 6, centred=True) + 1e-9


def test_the_bound_is_reached() -> None:
    d, explained = 8, [0.5, 0.65, 0.75]
    shares = np.array([0.5, 0.15, 0.10, *[0.05] * 5])
    corners = np.vstack([np.eye(d), -np.eye(d)]) * np.sqrt(d)
    assert iso_score(corners * np.sqrt(shares)) == pytest.approx(largest_iso_score(explained, d, centred=True))
    # All of the first direction but what the second has is the mean: the covariance keeps 0.15 of 0.5 there; the others
    # are between the neighbouring shares, as near as may be to effect number, which a search over them confirms.
    best = max(
        (sum(c) ** 2 / sum(x * x for x in c) - 1) / (d - 1)
        for second in np.linspace(0.10, 0.15, 201)
        for third in np.linspace(0.05, 0.10, 201)
        for c in [[0.15, second, third, *[0.05] * 5]]
    )
    bound = largest_iso_score(explained, d, centred=False)
    assert best <= bound + 1e-9 and bound == pytest.approx(best, abs=1e-4)
    with pytest.raises(ValueError, match="must rise by ever smaller steps"):
        largest_iso_score([0.2, 0.7], d, centred=True)


def test_the_slips_are_found_by_rules() -> None:
    il23 = load_spec("il23")
    audits = {audit: judged[0] for audit, judged in audit_tables(il23).items()}
    gains = audits["IL23 table 2, improvements"]
    assert gains.outcome == "disagrees"
    assert sorted(effect.value for effect in gains.effects) == [pytest.approx(0.03166, abs=1e-4), pytest.approx(2.1212, abs=1e-4)]
    assert "10 of 12" in gains.why and "+3.2%" in gains.why and "+212.1%" in gains.why
    better = audits["IL23 table 3, explained variance"]
    assert better.outcome == "disagrees" and "8 of 9" in better.why
    assert [effect.name for effect in better.effects if effect.value > 0] == ["mrpc BERT-base-cased ev_1"]
    centred, written = audits["IL23 IsoScore against EV, centred"], audits["IL23 IsoScore against EV, as written"]
    assert sum(effect.value > 0 for effect in centred.effects) == 9 and len(centred.effects) == 12
    # EV is uncentred as written: the mean may fill the first direction, and then only two are impossible.
    assert [effect.name for effect in written.effects if effect.value > 0] == [
        "mrpc RoBERTa-large fine-tuned",
        "mrpc RoBERTa-large isolayer",
    ]
    assert sum("exceed" in note for note in study_notes(il23)) == 2
