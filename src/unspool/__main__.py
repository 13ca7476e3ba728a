"""The `unspool` command and `python -m unspool`: how a process begins and ends.

Rules
  1. The garbage collector stays out of it from the start: a command makes many objects and few cycles, and looking
     for those takes up to 6 % of it.
  2. Nothing is taken apart at the end, which would take a tenth of a short command: the system takes back memory
     faster than Python does. What wants to be told of the end is told, and what was written is written.
  3. A stream that was closed before (`>&-`) leads nowhere. Left as it is, the next file that is opened would take its
     place, and what is printed would be written into that.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from unspool.cli import StepHook


def main(step_hook: StepHook | None = None) -> NoReturn:
    """Run the command line and end the process. The hook is for tests (`unspool.testing.faults`)."""
    gc.set_threshold(100_000)
    _open_streams()
    if sys.argv[1:] == ["statusline"]:
        # Before click, which takes longer to import than a status line may take. All other forms are in `cli`.
        from unspool.statusline import print_status_line

        print_status_line()
        os._exit(0)
    from unspool.cli import run_command_line as run

    try:
        run(step_hook)
    except SystemExit as end:
        if isinstance(end.code, int) and _is_all_said():
            os._exit(end.code)
        raise


def _open_streams() -> None:
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
            if nowhere == number:
                setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8"))  # noqa: SIM115, PTH123


def _is_all_said() -> bool:
    """Tell the rest of the process that it ends; tell whether nothing is left to be done, or to be complained of."""
    if sys.getprofile() or sys.gettrace():  # somebody measures, and will want to write down what
        return False
    if "threading" in sys.modules and sys.modules["threading"].active_count() > 1:
        return False
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError, AttributeError):  # nobody reads on, or there is no such stream
        return False
    return True


if __name__ == "__main__":
    main()
