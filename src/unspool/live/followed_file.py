"""Follows one session file while it is written: reads what was appended, keeps its state, and makes events of it.

Rules
  1. Only what is new is read (`read/tail.py`); an incomplete last line waits for its end.
  2. A file that is not the same any more (replaced, truncated, rewritten) is read again from the start.
  3. Title, folder, branch, context and times of a session are those of `graph/session_facts.py`, as in every list.
  4. Lines before `quiet_until` change the state but make no events. Neither do lines of a new file that are older than
     the file could be: a forked session begins with the lines of another.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from unspool.errors import NotFound, UnspoolError
from unspool.format import Entry, parse_local_time
from unspool.graph import FactsCollector, SessionFacts, add_entry_facts, is_special_fork
from unspool.live.session_files import SessionFileName
from unspool.live.state.events import LiveEvent, events_of_record
from unspool.live.state.metadata import SessionMetadata
from unspool.live.state.model import RESTING, ActivityKind, SessionStatus, Verdict
from unspool.live.state.status import SessionState, next_state, status_at
from unspool.read import MAX_SEARCHED, START, Change, Stamp, endless_reason, pieces

MAX_LINE_AGE = timedelta(minutes=2)
"""How long before a file is found its first line may have been written."""


class FollowedFile:
    """A session's file, or a sub-agent's, with what was read of it and what was last reported about it."""

    def __init__(
        self, path: str, name: SessionFileName, quiet_until: int = 0, found_at: datetime | None = None
    ) -> None:
        self.path, self.name = path, name
        self.quiet_until = quiet_until
        self._found_at = found_at
        """When it was found, if it is new and was not read yet."""
        self.stamp: Stamp | None = None
        self.position = START
        self.state = SessionState(is_agent=name.is_agent)
        self.metadata = SessionMetadata(is_agent=name.is_agent)
        self._collector = FactsCollector()
        self._facts: tuple[int, SessionFacts] | None = None
        """The facts of the lines before an offset."""
        self.verdict: Verdict | None = None
        self.status: SessionStatus | None = None
        self.problem: str | None = None
        """Why it cannot be read, if it cannot."""
        self.process_seen_at: datetime | None = None
        """When its process was last seen alive."""
        self._reported: tuple[object, ...] = ()
        """The title and metadata that were last reported."""

    @property
    def session_id(self) -> str:
        """The session that the file belongs to."""
        return self.name.session_id or self.metadata.session_id or self.name.agent_id or ""

    @property
    def facts(self) -> SessionFacts:
        """The facts that lists of sessions show, of the lines so far."""
        # Kept: every row of the board asks for them, several times a second.
        if self._facts is None or self._facts[0] != self.position.offset:
            self._facts = (self.position.offset, self._collector.facts())
        return self._facts[1]

    @property
    def title(self) -> str:
        """The title to show: that of a session is the same in every list, that of a sub-agent is its task."""
        return self.metadata.title if self.name.is_agent else self.facts.title

    @property
    def last(self) -> datetime | None:
        """When the last line was written."""
        return parse_local_time(self.facts.last, UTC) or self.state.last_line_at

    @property
    def is_special(self) -> bool:
        """Whether Claude Code started this agent for its own purposes."""
        return is_special_fork(self.name.agent_id or "") or (self.name.is_agent and self.metadata.is_warmup)

    @property
    def is_shown(self) -> bool:
        """Whether the board has a row for it: not for special agents, and not before the first prompt."""
        return not self.is_special and (self.state.last_event_at is not None or bool(self.metadata.goal))

    @property
    def is_working(self) -> bool:
        """Whether its last verdict says that it is doing something."""
        return self.verdict is not None and self.verdict.activity.kind not in RESTING

    def apply_verdict(self, verdict: Verdict, now: datetime) -> list[LiveEvent]:
        """Take a verdict and return the events for what has changed."""
        before, status = self.verdict, status_at(self.state, now)
        is_new = before is None or _essence(before) != _essence(verdict) or self.status is not status
        was_running = before is not None and before.activity.kind is not ActivityKind.ENDED
        self.verdict, self.status = verdict, status
        if not self.is_shown:
            return []
        events = [self.event("status", now)] if is_new else []
        if was_running and verdict.activity.kind is ActivityKind.ENDED:
            events.append(self.event("session_ended", now))
        return [*events, *self._metadata_events(now)]

    def _metadata_events(self, now: datetime) -> list[LiveEvent]:
        """Return the events for a new title or new metadata."""
        metadata = self.metadata
        facts = {"model": metadata.model, "branch": metadata.branch, "cwd": metadata.cwd, "goal": metadata.goal}
        current = (self.title, *facts.values())
        before, self._reported = self._reported, current
        if not before or before == current:
            return []
        events = []
        if before[0] != self.title:
            events.append(replace(self.event("title", now), text=self.title))
        if before[1:] != current[1:]:
            events.append(replace(self.event("session_changed", now), facts=facts))
        return events

    def event(self, kind: str, now: datetime) -> LiveEvent:
        """Return an event about the file as it is now."""
        return LiveEvent(
            event=kind,
            session=self.session_id,
            at=now,
            path=self.path,
            end=self.position.offset,
            agent=self.name.agent_id,
            status=self.status,
            verdict=self.verdict,
        )

    def read(self, stamp: Stamp, now: datetime) -> Iterator[LiveEvent]:
        """Read what is new and yield its events; a file that cannot be read yields none."""
        self.stamp, self.problem = stamp, None
        try:
            for number, piece in enumerate(pieces(Path(self.path), self.position)):
                if not number and piece.change in (Change.TRUNCATED, Change.REPLACED, Change.REWRITTEN):
                    self.state = SessionState(is_agent=self.name.is_agent)
                    self.metadata = SessionMetadata(is_agent=self.name.is_agent)
                    self._collector, self._facts = FactsCollector(), None
                    # What the file holds now was reported before, in part: only what is appended later is news.
                    self.quiet_until = stamp.size
                self.position = piece.position
                for item in piece.items:
                    if isinstance(item, Entry):
                        yield from self._add(item, now)
        except NotFound:  # the next walk will tell
            return
        except UnspoolError as error:
            self.problem = error.reason
            return
        if stamp.size - self.position.offset > MAX_SEARCHED:  # a sparse file, or a line without an end
            self.problem = endless_reason(self.position.offset, stamp.size)
        self._found_at = None

    def _add(self, entry: Entry, now: datetime) -> Iterator[LiveEvent]:
        record = entry.record
        if record.agent_id and self.metadata.session_id is None and not self.name.is_agent:
            # Only the first line shows that the file is a sub-agent's, whatever its name.
            self.name = SessionFileName(record.session_id, record.agent_id, self.name.project)
            self.state, self.metadata = replace(self.state, is_agent=True), SessionMetadata(is_agent=True)
        self.metadata.add_record(record)
        add_entry_facts(self._collector, entry)
        self._facts = None
        self.state = next_state(self.state, record, now)
        time = parse_local_time(record.timestamp, UTC)
        is_copy = self._found_at is not None and time is not None and self._found_at - time > MAX_LINE_AGE
        if entry.offset >= self.quiet_until and not is_copy and (self.name.is_agent or not record.is_sidechain):
            event = replace(self.event("", now), offset=entry.offset, end=entry.offset + entry.length)
            yield from events_of_record(record, event, self.metadata.cwd)


def _essence(verdict: Verdict) -> tuple[object, ...]:
    """Return what makes a verdict a new one: all but since when it holds."""
    return verdict.activity, verdict.source, verdict.probably
