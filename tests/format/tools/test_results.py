import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.real_files import corpus
from unspool.format.base import ABSENT, Usage
from unspool.format.tools import parse as results
from unspool.format.tools.agents import AgentCompleted, AgentLaunched, SendMessageResult, TeammateSpawned
from unspool.format.tools.files import (
    Dimensions,
    EditResult,
    Hunk,
    ImageFile,
    ReadImage,
    ReadResult,
    ReadText,
    ReadUnchanged,
    TextFile,
    UnchangedFile,
)
from unspool.format.tools.parse import RESULT_TYPES, ListResult, OtherResult, TextResult
from unspool.format.tools.plans import (
    AskUserQuestionResult,
    StatusChange,
    TaskItem,
    TaskListResult,
    TaskUpdateResult,
    join_answer,
)
from unspool.format.tools.shell import BashResult, Commit, GitOperation
from unspool.format.tools.web import WebSearchHit, WebSearchHits, WebSearchResult

FACTS = Path(__file__).parents[1] / "facts" / "tool_results.tsv"
KNOWN = sorted({shape for shapes in RESULT_TYPES.values() for shape in shapes}, key=lambda shape: shape.__name__)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=8), values, max_size=3),
    max_leaves=10,
)
tools = st.none() | st.sampled_from([*RESULT_TYPES, "mcp__server__tool", "Gash"])


def facts() -> list[tuple[str, set[str]]]:
    with FACTS.open() as file:
        return [(row["tool"], set(row["keys"].split())) for row in csv.DictReader(file, delimiter="\t")]


def keys(shape: type[msgspec.Struct]) -> set[str]:
    tag = shape.__struct_config__.tag_field
    return {field.encode_name for field in msgspec.structs.fields(shape)} | ({tag} if tag else set())


def sample(shape: type[msgspec.Struct], names: set[str]) -> dict[str, Any]:
    """Return an object with these keys, each with the value it has by default."""
    return {key: value for key, value in msgspec.to_builtins(shape()).items() if key in names}


def parse(tool: str | None, value: object) -> Any:
    return results.parse_result(tool, msgspec.json.encode(value))


def test_every_genuine_key_is_declared() -> None:
    known = [(tool, names) for tool, names in facts() if tool != "<unknown>"]
    assert len(known) > 80
    declared = {tool: set[str]().union(*map(keys, shapes)) for tool, shapes in RESULT_TYPES.items()}
    assert [(tool, names - declared[tool]) for tool, names in known if names - declared[tool]] == []


def test_every_genuine_shape_is_one_struct_of_its_tool() -> None:
    for tool, names in facts():
        if tool != "<unknown>":
            (fits, *_) = [shape for shape in RESULT_TYPES[tool] if names <= keys(shape)]
            assert type(parse(tool, sample(fits, names))) is fits, (tool, names)


def test_every_genuine_shape_without_a_call_is_recognised() -> None:
    for tool, names in facts():
        if tool == "<unknown>":
            (fits, *_) = [shape for shape in KNOWN if names <= keys(shape)]
            assert type(parse(None, sample(fits, names))) is fits, names


@pytest.mark.parametrize("raw", [None, b"", ABSENT, memoryview(b""), b"null", b" null\n"])
def test_no_result_is_none(raw: Any) -> None:
    assert results.parse_result("Bash", raw) is None


def test_bytes_come_in_any_wrapping() -> None:
    raw = b'{"stdout":"hi"}'
    wrapped: list[Any] = [raw, memoryview(raw), msgspec.Raw(raw)]
    assert {results.parse_result("Bash", one) for one in wrapped} == {BashResult(stdout="hi")}


@pytest.mark.parametrize("tool", ["Bash", "mcp__server__tool", None])
def test_text_and_lists_are_results_of_any_tool(tool: str | None) -> None:
    assert parse(tool, "Error: no") == TextResult(text="Error: no")
    assert parse(tool, [{"type": "text", "text": "hi"}]) == ListResult(items=({"type": "text", "text": "hi"},))


def test_a_command_tells_what_it_did_to_the_repository() -> None:
    value = {"stdout": "", "stderr": "", "gitOperation": {"commit": {"sha": "9bb7c34a", "kind": "committed"}}}
    assert parse("Bash", value) == BashResult(
        git_operation=GitOperation(commit=Commit(sha="9bb7c34a", kind="committed"))
    )


def test_what_was_read_tells_its_kind() -> None:
    text = {"filePath": "a", "content": "x\n", "numLines": 1, "startLine": 1, "totalLines": 1}
    assert parse("Read", {"type": "text", "file": text}) == ReadText(
        file=TextFile(file_path="a", content="x\n", num_lines=1, start_line=1, total_lines=1)
    )
    image = {"base64": "aGk=", "type": "image/png", "originalSize": 2, "dimensions": {"displayWidth": 1}}
    assert parse("Read", {"type": "image", "file": image}) == ReadImage(
        file=ImageFile(base64="aGk=", type="image/png", original_size=2, dimensions=Dimensions(display_width=1))
    )
    assert parse("Read", {"type": "file_unchanged", "file": {"filePath": "a"}}) == ReadUnchanged(
        file=UnchangedFile(file_path="a")
    )
    assert parse("Read", {"type": "hologram", "file": {}}) == OtherResult(value={"type": "hologram", "file": {}})


@pytest.mark.parametrize("shape", get_args(ReadResult))
def test_every_kind_of_read_comes_back(shape: type[msgspec.Struct]) -> None:
    assert type(parse("Read", shape())) is shape


def test_an_edit_has_its_patch() -> None:
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-a", "+b"]}
    value = {
        "filePath": "f",
        "oldString": "a",
        "newString": "b",
        "originalFile": None,
        "structuredPatch": [hunk],
    }
    patch = (Hunk(old_start=1, old_lines=1, new_start=1, new_lines=1, lines=("-a", "+b")),)
    edit = EditResult(file_path="f", old_string="a", new_string="b", structured_patch=patch)
    assert parse("Edit", value) == parse(None, value) == edit


@pytest.mark.parametrize("tool", ["Task", "Agent", None])
def test_an_agent_has_answered_or_was_sent_off(tool: str | None) -> None:
    done = {"agentId": "a1", "content": [], "totalDurationMs": 5, "totalToolUseCount": 1}
    usage = {"input_tokens": 1, "service_tier": "standard"}
    answered = AgentCompleted(
        agent_id="a1",
        total_duration_ms=5,
        total_tool_use_count=1,
        usage=Usage(input_tokens=1, service_tier="standard"),
    )
    assert parse(tool, done | {"usage": usage, "status": "completed"}) == answered
    assert parse(tool, done | {"usage": usage}) == answered, "1.0.x wrote no status"
    assert parse(tool, {"agentId": "a1", "isAsync": True, "status": "async_launched"}) == AgentLaunched(
        agent_id="a1", is_async=True
    )
    teammate = {"status": "teammate_spawned", "teammate_id": "bob@team", "agent_id": "bob@team"}
    assert parse(tool, teammate) == TeammateSpawned(teammate_id="bob@team", agent_id="bob@team")


def test_a_search_gives_pages_and_words() -> None:
    hits = {"tool_use_id": "srvtoolu_1", "content": [{"title": "T", "url": "U"}]}
    value = {"query": "q", "results": [hits, "found T"], "durationSeconds": 1.5}
    found = (WebSearchHits(tool_use_id="srvtoolu_1", content=(WebSearchHit(title="T", url="U"),)), "found T")
    assert parse("WebSearch", value) == WebSearchResult(query="q", results=found, duration_seconds=1.5)


def test_tasks_and_their_changes_have_types() -> None:
    assert parse("TaskList", {"tasks": [{"id": "1", "subject": "s", "blockedBy": ["2"]}]}) == TaskListResult(
        tasks=(TaskItem(id="1", subject="s", blocked_by=("2",)),)
    )
    value = {
        "success": True,
        "taskId": "1",
        "updatedFields": ["status"],
        "statusChange": {"from": "a", "to": "b"},
    }
    assert parse("TaskUpdate", value) == TaskUpdateResult(
        success=True, task_id="1", updated_fields=("status",), status_change=StatusChange(from_="a", to="b")
    )


def test_what_does_not_fit_keeps_its_value() -> None:
    assert parse("Bash", {"stdout": 5}) == OtherResult(value={"stdout": 5})
    assert parse("Bash", 5) == OtherResult(value=5)
    assert parse("Gash", {"stdout": "", "is_error": False}) == OtherResult(value={"stdout": "", "is_error": False})
    assert parse(None, {}) == OtherResult(value={})


def test_a_sign_of_another_tool_does_not_make_it_that_tool() -> None:
    value = {"stdout": "", "stderr": "", "interrupted": False}
    assert parse(None, value) == BashResult()
    assert parse("mcp__server__tool", value) == OtherResult(value=value)
    assert parse("TaskList", value | {"tasks": 5}) == OtherResult(value=value | {"tasks": 5})


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"{} {}",
    ],
    ids=["cut", "no JSON", "deep list", "deep object", "two"],
)
@pytest.mark.parametrize("tool", ["Bash", "Read", None])
def test_what_cannot_be_decoded_is_still_a_result(tool: str | None, raw: bytes) -> None:
    assert results.parse_result(tool, raw) == OtherResult()


@pytest.mark.parametrize("raw", [b'{"stdout":"a\xff"}', rb'{"stdout":"a\ud800"}'])
def test_text_that_is_no_text_is_mended(raw: bytes) -> None:
    assert results.parse_result("Bash", raw) == BashResult(stdout="a\ufffd")


@given(tools, st.binary() | st.text().map(str.encode))
def test_any_bytes_are_some_result(tool: str | None, raw: bytes) -> None:
    results.parse_result(tool, raw)


@given(tools, json_values)
def test_any_json_is_some_result(tool: str | None, value: Any) -> None:
    results.parse_result(tool, json.dumps(value).encode())


@given(st.data(), tools, st.sampled_from(KNOWN))
def test_known_keys_with_any_values_are_some_result(
    data: st.DataObject, tool: str | None, shape: type[msgspec.Struct]
) -> None:
    value = data.draw(st.dictionaries(st.sampled_from(sorted(keys(shape))), json_values))
    results.parse_result(tool, json.dumps(value).encode())


def test_real_results_fit_their_tools() -> None:
    found = [pair for path in corpus().rglob("*.jsonl") for pair in named_results(path)]
    objects = [(tool, value) for tool, value in found if tool in RESULT_TYPES and isinstance(value, dict)]
    assert objects
    assert [tool for tool, value in objects if isinstance(parse(tool, value), OtherResult)] == []


def named_results(path: Path) -> Iterator[tuple[str | None, Any]]:
    names: dict[str | None, str | None] = {}
    for line in path.read_bytes().splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        message = record.get("message") if isinstance(record, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        names |= {block.get("id"): block.get("name") for block in blocks if block.get("type") == "tool_use"}
        for block in blocks:
            if block.get("type") == "tool_result" and "toolUseResult" in record:
                yield names.get(block.get("tool_use_id")), record["toolUseResult"]


def test_answers_may_be_lists_where_several_options_may_be_chosen() -> None:
    value = {"questions": [], "answers": {"Which?": ["a", "b"], "When?": "now"}}
    parsed = results.parse_result("AskUserQuestion", msgspec.json.encode(value))
    assert isinstance(parsed, AskUserQuestionResult)
    assert parsed.answers == {"Which?": ("a", "b"), "When?": "now"}
    assert [join_answer(answer) for answer in parsed.answers.values()] == ["a, b", "now"]


def test_a_message_may_name_the_colours_of_sender_and_target() -> None:
    routing = {"sender": "a", "senderColor": "blue", "target": "b", "targetColor": "red"}
    value = msgspec.json.encode({"success": True, "message": "sent", "routing": routing})
    parsed = results.parse_result("SendMessage", value)
    assert isinstance(parsed, SendMessageResult)
    assert parsed.routing is not None
    assert (parsed.routing.sender_color, parsed.routing.target_color) == ("blue", "red")
