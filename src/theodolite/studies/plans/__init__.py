"""The steps of each study, from its settings and what is asked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from theodolite.studies.plans.il23 import plan_il23
from theodolite.studies.plans.rp21 import plan_rp21
from theodolite.studies.plans.zs22 import plan_zs22
from theodolite.studies.step import Step
from theodolite.studies.wish import Wish

Planner = Callable[[Mapping[str, Any], Wish], list[Step]]

PLANS: dict[str, Planner] = {"rp21": plan_rp21, "il23": plan_il23, "zs22": plan_zs22}
"""How a protocol becomes steps; a study names its own."""
