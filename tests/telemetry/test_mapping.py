"""Whatever a line holds, spans and points can be made of it, sent, and add up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import json_values
from tests.telemetry.sending import open_files
from unspool.redact import Redactor
from unspool.telemetry import group_sessions
from unspool.telemetry.mapping import DataPoint, Span, TextPolicy, make_span_id, make_trace_id, map_points, map_spans
from unspool.telemetry.protobuf import encode_points, encode_spans
from unspool.testing.build import assistant, session, tool_result, tool_use, user

ID = "0b5c4e9a-7d21-4f30-9c8e-1a2b3c4d5e6f"
LINES = session(
    user("one"),
    assistant("two", tool_use("Bash", command="ls"), tool_use("Task", prompt="p", subagent_type="Explore")),
    tool_result("a"),
    tool_result("b", structured={"agentId": "a1", "totalDurationMs": 500}),
    assistant("three"),
    id=ID,
).data.splitlines()
AGENT = session(
    user("p"), assistant("four", tool_use("Read", file_path="/a")), tool_result("c"), id=ID, agent="a1"
).data


def mapped(config: Path, *, content: bool = False) -> tuple[list[Span], list[DataPoint]]:
    spans, points = list[Span](), list[DataPoint]()
    for group in group_sessions(open_files(config, config.parent / "own")):
        found = map_spans(group.read(), TextPolicy(Redactor(b"k" * 32), content=content))
        spans += found
        points += map_points(found)
    assert encode_spans(spans, {"service.name": "unspool"})
    assert encode_points(points, {"service.name": "unspool"})
    return spans, points


def write(config: Path, lines: list[bytes], agent: bytes = AGENT) -> None:
    folder = config / "projects" / "-home-me-project"
    (folder / ID / "subagents").mkdir(parents=True, exist_ok=True)
    (folder / f"{ID}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    (folder / ID / "subagents" / "agent-a1.jsonl").write_bytes(agent)


def test_ids_are_made_of_the_session_and_the_line_alone(tmp_path: Path) -> None:
    write(tmp_path / "one", LINES)
    write(tmp_path / "two", LINES)
    first, second = mapped(tmp_path / "one"), mapped(tmp_path / "two")
    assert first == second
    assert {span.trace_id for span in first[0]} == {bytes.fromhex(ID.replace("-", ""))}
    assert len({span.span_id for span in first[0]}) == len(first[0])


@given(st.text(max_size=50), st.lists(st.text(max_size=5), max_size=4))
def test_ids_have_the_length_that_the_protocol_demands(session_id: str, parts: list[str]) -> None:
    trace = make_trace_id(session_id)
    assert len(trace) == 16
    assert any(trace)
    assert len(make_span_id(trace, *parts)) == 8


def test_a_trace_id_is_never_only_zeros() -> None:
    assert any(make_trace_id("00000000-0000-0000-0000-000000000000"))


def test_lines_that_were_written_twice_have_a_span_each_time(tmp_path: Path) -> None:
    write(tmp_path / "claude", [LINES[0], *LINES[-1:], LINES[0], *LINES[-1:]], b"")
    spans, points = mapped(tmp_path / "claude")
    assert len([span for span in spans if "unspool.turn.kind" in span.attributes]) == 2
    assert sum(point.value for point in newest(points, "unspool.turns")) == 2


def test_an_agent_is_in_the_call_that_started_it_and_a_tool_in_its_request(tmp_path: Path) -> None:
    write(tmp_path / "claude", LINES)
    spans, _ = mapped(tmp_path / "claude")
    by_id = {span.span_id: span for span in spans}
    chains = {tuple(chain(by_id, span)) for span in spans}
    assert (
        "execute_tool Read",
        "chat claude-opus-4-5-20251101",
        "invoke_agent Explore",
        "execute_tool Task",
        "chat claude-opus-4-5-20251101",
        "invoke_agent Claude Code",
        "session",
    ) in chains


def test_a_tool_whose_result_says_how_long_it_ran_began_that_long_before_its_end(tmp_path: Path) -> None:
    found = {"durationMs": 400, "numFiles": 0, "filenames": [], "truncated": False}
    steps = [user("go"), assistant(tool_use("Glob", pattern="*")), tool_result("none", structured=found)]
    write(tmp_path / "claude", session(*steps, id=ID).data.splitlines())
    spans, _ = mapped(tmp_path / "claude")
    (call,) = [span for span in spans if span.name == "execute_tool Glob"]
    assert call.end - call.start == 400


def test_agents_that_say_they_started_each_other_are_in_no_circle(tmp_path: Path) -> None:
    own = session(user("p"), assistant(tool_use("Task", prompt="p", id="toolu_self")), id=ID, agent="a1").data
    write(tmp_path / "claude", LINES[:1], own)
    meta = tmp_path / "claude" / "projects" / "-home-me-project" / ID / "subagents" / "agent-a1.meta.json"
    meta.write_text(json.dumps({"toolUseId": "toolu_self"}))
    spans, _ = mapped(tmp_path / "claude")
    by_id = {span.span_id: span for span in spans}
    assert all(list(chain(by_id, span))[-1] == "session" for span in spans)


@pytest.mark.parametrize(
    "time", ["0001-01-01T00:00:00Z", "9998-12-31T23:59:59Z", "1969-12-31T23:59:59Z", "", "later", None, 5]
)
def test_a_time_that_the_protocol_cannot_hold_is_the_beginning_of_the_session(tmp_path: Path, time: Any) -> None:
    lines = [json.loads(line) for line in LINES]
    for line in lines[1:]:
        line["timestamp"] = time
    write(tmp_path / "claude", [json.dumps(line).encode() for line in lines])
    spans, points = mapped(tmp_path / "claude")
    assert len(spans) > 6
    assert points


def test_a_session_whose_lines_have_no_time_is_as_old_as_its_file(tmp_path: Path) -> None:
    lines = [{**json.loads(line), "timestamp": None} for line in LINES]
    write(tmp_path / "claude", [json.dumps(line).encode() for line in lines], b"")
    changed = (tmp_path / "claude" / "projects" / "-home-me-project" / f"{ID}.jsonl").stat().st_mtime_ns // 1_000_000
    spans, _ = mapped(tmp_path / "claude")
    assert all(abs(span.start - changed) < 60_000 for span in spans)


def test_names_that_a_file_makes_up_do_not_make_any_number_of_series(tmp_path: Path) -> None:
    steps = [step for number in range(300) for step in (assistant(tool_use(f"tool{number}")), tool_result("x"))]
    write(tmp_path / "claude", session(user("go"), *steps, id=ID).data.splitlines())
    _, points = mapped(tmp_path / "claude")
    names = {point.attributes.get("gen_ai.tool.name") for point in points}
    assert len(names) < 110
    assert sum(point.value for point in newest(points, "unspool.tool_calls")) == 301  # one is the agent's


def test_a_name_of_any_length_is_cut(tmp_path: Path) -> None:
    steps = [user("go"), assistant(tool_use("T" * 1_000_000), model="m" * 1_000_000)]
    write(tmp_path / "claude", session(*steps, id=ID).data.splitlines())
    spans, points = mapped(tmp_path / "claude")
    assert len(encode_spans(spans, {})) + len(encode_points(points, {})) < 100_000


@given(st.data())
def test_any_value_in_any_field_gives_spans_that_can_be_sent(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    lines = [json.loads(line) for line in LINES]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.sampled_from(lines))
        while isinstance(inner := at.get("message"), dict) and data.draw(st.booleans()):
            at = inner
        at[data.draw(st.sampled_from([*at, "isApiErrorMessage", "error", "apiErrorType", "toolUseResult"]))] = (
            data.draw(json_values)
        )
    place = tmp_path_factory.mktemp("hostile")
    write(place / "claude", [json.dumps(line).encode() for line in lines])
    spans, points = mapped(place / "claude", content=data.draw(st.booleans()))
    assert len({span.span_id for span in spans}) == len(spans)
    assert all(0 <= point.start < point.time for point in points)


def newest(points: list[DataPoint], metric: str) -> list[Any]:
    found = {}
    for point in points:
        if point.metric == metric:
            found[repr(sorted(point.attributes.items()))] = point
    return list(found.values())


def chain(by_id: dict[bytes, Span], span: Span) -> list[str]:
    """Return the names from a span to its root."""
    names, seen = [span.name], {span.span_id}
    while span.parent_id:
        span = by_id[span.parent_id]
        assert span.span_id not in seen
        seen.add(span.span_id)
        names.append(span.name)
    return names
