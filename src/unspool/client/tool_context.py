"""What the tools of one conversation share: where they work, what they have seen, whom they may ask.

An agent has a desk of its own, made from that of whoever sent it (`for_agent`): it shares the folder, the tasks in the
background and the person, and has seen nothing yet.

[merged: seen.py] Which files were read, and how they were then: a file is changed only by who knows what is in it.

Rules
  1. A file that was not read, or has changed since, is not written.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from unspool.client.loop.background_tasks import Tasks
from unspool.client.protocols import Nobody, Person
from unspool.client.tools.base import Outcome

if TYPE_CHECKING:
    from unspool.api.web_fetch import Page


class Look(NamedTuple):
    """A file as it was when it was looked at."""

    modified: int
    size: int
    digest: bytes
    whole: bool
    """Whether all of it was shown."""


class Seen:
    """What has been seen of files, by their real paths."""

    def __init__(self) -> None:
        self._looks: dict[Path, Look] = {}
        self._earlier: Callable[[], Mapping[Path, str]] | None = None
        self._texts: Mapping[Path, str] = {}

    def remember(self, earlier: Callable[[], Mapping[Path, str]]) -> None:
        """Let texts that were seen before the session was gone on with count; they are asked for when one is needed."""
        self._earlier = earlier

    def text(self, path: Path) -> str | None:
        """Return what was in a file when it was seen before the session was gone on with."""
        if self._earlier is not None:
            self._texts, self._earlier = self._earlier(), None
        return self._texts.get(path)

    def note(self, path: Path, data: bytes, modified: int, *, whole: bool = True) -> None:
        """Remember a file as it is now."""
        self.keep(path, Look(modified, len(data), hashlib.sha256(data).digest(), whole))

    def keep(self, path: Path, look: Look) -> None:
        """Remember a look at a file."""
        self._looks[path] = look

    def look(self, path: Path) -> Look | None:
        """Return how a file was seen last."""
        return self._looks.get(path)

    def is_current(self, path: Path, data: bytes) -> bool:
        """Tell whether a file is as it was seen."""
        look = self._looks.get(path)
        return look is not None and look.digest == hashlib.sha256(data).digest()

    def paths(self) -> list[Path]:
        """Return the files in the order they were first seen, without those that were seen earlier."""
        return list(self._looks)


Json: TypeAlias = dict[str, Any]


class Place(NamedTuple):
    """Where a session is and works."""

    config: Path
    """The config folder."""
    project: Path
    """The project's folder inside it, where the session's file is."""
    session_id: str
    root: Path
    """The folder the session works in: where it was started."""
    added: tuple[Path, ...] = ()
    """Other folders it may work in."""

    @property
    def side(self) -> Path:
        """The folder beside the session's file: agents, overflowing results."""
        return self.project / self.session_id


class Errand(NamedTuple):
    """What an agent is sent for."""

    kind: str
    prompt: str
    description: str
    model: str | None = None
    background: bool = False


class Search(NamedTuple):
    """What the web is searched for."""

    query: str
    allowed: tuple[str, ...] = ()
    """Sites to look at, and no others."""
    blocked: tuple[str, ...] = ()


class Crew(Protocol):
    """Who can be sent: set by the loop's owner; the `Task` tool calls it."""

    async def send(self, errand: Errand, call_id: str) -> Outcome:
        """Send an agent and return what it brings back."""


class Web(Protocol):
    """The way out: pages, and a model to ask about them."""

    longest: int
    """Characters of a page that a model can be asked about."""

    async def fetch(self, url: str) -> Page:
        """Return a page of the public web; an `UnspoolError` says why there is none."""

    async def ask(self, prompt: str) -> str:
        """Ask a small model something; `ApiFailed` if it does not answer."""

    async def search(self, search: Search, notice: Callable[[Json], None]) -> list[Json] | None:
        """Search with the server's own tool; None where the endpoint has none. Content blocks otherwise."""


class Desk:
    """The state that tools may touch."""

    def __init__(self, place: Place, environment: Mapping[str, str], person: Person | None = None) -> None:
        self.place = place
        self.environment = environment
        self.person: Person = person or Nobody()
        self.asking = asyncio.Lock()
        """Held by who asks the person: one question at a time, also if several agents have some."""
        self.cwd = place.root
        """Where the shell is now; it may walk, inside the folders it may work in."""
        self.mode = "default"
        self.seen = Seen()
        self.tasks = Tasks()
        self.todos: list[Json] = []
        self.crew: Crew | None = None
        self.web: Web | None = None
        self.plan: Path | None = None
        """The file that holds the plan, in plan mode."""
        self.keep: Callable[[Path], None] = _nothing
        """Called before a file is changed, or made: its backup belongs to the session."""
        self.hides: Callable[[Path], bool] = _nowhere
        """Tells whether a rule keeps a file, by its real path, from being read: searches leave it out."""
        self.progress: Callable[[str, Json], None] = _no_progress
        """Called with a call's id and what to tell of it while it runs."""
        self.wait: Callable[[float], Awaitable[None]] | None = None

    def for_agent(self) -> Desk:
        """Return the desk of an agent."""
        desk = Desk(self.place, self.environment, self.person)
        desk.asking = self.asking
        desk.cwd, desk.mode, desk.tasks, desk.web, desk.keep = self.cwd, self.mode, self.tasks, self.web, self.keep
        desk.hides = self.hides
        return desk


def _nothing(path: Path) -> None:
    """Keep nothing."""


def _nowhere(path: Path) -> bool:
    """Hide nothing."""
    return False


def _no_progress(call_id: str, data: Json) -> None:
    """Tell nobody."""
