"""Decides which texts leave: names are redacted and cut, content only if it was asked for.

Rules
  1. Every text is redacted before it is cut, so that no half of a secret is left at a cut.
  2. Content is JSON in the shape that the semantic conventions give messages. It is redacted as JSON, where the name of
     a field tells that its value is a secret. A long text in it is cut, and the cut says how much is left out.
  3. What is no valid Unicode is replaced: the protocol allows nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from unspool.format import AnyBlock, Text, Thinking, ToolUse, encode_json
from unspool.redact import Redactor, redact_line

MAX_NAME: Final = 200
"""Characters of a name: of a model, a tool, a branch."""
_MARGIN: Final = 4_000
"""Characters after the cut of a name that are looked at for secrets that begin before it."""
MAX_TEXT: Final = 16_000
"""Characters of one text of content."""
MAX_CONTENT: Final = 256_000
"""Characters of one attribute of content."""


class TextPolicy:
    """Redacts and cuts the texts of spans and points."""

    def __init__(self, redactor: Redactor, *, content: bool = False) -> None:
        self._redactor = redactor
        self.content = content
        """Whether prompts, answers, and inputs and results of tools leave too."""
        self.redactions: Counter[str] = Counter()
        """How many secrets were replaced, by kind."""
        self._known: dict[str, str] = {}

    def name(self, text: str) -> str:
        """Return a name without secrets, not longer than `MAX_NAME`."""
        short = text[: MAX_NAME + _MARGIN]
        if (known := self._known.get(short)) is None:
            if len(self._known) > 10_000:  # a file may hold any number of names
                self._known.clear()
            known = self._known[short] = _valid(self._redactor.redact_text(short, self.redactions))[:MAX_NAME]
        return known

    def prompt(self, text: str) -> str:
        """Return a prompt as the messages that went to the model."""
        return self._encode([{"role": "user", "parts": [{"type": "text", "content": text}]}])

    def answer(self, blocks: Iterable[AnyBlock], stop_reason: str | None) -> str:
        """Return an answer as a message: texts, thinking and calls."""
        message = {"role": "assistant", "parts": [part for block in blocks if (part := _part(block))]}
        return self._encode([message | ({"finish_reason": stop_reason} if stop_reason else {})])

    def value(self, value: Any) -> str:
        """Return the input or the result of a tool as JSON."""
        return self._encode(value)

    def _encode(self, value: Any) -> str:
        try:
            redacted = redact_line(self._redactor, encode_json(value))
            self.redactions.update({hit.kind: hit.number for hit in redacted.hits})
            text = encode_json(_shorten(msgspec.json.decode(redacted.text))).decode()
        except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
            return '"[not valid JSON]"'
        text = _valid(text)
        return text if len(text) <= MAX_CONTENT else encode_json(f"[{len(text):,} characters left out]").decode()


def _part(block: AnyBlock) -> dict[str, Any] | None:
    match block:
        case Text(text=text):
            return {"type": "text", "content": text}
        case Thinking(thinking=text):
            return {"type": "reasoning", "content": text}
        case ToolUse(id=id, name=name, input=value):
            return {"type": "tool_call", "id": id, "name": name, "arguments": value}
        case _:
            return None


def _shorten(value: Any) -> Any:
    """Return a JSON value whose texts are cut to `MAX_TEXT`."""
    match value:
        case str() if len(value) > MAX_TEXT:
            return f"{value[:MAX_TEXT]}… [{len(value) - MAX_TEXT:,} characters left out]"
        case dict():
            return {key: _shorten(item) for key, item in value.items()}
        case list():
            return [_shorten(item) for item in value]
        case _:
            return value


def _valid(text: str) -> str:
    """Return a text that can be UTF-8: JSON may hold halves of surrogate pairs."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
