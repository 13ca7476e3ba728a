"""What follows a call besides its result: backups told, todos kept, links noted, the folder the shell walked to.

Rules
  1. A file that was changed is told of in a snapshot before the next request goes out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from unspool.client import events, lines
from unspool.client.backups import Backups
from unspool.client.branch import branch
from unspool.client.calls import Call
from unspool.client.desk import Desk
from unspool.client.tools.bash import pull_request
from unspool.client.tools.tool import Outcome
from unspool.client.transcript import Transcript
from unspool.client.writer import make_folder
from unspool.errors import Unwritable

Json: TypeAlias = dict[str, Any]


class Aftermath:
    """Looks after a conversation's surroundings. An agent's has its own lines; files belong to the session."""

    def __init__(self, desk: Desk, transcript: Transcript, session: Transcript, backups: Backups) -> None:
        self._desk = desk
        self._transcript = transcript
        self._session = session
        self._backups = backups
        self._todos = [*desk.todos]
        self._mode = desk.mode

    def __call__(self, call: Call, outcome: Outcome, uuid: str) -> Iterator[events.AnyEvent]:
        """Do what a call that has ended makes necessary."""
        if self._backups.changed:
            self.told_again(self._transcript.source(call.id) or uuid)
        if self._desk.todos != self._todos:
            self._todos = [*self._desk.todos]
            self._keep_todos()
            yield events.TodosChanged(todos=tuple(self._todos))
        if self._desk.mode != self._mode:
            self._mode = self._desk.mode
            yield events.ModeChanged(mode=self._mode)
        self.look_around()
        self._link(call, outcome)

    def look_around(self) -> None:
        """Let the next lines say where the shell is now, and on which branch."""
        writer, cwd = self._transcript.writer, self._desk.cwd
        there = branch(cwd)
        if (str(cwd), there) != (writer.envelope.cwd, writer.envelope.branch):
            writer.envelope = msgspec.structs.replace(writer.envelope, cwd=str(cwd), branch=there)

    def told_again(self, message: str) -> None:
        """Tell of files that are tracked since the last snapshot."""
        prompt, writer = self._session.prompt_uuid, self._session.writer
        if self._transcript is not self._session:
            message = prompt or message  # the agent's lines are in another file
        if prompt is not None:
            line = lines.snapshot(message, prompt, self._backups.told(), writer.now(), update=True)
            writer.note(line, named=False)
        self._backups.changed = False

    def _keep_todos(self) -> None:
        place, agent = self._desk.place, self._transcript.writer.envelope.agent_id
        name = f"{place.session_id}-agent-{agent or place.session_id}.json"
        write_whole(place.config / "todos" / name, msgspec.json.encode(self._todos))

    def _link(self, call: Call, outcome: Outcome) -> None:
        """Note a pull request that a call has made."""
        command = call.input.get("command")
        if outcome.is_error or not isinstance(command, str) or not isinstance(outcome.content, str):
            return
        if made := pull_request(command, outcome.content):
            about = dict(zip(("prNumber", "prUrl", "prRepository"), made, strict=True))
            id = {"sessionId": self._session.writer.envelope.session_id}
            self._session.writer.note({"type": "pr-link", **id, **about}, timed=True, named=False)


def write_whole(path: Path, data: bytes) -> None:
    """Write a small file anew, for its owner alone."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        make_folder(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(beside, flags, 0o600), "wb") as file:
            file.write(data)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise Unwritable(f"cannot write `{path}`: {(error.strerror or '').lower()}") from None
