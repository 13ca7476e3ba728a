"""A row of a page: one thing that happened, in a form that JSON, HTML and tests can look at."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from unspool.export.depth import Depth
from unspool.export.page.pictures import Picture

INLINE = 65_536
"""How many characters of one value a page shows before somebody asks for all of it."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a transcript; what is said openly is under it."""

    key: str
    """Where it stands: `<offset>.<block>`, in an agent's file `<agent>/<offset>.<block>`."""
    kind: str
    """`prompt`, `answer`, `thought`, `call`, `fold`, `inside`, `bad`, or the kind of a mark."""
    depth: int = Depth.STEPS
    """The least depth at which it is seen."""
    sign: str = ""
    name: str = ""
    target: str = ""
    outcome: str = ""
    state: str = "done"
    time: str | None = None
    took: float | None = None
    """Seconds from the call to its result."""
    tokens: int | None = None
    """What the answer cost to write; on the first row of each."""
    size: int | None = None
    """Bytes of the result."""
    text: str = ""
    length: int = 0
    """Characters of all the text, shown or not."""
    pictures: tuple[Picture, ...] = ()
    agent: str | None = None
    """The agent that a call started."""
    url: str | None = None
    bracket: str = ""
    """Among calls made together: `first`, `middle` or `last`."""
    rows: tuple[Row, ...] = ()
    """What is folded inside."""

    @property
    def is_cut(self) -> bool:
        """Whether there is more text than is here."""
        return self.length > len(self.text)

    @property
    def is_error(self) -> bool:
        """Whether something went wrong."""
        return self.state in ("failed", "interrupted", "rejected")


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A turn on a page, or a part of one."""

    number: int
    chunk: int = 0
    """Which part of a long turn."""
    chunks: int = 1
    left: bool = False
    starts_branch: bool = False
    rows: tuple[Row, ...] = ()


def shown(rows: tuple[Row, ...], depth: Depth) -> tuple[Row, ...]:
    """Return the rows that are seen at a depth."""
    return tuple(row for row in rows if row.depth <= depth)


def each(rows: tuple[Row, ...]) -> Iterator[Row]:
    """Yield rows and what is folded inside them."""
    for row in rows:
        yield row
        yield from each(row.rows)
