"""Parents and branches: nothing is endless, nothing is lost, one thread goes on."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.graph.test_messages import again, sessions
from unspool.format.blocks import Text, ToolResult
from unspool.format.records import Assistant, Entry, User
from unspool.graph.thread_lines import find_thread_entries
from unspool.graph.threads import (
    SessionGraph,
    Thread,
    build_graph,
    build_main_graph,
    find_leaf,
    find_leaf_by_oldest_rule,
    find_threads,
    is_boundary,
    is_message,
)
from unspool.testing.build import (
    Built,
    Json,
    Step,
    Writer,
    assistant,
    attachment,
    compaction,
    note,
    progress,
    rewind,
    session,
    system,
    text,
    tool_result,
    tool_use,
    user,
)

NOWHERE = "00000000-0000-0000-0000-000000000000"


def line(name: str, parent: str | None, **fields: Any) -> Step:
    """A prompt with this uuid and this parent."""
    return user(name, uuid=name, parentUuid=parent, **fields)


def hint(uuid: str | None) -> Step:
    return note("last-prompt", lastPrompt="hm", leafUuid=uuid)


def whole(*steps: Step) -> SessionGraph:
    return build_graph(session(*steps).entries)


def parents(found: SessionGraph) -> dict[str | None, str | None]:
    """Return who hangs on whom."""
    return {
        node.entry.record.uuid: None if node.parent is None else found.nodes[node.parent].entry.record.uuid
        for node in found.nodes
    }


def name(found: SessionGraph, number: int | None) -> str | None:
    return None if number is None else found.nodes[number].entry.record.uuid


def said(thread: Thread) -> str:
    """Return the words of a thread."""
    return " ".join(
        block.text
        for entry in thread.entries
        if isinstance(entry.record, User | Assistant)
        for block in entry.record.message.blocks
        if isinstance(block, Text)
    )


# Nodes and parents


def test_a_node_is_a_line_with_a_uuid() -> None:
    found = whole(note("mode", mode="normal"), line("a", None), system("informational", "b", uuid="b"), line("c", "b"))
    assert parents(found) == {"a": None, "b": "a", "c": "b"}
    assert found.children == {0: [1], 1: [2]}
    assert found.path(2) == [0, 1, 2]


@pytest.mark.parametrize("between", [progress("hook_progress"), attachment("task_reminder"), system(None, "hm")])
def test_what_is_no_message_is_part_of_the_way(between: Step) -> None:
    made = session(user("a"), between, assistant("b"))
    (thread,) = find_threads(made.entries)
    assert thread.entries == tuple(made.entries)


def test_of_a_uuid_written_twice_the_later_line_counts() -> None:
    made = session(line("a", None), line("b", "a"), line("c", "b"), user("new", uuid="b", parentUuid="a"))
    found = build_graph(made.entries)
    assert parents(found) == {"a": None, "c": "b", "b": "a"}
    assert [node.entry for node in found.nodes] == [made.entries[0], made.entries[2], made.entries[3]]


def test_a_parent_never_written_is_healed_by_the_line_before() -> None:
    found = whole(line("a", None), line("b", "never"), line("c", "b"))
    assert parents(found) == {"a": None, "b": "a", "c": "b"}
    assert [node.healed for node in found.nodes] == [False, True, False]


def test_a_first_line_whose_parent_lies_elsewhere_is_a_root() -> None:
    found = whole(line("a", "in another file"), line("b", "a"))
    assert parents(found) == {"a": None, "b": "a"}
    assert found.nodes[0].healed


def test_a_parent_may_stand_after_its_child() -> None:
    found = whole(line("a", None), line("c", "b"), line("b", "a"))
    assert parents(found) == {"a": None, "c": "b", "b": "a"}
    assert [name(found, number) for number in found.path(1)] == ["a", "b", "c"]


def test_a_child_of_a_later_parent_is_in_a_thread() -> None:
    made = session(line("a", None), line("c", "b"), line("b", "a"))
    first, second = find_threads(made.entries)
    assert (said(first), first.active) == ("a b c", False)
    assert (said(second), second.active, second.fork) == ("a b", True, None)


@pytest.mark.parametrize("length", range(1, 6))
def test_a_cycle_of_any_length_is_cut_once(length: int) -> None:
    steps = [line(f"n{at}", f"n{(at + 1) % length}") for at in range(length)]
    found = whole(*steps, line("after", "n0"))
    assert list(parents(found).values()).count(None) == 1
    assert all(len(found.path(number)) <= length + 1 for number in range(length + 1))
    assert find_threads(session(*steps).entries)


def test_a_way_into_a_cycle_ends_too() -> None:
    found = whole(line("a", "c"), line("b", "a"), line("c", "b"), line("d", "c"))
    assert parents(found) == {"a": None, "b": "a", "c": "b", "d": "c"}
    assert name(found, find_leaf(found)) == "d"


def test_healing_makes_no_cycle() -> None:
    found = whole(line("a", "b"), line("b", "never"), line("c", "b"))
    assert list(parents(found).values()).count(None) == 1


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_chain_is_a_chain_in_any_order_of_lines(order: tuple[int, ...]) -> None:
    steps = [line("a", None), line("b", "a"), line("c", "b")]
    assert parents(whole(*(steps[at] for at in order))) == {"a": None, "b": "a", "c": "b"}


# The leaf


def test_the_leaf_is_the_last_message_of_the_file() -> None:
    found = whole(line("a", None), assistant("b", uuid="b"), system("turn_duration", uuid="c"), hint(None))
    assert name(found, find_leaf(found)) == "b"


def test_without_a_message_there_is_no_leaf_and_no_thread() -> None:
    made = session(system("informational", "hm"), note("ai-title", aiTitle="a"), hint("b"))
    assert find_leaf(build_graph(made.entries)) is None
    assert find_leaf_by_oldest_rule(build_graph(made.entries)) is None
    assert find_threads(made.entries) == []


BRANCHES = (line("a", None), line("b", "a"), line("b2", "b"), line("c", "a"), line("c2", "c"))


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        pytest.param([], "c2", id="none"),
        pytest.param(["b"], "b2", id="another branch"),
        pytest.param(["b2"], "b2", id="its end"),
        pytest.param(["c"], "c2", id="stale, on the same branch"),
        pytest.param(["a"], "c2", id="before the fork"),
        pytest.param(["c2", "b"], "b2", id="the last of several"),
        pytest.param(["b", None], "b2", id="one that says nothing"),
        pytest.param(["never"], "c2", id="unresolved"),
        pytest.param([NOWHERE], "c2", id="all zeros"),
    ],
)
def test_a_last_prompt_chooses_the_branch(hints: list[str | None], expected: str) -> None:
    made = session(*BRANCHES, *map(hint, hints))
    found = build_graph(made.entries)
    assert name(found, find_leaf(found)) == expected
    (active,) = [thread for thread in find_threads(made.entries) if thread.active]
    assert active.leaf.record.uuid == expected


def test_a_hint_with_no_message_below_it_is_no_hint() -> None:
    found = whole(line("a", None), system("informational", "b", uuid="b", parentUuid="a"), line("c", "a"), hint("b"))
    assert name(found, find_leaf(found)) == "c"


def test_what_is_written_after_a_hint_goes_on_its_branch() -> None:
    found = whole(line("a", None), line("b", "a"), hint("b"), line("c", "b"))
    assert name(found, find_leaf(found)) == "c"


def test_the_oldest_rule_takes_the_newest_time() -> None:
    found = whole(line("a", None), line("b", "a", timestamp="2026-02-01T00:00:00.000Z"), line("c", "a"), hint("c"))
    assert name(found, find_leaf_by_oldest_rule(found)) == "b"
    assert name(found, find_leaf(found)) == "c"


def test_of_two_messages_at_one_moment_the_oldest_rule_takes_the_first() -> None:
    at = "2026-02-01T00:00:00.000Z"
    found = whole(line("a", None, timestamp=None), line("b", "a", timestamp=at), line("c", "a", timestamp=at))
    assert name(found, find_leaf_by_oldest_rule(found)) == "b"


# Agents in the main file


def test_an_agent_in_the_main_file_is_no_part_of_the_main_thread() -> None:
    made = session(
        line("a", None),
        line("look", None, isSidechain=True),
        line("found", "look", isSidechain=True),
        line("b", "a"),
    )
    (thread,) = find_threads(made.entries)
    assert said(thread) == "a b"
    assert parents(build_main_graph(made.entries)) == {"a": None, "b": "a"}
    assert parents(build_graph(made.entries, sidechain=True)) == {"look": None, "found": "look"}
    assert len(build_graph(made.entries).nodes) == 4


def test_a_gap_in_the_main_thread_is_not_healed_with_an_agent_s_line() -> None:
    made = session(line("a", None), line("look", None, isSidechain=True), line("b", "never"))
    assert parents(build_main_graph(made.entries)) == {"a": None, "b": "a"}


def test_an_agent_s_own_file_has_a_thread() -> None:
    made = session(user("look"), assistant("found"), agent="a1")
    (thread,) = find_threads(made.entries)
    assert said(thread) == "look found"


# Branches


def test_a_conversation_without_forks_is_one_thread() -> None:
    made = session(user("a"), assistant("b"), user("c"), assistant("d"))
    (thread,) = find_threads(made.entries)
    assert thread.active
    assert thread.fork is None
    assert thread.leaf == made.entries[-1]
    assert thread.entries == tuple(made.entries)


def test_a_rewind_makes_a_branch() -> None:
    made = session(user("a"), assistant("b"), user("c"), assistant("d"), rewind(), user("e"), assistant("f"))
    old, new = find_threads(made.entries)
    assert (said(old), said(new)) == ("a b c d", "a b e f")
    assert (old.active, new.active) == (False, True)
    assert old.fork is None
    assert new.fork == made.entries[4]


def test_the_active_thread_need_not_be_the_last() -> None:
    made = session(*BRANCHES, hint("b"))
    first, second = find_threads(made.entries)
    assert (said(first), first.active) == ("a b b2", True)
    assert (said(second), second.active) == ("a c c2", False)
    assert second.fork is not None
    assert second.fork.record.uuid == "c"


def test_a_rewind_to_the_start_makes_a_second_root() -> None:
    old, new = find_threads(session(user("a"), assistant("b"), rewind(), user("c")).entries)
    assert (said(old), said(new)) == ("a b", "c")


def test_an_abandoned_branch_may_have_branches_of_its_own() -> None:
    made = session(user("a"), assistant("b"), user("c"), rewind(), user("d"), rewind(2), user("e"), assistant("f"))
    assert [(said(thread), thread.active) for thread in find_threads(made.entries)] == [
        ("a b c", False),
        ("a b d", False),
        ("e f", True),
    ]


def test_a_second_answer_to_one_prompt_is_a_branch() -> None:
    made = session(line("a", None), assistant("b", parentUuid="a"), assistant("c", parentUuid="a"))
    assert [said(thread) for thread in find_threads(made.entries)] == ["a b", "a c"]


def test_a_branch_may_begin_with_a_line_of_the_program() -> None:
    made = session(
        line("a", None), system("informational", "hm", uuid="s", parentUuid="a"), line("b", "s"), line("c", "a")
    )
    old, new = find_threads(made.entries)
    assert (said(old), said(new)) == ("a b", "a c")
    assert new.fork is not None
    assert new.fork.record.uuid == "c"


@pytest.mark.parametrize("version", ["2.0.76", "2.1.325"])
def test_parallel_results_are_no_branches(version: str) -> None:
    calls = assistant("hm", tool_use("Read"), tool_use("Read"), tool_use("Read"))
    made = session(user("a"), calls, tool_result(), tool_result(), tool_result(), assistant("b"), version=version)
    (thread,) = find_threads(made.entries)
    assert thread.active
    assert thread.leaf == made.entries[-1]


def test_blocks_of_one_message_beside_the_way_are_no_branches() -> None:
    made = session(user("a"), assistant(tool_use("Read"), tool_use("Read")), tool_result(), assistant("b"))
    assert [said(thread) for thread in find_threads(made.entries)] == ["a b"]


def test_siblings_of_one_message_are_no_branches() -> None:
    body: Json = {"role": "assistant", "id": "msg_1"}
    made = session(
        line("a", None),
        assistant("b", parentUuid="a", message={**body, "content": [text("b")]}),
        assistant("c", parentUuid="a", message={**body, "content": [text("c")]}),
    )
    assert [said(thread) for thread in find_threads(made.entries)] == ["a c"]


def test_progress_beside_a_result_is_no_branch() -> None:
    made = session(
        user("a"),
        assistant(tool_use("Bash", id="x"), tool_use("Bash", id="y")),
        progress("bash_progress", tool="x"),
        Step(lambda writer: tool_result(id="x", parentUuid=writer.parent).write(writer)),
        tool_result(id="y"),
        assistant("b"),
    )
    (thread,) = find_threads(made.entries)
    assert said(thread) == "a b"


def test_a_prompt_after_a_result_beside_the_way_is_a_branch() -> None:
    def after_the_first_result(writer: Writer) -> None:
        user("c", parentUuid=writer.written[-2]).write(writer)

    made = session(
        user("a"),
        assistant(tool_use("Read"), tool_use("Read")),
        tool_result(),
        tool_result(),
        Step(after_the_first_result),
        Step(lambda writer: user("d", parentUuid=writer.written[-2]).write(writer)),
    )
    assert [said(thread) for thread in find_threads(made.entries)] == ["a c", "a d"]


# Compaction


def test_a_boundary_goes_on_from_its_logical_parent() -> None:
    made = session(user("a"), assistant("b"), compaction("all"), user("c"))
    (thread,) = find_threads(made.entries)
    assert said(thread) == "a b all c"
    assert [is_boundary(entry) for entry in thread.entries] == [False, False, True, False, False]


def test_a_boundary_whose_logical_parent_is_elsewhere_is_healed() -> None:
    lost = system("compact_boundary", "Conversation compacted", parentUuid=None, logicalParentUuid="elsewhere")
    made = session(user("a"), assistant("b"), lost, user("c"))
    (thread,) = find_threads(made.entries)
    assert said(thread) == "a b c"


def test_a_boundary_whose_summary_was_never_written_has_cut_nothing() -> None:
    made = session(user("a"), assistant(text("b")), compaction("Summary."))
    torn = made.entries[:-1]
    assert is_boundary(torn[-1])
    assert find_thread_entries(torn) == [*torn[:2]]


def test_a_boundary_without_any_parent_is_a_root() -> None:
    made = session(user("a"), system("compact_boundary", parentUuid=None), user("c"))
    assert [said(thread) for thread in find_threads(made.entries)] == ["a", "c"]


def test_only_a_boundary_has_a_logical_parent() -> None:
    found = whole(line("a", None), system("informational", uuid="s", parentUuid=None, logicalParentUuid="a"))
    assert parents(found) == {"a": None, "s": None}


# Any session


@given(sessions)
def test_exactly_one_thread_is_active(made: Built) -> None:
    found = find_threads(made.entries)
    on = find_leaf(build_main_graph(made.entries))
    assert [thread.active for thread in found].count(True) == (on is not None) == bool(found)
    leaves = [thread.leaf for thread in found]
    assert leaves == sorted(leaves, key=lambda entry: entry.offset)
    assert all(thread.entries[-1] == thread.leaf for thread in found)


@given(sessions)
def test_every_message_is_in_a_thread_or_beside_one(made: Built) -> None:
    entries = made.entries
    found = find_threads(entries)
    held = {entry.offset for thread in found for entry in thread.entries}
    nodes = [node.entry for node in build_main_graph(entries).nodes if is_message(node.entry)]
    assert {thread.leaf.offset for thread in found} <= {entry.offset for entry in nodes}
    for entry in nodes:
        if entry.offset not in held:
            assert beside(entry, nodes)


@given(sessions)
def test_a_fork_is_the_first_line_no_earlier_thread_has(made: Built) -> None:
    seen: set[int] = set()
    for thread in find_threads(made.entries):
        new = next((entry for entry in thread.entries if entry.offset not in seen), None)
        assert thread.fork == (new if seen else None)
        seen.update(entry.offset for entry in thread.entries)


@given(st.lists(st.tuples(st.integers(0, 7), st.none() | st.integers(0, 9)), max_size=20))
def test_any_parents_make_a_graph_without_cycles(lines: list[tuple[int, int | None]]) -> None:
    steps = [line(f"n{own}", None if parent is None else f"n{parent}") for own, parent in lines]
    made = session(*steps)
    found = build_graph(made.entries)
    assert len(found.nodes) == len({own for own, _ in lines})
    for number in range(len(found.nodes)):
        way = found.path(number)
        assert len(set(way)) == len(way)
    held = {entry.offset for thread in find_threads(made.entries) for entry in thread.entries}
    assert held == {node.entry.offset for node in found.nodes}


@given(sessions)
def test_history_written_again_under_the_same_uuids_changes_no_words(made: Built) -> None:
    before = [thread.active for thread in find_threads(made.entries)]
    twice = Built(made.id, made.cwd, tuple(line if line.endswith(b"\n") else line + b"\n" for line in made.lines) * 2)
    assert [thread.active for thread in find_threads(twice.entries)].count(True) == before.count(True)


def beside(entry: Entry, nodes: list[Entry]) -> bool:
    """Tell whether a line is a result, or part of an answer with other lines."""
    record = entry.record
    if isinstance(record, User):
        return any(isinstance(block, ToolResult) for block in record.message.blocks)
    assert isinstance(record, Assistant)
    return any(
        isinstance(other.record, Assistant) and other.record.message.id == record.message.id
        for other in nodes
        if other.offset != entry.offset
    )


def test_a_line_written_again_as_it_was_makes_no_branch() -> None:
    made = session(user("a"), assistant("b"), again(0), again(1))
    (thread,) = find_threads(made.entries)
    assert said(thread) == "a b"
