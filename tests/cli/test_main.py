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

  Read, archive, search and resume the sessions that Claude Code stores in ~/.claude.

Options:
  --config-dir PATH  Config folder, project, tree or file to read; repeatable. Default:
                     $CLAUDE_CONFIG_DIR, then ~/.claude
  --no-pager         Do not show long output in a pager.
  --version          Show the version and exit.
  -h, --help         Show this message and exit.

Commands:
  ls          List sessions, newest first.
  show        Show a session: prompts, tool calls, results.
  stats       Count turns, calls, errors and blocks, of one session or all.
  compare     Compare two sessions, two branches, or groups of sessions.
  insights    Report where money and time go: by tool, file, project and failure.
  usage       Report tokens and cost by day, session, model, 5-hour block and more.
  search      Search prompts, answers, tool results, plans and other text.
  sql         Run SQL on sessions, messages, tool calls, files and costs.
  watch       Show what each session is doing, and which one needs you.
  serve       Serve the web page: live sessions, search, usage, SQL.
  chat        Chat with a model in a session that Claude Code can resume.
  edit        Clone, fork, move, trim, compress, repair or redact a session; undo edits.
  export      Export a session as Markdown, HTML, JSON or raw lines; or all as tables.
  share       Write a redacted copy of a session, to send to somebody.
  restore     Restore a deleted session from the archive, byte for byte.
  collect     Send redacted sessions to a team's object store.
  lake        Build Delta tables from collected sessions, and query them.
  redact      Remove secrets from files, or list them.
  statusline  Print a status line for Claude Code, or install it.
  mcp         Serve the history of sessions to agents over MCP.
  hooks       Install or remove hooks that report the status of Claude Code.
  sync        Update the store from a config folder.
  doctor      Check the data: unknown, damaged or missing parts.
  schema      Print the JSON Schema of the --json output of a command.
  config      Show or change settings.
  completion  Print the completion script of a shell.
  demo        Create a config folder with sample data.
  testing     Serve a scripted Messages API for tests.

  Aliases: `list` for `ls`, `find` for `search`, `cost` for `usage`. Run `unspool COMMAND --help`
  for details. Only chat and collect send data to other machines.
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
unspool: no such command `doctr`; did you mean `doctor`?
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
unspool: missing argument SESSION
hint: add --md, --html, --json, --messages or --jsonl; or export all sessions with --parquet or --duckdb
"""),
        ),
        (
            ["doctor", "gone"],
            3,
            snapshot("""\
unspool: file or folder not found: `gone`
hint: name an existing folder or file, or create sample data with `unspool demo DIR`
"""),
        ),
        (
            ["doctor"],
            3,
            snapshot("""\
unspool: file or folder not found: `HOME/.claude`
hint: name another folder with `--config-dir PATH`, or create sample data with `unspool demo DIR`
"""),
        ),
        (
            ["doctor", "a\x1b[2Jb"],
            3,
            snapshot("""\
unspool: file or folder not found: `ab`
hint: name an existing folder or file, or create sample data with `unspool demo DIR`
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
from unspool.extras import optional_libraries
sys.modules.update(dict.fromkeys(optional_libraries()))  # as if they were not installed
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
    ("command", "needs"),
    [
        ("serve --no-browser", "`unspool serve` needs the `web` extra, which is"),
        ("sql FROM+sessions", "`unspool sql` needs the `sql` extra, which is"),
        ("chat -p hello", "`unspool chat` needs the `chat` extra, which is"),
        ("export --parquet {place}/tables", "`unspool export` needs the `sql` extra, which is"),
        ("lake init {place}/lake", "`unspool lake` needs the `sql` and `team` extras, which are"),
        ("collect --to file://{place}/bucket --org o --user u", "`unspool collect` needs the `team` extra, which is"),
        ("export {id} --html", "`unspool export --html` needs the `web` extra, which is"),
    ],
)
def test_a_command_without_its_extra_says_what_to_install(tmp_path: Path, command: str, needs: str) -> None:
    done = run_without_extras(tmp_path, command)
    error, hint = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (5, "")
    assert error == f"unspool: {needs} not installed"
    assert hint.startswith("hint: install it with `")
    assert hint.endswith("]'`")


@pytest.mark.parametrize(
    "command",
    ["ls", "usage --json", "stats", "search tide", "show {id}", "doctor", "watch --once", "watch --once --json", "sync",
     "export {id} --md", "export {id} --json", "export {id} --messages", "edit clone {id}", "config", "hooks status"],
)  # fmt: skip
def test_the_everyday_commands_need_no_extra(tmp_path: Path, command: str) -> None:
    done = run_without_extras(tmp_path, command)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
