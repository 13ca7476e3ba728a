"""Sessions that somebody looks at, kept open: an id in, the session's view out.

Rules
  1. An id is compared with the ids of sessions, whole. It never becomes part of a path.
  2. A view is used by one thread at a time. It takes in what was appended before it answers.
  3. Few are kept: a view knows where things stand, and reads them again when they are asked for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from unspool.errors import NotFound
from unspool.export.page.view import View
from unspool.home import Home, Reader, Session
from unspool.read.scan import Kind
from unspool.store.archive import Archive
from unspool.store.database import open_archive
from unspool.store.keeping import KeptReader, session_tree
from unspool.web.place import Place

MOST: Final = 6
"""How many are kept."""


class Views:
    """The views of sessions."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.Lock()
        self._here = threading.local()

    @contextmanager
    def open(self, id: str) -> Iterator[View]:
        """Give the view of a session, up to date, to one thread."""
        with self._lock:
            kept = self._kept.setdefault(id, _Kept())
            self._kept.move_to_end(id)
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        with kept.lock:
            if kept.view is None:
                try:
                    kept.view = View.read(self._session(id))
                except BaseException:
                    with self._lock:
                        self._kept.pop(id, None)
                    raise
            else:
                kept.view.grow()
            yield kept.view

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
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.view: View | None = None
