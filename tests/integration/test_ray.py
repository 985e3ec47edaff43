"""Ray as a backend of joblib, as the page on engines shows it: no code of this package, and the same numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ray", reason="needs Ray: pip install ray")

pytestmark = pytest.mark.slow

# In a process of its own: Ray starts many others, and warns of what this one would take for an error.
PROGRAM = """
import joblib, ray, theodolite as th
from ray.util.joblib import register_ray
from theodolite.core import engines

engines.PIECE_BYTES = engines.RESULTS_PER_PIECE = 1
options = {"cache": False, "metrics": ["iso_score", "log_partition_isotropy", "mean_cosine"]}
here = [row.value for row in th.survey("shards/*.npy", **options)]
ray.init(num_cpus=2, include_dashboard=False)
register_ray()
with joblib.parallel_config(backend="ray", n_jobs=-1):
    there = [row.value for row in th.survey("shards/*.npy", **options)]
assert here == there, (here, there)
"""


def test_a_survey_on_ray_gives_the_same_bits(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    for number in range(6):
        rows = np.random.default_rng(number).standard_normal((300, 8)).astype(np.float32)
        np.save(tmp_path / "shards" / f"shard-{number}.npy", rows)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
