"""Whole messages: what belongs together, what is counted once. And any session, for what must hold of all of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.real_files import corpus
from unspool.format.blocks import Image, Text, ToolUse
from unspool.format.records import Assistant, Entry, User
from unspool.graph.agents import AgentFile, link_agents
from unspool.graph.messages import group_messages
from unspool.graph.session_facts_from_entries import collect_facts
from unspool.graph.threads import build_graph, find_leaf, find_leaf_by_oldest_rule, find_threads
from unspool.graph.tool_calls import find_orphan_results, find_tool_calls
from unspool.graph.turns import find_prompts, split_turns
from unspool.read.source_tree import Kind, scan
from unspool.read.tail import read_items
from unspool.testing.build import (
    Built,
    Json,
    Step,
    Writer,
    assistant,
    attachment,
    compaction,
    image,
    note,
    progress,
    queued,
    raw,
    result_block,
    rewind,
    session,
    system,
    text,
    thinking,
    tool_result,
    tool_use,
    user,
)

VERSIONS = ["1.0.80", "2.0.36", "2.0.76", "2.1.29", "2.1.70", "2.1.325"]


class Happening(NamedTuple):
    """A step as hypothesis can show it: what happens, and a number to vary it by."""

    kind: str
    number: int = 0
    line: bytes = b""

    @property
    def step(self) -> Step:
        return Step(lambda writer: _HAPPENINGS[self.kind](self).write(writer))


def only_if(possible: Callable[[Writer], object], step: Step) -> Step:
    """A step that is left out where it cannot happen."""
    return Step(lambda writer: step.write(writer) if possible(writer) else None)


def again(number: int, **changes: Any) -> Step:
    """An earlier line once more, with some fields changed; `None` leaves a field out."""

    def write(writer: Writer) -> None:
        lines = [line for line in map(as_json, writer.lines) if line.get("uuid")]
        if lines:
            line = {**lines[number % len(lines)], **changes}
            writer.add({key: value for key, value in line.items() if value is not None})

    return Step(write)


def linked(number: int) -> Step:
    """A prompt whose parent is any line, this one and later ones included."""

    def write(writer: Writer) -> None:
        own = f"0000000{number}-0000-4000-8000-000000000000"
        later = f"0000000{(number + 1) % 10}-0000-4000-8000-000000000000"
        wanted = [own, later, "never-written", *writer.written]
        user("hm", uuid=own, parentUuid=wanted[number % len(wanted)]).write(writer)

    return Step(write)


def hinted(number: int) -> Step:
    """A `last-prompt` line for an earlier line, or for none."""

    def write(writer: Writer) -> None:
        wanted = ["00000000-0000-0000-0000-000000000000", "never-written", *writer.written]
        note("last-prompt", lastPrompt="hm", leafUuid=wanted[number % len(wanted)]).write(writer)

    return Step(write)


def as_json(line: bytes) -> Json:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


_HAPPENINGS: dict[str, Callable[[Happening], Step]] = {
    "prompt": lambda at: user(f"do {at.number}"),
    "picture": lambda at: user(text(f"see {at.number}"), image()),
    "answer": lambda at: assistant(*(f"said {n}" for n in range(1 + at.number % 3))),
    "thought": lambda _: assistant(thinking("hm"), "so", tool_use("Read", file_path="/a")),
    "calls": lambda at: assistant(*(tool_use("Bash", command=str(n)) for n in range(1 + at.number % 3))),
    "call": lambda at: assistant(tool_use("Bash", id=f"toolu_{at.number}", command="ls")),
    "call-of-agent": lambda at: assistant(tool_use("Task", id=f"toolu_{at.number}", prompt=f"do {at.number}")),
    "result": lambda _: only_if(lambda writer: writer.open_calls, tool_result("done")),
    "result-of": lambda at: tool_result("done", id=f"toolu_{at.number}"),
    "result-in-answer": lambda at: assistant(result_block(f"toolu_{at.number}")),
    "two-blocks": lambda at: user(text("no:"), result_block(f"toolu_{at.number}", error=True)),
    "rewind": lambda at: only_if(
        lambda writer: writer.prompts,
        Step(lambda writer: rewind(1 + at.number % len(writer.prompts)).write(writer)),
    ),
    "compaction": lambda at: compaction("all that was said", keep=at.number),
    "queued": lambda at: queued(f"do {at.number}", taken=at.number % 2 == 0),
    "title": lambda at: note("ai-title", aiTitle=f"title {at.number}"),
    "hint": lambda at: hinted(at.number),
    "system": lambda _: system("informational", "hm"),
    "progress": lambda _: progress("agent_progress", agentId="a1", prompt="do 1"),
    "attachment": lambda _: attachment("task_reminder", content=[]),
    "of-agent": lambda at: user(f"do {at.number}", isSidechain=True),
    "linked": lambda at: linked(at.number),
    "again": lambda at: again(at.number, uuid=f"again-{at.number}"),
    "same-uuid": lambda at: again(at.number, timestamp="2026-01-05T10:00:00.000Z"),
    "no-uuid": lambda at: again(at.number, uuid=None),
    "garbage": lambda at: raw(at.line + b"\n"),
}

happenings: st.SearchStrategy[Happening] = st.builds(
    Happening, st.sampled_from([kind for kind in _HAPPENINGS if kind != "garbage"]), st.integers(0, 9)
) | st.builds(
    Happening,
    st.just("garbage"),
    st.just(0),
    st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")) | strategies.objects.map(strategies.written),
)


def built(plan: list[Happening], version: str) -> Built:
    return session(*(one.step for one in plan), version=version)


sessions: st.SearchStrategy[Built] = st.builds(built, st.lists(happenings, max_size=25), st.sampled_from(VERSIONS))
"""Any session: prompts, answers, calls, branches, compactions, notes, agents, damage."""


def everything(entries: list[Entry]) -> None:
    """Ask every question there is."""
    group_messages(entries)
    find_tool_calls(entries)
    find_orphan_results(entries)
    find_prompts(entries)
    split_turns(entries)
    find_threads(entries)
    for sidechain in (None, False, True):
        whole = build_graph(entries, sidechain=sidechain)
        find_leaf(whole)
        find_leaf_by_oldest_rule(whole)
    link_agents(entries, [AgentFile("a1", entries), AgentFile("a2", entries[1:])])
    collect_facts(entries)


# What is one message


def test_the_lines_of_one_answer_are_one_message() -> None:
    made = session(user("hi"), assistant(thinking("hm"), "Hello", tool_use("Read")))
    prompt, answer = group_messages(made.entries)
    assert (prompt.role, answer.role) == ("user", "assistant")
    assert answer.entries == tuple(made.entries[1:])
    assert [type(placed.block).__name__ for placed in answer.blocks] == ["Thinking", "Text", "ToolUse"]
    assert [placed.entry for placed in answer.blocks] == made.entries[1:]


def test_results_between_the_lines_of_an_answer_do_not_part_it() -> None:
    made = session(user("hi"), assistant(tool_use("Read", id="a"), tool_use("Read", id="b")), tool_result(), user("on"))
    prompt, first, second, result, last = made.lines
    parted = Built(made.id, made.cwd, (prompt, first, result, last, second))
    answers = [message for message in group_messages(parted.entries) if message.role == "assistant"]
    assert [
        [placed.block.id for placed in answer.blocks if isinstance(placed.block, ToolUse)] for answer in answers
    ] == [["a", "b"]]


def test_messages_stand_in_the_order_they_began() -> None:
    made = session(assistant("a", "b"), user("c"), assistant("d"))
    first, second, *rest = made.lines
    mixed = Built(made.id, made.cwd, (first, *rest, second))
    assert [words(message.blocks) for message in group_messages(mixed.entries)] == [["a", "b"], ["c"], ["d"]]


def test_a_user_line_is_a_message_even_with_an_id_of_another() -> None:
    made = session(
        user("a", message={"role": "user", "id": "msg_1", "content": "a"}),
        user("b", message={"role": "user", "id": "msg_1", "content": "b"}),
    )
    assert [words(message.blocks) for message in group_messages(made.entries)] == [["a"], ["b"]]


def test_an_answer_without_an_id_is_a_message_of_its_own() -> None:
    body: Json = {"role": "assistant", "content": [text("a")]}
    made = session(assistant("a", message=body), assistant("a", message=body, uuid=None))
    first, second = group_messages(made.entries)
    assert first.id == made.records[0].uuid
    assert second.id == f"line {made.entries[1].offset}"


def test_a_string_is_one_block_and_an_empty_one_none() -> None:
    some, none = group_messages(session(user("hi"), user("")).entries)
    assert words(some.blocks) == ["hi"]
    assert none.blocks == ()


def test_lines_of_other_types_are_no_messages() -> None:
    made = session(
        system("informational", "hm"), attachment("task_reminder"), note("ai-title", aiTitle="a"), queued("b")
    )
    assert group_messages(made.entries) == []


def test_the_time_of_a_message_is_that_of_its_first_line() -> None:
    (answer,) = group_messages(session(assistant("a", "b")).entries)
    assert answer.timestamp == "2026-01-05T09:00:00.000Z"


# What was written twice


def test_history_appended_again_is_not_doubled() -> None:
    made = session(
        user("hi"),
        assistant("a", tool_use("Read", id="t")),
        again(1, uuid="new-1"),
        again(2, uuid="new-2"),
        assistant("b"),
    )
    _, first, second = group_messages(made.entries)
    assert [placed.entry.record.uuid for placed in first.blocks] == [record.uuid for record in made.records[1:3]]
    assert words(second.blocks) == ["b"]


def joined_again(first: int, last: int, **changes: Any) -> Step:
    """Earlier lines of one answer once more, as one line."""

    def write(writer: Writer) -> None:
        lines = [as_json(line) for line in writer.lines[first : last + 1]]
        blocks = [block for line in lines for block in line["message"]["content"]]
        writer.add({**lines[0], "uuid": "joined", "message": {**lines[0]["message"], "content": blocks}, **changes})

    return Step(write)


def split_again(number: int) -> Step:
    """An earlier line once more, a line for each of its blocks."""

    def write(writer: Writer) -> None:
        line = as_json(writer.lines[number])
        for block in line["message"]["content"]:
            writer.add({**line, "uuid": f"split-{block['type']}", "message": {**line["message"], "content": [block]}})

    return Step(write)


@pytest.mark.parametrize("changes", [{}, {"timestamp": "2026-01-06T09:00:00.000Z"}])
def test_history_appended_again_in_other_lines_is_not_doubled(changes: Json) -> None:
    answer = assistant(thinking("t"), "a", tool_use("Read", id="t"))
    made = session(user("hi"), answer, joined_again(1, 3, **changes), tool_result(), assistant("b"))
    _, first, _, second = group_messages(made.entries)
    assert [type(placed.block).__name__ for placed in first.blocks] == ["Thinking", "Text", "ToolUse"]
    assert len(first.entries) == 3
    assert words(second.blocks) == ["b"]


def test_a_line_that_repeats_only_in_part_keeps_the_rest() -> None:
    made = session(user("hi"), assistant(tool_use("Read", id="t"), tool_use("Bash", id="u")), joined_again(1, 1))
    made = session(*[raw(line) for line in made.lines[:2]], raw(widened(made.lines[3], text("more"))))
    (answer,) = [message for message in group_messages(made.entries) if message.role == "assistant"]
    assert [type(placed.block).__name__ for placed in answer.blocks] == ["ToolUse", "Text"]
    assert len(answer.entries) == 2


def widened(line: bytes, block: Json) -> bytes:
    value = as_json(line)
    value["message"]["content"].append(block)
    return json.dumps(value).encode() + b"\n"


def test_a_line_that_is_split_when_it_is_appended_again_is_not_doubled() -> None:
    made = session(user("hi"), assistant("a", tool_use("Read", id="t")), joined_again(1, 2))
    whole = session(raw(made.lines[0]), raw(made.lines[3]), split_again(1))
    (answer,) = [message for message in group_messages(whole.entries) if message.role == "assistant"]
    assert [type(placed.block).__name__ for placed in answer.blocks] == ["Text", "ToolUse"]
    assert len(answer.entries) == 1


def test_calls_of_other_messages_may_have_the_same_id() -> None:
    made = session(assistant(tool_use("Read", id="call_0")), tool_result(), assistant(tool_use("Read", id="call_0")))
    assert [len(message.blocks) for message in group_messages(made.entries)] == [1, 1, 1]


def test_the_same_words_at_another_moment_are_said_again() -> None:
    (answer,) = group_messages(session(assistant("a", "a")).entries)
    assert words(answer.blocks) == ["a", "a"]


def test_without_a_time_nothing_is_taken_for_a_copy() -> None:
    (answer,) = group_messages(session(assistant("a", timestamp=None), again(0, uuid="new")).entries)
    assert words(answer.blocks) == ["a", "a"]


# Usage and whether it can be trusted


def test_usage_is_that_of_the_line_with_most_output() -> None:
    made = session(assistant("a", "b", "c", usage={"output_tokens": 77}), version="2.0.76")
    (answer,) = group_messages(made.entries)
    counts = [as_json(line)["message"]["usage"]["output_tokens"] for line in made.lines]
    assert counts == [2, 2, 77]
    assert answer.usage is not None
    assert answer.usage.output_tokens == 77


def test_most_output_counts_wherever_it_stands() -> None:
    made = session(assistant("a", "b", usage={"output_tokens": 77}), version="2.0.76")
    (answer,) = group_messages(Built(made.id, made.cwd, made.lines[::-1]).entries)
    assert answer.usage is not None
    assert answer.usage.output_tokens == 77


def test_an_answer_without_usage_has_none() -> None:
    body: Json = {"role": "assistant", "id": "msg_1", "model": "m", "content": [text("a")]}
    (answer,) = group_messages(session(assistant("a", message=body)).entries)
    assert answer.usage is None
    assert answer.model == "m"


@pytest.mark.parametrize(
    ("version", "final"), [("2.0.36", True), ("2.0.76", False), ("2.1.29", False), ("2.1.325", True)]
)
def test_a_count_is_final_where_a_stop_reason_was_written(version: str, final: bool) -> None:
    (answer,) = group_messages(session(assistant("a", "b"), version=version).entries)
    assert answer.final is final
    assert answer.stop_reason == ("end_turn" if final else None)


def test_a_stop_reason_on_the_last_line_is_enough() -> None:
    (answer,) = group_messages(session(assistant("a", "b", stop_reason="max_tokens"), version="2.0.76").entries)
    assert answer.final
    assert answer.stop_reason == "max_tokens"


def test_a_prompt_is_always_final() -> None:
    (prompt,) = group_messages(session(user("hi", image())).entries)
    assert prompt.final
    assert prompt.usage is None
    assert isinstance(prompt.blocks[1].block, Image)


# Any session


@given(sessions)
def test_every_block_is_in_one_message_once(made: Built) -> None:
    entries = made.entries
    expected: Counter[int] = Counter()
    moments: set[tuple[str, str]] = set()
    written: list[tuple[str, object]] = []
    for entry in entries:
        record = entry.record
        if not isinstance(record, User | Assistant):
            continue
        id, blocks = record.message.id, record.message.blocks
        if isinstance(record, User) or id is None:
            expected[entry.offset] += len(blocks)
            continue
        marks = [(id, block.id if isinstance(block, ToolUse) else block) for block in blocks]
        known = [mark in written for mark in marks]
        repeats_call = any(
            isinstance(block, ToolUse) for block, is_known in zip(blocks, known, strict=True) if is_known
        )
        is_copy = (id, record.timestamp or "") in moments or repeats_call
        expected[entry.offset] += sum(not (is_known and is_copy) for is_known in known)
        written += marks
        moments |= {(id, record.timestamp)} if record.timestamp is not None else set()
    placed = Counter(placed.entry.offset for message in group_messages(entries) for placed in message.blocks)
    assert placed == +expected


@given(sessions)
def test_every_line_of_an_answer_has_its_id(made: Built) -> None:
    found = group_messages(made.entries)
    assert len({message.id for message in found if message.role == "assistant"}) <= len(found)
    for message in found:
        assert len({_id(entry) for entry in message.entries}) == 1


@given(sessions, st.integers(0, 30))
def test_a_missing_line_never_raises(made: Built, place: int) -> None:
    everything(made.entries)
    everything(Built(made.id, made.cwd, made.lines[:place] + made.lines[place + 1 :]).entries)


# Real files


def test_no_block_of_a_real_file_is_lost_or_doubled() -> None:
    for source in scan(corpus()).of(Kind.SESSION, Kind.AGENT):
        expected: dict[str, int] = {}
        written: set[str] = set()
        for line in map(as_json, source.path.read_bytes().splitlines()):
            message = line.get("message")
            if line.get("type") not in ("user", "assistant") or not isinstance(message, dict):
                continue
            kinds, marks = _plain_blocks(message.get("content")), []
            if line["type"] == "assistant" and message.get("id"):
                moment = json.dumps([message["id"], line.get("timestamp")])
                marks = [json.dumps([message["id"], mark]) for mark in _plain_marks(message.get("content"))]
                is_copy = moment in written or any(
                    mark in written for kind, mark in zip(kinds, marks, strict=True) if kind == "tool_use"
                )
                kinds = [kind for kind, mark in zip(kinds, marks, strict=True) if not (is_copy and mark in written)]
                written |= {*marks, *([moment] if line.get("timestamp") else [])}
            for kind in kinds:
                expected[kind] = expected.get(kind, 0) + 1
        entries = [item for item in read_items(source.path) if isinstance(item, Entry)]
        found = Counter(_type(placed.block) for message in group_messages(entries) for placed in message.blocks)
        assert found == expected, source.path.name


def _plain_marks(content: Any) -> list[Any]:
    """Return what equal blocks have in common: of calls their id."""
    blocks = content if isinstance(content, list) else [content] if content else []
    return [
        {"call": block["id"]} if isinstance(block, dict) and block.get("type") == "tool_use" else block
        for block in blocks
    ]


def words(blocks: Any) -> list[str]:
    return [placed.block.text for placed in blocks if isinstance(placed.block, Text)]


def _id(entry: Entry) -> object:
    record = entry.record
    assert isinstance(record, User | Assistant)
    return record.message.id if isinstance(record, Assistant) and record.message.id else entry.offset


def _plain_blocks(content: object) -> list[str]:
    if isinstance(content, str):
        return ["text"] if content else []
    blocks = content if isinstance(content, list) else []
    return [str(block.get("type")) if isinstance(block, dict) else "None" for block in blocks]


def _type(block: Any) -> str:
    return str(getattr(block, "type", None) or type(block).__struct_config__.tag)
