"""Compares sessions: two side by side, aligned by prompts and tool calls; or groups of them, by their medians. Pure.

Rules
  1. Turns with the same prompt are beside each other, in the order of both sessions. Turns with other prompts between
     them are paired in their order; what is left stands alone.
  2. Within a pair of turns, calls with the same tool and target are beside each other, in the same way.
  3. A median is that of the sessions of a group that have the figure. With an even number of them it is the mean of the
     two in the middle.
  4. What is alike at the ends of two lists is paired first. Long lists are then paired by their order, and so is what
     comes after many comparisons: an alignment takes time that grows with the square, and no session may make it slow.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import repeat
from statistics import median
from typing import Any, Final, NamedTuple, TypeVar

from unspool.display import duration, short_id, units
from unspool.page.analysis.line_diff import compare_lines

MAX_ALIGNED: Final = 1500
"""Turns or calls of one side that are aligned (rule 4)."""
_MAX_COMPARISONS: Final = 3_000_000
"""Pairs of calls that are compared for two sessions: at the worst some seconds of CPU."""
FIGURES: Final = {
    "turns": "turns",
    "requests": "requests",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "cache_read_tokens": "cache read tokens",
    "cache_write_tokens": "cache write tokens",
    "cost_micros": "cost",
    "context_tokens": "context at the end",
    "compactions": "compactions",
    "tool_calls": "tool calls",
    "errors": "errors",
    "agents": "agents",
    "files_changed": "files changed",
    "lines_added": "lines added",
    "lines_removed": "lines removed",
    "wall_seconds": "time from first to last line",
    "active_seconds": "time without pauses",
}
"""The figures of a session, and what they are called."""
GROUPS: Final = ("model", "version", "project", "branch", "prompt")
"""What sessions can be grouped by."""

_Item = TypeVar("_Item")


class ComparedCall(NamedTuple):
    """A tool call."""

    name: str
    target: str
    failed: bool
    step: str


class ComparedTurn(NamedTuple):
    """A turn: its prompt, what was called, what it took."""

    number: int
    prompt: str
    calls: tuple[ComparedCall, ...] = ()
    requests: int = 0
    cost_micros: int = 0
    unpriced_tokens: int = 0
    seconds: float = 0.0
    answer: str = ""


class ComparedSession(NamedTuple):
    """A session, or a branch of one."""

    id: str
    branch: int | None
    """The number of the branch, from 1; None: all of the session."""
    title: str
    settings: Mapping[str, str]
    """Model, version, project and git branch."""
    figures: Mapping[str, int | float | None]
    turns: tuple[ComparedTurn, ...]
    files: Mapping[str, tuple[int, int]]
    """Lines added and removed, by path."""
    context: Mapping[str, int]
    """Bytes of the context at the end, by kind of content."""
    first_prompt: str = ""
    result: str = ""
    """The last answer."""
    ended: str = ""
    """How it ended: the stop reason of the last answer."""


class Pair(NamedTuple):
    """Two things beside each other, or one alone."""

    a: Any
    b: Any
    same: bool


def align(
    a: Sequence[_Item], b: Sequence[_Item], keys: Sequence[Sequence[Hashable]], most: int = MAX_ALIGNED
) -> Iterator[Pair]:
    """Yield the items of two lists beside each other; `keys` are what is compared of each, of at most so many."""
    first, second = keys
    a_start = b_start = 0
    for a_from, a_to, b_from, b_to in (*compare_lines(first, second, most), (len(a), len(a), len(b), len(b))):
        yield from map(Pair, a[a_start:a_from], b[b_start:b_from], repeat(True))
        for step in range(max(a_to - a_from, b_to - b_from)):
            one = a_from + step if a_from + step < a_to else None
            other = b_from + step if b_from + step < b_to else None
            yield Pair(
                None if one is None else a[one],
                None if other is None else b[other],
                one is not None and other is not None and first[one] == second[other],
            )
        a_start, b_start = a_to, b_to


def align_turns(a: ComparedSession, b: ComparedSession) -> list[Pair]:
    """Return the turns of two sessions beside each other (rule 1)."""
    keys = [[" ".join(turn.prompt.split()) for turn in side.turns] for side in (a, b)]
    return list(align(a.turns, b.turns, keys))


def align_calls(turns: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Yield for each pair of turns their calls beside each other (rule 2)."""
    left = _MAX_COMPARISONS
    for pair in turns:
        first, second = (turn.calls if turn else () for turn in (pair.a, pair.b))
        keys = [[(call.name, call.target) for call in side] for side in (first, second)]
        needed = len(first) * len(second)
        yield list(align(first, second, keys, MAX_ALIGNED if needed <= left else 0))
        left -= needed if needed <= left else 0


def list_differences(a: ComparedSession, b: ComparedSession) -> dict[str, Any]:
    """Return what differs between two sessions, as plain data."""
    return {
        "figures": [
            {"figure": name, "a": a.figures.get(name), "b": b.figures.get(name), "difference": _minus(b, a, name)}
            for name in FIGURES
        ],
        "settings": [
            {"setting": name, "a": a.settings.get(name, ""), "b": b.settings.get(name, "")}
            for name in dict.fromkeys([*a.settings, *b.settings])
        ],
        "context": [
            {"kind": kind, "a": a.context.get(kind, 0), "b": b.context.get(kind, 0)}
            for kind in sorted({*a.context, *b.context}, key=lambda kind: -max(_both(a.context, b.context, kind)))
        ],
        "files": [
            {"path": path, "a": _changed(a, path), "b": _changed(b, path)} for path in sorted({*a.files, *b.files})
        ],
    }


def _both(a: Mapping[str, int], b: Mapping[str, int], kind: str) -> tuple[int, int]:
    return a.get(kind, 0), b.get(kind, 0)


def _minus(one: ComparedSession, other: ComparedSession, name: str) -> int | float | None:
    first, second = one.figures.get(name), other.figures.get(name)
    return None if first is None or second is None else first - second


def _changed(session: ComparedSession, path: str) -> dict[str, int] | None:
    found = session.files.get(path)
    return None if found is None else {"added": found[0], "removed": found[1]}


class GroupRow(NamedTuple):
    """The sessions of a group, and their medians (rule 3)."""

    name: str
    sessions: int
    medians: dict[str, float | int | None]


def group_sessions(sessions: Iterable[ComparedSession], by: str) -> list[GroupRow]:
    """Return the medians of sessions that have the same model, version, project, branch or first prompt."""
    groups: dict[str, list[ComparedSession]] = {}
    for session in sessions:
        name = " ".join(session.first_prompt.split())[:200] if by == "prompt" else session.settings.get(by, "")
        groups.setdefault(name, []).append(session)
    return [
        GroupRow(name, len(members), {figure: _median(members, figure) for figure in FIGURES})
        for name, members in sorted(groups.items())
    ]


def _median(members: Sequence[ComparedSession], figure: str) -> float | int | None:
    values = [value for member in members if (value := member.figures.get(figure)) is not None]
    return median(values) if values else None


def format_figure(name: str, value: float | None, unpriced_tokens: float | None = 0) -> str:
    """Return a figure as people read it; a cost with a sign for tokens without a price."""
    if name == "cost_micros":
        return units.cost(None if value is None else round(value), 1 if unpriced_tokens else 0)
    if value is None:
        return "-"
    if name.endswith("_seconds"):
        return duration(timedelta(seconds=value))
    return f"{value:,.1f}" if value != int(value) else f"{int(value):,}"


def short_names(a: ComparedSession, b: ComparedSession) -> tuple[str, str]:
    """Return the beginnings of two ids that tell them apart, with the numbers of branches."""
    shown = [short_id(one.id) for one in (a, b)]
    while a.id != b.id and shown[0] == shown[1]:
        shown = [one.id[: len(short) + 1] for one, short in zip((a, b), shown, strict=True)]
    first, second = (_name_side(one, short) for one, short in zip((a, b), shown, strict=True))
    return first, second


def _name_side(session: ComparedSession, short: str) -> str:
    # The beginning of a UUID is known as such; that of another name is not.
    cut = "…" if 8 < len(short) < len(session.id) else ""
    return f"{short}{cut}{f'#{session.branch}' if session.branch else ''}"


def outside_turns(session: ComparedSession) -> dict[str, int]:
    """Return what no turn has: calls and requests before the first prompt, and of agents that no call started."""
    turns = session.turns
    figures = {name: int(session.figures.get(name) or 0) for name in ("requests", "cost_micros", "tool_calls")}
    return {
        "requests": figures["requests"] - sum(turn.requests for turn in turns),
        "cost_micros": figures["cost_micros"] - sum(turn.cost_micros for turn in turns),
        "tool_calls": figures["tool_calls"] - sum(len(turn.calls) for turn in turns),
    }


def describe_outside_turns(session: ComparedSession) -> str:
    """Return in words what no turn has; empty if that is nothing."""
    left = outside_turns(session)
    calls = units.amount(left["tool_calls"], "tool call") if left["tool_calls"] > 0 else ""
    requests = units.amount(left["requests"], "request") if left["requests"] > 0 else ""
    paid = units.dollars(left["cost_micros"]) if left["cost_micros"] > 0 else ""
    return ", ".join(part for part in (requests, paid, calls) if part)


def session_data(session: ComparedSession) -> dict[str, Any]:
    """Return a session as plain data, without its turns."""
    return {
        "session_id": session.id,
        "branch": session.branch,
        "title": session.title,
        **{name: session.settings.get(name, "") for name in ("model", "version", "project")},
        "git_branch": session.settings.get("branch", ""),
        "figures": dict(session.figures),
        "outside_turns": outside_turns(session),
        "first_prompt": session.first_prompt,
        "result": session.result,
        "ended": session.ended,
    }


def turns_data(a: ComparedSession, b: ComparedSession) -> list[dict[str, Any]]:
    """Return the aligned turns of two sessions as plain data."""
    turns = align_turns(a, b)
    return [
        {
            "same_prompt": pair.same,
            "a": _turn_data(pair.a),
            "b": _turn_data(pair.b),
            "calls": [{"same": one.same, "a": _call_data(one.a), "b": _call_data(one.b)} for one in calls],
        }
        for pair, calls in zip(turns, align_calls(turns), strict=True)
    ]


def _turn_data(turn: ComparedTurn | None) -> dict[str, Any] | None:
    if turn is None:
        return None
    return {
        "turn": turn.number,
        "prompt": turn.prompt,
        "requests": turn.requests,
        "cost_micros": turn.cost_micros,
        "unpriced_tokens": turn.unpriced_tokens,
        "seconds": turn.seconds,
        "answer": turn.answer,
    }


def _call_data(call: ComparedCall | None) -> dict[str, Any] | None:
    return call._asdict() if call is not None else None
