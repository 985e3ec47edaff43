"""The frame: exit codes, one-line errors, quick help, and nothing on stdout that is not asked for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from theodolite.cli.app import app
from theodolite.cli.output import guarded
from theodolite.core import files

VERBS = [[], ["survey"], ["compare"], ["repair"], ["repair", "fit"], ["repair", "apply"], ["repair", "list"], ["cache"]]
VERBS += [["cache", "where"], ["cache", "size"], ["cache", "clean"], ["demo"], ["probe"]]


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("THEODOLITE_DEBUG", raising=False)
    return tmp_path / "cache"


def theodolite(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "theodolite", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_help_has_an_example_and_fits_80_columns(verb: list[str]) -> None:
    result = CliRunner().invoke(app, [*verb, "--help"])
    assert result.exit_code == 0
    if verb not in ([], ["repair"], ["cache"]):
        assert f"theodolite {' '.join(verb)}" in result.stdout.split("Example")[1]
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize("verb", [[], ["survey"], ["repair", "fit"]], ids=" ".join)
def test_help_imports_nothing_heavy(verb: list[str]) -> None:
    code = (
        "import sys\n"
        "from theodolite.cli import main\n"
        f"sys.argv = ['theodolite', *{verb!r}, '--help']\n"
        "try:\n    main()\n"
        "except SystemExit as leaving:\n    assert not leaving.code\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'pyarrow', 'pandas', 'torch', 'fsspec', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_user_error_is_one_line_on_stderr_and_code_2(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", np.eye(3))
    result = theodolite("survey", str(tmp_path / "vektors.npy"))
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("theodolite: there is no file")
    assert "did you mean" in result.stderr


@pytest.mark.parametrize("arguments", [["--debug", "survey", "none.npy"], ["survey", "none.npy", "--debug"]])
def test_debug_shows_the_traceback_wherever_it_stands(arguments: list[str]) -> None:
    result = theodolite(*arguments)
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert "FileNotFoundError" in result.stderr
    assert "Traceback" in theodolite("survey", "none.npy", THEODOLITE_DEBUG="1").stderr


@pytest.mark.parametrize(
    "arguments", [["survye"], ["survey", "--sampel", "3"], ["survey", "x.npy", "--sample", "1"], ["compare", "a.npy"]]
)
def test_wrong_use_is_code_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert result.stdout == ""


def heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interruption_is_code_130_and_one_line(tmp_path: Path) -> None:
    # A pipe that nobody writes to holds the verb in the middle of reading.
    pipe = tmp_path / "slow.txt"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "theodolite", "survey", str(pipe)]
    # The pipe opens for writing once the verb has opened it for reading.
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # A shell that runs the tests in the background has its children ignore the signal: this one must not.
    with subprocess.Popen(command, preexec_fn=heed_interrupts, **pipes) as process, pipe.open("w"):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert out == ""
    assert err.strip().splitlines() == ["theodolite: interrupted; nothing half-written is left behind"]


def test_an_interruption_names_what_the_same_command_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    (tmp_path / "run" / "inner").mkdir(parents=True)
    begun = {tmp_path / "run", tmp_path / "run" / "inner", tmp_path / "gone"}
    monkeypatch.setattr(files, "UNFINISHED", begun)
    with pytest.raises(typer.Exit):
        guarded(interrupt)()
    kept = f"what was done so far is in {tmp_path / 'run'}, and the same command continues from it"
    assert capsys.readouterr().err == f"theodolite: interrupted; {kept}\n"


def test_a_closed_pipe_is_no_traceback(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(50, 4)))
    command = f"{sys.executable} -m theodolite survey {tmp_path / 'v.npy'} --no-findings | head -n 1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert "v.npy" in result.stdout
    assert "Traceback" not in result.stderr


def test_version_and_module_entry() -> None:
    from importlib.metadata import version

    assert theodolite("--version").stdout == f"theodolite {version('theodolite')}\n"


def test_cache_verbs(tmp_path: Path, cache_folder: Path) -> None:
    run = CliRunner().invoke
    assert run(app, ["cache", "where"]).stdout.strip() == str(cache_folder)
    assert run(app, ["cache", "size"]).stdout == "0 B\n"
    assert not cache_folder.exists()
    np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(500, 4)))
    run(app, ["survey", str(tmp_path / "v.npy"), "--metrics", "iso_score", "--no-findings"])
    assert run(app, ["cache", "size"]).stdout != "0 B\n"
    assert "freed" in run(app, ["cache", "clean"]).stdout
    assert run(app, ["cache", "size"]).stdout == "0 B\n"
