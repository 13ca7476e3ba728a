"""Something that a rule does not allow, and where it is."""

from __future__ import annotations

from typing import NamedTuple


class Violation(NamedTuple):
    """A rule that is broken. Together, file and offset say where; the subject says by whom."""

    rule: str
    offset: int
    message: str
    subject: str = ""
    """The id of the line or call, or what else tells this violation from others of its rule."""
    file: str = ""
