"""What is not in the small grammar is not plain, and the reason names it."""

from __future__ import annotations

import sys
import unicodedata

from unspool.permissions.shell_parser import parse_command
from unspool.permissions.shell_plain import parse_plain

_UNSEEN = ("Cc", "Cs", "Zs", "Zl", "Zp")
_MORE = "\u00ad\u034f\u061c\u115f\u1160\u180b\u180e\u200b\u200d\u202e\u2066\u2800\u3164\ufeff\uffa0\U000e0041\U000e0100"
"""Characters of other categories that take no room, or look like a blank."""


def test_no_character_that_a_person_does_not_see_is_understood_also_in_quotes() -> None:
    unseen = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in _UNSEEN]
    for character in {*unseen, *_MORE} - {" ", "\t", "\n"}:
        command = f"echo 'a{character}b'"
        assert f"U+{ord(character):04X}" in (parse_plain(command, "/home/me").problem or "")
        assert "it has control characters or odd spaces in it" in parse_command(command).doubts


def test_other_letters_are_understood_in_quotes() -> None:
    for text in ("größer", "日本語", "✨", "\u26a0\ufe0f", "\u00e9"):
        assert parse_plain(f"echo '{text}'", "/home/me").problem is None
        assert parse_command(f"echo '{text}'").doubts == ()
