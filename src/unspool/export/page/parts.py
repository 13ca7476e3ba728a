"""The parts of a file as an index remembers them: turns, their chunks, the calls in them."""

from __future__ import annotations

import msgspec

from unspool.export.page.content import Content

CHUNK = 150
"""Steps."""
PROMPT = 400
"""How many characters of a prompt the outline keeps."""


class Chunk(msgspec.Struct):
    """A stretch of a turn."""

    start: int
    steps: int = 0
    """How many rows it has at the usual depth, about."""
    characters: int = 0
    """Of what is shown open."""


class Compacted(msgspec.Struct, frozen=True):
    """Where the conversation was compacted."""

    offset: int
    before: int | None = None
    after: int | None = None
    trigger: str | None = None


class Part(msgspec.Struct):
    """A turn: where it begins and what is in it."""

    start: int
    chunks: list[Chunk]
    prompt: str = ""
    queued: bool = False
    time: str | None = None
    last: str | None = None
    """The time of its last message."""
    tools: dict[str, int] = {}
    errors: int = 0
    added: int = 0
    removed: int = 0
    compacted: list[Compacted] = []
    content: Content = msgspec.field(default_factory=Content)
    """What it put into the context."""


class Called(msgspec.Struct):
    """A tool call: where it and its result stand."""

    name: str = ""
    use: int = -1
    block: int = 0
    result: int = -1
    result_block: int = 0
    failed: bool = False
    path: str | None = None
    """The file it changed."""
    alike: bytes = b""
    """A hash of tool and input: calls that ask for the same have the same."""

    @property
    def key(self) -> str:
        """What its row is known by."""
        return f"{self.use}.{self.block}" if self.use >= 0 else f"{self.result}.{self.result_block}"


def join(part: Part, other: Part) -> None:
    """Let a turn go on with what was taken for another."""
    first, *rest = other.chunks
    part.chunks[-1].steps += first.steps
    part.chunks[-1].characters += first.characters
    part.chunks += rest
    part.last = other.last or part.last
    for name, count in other.tools.items():
        part.tools[name] = part.tools.get(name, 0) + count
    part.errors += other.errors
    part.added += other.added
    part.removed += other.removed
    part.compacted = [*part.compacted, *other.compacted]
    part.content.join(other.content)
