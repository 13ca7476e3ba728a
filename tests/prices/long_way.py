"""What lines bill, found the long way: every line decoded whole."""

from __future__ import annotations

from unspool.format.codec import decode
from unspool.format.records import Entry
from unspool.prices.from_entries import response_of_entry
from unspool.prices.responses import CountedResponse, Response, UnbilledLine, count_once

FILE = "/c/projects/-w/s1.jsonl"


def the_long_way(text: bytes) -> tuple[list[CountedResponse[str]], list[UnbilledLine]]:
    """Return what was billed, and the answers that nothing was billed for."""
    found = [response_of_entry(entry, FILE) for entry in entries(text)]
    dropped = [one for one in found if isinstance(one, UnbilledLine)]
    return count_once((FILE, one) for one in found if isinstance(one, Response)), dropped


def entries(text: bytes) -> list[Entry]:
    """Return what lines say."""
    found, offset = [], 0
    for line in text.split(b"\n"):
        line += b"\n"
        found += [item for item in decode(line, offset) if isinstance(item, Entry)]
        offset += len(line)
    return found


def ordered(counted: list[CountedResponse[str]]) -> list[CountedResponse[str]]:
    """Return what was counted in an order that does not depend on the way."""
    return sorted((one._replace(merged=tuple(sorted(one.merged))) for one in counted), key=lambda one: one.response.id)


def line_at(text: bytes, offset: int) -> bytes:
    """Return the line around a place."""
    start = text.rfind(b"\n", 0, offset) + 1
    return text[start : text.find(b"\n", offset)]
