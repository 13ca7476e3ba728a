"""Tool calls: every pair there is by id, wherever its halves stand."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given

from tests.graph.test_messages import again, as_json, sessions
from tests.real_files import corpus
from unspool.format.records import Entry
from unspool.format.tools.parse import TextResult
from unspool.format.tools.shell import BashResult
from unspool.graph.tool_calls import ToolCall, find_orphan_results, find_tool_calls
from unspool.read.source_tree import Kind, scan
from unspool.read.tail import read_items
from unspool.testing.build import (
    Built,
    Step,
    assistant,
    compaction,
    result_block,
    session,
    text,
    tool_result,
    tool_use,
    user,
)


def calls(*steps: Step) -> list[ToolCall]:
    return find_tool_calls(session(*steps).entries)


def test_a_call_has_its_result_and_both_lines() -> None:
    made = session(user("hi"), assistant("I look.", tool_use("Read", id="a", file_path="/x")), tool_result("words"))
    (call,) = find_tool_calls(made.entries)
    assert (call.id, call.name, call.input) == ("a", "Read", {"file_path": "/x"})
    assert call.result is not None
    assert call.result.content == "words"
    assert (call.use_entry, call.result_entry) == (made.entries[2], made.entries[3])


def test_parallel_results_find_their_calls_in_any_order() -> None:
    found = calls(
        assistant(tool_use("Read", id="a"), tool_use("Read", id="b"), tool_use("Read", id="c")),
        tool_result("of c", id="c"),
        tool_result("of a", id="a"),
        tool_result("of b", id="b"),
    )
    assert [(call.id, call.result.content if call.result else None) for call in found] == [
        ("a", "of a"),
        ("b", "of b"),
        ("c", "of c"),
    ]


def test_a_result_may_stand_before_its_call() -> None:
    (call,) = calls(tool_result("early", id="a"), assistant(tool_use("Read", id="a")))
    assert call.result is not None


def test_a_result_may_come_long_after_its_call() -> None:
    (call,) = calls(
        assistant(tool_use("Read", id="a")), user("wait"), compaction("all"), user("go"), tool_result(id="a")
    )
    assert call.result is not None


def test_a_result_may_stand_in_an_answer() -> None:
    (call,) = calls(assistant(tool_use("Read", id="a"), result_block("a", "there")))
    assert call.result is not None
    assert call.result.content == "there"
    assert call.structured is None


def test_a_result_may_stand_beside_words() -> None:
    (call,) = calls(assistant(tool_use("Bash", id="a")), user(text("no, because"), result_block("a", error=True)))
    assert call.failed


def test_a_call_without_a_result_is_still_a_call() -> None:
    (call,) = calls(assistant(tool_use("Read", id="a")))
    assert call.result is None
    assert call.result_entry is None
    assert call.structured is None
    assert call.overflow is None
    assert call.ended is None
    assert call.duration is None
    assert not call.failed


def test_a_result_without_a_call_is_told_apart() -> None:
    made = session(user("hi"), tool_result("lost", id="gone"), assistant(tool_use("Read", id="a")), tool_result(id="a"))
    ((result, entry),) = find_orphan_results(made.entries)
    assert result.tool_use_id == "gone"
    assert entry == made.entries[1]
    assert [call.id for call in find_tool_calls(made.entries)] == ["a"]


def test_of_what_is_written_twice_the_first_counts() -> None:
    made = session(
        assistant(tool_use("Read", id="a")),
        tool_result("first", id="a"),
        again(0, uuid="new"),
        tool_result("second", id="a"),
    )
    (call,) = find_tool_calls(made.entries)
    assert call.use_entry == made.entries[0]
    assert call.result is not None
    assert call.result.content == "first"


def test_words_that_look_like_calls_are_words() -> None:
    assert calls(user('{"type":"tool_use","id":"a"}'), assistant("tool_use")) == []


@pytest.mark.parametrize("error", [True, False])
def test_a_call_failed_if_its_result_says_so(error: bool) -> None:
    (call,) = calls(assistant(tool_use("Bash")), tool_result("hm", error=error))
    assert call.failed is error


def test_the_structured_result_has_the_type_of_its_tool() -> None:
    structured = {"stdout": "a", "stderr": "", "interrupted": False, "persistedOutputPath": "/x/tool-results/b1.txt"}
    (call,) = calls(assistant(tool_use("Bash", command="ls")), tool_result("a", structured=structured))
    assert isinstance(call.structured, BashResult)
    assert call.structured.stdout == "a"
    assert call.overflow == "/x/tool-results/b1.txt"


def test_a_structured_result_may_be_a_string() -> None:
    (call,) = calls(assistant(tool_use("Bash")), tool_result("no", error=True, structured="User rejected tool use"))
    assert call.structured == TextResult(text="User rejected tool use")
    assert call.overflow is None


def test_a_call_takes_the_time_between_its_lines() -> None:
    made = session(assistant(tool_use("Bash")), tool_result(), step=2.5)
    (call,) = find_tool_calls(made.entries)
    assert (call.start_timestamp, call.end_timestamp) == ("2026-01-05T09:00:00.000Z", "2026-01-05T09:00:02.500Z")
    assert call.duration == timedelta(seconds=2.5)


def test_time_that_runs_backwards_is_no_duration() -> None:
    (call,) = calls(assistant(tool_use("Bash")), tool_result(timestamp="2026-01-05T08:00:00.000Z"))
    assert call.end_timestamp == "2026-01-05T08:00:00.000Z"
    assert call.duration is None


@given(sessions)
def test_a_call_is_paired_if_and_only_if_both_halves_exist(made: Built) -> None:
    uses, results = plain_ids(made.data)
    found = find_tool_calls(made.entries)
    assert [call.id for call in found] == list(uses)
    assert {call.id for call in found if call.result} == uses.keys() & results.keys()
    assert all(call.result.tool_use_id == call.id for call in found if call.result)
    alone = [result.tool_use_id for result, _ in find_orphan_results(made.entries)]
    assert alone == [id for id in results if id not in uses]


def test_every_pair_of_a_real_file_is_found() -> None:
    pairs = 0
    for source in scan(corpus()).of(Kind.SESSION, Kind.AGENT):
        uses, results = plain_ids(source.path.read_bytes())
        entries = [item for item in read_items(source.path) if isinstance(item, Entry)]
        found = find_tool_calls(entries)
        assert {call.id for call in found if call.id} == uses.keys(), source.path.name
        assert {call.id for call in found if call.id and call.result} == uses.keys() & results.keys(), source.path.name
        pairs += len(uses.keys() & results.keys())
    assert pairs > 0


def plain_ids(data: bytes) -> tuple[dict[str, None], dict[str, None]]:
    """Return the ids of calls and of results, as a plain reader finds them."""
    uses: dict[str, None] = {}
    results: dict[str, None] = {}
    for line in map(as_json, data.split(b"\n")):
        message = line.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        if line.get("type") not in ("user", "assistant") or not isinstance(content, list):
            continue
        for block in content:
            match block:
                case {"type": "tool_use", "id": str(id)}:
                    uses[id] = None
                case {"type": "tool_result", "tool_use_id": str(id)}:
                    results[id] = None
                case _:
                    pass
    return uses, results
