"""Which lines can bill something. In: text of whole lines. Out: where those lines are that need to be decoded.

Rules
  1. What bills something is an answer, or a progress line that repeats one: it has the bytes `"assistant"` and the
     bytes `"usage"`. Written with escapes (`"\\u0075sage"`) they would be missed: no program writes them so.
  2. What the first bytes of a line say is not said of all of it: others may have been appended without a line end. So
     every byte is searched, once, for the longer needle, which is found faster. (To look only at the ends of users'
     lines would save a tenth of a first report.)
"""

from __future__ import annotations

from collections.abc import Iterator

_ANSWER = b'"assistant"'
_USAGE = b'"usage"'


def candidates(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield beginning and end of the lines between `start` and `stop` that can bill something, in order."""
    find, rfind = data.find, data.rfind
    while (found := find(_ANSWER, start, stop)) >= 0:
        begin = rfind(b"\n", start, found) + 1 or start
        start = find(b"\n", found, stop) + 1 or stop
        if find(_USAGE, begin, start) >= 0:
            yield begin, start
