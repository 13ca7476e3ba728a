"""What `$'…'` means in a shell: letters written as numbers. Text in, text out. Pure."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def decoded(text: str) -> str:
    """Return a text with its escapes replaced.

    >>> decoded(r"\\x72\\155")
    'rm'
    """
    return _ESCAPE.sub(_letter, text)


def _letter(match: re.Match[str]) -> str:
    code = match[0][1:]
    if code[0] in "xuU" and len(code) > 1:
        number = int(code[1:], 16)
        return chr(number) if number < 0x110000 else "\ufffd"
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    return _LETTERS.get(code, "" if code[0] == "c" and len(code) > 1 else code)
