"""The command line: parses arguments, calls the packages below, prints the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.cli.main import StepHook, run_command_line

__all__ = ["StepHook", "run_command_line"]

__getattr__ = lazy_door(__name__, {
    "main": "StepHook run_command_line",
})
