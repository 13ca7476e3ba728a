"""Reads what a chat needs to know of a session that it resumes: messages, model, files, todos, open tool calls.

Rules
  1. The messages are those that Claude Code would send (`graph/context/build.py`) to the model that answers next.
  2. What is sent but stands on no line (results of tool calls that a crash left open, `No response requested.`) is
     written before the next prompt: so the file says what was sent, to every version.
  3. The file is read once, whatever it holds; lines that cannot be read are skipped, and stay.
  4. A file is known to the model if all of it was read, or it was written. When it is to be changed, its text then is
     compared with its text now: if they differ, it has to be read again. Claude Code takes this from the results of its
     tools, and so does this module.
  5. Tool results may be of any version and have any shape: what does not fit is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

import msgspec

from unspool.client.config import ChatRuntime, ChatSettings, SessionStart
from unspool.client.session.rewind import tracked_files
from unspool.client.tool_result import Json
from unspool.edit import find_other_process, garbage_collection_paused, parse_session_text, read_file
from unspool.errors import NotFound, Refused
from unspool.format import Assistant, CustomTitle, Entry, FileBackup, Progress, ToolUse, User, parse_timestamp
from unspool.format.tools import EditResult, ReadText, TodoWriteResult, WriteResult
from unspool.format.tools import parse as results
from unspool.graph import find_thread_entries, is_message
from unspool.graph.context import NO_RESPONSE, ContextMessage, build_thread_context, find_last_model
from unspool.graph.context import model_rules as models
from unspool.paths import data_folder

ResolvePath: TypeAlias = Callable[[str], Path | None]
"""Returns the real path of a file that a tool call names; None if there is none."""

BEGINNING_GONE = "(The beginning of this conversation is missing.)"


class OpenCall(msgspec.Struct, frozen=True):
    """A tool call without a result: its id, the uuid of its line, and the text that is sent as its result."""

    id: str
    line: str
    text: str


class ResumedSession(msgspec.Struct, frozen=True, kw_only=True):
    """The state in which a session was left."""

    lines: list[Entry]
    """Those of the thread that is resumed."""
    messages: list[Json]
    model: str
    """The model that answers next."""
    parent: str | None
    last_time: datetime | None
    """The time of its newest line."""
    ids: frozenset[str]
    """Of its responses and tool calls."""
    slug: str | None
    title: str | None
    """The title that a user gave it."""
    in_plan_mode: bool
    """No other permission mode is taken from a file: a file grants nothing."""
    from_other_line: bool
    """Whether it is resumed from another line than its last."""
    files: dict[str, FileBackup]
    open_calls: tuple[OpenCall, ...]
    unanswered: str | None
    """What is sent as the model's answer, if the last message is the user's."""


def resume_session(start: SessionStart, settings: ChatSettings, runtime: ChatRuntime) -> tuple[Path, ResumedSession]:
    """Return the file of the session to resume, or of its copy, and the state it was left in."""
    path, leaf = start.resume, start.leaf
    assert path is not None
    if start.fork:
        path, leaf = fork_session(path, runtime, leaf, start.session_id), None
    elif not start.force:
        refuse_if_running(path, runtime.config)
    return path, read_resumed(path, settings.model, leaf=leaf, keeps_model=settings.keeps_model)


@garbage_collection_paused()
def read_resumed(path: Path, model: str, *, leaf: str | None = None, keeps_model: bool = False) -> ResumedSession:
    """Read a session, to resume it from its last line or from another, with a model or the one it had."""
    entries = read_entries(path)
    lines = find_thread_entries(entries, leaf)
    if leaf is not None and not any(entry.record.uuid == leaf for entry in lines):
        raise NotFound(
            f"no line in `{path.stem}` matches `{leaf}`", hint="list branches with `unspool show SESSION --tree`"
        )
    if not any(is_message(line) and not line.record.is_sidechain for line in lines):
        raise NotFound(f"no conversation in `{path}`")
    if keeps_model and (own := find_last_model(lines)) is not None:
        # A model that is no longer offered is replaced by the default one, as Claude Code does.
        model = models.model_after_resume(own) if own.startswith("claude-") else own
    messages = build_thread_context(lines, model)
    thread = {line.record.uuid for line in lines}
    is_unanswered = bool(messages) and _is_added(messages[-1]) and messages[-1].blocks[0].text == NO_RESPONSE
    return ResumedSession(
        lines=lines,
        messages=_begin_with_user([message.json for message in messages]),
        model=model,
        parent=_last_uuid(lines),
        last_time=parse_timestamp(max((e.record.timestamp for e in entries if e.record.timestamp), default=None)),
        ids=frozenset(_response_and_call_ids(entries)),
        slug=_first(entry.record.slug for entry in reversed(entries) if isinstance(entry.record, User | Assistant)),
        title=_first(entry.record.custom_title for entry in reversed(entries) if isinstance(entry.record, CustomTitle)),
        in_plan_mode=_first(line.record.permission_mode for line in reversed(lines) if isinstance(line.record, User))
        == "plan",
        from_other_line=leaf is not None,
        files={name: backup for prompt, name, backup in tracked_files(entries) if prompt in thread},
        open_calls=tuple(_open_calls(messages, lines)),
        unanswered=NO_RESPONSE if is_unanswered else None,
    )


def fork_session(path: Path, runtime: ChatRuntime, leaf: str | None, id: str | None) -> Path:
    """Copy a session with all that belongs to it, up to a line if one is named; return the copy."""
    from unspool import home
    from unspool.edit import apply_edit, plan_edit
    from unspool.edit.planning import Clone, Fork

    session = home.open(path).session(path.stem)
    planned = plan_edit(session, Clone() if leaf is None else Fork(leaf), id=id)
    return apply_edit(planned, folder=data_folder(runtime.environment)).path


def read_entries(path: Path) -> tuple[Entry, ...]:
    """Read the lines of a session."""
    return parse_session_text(path.stem, read_file(path)).entries


def refuse_if_running(path: Path, config: Path) -> None:
    """Refuse a session that another process works on."""
    pid = find_other_process(path, path.stem, config)
    if pid is not None:
        hint = "resume a copy with `--fork-session`, or this session anyway with `--force`"
        raise Refused(f"process {pid} is running this session: `{path.stem}`", hint=hint)


def _begin_with_user(messages: list[Json]) -> list[Json]:
    """Let the first message be the user's, as the API demands, also if the beginning of a file is gone."""
    if messages and messages[0]["role"] != "user":
        return [{"role": "user", "content": [{"type": "text", "text": BEGINNING_GONE}]}, *messages]
    return messages


def _last_uuid(lines: Sequence[Entry]) -> str | None:
    """Return the parent of the next line: the last line that is no progress, which some versions do not know."""
    return _first(line.record.uuid for line in reversed(lines) if not isinstance(line.record, Progress))


def _first(values: Iterable[str | None]) -> str | None:
    """Return the first value that is not empty."""
    return next(filter(None, values), None)


def _response_and_call_ids(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        record = entry.record
        if isinstance(record, Assistant):
            if record.message.id:
                yield record.message.id
            for block in record.message.blocks:
                if isinstance(block, ToolUse):
                    yield block.id


def _is_added(message: ContextMessage) -> bool:
    """Tell whether a message stands on no line."""
    return all(block.entry is None for block in message.blocks)


def _open_calls(messages: Sequence[ContextMessage], lines: Sequence[Entry]) -> Iterator[OpenCall]:
    """Yield the tool calls whose results stand on no line."""
    added = [
        block
        for message in messages[-3:]
        for block in message.blocks
        if block.kind == "tool_result" and block.entry is None and block.id
    ]
    if not added:
        return
    sources = {
        block.id: line.record.uuid or ""
        for line in lines
        if isinstance(line.record, Assistant)
        for block in line.record.message.blocks
        if isinstance(block, ToolUse)
    }
    for block in added:
        id = block.id or ""
        yield OpenCall(id, sources.get(id, ""), str(block.value["content"]))


def find_known_files(lines: Iterable[Entry], resolve: ResolvePath) -> dict[Path, str]:
    """Return the texts of files as the model last knew them, by their real paths; what was known last is last."""
    known: dict[Path, str] = {}
    for line in lines:
        record = line.record
        if not isinstance(record, User):
            continue
        text: str | None
        match results.parse_result(None, record.tool_use_result):
            case ReadText(file=file) if file.start_line == 1 and file.num_lines == file.total_lines:
                name, text = file.file_path, file.content
            case WriteResult(file_path=name, content=text):
                pass
            case EditResult(file_path=name) as edit:
                text = _apply_edit(edit, known.get(resolve(name) or Path()))
            case _:
                continue
        path = resolve(name)
        if path is not None:
            # Popped first, so that the file that was known last comes last.
            known.pop(path, None)
            if text is not None:
                known[path] = text.replace("\r\n", "\n")
    return known


def _apply_edit(result: EditResult, before: str | None) -> str | None:
    """Return a text after an edit; newer versions leave the text before it out where it is long."""
    before = result.original_file if result.original_file is not None else before
    if before is None:
        return None
    if not result.old_string:
        return result.new_string
    return before.replace(result.old_string, result.new_string, -1 if result.replace_all else 1)


def find_todos(lines: Sequence[Entry]) -> list[Json]:
    """Return the todo list as it was left; none if all of it was completed."""
    for line in reversed(lines):
        record = line.record
        # The test of the bytes spares parsing the results of all other tools.
        if isinstance(record, User) and b'"newTodos"' in bytes(record.tool_use_result):
            result = results.parse_result("TodoWrite", record.tool_use_result)
            if isinstance(result, TodoWriteResult):
                todos = [_without_none(msgspec.to_builtins(todo)) for todo in result.new_todos]
                return [] if all(todo.get("status") == "completed" for todo in todos) else todos
    return []


def _without_none(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}
