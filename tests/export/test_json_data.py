"""A session as plain data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from inline_snapshot import snapshot

import unspool
from unspool.demo.write import write_demo
from unspool.export import json_data
from unspool.testing.build import (
    Step,
    assistant,
    compaction,
    queued,
    raw,
    result_block,
    rewind,
    session,
    thinking,
    tool_result,
    tool_use,
    user,
)


def opened(tmp_path: Path, *steps: Step, **more: Any) -> unspool.Session:
    path = session(*steps, **more).save(tmp_path / "c")
    return unspool.open(tmp_path / "c").session(path.stem)


def test_a_turn_names_its_answers_and_calls(tmp_path: Path) -> None:
    asked = [user("hi"), assistant("a", tool_use("Bash", id="x")), tool_result("y"), assistant("b")]
    one = opened(tmp_path, *asked, user("ho"))
    uuids = [entry.record.uuid for entry in one.entries]
    answers = [*uuids[1:3], uuids[4]]
    assert json_data.session_to_json(one)["turns"] == [
        {
            "start_uuid": uuids[0],
            "prompt": "hi",
            "kind": "human",
            "queued": False,
            "responses": answers,
            "tool_calls": ["x"],
        },
        {"start_uuid": uuids[5], "prompt": "ho", "kind": "human", "queued": False, "responses": [], "tool_calls": []},
    ]


def test_a_queued_prompt_without_a_line_of_its_own_has_no_uuid(tmp_path: Path) -> None:
    one = opened(tmp_path, user("hi"), queued("wait"), assistant("ok"), version="2.0.76")
    turn = json_data.session_to_json(one)["turns"][1]
    assert (turn["start_uuid"], turn["prompt"], turn["queued"]) == (None, "wait", True)


def test_a_message_has_all_its_blocks_with_every_field(tmp_path: Path) -> None:
    odd = {"type": "text", "text": "b", "brand_new": [1]}
    one = opened(tmp_path, user("hi"), assistant(thinking("t"), odd, usage={"output_tokens": 9, "novel": True}))
    _, answer = json_data.session_to_json(one)["messages"]
    assert answer["blocks"] == [thinking("t"), odd]
    assert answer["usage"]["novel"] is True
    assert answer["uuids"] == [entry.record.uuid for entry in one.entries[1:]]
    assert (answer["role"], answer["final"], answer["stop_reason"]) == ("assistant", True, "end_turn")


def test_a_call_has_its_result_as_it_was_written(tmp_path: Path) -> None:
    structured = {"stdout": "y", "brand_new": {"a": 1}}
    one = opened(
        tmp_path,
        user("hi"),
        assistant(tool_use("Bash", id="a", command="ls", extra=1), tool_use("Bash", id="b")),
        tool_result([{"type": "text", "text": "y", "odd": 1}], id="a", error=True, structured=structured),
    )
    first, second = json_data.session_to_json(one)["tool_calls"]
    assert first == {
        "id": "a",
        "name": "Bash",
        "input": {"command": "ls", "extra": 1},
        "use_uuid": one.entries[1].record.uuid,
        "result_uuid": one.entries[3].record.uuid,
        "result": [{"type": "text", "text": "y", "odd": 1}],
        "structured": structured,
        "error": True,
        "started": one.entries[1].record.timestamp,
        "ended": one.entries[3].record.timestamp,
        "started_at": one.entries[1].record.timestamp,
        "ended_at": one.entries[3].record.timestamp,
    }
    assert (second["result_uuid"], second["result"], second["error"], second["ended"]) == (None, None, False, None)


def test_branches_and_compactions_are_there(tmp_path: Path) -> None:
    branches = [user("a"), assistant("1"), user("b"), rewind(), user("c")]
    one = opened(tmp_path, *branches, compaction("so far", keep=2, postTokens=7), user("d"))
    whole = json_data.session_to_json(one)
    left, active = whole["threads"]
    uuids = [entry.record.uuid for entry in one.entries]
    assert (left["active"], left["fork"], left["uuids"]) == (False, None, uuids[:3])
    assert (active["active"], active["fork"], active["leaf"]) == (True, uuids[3], uuids[-1])
    (done,) = whole["compactions"]
    assert done == {
        "uuid": uuids[4],
        "trigger": "auto",
        "pre_tokens": 160_000,
        "post_tokens": 7,
        "preserved": uuids[2:4],
        "timestamp": one.entries[4].record.timestamp,
        "time": one.entries[4].record.timestamp,
    }


def test_a_stretch_that_was_kept_is_followed_back_to_its_head(tmp_path: Path) -> None:
    made = session(user("a"), assistant("1"), user("b"))
    uuids = [record.uuid for record in made.records]
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "x",
        "compactMetadata": {"preservedSegment": {"headUuid": uuids[1], "tailUuid": uuids[2]}},
    }
    one = opened(tmp_path, user("a"), assistant("1"), user("b"), raw(json.dumps(boundary).encode() + b"\n"))
    assert json_data.compactions_to_json(one.entries)[0]["preserved"] == uuids[1:]


def test_agents_are_there_with_the_call_that_started_them(tmp_path: Path) -> None:
    write_demo(tmp_path / "demo")
    (agent,) = json_data.agents_to_json(unspool.open(tmp_path / "demo").session("22d7"))
    assert Path(agent.pop("path")).name == "agent-5510663b.jsonl"
    assert agent == snapshot(
        {
            "agent_id": "5510663b",
            "id": "5510663b",
            "kind": "task",
            "class": "task",
            "type": "general-purpose",
            "description": "Check the types",
            "call": "toolu_0145bf63361ff0e2404b3c62",
            "linked_by": "result",
        }
    )


def test_a_damaged_line_is_still_data(tmp_path: Path) -> None:
    lone = b'{"type":"user","uuid":"u","message":{"role":"user","content":"\\ud800!"}}\n'
    deep = b'{"type":"user","uuid":"v","message":{"content":[' + b'{"a":' * 3000 + b"1" + b"}" * 3000 + b"]}}\n"
    one = opened(tmp_path, raw(lone), raw(deep), user(result_block("gone")), raw(b'{"torn'))
    blocks = [message["blocks"] for message in json_data.session_to_json(one)["messages"]]
    assert blocks[0] == [{"type": "text", "text": "\ufffd!"}]
    assert blocks[2][0]["tool_use_id"] == "gone"


def test_every_session_of_the_demo_is_data(tmp_path: Path) -> None:
    write_demo(tmp_path / "demo")
    for one in unspool.open(tmp_path / "demo").sessions():
        whole = json_data.session_to_json(one)
        assert len(json.dumps(whole)) > 2
        assert sum(len(message["blocks"]) for message in whole["messages"]) == sum(len(m.blocks) for m in one.messages)
        assert json_data.context_to_json(one)["messages"] == [message.json for message in one.context()]
