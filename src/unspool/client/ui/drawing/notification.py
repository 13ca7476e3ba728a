"""Makes the sequence that calls the user: the terminal's bell, or a notification of the desktop (OSC 9)."""

from __future__ import annotations

from collections.abc import Mapping

from unspool.display import clean_line

BELL = "\a"
_WITH_NOTIFICATIONS = frozenset({"iTerm.app", "WezTerm", "ghostty"})
"""Values of TERM_PROGRAM whose terminals show OSC 9 as a notification."""
_MAX_CHARACTERS = 100


def make_notification(words: str, channel: str, environment: Mapping[str, str]) -> str:
    """Return what is written to the terminal; nothing if the user wants no notifications."""
    # OSC 9 is one line without control characters: `clean_line` leaves none.
    notice = f"\x1b]9;unspool: {clean_line(words)[:_MAX_CHARACTERS]}\a"
    match channel:
        case "notifications_disabled":
            return ""
        case "terminal_bell":
            return BELL
        case "iterm2":
            return notice
        case "iterm2_with_bell":
            return notice + BELL
        case _:
            # tmux and screen do not pass it on.
            is_direct = not environment.get("TMUX") and not environment.get("STY")
            program = environment.get("TERM_PROGRAM")
            return (
                notice if is_direct and (program in _WITH_NOTIFICATIONS or environment.get("KITTY_WINDOW_ID")) else BELL
            )
