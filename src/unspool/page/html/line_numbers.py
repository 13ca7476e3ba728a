"""Takes consecutive line numbers out of rendered code and diffs, so that they compress well.

A number that follows the one above it is written as `<u/>`, which our HTML has nowhere else and which no text of a
session can contain, as its `<` is escaped. The script of the exported file writes the numbers again (`source.js`). In a
file of 774 kB that is a seventh of all details.
"""

from __future__ import annotations

import re
from typing import Final

_NUMBERS: Final = re.compile(r"<i>(\d{0,9})</i>(?:<i>(\d{0,9})</i>)?")


def drop_line_numbers(html: str) -> str:
    """Return HTML in which each line number that is one more than the last of its column is left out.

    >>> drop_line_numbers("<i>7</i><i>9</i>a<i></i><i>10</i>b<i>8</i><i>12</i>")
    '<i>7</i><i>9</i>a<i></i><u/>b<u/><i>12</i>'
    """
    last = [0, 0]

    def shorten(match: re.Match[str]) -> str:
        return "".join(_shorten(match[column + 1], column, last) for column in (0, 1) if match[column + 1] is not None)

    return _NUMBERS.sub(shorten, html)


def _shorten(number: str, column: int, last: list[int]) -> str:
    if not number:
        return "<i></i>"
    follows = number == str(last[column] + 1)
    last[column] = int(number)
    return "<u/>" if follows else f"<i>{number}</i>"
