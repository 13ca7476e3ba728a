import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.real_files import corpus
from unspool.format import Entry, decode
from unspool.format.meta_records import StepResult
from unspool.format.side_files import json as sidecars
from unspool.format.side_files import markdown, settings
from unspool.format.side_files.json import HistoryEntry, IndexEntry, Pasted, TodoOwner
from unspool.format.side_files.markdown import Heading, Link, PlanTask
from unspool.format.side_files.settings import MASK
from unspool.format.tools.plans import TaskItem, Todo

SHAPES: list[type[msgspec.Struct]] = [
    sidecars.SessionsIndex,
    sidecars.HistoryEntry,
    sidecars.AgentMeta,
    sidecars.ProcessEntry,
    sidecars.StatsCache,
    sidecars.Workflow,
    sidecars.CustomTitleFile,
    TaskItem,
    settings.ClaudeCodeSettings,
]


def parser(shape: type[msgspec.Struct]) -> Callable[[bytes | str], object]:
    return partial(sidecars.parse_object, struct=shape)


OBJECTS = [*map(parser, SHAPES), sidecars.parse_custom_title, settings.parse_settings]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=8), values, max_size=3),
    max_leaves=10,
)


# JSON


def test_an_index_lists_sessions() -> None:
    entry = {"sessionId": "s", "fileMtime": 1794793892963, "messageCount": 6, "customTitle": "t"}
    index = sidecars.parse_object(
        json.dumps({"version": 1, "originalPath": "/w", "entries": [entry]}), sidecars.SessionsIndex
    )
    assert (index.version, index.original_path) == (1, "/w")
    assert index.entries == (IndexEntry(session_id="s", file_mtime=1794793892963, message_count=6, custom_title="t"),)


@pytest.mark.parametrize("key", ["content", "contentHash"])
def test_history_has_what_was_pasted_or_its_hash(key: str) -> None:
    pasted = {"1": {"id": 1, "type": "text", key: "x"}}
    line = {"display": "[Pasted text #1]", "pastedContents": pasted, "timestamp": 1760110675230, "project": "/w"}
    held = Pasted(id=1, type="text", content="x") if key == "content" else Pasted(id=1, type="text", content_hash="x")
    assert sidecars.parse_object(json.dumps(line), sidecars.HistoryEntry) == HistoryEntry(
        display="[Pasted text #1]", pasted_contents={"1": held}, timestamp=1760110675230, project="/w"
    )


def test_todos_are_a_list() -> None:
    document = b'[{"content":"a","status":"pending","activeForm":"doing a"},{"content":"b","id":"2"},5]'
    assert sidecars.parse_todos(document) == (
        Todo(content="a", status="pending", active_form="doing a"),
        Todo(content="b", id="2"),
    )
    with pytest.raises(msgspec.ValidationError):
        sidecars.parse_todos(b"{}")


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("1-2-agent-1-2.json", TodoOwner("1-2", "1-2")),
        ("1-2-agent-a64f14a.json", TodoOwner("1-2", "a64f14a")),
        ("1-2.json", None),
        ("-agent-.json", None),
    ],
)
def test_the_name_of_a_todo_file_says_whose_it_is(name: str, owner: TodoOwner | None) -> None:
    assert sidecars.todo_owner(name) == owner


def test_a_task_is_a_file() -> None:
    document = b'{"id":"1","subject":"s","activeForm":"doing s","status":"completed","blocks":[],"blockedBy":["2"]}'
    assert sidecars.parse_object(document, TaskItem) == TaskItem(
        id="1", subject="s", active_form="doing s", status="completed", blocked_by=("2",)
    )


def test_an_agent_names_the_call_that_started_it() -> None:
    meta = sidecars.parse_object(
        b'{"agentType":"Explore","toolUseId":"toolu_1","spawnDepth":1,"isBuiltIn":true}', sidecars.AgentMeta
    )
    assert (meta.agent_type, meta.tool_use_id, meta.spawn_depth, meta.is_built_in) == (
        "Explore",
        "toolu_1",
        1,
        True,
    )


def test_a_process_says_what_it_waits_for() -> None:
    process = sidecars.parse_object(
        b'{"pid":7,"procStart":"570957","status":"waiting","waitingFor":"permission prompt","peerFeatures":["x"]}',
        sidecars.ProcessEntry,
    )
    assert (process.pid, process.proc_start, process.peer_features) == (7, "570957", ("x",))
    assert (process.status, process.waiting_for) == ("waiting", "permission prompt")


def test_a_title_is_a_string() -> None:
    assert sidecars.parse_custom_title(b'{"customTitle":"my session"}') == "my session"
    assert sidecars.parse_custom_title(b"{}") is None


def test_statistics_of_version_1_are_days_only() -> None:
    day = {"date": "2026-01-01", "messageCount": 217, "sessionCount": 2, "toolCallCount": 136}
    stats = sidecars.parse_object(json.dumps({"version": 1, "dailyActivity": [day]}), sidecars.StatsCache)
    assert [(day.date, day.message_count, day.tool_call_count) for day in stats.daily_activity] == [
        ("2026-01-01", 217, 136)
    ]
    assert stats.total_sessions is None


def test_statistics_of_version_2_have_models() -> None:
    document = {
        "version": 2,
        "modelUsage": {"opus": {"inputTokens": 1, "costUSD": 0.5}},
        "dailyModelTokens": [{"date": "2026-01-01", "tokensByModel": {"opus": 3}}],
        "longestSession": {"sessionId": "s", "duration": 5},
        "hourCounts": {"9": 4},
        "totalSpeculationTimeSavedMs": 0,
    }
    stats = sidecars.parse_object(json.dumps(document), sidecars.StatsCache)
    assert stats.model_usage["opus"].cost_usd == 0.5
    assert stats.daily_model_tokens[0].tokens_by_model == {"opus": 3}
    assert stats.longest_session is not None
    assert stats.longest_session.session_id == "s"
    assert stats.hour_counts == {"9": 4}


def test_a_workflow_tells_its_course() -> None:
    agent = {"type": "workflow_agent", "phaseIndex": 1, "agentId": "a1", "resultPreview": "…"}
    document = {"runId": "wf_1", "phases": [{"title": "Map"}], "workflowProgress": [agent], "result": {"any": 1}}
    workflow = sidecars.parse_object(json.dumps(document), sidecars.Workflow)
    assert [phase.title for phase in workflow.phases] == ["Map"]
    assert [step.agent_id for step in workflow.workflow_progress] == ["a1"]
    assert workflow.result == {"any": 1}


def test_a_journal_has_what_agents_gave() -> None:
    (entry,) = decode(b'{"type":"result","key":"v2:0","agentId":"a1","result":"done"}')
    assert isinstance(entry, Entry)
    assert isinstance(entry.record, StepResult)
    assert (entry.record.key, entry.record.agent_id, entry.record.result) == ("v2:0", "a1", "done")


def test_what_does_not_fit_costs_only_itself() -> None:
    entries: list[Any] = [{"sessionId": "a"}, {"sessionId": "b", "messageCount": "many"}, 5]
    index = sidecars.parse_object(json.dumps({"version": "one", "entries": entries}), sidecars.SessionsIndex)
    assert index.version is None
    assert index.entries == (IndexEntry(session_id="a"), IndexEntry(session_id="b"))


@pytest.mark.parametrize("parse", OBJECTS)
@pytest.mark.parametrize("document", [b"", b"{", b"[]", b"5", b'{"type":"\xff"', b'"\xff"', b"[" * 100_000, "\ud800"])
def test_what_is_not_an_object_is_refused(parse: Callable[[bytes | str], object], document: bytes | str) -> None:
    with pytest.raises(msgspec.DecodeError):
        parse(document)


@given(st.sampled_from([*OBJECTS, sidecars.parse_todos]), st.binary())
def test_any_bytes_are_read_or_refused(parse: Callable[[bytes | str], object], document: bytes) -> None:
    with suppress(msgspec.DecodeError):
        parse(document)


@given(st.data(), st.sampled_from(SHAPES))
def test_any_object_is_read(data: st.DataObject, shape: type[msgspec.Struct]) -> None:
    names = [field.encode_name for field in msgspec.structs.fields(shape)]
    value = data.draw(st.dictionaries(st.sampled_from(names), json_values))
    assert isinstance(sidecars.parse_object(json.dumps(value), shape), shape)


# Settings


def test_settings_have_permissions_and_hooks() -> None:
    hook = {"type": "command", "command": "make check", "timeout": 30, "if": "Bash(git *)", "async": True}
    document = {
        "permissions": {"allow": ["Bash(ls:*)"], "deny": ["Read(.env)"], "defaultMode": "plan"},
        "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]},
        "cleanupPeriodDays": 90,
        "statusLine": {"type": "command", "command": "status"},
        "enabledPlugins": {"a@b": True},
        "sandbox": {"enabled": True, "network": {"allowedDomains": ["example.org"]}},
    }
    read = settings.parse_settings(json.dumps(document))
    assert (read.permissions.allow, read.permissions.deny) == (("Bash(ls:*)",), ("Read(.env)",))
    assert (read.permissions.default_mode, read.cleanup_period_days) == ("plan", 90)
    (matcher,) = read.hooks["PreToolUse"]
    (found,) = matcher.hooks
    assert (matcher.matcher, found.command, found.timeout) == ("Bash", "make check", 30)
    assert (found.condition, found.in_background) == ("Bash(git *)", True)
    assert read.sandbox is not None
    assert read.sandbox.network is not None
    assert read.sandbox.network.allowed_domains == ("example.org",)


def test_a_wrong_setting_costs_only_itself() -> None:
    document = {"cleanupPeriodDays": "never", "model": "opus", "permissions": {"allow": "all", "deny": ["Bash"]}}
    read = settings.parse_settings(json.dumps(document))
    assert (read.cleanup_period_days, read.model) == (None, "opus")
    assert (read.permissions.allow, read.permissions.deny) == ((), ("Bash",))


def test_masked_settings_show_no_secret() -> None:
    hook = {"type": "http", "url": "https://hooks.example.org/hush", "headers": {"Authorization": "hush"}}
    document = {
        "env": {"TOKEN": "hush", "FLAG": 1},
        "apiKeyHelper": "echo hush",
        "extraKnownMarketplaces": {"m": {"url": "https://hush@example.org"}},
        "hooks": {"Stop": [{"hooks": [hook, {"type": "mcp_tool", "input": {"key": "hush"}}]}]},
        "model": "opus",
    }
    read = settings.parse_settings(json.dumps(document))
    masked = read.masked()
    assert masked.env == {"TOKEN": MASK, "FLAG": MASK}
    assert (masked.api_key_helper, masked.aws_auth_refresh, masked.model) == (MASK, None, "opus")
    assert b"hush" not in msgspec.json.encode(masked)
    assert read.env == {"TOKEN": "hush", "FLAG": 1}
    assert "hush" not in repr(read)
    assert "model='opus'" in repr(read)


# Markdown


PLAN = """\
# Plan: Readers

## Context
```sh
# not a heading
- [ ] still a task
```

## Implementation Plan
### Phase 1: Setup
- [ ] First
  * [x] Second

### Phase 2: Tail
1. [X] Third

## Notes
- [ ]
- [y] no task
"""


def test_a_plan_has_sections_phases_and_tasks() -> None:
    plan = markdown.parse_plan(PLAN)
    assert plan.title == Heading(text="Plan: Readers", level=1, line=1)
    assert [(one.text, one.line) for one in plan.sections] == [
        ("Context", 3),
        ("Implementation Plan", 9),
        ("Notes", 17),
    ]
    assert [(one.text, one.line) for one in plan.phases] == [("Phase 1: Setup", 10), ("Phase 2: Tail", 14)]
    implementation = "Implementation Plan"
    assert plan.tasks == (
        PlanTask(text="still a task", line=6, section="Context"),
        PlanTask(text="First", line=11, section=implementation, phase="Phase 1: Setup"),
        PlanTask(text="Second", done=True, line=12, section=implementation, phase="Phase 1: Setup"),
        PlanTask(text="Third", done=True, line=15, section=implementation, phase="Phase 2: Tail"),
        PlanTask(text="", line=18, section="Notes"),
    )


def test_a_plan_without_a_first_level_is_named_by_its_first_heading() -> None:
    assert markdown.parse_plan("## Only\n").title == Heading(text="Only", level=2, line=1)
    assert markdown.parse_plan("").title is None


@pytest.mark.parametrize(
    ("fence", "headings"),
    [
        ("```\n# in\n```\n# out", ["out"]),
        ("````\n```\n# in\n````\n# out", ["out"]),
        ("~~~\n```\n# in", []),
        ("```x``` y\n# out", ["out"]),
    ],
    ids=["closed", "nested", "open", "on one line"],
)
def test_what_is_in_a_fence_is_no_heading(fence: str, headings: list[str]) -> None:
    assert [heading.text for heading in markdown.parse_memory(fence).headings] == headings


@given(st.lists(st.sampled_from(["- [ ] a", "\t* [x] b\r", "# c", "```", "~~~ d", "---"]) | st.text()))
def test_a_plan_keeps_every_task_line(lines: list[str]) -> None:
    text = "\n".join(lines)
    done = {"- [ ] a": False, "\t* [x] b\r": True}
    expected = {number: done[line] for number, line in enumerate(text.split("\n"), 1) if line in done}
    assert expected.items() <= {task.line: task.done for task in markdown.parse_plan(text).tasks}.items()


@given(st.binary() | st.text())
def test_any_text_is_a_plan_and_a_memory(text: bytes | str) -> None:
    markdown.parse_plan(text)
    markdown.parse_memory(text)


def test_an_index_of_memory_points_to_files() -> None:
    memory = markdown.parse_memory(
        "# Memory index\n\n- [build notes](build.md) — run `make` ![no](picture.png)\n".encode()
    )
    assert memory.headings == (Heading(text="Memory index", level=1, line=1),)
    assert memory.links == (Link(text="build notes", target="build.md", line=3),)
    assert memory.front_matter == {}


def test_a_memory_says_what_it_is() -> None:
    text = '---\nname: build\ndescription: "how to: build"\nmetadata:\n  type: project\n---\n\nSee [[release]].\n'
    memory = markdown.parse_memory(text)
    assert memory.front_matter == {"name": "build", "description": "how to: build", "metadata.type": "project"}
    assert memory.links == (Link(text="release", target="release", line=8),)


def test_front_matter_without_an_end_is_text() -> None:
    memory = markdown.parse_memory("---\nname: build\n# Heading\n")
    assert (memory.front_matter, len(memory.headings)) == ({}, 1)


# Real files


@pytest.mark.parametrize(
    ("pattern", "parse"),
    [
        ("**/*.meta.json", parser(sidecars.AgentMeta)),
        ("**/todos/*.json", sidecars.parse_todos),
        ("**/stats-cache.json", parser(sidecars.StatsCache)),
        ("**/workflows/wf_*.json", parser(sidecars.Workflow)),
    ],
)
def test_real_side_files_are_read_whole(pattern: str, parse: Callable[[bytes], object]) -> None:
    documents = [path.read_bytes() for path in corpus().glob(pattern)]
    assert documents
    for document in documents:
        assert lost(json.loads(document), msgspec.to_builtins(parse(document))) == []


def lost(value: Any, read: Any, path: str = "$") -> list[str]:
    """Return the paths of what a file holds and a struct does not."""
    match value:
        case dict():
            return [gone for key in value for gone in lost(value[key], read.get(key), f"{path}.{key}")]
        case list():
            return [gone for item, kept in zip(value, read, strict=True) for gone in lost(item, kept, f"{path}[]")]
        case _:
            return [] if value == read else [path]
