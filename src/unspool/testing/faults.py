"""Kill a command at a named step, to test what a killed process leaves behind.

`UNSPOOL_KILL_AT=written` kills the process with SIGKILL the first time the step `written` is reached, `written:3` the
third time. Commands do not read the variable: pass the hook to `unspool.__main__.main`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping


def kill_at_step(environment: Mapping[str, str]) -> Callable[[str], None]:
    """Return a callback that kills the process when it is told the step that the environment names."""
    step, _, number = environment.get("UNSPOOL_KILL_AT", "").partition(":")
    times_left = int(number or 1)

    def on_step(name: str) -> None:
        nonlocal times_left
        if name == step:
            times_left -= 1
            if times_left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return on_step
