"""Where turns begin, found in several goes."""

from __future__ import annotations

from itertools import chain

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.format import decode_glance
from unspool.format.records import Entry
from unspool.graph import FactsCollector, Speaker, add_entry_facts
from unspool.graph.turns import PromptTracker, split_turns
from unspool.page.index import SessionIndex
from unspool.read.lines import LineBuffer
from unspool.read.tail import decode_lines
from unspool.testing.build import Step, assistant, note, queued, session, tool_result, tool_use, user

STEPS: list[list[Step]] = [
    [user("one")],
    [user("two")],
    [queued("one")],
    [queued("two", taken=False)],
    [queued("three", taken=False)],
    [user("three")],
    [user("<command-name>/clear</command-name>")],
    [user("<command-message>init</command-message><command-name>/init</command-name>")],
    [user("Work toward it.", isMeta=True)],
    [user("Operation stopped by hook: no")],
    [user("Implement the following plan:\n\n# Plan", planContent="# Plan")],
    [note("queue-operation", operation="popAll", content="two")],
    [note("queue-operation", operation="popAll")],
    [note("queue-operation", operation="dequeue")],
    [note("queue-operation", operation="remove", content="three")],
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
    assert sorted(found) == [turn.prompt.offset for turn in split_turns(lines)]


@settings(deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=12), st.lists(st.integers(0, 30), max_size=4))
def test_facts_count_the_turns_of_the_whole_in_however_many_goes(steps: list[list[Step]], cuts: list[int]) -> None:
    lines = entries(steps)
    collector = FactsCollector()
    for place, entry in enumerate(lines):
        if place in cuts:
            collector = msgspec.msgpack.decode(msgspec.msgpack.encode(collector), type=FactsCollector)
        if place % 2 or not collector.add_glance(entry.offset, decode_glance(entry.raw)):
            add_entry_facts(collector, entry)
    facts, turns = collector.facts(), split_turns(lines)
    assert facts.turns == sum(turn.is_human for turn in turns)
    assert facts.command_turns == sum(not turn.is_human for turn in turns)
    named = (
        [turn.text for turn in turns if turn.speaker is not Speaker.COMMAND] or [turn.text for turn in turns] or [""]
    )
    assert facts.first_prompt == named[0]


@settings(deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=12))
def test_a_page_has_the_same_turns(steps: list[list[Step]]) -> None:
    lines = entries(steps)
    index = SessionIndex("a")
    for entry in lines:
        index.add(entry)
    expected = [(turn.prompt.offset, turn.speaker.value, turn.text) for turn in split_turns(lines)]
    assert [(turn.start, turn.kind, turn.prompt) for turn in index.turns[1:]] == expected
