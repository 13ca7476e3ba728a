"""Where turns begin, found in several goes."""

from __future__ import annotations

from itertools import chain

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.format.records import Entry
from unspool.graph.turns import PromptTracker, find_prompts
from unspool.read.lines import LineBuffer
from unspool.read.tail import decode_lines
from unspool.testing.build import Step, assistant, queued, session, tool_result, tool_use, user

STEPS: list[list[Step]] = [
    [user("one")],
    [user("two")],
    [queued("one")],
    [queued("two", taken=False)],
    [queued("three", taken=False)],
    [user("three")],
    [user("<command-name>/clear</command-name>")],
    [assistant(tool_use("Bash", command="ls")), tool_result("two")],
]


def entries(steps: list[list[Step]]) -> list[Entry]:
    buffer = LineBuffer()
    lines = buffer.feed(session(*chain(*steps)).data) + buffer.finish()
    return [item for item in decode_lines(lines) if isinstance(item, Entry)]


@settings(deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=12), st.lists(st.integers(0, 30), max_size=4))
def test_in_however_many_goes_the_prompts_are_those_of_the_whole(steps: list[list[Step]], cuts: list[int]) -> None:
    found: dict[int, str | None] = {}
    lines = entries(steps)
    starts, state = PromptTracker(), b""
    for place, entry in enumerate(lines):
        if place in cuts:
            found |= dict(starts.found)
            for offset in starts.taken_back:
                found.pop(offset, None)
            starts.found, starts.taken_back = [], []
            state = msgspec.msgpack.encode(starts)
            starts = msgspec.msgpack.decode(state, type=PromptTracker)
        starts.add(entry)
    found |= dict(starts.found)
    for offset in starts.taken_back:
        found.pop(offset, None)
    assert sorted(found) == [entry.offset for entry, _, _ in find_prompts(lines)]
