"""The two kinds of structs the format is made of, what they are decoded from, and what that raises.

Rules
  1. Every field has a default: a line that lacks one is still a line. What should have been there is
     `unspool doctor`'s business.
  2. Unknown fields are ignored here and kept in the bytes; nothing is refused because it is new.
  3. Python names are the file's own names in snake case; where that rule does not give the file's
     spelling back (`toolUseID`), the field carries it as `name=`.
  4. A struct is part of a tree and never of a cycle, so the garbage collector need not look at it (`gc=False`): it
     would look at every line of a file again and again.
  5. Annotations are types and not text (no `from __future__ import annotations` in this folder): msgspec would have to
     evaluate each, a quarter of the time that loading the codec takes.
"""

from typing import TypeAlias

import msgspec

Buffer: TypeAlias = bytes | memoryview

UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""All that a decoder raises."""


class Shape(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An object whose keys are written in snake case, as the Messages API does."""


class CamelShape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """An object whose keys are written in camel case, as Claude Code does."""


ABSENT = msgspec.Raw(b"")
"""What a `Raw` field holds when the line does not have it."""
