"""What one line says of a billed response."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from tests import strategies
from unspool.format.codec import decode
from unspool.format.records import Entry
from unspool.prices.from_entries import response_of_entry
from unspool.prices.responses import Response, UnbilledLine
from unspool.testing.build import assistant, progress, raw, session, system, user

SESSION = "00000000-0000-4000-8000-00000000000a"


def line(value: dict[str, Any], file: str = "") -> Response | UnbilledLine | None:
    (entry,) = session(raw(strategies.written(value) + b"\n")).entries
    return response_of_entry(entry, file)


def answer(usage: object = None, **fields: Any) -> dict[str, Any]:
    message = {"id": "msg_1", "role": "assistant", "model": "claude-opus-5", "usage": usage or {}, "content": []}
    return {"type": "assistant", "message": message, **fields}


def billed(usage: object = None, file: str = "", **fields: Any) -> Response:
    found = line(answer(usage, **fields), file)
    assert isinstance(found, Response)
    return found


def test_a_line_has_all_that_a_bill_needs() -> None:
    usage = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 70,
        "cache_read_input_tokens": 11,
        "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 50},
        "output_tokens": 13,
        "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 9},
        "service_tier": "standard",
        "speed": "fast",
        "inference_geo": "us",
    }
    built = session(user("hi"), assistant("ho", usage=usage), id=SESSION, branch="topic", cwd="/w", agent="a1")
    entry = built.entries[1]
    found = response_of_entry(entry, f"/c/projects/-w/{SESSION}/subagents/agent-a1.jsonl")
    assert found == Response(
        id=entry.record.message.id,  # type: ignore[union-attr]
        request_id=entry.record.request_id,  # type: ignore[union-attr]
        model="claude-opus-4-5-20251101",
        session_id=SESSION,
        agent_id="a1",
        timestamp="2026-01-05T09:00:01.000Z",
        cwd="/w",
        branch="topic",
        version="2.1.325",
        input=3,
        output=13,
        cache_read=11,
        cache_write_5m=20,
        cache_write_1h=50,
        web_searches=2,
        final=True,
        speed="fast",
        service_tier="standard",
        inference_geo="us",
        offset=entry.offset,
        counted_at="2026-01-05T09:00:01.000Z",
        sidechain=True,
        in_own_file=True,
    )
    assert found.prompt == 3 + 70 + 11


@pytest.mark.parametrize(
    ("whole", "parts", "expected"),
    [
        (100, None, (100, 0)),
        (100, {}, (100, 0)),
        (100, {"ephemeral_5m_input_tokens": 100}, (100, 0)),
        (100, {"ephemeral_1h_input_tokens": 100}, (0, 100)),
        (100, {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 60}, (40, 60)),
        (100, {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 70}, (100, 0)),
        (100, {"ephemeral_5m_input_tokens": -10, "ephemeral_1h_input_tokens": 110}, (100, 0)),
        (0, {"ephemeral_5m_input_tokens": 5}, (0, 0)),
    ],
)
def test_cache_writes_are_split_where_the_parts_make_up_the_whole(
    whole: int, parts: object, expected: tuple[int, int]
) -> None:
    found = billed({"cache_creation_input_tokens": whole, "cache_creation": parts})
    assert (found.cache_write_5m, found.cache_write_1h) == expected


def test_a_synthetic_answer_is_dropped() -> None:
    (entry,) = session(assistant("No response requested.", model="<synthetic>")).entries
    assert response_of_entry(entry) == UnbilledLine(0, "synthetic", entry.record.timestamp)


def test_an_answer_without_usage_is_dropped() -> None:
    assert line({"type": "assistant", "message": {"id": "msg_1", "model": "claude-opus-5"}}) == UnbilledLine(
        0, "no usage"
    )


def test_an_answer_of_no_model_counts() -> None:
    found = line({"type": "assistant", "message": {"id": "m", "model": None, "usage": {"output_tokens": 3}}})
    assert isinstance(found, Response)
    assert (found.model, found.output) == (None, 3)


def test_only_answers_are_billed() -> None:
    others = session(user("hi"), system("informational", "x"), progress("bash_progress", output="x")).entries
    assert [response_of_entry(entry) for entry in others] == [None, None, None]


def test_a_stop_reason_makes_it_final() -> None:
    entries = session(assistant("a"), version="2.1.20").entries + session(assistant("a")).entries
    found = [response_of_entry(entry) for entry in entries]
    assert [one.final for one in found if isinstance(one, Response)] == [False, True]


def test_a_line_without_a_message_id_is_known_by_its_uuid() -> None:
    nameless = {"type": "assistant", "uuid": "u-1", "message": {"usage": {"output_tokens": 1}}}
    found = line(nameless)
    assert isinstance(found, Response)
    assert found.id == "u-1"


def test_a_line_without_any_id_is_known_by_its_bytes() -> None:
    lines = [{"type": "assistant", "message": {"usage": {"output_tokens": n}}} for n in (1, 1, 2)]
    one, same, other = (line(value) for value in lines)
    assert isinstance(one, Response)
    assert isinstance(other, Response)
    assert one == same
    assert one.id != other.id


def test_less_than_nothing_is_nothing() -> None:
    found = billed({"input_tokens": -1, "output_tokens": -5, "cache_read_input_tokens": -9,
                    "cache_creation_input_tokens": -2, "server_tool_use": {"web_search_requests": -3}})  # fmt: skip
    assert (found.prompt, found.output, found.web_searches) == (0, 0, 0)


@pytest.mark.parametrize(
    ("file", "fields", "expected"),
    [
        ("s-1.jsonl", {"sessionId": "s-1"}, True),
        ("/a/b/s-1.jsonl", {"sessionId": "s-1"}, True),
        ("C:\\a\\s-1.jsonl", {"sessionId": "s-1"}, True),
        ("s-2.jsonl", {"sessionId": "s-1"}, False),
        ("agent-a7.jsonl", {"sessionId": "s-1", "agentId": "a7"}, True),
        ("agent-a8.jsonl", {"sessionId": "s-1", "agentId": "a7"}, False),
        ("s-1.jsonl", {"sessionId": "s-1", "forkedFrom": {"sessionId": "s-0"}}, False),
        ("s-1.jsonl", {}, False),
        ("", {}, False),
    ],
)
def test_a_line_is_at_home_in_the_file_named_after_it(file: str, fields: dict[str, Any], expected: bool) -> None:
    assert billed(file=file, **fields).in_own_file is expected


def test_the_session_id_may_be_spelled_the_other_way() -> None:
    assert billed(session_id="s-1").session_id == "s-1"


def retelling(**inner: Any) -> Entry:
    told = answer({"output_tokens": 7}, requestId="req_1", uuid="u-9", timestamp="2026-01-05T08:00:00.000Z")
    step = progress("agent_progress", tool="t", agentId="a7", message={**told, **inner}, prompt="p")
    (entry,) = session(step, id=SESSION, version="2.1.49", branch="topic").entries
    return entry


def test_a_progress_line_tells_of_an_agents_answer() -> None:
    found = response_of_entry(retelling(), f"{SESSION}.jsonl")
    assert isinstance(found, Response)
    assert (found.id, found.request_id, found.output, found.timestamp) == (
        ("msg_1", "req_1", 7, "2026-01-05T08:00:00.000Z")
    )
    assert (found.session_id, found.agent_id, found.branch, found.version) == (SESSION, "a7", "topic", "2.1.49")
    assert (found.from_progress, found.sidechain) == (True, True)


def test_a_progress_line_lends_its_time() -> None:
    found = response_of_entry(retelling(timestamp=None))
    assert isinstance(found, Response)
    assert found.timestamp == "2026-01-05T09:00:00.000Z"


def test_a_progress_line_may_tell_of_no_answer() -> None:
    assert response_of_entry(retelling(type="user", message={"role": "user", "content": '"usage"'})) is None
    assert response_of_entry(retelling(message={"content": "hi"})) is None


def test_a_progress_line_may_tell_of_a_synthetic_answer() -> None:
    synthetic = {"model": "<synthetic>", "usage": {"output_tokens": 1}}
    assert response_of_entry(retelling(message=synthetic)) == UnbilledLine(0, "synthetic", "2026-01-05T08:00:00.000Z")


@given(strategies.records)
def test_any_line_can_be_asked(value: dict[str, Any]) -> None:
    for item in decode(strategies.written(value)):
        if isinstance(item, Entry):
            response_of_entry(item, "s.jsonl")
