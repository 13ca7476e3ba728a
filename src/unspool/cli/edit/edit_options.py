"""`--model` and `--exact`: what the API is asked about an edit.

[merged: edit_claude.py] `--claude`: what an installed Claude Code makes of a planned session.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from unspool.cli.store_access import warn
from unspool.edit.model_summary import exact, summarised
from unspool.edit.planner import Compress
from unspool.edit.verify.check_session import manuscript_of
from unspool.edit.verify.claude_code import judged as compared

if TYPE_CHECKING:
    from unspool.edit.api import Planned
    from unspool.edit.planner import Operation
    from unspool.home import Session


def written(session: Session, operation: Operation, model: str) -> Operation:
    """Let a model write the summary."""
    assert isinstance(operation, Compress)
    return summarised(manuscript_of(session), operation, model, os.environ)


def counted(planned: Planned) -> Planned:
    """Let the API count tokens."""
    prepared = exact(planned.prepared, os.environ)
    if not prepared.plan.exact_tokens:
        warn("the API did not count the tokens; the numbers are estimates")
    return msgspec.structs.replace(planned, prepared=prepared)


def judged(planned: Planned, command: str) -> bool:
    """Tell whether it sends what was predicted; say where it does not."""
    found = compared(planned.prepared, command)
    if found is not None:
        warn(f"Claude Code sends something else: {found}")
    return found is None
