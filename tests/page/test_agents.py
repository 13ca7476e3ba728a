"""The agents of a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.page.scene import ID, agent_files, built
from unspool.page import agents
from unspool.page.html.render import Renderer, session_links
from unspool.testing.build import assistant, session, user


def test_agents_stand_under_those_who_started_them(tmp_path: Path) -> None:
    tree = built(tmp_path).agents.read_tree()
    assert [(member.id, [inner.id for inner in member.members]) for member in tree.members] == [
        ("a1", ["a3"]),
        ("a2", []),
    ]
    first = tree.members[0]
    assert (first.type, first.description, first.status, first.calls, first.result) == (
        "Explore",
        "Look",
        "done",
        1,
        "found it",
    )
    assert (first.output, first.cost, first.peak) == (240, 20_540, 12_204)
    assert first.members[0].key == "a1/340.0"
    assert sum(node.cost or 0 for node in tree) == 41_080


def test_an_agent_is_known_by_its_prompt_where_nothing_else_tells(tmp_path: Path) -> None:
    from unspool.testing.build import tool_result, tool_use

    lines = [
        user("go"),
        assistant(tool_use("Task", id="t", prompt="do it", description="d")),
        tool_result("done", id="t"),
    ]
    path = session(*lines, id=ID).save(tmp_path)
    folder = path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-abc.jsonl").write_bytes(session(user("do it"), assistant("done"), agent="abc", id=ID).data)
    import unspool
    from unspool.page.view import PageView

    view = PageView.read(unspool.open(tmp_path).session(ID))
    assert [member.id for member in view.agents.read_tree().members] == ["abc"]
    assert [row.agent for section in view.sections.read_turns(None) for row in section.rows] == [None, "abc"]


def test_an_agent_that_a_person_forked_stands_at_the_line_it_was_forked_after(tmp_path: Path) -> None:
    import unspool
    from unspool.page.view import PageView
    from unspool.testing.build import note

    story = session(user("go"), assistant("done"), id=ID)
    folder = story.save(tmp_path).with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    last = story.entries[1]
    reference = note("fork-context-ref", parentSessionId=ID, parentLastUuid=last.record.uuid, contextLength=2)
    (folder / "agent-afork.jsonl").write_bytes(session(reference, user("do it"), agent="afork", id=ID).data)
    (folder / "agent-afork.meta.json").write_text('{"agentType":"fork","isFork":true,"description":"Look"}')
    tree = PageView.read(unspool.open(tmp_path).session(ID)).agents.read_tree()
    assert [(node.id, node.type, node.key) for node in tree.members] == [("afork", "fork", f"{last.offset}.0")]
    assert tree.others == ()


def test_opening_a_session_reads_no_agent(tmp_path: Path) -> None:
    view = built(tmp_path)
    folder = view.source.path.with_suffix("") / "subagents"
    for path in folder.iterdir():
        path.unlink()
    page = Renderer(session_links(ID)).page(view)
    assert 'data-agent="a1"' in page


def test_of_too_much_only_beginnings_and_ends_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "MAX_BYTES_READ_WHOLE", 10)
    tree = built(tmp_path).agents.read_tree()
    assert not tree.is_whole
    assert {member.id: (member.cost, member.result) for member in tree} == {
        "a1": (None, "found it"),
        "a2": (None, "read"),
        "a3": (None, "deep"),
    }
    assert "too large for a table" in Renderer(session_links(ID)).agents(tree)


def test_agents_without_a_call_stand_apart(tmp_path: Path) -> None:
    path = session(user("hi"), id=ID).save(tmp_path)
    agent_files(path)
    warm = session(user("Warmup"), assistant("ready"), agent="a9", id=ID)
    (path.with_suffix("") / "subagents" / "agent-a9.jsonl").write_bytes(warm.data)
    import unspool
    from unspool.page.view import PageView

    tree = PageView.read(unspool.open(tmp_path).session(ID)).agents.read_tree()
    assert tree.members == ()
    assert {member.id: member.kind for member in tree.others}["a9"] == "warm-up"
