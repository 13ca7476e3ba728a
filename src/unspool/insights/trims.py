"""Suggests trims: plans one for the sessions with the fullest contexts, by the planner of `unspool edit trim`.

Rules
  1. The plan decides: what it saves, what the rewrite costs, and after how many requests that is paid for.
  2. Few sessions are planned, and none that is large: a plan reads all of a session.
  3. A saving that is small, or never paid for, is no suggestion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from unspool.edit import plan_edit
from unspool.edit.planning import Trim
from unspool.errors import UnspoolError
from unspool.insights.analysis import Suggestion
from unspool.store import StoreAccess

_MAX_PLANS: Final = 3
_MAX_BYTES: Final = 8 * 1024 * 1024
"""A plan takes about 0.1 s for a megabyte."""
_MIN_CONTEXT: Final = 20_000
_MIN_SAVED: Final = 5_000
"""Tokens."""
_TRIM: Final = Trim(results=True, superseded_reads=True, older_than=3, larger_than=2048)
_OPTIONS: Final = "--superseded-reads --results --older-than 3 --larger-than 2048"


def suggest_trims(access: StoreAccess, contexts: Sequence[dict[str, Any]]) -> list[Suggestion]:
    """Return the sessions that are worth trimming, among rows of the section `contexts`."""
    largest = sorted(contexts, key=lambda row: row["last_tokens"] or 0, reverse=True)
    candidates = [row for row in largest if row["session_id"] and (row["last_tokens"] or 0) >= _MIN_CONTEXT][
        :_MAX_PLANS
    ]
    suggestions = (_suggest_trim(access, row) for row in candidates)
    return [one for one in suggestions if one is not None]


def _suggest_trim(access: StoreAccess, row: dict[str, Any]) -> Suggestion | None:
    id = row["session_id"]
    try:
        session = access.home.session(id)
        if session.id != id or session.source.size > _MAX_BYTES:
            return None
        plan = plan_edit(session, _TRIM).plan
    except UnspoolError:  # gone, damaged, or nothing to trim: then there is nothing to suggest
        return None
    before, after = plan.context_tokens
    payback = plan.payback
    if before - after < _MIN_SAVED or payback is None or payback.requests is None:
        return None
    return Suggestion(
        kind="trim",
        action=f"Trim it before you resume it: its context has {before:,} tokens, and {after:,} without results that "
        "are three prompts old.",
        text=f"unspool edit trim {id} {_OPTIONS}",
        project=session.project or "",
        saved={
            "tokens": before - after,
            "saved_micros_per_request": payback.saved_micros,
            "rewrite_micros": payback.rewrite_micros,
            "requests_to_pay_back": payback.requests,
        },
        computed=f"the plan of `unspool edit trim`: {payback.rewritten_tokens:,} tokens are written to the cache once, "
        "and every later request reads fewer; the tokens are estimated from the session's own usage",
        lines=[line for line in row["places"] or () if line],
        evidence=1,
    )
