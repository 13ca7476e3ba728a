"""API requests as 2.1.325 notes them: messages in, `api-request`, `-shape` and `-blob` lines out.

A request names the one it extends and the messages that came since, by their hash. Only what cannot be read
from the conversation's own lines is kept as a blob.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from unspool.format.patch import encode
from unspool.testing.build import Json, Writer
from unspool.testing.demo.surroundings import SYSTEM, TOOLS

_BETAS = ["claude-code-20250219", "interleaved-thinking-2025-05-14", "context-management-2025-06-27"]


class _New(NamedTuple):
    """A message that no request has held yet."""

    role: str
    content: list[Json]
    blob: bool


class Requests:
    """The requests of one conversation."""

    def __init__(self, writer: Writer, source: str) -> None:
        self._writer = writer
        self._source = source
        self._base: str | None = None
        self._kept = 0
        self._new: list[_New] = []
        self._shape: str | None = None

    def hear(self, role: str, content: list[Json], *, blob: bool = False) -> None:
        """Take in a message of the next request; what follows in the same role becomes part of it."""
        if self._new and self._new[-1].role == role == "user" and not blob:
            self._new[-1].content.extend(content)
        else:
            self._new.append(_New(role, list(content), blob))

    def forget(self) -> None:
        """Begin again, as after a compaction."""
        self._base, self._kept, self._new, self._shape = None, 0, [], None

    def send(self, model: str, effort: str) -> str:
        """Note a request; return its id."""
        if self._shape is None:
            self._shape = self._note_shape()
        messages = [{"role": new.role, "content": new.content} for new in self._new]
        tail = [digest(message) for message in messages]
        for new, message, name in zip(self._new, messages, tail, strict=True):
            if new.blob:
                self._note("api-request-blob", hash=name, message=message)
        id = self._writer.ids.uuid()
        self._note(
            "api-request",
            id=id,
            timestamp=self._writer.clock.now,
            version=self._writer.envelope["version"],
            querySource=self._source,
            shapeHash=self._shape,
            params=_params(model, effort),
            **({"base": self._base} if self._base else {}),
            keep=self._kept,
            tail=tail,
            cacheControl=[{"path": ["system", 0], "value": {"type": "ephemeral"}}],
            requestDigest=digest([id, *tail]),
        )
        self._base, self._kept, self._new = id, self._kept + len(tail), []
        return id

    def _note_shape(self) -> str:
        shape = {"system": [{"type": "text", "text": text} for text in SYSTEM], "tools": TOOLS}
        name = digest(shape)
        version = self._writer.envelope["version"]
        self._note("api-request-shape", shapeHash=name, timestamp=self._writer.clock.now, version=version, shape=shape)
        return name

    def _note(self, kind: str, **fields: Any) -> None:
        envelope = self._writer.envelope
        who: Json = {key: envelope[key] for key in ("sessionId", "agentId") if key in envelope}
        self._writer.note(kind, {**who, **fields})


def digest(value: object) -> str:
    """Return the name under which something is kept."""
    return hashlib.sha256(encode(value)).hexdigest()


def _params(model: str, effort: str) -> Json:
    return {
        "model": model,
        "betas": _BETAS,
        "max_tokens": 128_000,
        "thinking": {"type": "adaptive", "display": "updates"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": effort},
    }
