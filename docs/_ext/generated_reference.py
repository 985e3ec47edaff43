"""What the site's reference says of commands, metrics and repairs, written at build from the parser and the registries.

A page has a comment such as `<!-- generated: commands -->` at the place where the text goes.
"""

from __future__ import annotations

import inspect
import math
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
COMMAND_PAGES = DOCS / "reference" / "commands"
MARKER = re.compile(r"<!-- generated: ([a-z-]+) -->")
# How a metric's `needs` reads for somebody who wants to know what it costs.
COST = {
    "sums": "one pass over the rows",
    "moments": "one pass over the rows",
    "second pass": "two or three passes over the rows",
    "sample": "compares rows with rows, on a seeded sample of 10,000 unless you ask for more",
    "pairs": "one pass over two inputs of the same length",
    "reference": "one pass over the rows, and a reference covariance",
}


def prose(documented: Any) -> str:
    """What a docstring says before its sections."""
    return re.split(r"\n\n[A-Z]\w+\n-{3,}\n", inspect.getdoc(documented) or "")[0].strip()


def notes(kind: str) -> dict[str, str]:
    """When each metric misleads, or each repair harms."""
    content = tomllib.loads((DOCS / "reference" / "misleads.toml").read_text(encoding="utf-8"))
    return content[kind]  # type: ignore[no-any-return]


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """A Markdown table; nothing if it has no rows."""
    lines = [head, ("---",) * len(head), *rows]
    escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return [f"| {' | '.join(line)} |" for line in escaped] + [""] if rows else []


def command_pages() -> dict[str, list[str]]:
    """One page for each verb, by its name: its commands with what they do, examples, arguments, and options by section."""
    import typer.main

    from theodolite.cli.app import app

    top: Any = typer.main.get_command(app)
    pages = {}
    for verb, command in top.commands.items():
        children = list(_walk(command, f"theodolite {verb}")) or [(f"theodolite {verb}", command)]
        lines = [f"# {verb}", ""]
        for name, child in children:
            lines += ([f"## {name}", ""] if len(children) > 1 else []) + _command(child)
        pages[verb] = lines
    return pages


def commands() -> list[str]:
    """A table of the verbs and what each does, and the contents of their pages."""
    import typer.main

    from theodolite.cli.app import app

    top: Any = typer.main.get_command(app)
    rows = [
        (f"[`theodolite {verb}`](commands/{verb}.md)", inspect.cleandoc(command.help or "").partition("\n")[0])
        for verb, command in top.commands.items()
    ]
    contents = ["```{toctree}", ":hidden:", "", *(f"commands/{verb}" for verb in top.commands), "```"]
    return [*table(("command", "what it does"), rows), *contents]


def _command(command: Any) -> list[str]:
    from theodolite.cli.options import OWN_SECTION, SECTIONS, section_of

    text, _, examples = inspect.cleandoc(command.help or "").replace("\b", "").partition("Example")
    lines = [text.strip(), ""]
    if examples:
        lines += ["```text", inspect.cleandoc(examples.partition(":\n")[2]), "```", ""]
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    lines += table(("argument", "what it is"), [(f"`{_metavar(each)}`", getattr(each, "help", "") or "") for each in arguments])
    for section in (OWN_SECTION, *SECTIONS):
        rows = [
            (_spelling(each), each.help or "", _type(each), _default(each))
            for each in options
            if section_of(str(each.name)) == section
        ]
        lines += [f"**{section}**", ""] * bool(rows) + table(("option", "what it does", "type", "default"), rows)
    return lines


def _type(option: Any) -> str:
    names = {bool: "switch", int: "whole number", float: "number"}
    name = names.get(option.type_descriptor.annotation, "text")
    return name + (f" ≥ {option.min:g}" if option.min is not None else "") + (", repeatable" if option.multiple else "")


def _walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, child in getattr(command, "commands", {}).items():
        if hasattr(child, "commands"):
            yield from _walk(child, f"{path} {name}")
        else:
            yield f"{path} {name}", child


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _spelling(option: Any) -> str:
    on = ", ".join(option.opts)
    off = f" / {', '.join(option.secondary_opts)}" if option.secondary_opts else ""
    value = "" if option.is_flag else f" {option.metavar or _type(option).upper()}"
    return f"`{on}{off}{value}`"


def _default(option: Any) -> str:
    if option.is_flag:
        return ("on" if option.default else "off") if option.secondary_opts and option.default is not None else ""
    return "" if option.default in (None, (), []) or callable(option.default) else f"`{option.default}`"


def metrics() -> list[str]:
    """Every metric of the registry: definition, range, direction, cost, source and when it misleads."""
    from latex2mathml.converter import convert

    from theodolite.advice.diagnosis import RULES
    from theodolite.metrics import METRICS

    misleads, formulas, lines = notes("metrics"), notes("formulas"), []
    rules = {rule.metric: rule for rule in RULES}
    for name, metric in METRICS.items():
        about = [
            ("range", metric.range),
            ("direction", metric.direction + (f"; an isotropic cloud has {metric.isotropic_at}" if metric.isotropic_at else "")),
            ("cost", COST[metric.needs]),
            ("source", metric.paper or "—"),
            ("survey measures it by default", "yes" if metric.default else "no"),
        ]
        lines += [f"## {name}", "", prose(metric.function), ""]
        if name in formulas:
            lines += [f'<div class="formula">{convert(formulas[name], display="block")}</div>', ""]
        if name in rules:
            rule = rules[name]
            share = " as a share of the dimensions that the rows can fill" if rule.judged else ""
            lines += [range_picture(rule), "", f"**Healthy: {rule.healthy}**{share}. For scale: {rule.source}.", ""]
        lines += [*(f"- **{key}**: {value}" for key, value in about), ""]
        if name in misleads:
            lines += [f"**When it misleads.** {misleads[name]}", ""]
    return lines


def range_picture(rule: Any) -> str:
    """A strip with the bounds of a metric between OK, watch and bad, the bad side on the right or left as its values have it."""
    has_bad = math.isfinite(rule.bad)
    words = [("OK", "#2f9e6e"), ("watch", "#d99a1c"), *([("bad", "#cf4a3c")] if has_bad else [])]
    bounds = [f"{rule.watch:g}", *([f"{rule.bad:g}"] if has_bad else [])]
    if rule.bad < rule.watch:
        words, bounds = words[::-1], bounds[::-1]
    width, parts = 110, []
    for number, (word, colour) in enumerate(words):
        x = number * width
        parts.append(f'<rect x="{x}" y="4" width="{width - 2}" height="14" rx="3" fill="{colour}" fill-opacity="0.75"/>')
        parts.append(f'<text x="{x + width / 2}" y="15" text-anchor="middle" font-size="11" fill="#fff">{word}</text>')
    parts += [
        f'<text x="{(number + 1) * width - 1}" y="32" text-anchor="middle" font-size="11" fill="currentColor">{bound}</text>'
        for number, bound in enumerate(bounds)
    ]
    label = f"{rule.metric}: {', '.join(word for word, _ in words)}, separated by {' and '.join(bounds)}"
    size = f'width="{len(words) * width}" height="38"'
    return f'<svg {size} role="img" aria-label="{label}">{"".join(parts)}</svg>'


def repairs() -> list[str]:
    """Every repair of the registry: what it does, its formula, its parameters, who can carry it and when it harms."""
    from theodolite.repairs import REPAIRS

    harms, lines = notes("repairs"), []
    for name, kind in REPAIRS.items():
        call = ", ".join(f"{key}={value!r}" for key, value in kind().get_params().items())
        lines += [f"## {name}", "", f"`theodolite.repairs.{kind.__name__}({call})`", "", prose(kind), ""]
        carried = "no; use `repair apply`"
        if kind.is_affine:
            carried = "yes; `repair export` can write it into a model or an index"
        lines += [f"- **affine (one matrix and one bias)**: {carried}", "", f"**When it harms.** {harms[name]}", ""]
    return lines


def other_pages() -> list[str]:
    """Pages at the top of the folder that the contents do not name, so that a new page needs no entry."""
    entries = [line.strip() for line in (DOCS / "index.md").read_text(encoding="utf-8").splitlines()]
    names = sorted(path.stem for path in DOCS.glob("*.md") if path.stem != "index")
    return [name for name in names if not any(fnmatch(name, entry) for entry in entries)]


GENERATED: dict[str, Callable[[], list[str]]] = {
    "commands": commands,
    "metrics": metrics,
    "repairs": repairs,
    "other-pages": other_pages,
}


def fill(app: Any, name: str, source: list[str]) -> None:
    """Put the generated text in the place of its comment."""
    source[0] = MARKER.sub(lambda match: "\n".join(GENERATED[match[1]]()), source[0])


def write_command_pages(app: Any) -> None:
    """Write the pages of the verbs, so that a new one needs no file of its own."""
    COMMAND_PAGES.mkdir(exist_ok=True)
    for verb, lines in command_pages().items():
        (COMMAND_PAGES / f"{verb}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def remove_command_pages(app: Any, exception: Exception | None) -> None:
    """Leave nothing generated among the pages that people write."""
    shutil.rmtree(COMMAND_PAGES, ignore_errors=True)


def escape(app: Any, what: str, name: str, documented: Any, options: Any, lines: list[str]) -> None:
    """Keep reStructuredText from reading `kernel_` as a link and |x| as a substitution, where a docstring means just that."""
    is_example = False
    for number, line in enumerate(lines):
        is_example = line.lstrip().startswith(">>>") or (is_example and bool(line.strip()))
        if not is_example:
            parts = line.split("`")
            parts[::2] = [re.sub(r"(?<=\w)(_)(?!\w)|(\|)", r"\\\g<0>", part) for part in parts[::2]]
            lines[number] = "`".join(parts)


def is_left_out(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn adds to every estimator for its metadata routing."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write_command_pages)
    app.connect("build-finished", remove_command_pages)
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", escape)
    app.connect("autodoc-skip-member", is_left_out)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
