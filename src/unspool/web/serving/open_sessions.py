"""Sessions that pages look at, kept open: returns the view of a session, or of one of its agents, up to date.

Rules
  1. An id is compared with the ids of sessions, whole. It never becomes part of a path.
  2. A view is used by one thread at a time. It reads what was appended before it answers, and remembers that for a
     while: several pages may follow a session, each from where it was loaded.
  3. Of several files with one id the one that changed last is meant; of those as long, one that has its agents.
  4. Few are kept: a view holds offsets, and reads lines again when they are shown.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, TypeAlias

from unspool.errors import NotFound
from unspool.home import Home, Session
from unspool.page import MIN_CACHED_BYTES, Growth, IndexCache, PageView
from unspool.store import open_archive
from unspool.store.archive import Archive, ArchiveReader, find_session_files
from unspool.web.serving.site import Site

MAX_OPEN: Final = 6
_MAX_GROWTHS: Final = 500
"""How often a session may grow before a page that was away is told to load everything again."""
_Key: TypeAlias = tuple[str, str | None]
"""A session, or one of its agents."""


class OpenSessions:
    """The views of the sessions that were used last."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._open: OrderedDict[_Key, _OpenView] = OrderedDict()
        self._lock = threading.Lock()
        self._local = threading.local()
        self._cache = IndexCache(site.store_folder)

    @contextmanager
    def open(self, id: str, agent: str | None = None) -> Iterator[PageView]:
        """Give one thread the view of a session, or of one of its agents, up to date."""
        with self.follow(id, agent, 0) as (view, _):
            yield view

    @contextmanager
    def follow(self, id: str, agent: str | None, since: int) -> Iterator[tuple[PageView, list[Growth]]]:
        """Give one thread a view, and how it has grown since it had so many bytes."""
        key = (id, agent)
        with self._lock:
            kept = self._open.setdefault(key, _OpenView())
            self._open.move_to_end(key)
            while len(self._open) > MAX_OPEN:
                self._open.popitem(last=False)
        with kept.lock:
            with ExitStack() as failed:  # what could not be read is tried anew by the next request
                failed.callback(self._forget, key)
                view = kept.read(lambda: self._read(id, agent))
                failed.pop_all()
            yield view, kept.growths_since(view, since)

    def _forget(self, key: _Key) -> None:
        with self._lock:
            self._open.pop(key, None)

    def _read(self, id: str, agent: str | None) -> PageView:
        session = self._find_session(id)
        if agent is None:
            return self._read_session(session)
        return PageView(session, prices=self._site.preferences.prices).open_agent(agent)

    def _read_session(self, session: Session) -> PageView:
        """Read a session; a long one from where its cached index ends."""
        prices = self._site.preferences.prices
        if session.source.size < MIN_CACHED_BYTES:
            return PageView.read(session, prices=prices)
        packed = self._cache.get(session.path)
        view = PageView.read(session, packed, prices=prices)
        # Not on every opening: only if the file has grown by a tenth beyond what the store knew.
        if packed is None or view.position > session.source.size * 1.1:
            self._cache.put(session.path, view.pack())
        return view

    def _find_session(self, id: str) -> Session:
        with self._site.open() as access:
            if access.database is None:
                home = access.home
            else:
                home = Home(find_session_files(access.database, access.roots, id), ArchiveReader(self._open_archive))
        found = [session for session in home.sessions() if session.id == id]
        if not found:
            raise NotFound(
                f"no session matches `{id}`", hint="list sessions at `/sessions`; a new session may not be indexed yet"
            )
        newest = max(found, key=lambda session: (not session.is_missing, session.source.modified))
        # A copy in another folder may be newer, only because it was copied, and lack the files of the agents.
        whole = [one for one in found if one.agent_sources and one.source.size >= newest.source.size]
        return newest if newest.agent_sources or not whole else max(whole, key=lambda one: one.source.modified)

    def _open_archive(self) -> Archive:
        """Return the archive, opened once by each thread: a connection is used where it was made."""
        archive: Archive | None = getattr(self._local, "archive", None)
        if archive is None:
            archive = self._local.archive = Archive(open_archive(self._site.store_folder))
        return archive


class _OpenView:
    """A view, and how it has grown while it was open."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._view: PageView | None = None
        self._first = 0
        """The first position from which all growths are remembered."""
        self._growths: deque[Growth] = deque()

    def read(self, open_view: Callable[[], PageView]) -> PageView:
        """Read the file, or what was appended to it."""
        if self._view is None:
            self._view = open_view()
            self._first = self._view.position
            return self._view
        growth = self._view.grow()
        if growth.restarted:
            self._growths.clear()
            self._first = growth.position + 1  # beyond every position: whoever follows loads everything again
        elif growth:
            self._growths.append(growth)
            while len(self._growths) > _MAX_GROWTHS:
                self._first = self._growths.popleft().position
        return self._view

    def growths_since(self, view: PageView, position: int) -> list[Growth]:
        """Return what has come after a position; a restart if that is not remembered."""
        if not self._first <= position <= view.position:
            return [Growth(view.position, (), True, True)] if position != view.position else []
        return [growth for growth in self._growths if growth.position > position]
