"""Compiling is announced where it will happen, and only there."""

import importlib.util

import numpy as np
import pytest

from theodolite.probes.compiled import compiled, must_compile
from theodolite.probes.direct import DirectProbe
from theodolite.probes.fitting import COMPILING


def plain(x):
    return x + 1


def test_a_plain_function_needs_no_compiling():
    assert not must_compile(plain)


def test_a_kernel_is_new_until_it_was_called_once_on_this_machine(tmp_path):
    pytest.importorskip("numba", reason="the extra fast is not installed")
    (tmp_path / "kernels.py").write_text("def twice(x):\n    return 2 * x\n")
    spec = importlib.util.spec_from_file_location("kernels", tmp_path / "kernels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel = compiled(module.twice)
    assert must_compile(kernel)
    assert must_compile(plain, kernel)
    assert kernel(4) == 8
    assert not must_compile(kernel)
    assert not must_compile(compiled(module.twice))  # another process finds it on disk


@pytest.mark.parametrize("new", [True, False])
def test_a_first_run_says_that_it_compiles(monkeypatch, new):
    monkeypatch.setattr("theodolite.probes.fitting.must_compile", lambda *_: new)
    rng = np.random.default_rng(0)
    stages = []
    DirectProbe(progress=lambda stage, done, total: stages.append(stage)).fit(rng.standard_normal((30, 2)), np.arange(30) % 2)
    assert (COMPILING in stages) == new
