"""`unspool compare`: two sessions or branches side by side, or groups of sessions by their medians."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from difflib import unified_diff
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from unspool.cli import options, output, store_access
from unspool.cli.session_argument import open_session_in_folders, sessions_newest_first
from unspool.display import TextColumn, units
from unspool.errors import NothingFound, UsageError

if TYPE_CHECKING:
    from unspool.home import Session
    from unspool.page.analysis import ComparedSession
    from unspool.store import StoreAccess

_Opened: TypeAlias = "tuple[Session, StoreAccess | None, int | None]"
_BRANCH = re.compile(r"(.+)#(\d{1,6})", re.DOTALL)
_GROUP_FIGURES = ("turns", "requests", "cost_micros", "tool_calls", "errors", "files_changed", "active_seconds")
_MAX_DIFF_LINES = 5000
"""Lines of requests that are compared: the time grows with the square."""
_LEAST_PATH = 30
_MAX_SIDE = 60
"""Characters of a prompt or call in a column."""


@click.command()
@click.argument("sessions", metavar="[SESSION]...", nargs=-1, shell_complete=options.complete_session)
@click.option("--messages", is_flag=True, help="Print the difference of the requests that both would send next")
@click.option(
    "--by",
    type=click.Choice(["model", "version", "project", "branch", "prompt"]),
    help="Print a table of groups with the medians of their sessions",
)
@click.option("--prompt", metavar="TEXT", help="Compare all sessions whose first prompt begins with TEXT")
@options.store_options
@options.output_options
@output.paged
def compare(
    *,
    sessions: tuple[str, ...],
    messages: bool,
    by: str | None,
    prompt: str | None,
    access: options.AccessOptions,
    as_json: bool,
) -> None:
    """Compare two sessions, two branches, or groups of sessions.

    Two sessions are printed side by side: what differs in settings, context, cost, time, files and result, then their
    turns, aligned by prompts and tool calls. `SESSION#2` is the second branch of a session. Three or more sessions,
    `--prompt` and `--by` print a table; the figures of a group are medians.

    \b
    unspool compare 945090a1 3fefcfd0
    unspool compare 3fefcfd0#1 3fefcfd0#2 --messages
    unspool compare --prompt 'Fix the failing test' --by model
    """
    if messages and (len(sessions) != 2 or by or prompt is not None):
        raise UsageError("--messages needs two sessions", hint="name two sessions or branches")
    if prompt is None and by is None and len(sessions) < 2:
        raise UsageError("two sessions are needed", hint="name two, or use `--prompt TEXT` or `--by model`")
    with ExitStack() as stack:
        opened: list[_Opened] = []
        for name in sessions:
            # The folders are the same for all: what of them cannot be read is said once.
            is_told = any(folders is not None for _, folders, _ in opened)
            opened.append(_open(stack, name, access, is_quiet=is_told))
        if messages:
            _print_messages(opened, as_json=as_json)
            return
        compared = [_read(*session) for session in opened]
        if not sessions:
            folders = stack.enter_context(store_access.open_folders(access))
            compared = _read_all(folders, prompt)
        elif prompt is not None:
            compared = [session for session in compared if _begins(session.first_prompt, prompt)]
        if not compared:
            raise NothingFound("no sessions found", hint="list sessions with `unspool ls`")
    if len(sessions) == 2 and by is None and len(compared) == 2:
        _print_pair(*compared, as_json=as_json)
    else:
        _print_groups(compared, by or "model", as_json=as_json)


def _open(stack: ExitStack, name: str, access: options.AccessOptions, *, is_quiet: bool) -> _Opened:
    match = _BRANCH.fullmatch(name)
    branch = int(match[2]) if match else None
    session, folders = stack.enter_context(
        open_session_in_folders(match[1] if match else name, access, is_quiet=is_quiet)
    )
    return session, folders, branch


def _read(session: Session, folders: StoreAccess | None, branch: int | None) -> ComparedSession:
    from unspool.page.readers import PricedRequest, read_compared_session, read_paid_requests
    from unspool.store import PriceLookup

    if folders is None:  # a file alone: what stands in it is all there is
        prices = PriceLookup(())
        requests = [PricedRequest(str(session.path), one, prices.price(one)) for one in session.responses]
    else:
        requests = read_paid_requests(session, folders.ledger, PriceLookup(folders.preferences.prices))
    return read_compared_session(session, requests, branch)


def _read_all(folders: StoreAccess, prompt: str | None) -> list[ComparedSession]:
    """Read all sessions, or those whose first prompt begins with a text; those that lists hide are left out."""
    chosen = (
        session
        for session in sessions_newest_first(folders)
        if session.facts.hidden is None and (prompt is None or _begins(session.facts.first_prompt, prompt))
    )
    return [_read(session, folders, None) for session in chosen]


def _begins(text: str, prompt: str) -> bool:
    return " ".join(text.split()).startswith(" ".join(prompt.split()))


def _print_messages(opened: Sequence[tuple[Session, Any, int | None]], *, as_json: bool) -> None:
    from unspool.page.readers import context_messages

    names = [f"{session.id}{f'#{branch}' if branch else ''}" for session, _, branch in opened]
    sides = [context_messages(session, branch) for session, _, branch in opened]
    same = next(
        (number for number, (a, b) in enumerate(zip(*sides, strict=False)) if a != b), min(len(side) for side in sides)
    )
    texts = [
        [line for message in side[same:] for line in json.dumps(message, ensure_ascii=False, indent=1).split("\n")]
        for side in sides
    ]
    if max(map(len, texts)) > _MAX_DIFF_LINES:
        output.warn(f"compared the first {_MAX_DIFF_LINES:,} lines of what differs")
        texts = [lines[:_MAX_DIFF_LINES] for lines in texts]
    difference = list(unified_diff(texts[0], texts[1], names[0], names[1], lineterm="", n=2))
    if as_json:
        data = {"a": names[0], "b": names[1], "messages": [len(side) for side in sides], "same_messages": same,
                "difference": difference}  # fmt: skip
        output.write_document("compare-messages", data)
        return
    output.print_line(f"{units.amount(same, 'message')} of {len(sides[0]):,} and {len(sides[1]):,} are the same")
    for line in difference:
        output.print_line(line)


def _print_pair(a: ComparedSession, b: ComparedSession, *, as_json: bool) -> None:
    from unspool.page.analysis import (
        FIGURES,
        describe_outside_turns,
        list_differences,
        session_data,
        short_names,
        turns_data,
    )

    found, turns = list_differences(a, b), turns_data(a, b)
    if as_json:
        output.write_document("compare", {"a": session_data(a), "b": session_data(b), **found, "turns": turns})
        return
    columns = [TextColumn(""), *(TextColumn(name, right=True, least=8) for name in short_names(a, b))]
    rows: list[tuple[str, ...]] = [("title", a.title[:_MAX_SIDE], b.title[:_MAX_SIDE])]
    rows += [(one["setting"], one["a"] or "-", one["b"] or "-") for one in found["settings"]]
    rows += [(FIGURES[one["figure"]], *_cells(one, a, b)) for one in found["figures"]]
    rows.append(("ended", a.ended or "-", b.ended or "-"))
    output.print_table(
        [*columns, TextColumn("DIFFERENCE", right=True)], [(*row, _difference(row, found)) for row in rows]
    )
    if found["context"]:
        output.print_line()
        sizes = [(one["kind"], units.size(one["a"]), units.size(one["b"])) for one in found["context"]]
        output.print_table([TextColumn("CONTEXT"), *columns[1:]], sizes)
    if found["files"]:
        output.print_line()
        sides = sum(max(len(name), 8) + 2 for name in short_names(a, b))
        room = max(output.terminal_width() - sides, _LEAST_PATH)
        changes = [(_cut_path(one["path"], room), _lines(one["a"]), _lines(one["b"])) for one in found["files"]]
        output.print_table([TextColumn("FILE", least=20), *columns[1:]], changes)
    output.print_line()
    _print_turns(turns, (describe_outside_turns(a), describe_outside_turns(b)))


def _cut_path(path: str, room: int) -> str:
    """Return the end of a path: it says more than its beginning."""
    return path if len(path) <= room else f"…{path[1 - room :]}"


def _difference(row: tuple[str, ...], found: dict[str, Any]) -> str:
    from unspool.page.analysis import FIGURES

    figure = next((each for each in found["figures"] if FIGURES[each["figure"]] == row[0]), None)
    if figure is None or not figure["difference"]:
        return ""
    words = _format_figure(figure["figure"], abs(figure["difference"]))
    return f"{'+' if figure['difference'] > 0 else '-'}{words}"


def _format_figure(name: str, value: float | None, unpriced_tokens: float | None = 0) -> str:
    from unspool.page.analysis import format_figure  # start-up: help needs none of it

    return format_figure(name, value, unpriced_tokens)


def _cells(figure: dict[str, Any], *sides: ComparedSession) -> tuple[str, ...]:
    name = figure["figure"]
    return tuple(
        _format_figure(name, figure[key], side.figures["unpriced_tokens"])
        for key, side in zip("ab", sides, strict=True)
    )


def _lines(changed: dict[str, int] | None) -> str:
    return "-" if changed is None else f"+{changed['added']:,} -{changed['removed']:,}"


def _print_turns(turns: Sequence[dict[str, Any]], outside: tuple[str, str]) -> None:
    rows: list[tuple[str, ...]] = []
    for pair in turns:
        rows.append(("=" if pair["same_prompt"] else "≠", *(_turn_words(pair[side]) for side in "ab")))
        rows += [
            ("  =" if calls["same"] else "  ≠", *(_call_words(calls[side]) for side in "ab")) for calls in pair["calls"]
        ]
    if any(outside):
        rows.append(("", *(f"outside of turns: {words}" if words else "" for words in outside)))
    if rows:
        output.print_table([TextColumn(""), TextColumn("A", least=20), TextColumn("B", least=20)], rows)


def _turn_words(turn: dict[str, Any] | None) -> str:
    if turn is None:
        return ""
    first = " ".join(turn["prompt"].split())[:_MAX_SIDE]
    took = units.duration(timedelta(seconds=turn["seconds"]))
    return f"{turn['turn']} · {first} ({units.cost(turn['cost_micros'], turn['unpriced_tokens'])}, {took})"


def _call_words(call: dict[str, Any] | None) -> str:
    return "" if call is None else f"{'✗' if call['failed'] else '✓'} {call['name']} {call['target'][:_MAX_SIDE]}"


def _print_groups(compared: Sequence[ComparedSession], by: str, *, as_json: bool) -> None:
    from unspool.page.analysis import FIGURES, group_sessions, session_data

    groups = group_sessions(compared, by)
    if as_json:
        items = [{"group": row.name, "sessions": row.sessions, "medians": row.medians} for row in groups]
        data = {"by": by, "items": items, "sessions": [session_data(one) for one in compared]}
        output.write_document("compare-groups", data, [])
        return
    columns = [TextColumn(by.upper(), least=16), TextColumn("SESSIONS", right=True)]
    columns += [TextColumn(FIGURES[name].upper(), right=True) for name in _GROUP_FIGURES]
    rows = [
        (row.name or "-", f"{row.sessions:,}", *(_format_figure(name, row.medians[name]) for name in _GROUP_FIGURES))
        for row in groups
    ]
    output.print_table(columns, rows)
    output.print_line(f"medians of {units.amount(len(compared), 'session')}")
