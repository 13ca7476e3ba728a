"""`--model` and `--exact`: what the API is asked about an edit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from unspool.cli.reading import warn
from unspool.edit.asking import exact, summarised
from unspool.edit.checking import manuscript_of
from unspool.edit.planning import Compress

if TYPE_CHECKING:
    from unspool.edit.edits import Planned
    from unspool.edit.planning import Operation
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
