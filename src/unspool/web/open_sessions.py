"""Sessions that somebody looks at, kept open: an id in, the session's view out.

Rules
  1. An id is compared with the ids of sessions, whole. It never becomes part of a path.
  2. A view is used by one thread at a time. It takes in what was appended before it answers, and what that was is
     remembered for a while: several pages may follow a session, each from where it was made.
  3. Few are kept: a view knows where things stand, and reads them again when they are asked for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, TypeAlias

from unspool.errors import NotFound
from unspool.home import Home, Reader, Session
from unspool.page.index_cache import LONG, Memory
from unspool.page.view import Growth, View
from unspool.read.scan import Kind
from unspool.store.archive.archive import Archive
from unspool.store.archive.reader import KeptReader, session_tree
from unspool.store.database import open_archive
from unspool.web.site import Place

MOST: Final = 6
"""How many are kept."""
_Key: TypeAlias = tuple[str, str | None]
"""A session, or one of its agents."""
_REMEMBERED: Final = 500
"""How often a session may grow before a page that has slept through it is told to begin anew."""


class Views:
    """The views of sessions."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._lock = threading.Lock()
        self._here = threading.local()
        self._memory = Memory(place.folder)

    @contextmanager
    def open(self, id: str, agent: str | None = None) -> Iterator[View]:
        """Give the view of a session, or of one of its agents, up to date, to one thread."""
        with self._kept_open((id, agent)) as kept:
            yield kept.view

    @contextmanager
    def follow(self, id: str, agent: str | None, since: int) -> Iterator[tuple[View, list[Growth]]]:
        """Give a view, and how it has grown since it had so many bytes."""
        with self._kept_open((id, agent)) as kept:
            yield kept.view, kept.since(since)

    @contextmanager
    def _kept_open(self, key: _Key) -> Iterator[_Kept]:
        with self._lock:
            kept = self._kept.setdefault(key, _Kept())
            self._kept.move_to_end(key)
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        with kept.lock:
            with ExitStack() as failed:
                failed.callback(self._forget, key)
                kept.grow(lambda: self._view(*key))
                failed.pop_all()
            yield kept

    def _forget(self, key: _Key) -> None:
        with self._lock:
            self._kept.pop(key, None)

    def _view(self, id: str, agent: str | None) -> View:
        session = self._session(id)
        if agent is None:
            return self._remembered(session)
        for source in session.agent_sources:
            if agent in (source.agent_id, source.path.stem):
                view = View(session, source)
                view.grow()
                return view
        raise NotFound(f"no such agent: `{agent}`", hint="the page of the session lists its agents")

    def _remembered(self, session: Session) -> View:
        """Read a session; a long one from where it was read to before."""
        if session.source.size < LONG:
            return View.read(session)
        kept = self._memory.get(session.path)
        view = View.read(session, kept)
        if kept is None or view.position > session.source.size * 1.1:
            self._memory.put(session.path, view.keep())
        return view

    def _session(self, id: str) -> Session:
        with self._place.opened() as opened:
            if opened.database is None:
                home = opened.home
            else:
                home = Home(session_tree(opened.database, opened.root, id), self._reader())
        found = [source for source in home.tree.of(Kind.SESSION) if (source.session_id or source.path.stem) == id]
        if not found:
            raise NotFound(
                f"no such session: `{id}`", hint="it may be too new to be known; `/sessions` lists what there is"
            )
        return Session(max(found, key=lambda source: source.modified), home)

    def _reader(self) -> Reader:
        return KeptReader(self._archive)

    def _archive(self) -> Archive:
        """Return the archive, opened once by each thread: a connection is used where it was made."""
        archive: Archive | None = getattr(self._here, "archive", None)
        if archive is None:
            archive = self._here.archive = Archive(open_archive(self._place.folder))
        return archive


class _Kept:
    """A view, and how it has grown while it was kept."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._view: View | None = None
        self._first = 0
        self._grown: deque[Growth] = deque()

    @property
    def view(self) -> View:
        assert self._view is not None
        return self._view

    def grow(self, read: Callable[[], View]) -> None:
        """Read the file, or what was appended to it."""
        if self._view is None:
            self._view = read()
            self._first = self._view.position
            return
        grown = self._view.grow()
        if grown.restarted:
            self._grown.clear()
            self._first = grown.position + 1  # whoever stands anywhere begins anew
        elif grown:
            self._grown.append(grown)
            while len(self._grown) > _REMEMBERED:
                self._first = self._grown.popleft().position

    def since(self, position: int) -> list[Growth]:
        """Return what has come after a position; that everything is to be asked for again if that is not known."""
        if not self._first <= position <= self.view.position:
            return [Growth(self.view.position, (), True, True)] if position != self.view.position else []
        return [grown for grown in self._grown if grown.position > position]
