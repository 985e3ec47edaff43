"""`mcp`: the SDK's own client over stdio gets the answers of the verbs, and no path out of the root."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import theodolite as th
from theodolite.cli.mcp import TOOLS, ReadableFolder, explain_metric

OFFERED = [tool for tool in TOOLS if tool.verb in th.__all__]


@pytest.fixture
def root(here: Path) -> Path:
    """A folder with vectors, labels and pairs, next to a secret."""
    rng = np.random.default_rng(0)
    folder = here / "root"
    folder.mkdir()
    labels = np.arange(120) % 2
    X = (rng.standard_normal((120, 8)) + 3 * labels[:, None] * np.eye(8)[0] + 2).astype(np.float32)
    np.save(folder / "x.npy", X)
    np.save(folder / "turned.npy", X @ np.linalg.qr(rng.standard_normal((8, 8)))[0].astype(np.float32))
    np.save(folder / "y.npy", X + 0.3 * rng.standard_normal((120, 8)).astype(np.float32))
    np.savetxt(folder / "scores.txt", rng.uniform(0, 1, 120))
    (folder / "labels.txt").write_text("".join(f"{'ab'[label]}\n" for label in labels))
    np.save(here / "secret.npy", X)
    (folder / "inside.npy").symlink_to(folder / "x.npy")
    (folder / "outside.npy").symlink_to(here / "secret.npy")
    (folder / "shards").mkdir()
    (folder / "shards" / "part.npy").symlink_to(here / "secret.npy")
    return folder


def escapes(root: Path) -> dict[str, str]:
    """Ways out of the root, each with what the refusal must say."""
    return {
        "../secret.npy": "points outside the root",
        "shards/../../secret.npy": "points outside the root",
        str(root.parent / "secret.npy"): "is not a relative path",
        str(root / "x.npy"): "is not a relative path",
        "~/secret.npy": "is not a relative path",
        "outside.npy": "points outside the root",
        "shards": "contains a link that points outside the root",
        "s3://bucket/x.npy": "is a URL",
        "file:///etc/passwd": "is a URL",
        "zip::x.npy": "is a URL",
        "*.npy": "does not exist",
        "nothing.npy": "does not exist",
    }


def test_no_path_leads_out(root: Path) -> None:
    folder = ReadableFolder(root)
    assert folder.path("x.npy") == "x.npy"
    assert folder.path("./shards/../x.npy") == "x.npy"
    assert folder.path("inside.npy") == "x.npy"
    for path, why in escapes(root).items():
        for argument in ("texts", "labels"):
            with pytest.raises(ValueError, match=why) as error:
                folder.argument(argument, path)
            assert "\n" not in str(error.value)


def test_labels_may_name_a_column(root: Path) -> None:
    folder = ReadableFolder(root)
    assert folder.argument("labels", "topic") == "topic"
    assert folder.argument("labels", "labels.txt") == "labels.txt"
    assert folder.argument("labels", "labels.txt:topic") == "labels.txt:topic"
    with pytest.raises(ValueError, match="points outside the root"):
        folder.argument("labels", "../secret.npy:topic")


def test_a_root_that_is_not_a_folder_is_wrong_use(refused: Callable[..., str]) -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    assert "is not a folder" in refused("mcp", "--root", "nowhere")


@pytest.mark.parametrize("tool", OFFERED, ids=lambda tool: tool.verb)
def test_a_tool_offers_what_its_verb_takes_and_nothing_that_runs_code(tool: Any) -> None:
    taken = set(inspect.signature(getattr(th, tool.verb)).parameters)
    offered = {*tool.files, *tool.values}
    assert offered <= taken
    assert not offered & {"trust_remote_code", "to", "data", "own", "task", "engine", "revision"}


def test_a_metric_is_explained_by_its_own_entry() -> None:
    assert explain_metric("mean_cosine")["direction"] == "lower is isotropic"
    with pytest.raises(ValueError, match="did you mean 'iso_score'"):
        explain_metric("isoscore")


def talk(root: Path, *calls: tuple[str, dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """The tools of a server, and what it answers, through the SDK's client."""
    import anyio
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(
        command=sys.executable, args=["-m", "theodolite", "mcp", "--root", str(root)], env=dict(os.environ)
    )

    async def main() -> tuple[list[Any], list[Any]]:
        async with Client(stdio_client(server)) as client:
            tools = list((await client.list_tools()).tools)
            return tools, [await client.call_tool(name, arguments) for name, arguments in calls]

    # In a thread of its own: tests that drive a browser leave an event loop in this one.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, main).result()


@pytest.mark.slow
def test_the_client_gets_answers_and_nothing_is_written(root: Path) -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    before = {path: path.lstat().st_mtime_ns for path in root.parent.rglob("*")}
    answered: dict[str, dict[str, Any]] = {
        "survey": {"path": "x.npy"},
        "compare": {"before": "x.npy", "after": "turned.npy"},
        "advise": {"path": "x.npy", "labels": "labels.txt"},
        "calibrate": {"path": "x.npy", "pairs": "y.npy", "scores": "scores.txt", "match": 0.5},
        "explain_metric": {"name": "hubness"},
    }
    ways_out = list(escapes(root).items())
    calls = [*answered.items(), *(("survey", {"path": path}) for path, _ in ways_out)]
    calls.append(("advise", {"path": "x.npy", "labels": "../secret.npy"}))
    tools, results = talk(root, *calls)
    assert {tool.name for tool in tools} == {*(tool.verb for tool in OFFERED), "explain_metric"}
    assert all(tool.annotations.read_only_hint for tool in tools)
    for (name, arguments), result in zip(answered.items(), results, strict=False):
        assert not result.is_error, result.content
        document = result.structured_content
        assert json.loads(result.content[0].text) == document
        if name != "explain_metric":
            assert document["verb"] == name
            assert document["verdict"] in th.core.result.VERDICTS[name], arguments
    surveyed = th.survey(root / "x.npy", cache=False).answer
    assert surveyed is not None
    assert results[0].structured_content["sentence"] == surveyed.sentence
    assert results[1].structured_content["verdict"] == "turned"
    refusals = results[len(answered) :]
    for result, why in zip(refusals, [*(why for _, why in ways_out), "points outside the root"], strict=True):
        assert result.is_error
        assert why in result.content[0].text
    assert {path: path.lstat().st_mtime_ns for path in root.parent.rglob("*")} == before
    assert not Path(os.environ["THEODOLITE_CACHE"]).exists()
