"""A config folder for tests of the live board: sessions that are written now, processes, a clock that can be moved."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from unspool.live.board import Board
from unspool.live.state.events import LiveEvent
from unspool.live.state.rows import BoardRow
from unspool.processes import read_start_ticks
from unspool.testing.build import Built, Step, session

ID = "00000000-0000-4000-8000-000000000001"
OTHER = "00000000-0000-4000-8000-000000000002"


class World:
    """The folder, and a board over it."""

    def __init__(self, root: Path) -> None:
        self.root = root / "claude"
        self.signals = root / "signals"
        for folder in (self.root / "projects", self.signals):
            folder.mkdir(parents=True)
        # A little ago: the times of files are a few milliseconds behind the clock.
        self.begun = datetime.now(UTC) - timedelta(milliseconds=50)
        self.later = timedelta()
        self.board = self.another()

    def another(self, **how: Any) -> Board:
        return Board(self.root, self.signals, clock=self.now, **how)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.later

    def build(self, *steps: Step, id: str = ID, **how: Any) -> Built:
        """Build a session whose lines are of now."""
        start = self.begun.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return session(*steps, id=id, start=start, step=0.001, **how)

    def save(self, *steps: Step, id: str = ID, **how: Any) -> Path:
        return self.build(*steps, id=id, **how).save(self.root)

    def agent(self, main: Path, *steps: Step, id: str = "a1b2c3d") -> Path:
        path = main.with_suffix("") / "subagents" / f"agent-{id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.build(*steps, agent=id).data)
        return path

    def append(self, path: Path, *steps: Step) -> None:
        with path.open("ab") as file:
            file.write(self.build(*steps).data)

    def process(self, pid: int | None = None, **fields: Any) -> Path:
        """Say that a process runs the session: this one, if no other is named."""
        folder = self.root / "sessions"
        folder.mkdir(exist_ok=True)
        number = pid or os.getpid()
        started = {"procStart": read_start_ticks(number) or "1", "startedAt": self.begun.timestamp() * 1000}
        path = folder / f"{number}.json"
        value = {"pid": number, "sessionId": ID, "cwd": "/home/me/project", "version": "2.1.325", **started, **fields}
        path.write_text(json.dumps(value))
        return path

    def rows(self) -> list[BoardRow]:
        return self.board.rows(self.now())

    def row(self, id: str = ID) -> BoardRow:
        return next(row for row in self.rows() if row.session_id == id and row.agent_id is None)


def kinds(events: list[LiveEvent]) -> list[str]:
    return [event.event for event in events]
