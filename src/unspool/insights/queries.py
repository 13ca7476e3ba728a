"""Builds the SQL queries of the insights from `queries.sql`: a section and a scope in, one statement out.

Rules
  1. A query is complete: printed by `unspool insights --sql NAME`, it gives `unspool sql` the same rows.
  2. What a user asked for is in it as a literal. Nothing of a transcript is part of a query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from unspool.errors import UsageError
from unspool.export import describe_calls
from unspool.store.columns import sql_literal

SECTIONS: Final = (
    "totals", "tools", "files", "projects", "failed_calls", "api_errors", "commands", "retries", "repeated_reads",
    "lost_caches", "growth", "contexts", "waits",
)  # fmt: skip
"""The sections whose query `--sql` prints."""
ALL_ROWS: Final = 1_000_000
_COMMENT: Final = re.compile(r"(?:--.*\n)*")
_PLACEHOLDER: Final = re.compile(r"\$(\w+)\$")


class InsightScope(NamedTuple):
    """What insights are about."""

    since: int | None = None
    """Milliseconds since 1970, included."""
    until: int | None = None
    """Not included."""
    project: str | None = None
    """A project's name, a part of its path, or its key."""
    session: str | None = None
    """The id of a session."""


class _Part(NamedTuple):
    needs: tuple[str, ...]
    """The parts that it is made over."""
    comment: str
    """The lines that explain it."""
    text: str


def build_query(name: str, scope: InsightScope, *, limit: int = ALL_ROWS, **values: str) -> str:
    """Return the statement of a section."""
    part = _find_part(name)
    shared = ",\n".join(_read_script()[needed].text for needed in part.needs)
    own = part.text.removeprefix("WITH ")
    between = ",\n" if own != part.text else "\n"
    query = f"WITH {shared}{between}{own}" if shared else part.text
    return _fill(part.comment + query, scope, limit, values)


def build_joint_query(names: Sequence[str], scope: InsightScope, *, limit: int) -> str:
    """Return one statement that gives the rows of several sections as JSON: what they share is computed once."""
    script = _read_script()
    needed = dict.fromkeys(need for name in names for need in _find_part(name).needs)
    shared = ",\n".join(script[name].text for name in script if name in needed)
    shared = re.sub(r"^(\w+) AS \(", r"\1 AS MATERIALIZED (", shared, flags=re.MULTILINE)
    sections = (
        f"SELECT '{name}' AS section, to_json(list(part)) AS rows FROM (\n{script[name].text}\n) AS part"
        for name in names
    )
    return _fill(f"WITH {shared}\n" + "\nUNION ALL ".join(sections), scope, limit, {})


def _find_part(name: str) -> _Part:
    script = _read_script()
    if name not in script:
        raise UsageError(f"unknown section `{name}`", hint=f"use one of: {', '.join(SECTIONS)}")
    return script[name]


def _fill(query: str, scope: InsightScope, limit: int, values: Mapping[str, str]) -> str:
    literals = {
        "since": _time_literal(scope.since),
        "until": _time_literal(scope.until),
        "project": _text_literal(scope.project.casefold().rstrip("/") if scope.project else None),
        "session": _text_literal(scope.session),
        "limit": str(limit),
        "rejected": " OR ".join(f"starts_with(t.result, {sql_literal(words)})" for words in describe_calls.REFUSALS),
        **values,
    }
    # In one go: what a user typed may look like a placeholder.
    return _PLACEHOLDER.sub(lambda found: literals[found[1]], query)


def _time_literal(time: int | None) -> str:
    return "NULL::TIMESTAMP" if time is None else f"make_timestamp({time * 1000})"


def _text_literal(text: str | None) -> str:
    return "NULL::VARCHAR" if text is None else sql_literal(text.replace("\0", "\ufffd"))


@cache
def _read_script() -> dict[str, _Part]:
    """Return the parts of the script by name, in its order; what explains a part stays in it."""
    text = Path(__file__).with_name("queries.sql").read_text("utf-8")
    head = re.compile(r"^-- (\w+)(?:: ([\w ]+))?\n", re.MULTILINE)
    found = [*head.finditer(text)]
    ends = [*(one.start() for one in found[1:]), len(text)]
    parts = {}
    for one, end in zip(found, ends, strict=True):
        needs = ("filters", *(one[2] or "").split()) if one[2] else ()
        body = text[one.end() : end].strip()
        comment = _COMMENT.match(body)
        assert comment
        parts[one[1]] = _Part(tuple(dict.fromkeys(needs)), comment[0], body[comment.end() :])
    return parts
