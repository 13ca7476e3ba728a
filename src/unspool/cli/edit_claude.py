"""`--claude`: what an installed Claude Code makes of a planned session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.cli.reading import warn
from unspool.edit.resume import judged as compared

if TYPE_CHECKING:
    from unspool.edit.edits import Planned


def judged(planned: Planned, command: str) -> bool:
    """Tell whether it sends what was predicted; say where it does not."""
    found = compared(planned.prepared, command)
    if found is not None:
        warn(f"Claude Code sends something else: {found}")
    return found is None
