"""Write: a path and all that is to be in the file in, the file out.

Rules
  1. A file that is there keeps its mode, its encoding, its mark and its line ends.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from unspool.client.permissions.paths import resolved
from unspool.client.tool_context import Desk
from unspool.client.tools.base import Asked, Outcome, aim, parse, schema
from unspool.client.tools.files import text_file
from unspool.client.tools.files.diff import structured_patch
from unspool.client.tools.files.edit import change, checked, current
from unspool.client.tools.files.text_file import decoded, numbered, rewritten

Json: TypeAlias = dict[str, Any]

_SNIPPET = 4_000
"""Characters of what was written that the model is shown again."""


class WriteInput(Asked, frozen=True):
    """Write a file."""

    file_path: Annotated[str, Meta(description="Absolute path")]
    content: str


class Write:
    """The tool."""

    name = "Write"
    description = "Write a whole file. One that exists must have been read. Prefer Edit for changes."
    is_concurrent = False

    def __init__(self) -> None:
        self.input_schema = schema(WriteInput)

    def target(self, input: Json) -> str:
        """Return the path."""
        return aim(input, "file_path")

    async def run(self, input: Json, desk: Desk, call_id: str) -> Outcome:
        """Write it."""
        asked = parse(self.name, input, WriteInput)
        content = checked(asked.content, "content")
        path = resolved(asked.file_path, desk)
        told: Json = {"filePath": asked.file_path, "content": content}
        if text_file.status(path) is None:
            change(path, content.encode(), desk)
            return Outcome(
                content=f"File created successfully at: {asked.file_path}",
                result={"type": "create", **told, "structuredPatch": [], "originalFile": None},
            )
        old = decoded(current(path, desk))
        new = rewritten(old, content)
        change(path, new.encoded(), desk)
        patch = structured_patch(old.shown, new.shown)
        return Outcome(
            content=f"The file {asked.file_path} has been updated. Here's the result of running `cat -n` on a snippet "
            f"of the edited file:\n{_snippet(new.shown)}",
            result={"type": "update", **told, "structuredPatch": patch, "originalFile": old.shown},
        )


def _snippet(text: str) -> str:
    whole = numbered(text.split("\n"), 1)
    return whole if len(whole) <= _SNIPPET else whole[:_SNIPPET] + "\n... [truncated]"
