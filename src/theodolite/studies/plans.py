"""The plan of a study: the function `steps` of its `plan.py`, which turns what a run asks for into steps."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from theodolite.core.spelling import option
from theodolite.spaces.readers.data_files import DataError
from theodolite.studies.requests import Request
from theodolite.studies.spec import StudySpec, study_names
from theodolite.studies.steps import Step

# Returns the steps in any order: what a step needs is found through it.
Plan: TypeAlias = Callable[[Request], list[Step]]


def load_plan(spec: StudySpec, *, trust: bool = False) -> Plan:
    """The plan that a study names: one of the package, or a Python file next to the study's own, which runs only if trusted."""
    if spec.plan in study_names():
        # Only now: what plans measure with imports scikit-learn, for which reading a study must not wait.
        module = importlib.import_module(f"theodolite.studies.{spec.plan.replace('-', '_')}.plan")
    else:
        path = Path(spec.path).parent / spec.plan
        if not path.is_file():
            raise DataError(f"there is no file {path}, which the study names as its plan; correct the key `plan`", file=spec.path)
        if not trust:
            raise ValueError(f"the plan {path} is Python code; read it, then allow it to run with {option('trust_plan')}")
        module = _import_file(path)
    plan = getattr(module, "steps", None)
    if not callable(plan):
        raise DataError("the plan has no function steps(request); write one that returns the steps of a run", file=spec.plan)
    return plan  # type: ignore[no-any-return]


def _import_file(path: Path) -> ModuleType:
    try:
        import cloudpickle  # type: ignore[import-untyped]
    except ImportError:  # older releases of joblib bring their own copy
        from joblib.externals import cloudpickle

    name = f"theodolite_plan_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)  # a worker cannot import it by its name
    return module
