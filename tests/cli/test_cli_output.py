"""The frame: exit codes, one-line errors, quick help, and nothing on stdout that is not asked for."""

from __future__ import annotations

import json
import os
import re
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


def test_help_lists_options_by_what_they_are_about() -> None:
    sections = re.split(r"^(\w+):$", CliRunner().invoke(app, ["repair", "advise", "--help"]).stdout, flags=re.MULTILINE)[1:]
    by_name = dict(zip(sections[::2], sections[1::2], strict=True))
    assert list(by_name) == ["Arguments", "Options", "Signal", "Input", "Encoder", "Output"]
    homes = {"--worth": "Options", "--labels": "Signal", "--columns": "Input", "--model": "Encoder", "--json": "Output"}
    for option, home in homes.items():
        assert [name for name, text in by_name.items() if re.search(rf"^  (-\w, )?{option}\b", text, re.MULTILINE)] == [home]


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


def test_a_page_is_written_although_nobody_reads_what_is_printed(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).standard_normal((200, 8)))
    command = [sys.executable, "-m", "theodolite", "survey", "vectors.npy", "--report", "page.html"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0
    assert (tmp_path / "page.html").is_file()


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


# The verb is held in the middle of writing its rows, which is when a signal could leave half a file.
SLOW = """
import sys, time
import theodolite.core.files as files
from theodolite.cli import main

def wait(*_):
    print("writing", flush=True)
    time.sleep(60)

files.sync = wait
sys.argv = ["theodolite", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_with_one_line_and_nothing_half_written(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(50, 4)))
    verb = ["survey", str(tmp_path / "v.npy"), "--metrics", "iso_score", "--no-cache", "-o", str(tmp_path / "rows.jsonl")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # A shell that runs the tests in the background has its children ignore the signal: this one must not.
    with subprocess.Popen([sys.executable, "-c", SLOW, *verb], preexec_fn=heed_interrupts, **pipes) as process:
        assert process.stdout is not None
        assert any(line == "writing\n" for line in process.stdout)
        process.send_signal(sent)
        _, err = process.communicate(timeout=600)
    assert process.returncode == code
    assert err.splitlines() == ["theodolite: interrupted; no partial files are left behind"]
    assert not list(tmp_path.glob("*rows*")) and not list(tmp_path.glob(".*"))


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "v.npy")
    result = subprocess.run(
        [sys.executable, "-m", "theodolite", "survey", str(tmp_path / "v.npy")],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert "is a pipe or a device" in result.stderr


ESCAPES = "\x1b]0;owned\x07\x1b[31mred\x9b"


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"[tag]{ESCAPES}", "[/]"])
def test_names_reach_the_terminal_as_text(tmp_path: Path, name: str) -> None:
    """Labels and file names with escape sequences or markup are shown as they are, without steering the terminal."""
    folder = tmp_path / name.replace("/", "-")
    folder.mkdir()
    rng = np.random.default_rng(0)
    np.save(folder / f"{folder.name}.npy", rng.normal(size=(40, 3)) + np.repeat([[0], [9]], 20, axis=0))
    (folder / "y.txt").write_text(f"{name}\n" * 20 + "other\n" * 20, encoding="utf-8")
    path = str(folder / f"{folder.name}.npy")
    shown = name.translate(dict.fromkeys(map(ord, "\x1b\x07\x9b"), "\N{REPLACEMENT CHARACTER}"))
    for arguments in (["probe", path, "--labels", str(folder / "y.txt")], ["survey", path + "x"]):
        result = theodolite(*arguments)
        printed = result.stdout + result.stderr
        assert "\x1b" not in printed and "\x07" not in printed and "\x9b" not in printed
        assert "Traceback" not in printed
        assert (shown if "probe" in arguments else shown.replace("/", "-")) in printed.replace("\n", " ")
    document = theodolite("probe", path, "--labels", str(folder / "y.txt"), "--json").stdout
    assert "\x9b" not in document and any(row["label"].startswith(name) for row in json.loads(document)["rows"])


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
    kept = f"finished work is in {tmp_path / 'run'}; run the same command again to continue from it"
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
    np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(20_000, 32)))  # of less than 4 MB nothing is kept
    run(app, ["survey", str(tmp_path / "v.npy"), "--metrics", "iso_score", "--no-findings"])
    assert run(app, ["cache", "size"]).stdout != "0 B\n"
    assert "freed" in run(app, ["cache", "clean"]).stdout
    assert run(app, ["cache", "size"]).stdout == "0 B\n"
