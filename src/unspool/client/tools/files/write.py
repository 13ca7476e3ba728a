"""The Write tool: creates a file, or replaces all of its content.

Rules
  1. A file that exists keeps its mode, its encoding, its byte order mark and its line ends.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from unspool.client.permissions.paths import resolve_path
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import FileChange, Json, ToolOutcome
from unspool.client.tools.base import BuiltInTool, ToolArguments
from unspool.client.tools.content.diff import structured_patch
from unspool.client.tools.content.file_text import decode_text, number_lines
from unspool.client.tools.files.edit import change_file, check_encodable, compare_texts, read_unchanged
from unspool.client.tools.files.safe_io import file_status

_MAX_SNIPPET = 4_000
"""Characters of the new content that the model is shown again."""


class WriteArguments(ToolArguments, frozen=True):
    """A file and its content."""

    file_path: Annotated[str, Meta(description="Absolute path")]
    content: str


class WriteTool(BuiltInTool[WriteArguments]):
    """Write a whole file."""

    name = "Write"
    description = "Write a whole file. One that exists must have been read. Prefer Edit for changes."
    arguments = WriteArguments
    target_fields = ("file_path",)

    def plan_change(self, arguments: WriteArguments, context: ToolContext, call_id: str) -> FileChange:
        """Return the change."""
        content, path = check_encodable(arguments.content, "content"), resolve_path(arguments.file_path, context)
        if file_status(path) is None:
            return compare_texts(path, "", content)
        old = decode_text(read_unchanged(path, context))
        return compare_texts(path, old.shown, old.with_content(content).shown)

    async def execute(self, arguments: WriteArguments, context: ToolContext, call_id: str) -> ToolOutcome:
        """Write the file."""
        name, content = arguments.file_path, check_encodable(arguments.content, "content")
        path = resolve_path(name, context)
        result: Json = {"filePath": name, "content": content}
        if file_status(path) is None:
            change_file(path, content.encode(), context)
            return ToolOutcome(
                content=f"File created successfully at: {name}",
                result={"type": "create", **result, "structuredPatch": [], "originalFile": None},
            )
        old = decode_text(read_unchanged(path, context))
        new = old.with_content(content)
        change_file(path, new.encode(), context)
        patch = structured_patch(old.shown, new.shown)
        snippet = number_lines(new.shown.split("\n"), 1)
        if len(snippet) > _MAX_SNIPPET:
            snippet = snippet[:_MAX_SNIPPET] + "\n... [truncated]"
        return ToolOutcome(
            content=f"The file {name} has been updated. Here's the result of running `cat -n` on a snippet of the "
            f"edited file:\n{snippet}",
            result={"type": "update", **result, "structuredPatch": patch, "originalFile": old.shown},
        )
