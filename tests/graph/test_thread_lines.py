"""What a resumed session is built from, in which order. Each case was given to `--resume` of 2.1.290 and 2.1.325."""

from __future__ import annotations

import json
from typing import Any

import pytest

from unspool.edit.session_text import parse_session_text
from unspool.graph.context.build import build_context
from unspool.graph.thread_lines import find_thread_entries

Json = dict[str, Any]
BOUNDARY, SUMMARY = "boundary", "summary"


def line(uuid: str, parent: str | None, **fields: Any) -> Json:
    return {"uuid": uuid, "parentUuid": parent, "timestamp": "2026-01-05T09:00:00.000Z", **fields}


def prompt(uuid: str, parent: str | None, **fields: Any) -> Json:
    return line(uuid, parent, type="user", message={"role": "user", "content": uuid}, **fields)


def answer(uuid: str, parent: str | None, *blocks: Json, id: str | None = None) -> Json:
    content = list(blocks) or [{"type": "text", "text": uuid}]
    message = {"id": id or uuid, "role": "assistant", "model": "claude-opus-4-5", "content": content}
    return line(uuid, parent, type="assistant", message=message)


def call(uuid: str, parent: str | None, *, id: str) -> Json:
    return answer(uuid, parent, {"type": "tool_use", "id": f"toolu_{uuid}", "name": "Bash", "input": {}}, id=id)


def result(uuid: str, parent: str | None, *, of: str) -> Json:
    content = [{"type": "tool_result", "tool_use_id": f"toolu_{of}", "content": uuid}]
    return line(uuid, parent, type="user", message={"role": "user", "content": content})


def hook(uuid: str, parent: str | None) -> Json:
    data = {"type": "hook_additional_context", "hookName": "Hook", "content": [uuid]}
    return line(uuid, parent, type="attachment", attachment=data)


def boundary(after: str, **metadata: Any) -> Json:
    fields = {"subtype": "compact_boundary", "logicalParentUuid": after, "compactMetadata": metadata}
    return line(BOUNDARY, None, type="system", **fields)


def thread(*lines: Json) -> list[str | None]:
    entries = parse_session_text("s", b"".join(json.dumps(one).encode() + b"\n" for one in lines)).entries
    return [entry.record.uuid for entry in find_thread_entries(entries)]


def roles(*lines: Json) -> list[str]:
    entries = parse_session_text("s", b"".join(json.dumps(one).encode() + b"\n" for one in lines)).entries
    return [message.role for message in build_context(entries)]


def summary(parent: str = BOUNDARY) -> Json:
    return prompt(SUMMARY, parent, isCompactSummary=True)


OLD = (prompt("p1", None), answer("a1", "p1"), prompt("p2", "a1"), hook("h2", "p2"), answer("a2", "h2"))


def segment(anchor: str) -> Json:
    return {"headUuid": "p2", "anchorUuid": anchor, "tailUuid": "a2"}


def test_a_line_that_was_written_before_its_parent_comes_after_it() -> None:
    lines = (answer("a1", "p1"), prompt("p1", None), prompt("p2", "a1"), answer("a2", "p2"))
    assert thread(*lines) == ["p1", "a1", "p2", "a2"]
    assert roles(*lines) == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize("after", [(), (prompt("p3", SUMMARY), answer("a3", "p3"))])
def test_a_preserved_segment_without_a_list_is_walked(after: tuple[Json, ...]) -> None:
    lines = (*OLD, boundary("a2", preservedSegment=segment(SUMMARY)), summary(), *after)
    assert thread(*lines) == [BOUNDARY, SUMMARY, "p2", "h2", "a2", *(one["uuid"] for one in after)]


def test_what_is_anchored_at_the_boundary_comes_before_the_summary() -> None:
    lines = (*OLD, boundary("a2", preservedSegment=segment(BOUNDARY)), summary(), answer("a3", SUMMARY))
    assert thread(*lines) == [BOUNDARY, "p2", "h2", "a2", SUMMARY, "a3"]


def test_only_the_first_list_of_preserved_lines_is_read() -> None:
    listed = {"anchorUuid": SUMMARY, "uuids": ["p2", "a2"], "allUuids": ["p2", "h2", "a2"]}
    lines = (*OLD, boundary("a2", preservedSegment=segment(SUMMARY), preservedMessages=listed), summary())
    assert thread(*lines) == [BOUNDARY, SUMMARY, "p2", "a2"]


def test_nothing_is_preserved_where_a_preserved_line_is_missing() -> None:
    listed = {"anchorUuid": SUMMARY, "uuids": ["p2", "gone", "a2"]}
    assert thread(*OLD, boundary("a2", preservedMessages=listed), summary()) == [BOUNDARY, SUMMARY]


def test_a_message_that_hung_on_a_summarised_line_hangs_on_what_is_preserved() -> None:
    lines = (*OLD, boundary("a2", preservedSegment=segment(SUMMARY)), summary(), prompt("p3", "a1"), answer("a3", "p3"))
    assert thread(*lines) == [BOUNDARY, SUMMARY, "p2", "h2", "a2", "p3", "a3"]


def test_an_anchor_that_leads_in_a_circle_ends() -> None:
    lines = (*OLD, boundary("a2", preservedSegment=segment("a2")), summary(), prompt("p3", SUMMARY))
    assert "p3" in thread(*lines)


PARALLEL = (prompt("p1", None), call("c1", "p1", id="m"), call("c2", "c1", id="m"))


def test_what_a_hook_said_of_a_result_beside_the_path_is_found() -> None:
    results = (result("r1", "c1", of="c1"), hook("h1", "r1"), result("r2", "c2", of="c2"), hook("h2", "r2"))
    lines = (*PARALLEL, *results, answer("a1", "h2"))
    assert thread(*lines) == ["p1", "c1", "c2", "r1", "h1", "r2", "h2", "a1"]


def test_a_result_that_was_written_late_belongs_to_its_call() -> None:
    answered = (*PARALLEL, result("r2", "c2", of="c2"), answer("a1", "r2"), prompt("p2", "a1"))
    lines = thread(*answered, result("r1", "c1", of="c1"), answer("a2", "p2"))
    assert lines == ["p1", "c1", "c2", "r2", "r1", "a1", "p2", "a2"]


def test_a_branch_that_was_left_is_no_part_of_what_hangs_on_a_result() -> None:
    lines = (*PARALLEL[:2], result("r1", "c1", of="c1"), hook("h1", "r1"), prompt("left", "h1"), answer("a1", "r1"))
    assert thread(*lines) == ["p1", "c1", "r1", "a1"]
