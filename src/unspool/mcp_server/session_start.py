"""The text that the plugin's SessionStart hook offers to a new session: earlier work in the same project.

Rules
  1. It takes a moment: one query of the store as it is. Nothing is read from session files and nothing is brought up to
     date, because Claude Code waits for it.
  2. It never fails: where there is nothing to say, it says nothing.
  3. At most 300 tokens, redacted, and between the marks of untrusted text: titles come from transcripts.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from unspool.errors import UnspoolError
from unspool.mcp_server.answer import BudgetedAnswer
from unspool.store import IN_FOLDER, STORE, folder_parameters

OFFER_TOKENS: Final = 300
_SESSIONS: Final = 4
_STARTS: Final = frozenset({"startup", "clear"})
"""A session that is resumed or compacted knows its own past."""


def offer_earlier_work(given: bytes, folder: Path, roots: Sequence[Path]) -> str:
    """Return what the hook prints: JSON with the offer, or nothing. `given` is what Claude Code sends to the hook."""
    with suppress(ValueError, RecursionError, sqlite3.Error, OSError, UnspoolError):
        event = json.loads(given)
        event = event if isinstance(event, dict) else {}
        cwd, session, source = (event.get(name) for name in ("cwd", "session_id", "source"))
        if isinstance(cwd, str) and source in (*_STARTS, None):
            text = _describe_sessions(_read_sessions(folder, roots, cwd, session if isinstance(session, str) else ""))
            if text:
                offer = {"hookEventName": "SessionStart", "additionalContext": text}
                return json.dumps({"suppressOutput": True, "hookSpecificOutput": offer})
    return ""


def _read_sessions(folder: Path, roots: Sequence[Path], cwd: str, session: str) -> list[tuple[Any, ...]]:
    """Return the newest sessions of a working folder, but for one."""
    query = f"""SELECT n.session_id, n.title, n.last, n.branch, n.turns
        FROM sessions n JOIN sources s ON s.id = n.source_id
        WHERE {IN_FOLDER} AND n.cwd = :cwd AND n.session_id <> :session AND coalesce(n.hidden, '') = ''
        ORDER BY n.last DESC LIMIT {_SESSIONS}"""
    # Only for reading: a store that another process writes, or of another version, is left as it is.
    with closing(sqlite3.connect(f"file:{quote(str(folder / STORE))}?mode=ro", uri=True, timeout=0.2)) as database:
        values = {**folder_parameters(list(roots)), "cwd": cwd, "session": session}
        return database.execute(query, values).fetchall()


def _describe_sessions(rows: Sequence[tuple[Any, ...]]) -> str:
    from unspool.redact import Redactor

    redactor = Redactor(secrets.token_bytes(32))
    answer = BudgetedAnswer(OFFER_TOKENS, lambda text: redactor.redact_text(text, Counter()), secrets.token_hex(8))
    for id, title, last, branch, turns in rows:
        parts = [f"- session {id[:8]}", (last or "")[:10], answer.line(branch or "", 40), answer.line(title or "", 90)]
        if not (title or "").strip() or not turns or not answer.add(" · ".join(part for part in parts if part)):
            continue
    if answer.is_empty:
        return ""
    answer.hint(
        "Earlier sessions in this folder, newest first. If the task continues one of them or needs a decision from it, "
        "ask the unspool tools (recall_decisions, read_session) first; else ignore this."
    )
    return answer.finish()
