"""Sessions that are happening now: a config folder in, sessions in every state in it, each with a process that lives.

The processes do nothing; they are there so that what the registry says of them is true.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from unspool.format.base import encode_json
from unspool.testing.build import Built, Json, Step, assistant, note, session, text, tool_result, tool_use, user

_OPTIONS = [{"label": "Half even", "description": "As banks do"}, {"label": "Half up", "description": "As shops do"}]
_QUESTION = [{"question": "How should half a cent be rounded?", "header": "Rounding", "options": _OPTIONS}]


class State(NamedTuple):
    """A session in some state: what it is called, where it works, what happened last, what the registry says."""

    title: str
    project: str
    branch: str
    steps: tuple[Step, ...]
    registry: Json | None
    ago: timedelta = timedelta(seconds=20)


def states() -> dict[str, State]:
    """Return the states there are, by name."""
    busy: Json = {"status": "busy"}
    return {
        "permission": State(
            "Publish the package", "tidewatch", "release",
            (user("Publish it."), assistant("It is ready.", tool_use("Bash", command="git push --tags"))),
            {"status": "waiting", "waitingFor": "permission prompt"},
        ),
        "question": State(
            "Make the cart total right", "shop", "cart-total",
            (user("What about half a cent?"), assistant(tool_use("AskUserQuestion", questions=_QUESTION))),
            {"status": "waiting", "waitingFor": "input needed"}, timedelta(minutes=2),
        ),
        "running": State(
            "Time every harbour", "tidewatch", "bench",
            (user("Measure."), assistant("This takes a while.", tool_use("Bash", command="python bench/all.py"))), busy,
        ),
        "thinking": State(
            "Read bank statements", "ledger", "bank-import",
            (
                user("Import the statements."), assistant(tool_use("Read", file_path="/home/me/ledger/bank.py")),
                tool_result("COLUMNS = 3"),
            ), busy, timedelta(seconds=6),
        ),
        "waiting": State(
            "Empty list on the page of today", "birds", "main",
            (user("Why is it empty?"), assistant("The view gives no list. It does now.")),
            {"status": "idle"}, timedelta(minutes=4),
        ),
        "interrupted": State(
            "Rewrite it in Rust", "shop", "rust",
            (user("Begin."), assistant("I'd begin with the types."), user(text("[Request interrupted by user]"))),
            {"status": "idle"}, timedelta(minutes=1),
        ),
        "killed": State(
            "Check the gauges", "tidewatch", "main",
            (user("Check."), assistant(tool_use("Bash", command="python gauges.py"))), None, timedelta(minutes=9),
        ),
    }  # fmt: skip


def session_id(name: str) -> str:
    """Return the id of the session in a state."""
    return f"11fe0000-0000-4000-8000-{list(states()).index(name):012d}"


def built(name: str, now: datetime) -> Built:
    """Return the session in a state, whose last line is as old as it should be."""
    state = states()[name]
    start = (now - state.ago - timedelta(seconds=len(state.steps))).astimezone(UTC)
    stamp = start.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return session(
        note("ai-title", aiTitle=state.title), *state.steps, id=session_id(name), cwd=f"/home/me/{state.project}",
        branch=state.branch, start=stamp, permissionMode="default",
    )  # fmt: skip


@contextmanager
def happening(config: Path, now: datetime | None = None) -> Iterator[dict[str, Path]]:
    """Write a session in every state; give the file of each. Their processes end afterwards."""
    moment = now or datetime.now(UTC)
    folder = config / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as processes:
        files = {}
        for name, state in states().items():
            made = built(name, moment)
            files[name] = made.save(config)
            process = processes.enter_context(living())
            began = round((moment - state.ago).timestamp() * 1000)
            entry: Json = {"pid": process.pid, "sessionId": made.id, "cwd": made.cwd, "startedAt": began}
            entry |= {"procStart": started(process.pid), "version": "2.1.325", "kind": "interactive"}
            entry |= {"entrypoint": "cli", "name": state.title, "updatedAt": began, "statusUpdatedAt": began}
            entry |= state.registry if state.registry is not None else {"status": "busy", "procStart": "1"}
            (folder / f"{process.pid}.json").write_bytes(encode_json(entry))
        yield files


@contextmanager
def living() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that waits until it is ended."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        yield process
    finally:
        process.communicate(timeout=30)


def started(pid: int) -> str:
    """Return when a process began, as the registry has it: ticks since the machine did."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
