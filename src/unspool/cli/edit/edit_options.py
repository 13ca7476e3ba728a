"""The options of `unspool edit` that ask the API or an installed Claude Code: `--model`, `--exact`, `--claude`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from unspool.cli import output

if TYPE_CHECKING:
    from unspool.edit import Planned
    from unspool.edit.planning import Operation
    from unspool.home import Session


def with_model_summary(session: Session, operation: Operation, model: str) -> Operation:
    """Let a model write the summary of a compression."""
    from unspool.edit import read_session_text, write_model_summary
    from unspool.edit.planning import Compress

    assert isinstance(operation, Compress)
    return write_model_summary(read_session_text(session), operation, model, os.environ)


def with_exact_tokens(planned: Planned) -> Planned:
    """Let the API count the tokens of a plan; a warning says if it did not."""
    # Start-up: most edits neither use the API nor run Claude Code.
    import msgspec

    from unspool.edit import count_exact_tokens

    prepared = count_exact_tokens(planned.prepared, os.environ)
    if not prepared.plan.exact_tokens:
        output.warn("the API did not count the tokens; the numbers are estimates")
    return msgspec.structs.replace(planned, prepared=prepared)


def check_with_claude_code(planned: Planned, command: str) -> bool:
    """Tell whether Claude Code, resuming the edited session, sends what was predicted; a warning says where not."""
    from unspool.edit.verify import compare_with_claude_code

    difference = compare_with_claude_code(planned.prepared, command)
    if difference is not None:
        output.warn(f"Claude Code sends something else: {difference}")
    return difference is None
