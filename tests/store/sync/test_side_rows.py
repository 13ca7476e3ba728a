"""Side files in rows, put into a database made from `schema.sql`."""

from __future__ import annotations

import inspect
import json
import re
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unspool
from tests.real_files import corpus
from tests.strategies import json_values
from unspool.demo.write import write_demo
from unspool.format.codec import HISTORY, decode
from unspool.format.records import Entry
from unspool.format.side_files import json as sidecars
from unspool.format.side_files import markdown, settings
from unspool.format.side_files.settings import MASK
from unspool.format.tools.plans import TaskItem, Todo
from unspool.read.source_tree import LINE_KINDS, Kind, Source, scan
from unspool.store.sync import side_rows
from unspool.store.sync.side_rows import NEEDS_CONTENT, TABLES, history_row, side_file_rows
from unspool.testing.build import session, user

SCHEMA = Path(side_rows.__file__).parents[1].joinpath("schema.sql").read_text()
ADDED = Path(side_rows.__file__).with_name("command_turns.sql").read_text()
"""The script that adds columns to tables of the schema."""
CORE = {
    "homes", "sources", "answers", "spent", "unsummed", "remembered", "limits", "sessions", "states", "agents",
    "bad_lines", "made_with",
}  # fmt: skip
"""The tables that are not of side files."""

S1 = "11111111-1111-4111-8111-111111111111"
PLAN = b"# Ship it\n## Scope\n- [x] decide\n## Phase 1\n### Phase 1a: now\n- [ ] build\n"


def source(kind: Kind, path: str = "/c/file", **more: Any) -> Source:
    return Source(path, kind, more.pop("size", 3), more.pop("modified", 1_794_793_892_963_400_500), **more)


def empty() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    database.executescript(SCHEMA)
    for line in ADDED.splitlines():
        if line.startswith("ALTER TABLE"):
            database.execute(line)
    return database


def put(database: sqlite3.Connection, found: Iterable[tuple[str, tuple[object, ...]]], source_id: int = 1) -> None:
    for table, values in found:
        marks = ", ".join("?" * (len(values) + 1))
        database.execute(f"INSERT INTO {table} VALUES ({marks})", (source_id, *values))


def kept(source: Source, document: Any) -> dict[str, list[dict[str, Any]]]:
    """Return what the database holds of a file, by table, without what each row says of its file."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    with closing(empty()) as database:
        put(database, side_file_rows(source, data))
        return {
            table: [{key: row[key] for key in row.keys()[1:]} for row in database.execute(f"SELECT * FROM {table}")]
            for table in TABLES[source.kind]
        }


def columns(table: str) -> list[str]:
    with closing(empty()) as database:
        return [row["name"] for row in database.execute("SELECT name FROM pragma_table_info(?)", [table])]


def in_order(kinds: Iterable[Kind]) -> list[Kind]:
    return sorted(kinds, key=lambda kind: kind.value)


def fields(struct: type[msgspec.Struct]) -> set[str]:
    return set(struct.__struct_fields__)


# The tables


def test_every_table_is_strict_and_is_kept_by_its_source() -> None:
    with closing(empty()) as database:
        query = "SELECT name, strict FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
        strict = {row["name"]: row["strict"] for row in database.execute(query) if row["name"] != "sqlite_schema"}
        assert set(strict) - CORE == {table for names in TABLES.values() for table in names}
        assert all(strict.values())
        for table in strict.keys() - CORE:
            first, *_ = database.execute("SELECT * FROM pragma_table_info(?)", [table])
            assert (first["name"], first["type"], first["notnull"], first["pk"]) == ("source_id", "INTEGER", 1, 1)


def test_every_column_is_explained() -> None:
    lines = [line for line in SCHEMA.splitlines() if re.match(r"  [a-z]", line)]
    assert lines
    assert [line for line in lines if not re.search(r"\S\s+-- \S", line)] == []
    tables = re.findall(r"^(.*)\nCREATE TABLE", SCHEMA, re.MULTILINE)
    assert tables
    assert [line for line in tables if not line.startswith("-- ")] == []


def test_every_side_file_has_tables() -> None:
    assert set(TABLES) == (set(Kind) - LINE_KINDS) | {Kind.HISTORY}
    assert set(TABLES) - NEEDS_CONTENT == {Kind.HISTORY, Kind.TOOL_RESULT, Kind.FILE_BACKUP}


# Every field of every shape

Case = tuple[type[msgspec.Struct], Kind, str, Callable[[Any], Any], dict[str, str]]
CASES: list[Case] = [
    (sidecars.IndexEntry, Kind.INDEX, "index_entries", lambda one: {"entries": [one]}, {}),
    (
        sidecars.SessionsIndex,
        Kind.INDEX,
        "index_entries",
        lambda one: {**one, "entries": [{}]},
        {"version": "index_version", "entries": ""},
    ),
    (Todo, Kind.TODOS, "todos", lambda one: [one], {}),
    (TaskItem, Kind.TASK, "tasks", lambda one: one, {}),
    (sidecars.AgentMeta, Kind.AGENT_META, "agent_meta", lambda one: one, {}),
    (sidecars.ProcessEntry, Kind.REGISTRY, "processes", lambda one: one, {}),
    (sidecars.CustomTitleFile, Kind.TITLE, "titles", lambda one: one, {}),
    (
        sidecars.StatsCache,
        Kind.STATS,
        "stats",
        lambda one: one,
        dict.fromkeys(["daily_activity", "daily_model_tokens", "model_usage", "longest_session", "hour_counts"], ""),
    ),
    (
        sidecars.LongestSession,
        Kind.STATS,
        "stats",
        lambda one: {"longestSession": one},
        {
            "session_id": "longest_session_id",
            "duration": "longest_session_duration",
            "message_count": "longest_session_message_count",
            "timestamp": "longest_session_timestamp",
        },
    ),
    (sidecars.DailyActivity, Kind.STATS, "stats_days", lambda one: {"dailyActivity": [one]}, {}),
    (
        sidecars.DailyTokens,
        Kind.STATS,
        "stats_day_models",
        lambda one: {"dailyModelTokens": [{**one, "tokensByModel": {"m": 1}}]},
        {"tokens_by_model": ""},
    ),
    (
        sidecars.ModelUsage,
        Kind.STATS,
        "stats_models",
        lambda one: {"modelUsage": {"m": {**one, "costUSD": one["costUSD"] / 1e6}}},
        {"cost_usd": "cost_microdollars"},
    ),
    (sidecars.Workflow, Kind.WORKFLOW, "workflows", lambda one: one, {"workflow_progress": "", "phases": ""}),
    (
        sidecars.WorkflowStep,
        Kind.WORKFLOW,
        "workflow_steps",
        lambda one: {"workflowProgress": [one]},
        {"index": "step_index"},
    ),
]
"""A shape, where it is kept, a document around it, and columns of other names; none where a test of its own looks."""

ELSEWHERE = {
    sidecars.HistoryEntry,
    sidecars.Pasted,
    sidecars.WorkflowPhase,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_every_field_lands_in_its_column(case: Case) -> None:
    shape, kind, table, around, names = case
    filled = {field.encode_name: value_for(field) for field in msgspec.structs.fields(shape)}
    (row,) = kept(source(kind), around(filled))[table]
    for field in msgspec.structs.fields(shape):
        column = names.get(field.name, field.name)
        if column:
            assert row[column] == stored(filled[field.encode_name], field), field.name


def value_for(field: msgspec.structs.FieldInfo) -> Any:
    """Return a value that fits a field and no other of its shape."""
    number = 1_000 + sum(map(ord, field.name))
    for value in (f"the {field.name}", number, True, [f"the {field.name}"], {"a": field.name}, {"a": number}, [], {}):
        with suppress(msgspec.ValidationError):
            msgspec.convert(value, field.type)
            return value
    raise AssertionError(field.name)


def stored(value: Any, field: msgspec.structs.FieldInfo) -> Any:
    is_json = isinstance(value, dict | list) or field.type is Any
    return json.dumps(value, separators=(",", ":")) if is_json else value


def test_no_shape_is_forgotten() -> None:
    assert {case[0] for case in CASES} | ELSEWHERE == shapes(sidecars) | {Todo, TaskItem}


def shapes(module: ModuleType) -> set[type[msgspec.Struct]]:
    return {
        found
        for _, found in inspect.getmembers(module, inspect.isclass)
        if issubclass(found, msgspec.Struct) and found.__module__ == module.__name__
    }


def test_the_phases_of_a_workflow_are_json() -> None:
    phase = {field.encode_name: value_for(field) for field in msgspec.structs.fields(sidecars.WorkflowPhase)}
    (row,) = kept(source(Kind.WORKFLOW, session_id=S1), {"runId": "wf_1", "phases": [phase]})["workflows"]
    assert json.loads(row["phases"]) == [phase]
    assert (row["session_id"], row["result"]) == (S1, None)


def test_the_parts_of_a_plan_and_of_a_memory_have_columns() -> None:
    assert fields(markdown.Heading) <= set(columns("plan_sections")) & set(columns("memory_headings"))
    assert fields(markdown.PlanTask) <= set(columns("plan_tasks"))
    assert fields(markdown.Link) <= set(columns("memory_links"))
    assert fields(markdown.PlanDocument) == {"title", "sections", "phases", "tasks"}
    assert fields(markdown.MemoryDocument) == {"front_matter", "headings", "links"}


# What each kind gives


def test_a_list_of_todos_belongs_to_the_session_and_agent_of_its_name() -> None:
    todos = [{"content": "a"}, 5, {"content": "b", "id": 2}]
    found = kept(source(Kind.TODOS, f"/c/todos/{S1}-agent-a1b2c3d.json"), todos)["todos"]
    assert [(row["session_id"], row["agent_id"], row["position"]) for row in found] == [
        (S1, "a1b2c3d", 0),
        (S1, "a1b2c3d", 1),
    ]
    assert [(row["content"], row["id"]) for row in found] == [("a", None), ("b", "2")]


def test_a_task_names_its_list() -> None:
    (row,) = kept(source(Kind.TASK, f"/c/tasks/{S1}/1.json", session_id=S1), {"id": "1", "blocks": ["2"]})["tasks"]
    assert (row["list_id"], row["id"], row["blocks"], row["metadata"]) == (S1, "1", '["2"]', None)


def test_a_plan_is_kept_with_its_parts() -> None:
    found = kept(source(Kind.PLAN, "/c/plans/calm-paying-heron.md", size=len(PLAN)), PLAN)
    (plan,) = found["plans"]
    assert (plan["name"], plan["slug"], plan["title"]) == ("calm-paying-heron.md", "calm-paying-heron", "Ship it")
    assert (plan["content"].encode(), plan["size"], plan["modified"]) == (PLAN, len(PLAN), 1_794_793_892_963)
    assert [tuple(row.values()) for row in found["plan_sections"]] == [
        (0, "section", 2, "Scope", 2),
        (1, "section", 2, "Phase 1", 4),
        (2, "phase", 2, "Phase 1", 4),
        (3, "phase", 3, "Phase 1a: now", 5),
    ]
    assert [tuple(row.values()) for row in found["plan_tasks"]] == [
        (0, "decide", 1, "Scope", None, 3),
        (1, "build", 0, "Phase 1", "Phase 1", 6),
    ]


def test_a_plan_is_joined_to_its_sessions_by_the_slug(tmp_path: Path) -> None:
    session(user("Plan it"), id=S1, slug="calm-paying-heron").save(tmp_path)
    with closing(empty()) as database:
        for number, one in enumerate(unspool.open(tmp_path).sessions()):
            add_session(database, number, one.id, one.facts.slug)
        put(database, side_file_rows(source(Kind.PLAN, "/c/plans/calm-paying-heron.md"), PLAN), 1)
        put(database, side_file_rows(source(Kind.PLAN, "/c/plans/other.md"), PLAN), 2)
        joined = database.execute(
            "SELECT s.session_id, p.source_id FROM sessions s JOIN plans p USING (slug)"
        ).fetchall()
    assert [tuple(row) for row in joined] == [(S1, 1)]


def add_session(database: sqlite3.Connection, source_id: int, id: str, slug: str | None) -> None:
    """Add a row of `sessions` with nothing in it but what joins."""
    needed = [row for row in info(database, "sessions") if row["notnull"]]
    cells: dict[str, object] = {row["name"]: "" if row["type"] == "TEXT" else 0 for row in needed}
    cells |= {"source_id": source_id, "session_id": id, "slug": slug}
    database.execute(
        f"INSERT INTO sessions ({', '.join(cells)}) VALUES ({', '.join('?' * len(cells))})", [*cells.values()]
    )


def info(database: sqlite3.Connection, table: str) -> list[sqlite3.Row]:
    return database.execute("SELECT * FROM pragma_table_info(?)", [table]).fetchall()


def test_a_memory_is_kept_with_its_headings_and_links() -> None:
    text = b"---\nname: build\n---\n# Build\nSee [notes](notes.md).\n"
    found = kept(source(Kind.MEMORY, "/c/projects/-w/memory/build.md", project="-w"), text)
    (memory,) = found["memory"]
    assert (memory["name"], memory["project"], memory["front_matter"]) == ("build.md", "-w", '{"name":"build"}')
    assert [tuple(row.values()) for row in found["memory_headings"]] == [(0, "Build", 1, 4)]
    assert [tuple(row.values()) for row in found["memory_links"]] == [(0, "notes", "notes.md", 5)]


def test_statistics_are_kept_by_day_model_and_hour() -> None:
    document = {
        "dailyActivity": [{"date": "2026-01-05", "messageCount": 1}, {"date": "2026-01-05", "messageCount": 2}],
        "dailyModelTokens": [{"date": "2026-01-05", "tokensByModel": {"opus": 3, "haiku": 4}}],
        "modelUsage": {"opus": {"costUSD": 0.1234567}},
        "hourCounts": {"9": 4, "23": 1, "24": 1, "late": 1},
        "longestSession": {"duration": 12.6},
    }
    found = kept(source(Kind.STATS), document)
    assert [(row["date"], row["message_count"]) for row in found["stats_days"]] == [("2026-01-05", 2)]
    assert [(row["model"], row["tokens"]) for row in found["stats_day_models"]] == [("opus", 3), ("haiku", 4)]
    assert [row["cost_microdollars"] for row in found["stats_models"]] == [123_457]
    assert [tuple(row.values()) for row in found["stats_hours"]] == [(9, 4), (23, 1)]
    assert found["stats"][0]["longest_session_duration"] == 13


def test_a_backup_and_an_overflow_are_kept_by_place_and_size() -> None:
    backup = kept(source(Kind.FILE_BACKUP, f"/c/file-history/{S1}/00ff@v12", session_id=S1, size=7), b"")
    assert [tuple(row.values()) for row in backup["file_backups"]] == [
        (S1, "00ff@v12", "00ff", 12, 7, 1_794_793_892_963)
    ]
    odd = kept(source(Kind.FILE_BACKUP, f"/c/file-history/{S1}/odd", session_id=S1), b"")["file_backups"]
    assert [(row["name"], row["hash"], row["version"]) for row in odd] == [("odd", None, None)]
    result = kept(source(Kind.TOOL_RESULT, "/c/toolu_1.txt", session_id=S1), b"")["tool_results"]
    assert [tuple(row.values()) for row in result] == [(S1, "toolu_1.txt", 3, 1_794_793_892_963)]


def test_a_session_without_a_name_has_no_title() -> None:
    assert kept(source(Kind.TITLE, session_id=S1), {})["titles"] == []
    assert kept(source(Kind.TITLE, session_id=S1), {"customTitle": ""})["titles"] == [
        {"session_id": S1, "custom_title": ""}
    ]


# Settings


def test_settings_are_kept_by_the_way_to_each_value() -> None:
    document = {
        "model": "opus",
        "permissions": {"allow": ["Bash(ls:*)", "Read"], "deny": ["Read(.env)"], "defaultMode": "plan"},
        "sandbox": {"enabled": False, "network": {"allowedDomains": ["example.org"]}},
        "enabledPlugins": {"a.b": 1, "a": {"b": 2}},
    }
    found = kept(source(Kind.SETTINGS, "/c/settings.local.json"), document)
    assert {row["key"]: json.loads(row["value"]) for row in found["settings"]} == {
        "model": "opus",
        "permissions.allow": ["Bash(ls:*)", "Read"],
        "permissions.deny": ["Read(.env)"],
        "permissions.defaultMode": "plan",
        "sandbox.enabled": False,
        "sandbox.network.allowedDomains": ["example.org"],
        "enabledPlugins.a.b": 2,
    }
    assert {row["name"] for row in found["settings"]} == {"settings.local.json"}
    assert [tuple(row.values()) for row in found["permissions"]] == [
        ("allow", 0, "Bash(ls:*)"),
        ("allow", 1, "Read"),
        ("deny", 0, "Read(.env)"),
    ]


def test_every_setting_that_is_set_has_a_row() -> None:
    document = {field.encode_name: value_for(field) for field in msgspec.structs.fields(settings.ClaudeCodeSettings)}
    document |= {"permissions": {"defaultMode": "plan"}, "hooks": {"Stop": [{"hooks": [{"type": "command"}]}]}}
    document |= {"attribution": {"pr": "x"}, "statusLine": {"command": "x"}, "sandbox": {"enabled": True}}
    keys = {row["key"].partition(".")[0] for row in kept(source(Kind.SETTINGS), document)["settings"]}
    assert keys == {field.encode_name for field in msgspec.structs.fields(settings.ClaudeCodeSettings)}


def test_every_field_of_a_hook_is_told() -> None:
    hook = {field.encode_name: value_for(field) for field in msgspec.structs.fields(settings.HookSettings)}
    document = {"hooks": {"Stop": [{"hooks": [hook, {"server": "s", "tool": "t"}]}], "New": [{"matcher": "x"}]}}
    first, second = kept(source(Kind.SETTINGS), document)["hooks"]
    assert set(json.loads(first["details"])) == set(hook)
    assert (first["event"], first["matcher"], first["position"]) == ("Stop", None, 0)
    assert (first["type"], first["target"], first["timeout"]) == ("the type", "the command", float(hook["timeout"]))
    assert (second["position"], second["target"], second["timeout"]) == (1, "s/t", None)


def test_no_secret_of_the_settings_is_kept() -> None:
    web = {"type": "http", "url": "https://example.org/hush", "headers": {"Authorization": "hush"}}
    tool = {"type": "mcp_tool", "server": "s", "tool": "t", "input": {"key": "hush"}, "timeout": 1.5}
    document = {
        "env": {"TOKEN": "hush", "FLAG": {"deep": "hush"}},
        "apiKeyHelper": "echo hush",
        "hooks": {"Stop": [{"hooks": [web, tool]}]},
        "extraKnownMarketplaces": {"mine": {"url": "https://hush@example.org"}},
        "notKnownYet": "hush",
    }
    found = kept(source(Kind.SETTINGS), document)
    assert "hush" not in json.dumps(found)
    masked = {row["key"]: json.loads(row["value"]) for row in found["settings"]}
    assert (masked["env.TOKEN"], masked["env.FLAG"], masked["apiKeyHelper"]) == (MASK, MASK, MASK)
    assert [(row["type"], row["target"], row["timeout"]) for row in found["hooks"]] == [
        ("http", MASK, None),
        ("mcp_tool", "s/t", 1.5),
    ]


# History


def history(line: bytes, offset: int = 0) -> list[dict[str, Any]]:
    found = [item for item in decode(line, offset, HISTORY) if isinstance(item, Entry)]
    with closing(empty()) as database:
        put(database, (in_generation(row) for entry in found if (row := history_row(entry)) is not None))
        return [dict(row) for row in database.execute("SELECT * FROM history")]


def test_a_line_of_codex_is_no_prompt_of_claude_code() -> None:
    assert history(b'{"session_id":"a","ts":1754000000,"text":"hi"}\n') == []


def in_generation(values: tuple[object, ...]) -> tuple[str, tuple[object, ...]]:
    """Return a row of `history` as the writer makes it: the file's generation comes before what the line says."""
    return "history", (1, *values)


def test_a_line_of_history_is_a_row() -> None:
    pasted = {field.encode_name: value_for(field) for field in msgspec.structs.fields(sidecars.Pasted)}
    line = {"display": "[Pasted #1]", "pastedContents": {"1": pasted}, "timestamp": 5.6, "project": "/w"}
    (row,) = history(json.dumps({**line, "sessionId": S1}).encode() + b"\n", 80)
    assert json.loads(row.pop("pasted")) == {"1": pasted}
    assert tuple(row.values()) == (1, 1, 80, 6, "[Pasted #1]", "/w", S1)
    assert set(columns("history")) == {"source_id", "generation", "offset", "time", "pasted"} | (
        fields(sidecars.HistoryEntry) - {"timestamp", "pasted_contents"}
    )


def test_a_line_of_history_that_is_damaged_or_holds_two_is_kept_too() -> None:
    found = history(b'{"display":"a","timestamp":1}{"display":7,"timestamp":2,"x":"\\ud800"}\n')
    assert [(row["display"], row["time"]) for row in found] == [("a", 1), ("", 2)]
    assert found[0]["offset"] < found[1]["offset"]


def test_a_file_of_lines_has_no_rows_of_its_own() -> None:
    assert [list(side_file_rows(source(kind), b"{}")) for kind in LINE_KINDS] == [[], [], [], []]


# Odd and damaged files

DOCUMENTS = in_order(NEEDS_CONTENT - {Kind.PLAN, Kind.MEMORY})


@pytest.mark.parametrize("kind", DOCUMENTS)
@pytest.mark.parametrize("data", [b"", b'{"a', b"5", b'{"\xff', b"[" * 100_000, b'{"env":{"a":"\\ud800"}}'])
def test_a_damaged_file_is_refused_before_there_is_a_row(kind: Kind, data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        side_file_rows(source(kind), data)


@pytest.mark.parametrize("depth", [10, 300, 600, 900, 1_200, 50_000])
def test_what_is_nested_deeply_is_kept_or_refused(depth: int) -> None:
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    for kind, name in [(Kind.TASK, b"metadata"), (Kind.SETTINGS, b"enabledPlugins"), (Kind.WORKFLOW, b"result")]:
        with suppress(msgspec.DecodeError):
            assert [table for table, _ in side_file_rows(source(kind), b'{"%s":%s}' % (name, deep))][:1] == [
                TABLES[kind][0]
            ]


@pytest.mark.parametrize("kind", in_order(NEEDS_CONTENT - {Kind.TODOS}))
def test_an_empty_object_is_no_damage(kind: Kind) -> None:
    kept(source(kind), {})


def test_a_number_that_is_too_large_is_null_and_stays_in_json() -> None:
    huge = 2**64
    (row,) = kept(source(Kind.WORKFLOW), {"agentCount": huge, "durationMs": 1e300, "result": huge})["workflows"]
    assert (row["agent_count"], row["duration_ms"], row["result"]) == (None, None, str(huge))
    hook = {"hooks": {"Stop": [{"hooks": [{"timeout": 10**400}]}]}}
    assert kept(source(Kind.SETTINGS), hook)["hooks"][0]["timeout"] is None
    assert (
        kept(source(Kind.STATS), {"modelUsage": {"m": {"costUSD": 1e305}}})["stats_models"][0]["cost_microdollars"]
        is None
    )


def test_a_name_that_is_no_text_is_kept_all_the_same() -> None:
    name = b"/c/plans/\xff.md".decode("utf-8", "surrogateescape")
    (plan,) = kept(source(Kind.PLAN, name, project="\udcff"), b"\xff\x00")["plans"]
    assert (plan["name"], plan["content"]) == ("\ufffd.md", "\ufffd\0")
    (task,) = kept(source(Kind.TASK, session_id="\udcff"), {})["tasks"]
    assert task["list_id"] == "\ufffd"


def test_a_name_with_a_nul_is_asked_for_nothing() -> None:
    (plan,) = kept(source(Kind.PLAN, "/c/\0.md"), b"")["plans"]
    assert plan["created"] is None


NAMES = sorted(
    {
        name
        for shape in shapes(sidecars) | shapes(settings) | {Todo, TaskItem}
        for name in shape.__struct_encode_fields__
    }
)
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    json_values | numbers,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner, max_size=4),
    max_leaves=20,
)
objects = st.dictionaries(st.sampled_from(NAMES), values, max_size=8)


@st.composite
def well_meant(draw: st.DrawFn) -> Any:
    """Return a document that holds what a kind of file holds, filled with anything."""
    lists = ["entries", "dailyActivity", "dailyModelTokens", "phases", "workflowProgress"]
    many = {name: draw(st.lists(objects, max_size=3)) for name in lists}
    tables = {name: draw(st.dictionaries(st.text(max_size=3), objects, max_size=3)) for name in ("modelUsage", "env")}
    hooks = {"Stop": [{"hooks": draw(st.lists(objects, max_size=3))}]}
    return {**draw(objects), **many, **tables, "hooks": hooks, "hourCounts": draw(st.dictionaries(st.text(), numbers))}


@given(st.sampled_from(DOCUMENTS), values | objects | well_meant() | st.lists(objects))
def test_sqlite_takes_the_rows_of_any_document(kind: Kind, document: Any) -> None:
    with suppress(msgspec.DecodeError):
        kept(source(kind), document)


@given(st.sampled_from(in_order(TABLES)), st.binary(), st.text(min_size=1))
def test_sqlite_takes_the_rows_of_any_bytes(kind: Kind, data: bytes, name: str) -> None:
    with suppress(msgspec.DecodeError):
        kept(source(kind, name, project=name, session_id=name, agent_id=name), data)


@given(st.text())
def test_sqlite_takes_the_rows_of_any_text(text: str) -> None:
    for kind in (Kind.PLAN, Kind.MEMORY):
        kept(source(kind), text.encode())


# Whole trees


def test_every_side_file_of_the_demo_fills_its_tables(tmp_path: Path) -> None:
    write_demo(tmp_path / "demo")
    filled = fill(tmp_path / "demo")
    missing = {"workflows", "workflow_steps"}  # the demo has none
    assert filled == {table for names in TABLES.values() for table in names} - missing


def test_real_side_files_fill_their_tables() -> None:
    assert {"todos", "stats", "agent_meta", "workflows", "history"} <= fill(corpus())


def fill(root: Path) -> set[str]:
    """Return the tables that have rows when all side files of a tree are in."""
    filled = set()
    with closing(empty()) as database:
        for number, found in enumerate(scan(root.resolve()).sources):
            if found.kind is Kind.HISTORY:
                items = decode_all(found.path.read_bytes())
                rows = (history_row(item) for item in items if isinstance(item, Entry))
                made = [in_generation(row) for row in rows if row is not None]
            elif found.kind in TABLES:
                made = list(side_file_rows(found, found.path.read_bytes() if found.kind in NEEDS_CONTENT else b""))
            else:
                continue
            put(database, made, number)
            filled |= {table for table, _ in made}
    return filled


def decode_all(data: bytes) -> Iterable[object]:
    offset = 0
    for line in data.splitlines(keepends=True):
        yield from decode(line, offset, HISTORY)
        offset += len(line)
