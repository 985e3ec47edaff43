"""What `theodolite.probes` exports: every name resolves, and nothing heavy is loaded before a name is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from theodolite import probes


def test_every_exported_name_is_in_one_module_and_resolves() -> None:
    listed = [name for names in probes._NAMES.values() for name in names]
    assert sorted(listed) == sorted(probes.__all__) and len(set(listed)) == len(listed)
    assert all(getattr(probes, name).__name__ == name for name in probes.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'no_such_probe'"):
        _ = probes.no_such_probe


def test_importing_the_package_loads_neither_numba_nor_scikit_learn() -> None:
    code = (
        "import sys, theodolite.probes\nprint([name for name in ('numba', 'sklearn', 'torch', 'scipy') if name in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    assert process.stdout.strip() == "[]"
