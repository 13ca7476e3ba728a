"""The same program of the SDK with Claude Code and with chat: the messages, type by type and field by field.

Needs node, npm and once their registry; see `program.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.claude import sdk_program
from tests.claude.program import Place, installed

pytest.importorskip("claude_agent_sdk")
pytestmark = pytest.mark.claude

VERSION = "2.1.328"
Json = dict[str, Any]
_ALL = "every type"
LACKING: dict[str, set[str]] = {
    _ALL: {"timestamp", "request_id", "message.context_management", "tool_use_meta", "tool_result_meta"},
    "stream_event/message_start": {"ttft_ms", "thinking_display"},
    "system/init": {
        "additional_directories", "analytics_disabled", "capabilities", "fast_mode_disabled_reason", "fast_mode_state",
        "mcp_servers[].source", "memory_paths", "messaging_socket_path", "original_cwd", "per_turn_effort_active",
        "plugins[]", "product_feedback_disabled", "terminal_slash_commands", "ultrathink_available",
        "ultrathink_typed_raises", "view_mode",
    },
    "result": {
        "api_error_status", "fast_mode_disabled_reason", "fast_mode_state", "first_content_frame_ms",
        "model_usage_since_last_result", "queued_turn_count", "result_index", "safety_stops", "subagent_stats",
        "time_to_request_ms", "ttft_ms", "ttft_stream_ms", "usage.cache_creation", "usage.fallback_credit",
        "usage.inference_geo", "usage.iterations", "usage.output_tokens_details",
        "usage.server_tool_use.web_fetch_requests", "usage.service_tier", "usage.speed",
    },
}  # fmt: skip
"""Fields that Claude Code sends and chat does not: the table of docs/compatible.md."""
OURS_ALONE = {"total_cost_micros", "result"}
"""Fields that only chat sends: costs in millionths, and the result of a turn that failed."""


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Json]]:
    found = {}
    for name, program in (("claude", installed(VERSION)), ("chat", None)):
        root = tmp_path_factory.mktemp(name)
        found[name] = sdk_program.run(Place(root, root / "work"), program)
    return found


def test_the_messages_are_of_the_same_types_in_the_same_order(streams: dict[str, list[Json]]) -> None:
    theirs, ours = (_without_repeats([kind(one) for one in streams[name]]) for name in ("claude", "chat"))
    assert ours == theirs


def test_the_messages_have_the_same_fields_but_for_those_listed(streams: dict[str, list[Json]]) -> None:
    theirs, ours = (_fields_by_kind(streams[name]) for name in ("claude", "chat"))
    problems = []
    for name in theirs:
        listed = LACKING[_ALL] | LACKING.get(name, set()) | LACKING.get(name.partition("/")[0], set())
        problems += [f"{name}: {field} is lacking" for field in theirs[name] - ours[name] if not _is_in(field, listed)]
        problems += [f"{name}: {field} is new" for field in ours[name] - theirs[name] if field not in OURS_ALONE]
    assert problems == []


def test_the_results_say_the_same(streams: dict[str, list[Json]]) -> None:
    # Not `num_turns`: chat counts requests, Claude Code the results of calls, and one more.
    same = ("subtype", "is_error", "terminal_reason", "structured_output")
    theirs, ours = ([one for one in streams[name] if one["type"] == "result"] for name in ("claude", "chat"))
    for one, other in zip(theirs, ours, strict=True):
        # Claude Code starts calls while the answer still comes: an interrupt may meet it in a call, and chat in none.
        fields = [name for name in same if name != "terminal_reason" or not one["is_error"]]
        assert other["terminal_reason"].partition("_")[0] == one["terminal_reason"].partition("_")[0]
        assert {name: other.get(name) for name in fields} == {name: one.get(name) for name in fields}
        assert [denied["tool_input"] for denied in other["permission_denials"]] == [
            denied["tool_input"] for denied in one["permission_denials"]
        ]
        assert one["is_error"] or one["result"] == other["result"]


def kind(message: Json) -> str:
    match message:
        case {"type": "stream_event", "event": {"type": name}}:
            return f"stream_event/{name}"
        case {"type": "assistant" | "user" as name, "message": {"content": list(content)}}:
            return f"{name}/{content[0]['type']}"
        case {"type": name, "subtype": subtype}:
            return f"{name}/{subtype}"
        case {"type": "turn", "prompt": prompt}:
            return f"turn/{prompt}"
        case _:
            return str(message["type"])


def _without_repeats(kinds: list[str]) -> list[str]:
    return [one for at, one in enumerate(kinds) if not at or kinds[at - 1] != one]


def _fields_by_kind(messages: list[Json]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for message in messages:
        found.setdefault(kind(message), set()).update(_fields(message))
    return found


def _fields(value: Any, where: str = "") -> Iterator[str]:
    """Yield the paths of all fields, but for those that a tool or a model names."""
    match value:
        case dict():
            for name, inner in value.items():
                path = f"{where}.{name}" if where else name
                yield path
                if name not in ("input", "tool_use_result", "modelUsage", "structured_output"):
                    yield from _fields(inner, path)
        case [first, *_]:
            yield from _fields(first, f"{where}[]")


def _is_in(field: str, listed: set[str]) -> bool:
    """Return whether a field, or one that it is in, is listed."""
    return any(field == one or field.startswith((f"{one}.", f"{one}[")) for one in listed)
