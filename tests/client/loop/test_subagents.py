"""`client/loop/subagents.py`: agents that are sent, alone, together, nested and into the background."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import unspool
from tests.client.talk import Allow, Place, Session, all_lines, ending, fitted, of, place, records, talk
from unspool.client import events
from unspool.client.chat import Chat
from unspool.client.config import SessionStart
from unspool.client.tool_context import ToolContext
from unspool.client.tools.task import TaskTool
from unspool.edit.rules import check
from unspool.edit.session_text import parse_session_text
from unspool.permissions import RuleDecision


def errand(prompt: str, **more: Any) -> dict[str, Any]:
    about = {"description": "An errand", "prompt": prompt, "subagent_type": "general-purpose", **more}
    return {"type": "tool_use", "name": "Task", "input": about}


def echo(text: str) -> dict[str, Any]:
    return {"type": "tool_use", "name": "Echo", "input": {"text": text}}


def agents(session: Session) -> list[Path]:
    return sorted(
        session.chat.workspace.side_folder.glob("subagents/*.jsonl"), key=lambda path: path.stat().st_mtime_ns
    )


def send(there: Place, cues: dict[str, Any], *prompts: str, **more: Any) -> tuple[Session, list[Any]]:
    session, found = talk(there, {"cues": cues}, *(prompts or ("Go.",)), fittings=fitted([TaskTool()]), **more)
    for path in agents(session):
        written = parse_session_text(session.chat.session_id, path.read_bytes())
        assert [one for one in check.check_rules(written) if one.rule != "G3"] == []
    return session, found


ONE = {
    "Go.": [{"content": [errand("Look around.")]}, {"content": "Done.", "expect": {"result": "All is well."}}],
    "Look around.": [
        {"content": [echo("a")], "expect": {"system": "You are an agent", "absent": "Go."}},
        {"content": "All is well.", "expect": {"result": "a"}},
    ],
}


def test_an_agent_has_a_file_of_its_own_linked_by_meta_and_result(tmp_path: Path) -> None:
    there = place(tmp_path)
    session, found = send(there, ONE)
    (path,) = agents(session)
    (result,) = [line["toolUseResult"] for line in records(session.chat.path, "user") if "toolUseResult" in line]
    assert path.name == f"agent-{result['agentId']}.jsonl"
    assert len(result["agentId"]) == 17
    assert (result["status"], result["totalToolUseCount"]) == ("completed", 1)
    assert result["content"] == [{"type": "text", "text": "All is well."}]
    assert result["totalTokens"] > 0
    call = of(events.CallEnded, found)[0]
    meta = msgspec.json.decode(path.with_suffix(".meta.json").read_bytes())
    assert (meta["agentType"], meta["toolUseId"], meta["spawnDepth"]) == ("general-purpose", call.id, 1)
    for line in all_lines(path):
        assert (line["isSidechain"], line["agentId"]) == (True, result["agentId"])
        assert line["sessionId"] == session.chat.session_id
    first = all_lines(path)[0]
    assert (first["parentUuid"], first["message"]["content"]) == (None, "Look around.")


def test_the_library_links_an_agent_to_its_call(tmp_path: Path) -> None:
    there = place(tmp_path)
    session, found = send(there, ONE)
    (agent,) = unspool.open(there.config).session(session.chat.session_id).agents
    assert agent.call is not None
    assert agent.call.use.id == of(events.CallEnded, found)[0].id


def test_what_an_agent_does_is_told_and_written_beside(tmp_path: Path) -> None:
    session, found = send(place(tmp_path), ONE)
    inner = [type(event.event).__name__ for event in of(events.SubagentEvent, found)]
    assert inner[0] == "TurnBegan"
    assert inner[-1] == "TurnEnded"
    assert "CallEnded" in inner
    progress = records(session.chat.path, "progress")
    assert [line["data"]["message"]["type"] for line in progress] == ["assistant", "user"]
    hung = {line["parentUuid"] for line in all_lines(session.chat.path) if "uuid" in line}
    assert hung.isdisjoint(line["uuid"] for line in progress)


def test_what_an_agent_used_counts_for_who_sent_it_once(tmp_path: Path) -> None:
    there = place(tmp_path)
    session, found = send(there, ONE)
    own = sum(event.usage["output_tokens"] for event in of(events.ResponseDone, found))
    theirs = sum(
        event.event.usage["output_tokens"]
        for event in of(events.SubagentEvent, found)
        if isinstance(event.event, events.ResponseDone)
    )
    assert found[-1].usage["output_tokens"] == own + theirs
    counted = unspool.open(there.config).session(session.chat.session_id).usage
    assert counted.output == own + theirs


def test_two_agents_work_at_once(tmp_path: Path) -> None:
    cues = {
        "Go.": [
            {"content": [errand("Do one."), errand("Do two.")]},
            {"content": "Both.", "expect": {"result": ["1", "2"]}},
        ],
        "Do one.": [{"content": [echo("x")]}, "1"],
        "Do two.": [{"content": [echo("y")]}, "2"],
    }
    session, found = send(place(tmp_path), cues)
    assert len(agents(session)) == 2
    order = [(event.event.__class__.__name__, event.call_id) for event in of(events.SubagentEvent, found)]
    ends = [place for place, (name, _) in enumerate(order) if name == "TurnEnded"]
    begins = [place for place, (name, _) in enumerate(order) if name == "TurnBegan"]
    assert max(begins) < min(ends)


def nested(depth: int) -> dict[str, Any]:
    cues: dict[str, Any] = {"Go.": [{"content": [errand("Level 1.")]}, "Done."]}
    for level in range(1, depth):
        cues[f"Level {level}."] = [{"content": [errand(f"Level {level + 1}.")]}, f"Back at {level}."]
    cues[f"Level {depth}."] = ["Deep."]
    return cues


def test_agents_send_agents_down_to_a_limit(tmp_path: Path) -> None:
    session, _ = send(place(tmp_path), nested(3))
    metas = [msgspec.json.decode(path.with_suffix(".meta.json").read_bytes()) for path in agents(session)]
    assert sorted(meta["spawnDepth"] for meta in metas) == [1, 2, 3]


def test_an_agent_that_may_not_send_another_is_told_so(tmp_path: Path) -> None:
    session, found = send(place(tmp_path), nested(4))
    assert len(agents(session)) == 3
    assert ending(found) == "end_turn"
    assert any("cannot be nested any deeper" in path.read_text() for path in agents(session))


def test_an_agent_that_fails_is_an_error_the_turn_goes_on_with(tmp_path: Path) -> None:
    cues = {
        "Go.": [
            {"content": [errand("Break.")]},
            {"content": "A pity.", "expect": {"result": "not you", "is_error": True}},
        ],
        "Break.": [{"error": {"status": 403, "message": "not you"}}],
    }
    _, found = send(place(tmp_path), cues)
    assert ending(found) == "end_turn"


def test_an_interrupt_ends_agents_too_and_leaves_their_files_sound(tmp_path: Path) -> None:
    cues = {"Go.": [{"content": [errand("Wait.")]}], "Wait.": [{"content": [echo("never")]}], "And now?": ["On."]}

    def stop(event: Any, chat: Chat) -> None:
        if isinstance(event, events.SubagentEvent) and isinstance(event.event, events.CallProgressed):
            chat.interrupt()

    session, found = talk(place(tmp_path), {"cues": cues}, "Go.", "And now?", at=stop, fittings=fitted([TaskTool()]))
    assert [turn.ending for turn in of(events.TurnEnded, found)] == ["interrupted", "end_turn"]
    (path,) = agents(session)
    assert "[Request interrupted by user for tool use]" in path.read_text()


def test_an_agent_in_the_background_is_told_of_when_it_has_ended(tmp_path: Path) -> None:
    cues = {
        "Go.": [
            {"content": [errand("Look.", run_in_background=True)]},
            {"content": [echo("meanwhile")], "expect": {"result": "launched"}},
            {"content": "Fine.", "expect": {"text": ["<task-notification>", "All is well."]}},
        ],
        "Look.": ["All is well."],
    }
    _, found = send(place(tmp_path), cues)
    (ended,) = of(events.TaskEnded, found)
    assert ended.status == "completed"
    assert found[-1].usage["output_tokens"] > sum(e.usage["output_tokens"] for e in of(events.ResponseDone, found))


def test_an_agent_has_no_more_tools_than_its_definition_says(tmp_path: Path) -> None:
    cues = {
        "Go.": [{"content": [errand("Look.", subagent_type="Explore")]}, "Done."],
        "Look.": [{"content": "Seen.", "expect": {"tools": ["Echo", "Put"]}}],
    }
    session, _ = send(place(tmp_path), cues)
    sent = [[tool["name"] for tool in request["tools"]] for request in session.model.requests]
    assert sent[0] == ["Echo", "Put", "Task"]
    assert sent[1] == ["Echo", "Put"]


def test_an_agent_may_have_another_model(tmp_path: Path) -> None:
    cues = {"Go.": [{"content": [errand("Look.", model="claude-haiku-4-5")]}, "Done."], "Look.": ["Seen."]}
    session, found = send(place(tmp_path), cues)
    assert [request["model"] for request in session.model.requests][1] == "claude-haiku-4-5"
    assert [*found[-1].models][1] == "claude-haiku-4-5"


def test_files_that_agents_change_can_be_taken_back(tmp_path: Path) -> None:
    there = place(tmp_path)
    (there.work / "a.txt").write_text("as it was")
    write = {"type": "tool_use", "name": "Put", "input": {"path": "a.txt", "text": "changed"}}
    cues = {"Go.": [{"content": [errand("Write.")]}, "Done."], "Write.": [{"content": [write]}, "Written."]}
    session, _ = send(there, cues)
    (point,) = session.chat.points()
    assert session.chat.rewind(point.uuid, conversation=False, files=True) == ["a.txt"]
    assert (there.work / "a.txt").read_text() == "as it was"


@pytest.mark.parametrize("kind", ["nobody", ""])
def test_an_agent_that_nobody_defined_is_an_error(tmp_path: Path, kind: str) -> None:
    cues = {
        "Go.": [{"content": [errand("Look.", subagent_type=kind)]}, {"content": "Oh.", "expect": {"is_error": True}}]
    }
    send(place(tmp_path), cues)


def test_a_session_whose_agent_was_cut_off_can_be_gone_on_with(tmp_path: Path) -> None:
    there = place(tmp_path)
    session, _ = send(there, ONE)
    lines = session.chat.path.read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b'"progress"' in line)
    session.chat.path.write_bytes(b"".join(lines[: at + 1]))
    script = [{"content": "On.", "expect": {"anywhere": "Tool call interrupted"}}]
    talk(there, script, "And now?", start=SessionStart(resume=session.chat.path))


def test_what_an_agent_may_not_do_is_told_of_who_sent_it(tmp_path: Path) -> None:
    class NoEcho(Allow):
        def judge(self, tool: str, input: dict[str, Any], desk: ToolContext) -> RuleDecision:
            return RuleDecision(behaviour="deny" if tool == "Echo" else "allow", why="no echo")

    cues = {"Go.": [{"content": [errand("Say.")]}, "Done."], "Say.": [{"content": [echo("a")]}, "I may not."]}
    _, found = talk(place(tmp_path), {"cues": cues}, "Go.", fittings=fitted([TaskTool()], NoEcho()))
    assert [denied["tool_name"] for denied in found[-1].denials] == ["Echo"]


def test_a_long_result_of_an_agent_is_told_in_short(tmp_path: Path) -> None:
    cues = {"Go.": [{"content": [errand("Say.")]}, "Done."], "Say.": [{"content": [echo("x" * 9000)]}, "Said."]}
    session, _ = send(place(tmp_path), cues)
    told = [line for line in records(session.chat.path, "progress") if line["data"]["message"]["type"] == "user"]
    assert len(told[0]["data"]["message"]["message"]["content"][0]["content"]) == 2001
