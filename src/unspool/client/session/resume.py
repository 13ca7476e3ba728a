"""A session that is gone on with: its file in, what a conversation needs to know of it out.

Rules
  1. What will be sent is what the program would send (`graph/context/build.py`), to the model that goes on.
  2. What of it stands on no line (results of calls that a crash left open, `No response requested.`) is written before
     the next prompt: so the file says the same as what was sent, to every version.
  3. The file is read once, whatever is in it; lines that cannot be read are passed over, and stay.

[merged: recalled.py] What a session that is gone on with knows of files, and what it has to do: its lines in, texts and todos out.

The program reads it off the results of its tools; so do we.

Rules
  1. A file is known if all of it was read, or it was written. What it was then is compared with what it is, when it is
     to be changed: one that is another now has to be read again.
  2. Results may be of any version, and have any shape: what does not fit says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from unspool.client.config import Settings, Start, World
from unspool.client.permissions.paths import resolved
from unspool.client.session.rewind import Kept
from unspool.client.tool_context import Desk
from unspool.client.tools.base import BadCall
from unspool.edit.api import undisturbed
from unspool.edit.in_use import runner
from unspool.edit.session_view import read
from unspool.errors import NotFound, Refused
from unspool.files.open import pieces_of
from unspool.format.blocks import ToolUse
from unspool.format.entry import Entry
from unspool.format.meta_records import CustomTitle, FileHistory, FileHistoryDelta, FileHistorySnapshot
from unspool.format.records import Assistant, Progress, User
from unspool.format.timestamps import moment
from unspool.format.tools import parse as results
from unspool.format.tools.files import EditResult, ReadText, WriteResult
from unspool.format.tools.plans import TodoWriteResult
from unspool.graph.context import model_rules as models
from unspool.graph.context.build import NO_ANSWER, context_of, last_model
from unspool.graph.context.pairing import ContextMessage
from unspool.graph.threads import is_message, thread_lines
from unspool.paths import data_folder, project_key, session_file

Json: TypeAlias = dict[str, Any]

BEGINNING_GONE = "(The beginning of this conversation is missing.)"


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """What a session was like when it was last left."""

    id: str
    path: Path
    entries: tuple[Entry, ...]
    lines: list[Entry]
    """Those of the thread that is gone on with."""
    messages: list[Json]
    model: str
    """Who goes on."""
    parent: str | None
    last: datetime | None
    """The time of its newest line."""
    ids: frozenset[str]
    """Of its answers and calls."""
    slug: str | None = None
    title: str | None = None
    """What a person has called it."""
    plans: bool = False
    """Whether it was in plan mode. No other mode is taken from a file: a file grants nothing."""
    moved: bool = False
    """Whether it is gone on from another line than its last."""
    files: dict[str, Kept] = {}
    open_calls: tuple[tuple[str, str, str], ...] = ()
    """Calls that were never answered: their ids, the lines they stand on, what is said of them."""
    unanswered: bool = False
    """Whether the last thing said is the user's."""


@undisturbed()
def resumed(path: Path, model: str, *, leaf: str | None = None, keeps_model: bool = False) -> Resumed:
    """Read a session, to go on from its leaf or another line, with a model or the one it had."""
    entries = entries_of(path)
    lines = thread_lines(entries, leaf)
    if leaf is not None and not any(entry.record.uuid == leaf for entry in lines):
        raise NotFound(f"no such line in `{path.stem}`: `{leaf}`", hint="`unspool show --tree` shows its branches")
    if not any(is_message(line) and not line.record.is_sidechain for line in lines):
        raise NotFound(f"there is no conversation in `{path}`")
    if keeps_model and (own := last_model(lines)) is not None:
        model = models.resumed(own) if own.startswith("claude-") else own
    said = context_of(lines, model)
    return Resumed(
        id=path.stem,
        path=path,
        entries=entries,
        lines=lines,
        messages=_from_the_user([message.json for message in said]),
        model=model,
        parent=_parent(lines),
        last=_newest(entries),
        ids=frozenset(_ids(entries)),
        slug=_slug(entries),
        title=_title(entries),
        plans=_mode(lines) == "plan",
        moved=leaf is not None,
        files=_files(entries, lines),
        open_calls=tuple(_open_calls(said, lines)),
        unanswered=bool(said) and _is_made(said[-1]) and said[-1].blocks[0].text == NO_ANSWER,
    )


def begun(start: Start, settings: Settings, world: World, root: Path) -> tuple[Path, Resumed | None]:
    """Return the file of the session that is meant, and what is known of it if it is not new."""
    if start.resume is None:
        id = start.session_id or world.new_id()
        path = session_file(world.config, project_key(str(root)), id)
        if path.exists():
            raise Refused(f"there is a session with this id: `{id}`", hint="`--resume` goes on with it")
        return path, None
    path = start.resume
    if start.fork:
        path = forked(path, world, start.leaf, start.session_id)
        return path, resumed(path, settings.model, keeps_model=settings.keeps_model)
    if not start.force:
        claim(path, world.config)
    return path, resumed(path, settings.model, leaf=start.leaf, keeps_model=settings.keeps_model)


def forked(path: Path, world: World, leaf: str | None, id: str | None) -> Path:
    """Copy a session with all that belongs to it, up to a line if one is named; return the copy."""
    from unspool import home
    from unspool.edit.api import apply_edit, plan_edit
    from unspool.edit.planner import Clone, Fork

    session = home.open(path).session(path.stem)
    planned = plan_edit(session, Clone() if leaf is None else Fork(leaf), id=id)
    return apply_edit(planned, folder=data_folder(world.environment)).path


def entries_of(path: Path) -> tuple[Entry, ...]:
    """Read a session's lines."""
    return read(path.stem, b"".join(pieces_of(path))).entries


def claim(path: Path, config: Path) -> None:
    """Refuse a session that somebody else works with."""
    pid = runner(path, path.stem, config)
    if pid is not None:
        hint = "`--fork-session` goes on in a copy; `--force` goes on all the same"
        raise Refused(f"process {pid} is running this session: `{path.stem}`", hint=hint)


def _from_the_user(messages: list[Json]) -> list[Json]:
    """Let the user begin, as the API demands, also if the beginning of a file is gone."""
    if messages and messages[0]["role"] != "user":
        return [{"role": "user", "content": [{"type": "text", "text": BEGINNING_GONE}]}, *messages]
    return messages


def _parent(lines: Sequence[Entry]) -> str | None:
    """Return the line that the next one hangs on: the last, but for progress, which some versions do not know."""
    uuids = [line.record.uuid for line in lines if line.record.uuid and not isinstance(line.record, Progress)]
    return uuids[-1] if uuids else None


def _newest(entries: Iterable[Entry]) -> datetime | None:
    return moment(max((entry.record.timestamp for entry in entries if entry.record.timestamp), default=None))


def _ids(entries: Iterable[Entry]) -> Iterable[str]:
    for entry in entries:
        record = entry.record
        if isinstance(record, Assistant):
            if record.message.id:
                yield record.message.id
            for block in record.message.blocks:
                if isinstance(block, ToolUse):
                    yield block.id


def _slug(entries: Sequence[Entry]) -> str | None:
    for entry in reversed(entries):
        if isinstance(entry.record, User | Assistant) and entry.record.slug:
            return entry.record.slug
    return None


def _title(entries: Sequence[Entry]) -> str | None:
    for entry in reversed(entries):
        if isinstance(entry.record, CustomTitle) and entry.record.custom_title:
            return entry.record.custom_title
    return None


def _mode(lines: Sequence[Entry]) -> str | None:
    for line in reversed(lines):
        if isinstance(line.record, User) and line.record.permission_mode:
            return line.record.permission_mode
    return None


def _files(entries: Sequence[Entry], lines: Sequence[Entry]) -> dict[str, Kept]:
    """Return the tracked files as the last snapshot of the thread has them."""
    thread = {line.record.uuid for line in lines}
    found: dict[str, Kept] = {}
    for entry in entries:
        match entry.record:
            case FileHistorySnapshot(snapshot=snapshot) if snapshot.message_id in thread:
                found |= _kept(snapshot)
            case FileHistoryDelta(tracking_path=str(path), backup=backup, snapshot_message_id=prompt) if (
                backup is not None and prompt in thread
            ):
                found[path] = Kept(backup.backup_file_name, backup.version or 1, backup.backup_time or "")
            case _:
                pass
    return found


def _kept(snapshot: FileHistory) -> dict[str, Kept]:
    return {
        path: Kept(backup.backup_file_name, backup.version or 1, backup.backup_time or "")
        for path, backup in snapshot.tracked_file_backups.items()
    }


def _is_made(message: ContextMessage) -> bool:
    return all(block.entry is None for block in message.blocks)


def _open_calls(said: Sequence[ContextMessage], lines: Sequence[Entry]) -> Iterable[tuple[str, str, str]]:
    """Yield the calls that are answered on no line."""
    made = [
        block
        for message in said[-3:]
        for block in message.blocks
        if block.kind == "tool_result" and block.entry is None and block.id
    ]
    if not made:
        return
    sources = {
        block.id: line.record.uuid or ""
        for line in lines
        if isinstance(line.record, Assistant)
        for block in line.record.message.blocks
        if isinstance(block, ToolUse)
    }
    for block in made:
        yield block.id or "", sources.get(block.id or "", ""), str(block.value["content"])


def known_files(lines: Iterable[Entry], desk: Desk) -> dict[Path, str]:
    """Return the texts of files as they were last seen, by their real paths."""
    known: dict[Path, str] = {}
    for result in _results(lines):
        match result:
            case ReadText(file=file) if file.start_line == 1 and file.num_lines == file.total_lines:
                _know(known, file.file_path, file.content, desk)
            case WriteResult(file_path=path, content=content):
                _know(known, path, content, desk)
            case EditResult(file_path=path):
                _know(known, path, _edited(result, known.get(_place(path, desk) or Path())), desk)
            case _:
                pass
    return known


def todos(lines: Sequence[Entry]) -> list[Json]:
    """Return what was still to be done."""
    for line in reversed(lines):
        record = line.record
        if isinstance(record, User) and b'"newTodos"' in bytes(record.tool_use_result):
            result = results.parse_result("TodoWrite", record.tool_use_result)
            if isinstance(result, TodoWriteResult):
                found = [_without_nothing(msgspec.to_builtins(todo)) for todo in result.new_todos]
                return [] if all(todo.get("status") == "completed" for todo in found) else found
    return []


def _without_nothing(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def _results(lines: Iterable[Entry]) -> Iterator[object]:
    for line in lines:
        record = line.record
        if isinstance(record, User):
            yield results.parse_result(None, record.tool_use_result)


def _edited(result: EditResult, before: str | None) -> str | None:
    """Return a text after an edit; newer versions leave the text before it out where it is long."""
    before = result.original_file if result.original_file is not None else before
    if before is None:
        return None
    if not result.old_string:
        return result.new_string
    return before.replace(result.old_string, result.new_string, -1 if result.replace_all else 1)


def _know(known: dict[Path, str], path: str, text: str | None, desk: Desk) -> None:
    place = _place(path, desk)
    if place is None:
        return
    known.pop(place, None)  # the last one seen comes last
    if text is not None:
        known[place] = text.replace("\r\n", "\n")


def _place(path: str, desk: Desk) -> Path | None:
    try:
        return resolved(path, desk)
    except BadCall:
        return None
