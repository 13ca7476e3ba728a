"""`unspool watch`: once, as events, as lines, as a board on a terminal, and with a command that is told."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyte
import pytest

from tests.cli.conftest import Run
from tests.live.world import ID, OTHER, World
from tests.pseudo_terminal import PATIENCE, PseudoTerminal, until
from unspool.testing.build import assistant, tool_use, user

ALTERNATE_SCREEN = 1049 << 5  # as pyte keeps the private modes of a terminal; DECTCEM: the cursor is shown
BASH = tool_use("Bash", id="t1", command="touch a")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class Running:
    """`unspool watch` while it runs; its lines are read as they come."""

    def __init__(self, world: World, *arguments: str, before: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", "unspool", "watch", "--config-dir", str(world.root), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "COLUMNS": "120"},
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in list(self.lines)]

    def wait_for(self, kind: str) -> dict[str, Any]:
        until(lambda: any(event["event"] == kind for event in self.events), lambda: self.lines)
        return next(event for event in self.events if event["event"] == kind)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(10)
        finally:
            self.process.kill()
        self._reader.join()
        assert self.process.stdout
        assert self.process.stderr
        self.process.stdout.close()
        self.process.stderr.close()


def test_once_as_json_has_the_metadata(run: Run, world: World) -> None:
    world.save(user("Fix it"), assistant("I try.", BASH))
    done = run("watch", "--once", "--json", "--config-dir", world.root)
    (found,) = json.loads(done.out)["items"]
    assert (done.code, done.err) == (0, "")
    assert (found["session_id"], found["goal"], found["recent_output"]) == (ID, "Fix it", "I try.")
    assert (found["status"], found["source"]) == ("waiting_for_approval", "transcript")
    assert found["detail"].startswith("probably ")
    assert found["pending"] == {"id": "t1", "name": "Bash", "input": {"command": "touch a"}}


def test_once_is_a_table_by_group_that_a_terminal_does_not_obey(run: Run, world: World) -> None:
    world.save(user("a \x1b[2J\x1b]0;title\x07 title\r"), assistant("Done."))
    world.save(user("b"), assistant(tool_use("AskUserQuestion", questions=[{"question": "Red\x1b[31m?"}])), id=OTHER)
    done = run("watch", "--once", "--config-dir", world.root)
    assert "\x1b" not in done.out
    assert done.out.index("Needs you (1)") < done.out.index("Waiting (1)")
    assert "probably asking a question: Red?" in done.out


def test_nothing_lately_is_said(run: Run, world: World) -> None:
    world.begun = datetime.fromtimestamp(1_700_000_000, UTC)
    path = world.save(user("a"))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    done = run("watch", "--once", "--config-dir", world.root)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("unspool: no session changed recently\n")
    assert "a" in run("watch", "--once", "--since", "2000-01-01", "--config-dir", world.root).out


def test_wrong_words_are_refused(run: Run, world: World, tmp_path: Path) -> None:
    assert run("watch", "--once", "--notify", "true", "--config-dir", world.root).code == 2
    assert run("watch", "--notify", "no-such-program-anywhere", "--config-dir", world.root).code == 2
    assert run("watch", "--notify", "'", "--config-dir", world.root).code == 2
    assert run("watch", "--once", "--config-dir", tmp_path / "nowhere").code == 3


def test_events_are_written_one_to_a_line_as_they_happen(world: World) -> None:
    path = world.save(user("a"), assistant("Done."))
    with Running(world, "--json") as running:
        first = running.wait_for("status")
        assert [*first][:5] == ["schema", "event", "session_id", "agent_id", "time"]
        assert (first["session_id"], first["status"], first["detail"]) == (ID, "waiting_for_input", "waiting")
        world.append(path, user("More\x1b[2J"), assistant("I look.", BASH))
        call = running.wait_for("tool_call")
        assert (call["tool"], call["target"], call["id"], call["path"]) == ("Bash", "touch a", "t1", str(path))
        assert running.wait_for("prompt")["prompt"] == "More\x1b[2J"
        assert running.wait_for("message")["text"] == "I look."
        assert not any("\x1b" in line for line in running.lines)
        new = world.save(user("b"), id=OTHER)
        assert running.wait_for("session_started")["session_id"] == OTHER
        new.unlink()
        assert running.wait_for("session_ended")["session_id"] == OTHER
    assert running.process.returncode == 130


def test_without_a_terminal_changes_are_lines(world: World) -> None:
    path = world.save(user("Fix it"), assistant("Done."))
    with Running(world) as running:
        until(lambda: any("Fix it" in line for line in running.lines))
        world.append(path, user("More"))
        until(lambda: len(running.lines) == 2, lambda: running.lines)
        assert [("Waiting" in line, "Working" in line) for line in running.lines] == [(True, False), (False, True)]


def test_a_command_is_told_what_has_come_to_need_somebody_and_nothing_else(world: World, tmp_path: Path) -> None:
    told = tmp_path / "told"
    program = "import os,sys; open(sys.argv[1], 'a').write(os.environ['UNSPOOL_DETAIL'] + '|' + sys.stdin.read())"
    command = shlex.join([sys.executable, "-c", program, str(told)])
    path = world.save(user("$(touch hacked)"))
    world.save(user("old"), assistant("Done."), id=OTHER)
    with Running(world, "--json", "--notify", command) as running:
        running.wait_for("status")
        world.append(path, assistant("Done."))
        until(told.exists)
        until(lambda: told.read_text().endswith("}\n"))
    words, _, value = told.read_text().partition("|")
    found = json.loads(value)  # one object: it was told once
    assert (words, found["sessionId"], found["title"], found["group"]) == ("waiting", ID, "$(touch hacked)", "Waiting")


def test_the_limit_of_watches_is_told_of(world: World) -> None:
    lower = 'echo 3 > /proc/sys/user/max_inotify_watches && exec "$@"'
    alone = ("unshare", "--user", "--map-root-user", "sh", "-c", lower, "sh")
    try:
        subprocess.run([*alone, "true"], check=True, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("the limit of watches cannot be lowered here: no user namespaces")
    for number in range(8):
        world.save(user("a"), cwd=f"/home/me/{number}")
    with Running(world, "--json", before=alone) as running:
        assert running.process.stderr
        assert running.process.stderr.readline() == "polling every 1 s: the system's limit on file watches is reached\n"
        world.save(user("found all the same"), id=OTHER, cwd="/home/me/8")
        assert running.wait_for("prompt")["prompt"] == "found all the same"


class Terminal(PseudoTerminal):
    """The board on a terminal of our own."""

    def __init__(self, world: World, *arguments: str, command: tuple[str, ...] = ("-m", "unspool")) -> None:
        environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
        watch = [sys.executable, *command, "watch", "--config-dir", str(world.root), *arguments]
        super().__init__(watch, {**environment, "TERM": "xterm"}, size=(100, 24))


@pytest.fixture
def terminal(world: World) -> Iterator[Terminal]:
    world.save(user("Fix it"), assistant("Done."))
    with Terminal(world) as made:
        yield made


def test_the_board_keeps_itself_up_to_date(world: World, terminal: Terminal) -> None:
    terminal.see("Waiting (1)")
    terminal.see("Fix it")
    assert "watching" in terminal.screen.display[0]
    world.save(user("Another"), assistant(tool_use("AskUserQuestion", questions=[{"question": "Why?"}])), id=OTHER)
    terminal.see("Needs you (1)")
    assert terminal.seen.index("Another") < terminal.seen.index("Fix it")


def test_text_from_a_transcript_does_not_reach_the_terminal_as_it_is(world: World, terminal: Terminal) -> None:
    world.save(user("x\x1b]0;owned\x07y\x1b[2J"), assistant("Done."), id=OTHER)
    terminal.see("xy")
    assert b"owned" not in terminal.sent
    assert terminal.screen.title == ""


def test_the_board_fits_when_the_terminal_is_made_smaller(terminal: Terminal) -> None:
    terminal.see("Fix it")
    terminal.resize(40, 10)
    until(lambda: "Fix it" in terminal.seen and "branch" not in terminal.seen, lambda: terminal.seen)


@pytest.mark.parametrize("leave", ["q", "\x03", "SIGINT", "SIGTERM", "SIGHUP"])
def test_the_terminal_is_left_as_it_was(terminal: Terminal, leave: str) -> None:
    terminal.see("Fix it")
    assert terminal.settings() != terminal.before
    assert ALTERNATE_SCREEN in terminal.screen.mode
    assert pyte.modes.DECTCEM not in terminal.screen.mode
    if leave.startswith("SIG"):
        terminal.process.send_signal(signal.Signals[leave])
    else:
        terminal.press(leave)
    codes = {"q": 0, "\x03": 130, "SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
    assert terminal.process.wait(10) == codes[leave]
    until(lambda: ALTERNATE_SCREEN not in terminal.screen.mode, lambda: terminal.sent[-200:])
    until(lambda: pyte.modes.DECTCEM in terminal.screen.mode, lambda: terminal.sent[-200:])
    assert terminal.settings() == terminal.before


def test_the_board_can_be_scrolled(world: World, terminal: Terminal) -> None:
    for number in range(30):
        world.save(user(f"Session {number:02}"), id=f"00000000-0000-4000-8000-0000000001{number:02}")
    terminal.see("Working (30)")
    assert "Fix it" not in terminal.seen
    terminal.press(" ")
    terminal.press("jjjjjjjjjjjjjjjjj")
    terminal.see("Fix it")
    terminal.press("\x1b[5~")
    terminal.see("Working (30)")


def test_every_key_counts_however_many_come_at_once(world: World, terminal: Terminal) -> None:
    for number in range(30):
        world.save(user(f"Session {number:02}"), id=f"00000000-0000-4000-8000-0000000001{number:02}")
    terminal.see("Working (30)")
    terminal.press("jjj\x1b[B\x1bOB\x1b[1;5Cjé")  # six lines down; an arrow to the right and a letter mean nothing
    until(lambda: "Session 03" in terminal.screen.display[1], lambda: terminal.seen)
    terminal.press(100 * "j" + "\x1b[5~")  # below the end there is nothing to go back from
    terminal.see("Working (30)")
    terminal.press("\x1b")
    terminal.press("[6")
    terminal.press("~q")
    assert terminal.process.wait(10) == 0


WITHOUT_THE_EXTRA = """
import sys
sys.modules["prompt_toolkit"] = None
from unspool.cli.main import run_command_line
run_command_line()
"""


def test_without_the_extra_one_line_says_what_to_install(world: World) -> None:
    world.save(user("Fix it"), assistant("Done."))
    with Terminal(world, command=("-c", WITHOUT_THE_EXTRA)) as terminal:
        assert terminal.process.wait(20) == 5
        terminal.see("hint: install it with")
        error = "unspool: `unspool watch` needs the `chat` extra, which is not installed"
        assert terminal.screen.display[0].rstrip() == error


def test_once_and_json_do_not_need_the_extra(world: World) -> None:
    world.save(user("Fix it"), assistant("Done."))
    with Terminal(world, "--once", command=("-c", WITHOUT_THE_EXTRA)) as terminal:
        terminal.see("Fix it")
        assert terminal.process.wait(10) == 0
    with Terminal(world, "--json", command=("-c", WITHOUT_THE_EXTRA)) as terminal:
        terminal.see('"status":"waiting_for_input"')


def test_a_terminal_that_has_gone_ends_the_board(world: World, tmp_path: Path) -> None:
    world.save(user("Fix it"), assistant("Done."))
    leader, follower = pty.openpty()
    with (tmp_path / "stderr").open("wb") as errors:
        command = [sys.executable, "-m", "unspool", "watch", "--config-dir", str(world.root)]
        process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=errors, start_new_session=True)
    os.close(follower)
    os.read(leader, 65536)
    os.close(leader)
    assert (process.wait(PATIENCE), (tmp_path / "stderr").read_text()) == (128 + signal.SIGHUP, "")
