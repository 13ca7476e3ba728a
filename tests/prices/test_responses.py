"""What was billed, once each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from unspool.format.records import Entry
from unspool.prices.bill import cost_micros
from unspool.prices.from_entries import response_of_entry, responses_of_entries
from unspool.prices.price_list import find_price
from unspool.prices.responses import CountedResponse, Response, count_once
from unspool.testing.build import assistant, progress, session, thinking, tool_result, tool_use, user

A, B = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"


def response(id: str = "msg_1", **fields: Any) -> Response:
    return Response(**{"id": id, "model": "claude-opus-5", **fields})


def lines(*answers: dict[str, Any]) -> list[Entry]:
    """Return lines of one answer, each with its own output tokens and whatever else is given."""
    steps = []
    for fields in answers:
        usage = {key: value for key, value in fields.items() if key.endswith("_tokens")}
        message = {"id": "msg_1", "model": "claude-opus-5", "usage": usage, "stop_reason": fields.get("stop_reason")}
        rest = {key: value for key, value in fields.items() if key in {"timestamp", "isSidechain", "requestId"}}
        steps.append(assistant("x", message=message, **rest))
    return session(*steps).entries


def test_an_answer_of_several_lines_is_one_response() -> None:
    usage = {"input_tokens": 4, "cache_read_input_tokens": 50, "output_tokens": 120}
    step = assistant(thinking("hm"), "Let me look.", tool_use("Read", file_path="/a"), usage=usage)
    (found,) = responses_of_entries(session(user("hi"), step, tool_result("b"), version="2.1.20").entries)
    assert (found.input, found.cache_read, found.output) == (4, 50, 120)


def test_the_line_with_the_most_output_counts() -> None:
    (found,) = responses_of_entries(lines({"output_tokens": 1}, {"output_tokens": 90}, {"output_tokens": 40}))
    assert found.output == 90


def test_the_offset_is_that_of_the_line_that_counts() -> None:
    entries = lines({"output_tokens": 1}, {"output_tokens": 9})
    assert [found.offset for found in responses_of_entries(entries)] == [entries[1].offset]


def test_the_numbers_are_those_of_one_line() -> None:
    early = {"input_tokens": 900, "output_tokens": 1}
    late = {"input_tokens": 7, "output_tokens": 9, "cache_read_input_tokens": 5}
    (found,) = responses_of_entries(lines(early, late))
    assert (found.input, found.cache_read, found.output) == (7, 5, 9)


def test_of_lines_with_the_same_output_the_fuller_one_counts() -> None:
    (found,) = responses_of_entries(
        lines({"input_tokens": 0, "output_tokens": 5}, {"input_tokens": 80, "output_tokens": 5})
    )
    assert found.input == 80


def test_a_response_is_dated_by_its_earliest_line_whatever_the_offset() -> None:
    times = ["2026-01-05T09:00:00.000Z", "2026-01-05T10:30:00.000+02:00", "2026-01-05T09:30:00", "soon"]
    (found,) = responses_of_entries(lines(*({"output_tokens": n, "timestamp": time} for n, time in enumerate(times))))
    assert (found.timestamp, found.counted_at) == ("2026-01-05T10:30:00.000+02:00", "soon")


@pytest.mark.parametrize(
    ("reasons", "final"),
    [([None, None], False), ([None, "end_turn"], True), (["tool_use", None], True), (["end_turn", "end_turn"], True)],
)
def test_any_stop_reason_makes_a_response_final(reasons: list[str | None], final: bool) -> None:
    (found,) = responses_of_entries(lines(*({"output_tokens": 1, "stop_reason": reason} for reason in reasons)))
    assert found.final is final


def test_a_replay_with_a_new_request_id_is_the_same_response() -> None:
    entries = lines({"output_tokens": 5, "requestId": "req_1"}, {"output_tokens": 5, "requestId": "req_2"})
    assert len(responses_of_entries(entries)) == 1


def test_synthetic_lines_never_count() -> None:
    steps = (assistant("a"), assistant("limit reached", model="<synthetic>", usage={"output_tokens": 10**6}))
    assert [found.output for found in responses_of_entries(session(*steps).entries)] == [120]


def test_responses_come_in_the_order_they_appear() -> None:
    steps = [assistant("a", usage={"output_tokens": n}) for n in (3, 1, 2)]
    assert [found.output for found in responses_of_entries(session(*steps).entries)] == [3, 1, 2]


def test_a_response_in_two_files_is_counted_once() -> None:
    first = response(offset=10, in_own_file=True)
    copy = replace(first, in_own_file=False, offset=99)
    assert count_once([("b", copy), ("a", first)]) == [CountedResponse("a", first, (("b", 99),))]


def test_different_responses_stay_apart() -> None:
    found = count_once([(1, response("msg_1")), (2, response("msg_2"))])
    assert [(one.source, one.merged) for one in found] == [(1, ()), (2, ())]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"output": 2, "sidechain": True}, {"output": 1}),
        ({"sidechain": False}, {"sidechain": True, "input": 9}),
        ({"input": 9, "from_progress": True}, {"input": 8}),
        ({"web_searches": 1, "from_progress": True}, {}),
        ({"from_progress": False, "in_own_file": False}, {"from_progress": True, "in_own_file": True}),
        ({"in_own_file": True, "counted_at": "2026-01-05T10:00:00Z"}, {"counted_at": "2026-01-05T09:00:00Z"}),
        ({"counted_at": "2026-01-05T10:00:00+02:00"}, {"counted_at": "2026-01-05T09:00:00Z"}),
        ({"counted_at": "2026-01-05T09:00:00Z"}, {"counted_at": None}),
        ({"offset": 9, "session_id": "x"}, {"offset": 1, "session_id": "y"}),
    ],
    ids=["output", "main chain", "prompt", "searches", "own line", "at home", "earliest", "dated", "source"],
)
def test_of_two_copies_the_better_owner_counts(better: dict[str, Any], worse: dict[str, Any]) -> None:
    good, bad = ("a", response(**better)), ("b", response(**worse))
    for pair in ([good, bad], [bad, good]):
        (found,) = count_once(pair)
        assert (found.source, found.response) == good


def test_a_resumed_session_belongs_to_the_first() -> None:
    old = session(assistant("a"), id=A)
    entries = {f"{A}.jsonl": old.entries, f"{B}.jsonl": old.entries + session(assistant("b"), id=B).entries}
    found = count_once(
        [(file, one) for file, own in sorted(entries.items(), reverse=True) for one in responses_of_entries(own, file)]
    )
    assert sorted((one.source, one.response.session_id) for one in found) == [(f"{A}.jsonl", A), (f"{B}.jsonl", B)]


def test_an_agents_answer_belongs_to_the_agents_file() -> None:
    agent = session(assistant("a"), agent="a7", id=A)
    (entry,) = agent.entries
    told = {"type": "assistant", "message": {"id": found_id(entry), "usage": {"input_tokens": 4, "output_tokens": 120,
            "cache_creation_input_tokens": 200, "cache_read_input_tokens": 12_000}}}  # fmt: skip
    main = session(progress("agent_progress", tool="t", agentId="a7", message=told), id=A, version="2.1.49")
    files = {f"{A}.jsonl": main.entries, "agent-a7.jsonl": agent.entries}
    (found,) = count_once([(file, one) for file, own in files.items() for one in responses_of_entries(own, file)])
    assert (found.source, found.merged) == ("agent-a7.jsonl", ((f"{A}.jsonl", 0),))


def found_id(entry: Entry) -> str:
    one = response_of_entry(entry)
    assert isinstance(one, Response)
    return one.id


times = st.sampled_from([None, "x", "2026-01-05T09:00:00Z", "2026-01-05T08:00:00-02:00", "2026-01-05T08:59:59.5Z"])
some = st.builds(
    response,
    st.sampled_from(["msg_1", "msg_2", "msg_3"]),
    input=st.integers(0, 2),
    output=st.integers(0, 2),
    cache_read=st.integers(0, 2),
    cache_write_1h=st.integers(0, 2),
    web_searches=st.integers(0, 1),
    final=st.booleans(),
    timestamp=times,
    sidechain=st.booleans(),
    from_progress=st.booleans(),
    in_own_file=st.booleans(),
    session_id=st.sampled_from([A, B]),
)


@st.composite
def found_lines(draw: st.DrawFn) -> list[tuple[str, Response]]:
    """Lines of a few responses in a few files, each at its own offset."""
    drawn = draw(st.lists(st.tuples(st.sampled_from("abc"), some), max_size=12))
    return [(source, replace(one, offset=n, counted_at=one.timestamp)) for n, (source, one) in enumerate(drawn)]


def by_id(found: list[CountedResponse[str]]) -> dict[str, tuple[str, Response, set[tuple[str, int]]]]:
    return {one.response.id: (one.source, one.response, set(one.merged)) for one in found}


def total(found: list[CountedResponse[str]]) -> int:
    return sum(cost_micros(one.response, find_price("claude-opus-5")) for one in found)


@given(found_lines(), st.randoms(use_true_random=False))
def test_the_order_of_lines_does_not_matter(found: list[tuple[str, Response]], random: Any) -> None:
    mixed = random.sample(found, len(found))
    assert by_id(count_once(mixed)) == by_id(count_once(found))


@given(found_lines(), st.data())
def test_a_copy_never_changes_the_totals(found: list[tuple[str, Response]], data: st.DataObject) -> None:
    copies = data.draw(st.lists(st.sampled_from(found), max_size=6)) if found else []
    moved = [(data.draw(st.sampled_from("xyz")), one) for _, one in copies]
    assert total(count_once(found + copies + moved)) == total(count_once(found))


@given(found_lines())
def test_whether_files_are_merged_first_does_not_matter(found: list[tuple[str, Response]]) -> None:
    files = {source: [one for one in found if one[0] == source] for source, _ in found}
    merged = [(one.source, one.response) for own in files.values() for one in count_once(own)]
    expected = {id: (source, one) for id, (source, one, _) in by_id(count_once(found)).items()}
    assert {one.response.id: (one.source, one.response) for one in count_once(merged)} == expected


@given(found_lines())
def test_every_line_is_counted_or_merged(found: list[tuple[str, Response]]) -> None:
    places = [place for one in count_once(found) for place in ((one.source, one.response.offset), *one.merged)]
    assert sorted(places) == sorted((source, one.offset) for source, one in found)


@given(st.permutations(range(5)))
def test_the_order_of_a_files_lines_does_not_matter(order: list[int]) -> None:
    entries = lines(*({"output_tokens": n // 2, "input_tokens": n} for n in range(5)))
    assert responses_of_entries([entries[n] for n in order]) == responses_of_entries(entries)
