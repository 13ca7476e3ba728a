"""What is compared with an installed Claude Code: what depends on connected servers is none of the edit's."""

from __future__ import annotations

from typing import Any

from unspool.edit.verify.claude_code import _without_absent_tools


def reference(*names: str) -> dict[str, Any]:
    content = [{"type": "tool_reference", "tool_name": name} for name in names]
    return {"type": "tool_result", "tool_use_id": "t", "content": content}


def found(*names: str, recorded: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    loaded = {"type": "text", "text": "Tool loaded."}
    (message,) = _without_absent_tools([{"role": "user", "content": [reference(*names), loaded]}], recorded)
    content: list[dict[str, Any]] = message["content"]
    return content


def test_references_to_tools_of_servers_are_removed_as_claude_code_removes_them() -> None:
    (result,) = found("mcp__a__b")
    assert result["content"] == [{"type": "text", "text": "[Tool references removed - tools no longer available]"}]


def test_references_to_other_tools_and_to_recorded_ones_stay() -> None:
    kept, loaded = found("WebFetch", "mcp__a__b", "mcp__a__c", recorded=("mcp__a__c",))
    assert kept == reference("WebFetch", "mcp__a__c")
    assert loaded["text"] == "Tool loaded."
