"""The history that the server answers from: some folders, their store, the live board, and the rules of redaction.

Rules
  1. Only the folders that were named are read: every query of the store is limited to them, and a session is found by
     its id among theirs. No argument of a tool becomes a path.
  2. A tool call reads the store as it is. The store is brought up to date by a thread beside the calls: a call waits
     for it a moment, and longer only if the folders were never read.
  3. All text that leaves passes `redact`, unless the user has turned that off.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Final

from unspool.errors import AmbiguousSession, NotFound, UnspoolError
from unspool.mcp_server.answer import BudgetedAnswer, defuse, one_line
from unspool.store import IN_FOLDER, folder_parameters
from unspool.store.sync import is_synced

if TYPE_CHECKING:
    from datetime import datetime

    from unspool.live import Board
    from unspool.live.state import BoardRow
    from unspool.page import PageView
    from unspool.redact import Redactor
    from unspool.store import StoreAccess
    from unspool.web.serving import KeptEngine, OpenSessions, Site

_FRESH_SECONDS: Final = 2.0
"""After an update, for which no other one is started; longer if updates take long (`_MAX_SHARE`)."""
_MAX_SHARE: Final = 0.05
"""Of the time, that updates may take: checking 7,000 files takes 0.1 s of CPU."""
_BOARD_SECONDS: Final = 2.0
"""After which all files are checked again for the live board."""
_WAIT_SECONDS: Final = 0.1
"""That a call waits for a refresh; the budget of a call is 0.3 seconds."""
_FIRST_WAIT_SECONDS: Final = 25.0
"""The same if the folders were never read. Claude Code gives a tool call a minute."""
_MIN_PREFIX: Final = 4
"""Characters of an id that name a session."""
_MAX_CHOICES: Final = 5


class History:
    """Sessions, plans and costs of some folders, for one server."""

    def __init__(self, site: Site, redactor: Redactor | None) -> None:
        self.site = site
        self._redactor = redactor
        self._updates = _StoreUpdates(site)
        self._board_checked = float("-inf")

    def begin_answer(self, budget: int, *, updated: bool = True) -> BudgetedAnswer:
        """Return an empty answer with marks of its own; the store is brought up to date first."""
        answer = BudgetedAnswer(budget, self.redact, secrets.token_hex(8), self.find_token_parts)
        if updated and (note := self.update()):
            answer.hint(defuse(one_line(note, 300)))
        return answer

    def find_token_parts(self, text: str) -> dict[str, str]:
        """Return the parts of the tokens that are cut in a text, each with the marker in its place."""
        return {} if self._redactor is None else self._redactor.find_token_parts(text)

    def redact(self, text: str) -> str:
        """Return a text without secrets."""
        return text if self._redactor is None else self._redactor.redact_text(text, Counter())

    def update(self) -> str | None:
        """Let the store be brought up to date; return what a caller should know if it is not complete."""
        return self._updates.wait()

    def warm_up(self) -> None:
        """Begin to bring the store up to date, and load what most tools need, without waiting for either."""
        self._updates.start()
        threading.Thread(target=_load_modules, name="load-modules", daemon=True).start()

    def read_board(self, now: datetime) -> list[BoardRow]:
        """Return what each session is doing; all files are checked at most once in a while, those at work always."""
        is_due = time.monotonic() - self._board_checked > _BOARD_SECONDS
        self._board.refresh(None if is_due else ())
        if is_due:
            self._board_checked = time.monotonic()
        return self._board.rows(now)

    @cached_property
    def _board(self) -> Board:
        from unspool.live import SIGNALS_FOLDER, Board

        return Board(self.site.roots, self.site.folder / SIGNALS_FOLDER, clock=self.site.clock)

    @cached_property
    def sql_engine(self) -> KeptEngine:
        """The SQL engine, which stays for some time after a query."""
        from unspool.web.serving import KeptEngine

        return KeptEngine(self.site)

    @cached_property
    def _open_sessions(self) -> OpenSessions:
        from unspool.web.serving import OpenSessions

        return OpenSessions(self.site)

    @contextmanager
    def open_session(self, id: str, agent: str | None = None) -> Iterator[PageView]:
        """Open a session, or one of its agents, by its whole id."""
        with self._open_sessions.open(id, agent) as view:
            yield view

    def find_session(self, name: str) -> str:
        """Return the id of the session that an id, its beginning, or a title names."""
        name = name.strip()
        with self.site.open() as access:
            rows = _find_named(access, name)
        if not rows:
            raise NotFound(f"no session matches `{one_line(name, 60)}`", hint="find sessions with search_sessions")
        ids = list(dict.fromkeys(id for id, _ in rows))
        if len(ids) > 1:
            raise NotFound(
                f"{len(ids)} sessions match `{one_line(name, 60)}`",
                hint=f"use one of these ids: {', '.join(ids[:_MAX_CHOICES])}",
            )
        return ids[0]


def _find_named(access: StoreAccess, name: str) -> list[tuple[str, str]]:
    """Return id and title of the sessions that a name means: by id, by the beginning of one, by title."""
    if access.database is None:
        try:
            session = access.home.session(name)
        except AmbiguousSession as error:
            return [(session.id, "") for session in error.sessions]
        except UnspoolError:
            return []
        return [(session.id, "")]
    query = f"""SELECT n.session_id, coalesce(n.title, '') FROM sessions n JOIN sources s ON s.id = n.source_id
        WHERE {IN_FOLDER} AND %s ORDER BY n.last DESC"""
    ways = ["n.session_id = :name"]
    if len(name) >= _MIN_PREFIX:
        ways += ["substr(n.session_id, 1, length(:name)) = :name", "n.title = :name", "instr(lower(n.title), :lower)"]
    values = {**folder_parameters(access.roots), "name": name, "lower": name.lower()}
    for way in ways:
        if rows := access.database.execute(query % way, values).fetchall():
            return rows
    return []


def _load_modules() -> None:
    """Load what most tools need; a door loads when a name is used."""
    from unspool.live import Board  # noqa: F401
    from unspool.store.catalog import list_sessions  # noqa: F401
    from unspool.store.search import read_turn_texts, search_corpora  # noqa: F401


class _StoreUpdates:
    """Brings the store up to date in a thread, one update at a time."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = float("-inf")
        self._took = 0.0
        """Seconds of the last update."""
        self._error: str | None = None
        self._is_complete = False

    def start(self) -> threading.Thread | None:
        """Start an update, unless one has just ended; return the one that runs."""
        with self._lock:
            pause = max(_FRESH_SECONDS, self._took / _MAX_SHARE)
            if self._thread is None and time.monotonic() - self._ended > pause:
                # A daemon: a server that is told to end must not wait for it. The store survives that.
                self._thread = threading.Thread(target=self._run, name="store-update", daemon=True)
                self._thread.start()
            return self._thread

    def wait(self) -> str | None:
        thread = self.start()
        if thread is not None and not self._is_known():
            thread.join(_FIRST_WAIT_SECONDS)
        elif thread is not None and self._took < _WAIT_SECONDS:
            thread.join(_WAIT_SECONDS)
        if self._error is not None:
            return f"The store could not be updated: {self._error}. Results may be missing."
        if not self._is_known():
            return "The sessions are being read for the first time, so results are missing. Ask again in a minute."
        return None

    def _is_known(self) -> bool:
        """Tell whether the folders were read once: else there is nothing to answer from yet."""
        if not self._is_complete:
            try:
                with self._site.open() as access:
                    self._is_complete = access.database is None or is_synced(access.database, access.roots)
            except UnspoolError as error:
                self._error = error.message
                return True
        return self._is_complete

    def _run(self) -> None:
        begun = time.monotonic()
        try:
            self._site.refresh()
            self._error = None
        except UnspoolError as error:
            self._error = error.message
        finally:
            with self._lock:
                self._ended, self._thread = time.monotonic(), None
                self._took = self._ended - begun
