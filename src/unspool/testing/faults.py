"""Being killed at a named step: for tests of what a killed process leaves behind.

`UNSPOOL_KILL_AT=written` kills the process the first time that step is reached, `written:3` the third time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping


def fault(environment: Mapping[str, str]) -> Callable[[str], None]:
    """Return what is to be told of each step."""
    step, _, number = environment.get("UNSPOOL_KILL_AT", "").partition(":")
    if not step:
        return lambda _: None
    import signal

    left = [int(number or 1)]

    def reached(name: str) -> None:
        left[0] -= name == step
        if name == step and left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached
