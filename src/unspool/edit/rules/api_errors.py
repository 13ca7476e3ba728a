"""Finds out from an error text of the Messages API what is broken in a session, and which command helps.

The texts are the public ones that the API answers with status 400 and 413, as people see and paste them: with or
without backquotes, in JSON, cut off at the end. A text is recognised by parts that it contains, in their order; names,
numbers and ids between them do not matter. Looking for them takes time linear in the text.
"""

from __future__ import annotations

from typing import NamedTuple

from unspool.edit.rules.breakage import BREAKAGES

_REPAIR = "unspool edit repair SESSION"


class ErrorAdvice(NamedTuple):
    """What an error text says of a session, and what to do."""

    breakage: str | None
    """The breakage; None where the session is sound and something else is the matter."""
    message: str
    command: str


class _KnownError(NamedTuple):
    parts: tuple[str, ...]
    """Parts of the text, in their order, as `_normalise` leaves them."""
    breakage: str | None
    message: str = ""
    command: str = _REPAIR


_TOO_LONG = "the conversation does not fit into the context of the model"
_THINKING_GONE = "thinking of the last turn was changed or removed: only an earlier turn can be continued"
_FORK = "unspool edit fork SESSION --at -2"
_TABLE = (
    _KnownError(("tool_use ids were found without tool_result",), "missing-result"),
    _KnownError(("unexpected tool_use_id found in tool_result",), "orphan-result"),
    _KnownError(("each tool_use must have a single result",), "orphan-result"),
    _KnownError(("found multiple tool_result blocks",), "orphan-result"),
    _KnownError(("tool_result", "corresponding tool_use block in the previous message"), "orphan-result"),
    _KnownError(("tool_use ids must be unique",), "doubled-call"),
    _KnownError(("invalid signature in thinking block",), "unsigned-thinking"),
    _KnownError(("thinking.signature:", "field required"), "unsigned-thinking"),
    _KnownError(("thinking.signature:", "valid string"), "unsigned-thinking"),
    _KnownError(("thinking.thinking:", "field required"), "unsigned-thinking"),
    _KnownError(("each thinking block must contain thinking",), "unsigned-thinking"),
    _KnownError(("invalid data in redacted_thinking block",), "unsigned-thinking"),
    _KnownError(("text content blocks must be non-empty",), "empty-content"),
    _KnownError(("text content blocks must contain non-whitespace text",), "empty-content"),
    _KnownError(("must have non-empty content",), "empty-content"),
    _KnownError(("cache_control cannot be set for empty text blocks",), "empty-content"),
    _KnownError(("image exceeds", "maximum"), "refused-image"),
    _KnownError(("image dimensions exceed max allowed size",), "refused-image"),
    _KnownError(("could not process image",), "refused-image"),
    _KnownError(("image does not match the provided media type",), "refused-image"),
    _KnownError(("image cannot be empty",), "refused-image"),
    _KnownError(("image.source.base64", "invalid base64"), "refused-image"),
    _KnownError(("tool use with id", "was found without a corresponding"), "unpaired-server-tool"),
    _KnownError(("corresponding server_tool_use block before it",), "unpaired-server-tool"),
    _KnownError(("corresponding mcp_tool_use block before it",), "unpaired-server-tool"),
    _KnownError(("first message must use the", "role"), "broken-parent"),
    _KnownError(("roles must alternate",), "broken-parent"),
    _KnownError(("thinking", "blocks in the latest assistant message cannot be modified"), None, _THINKING_GONE, _FORK),
    _KnownError(("expected thinking or redacted_thinking, but found",), None, _THINKING_GONE, _FORK),
    _KnownError(("prompt is too long",), None, _TOO_LONG, "unspool edit trim SESSION --to 60%"),
    _KnownError(("input is too long",), None, _TOO_LONG, "unspool edit trim SESSION --to 60%"),
    _KnownError(("exceed context limit",), None, _TOO_LONG, "unspool edit trim SESSION --to 60%"),
    _KnownError(
        ("request exceeds the maximum size",),
        None,
        "the request has too many bytes",
        "unspool edit trim SESSION --images --results",
    ),
    _KnownError(
        ("request_too_large",), None, "the request has too many bytes", "unspool edit trim SESSION --images --results"
    ),
    _KnownError(
        ("pdf specified was not valid",), None, "a document cannot be read", "unspool edit trim SESSION --images"
    ),
    _KnownError(("pdf pages",), None, "the documents have too many pages", "unspool edit trim SESSION --images"),
)


def find_error_advice(error: str) -> ErrorAdvice | None:
    """Return what an error text of the API says of a session; None if it is not known."""
    words = _normalise(error)
    for known in _TABLE:
        if _contains(words, known.parts):
            message = known.message or BREAKAGES[known.breakage or ""]
            return ErrorAdvice(known.breakage, message, known.command)
    return None


def _normalise(error: str) -> str:
    """Return a text in lower case, without the marks that are lost or escaped where errors are pasted."""
    plain = error.lower().replace("`", "").replace("\\", "").replace('"', "").replace("'", "")
    return " ".join(plain.split())


def _contains(words: str, parts: tuple[str, ...]) -> bool:
    at = 0
    for part in parts:
        found = words.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True
