"""Parses side files into rows of the tables in `schema.sql`, without a database.

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

from unspool.format import Entry, encode_json
from unspool.format.side_files import json, markdown, settings
from unspool.format.tools import plans
from unspool.read import Kind, Source

TableRow: TypeAlias = tuple[str, Iterable[object]]
"""A table and the values of a row of it."""
_Parser: TypeAlias = Callable[[Source, bytes], Iterator[TableRow]]

_BACKUP = re.compile(r"(.+)@v([0-9]{1,18})")
_HOUR = re.compile(r"[01]?[0-9]|2[0-3]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def side_file_rows(source: Source, data: bytes) -> list[tuple[str, tuple[object, ...]]]:
    """Return the rows of a side file; a file of lines has none here."""
    parse, _ = _KINDS.get(source.kind, (None, ()))
    try:
        return [(table, tuple(map(_storable, values))) for table, values in parse(source, data)] if parse else []
    except RecursionError as error:
        raise msgspec.DecodeError(f"nested too deeply: {error}") from error


def history_row(entry: Entry) -> tuple[object, ...] | None:
    """Return the row of a line of `history.jsonl`, decoded as `codec.HISTORY` does; None for another program's line."""
    record: object = entry.record
    assert isinstance(record, json.HistoryEntry)
    if record.is_foreign:
        return None
    when, pasted = _round(record.timestamp), _plain(record.pasted_contents)
    values = (entry.offset, when, record.display, record.project, record.session_id, pasted)
    return tuple(map(_storable, values))


def _index(source: Source, data: bytes) -> Iterator[TableRow]:
    index = json.parse_object(data, json.SessionsIndex)
    for position, entry in enumerate(index.entries):
        yield "index_entries", [position, source.project, index.version, index.original_path, *_fields(entry)]


def _stats(_: Source, data: bytes) -> Iterator[TableRow]:
    # Of a day, model or hour that is there twice the last counts: they are keys of their tables.
    stats = json.parse_object(data, json.StatsCache)
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
        before, cost, after = _fields(usage)[:5], _round(usage.cost_usd, 1_000_000), _fields(usage)[6:]
        yield "stats_models", [model, *before, cost, *after]
    hours = {int(hour): count for hour, count in stats.hour_counts.items() if _HOUR.fullmatch(hour)}
    for hour, count in hours.items():
        yield "stats_hours", [hour, count]


def _settings(source: Source, data: bytes) -> Iterator[TableRow]:
    read = settings.parse_settings(data).masked()  # before anything is taken: a secret never reaches the store
    for key, value in dict(_flatten(_plain(read))).items():
        yield "settings", [source.path.name, key, _json(value)]
    for behaviour in ("allow", "ask", "deny"):
        for position, rule in enumerate(getattr(read.permissions, behaviour)):
            yield "permissions", [behaviour, position, rule]
    hooks = ((event, m.matcher, hook) for event, found in read.hooks.items() for m in found for hook in m.hooks)
    for position, (event, matcher, hook) in enumerate(hooks):
        target = hook.command or hook.prompt or hook.url or "/".join(filter(None, [hook.server, hook.tool])) or None
        yield "hooks", [event, matcher, position, hook.type, target, _real(hook.timeout), _json(_plain(hook))]


def _todos(source: Source, data: bytes) -> Iterator[TableRow]:
    owner = json.todo_owner(source.path.name) or (source.session_id, source.agent_id)
    for position, todo in enumerate(json.parse_todos(data)):
        id = None if todo.id is None else str(todo.id)
        yield "todos", [*owner, position, todo.content, todo.status, todo.active_form, id, todo.priority]


def _task(source: Source, data: bytes) -> Iterator[TableRow]:
    yield "tasks", [source.session_id, *_fields(json.parse_object(data, plans.TaskItem))]


def _plan(source: Source, data: bytes) -> Iterator[TableRow]:
    plan = markdown.parse_plan(data)
    title = plan.title.text if plan.title else None
    place = [source.size, _created(source), _modified(source)]
    yield "plans", [source.path.name, source.path.stem, title, _text(data), *place]
    headings = [("section", heading) for heading in plan.sections] + [("phase", heading) for heading in plan.phases]
    for position, (kind, heading) in enumerate(sorted(headings, key=lambda pair: pair[1].line)):
        yield "plan_sections", [position, kind, heading.level, heading.text, heading.line]
    for position, task in enumerate(plan.tasks):
        yield "plan_tasks", [position, task.text, task.done, task.section, task.phase, task.line]


def _memory(source: Source, data: bytes) -> Iterator[TableRow]:
    memory = markdown.parse_memory(data)
    place = [source.size, _modified(source)]
    yield "memory", [source.path.name, source.project, _text(data), *place, memory.front_matter]
    for position, heading in enumerate(memory.headings):
        yield "memory_headings", [position, *_fields(heading)]
    for position, link in enumerate(memory.links):
        yield "memory_links", [position, *_fields(link)]


def _process(_: Source, data: bytes) -> Iterator[TableRow]:
    yield "processes", _fields(json.parse_object(data, json.ProcessEntry))


def _agent_meta(source: Source, data: bytes) -> Iterator[TableRow]:
    yield "agent_meta", [source.agent_id, source.session_id, *_fields(json.parse_object(data, json.AgentMeta))]


def _title(source: Source, data: bytes) -> Iterator[TableRow]:
    title = json.parse_custom_title(data)
    if title is not None:
        yield "titles", [source.session_id, title]


def _workflow(source: Source, data: bytes) -> Iterator[TableRow]:
    workflow = json.parse_object(data, json.Workflow)
    result = None if workflow.result is None else _json(workflow.result)
    values = _fields(workflow, "phases", "workflow_progress", "result")
    yield "workflows", [source.session_id, *values, _plain(workflow.phases), result]
    for position, step in enumerate(workflow.workflow_progress):
        yield "workflow_steps", [position, *_fields(step)]


def _tool_result(source: Source, _: bytes) -> Iterator[TableRow]:
    yield "tool_results", [source.session_id, source.path.name, source.size, _modified(source)]


def _backup(source: Source, _: bytes) -> Iterator[TableRow]:
    match = _BACKUP.fullmatch(source.path.name)
    which = [match[1], int(match[2])] if match else [None, None]
    yield "file_backups", [source.session_id, source.path.name, *which, source.size, _modified(source)]


_KINDS: Final[Mapping[Kind, tuple[_Parser | None, tuple[str, ...]]]] = MappingProxyType(
    {
        Kind.HISTORY: (None, ("history",)),
        Kind.INDEX: (_index, ("index_entries",)),
        Kind.STATS: (_stats, ("stats", "stats_days", "stats_day_models", "stats_models", "stats_hours")),
        Kind.SETTINGS: (_settings, ("settings", "permissions", "hooks")),
        Kind.TODOS: (_todos, ("todos",)),
        Kind.TASK: (_task, ("tasks",)),
        Kind.PLAN: (_plan, ("plans", "plan_sections", "plan_tasks")),
        Kind.MEMORY: (_memory, ("memory", "memory_headings", "memory_links")),
        Kind.REGISTRY: (_process, ("processes",)),
        Kind.AGENT_META: (_agent_meta, ("agent_meta",)),
        Kind.TITLE: (_title, ("titles",)),
        Kind.WORKFLOW: (_workflow, ("workflows", "workflow_steps")),
        Kind.TOOL_RESULT: (_tool_result, ("tool_results",)),
        Kind.FILE_BACKUP: (_backup, ("file_backups",)),
    }
)
"""What parses a kind of file, and the tables that it fills. History is read by the line."""
TABLES: Final = MappingProxyType({kind: tables for kind, (_, tables) in _KINDS.items()})
"""The tables that a kind of file fills: their rows go when the file has changed."""
NEEDS_CONTENT: Final = frozenset(TABLES) - {Kind.HISTORY, Kind.TOOL_RESULT, Kind.FILE_BACKUP}
"""Kinds whose bytes are read whole. Of tool results and backups the place is enough."""


def _fields(struct: msgspec.Struct, *without: str) -> list[object]:
    """Return the values of a struct in the order of its fields; times and durations as whole milliseconds."""
    values = ((name, getattr(struct, name)) for name in struct.__struct_fields__)
    return [_round(value) if isinstance(value, float) else value for name, value in values if name not in without]


def _round(number: int | float | None, times: int = 1) -> int | None:
    if number is None or (isinstance(number, float) and not math.isfinite(number * times)):
        return None
    return round(number * times)


def _real(number: int | float | None) -> float | None:
    try:
        return None if number is None else float(number)
    except OverflowError:
        return None


def _plain(value: object) -> Any:
    """Return a value as JSON data, without what is null or empty in it."""
    return _without_empty(msgspec.to_builtins(value))


def _without_empty(value: Any) -> Any:
    match value:
        case dict():
            kept = ((key, _without_empty(item)) for key, item in value.items())
            return {key: item for key, item in kept if item not in (None, [], {})}
        case list() | tuple():
            return [_without_empty(item) for item in value]
        case _:
            return value


def _flatten(value: Any, *keys: str) -> Iterator[tuple[str, Any]]:
    """Yield what is set in a settings file, by its keys joined with dots."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flatten(item, *keys, key)
    else:
        yield ".".join(keys), value


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _json(value: object) -> str:
    return encode_json(value).decode()


def _modified(source: Source) -> int:
    return source.modified // 1_000_000


def _created(source: Source) -> int | None:
    """Return when a file was created, where the system says (macOS does, Linux does not)."""
    try:
        born = getattr(os.lstat(source.path), "st_birthtime", None)
    except (OSError, ValueError):
        return None
    return None if born is None else _round(born, 1_000)


def _storable(value: object) -> object:
    """Return a value as SQLite takes it."""
    match value:
        case None | float() | bytes():
            return value
        case bool():
            return int(value)
        case int():  # a STRICT column would refuse a larger one
            return value if -(2**63) <= value < 2**63 else None
        case str():
            return _SURROGATE.sub("\ufffd", value)
        case _:
            return _SURROGATE.sub("\ufffd", _json(value))
