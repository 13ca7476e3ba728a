"""What fills the context, by category and by file: blocks in, numbers of bytes out.

Bytes, for nobody but the API counts tokens. `filling.py` makes an estimate of them and says so.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from unspool.format.blocks import AnyBlock, Document, Image, Text, ToolResult, ToolUse
from unspool.format.entry import Entry
from unspool.format.records import Attachment, User
from unspool.graph.speakers import Speaker

PICTURE = 5_000
"""About as many bytes of text as a picture takes in tokens."""
_ENCODED = b'"base64"'
_FILES = frozenset({"Read", "Edit", "Write", "MultiEdit", "NotebookEdit"})


class Content(msgspec.Struct):
    """Bytes by category, and by file."""

    kinds: dict[str, int] = {}
    files: dict[str, int] = {}

    def answer(self, blocks: Iterable[AnyBlock]) -> None:
        """Take an answer. Thinking is not sent again."""
        for block in blocks:
            if isinstance(block, Text):
                self._add("answers", len(block.text))
            elif isinstance(block, ToolUse):
                size = _size(block.input)
                self._add("tool inputs", size)
                path = block.input.get("file_path") if isinstance(block.input, dict) else None
                if isinstance(path, str) and block.name in _FILES:
                    self.files[path] = self.files.get(path, 0) + size

    def prompt(self, record: User, who: Speaker) -> None:
        """Take what is said in the user's name."""
        kind = {Speaker.HUMAN: "prompts", Speaker.AGENT: "prompts", Speaker.SUMMARY: "summaries"}.get(who, "reminders")
        for block in record.message.blocks:
            if isinstance(block, Text):
                self._add(kind, len(block.text))
            elif isinstance(block, Image | Document):
                self._add("images", PICTURE)

    def result(self, tool: str, path: str | None, block: ToolResult) -> None:
        """Take what a tool gave back."""
        encoded = memoryview(block.encoded_content)
        size = encoded.nbytes
        if not block.is_text and _ENCODED in bytes(encoded):
            pictures = sum(isinstance(one, Image | Document) for one in block.blocks)
            size = sum(len(one.text) for one in block.blocks if isinstance(one, Text))
            self._add("images", PICTURE * pictures)
        self._add(f"results of {tool}" if tool else "results", size)
        if path:
            self.files[path] = self.files.get(path, 0) + size

    def note(self, entry: Entry) -> None:
        """Take what the program puts beside the conversation."""
        if type(entry.record) is Attachment:
            self._add("attachments", entry.length)

    def forget(self) -> None:
        """Begin anew: the conversation was compacted."""
        self.kinds, self.files = {}, {}

    def join(self, other: Content) -> None:
        """Add what another has."""
        for kind, size in other.kinds.items():
            self._add(kind, size)
        for path, size in other.files.items():
            self.files[path] = self.files.get(path, 0) + size

    def _add(self, kind: str, size: int) -> None:
        self.kinds[kind] = self.kinds.get(kind, 0) + size


def _size(value: object) -> int:
    if isinstance(value, dict):
        return sum(len(str(key)) + len(one) if isinstance(one, str) else 16 for key, one in value.items())
    return len(value) if isinstance(value, str) else 16
