"""Real-looking lines, broken at random, read whole and in pieces.

UNSPOOL_FUZZ_EXAMPLES=100000 in the environment makes it look longer.
"""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import objects, written
from unspool.format.codec import decode
from unspool.format.records import Entry, Item
from unspool.format.tools.parse import parse_result
from unspool.read.lines import LineBuffer
from unspool.read.tail import decode_lines
from unspool.testing.build import (
    assistant,
    attachment,
    compaction,
    note,
    session,
    thinking,
    tool_result,
    tool_use,
    user,
)

longer = settings(max_examples=int(os.environ.get("UNSPOOL_FUZZ_EXAMPLES", "200")), deadline=None)

LINES = session(
    user('héllo 😀 \\ " \u2028'),
    assistant(thinking("hm"), "text", tool_use("Bash", command="ls -la\n")),
    tool_result("out", structured={"stdout": "out", "stderr": "", "interrupted": False, "isImage": False}),
    attachment("file", filename="a", content={"type": "text"}),
    compaction("short", keep=2),
    note("custom-title", customTitle="T"),
).lines

junk = st.sampled_from(
    [
        b"\0",
        b"\n",
        b"\r\n",
        b"{",
        b"}",
        b'{"',
        b'"',
        b"\\",
        b"}{",
        b"\xff",
        b"\xc3",
        b"\xef\xbb\xbf",
        rb"\ud800",
        b"[[[",
        b" ",
    ]
)
lines = st.sampled_from(LINES) | objects.map(lambda value: written(value) + b"\n") | junk | st.binary(max_size=8)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A file of good and bad lines with some bytes lost, doubled or put in."""
    data = b"".join(draw(st.lists(lines, max_size=6)))
    for _ in range(draw(st.integers(0, 4))):
        at, length = draw(st.integers(0, len(data))), draw(st.integers(0, 40))
        data = data[:at] + draw(junk | st.just(b"") | st.just(data[at : at + length])) + data[at + length :]
    return data


def items(data: bytes, cuts: list[int], limit: int) -> list[Item]:
    buffer, found = LineBuffer(max_line=limit), list[Item]()
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        found += decode_lines(buffer.feed(data[start:end]))
    return found + decode_lines(buffer.finish())


@longer
@given(damaged(), st.data(), st.integers(0, 2000))
def test_damage_never_costs_a_byte_and_cuts_do_not_matter(data: bytes, draw: st.DataObject, limit: int) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=5)))
    whole = items(data, [], limit)
    assert items(data, cuts, limit) == whole
    at = 0
    for item in whole:
        assert (item.offset, item.length > 0) == (at, True)
        if isinstance(item, Entry):
            assert item.line == data[at : at + item.length]
        at += item.length
    assert at == len(data)


@longer
@given(damaged())
def test_an_entry_read_again_by_itself_is_the_same(data: bytes) -> None:
    for item in items(data, [], 1 << 20):
        if isinstance(item, Entry):
            assert decode(item.line, item.offset) == [item]


@longer
@given(st.binary() | damaged(), st.sampled_from(["Bash", "Read", "Edit", "Agent", "Nope", None]))
def test_no_structured_result_raises(data: bytes, tool: str | None) -> None:
    parse_result(tool, data)
