"""The judge of live status: the real program in a pseudo-terminal, driven through its states, and what the board says.

Three ways of knowing are asked in turn: the program's own registry, hooks, and lines alone. Each state that is listed
must be seen, with the right detail, within a second of the moment the screen shows it; a state that was not reached
fails the test. Needs node, npm and once their registry; see `program.py`.

A second is counted in checks of the watcher, of which there are four in a second, so that a busy machine fails no test.

Where a prompt follows the end of a turn within 0.2 s, 2.1.325 sometimes (2 of 25 runs) keeps the line of a call back
for as long as it asks. Lines alone cannot tell then: such a run is played again.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from tests.claude.program import Place, Program, installed
from tests.claude.scenarios import QUESTION
from tests.claude.server import Json, Reply, Script, Server, calls, says
from tests.claude.terminal import Interface, trust
from tests.pseudo_terminal import ENTER, ESCAPE, until
from unspool.live.board import Board
from unspool.live.hooks import add_hooks
from unspool.live.state.events import LiveEvent
from unspool.live.state.model import ActivityKind, EvidenceSource
from unspool.live.state.rows import BoardRow
from unspool.live.watch import CHECK_SECONDS, Watcher

pytestmark = pytest.mark.claude

NEWEST, OLD = "2.1.325", "2.1.29"
WITHIN = 1.0
CHECKS_WITHIN = round(WITHIN / CHECK_SECONDS)
TRIES = 3
CALLS = {"question": "AskUserQuestion", "permission": "Bash"}
"""States that only the line of a call tells where nothing but lines is known."""
LISTED = (
    "working", "waiting", "question", "permission", "running", "interrupted", "background", "agents", "compacting",
    "error", "ended", "killed",
)  # fmt: skip


class LineKeptBack(Exception):
    """Claude Code asks for something and has not written the line of the call."""


class Way(NamedTuple):
    """A version of the program, and what is known of it."""

    version: str
    source: EvidenceSource
    states: tuple[str, ...] = LISTED


def _but(*left_out: str) -> tuple[str, ...]:
    return tuple(state for state in LISTED if state not in left_out)


# Nobody but the program itself tells that somebody said yes, or that it was killed; nobody but a hook that it compacts;
# no line that it has ended.
WAYS = {
    "registry": Way(NEWEST, EvidenceSource.REGISTRY, _but("compacting")),
    "hooks": Way(NEWEST, EvidenceSource.HOOK, _but("running", "killed")),
    "lines alone": Way(NEWEST, EvidenceSource.TRANSCRIPT, _but("running", "compacting", "ended", "killed")),
    # With a command in the background, the hook of this version does not tell that it has ended.
    "hooks of an old version": Way(OLD, EvidenceSource.HOOK, _but("running", "killed", "background")),
}


class Stage:
    """The program, the API it talks to, and a board that is kept up to date beside them."""

    def __init__(self, way: Way, root: Path) -> None:
        self.way = way
        self.place = Place(root / "home", root / "work")
        self.signals = root / "signals"
        self.signals.mkdir(parents=True)
        self.place.work.mkdir(parents=True)
        (self.place.work / "notes.md").write_text("Remember the milk.\n")
        trust(self.place, way.version)
        if way.source is EvidenceSource.HOOK:
            (self.place.config / "settings.json").write_bytes(add_hooks(b"", self.signals))
        self.gate, self.report, self.summary = root / "gate", root / "report", root / "summary"
        self.agent_tool = "Agent" if way.version == NEWEST else "Task"
        self.seen: dict[str, float] = {}
        registry = None if way.source is EvidenceSource.REGISTRY else root / "nowhere"
        self.board = Board(self.place.config, self.signals, clock=lambda: datetime.now(UTC), registry=registry)
        self.events: list[LiveEvent] = []
        self._checks = 0
        self._server: Server | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow)

    @property
    def script(self) -> Script:
        return {
            "Say hello.": [Reply((says("Hello to you."),), gate=self.gate)],
            "Make a file.": [
                Reply((says("I write."), calls("Bash", command="touch made; tail -f notes.md", description="Make it"))),
                Reply((says("Made."),)),
            ],
            "Serve it.": [
                Reply((calls("Bash", command="tail -f notes.md", description="Serve", run_in_background=True),)),
                Reply((says("It is served."),)),
            ],
            "Ask me.": [Reply((calls("AskUserQuestion", **QUESTION),)), Reply((says("Thanks."),))],
            "Send an agent.": [
                Reply((calls(self.agent_tool, description="Look", prompt="Report.", subagent_type="general-purpose"),)),
                Reply((says("It is sent."),)),
            ],
            "Report.": [Reply((says("All is well."),), gate=self.report)],
            "detailed summary": [Reply((says("<summary>Little happened.</summary>"),), gate=self.summary)],
            "Break.": [Reply(status=400)],
        }

    @contextmanager
    def program(self, program: Program) -> Iterator[Interface]:
        """Start the program and wait until it takes prompts."""
        with Server(self.script) as server:
            self._server = server
            mode = ("--permission-mode", "default")
            with Interface(program, self.place, server.url, *mode) as interface:
                interface.see("? for shortcuts")
                yield interface

    def __enter__(self) -> Stage:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        for events in Watcher(self.board).events(self._over.is_set):
            self._checks += 1
            self.events += events

    def row(self) -> BoardRow | None:
        """Return the newest session's row."""
        rows = [row for row in self.board.rows(datetime.now(UTC)) if row.agent_id is None]
        return max(rows, key=lambda row: row.started or datetime.min.replace(tzinfo=UTC), default=None)

    def _requests(self) -> list[Json]:
        return self._server.requests if self._server else []

    def has_asked(self, words: str) -> Callable[[], bool]:
        """Return what tells whether the program has asked the API for something."""
        return lambda: any(words in str(request["messages"][-4:]) for request in self._requests())

    def expect(self, state: str, holds: Callable[[BoardRow], bool]) -> None:
        """The board must say so within a second of now, by what it is allowed to know."""

        def is_seen() -> bool:
            row = self.row()
            return row is not None and holds(row) and row.verdict.source in (self.way.source, EvidenceSource.TRANSCRIPT)

        checks = self._checks
        try:
            took = until(is_seen, lambda: f"{state}: the board says {self.row()}", patience=5.0)
        except AssertionError:
            if self.way.source is EvidenceSource.TRANSCRIPT and state in CALLS and not self._is_written(CALLS[state]):
                raise LineKeptBack from None
            raise
        if self._checks - checks > CHECKS_WITHIN:
            self.seen[state] = max(self.seen.get(state, 0.0), took)
        else:
            self.seen.setdefault(state, 0.0)

    def _is_written(self, tool: str) -> bool:
        """Whether the last line of a message is one of the model that calls a tool."""
        row = self.row()
        lines = Path(row.path).read_bytes().splitlines() if row and row.path else []
        messages = [line for line in map(json.loads, lines) if line["type"] in ("user", "assistant")]
        return bool(messages) and messages[-1]["type"] == "assistant" and f'"{tool}"' in json.dumps(messages[-1])


@pytest.mark.parametrize("name", WAYS)
def test_the_board_says_what_the_program_does_within_a_second(name: str, tmp_path: Path) -> None:
    way = WAYS[name]
    program = installed(way.version)
    try:
        stage = _play_all(way, program, tmp_path)
    finally:
        _end_processes_below(tmp_path)
    sources = {event.verdict.source for event in stage.events if event.verdict}
    assert set(stage.seen) == set(way.states)
    assert {state: took for state, took in stage.seen.items() if took > WITHIN} == {}
    assert way.source in sources
    assert EvidenceSource.REGISTRY not in sources or way.source is EvidenceSource.REGISTRY


def _end_processes_below(folder: Path) -> None:
    """End what runs in a folder: commands in the background outlive some versions of Claude Code."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if Path(process.cwd()).is_relative_to(folder):
                process.kill()


def _play_all(way: Way, program: Program, root: Path) -> Stage:
    """Go through all states, once more where Claude Code has kept a line back."""
    for number in range(TRIES):
        with Stage(way, root / str(number)) as stage:
            try:
                _play(stage, program)
            except LineKeptBack:
                continue
            if "killed" in way.states:
                _kill(stage, program)
            return stage
    raise AssertionError(f"Claude Code kept a line back in each of {TRIES} runs")


def _play(stage: Stage, program: Program) -> None:
    """Go through the states once."""
    with stage.program(program) as interface:
        interface.say("Say hello.", stage.has_asked("Say hello."))
        stage.expect("working", lambda row: row.verdict.activity.kind is ActivityKind.THINKING)
        stage.gate.touch()
        interface.see("Hello to you.")
        stage.expect("waiting", lambda row: row.verdict.activity.kind is ActivityKind.WAITING)
        interface.say("Ask me.", stage.has_asked("Ask me."))
        interface.see("Enter to select")
        stage.expect(
            "question",
            lambda row: (
                row.verdict.activity.kind is ActivityKind.QUESTION and row.verdict.activity.message == "Which colour?"
            ),
        )
        interface.press_until(ENTER, interface.shows("Thanks."))
        stage.expect("waiting", lambda row: row.verdict.activity.kind is ActivityKind.WAITING)
        _allow_and_stop(stage, interface)
        _send_and_compact(stage, interface)
        if "background" in stage.way.states:
            _run_in_background(stage, interface)
        if "error" in stage.way.states:
            interface.say("Break.", stage.has_asked("Break."))
            interface.see("as the script")
            stage.expect("error", lambda row: row.verdict.activity.kind is ActivityKind.ERROR)
        if "ended" in stage.way.states:
            asks = interface.shows("Exit and stop tasks")  # while a command runs in the background
            interface.say("/exit", lambda: interface.process.poll() is not None or asks())
            if interface.process.poll() is None:
                interface.press_until(ENTER, lambda: interface.process.poll() is not None)
            stage.expect("ended", lambda row: row.verdict.activity.kind is ActivityKind.ENDED)


def _allow_and_stop(stage: Stage, interface: Interface) -> None:
    """Let a command run that is asked for, and interrupt it."""
    interface.say("Make a file.", stage.has_asked("Make a file."))
    interface.see("Do you want to proceed?")
    stage.expect("permission", _asks)
    interface.press_until(ENTER, (stage.place.work / "made").exists)
    if "running" in stage.way.states:
        stage.expect(
            "running",
            lambda row: row.verdict.activity.kind is ActivityKind.RUNNING and row.verdict.activity.tool == "Bash",
        )
    interface.press_until(ESCAPE, interface.shows("nterrupted", "What should Claude do instead?"))
    stage.expect("interrupted", lambda row: row.verdict.activity.kind is ActivityKind.INTERRUPTED)


def _run_in_background(stage: Stage, interface: Interface) -> None:
    """Start a command in the background: the turn ends, and the session is not plainly waiting."""
    interface.say("Serve it.", stage.has_asked("Serve it."))
    interface.press_until(ENTER, interface.shows("It is served."))
    stage.expect(
        "background",
        lambda row: (
            row.verdict.activity.kind is ActivityKind.BACKGROUND
            and row.verdict.activity.target.startswith("tail -f")
            and row.commands == 1
        ),
    )


def _send_and_compact(stage: Stage, interface: Interface) -> None:
    """Let an agent work, and the conversation be compacted."""
    interface.say("Send an agent.", stage.has_asked("Report."))
    stage.expect(
        "agents",
        lambda row: (
            row.verdict.activity.kind is ActivityKind.AGENTS and row.verdict.activity.count == 1 and row.agents == 1
        ),
    )
    stage.report.touch()
    # When, the screen does not show.
    until(lambda: _waits(stage.row()), lambda: f"the board says {stage.row()}", interface.patience)
    if "compacting" in stage.way.states:
        interface.say("/compact", stage.has_asked("detailed summary"))
        stage.expect("compacting", lambda row: row.verdict.activity.kind is ActivityKind.COMPACTING)
        stage.summary.touch()
        interface.see("ompacted")
        stage.expect("waiting", lambda row: row.verdict.activity.kind is ActivityKind.WAITING)


def _waits(row: BoardRow | None) -> bool:
    return row is not None and row.verdict.activity.kind is ActivityKind.WAITING


def _asks(row: BoardRow) -> bool:
    return (
        row.verdict.activity.kind is ActivityKind.PERMISSION
        and row.verdict.activity.tool == "Bash"
        and row.verdict.activity.target.startswith("touch")
    )


def _kill(stage: Stage, program: Program) -> None:
    """A process that is killed while it asks for permission does not ask any more."""
    (stage.place.work / "made").unlink()
    with stage.program(program) as interface:
        interface.say("Make a file.", stage.has_asked("Make a file."))
        interface.see("Do you want to proceed?")
        stage.expect("permission", _asks)
        os.kill(interface.process.pid, signal.SIGKILL)
        interface.process.wait(30)
        stage.expect("killed", lambda row: row.verdict.activity.kind is ActivityKind.ENDED)
