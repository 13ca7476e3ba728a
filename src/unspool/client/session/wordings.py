"""The texts that the client adds to conversations, worded as in Claude Code 2.1.29: every version recognizes them."""

from __future__ import annotations

INTERRUPTED = "[Request interrupted by user]"
INTERRUPTED_FOR_TOOLS = "[Request interrupted by user for tool use]"
INTERRUPTED_CALL = "Interrupted by user"
"""The result of a tool call that had not begun when the response was interrupted."""
_REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). "
)
REJECTED = _REJECTED + "STOP what you are doing and wait for the user to tell you how to proceed."
REJECTED_WITH = _REJECTED + "To tell you how to proceed, the user said:\n"
REJECTED_RESULT = "User rejected tool use"
CUT_SHORT = (
    "Output token limit hit. Continue exactly where the response stopped: no apology, no recap. "
    "Split the remaining work into smaller pieces."
)
CALL_CUT_SHORT = (
    "Output token limit hit. The last tool call was cut off before its input was complete, and "
    "was not run. Repeat it, in smaller parts if necessary."
)
