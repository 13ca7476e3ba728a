"""Runs `unspool` with the hook that kills it at the step `$UNSPOOL_KILL_AT` names. A script: tests start it by path."""

from unspool.__main__ import main
from unspool.testing.faults import kill_at_step

if __name__ == "__main__":  # worker processes that are spawned import this file again
    main(kill_at_step)
