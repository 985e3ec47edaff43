"""From the options of `tune` to the settings of a run: a preset's, or those of the plain run it starts from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from theodolite.cli.frame import split
from theodolite.cli.texts import pairs_of
from theodolite.cli.tune_seeds import source_of

if TYPE_CHECKING:
    from theodolite.tasks.task import Task
    from theodolite.tuning.settings import TuneSettings


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What was asked for, but for seed and folder. `asked` holds only what was said."""

    declared: str | Task | None
    model: str | None
    preset: str | None
    asked: dict[str, Any]
    method: dict[str, Any]
    source: str | None

    def settings(self, seed: int, folder: str, *, several: bool) -> tuple[TuneSettings, str | None]:
        """The settings of the run with a seed, and the plain run it starts from."""
        if self.source is not None:
            plain = source_of(self.source, seed, several=several)
            return self._of_plain(plain, seed, folder, named=several or "{seed}" in self.source), plain
        if self.model is None:
            raise ValueError("say what to tune: MODEL, or --from FOLDER with --method isolayer")
        if self.declared is None:
            raise ValueError("say what to tune on: --task NAME, or --own SPLIT=FILE with --kind")
        from theodolite.tasks.load import find_task
        from theodolite.tuning import preset

        fitting = preset_for(find_task(self.declared).kind) if self.method["method"] == "plain" else "il23"
        name = self.preset or fitting
        where: dict[str, Any] = {"task": self.declared, "model": model_place(self.model), "output": folder}
        return preset(name, seed=seed, **where, **self.asked, **self.method), None

    def _of_plain(self, plain: str, seed: int, folder: str, *, named: bool) -> TuneSettings:
        from theodolite.tuning.run import settings_of_run

        if self.method["method"] != "isolayer":
            raise ValueError(f"--from is for --method isolayer, not {self.method['method']!r}")
        extra = [*(["preset"] if self.preset else []), *self.asked]
        if extra:
            option = f"--{extra[0].replace('_', '-')}"
            raise ValueError(f"with --from the settings are those of {plain}; leave out {option}")
        found = settings_of_run(plain, output=folder, task=self.declared, **self.method)
        if named and found.seed != seed:
            raise ValueError(f"{plain} is a run with seed {found.seed}, not {seed}")
        if self.model is not None and model_place(self.model) != found.model:
            raise ValueError(f"{plain} is a run of {found.model}, not of {self.model}; leave MODEL out")
        return found


def layer_of(given: list[str] | None) -> Any:
    """Settings of the Isotropy Layer from KEY=VALUE, None where there are none."""
    if given is None:
        return None
    from theodolite.cli.repair import parsed
    from theodolite.tuning.layer_settings import LayerSettings

    values = {name: parsed(value) for name, value in pairs_of("--layer", given)}
    known = [field.name for field in fields(LayerSettings)]
    unknown = next((name for name in values if name not in known), None)
    if unknown is not None:
        raise ValueError(f"the Isotropy Layer has no setting {unknown!r}; it has {', '.join(known)}")
    return LayerSettings(**values)


def preset_for(kind: str) -> str:
    """The paper whose protocol fits a kind of task."""
    return {"similarity": "rp21", "classification": "il23", "pair_classification": "il23"}.get(kind, "zs22")


def model_place(model: str) -> str:
    """The folder of the demo's encoder, or the name as given."""
    if model != "demo":
        return model
    from theodolite.models.demo import demo_folder

    return str(demo_folder())


def when(track: str) -> Any:
    """The steps a tracker measures at, from the option."""
    if track in ("epoch", "never"):
        return None if track == "never" else "epoch"
    try:
        steps = tuple(int(part) for part in split(track) or [])
    except ValueError:
        raise ValueError(f"--track {track!r} must be epoch, never, a number of steps, or steps with commas") from None
    return steps[0] if len(steps) == 1 and "," not in track else steps
