"""The command as a whole."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from inline_snapshot import snapshot

from tests.cli.conftest import Run
from unspool import __version__
from unspool.cli import main
from unspool.testing.build import assistant, session, user


def test_help_tells_what_there_is(run: Run) -> None:
    done = run("--help")
    assert (done.code, done.err) == (0, "")
    assert done.out == snapshot("""\
Usage: unspool [OPTIONS] COMMAND [ARGS]...

  Read, keep, search and continue the sessions Claude Code leaves in ~/.claude.

Options:
  --config-dir PATH  What to read: a config folder, one project of it, any tree or one file.
                     Default: $CLAUDE_CONFIG_DIR, then ~/.claude.
  --version          Show the version and exit.
  -h, --help         Show this message and exit.

Commands:
  ls       List the sessions, newest first.
  show     Show a session: what was asked, what was done, what came of it.
  stats    Count what is in a session, or in all of them.
  usage    Add up tokens and cost: by day, session, model, 5-hour block and more.
  search   Find words in prompts, answers, tool results, plans and all the rest.
  sql      Ask in SQL: sessions, messages, tool calls, files, responses and their cost.
  watch    Show which session is doing what, and which one needs you.
  serve    Show everything in the browser: who needs you, sessions, search, usage, SQL.
  chat     Work with a model; Claude Code can go on with it, and the other way round.
  edit     Clone, fork, move, trim or compress a session, and take it back.
  export   Write a session out: byte for byte, as data, or to read; or all of them as tables.
  restore  Put a session back in place, byte for byte, from the archive.
  collect  Send sessions to a team's object store: redacted, each line once.
  lake     Make Delta tables of what collectors send, and ask them.
  redact   Write files without the secrets in them, or say what would be redacted.
  hooks    Let Claude Code tell unspool what it is doing.
  sync     Bring the store up to date with a config folder.
  doctor   Say what is in the data: what is known, unknown, damaged or missing.
  config   Show the settings, or change one.
  demo     Write a realistic config folder to try things with.
  testing  Test programs that talk to the Messages API, without it.

  `unspool COMMAND --help` tells more. Nothing leaves this machine but what chat and collect send.
""")


def test_without_a_command_there_is_help_too(run: Run) -> None:
    done = run()
    assert done.code == 2
    assert "Commands:" in done.err


def test_the_version_is_the_packages(run: Run) -> None:
    assert run("--version").out == f"unspool, version {__version__}\n"


@pytest.mark.parametrize("name", list(main._COMMANDS))
def test_the_list_of_commands_says_what_each_says_itself(name: str) -> None:
    module, words = main._COMMANDS[name]
    command = getattr(import_module(f"unspool.cli.{module}"), name)
    assert isinstance(command, click.Command)
    assert (command.help or "").splitlines()[0] == words


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            ["doctr"],
            2,
            snapshot("""\
unspool: no such command `doctr`
hint: see `unspool --help`
"""),
        ),
        (
            ["doctor", "--nope"],
            2,
            snapshot("""\
unspool: no such option `--nope`; did you mean `--no-store`?
hint: see `unspool doctor --help`
"""),
        ),
        (
            ["export", "--jsonl"],
            2,
            snapshot("""\
unspool: say which session to write
hint: one of `--md`, `--html`, `--json`, `--messages`, `--jsonl`; or all with `--parquet`, `--duckdb`
"""),
        ),
        (
            ["doctor", "gone"],
            3,
            snapshot("""\
unspool: no such file or folder: `gone`
hint: any folder or file will do; `unspool demo DIR` writes one to try with
"""),
        ),
        (
            ["doctor"],
            3,
            snapshot("""\
unspool: no such file or folder: `HOME/.claude`
hint: `--config-dir PATH` reads another folder; `unspool demo DIR` writes one to try with
"""),
        ),
        (
            ["doctor", "a\x1b[2Jb"],
            3,
            snapshot("""\
unspool: no such file or folder: `ab`
hint: any folder or file will do; `unspool demo DIR` writes one to try with
"""),
        ),
    ],
)
def test_a_wrong_request_is_one_line_and_a_hint(
    run: Run, tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (code, "")
    assert done.err.replace(str(tmp_path / "home"), "HOME") == words


def test_a_fifo_is_no_reason_to_wait(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert run("export", tmp_path / "pipe", "--jsonl").code == 4


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    path = session(*[user("hi" * 1000)] * 200).save(tmp_path)
    command = [sys.executable, "-m", "unspool", "export", str(path), "--jsonl"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait(timeout=60)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["ls", "usage daily", "--help"])
def test_a_stream_that_is_closed_leads_nowhere(command: str, closed: str, tmp_path: Path) -> None:
    session(user("Hello."), assistant("Hello to you.")).save(tmp_path)
    environment = {**os.environ, "CLAUDE_CONFIG_DIR": str(tmp_path), "UNSPOOL_HOME": str(tmp_path / "own")}
    done = subprocess.run(
        f"{sys.executable} -m unspool {command} {closed}",
        shell=True,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


def test_a_reader_that_was_never_there_is_no_error(tmp_path: Path) -> None:
    session(user("Hello."), assistant("Hello to you.")).save(tmp_path)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "unspool", "--config-dir", str(tmp_path), "ls"],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


WITHOUT_EXTRAS = """
import sys
from unspool.cli.main import _EXTRAS
sys.modules.update(dict.fromkeys(_EXTRAS))  # as if they were not installed
from unspool.__main__ import main
main()
"""


def run_without_extras(place: Path, command: str) -> subprocess.CompletedProcess[str]:
    config = place / "config"
    if not config.exists():
        session(user("Which tide?"), assistant("High."), id=ID).save(config)
    own = {"HOME": str(place), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "CLAUDE_CONFIG_DIR": str(config)}
    own["ANTHROPIC_API_KEY"] = "none"
    words = command.format(id=ID, place=place).split()
    program = [sys.executable, "-c", WITHOUT_EXTRAS, *words]
    return subprocess.run(program, env=own, cwd=place, capture_output=True, text=True, check=False, timeout=60)


ID = "00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    "command",
    [
        "serve --no-browser", "sql FROM+sessions", "chat -p hello",
        "export --parquet {place}/tables",
        "lake init {place}/lake",
        "collect --to file://{place}/bucket --org o --user u", "export {id} --html",
    ],
)  # fmt: skip
def test_a_command_without_its_extra_says_what_to_install(tmp_path: Path, command: str) -> None:
    done = run_without_extras(tmp_path, command)
    assert "Traceback" not in done.stderr
    assert done.returncode in (2, 5), done.stderr
    assert done.stdout == ""
    assert "pip install 'unspool[" in done.stderr


@pytest.mark.parametrize(
    "command",
    ["ls", "usage --json", "stats", "search tide", "show {id}", "doctor", "watch --once", "watch --once --json", "sync",
     "export {id} --md", "export {id} --json", "export {id} --messages", "edit clone {id}", "config", "hooks status"],
)  # fmt: skip
def test_the_everyday_commands_need_no_extra(tmp_path: Path, command: str) -> None:
    done = run_without_extras(tmp_path, command)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
