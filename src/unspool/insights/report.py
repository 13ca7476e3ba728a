"""Reads the insights: runs the queries in the SQL engine, and adds what SQL cannot say.

Rules
  1. Every figure is a sum of SQL (`queries.sql`), but for three that code decides, from rows that SQL lists: kinds of
     failures (`store/search/failures.py`), lost caches (`page/analysis/lost_cache.py`), and what the permission rules
     ask about (`permissions`).
  2. Each row names the lines that weigh most, each with its session, turn, file and offset.
  3. What is not known is counted in `unknown`; what is not listed in `left_out`.
  4. Trims are suggested for the sessions with the fullest contexts, by the planner of `unspool edit trim`. Few sessions
     are planned, and none that is large: a plan reads all of a session. A saving that is small, or never paid for, is
     no suggestion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from unspool.edit import plan_edit
from unspool.edit.planning import Trim
from unspool.errors import UnspoolError
from unspool.export import describe_calls
from unspool.format import format_time
from unspool.insights.analysis import ShellRun, Suggestion, find_losses, suggest_commands, sum_losses
from unspool.insights.approvals import read_approvals
from unspool.insights.queries import ALL_ROWS, InsightScope, build_joint_query, build_query
from unspool.redact import DEFAULT_OPTIONS, Redactor
from unspool.store import PriceLookup, StoreAccess
from unspool.store.columns import sql_literal
from unspool.store.search import SessionFailure, describe_failure, group_failures

if TYPE_CHECKING:
    from unspool.store.sql import SqlEngine


Json: TypeAlias = dict[str, Any]
Rows: TypeAlias = dict[str, list[Json]]

SUMMED: Final = (
    "tools", "files", "projects", "commands", "retries", "api_errors", "repeated_reads", "growth", "contexts", "waits",
)  # fmt: skip
"""The sections whose rows are those of SQL."""
SHOWN: Final = (
    "tools", "files", "projects", "failures", "commands", "retries", "api_errors", "repeated_reads", "lost_caches",
    "growth", "contexts", "approvals", "waits",
)  # fmt: skip
"""The sections, in the order in which they are shown."""
PLACES: Final = 5
"""Lines that a row names."""
_CUT: Final = ("failed_calls", "lost_caches", "shell_runs", "approved")
"""Sections whose queries have a limit of their own, because code looks at each row."""
_MAX_PLANS: Final = 3
_MAX_BYTES: Final = 8 * 1024 * 1024
"""A plan takes about 0.1 s for a megabyte."""
_MIN_CONTEXT: Final = 20_000
_MIN_SAVED: Final = 5_000
"""Tokens."""
_TRIM: Final = Trim(results=True, superseded_reads=True, older_than=3, larger_than=2048)
_OPTIONS: Final = "--superseded-reads --results --older-than 3 --larger-than 2048"
_MIN_ROWS: Final = 12
"""Sections are asked for so many rows at least: the largest contexts are candidates for a trim."""


def read_insights(engine: SqlEngine, access: StoreAccess, scope: InsightScope, *, limit: int, now: datetime) -> Json:
    """Return the insights of a scope; of each section so many rows, 0: all."""
    found = _read_sections(engine, scope, max(limit, _MIN_ROWS) if limit else ALL_ROWS)
    failures, rejected = _group_failed_calls(found["failed_calls"])
    losses = find_losses(found["lost_caches"], PriceLookup(access.preferences.prices).price)
    approvals = read_approvals(access, found["approved"], now)
    suggestions = [
        *suggest_commands([ShellRun.from_row(row) for row in found["shell_runs"]]),
        *approvals.suggestions,
        *suggest_trims(access, found["contexts"]),
    ]
    whole: Rows = {
        **{name: found[name] for name in SUMMED},
        "failures": failures,
        "lost_caches": sum_losses(losses, PLACES),
        "approvals": approvals.rows,
    }
    sections: Rows = {name: whole[name][: limit or None] for name in SHOWN}
    advice = [_suggestion_data(one) for one in _sort_suggestions(suggestions)]
    _name_places(engine, scope, [*advice, *chain(*sections.values())])
    totals = dict(found["totals"][0])
    return {
        "totals": {**totals, "rejected": rejected},
        **{name: [_without(row, "of", "weights") for row in rows] for name, rows in sections.items()},
        "suggestions": advice,
        "left_out": {
            name: rest
            for name, rows in {**{one: found[one] for one in _CUT}, **sections}.items()
            if (rest := _count_rows(whole.get(name, rows)) - len(rows)) > 0
        },
        "unknown": {"untimed_calls": totals["untimed_calls"], **approvals.unknown},
    }


def _count_rows(rows: Sequence[Json]) -> int:
    """Return how many rows there are without a limit."""
    return rows[0].get("of", len(rows)) if rows else 0


def _read_sections(engine: SqlEngine, scope: InsightScope, limit: int) -> Rows:
    query = build_joint_query(("totals", *_CUT, *SUMMED), scope, limit=limit)
    return {row["section"]: row["rows"] or [] for row in _run(engine, query)}


def _run(engine: SqlEngine, query: str) -> Iterator[Json]:
    from unspool.store.sql import fetch_objects

    return fetch_objects(engine, query)


def _group_failed_calls(rows: Sequence[Json]) -> tuple[list[Json], int]:
    """Return the failures by kind, the most frequent first, and how many calls the user rejected."""
    failed = [(_failure_of(row), row) for row in rows if not describe_calls.is_refusal(row["words"] or "")]
    by_kind: dict[str, list[Json]] = {}
    for failure, row in failed:
        by_kind.setdefault(failure.kind, []).append(row)
    kinds = []
    for kind in group_failures(failure for failure, _ in failed):
        those = by_kind[kind.kind]
        kinds.append(
            {
                "kind": kind.kind,
                "tool": kind.tool,
                "words": kind.words,
                "failures": kind.failures,
                "sessions": len(kind.sessions),
                "duration_ms": sum(row["duration_ms"] or 0 for row in those),
                "cost_micros": sum(row["cost_micros"] or 0 for row in those),
                "places": [row["line"] for row in those[:PLACES]],
            }
        )
    return kinds, len(rows) - len(failed)


def _failure_of(row: Json) -> SessionFailure:
    line = row["line"]
    words = describe_failure(row["words"] or "")
    return SessionFailure(
        line["session_id"], line["agent_id"], None, line["offset"], line["time"], row["tool"] or "", words
    )


def _sort_suggestions(suggestions: Iterable[Suggestion]) -> list[Suggestion]:
    """Return the suggestions, the one that would have saved most first; those with a secret in them are left out."""
    redactor = Redactor(b"insights", DEFAULT_OPTIONS)
    kept = (one for one in suggestions if redactor.redact_text(one.text, Counter(), personal=False) == one.text)
    return sorted(kept, key=lambda one: (one.weight, one.text), reverse=True)


def _suggestion_data(suggestion: Suggestion) -> Json:
    data = suggestion._asdict()
    return {**_without(data, "lines"), "places": data["lines"]}


def _name_places(engine: SqlEngine, scope: InsightScope, rows: Sequence[Json]) -> None:
    """Replace the lines of rows by places that people can find: with the file, the turn and the time in words."""
    lines = [line for row in rows for line in row["places"] or ()]
    found: dict[tuple[int, int], Json] = {}
    if lines:
        wanted = "[" + ", ".join(dict.fromkeys(map(_line_literal, lines))) + "]"
        for found_row in _run(engine, build_query("places", scope, asked=wanted)):
            found[found_row["source_id"], found_row["offset"]] = found_row
    for row in rows:
        weights = row.get("weights") or []
        places = []
        for number, line in enumerate(row["places"] or ()):
            about = found.get((line["source_id"], line["offset"]), {})
            places.append(
                {
                    "session_id": line["session_id"],
                    "agent_id": line["agent_id"],
                    "turn": about.get("turn"),
                    "source": about.get("path"),
                    "offset": line["offset"],
                    "time": format_time(line["time"], UTC),
                    "value": _known(weights[number]) if number < len(weights) else None,
                }
            )
        row["places"] = places


def _known(weight: int | None) -> int | None:
    """Return what a line is sorted by; what is not known is sorted as less than nothing."""
    return None if weight is None or weight < 0 else weight


def _line_literal(line: Mapping[str, Any]) -> str:
    session, time = line["session_id"], line["time"]
    return (
        f"{{'source_id': {int(line['source_id'])}, 'offset': {int(line['offset'])}::BIGINT, "
        f"'session_id': {'NULL' if session is None else sql_literal(session)}::VARCHAR, "
        f"'time': {'NULL' if time is None else int(time)}::BIGINT}}"
    )


def _without(row: Mapping[str, Any], *names: str) -> Json:
    return {name: value for name, value in row.items() if name not in names}


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
