"""What of a server's lists and results is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.client.mcp.offers import MAX_DESCRIPTION, parse_prompts, parse_resources, parse_tools, sanitize_schema
from unspool.client.mcp.results import ResultFiles, describe_shape, make_outcome, prompt_texts
from unspool.client.mcp.server_config import ServerConfig
from unspool.client.mcp.tool_references import find_references, replace_references
from unspool.client.mcp.tool_search import list_names
from unspool.client.tool_context import ToolContext, Workspace
from unspool.client.tool_result import ToolFailed

pytest.importorskip("mcp")
SERVER = ServerConfig(name="my server", scope="user", transport="stdio")
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "properties", "text", "data", "name", "a b"]), inner, max_size=3)
    ),
    max_leaves=10,
)
BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "new"])},
    optional=dict.fromkeys(("text", "data", "mimeType", "resource", "uri", "name", "description"), JSON_VALUES),
)


@pytest.fixture
def files(tmp_path: Path) -> ResultFiles:
    return ResultFiles(ToolContext(Workspace(tmp_path, tmp_path, "s", tmp_path), {}), lambda: "1")


def test_names_and_descriptions_are_made_fit_for_the_api() -> None:
    described = "\x1b[31m" + "x" * 5000
    (tool,), problems = parse_tools(SERVER, [{"name": "do it", "description": described, "inputSchema": {}}])
    assert (tool.name, tool.own_name) == ("mcp__my_server__do_it", "do it")
    assert "\x1b" not in tool.description
    assert len(tool.description) < MAX_DESCRIPTION + 20
    assert problems == ()


@given(JSON_VALUES)
def test_any_schema_becomes_one_that_describes_an_object(schema: Any) -> None:
    made, problem = sanitize_schema(schema)
    assert made["type"] == "object"
    assert isinstance(made["properties"], dict)
    assert "\n" not in problem


@given(st.lists(st.dictionaries(st.sampled_from(["name", "uri", "arguments", "_meta"]), JSON_VALUES), max_size=3))
def test_any_list_of_a_server_is_read_without_an_error(items: list[Any]) -> None:
    parse_tools(SERVER, items)
    parse_prompts(SERVER, items)
    parse_resources(items)
    prompt_texts(items)


@given(st.lists(BLOCKS, max_size=3), JSON_VALUES)
def test_any_result_becomes_an_outcome(tmp_path_factory: pytest.TempPathFactory, blocks: list[Any], more: Any) -> None:
    folder = tmp_path_factory.mktemp("results")
    files = ResultFiles(ToolContext(Workspace(folder, folder, "s", folder), {}), lambda: "1")
    outcome = make_outcome("s", "t", {"content": blocks, "structuredContent": more, "_meta": more}, files, {})
    assert outcome.content


def test_an_error_of_a_tool_is_its_text(files: ResultFiles) -> None:
    with pytest.raises(ToolFailed, match="no such table"):
        make_outcome("s", "t", {"content": [{"type": "text", "text": "no such table"}], "isError": True}, files, {})


def test_audio_is_saved_and_named(files: ResultFiles, tmp_path: Path) -> None:
    sound = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
    outcome = make_outcome("s", "t", {"content": [sound]}, files, {})
    path = tmp_path / "s" / "tool-results" / "mcp-s-blob-1.wav"
    words = f"[Audio from s] Binary content (audio/wav, 3 bytes) saved to {path}"
    assert outcome.content == [{"type": "text", "text": words}]
    assert path.read_bytes() == b"\0\0\0"


def test_a_long_result_with_a_picture_is_cut(files: ResultFiles) -> None:
    dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    picture = {"type": "image", "data": dot, "mimeType": "image/png"}
    result = {"content": [picture, {"type": "text", "text": "x" * 100_000}]}
    outcome = make_outcome("s", "t", result, files, {"MAX_MCP_OUTPUT_TOKENS": "2000"})
    assert [block["type"] for block in outcome.content if isinstance(block, dict)] == ["image", "text", "text"]
    assert "[OUTPUT TRUNCATED - exceeded 2000 token limit]" in str(outcome.content)


def test_a_shape_is_described_as_claude_code_does() -> None:
    assert describe_shape({"a": 1, "b": [{"c": "x"}], "d": {"e": {}}}) == "{a: number, b: [{...}], d: {e: {...}}}"


def test_many_names_become_servers_with_numbers() -> None:
    assert list_names(["mcp__a__x", "mcp__b__y"]) == "mcp__a__x\nmcp__b__y"
    assert list_names([f"mcp__a__tool_{n}" for n in range(2000)]) == "mcp__a__* (2000 tools)"


def test_references_become_texts_and_nothing_else_changes() -> None:
    block = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "tool_reference", "tool_name": "t"}]}
    messages: list[dict[str, Any]] = [{"role": "assistant", "content": []}, {"role": "user", "content": [block]}]
    assert find_references(messages) == ["t"]
    (_, made) = replace_references(messages)
    assert made["content"][0]["content"] == [{"type": "text", "text": "Loaded, and can be called now: t"}]
    assert replace_references(messages[:1]) is not None
    assert block["content"] == [{"type": "tool_reference", "tool_name": "t"}]
