"""What is derived a line at a time is what `graph/` makes of a whole session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import unspool
from tests.graph.test_messages import joined_again
from tests.store.asking import Columns
from unspool.graph.agents import Agent
from unspool.graph.turns import join_text
from unspool.home import Session
from unspool.store.columns.values import clean_text
from unspool.testing import build


def by_source(columns: Columns, query: str) -> dict[Path, list[tuple[Any, ...]]]:
    """Return rows by the path in their first column."""
    found: dict[Path, list[tuple[Any, ...]]] = {}
    for path, *row in columns.rows(query):
        found.setdefault(Path(path), []).append(tuple(row))
    return found


def own_sessions(columns: Columns) -> list[Session]:
    """Return the sessions that have a file of their own."""
    return [session for session in unspool.open(columns.roots[0]).sessions() if not session.is_missing]


def told(table: str, names: str) -> str:
    return f"""SELECT s.path, {names} FROM {table} t JOIN sources s ON s.id = t.source_id WHERE s.kind = 'session'
        ORDER BY t."offset" """


def test_messages(columns: Columns) -> None:
    names = "message_id, role, t.lines, t.blocks, model, stop_reason, final, t.offset"
    found = by_source(columns, told("messages", names))
    for session in own_sessions(columns):
        assert found.get(session.path, []) == sorted(
            [
                (one.id, one.role, len(one.entries), len(one.blocks), one.model, one.stop_reason, one.final,
                 one.entries[0].offset)
                for one in session.messages
            ],
            key=lambda row: row[-1],
        )  # fmt: skip


def test_tool_calls(columns: Columns) -> None:
    names = "tool_use_id, name, input, result, error, t.offset, result_offset"
    found = by_source(columns, told("tool_calls", names))
    for session in own_sessions(columns):
        rows = [(*row[:2], row[2] and json.loads(row[2]), *row[3:]) for row in found.get(session.path, [])]
        expected = [
            (call.id, call.name, plain(call.input), clean_text(join_text(call.result.blocks)) if call.result else None,
             call.failed if call.result else None, call.use_entry.offset,
             call.result_entry.offset if call.result_entry else None)
            for call in session.tool_calls
        ]  # fmt: skip
        assert sorted(rows, key=repr) == sorted(expected, key=repr)


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value).replace("\\u0000", "\\ufffd"))


def test_turns(columns: Columns) -> None:
    found = by_source(columns, told("turns", "number, uuid, t.offset, prompt, queued, t.kind, t.lines"))
    for session in own_sessions(columns):
        assert found.get(session.path, []) == [
            (number, one.prompt.record.uuid, one.prompt.offset, clean_text(one.text), one.speaker.value == "queued",
             one.speaker.value, len(one.entries))
            for number, one in enumerate(session.turns, 1)
        ]  # fmt: skip


def test_blocks_of_history_that_was_appended_again_in_other_lines_are_rows_once(tmp_path: Path) -> None:
    answer = build.assistant("a", build.tool_use("Read", id="t"))
    story = build.session(build.user("x"), answer, joined_again(1, 2), build.tool_result("r"))
    file = tmp_path / "config" / "projects" / "-p" / "20000000-0000-4000-8000-000000000000.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(story.data)
    columns = Columns(tmp_path / "own", tmp_path / "config")
    columns.refresh()
    assert list(columns.rows('SELECT type, tool_use_id FROM blocks ORDER BY "offset", position')) == [
        ("text", None), ("text", None), ("tool_use", "t"), ("tool_result", "t"),
    ]  # fmt: skip


def test_agents(columns: Columns) -> None:
    query = """SELECT s.path, t.session_id, t.agent_id, class, type, description, prompt, tool_use_id, linked_by
        FROM agents t JOIN sources s ON s.id = t.source_id"""
    found = by_source(columns, query)
    for session in own_sessions(columns):
        for agent, source in zip(session.agents, session.agent_sources, strict=True):
            own = [row[1:] for row in found[source.path] if row[0] == session.id]
            assert own == [_agent(agent)]


def _agent(agent: Agent) -> tuple[Any, ...]:
    # A call without an id fits every agent without one, to `graph`; to SQL it fits none.
    call = agent.call.id if agent.call and agent.call.id else None
    about = (agent.id, agent.kind.value, agent.type, agent.description, clean_text(agent.prompt))
    return (*about, call, agent.linked_by if call else None)
