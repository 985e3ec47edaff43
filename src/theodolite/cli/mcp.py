"""`theodolite mcp`: the measuring verbs as read-only tools for an assistant, on files below one folder."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from theodolite.core.result import Result

INSTRUCTIONS = (
    "Theodolite measures embedding vectors. Paths are relative to one folder; tools write nothing. An answer has a verdict, one "
    "sentence with its number, reasons, and the command that a person would run next. Quote the sentence rather than "
    "reading single numbers yourself, and call `explain_metric` before you interpret one."
)
SIGNAL = ("pairs", "scores", "labels", "queries", "judgements", "retrieval")
# The metric's own texts are enough to know which way it points; the pages say when it misleads.
METRIC_FIELDS = ("name", "label", "summary", "range", "direction", "paper")
FINDING_FIELDS = ("topic", "verdict", "metric", "value", "healthy", "cause", "meaning", "action", "rows")


@dataclass(frozen=True)
class Tool:
    """A verb as a tool: which of its arguments are paths, required and optional ones, and which are plain values."""

    verb: str
    description: str
    inputs: tuple[str, ...] = ("path",)
    files: tuple[str, ...] = ("texts",)
    values: Mapping[str, Any] = field(default_factory=dict)


TOOLS = (
    Tool("survey", "Find out what is unusual about vectors, and what that costs. With an encoder's folder, also give texts."),
    Tool("compare", "Show how two sets of vectors relate: equal, rotated, from another model, or drifted.", ("before", "after")),
    Tool(
        "advise",
        "Test whether a repair (centring, whitening, fewer dimensions) helps on scored pairs, labels, or judged queries.",
        files=(*SIGNAL, "texts"),
        values={"metric": str | None},
    ),
    Tool(
        "calibrate",
        "Find a similarity cutoff with its interval. match: pairs with at least this score are matches.",
        files=(*(name for name in SIGNAL if name != "labels"), "canonical", "texts"),
        values={"match": float | None},
    ),
    Tool("verify", "Check whether an encoder (a folder) made these stored vectors from these texts.", files=("model", "texts")),
)


class ReadableFolder:
    """One folder, and the only paths that may be read: those that stay below it, whatever links there are."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).expanduser().resolve()
        if not self.root.is_dir():
            raise ValueError(f"--root {root} is not a folder; name an existing one")

    def path(self, text: str) -> str:
        """The path relative to the folder, or a ValueError in one sentence."""
        name, rule = f"{text!r}", "give a path to a file or folder below the root, relative to it"
        if "://" in text or "::" in text:
            raise ValueError(f"{name} is a URL, and tools read only local files; {rule}")
        if Path(text).is_absolute() or text.startswith("~"):
            raise ValueError(f"{name} is not a relative path; {rule}")
        target = (self.root / text).resolve()
        if not target.is_relative_to(self.root):
            raise ValueError(f"{name} points outside the root; {rule}")
        if not target.exists():
            raise ValueError(f"{name} does not exist below the root; {rule}")
        for parent, folders, files in os.walk(target):
            for entry in (Path(parent, child) for child in (*folders, *files)):
                if entry.is_symlink() and not entry.resolve().is_relative_to(self.root):
                    raise ValueError(f"{name} contains a link that points outside the root ({entry.name}); {rule}")
        return str(target.relative_to(self.root))

    def argument(self, name: str, text: str) -> str:
        """A path; labels may also name a column of the input, or FILE:COLUMN."""
        file, colon, column = text.partition(":")
        if name == "labels" and colon and (self.root / file).exists():
            return f"{self.path(file)}:{column}"
        is_column = name == "labels" and text.isidentifier() and not os.path.lexists(self.root / text)
        return text if is_column else self.path(text)


def answer_of(result: Result) -> dict[str, Any]:
    """What a tool returns: what was measured, the fields of the answer, and the unusual findings."""
    document = result.to_dict()
    answer = document["answer"] or {"verdict": "", "sentence": result.title, "reasons": [], "next": []}
    unusual = [finding for finding in document["findings"] if finding["verdict"] != "good"]
    findings = [{name: finding[name] for name in FINDING_FIELDS} for finding in unusual]
    return {"verb": result.verb, "measured": result.title, **answer, "findings": findings}


def explain_metric(name: str) -> dict[str, Any]:
    """What a metric measures, its range, which way is isotropic, and who defined it."""
    from theodolite.metrics.registry import METRICS, check_metrics

    (known,) = check_metrics([name])
    return {field: getattr(METRICS[known], field) for field in METRIC_FIELDS}


def run_tool(tool: Tool, folder: ReadableFolder, **arguments: Any) -> dict[str, Any]:
    """The answer of a verb; every path is checked before the verb sees any of them."""
    import theodolite

    sources = [folder.path(arguments[name]) for name in tool.inputs]
    named = {name: arguments[name] for name in (*tool.files, *tool.values) if arguments.get(name) is not None}
    options = {name: folder.argument(name, value) if name in tool.files else value for name, value in named.items()}
    if tool.verb in ("survey", "compare"):
        options["cache"] = False
    return answer_of(getattr(theodolite, tool.verb)(*sources, progress=False, **options))


def build_server(root: str | os.PathLike[str]) -> MCPServer[Any]:
    """The server with one tool per verb; the working folder is the root, so that commands in answers can be pasted there."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp.types import ToolAnnotations
    except ImportError as error:
        raise ImportError(f'the MCP server needs the package mcp, 2.0 or newer ({error}); run: pip install ".[mcp]"') from None
    import theodolite

    folder, one_at_a_time = ReadableFolder(root), Lock()
    os.chdir(folder.root)
    server: MCPServer[Any] = MCPServer(
        "theodolite", instructions=INSTRUCTIONS, version=theodolite.__version__, log_level="WARNING"
    )
    hints = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)

    def add(name: str, description: str, function: Callable[..., dict[str, Any]], signature: inspect.Signature) -> None:
        def call(**arguments: Any) -> dict[str, Any]:
            with one_at_a_time:
                try:
                    return function(**arguments)
                except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
                    raise ToolError(" ".join(str(error).split()) or type(error).__name__) from None

        call.__signature__ = signature  # type: ignore[attr-defined]
        server.add_tool(call, name=name, description=description, annotations=hints)

    for tool in TOOLS:
        if tool.verb in theodolite.__all__:
            add(tool.verb, tool.description, partial(run_tool, tool, folder), _signature(tool))
    add("explain_metric", str(explain_metric.__doc__), explain_metric, inspect.signature(explain_metric, eval_str=True))
    return server


def _signature(tool: Tool) -> inspect.Signature:
    """What the tool takes, for its schema."""
    typed = dict.fromkeys(tool.inputs, str) | dict.fromkeys(tool.files, str | None) | dict(tool.values)
    kind, empty = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
    parameters = [
        inspect.Parameter(name, kind, annotation=annotation, default=empty if name in tool.inputs else None)
        for name, annotation in typed.items()
    ]
    return inspect.Signature(parameters, return_annotation=dict[str, Any])


def mcp_command(
    root: Annotated[str, typer.Option("--root", metavar="FOLDER", help="The only folder that tools may read.")],
) -> None:
    """Serve survey, compare, advise, calibrate and verify to an assistant, over standard input and output (MCP).

    Tools read files below FOLDER and nothing else. They write nothing, open no connection and run no code from a
    model's folder. This command needs the extra [mcp].

    \b
    Example:
      theodolite mcp --root ./embeddings
    """  # noqa: D301  # \b keeps the lines of the example apart
    with TemporaryDirectory(prefix="theodolite-mcp-") as scratch:
        os.environ |= {"HF_HUB_OFFLINE": "1", "THEODOLITE_CACHE": scratch}  # vectors that an encoder gives go there, and go away
        build_server(root).run("stdio")
