"""The Messages API's part of a line: role, content and what was used."""

from typing import Any

from unspool.format.blocks import AnyBlock, as_blocks
from unspool.format.shape import Shape
from unspool.format.usage import Usage


class Message(Shape, frozen=True):
    """The API's part of a user or assistant line. An assistant line normally holds one block of it."""

    role: str | None = None
    content: str | tuple[AnyBlock, ...] = ""
    id: str | None = None
    type: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    """Null on every line of most messages before 2.1.64; on all lines from 2.1.100 on."""
    stop_sequence: str | None = None
    usage: Usage | None = None
    stop_details: Any = None
    diagnostics: Any = None
    container: Any = None
    context_management: Any = None

    @property
    def blocks(self) -> tuple[AnyBlock, ...]:
        """The content as blocks, whichever way it was written."""
        return as_blocks(self.content)
