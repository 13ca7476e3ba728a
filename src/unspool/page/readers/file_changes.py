"""Reads which files a session and its agents changed, and what each tool call recorded of its change.

Rules
  1. Which files there are is known from the index of each file of lines. The calls themselves are read only for the
     files that are shown: a page shows some, never all of a long session.
  2. Agents are read too, unless their files are too large together; then the review says how many are left out.
  3. The order of changes is that of their results, also between a session and its agents, which work at the same time.
  4. Fields may hold anything: a result that has another form than expected is a change of which nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from unspool.errors import UnspoolError
from unspool.export import find_versions, read_version
from unspool.format import parse_timestamp
from unspool.format.tools import files, parse_input
from unspool.graph import ToolCall
from unspool.page.analysis import RecordedChange, Replaced
from unspool.page.index import IndexedCall
from unspool.page.view import PageView

MAX_AGENT_BYTES = 48_000_000
"""Bytes of all agents' files together that are read for a review."""
MAX_CHANGES = 1_000
"""Of one file that are read."""
MAX_SEARCHED_BYTES = 20_000_000
"""Of a session in which copies of files are looked for."""


class ChangePlace(NamedTuple):
    """A call that changed a file, and whose it is."""

    agent: str | None
    call: IndexedCall


class ChangedFile(NamedTuple):
    """A file and the calls that changed it."""

    path: str
    places: list[ChangePlace]


class ChangedFiles(NamedTuple):
    """The files that a session and its agents changed, in the order of their first change."""

    files: list[ChangedFile]
    agents_left_out: int = 0


def find_changed_files(view: PageView) -> ChangedFiles:
    """Return the files that a session changed, or those that an agent changed."""
    found: dict[str, list[ChangePlace]] = {}
    _add_places(found, view, None)
    sources = () if view.agent_id else view.session.agent_sources
    if sum(source.size for source in sources) > MAX_AGENT_BYTES:
        return ChangedFiles([ChangedFile(*pair) for pair in found.items()], len(sources))
    left_out = 0
    for source in sources:
        id = source.agent_id or source.path.stem
        try:
            _add_places(found, view.open_agent(id), id)
        except UnspoolError:  # gone, or not readable
            left_out += 1
    return ChangedFiles([ChangedFile(*pair) for pair in found.items()], left_out)


def _add_places(found: dict[str, list[ChangePlace]], view: PageView, agent: str | None) -> None:
    calls = [call for call in view.index.calls.values() if call.path and call.use >= 0]
    for call in sorted(calls, key=lambda call: (call.use, call.block)):
        if call.result >= 0 and not call.failed and call.path:
            found.setdefault(call.path, []).append(ChangePlace(agent, call))


def read_changes(view: PageView, file: ChangedFile) -> list[RecordedChange]:
    """Return the changes of a file, in the order in which they were made."""
    started = {agent: call for call, agent in {**view.agents.by_call, **view.index.agents}.items()}
    changes: list[tuple[float, int, RecordedChange]] = []
    for number, place in enumerate(file.places[:MAX_CHANGES]):
        owner = view.open_agent(place.agent) if place.agent else view
        call = owner.sections.read_call(place.call.use, place.call.block)
        if call is None or call.failed or call.result is None:
            continue
        turn: int | None = owner.index.turn_at(place.call.use)
        if place.agent:
            start = view.index.calls.get(started.get(place.agent, ""))
            turn = view.index.turn_at(start.use) if start and start.use >= 0 else None
        change = _read_change(call, file.path, f"{owner.prefix}{place.call.key}", turn, place.agent)
        moment = parse_timestamp(change.time)
        changes.append((moment.timestamp() if moment else 0.0, number, change))
    if len({place.agent for place in file.places}) > 1:
        changes.sort(key=lambda each: each[:2])
    return [change for _, _, change in changes]


def _read_change(call: ToolCall, path: str, key: str, turn: int | None, agent: str | None) -> RecordedChange:
    time = call.result_entry.record.timestamp if call.result_entry else call.start_timestamp
    about = RecordedChange(key, path, time, turn, agent, replaced=tuple(_replaced(call)))
    match call.structured:
        case files.WriteResult(type="create", content=content, original_file=None | ""):
            return about._replace(
                before="", after=content, is_new=True, is_modified=bool(call.structured.user_modified)
            )
        case files.WriteResult(content=content, original_file=original, structured_patch=hunks) as result:
            return about._replace(before=original, after=content, hunks=hunks, is_modified=bool(result.user_modified))
        case files.EditResult(original_file=original, structured_patch=hunks) as result:
            # An edit of nothing makes a file.
            is_new = original is None and not result.old_string and not hunks and bool(result.new_string)
            return about._replace(
                before="" if is_new else original,
                after=result.new_string if is_new else None,
                hunks=hunks,
                is_new=is_new,
                is_modified=bool(result.user_modified),
            )
        case files.MultiEditResult(original_file_contents=original, structured_patch=hunks) as result:
            return about._replace(before=original, hunks=hunks, is_modified=bool(result.user_modified))
        case files.NotebookEditResult(original_file=original, updated_file=updated):
            return about._replace(before=original, after=updated)
        case _:
            return about


def _replaced(call: ToolCall) -> Iterator[Replaced]:
    """Yield the strings that a call was asked to replace."""
    match parse_input(call.name, call.input):
        case files.EditInput(old_string=old, new_string=new, replace_all=everywhere):
            yield Replaced(old, new, bool(everywhere))
        case files.MultiEditInput(edits=edits):
            for edit in edits:
                yield Replaced(edit.old_string, edit.new_string, bool(edit.replace_all))
        case files.WriteInput(content=content):
            yield Replaced("", content)
        case files.NotebookEditInput(new_source=source):
            yield Replaced("", source)
        case _:
            pass


def read_first_versions(view: PageView, paths: Sequence[str]) -> dict[str, str]:
    """Return the content that files had before the session, from the copies that Claude Code keeps.

    Only for short sessions: all lines are read to find the copies.
    """
    if not paths or view.agent_id or view.position > MAX_SEARCHED_BYTES:
        return {}
    folder = (view.index.facts.cwd or "").rstrip("/")
    found: dict[str, str] = {}
    for name, versions in find_versions(view.session).items():
        path = next((path for path in paths if path in (name, f"{folder}/{name}")), None)
        if path is not None and versions[0].name is not None:
            with suppress(UnspoolError, UnicodeDecodeError):
                found[path] = read_version(view.session, versions[0]).decode()
    return found
