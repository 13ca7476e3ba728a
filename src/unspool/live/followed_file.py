"""One file that is followed: what was appended in, state and events out.

Rules
  1. Only what is new is read (`read/tail.py`); a torn last line waits for its end.
  2. A file that is not the one it was (replaced, truncated, rewritten) starts again from nothing.
  3. Lines before `quiet_until` are taken and not told of. Of a file that has just come to be, neither are lines that
     are older than it could be: a fork begins with the lines of another session.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from unspool.errors import UnspoolError
from unspool.format.entry import Entry
from unspool.graph.session_facts import is_special
from unspool.live.events import Event, told
from unspool.live.metadata import About
from unspool.live.model import Kind, Status, Verdict
from unspool.live.session_files import Name
from unspool.live.status import State, after, moment, status_at
from unspool.read.position import START, Change
from unspool.read.scan import Stamp
from unspool.read.tail import pieces

RESTING = (Kind.IDLE, Kind.ENDED)
NEWS = timedelta(minutes=2)
"""How long before a file is found its first line may have been written."""


class Followed:
    """A session's file, or a sub-agent's, as far as it was read."""

    def __init__(self, path: str, name: Name, quiet_until: int = 0, begun: datetime | None = None) -> None:
        self.path, self.name = path, name
        self.begun = begun
        """When it was found, until it has been read."""
        self.stamp: Stamp | None = None
        self.position = START
        self.quiet_until = quiet_until
        self.state = State(is_agent=name.is_agent)
        self.about = About(is_agent=name.is_agent)
        self.verdict: Verdict | None = None
        """What was last told of it."""
        self.status: Status | None = None
        self.seen: datetime | None = None
        """When its process was last seen alive."""
        self.told: tuple[object, ...] = ()
        """What was last told of what it is about."""

    @property
    def session_id(self) -> str:
        """Whose file it is."""
        return self.name.session_id or self.about.session_id or self.name.agent_id or ""

    @property
    def is_special(self) -> bool:
        """Whether the program made this agent for itself."""
        return is_special(self.name.agent_id or "") or (self.name.is_agent and self.about.is_warmup)

    @property
    def is_empty(self) -> bool:
        """Whether nobody has said anything in it."""
        return self.state.event is None and not self.about.goal

    @property
    def is_shown(self) -> bool:
        """Whether the board has a row for it."""
        return not self.is_special and not self.is_empty

    @property
    def works(self) -> bool:
        """Whether it is doing something, as far as was told."""
        return self.verdict is not None and self.verdict.detail.kind not in RESTING

    def hear(self, found: Verdict, now: datetime) -> list[Event]:
        """Take a verdict and return what is new about the file."""
        before, status = self.verdict, status_at(self.state, now)
        is_new = before is None or _told(before) != _told(found) or self.status is not status
        ends = before is not None and found.detail.kind is Kind.ENDED and before.detail.kind is not Kind.ENDED
        self.verdict, self.status = found, status
        if not self.is_shown:
            return []
        events = [self.event("status", now)] if is_new else []
        if ends:
            events.append(self.event("session_ended", now))
        return [*events, *self._changes(now)]

    def _changes(self, now: datetime) -> list[Event]:
        """Return what is new of what it is about."""
        about = self.about
        facts = {"model": about.model, "gitBranch": about.branch, "cwd": about.cwd, "goal": about.goal}
        current = (about.title, *facts.values())
        before, self.told = self.told, current
        if not before or before == current:
            return []
        events = []
        if before[0] != about.title:
            events.append(replace(self.event("title", now), text=about.title))
        if before[1:] != current[1:]:
            events.append(replace(self.event("session_changed", now), facts=facts))
        return events

    def event(self, kind: str, now: datetime) -> Event:
        """Return an event about the file as it is now."""
        return Event(
            event=kind,
            session=self.session_id,
            at=now,
            path=self.path,
            end=self.position.offset,
            agent=self.name.agent_id,
            status=self.status,
            verdict=self.verdict,
        )

    def read(self, stamp: Stamp, now: datetime) -> Iterator[Event]:
        """Read what is new and yield what it tells; a file that cannot be read tells nothing."""
        self.stamp = stamp
        try:
            for number, piece in enumerate(pieces(Path(self.path), self.position)):
                if not number and piece.change in (Change.TRUNCATED, Change.REPLACED, Change.REWRITTEN):
                    self._start_again()
                self.position = piece.position
                for item in piece.items:
                    if isinstance(item, Entry):
                        yield from self._take(item, now)
        except (UnspoolError, OSError):  # it has gone, or its disk has; the next look tells
            return
        self.begun = None

    def _take(self, entry: Entry, now: datetime) -> Iterator[Event]:
        record = entry.record
        if record.agent_id and self.about.session_id is None and not self.name.is_agent:
            self._is_agent(record.agent_id, record.session_id)
        self.about.take(record)
        self.state = after(self.state, record, now)
        time = moment(record.timestamp)
        is_copy = self.begun is not None and time is not None and self.begun - time > NEWS
        if entry.offset >= self.quiet_until and not is_copy and (self.name.is_agent or not record.is_sidechain):
            base = replace(self.event("", now), offset=entry.offset, end=entry.offset + entry.length)
            yield from told(record, base, self.about.cwd)

    def _is_agent(self, agent_id: str, session_id: str | None) -> None:
        """Learn from the first line that it is a sub-agent's, whatever its name."""
        self.name = Name(session_id, agent_id, self.name.project)
        self.state, self.about = replace(self.state, is_agent=True), About(is_agent=True)

    def _start_again(self) -> None:
        self.state = State(is_agent=self.name.is_agent)
        self.about = About(is_agent=self.name.is_agent)
        self.quiet_until = self.stamp.size if self.stamp else 0


def _told(found: Verdict) -> tuple[object, ...]:
    """Return what makes a verdict another one: not since when it holds."""
    return found.detail, found.source, found.probably
