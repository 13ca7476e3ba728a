"""Side files in rows: a source and its bytes in, the rows of the tables in `schema.sql` out. No database here.

Rules
  1. Values stand in the order of the table's columns, without the first: `source_id` is for the caller to add.
  2. Whatever a file holds, SQLite takes its rows: text has no lone surrogate, a number of more than 64 bits is null
     (a STRICT column would refuse it as text; in JSON it stays), a list or object is JSON, no two rows have one key.
  3. All or nothing: a file that the parsers refuse raises `msgspec.DecodeError` before there is a row.
  4. Settings are masked before anything is taken from them.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from unspool.format.entry import Entry
from unspool.format.json_edit import encode
from unspool.format.side_files import json, markdown, settings
from unspool.read.scan import Kind, Source

Values: TypeAlias = Iterable[object]
Row: TypeAlias = tuple[str, tuple[object, ...]]
"""A table and the values of a row of it."""

_BACKUP = re.compile(r"(.+)@v([0-9]{1,18})")
_HOUR = re.compile(r"[01]?[0-9]|2[0-3]")
_SURROGATE = re.compile("[\ud800-\udfff]")

TABLES: Final[Mapping[Kind, tuple[str, ...]]] = MappingProxyType(
    {
        Kind.HISTORY: ("history",),
        Kind.INDEX: ("index_entries",),
        Kind.STATS: ("stats", "stats_days", "stats_day_models", "stats_models", "stats_hours"),
        Kind.SETTINGS: ("settings", "permissions", "hooks"),
        Kind.TODOS: ("todos",),
        Kind.TASK: ("tasks",),
        Kind.PLAN: ("plans", "plan_sections", "plan_tasks"),
        Kind.MEMORY: ("memory", "memory_headings", "memory_links"),
        Kind.REGISTRY: ("processes",),
        Kind.AGENT_META: ("agent_meta",),
        Kind.TITLE: ("titles",),
        Kind.WORKFLOW: ("workflows", "workflow_steps"),
        Kind.TOOL_RESULT: ("tool_results",),
        Kind.FILE_BACKUP: ("file_backups",),
    }
)
"""The tables that a kind of file fills: their rows go when the file has changed."""

NEEDS_CONTENT: Final = frozenset(TABLES) - {Kind.HISTORY, Kind.TOOL_RESULT, Kind.FILE_BACKUP}
"""Kinds whose bytes are read whole. Of overflow and backups the place is enough; history is read by the line."""


def rows(source: Source, data: bytes) -> Iterator[Row]:
    """Return the rows of a side file: a table and values each. A file of lines has none here."""
    read = _READERS.get(source.kind)
    try:
        found = [(table, tuple(map(_storable, values))) for table, values in read(source, data)] if read else []
    except RecursionError as error:
        raise msgspec.DecodeError(f"nested too deeply: {error}") from error
    return iter(found)


def history_row(entry: Entry) -> tuple[object, ...]:
    """Return the row of a line of `history.jsonl`, decoded as `codec.HISTORY` does."""
    record: object = entry.record
    assert isinstance(record, json.HistoryEntry)
    when, pasted = _whole(record.timestamp), _said(record.pasted_contents)
    values = (entry.offset, when, record.display, record.project, record.session_id, pasted)
    return tuple(map(_storable, values))


def _index(source: Source, data: bytes) -> Iterator[tuple[str, Values]]:
    index = json.parse_sessions_index(data)
    for position, entry in enumerate(index.entries):
        yield "index_entries", [position, source.project, index.version, index.original_path, *_fields(entry)]


def _stats(_: Source, data: bytes) -> Iterator[tuple[str, Values]]:
    """Of a day, model or hour that is there twice the last counts."""
    stats = json.parse_stats(data)
    parts = ("daily_activity", "daily_model_tokens", "model_usage", "longest_session", "hour_counts")
    whole = _fields(stats, *parts)
    yield "stats", [*whole[:4], *_fields(stats.longest_session or json.LongestSession()), *whole[4:]]
    for day in {day.date: day for day in stats.daily_activity}.values():
        yield "stats_days", _fields(day)
    tokens = {
        (day.date, model): count for day in stats.daily_model_tokens for model, count in day.tokens_by_model.items()
    }
    for (date, model), count in tokens.items():
        yield "stats_day_models", [date, model, count]
    for model, usage in stats.model_usage.items():
        before, cost, after = _fields(usage)[:5], _whole(usage.cost_usd, 1_000_000), _fields(usage)[6:]
        yield "stats_models", [model, *before, cost, *after]
    hours = {int(hour): count for hour, count in stats.hour_counts.items() if _HOUR.fullmatch(hour)}
    for hour, count in hours.items():
        yield "stats_hours", [hour, count]


def _settings(source: Source, data: bytes) -> Iterator[tuple[str, Values]]:
    read = settings.parse_settings(data).masked()
    for key, value in dict(_flat(_said(read))).items():
        yield "settings", [source.path.name, key, _json(value)]
    for behaviour in ("allow", "ask", "deny"):
        for position, rule in enumerate(getattr(read.permissions, behaviour)):
            yield "permissions", [behaviour, position, rule]
    hooks = ((event, m.matcher, hook) for event, found in read.hooks.items() for m in found for hook in m.hooks)
    for position, (event, matcher, hook) in enumerate(hooks):
        target = hook.command or hook.prompt or hook.url or "/".join(filter(None, [hook.server, hook.tool])) or None
        yield "hooks", [event, matcher, position, hook.type, target, _real(hook.timeout), _json(_said(hook))]


def _todos(source: Source, data: bytes) -> Iterator[tuple[str, Values]]:
    owner = json.todo_owner(source.path.name) or (source.session_id, source.agent_id)
    for position, todo in enumerate(json.parse_todos(data)):
        id = None if todo.id is None else str(todo.id)
        yield "todos", [*owner, position, todo.content, todo.status, todo.active_form, id, todo.priority]


def _task(source: Source, data: bytes) -> Iterator[tuple[str, Values]]:
    yield "tasks", [source.session_id, *_fields(json.parse_task(data))]


def _plan(source: Source, data: bytes) -> Iterator[tuple[str, Values]]:
    plan = markdown.parse_plan(data)
    title = plan.title.text if plan.title else None
    place = [source.size, _created(source), _modified(source)]
    yield "plans", [source.path.name, source.path.stem, title, _text(data), *place]
    headings = [("section", one) for one in plan.sections] + [("phase", one) for one in plan.phases]
    for position, (kind, one) in enumerate(sorted(headings, key=lambda pair: pair[1].line)):
        yield "plan_sections", [position, kind, one.level, one.text, one.line]
    for position, task in enumerate(plan.tasks):
        yield "plan_tasks", [position, task.text, task.done, task.section, task.phase, task.line]


def _memory(source: Source, data: bytes) -> Iterator[tuple[str, Values]]:
    memory = markdown.parse_memory(data)
    place = [source.size, _modified(source)]
    yield "memory", [source.path.name, source.project, _text(data), *place, memory.front_matter]
    for position, heading in enumerate(memory.headings):
        yield "memory_headings", [position, *_fields(heading)]
    for position, link in enumerate(memory.links):
        yield "memory_links", [position, *_fields(link)]


def _process(_: Source, data: bytes) -> Iterator[tuple[str, Values]]:
    yield "processes", _fields(json.parse_process(data))


def _agent_meta(source: Source, data: bytes) -> Iterator[tuple[str, Values]]:
    yield "agent_meta", [source.agent_id, source.session_id, *_fields(json.parse_agent_meta(data))]


def _title(source: Source, data: bytes) -> Iterator[tuple[str, Values]]:
    title = json.parse_custom_title(data)
    if title is not None:
        yield "titles", [source.session_id, title]


def _workflow(source: Source, data: bytes) -> Iterator[tuple[str, Values]]:
    workflow = json.parse_workflow(data)
    result = None if workflow.result is None else _json(workflow.result)
    told = _fields(workflow, "phases", "workflow_progress", "result")
    yield "workflows", [source.session_id, *told, _said(workflow.phases), result]
    for position, step in enumerate(workflow.workflow_progress):
        yield "workflow_steps", [position, *_fields(step)]


def _tool_result(source: Source, _: bytes) -> Iterator[tuple[str, Values]]:
    yield "tool_results", [source.session_id, source.path.name, source.size, _modified(source)]


def _backup(source: Source, _: bytes) -> Iterator[tuple[str, Values]]:
    match = _BACKUP.fullmatch(source.path.name)
    which = [match[1], int(match[2])] if match else [None, None]
    yield "file_backups", [source.session_id, source.path.name, *which, source.size, _modified(source)]


_READERS: Final[Mapping[Kind, Callable[[Source, bytes], Iterator[tuple[str, Values]]]]] = MappingProxyType(
    {
        Kind.INDEX: _index,
        Kind.STATS: _stats,
        Kind.SETTINGS: _settings,
        Kind.TODOS: _todos,
        Kind.TASK: _task,
        Kind.PLAN: _plan,
        Kind.MEMORY: _memory,
        Kind.REGISTRY: _process,
        Kind.AGENT_META: _agent_meta,
        Kind.TITLE: _title,
        Kind.WORKFLOW: _workflow,
        Kind.TOOL_RESULT: _tool_result,
        Kind.FILE_BACKUP: _backup,
    }
)


def _fields(struct: msgspec.Struct, *without: str) -> list[object]:
    """Return the values of a struct in the order of its fields; times and durations as whole milliseconds."""
    values = ((name, getattr(struct, name)) for name in struct.__struct_fields__)
    return [_whole(value) if isinstance(value, float) else value for name, value in values if name not in without]


def _whole(number: int | float | None, times: int = 1) -> int | None:
    if number is None or (isinstance(number, float) and not math.isfinite(number * times)):
        return None
    return round(number * times)


def _real(number: int | float | None) -> float | None:
    try:
        return None if number is None else float(number)
    except OverflowError:
        return None


def _said(value: object) -> Any:
    """Return a value as plain data, without what is null or empty in it."""
    return _kept(msgspec.to_builtins(value))


def _kept(value: Any) -> Any:
    match value:
        case dict():
            kept = ((key, _kept(item)) for key, item in value.items())
            return {key: item for key, item in kept if item not in (None, [], {})}
        case list() | tuple():
            return [_kept(item) for item in value]
        case _:
            return value


def _flat(value: Any, *way: str) -> Iterator[tuple[str, Any]]:
    """Yield what is set in a settings file, by the way to it."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(item, *way, key)
    else:
        yield ".".join(way), value


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _json(value: object) -> str:
    return encode(value).decode()


def _modified(source: Source) -> int:
    return source.modified // 1_000_000


def _created(source: Source) -> int | None:
    """Return when a file was made, where the system tells (macOS does, Linux does not)."""
    try:
        born = getattr(os.lstat(source.path), "st_birthtime", None)
    except (OSError, ValueError):
        return None
    return None if born is None else _whole(born, 1_000)


def _storable(value: object) -> object:
    """Return a value as SQLite takes it."""
    match value:
        case None | float() | bytes():
            return value
        case bool():
            return int(value)
        case int():
            return value if -(2**63) <= value < 2**63 else None
        case str():
            return _SURROGATE.sub("\ufffd", value)
        case _:
            return _SURROGATE.sub("\ufffd", _json(value))
