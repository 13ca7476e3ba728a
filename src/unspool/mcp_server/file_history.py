"""The tool `find_file_history`: which sessions changed a file, when, why, and how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from unspool.display import amount
from unspool.errors import UnspoolError, UsageError
from unspool.format import local_time, milliseconds, parse_time_range
from unspool.mcp_server.answer import BudgetedAnswer
from unspool.mcp_server.arguments import FileArguments
from unspool.mcp_server.history import History
from unspool.page import PageView
from unspool.page.analysis import FileReview, review_file
from unspool.page.readers import find_changed_files, read_changes, read_first_versions
from unspool.store.catalog import FileHistoryRow, find_changed_paths, read_file_history

_MAX_SESSIONS: Final = 8
"""That are opened for one answer."""
_MAX_PATHS: Final = 30
_PROMPT: Final = 240
_DIFF_LINES: Final = 400


def find_file_history(history: History, given: FileArguments) -> str:
    """Answer with the sessions that changed a file, newest first, each with its prompts and its diff."""
    answer = history.begin_answer(given.token_budget)
    since, _ = parse_time_range(given.since, None, history.site.now(), history.site.zone)
    with history.site.open() as access:
        if access.database is None:
            raise UsageError("the history of a file needs the store", hint='use search_sessions {"file": "NAME"}')
        path, others = given.path, list[tuple[str, int]]()
        rows = read_file_history(access.database, access.roots, path)
        if not rows:
            others = find_changed_paths(access.database, access.roots, path)
            exact = [name for name, _ in others if name.endswith(f"/{path.lstrip('/')}")]
            if len(others) == 1 or len(exact) == 1:
                path = exact[0] if len(exact) == 1 else others[0][0]
                rows = read_file_history(access.database, access.roots, path)
    if not rows:
        _add_paths(answer, others)
        return answer.finish()
    if since is not None:
        rows = [row for row in rows if (milliseconds(row.last) or 0) >= since]
    answer.add(f"{path}: changed by {amount(len(rows), 'session')}")
    shown = 0
    for row in rows[given.offset : given.offset + _MAX_SESSIONS]:
        # One session must not take all: the next one may have the reason.
        most = answer.left if len(rows) == 1 else max(answer.left * 2 // 3, 150)
        if answer.left < 80 or not answer.add(
            "\n".join(_describe_change(history, answer, row, path)), most=min(most, answer.left - 2)
        ):
            break
        shown += 1
    if not rows:
        answer.hint("No session changed it since then.")
    elif given.offset + shown < len(rows):
        # With the path that was given: the found one comes from a transcript.
        answer.hint_call(
            "Earlier", "find_file_history", path=given.path, since=given.since, offset=given.offset + shown
        )
    answer.hint('The turn behind a change: read_session {"session": ID, "turn": N}.')
    return answer.finish()


def _add_paths(answer: BudgetedAnswer, paths: list[tuple[str, int]]) -> None:
    for path, _ in paths[:_MAX_PATHS]:
        if not answer.add(f"- {answer.line(path, 300)}"):
            break
    answer.hint(
        f"{len(paths)} changed files have this in their path: name one of them." if paths else "No session changed it."
    )


def _describe_change(history: History, answer: BudgetedAnswer, row: FileHistoryRow, path: str) -> Iterator[str]:
    """Yield the lines about what one session did to a file."""
    last = local_time(milliseconds(row.last), history.site.zone)
    when = f"{last:%Y-%m-%d %H:%M}" if last else "?"
    yield (
        f"- session {row.session[:8]} · {when} · {answer.line(row.title or '(no title)', 120)} · "
        f"{amount(row.changes, 'change')} +{row.added} -{row.removed}"
    )
    try:
        with history.open_session(row.session) as view:
            review = _read_review(view, path)
            yield from _describe_prompts(answer, view, review)
            yield from _diff(review)
    except UnspoolError as error:
        yield f"  its transcript cannot be read: {error.message}"


def _read_review(view: PageView, path: str) -> FileReview:
    files = [file for file in find_changed_files(view).files if file.path == path]
    changes = read_changes(view, files[0]) if files else []
    if not changes:
        return FileReview(path=path, changes=(), is_net=False)
    review = review_file(path, changes)
    if review.before is None and not review.is_net:
        base = read_first_versions(view, [path]).get(path)
        review = review_file(path, changes, base) if base is not None else review
    return review


def _describe_prompts(answer: BudgetedAnswer, view: PageView, review: FileReview) -> Iterator[str]:
    turns = dict.fromkeys(change.turn for change in review.changes)
    for turn in turns:
        if turn is not None and 0 <= turn < len(view.index.turns):
            yield f"  turn {turn}, prompt: {answer.line(view.index.turns[turn].prompt, _PROMPT)}"


def _diff(review: FileReview) -> Iterator[str]:
    left = _DIFF_LINES
    for hunk in review.hunks:
        yield hunk.header
        for line in hunk.lines:
            yield f"{line.sign}{line.text}"
            left -= 1
            if not left:
                yield "…"
                return
