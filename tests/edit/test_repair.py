"""Repairs: every fixture is refused before and accepted after, and no repair of any damage makes a session worse.

`UNSPOOL_REPAIR_EXAMPLES` says how many damaged copies of real sessions are repaired; 40 unless it is set.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unspool
from tests.edit.broken_sessions import BROKEN, ID, BrokenSession, damage
from tests.edit.sessions import NEW, built, ids, work
from tests.real_files import corpus
from unspool.api.rules import find_problems
from unspool.edit.api import apply_edit, plan_edit, undo_edit
from unspool.edit.planning.plan import Repair
from unspool.edit.planning.planner import PreparedEdit, prepare_edit
from unspool.edit.rules.breakage import BREAKAGES, find_breakages, find_remaining_violations
from unspool.edit.rules.check import check_rules, resume_context, resume_request
from unspool.edit.rules.recorded_messages import as_context, recorded_messages
from unspool.edit.rules.violation import new_violations
from unspool.edit.session_text import SessionText, parse_session_text
from unspool.edit.verify.verify import verify_edit
from unspool.errors import NothingFound, Refused
from unspool.format import Entry, decode_plain
from unspool.graph import is_message
from unspool.graph.context import INTERRUPTED_CALL
from unspool.paths import project_key, session_file
from unspool.testing.build import Built

REAL_EXAMPLES = int(os.environ.get("UNSPOOL_REPAIR_EXAMPLES", "40"))
MAX_REAL_BYTES = 1_000_000
"""Larger real sessions are left out: each is read some dozen times."""

each_fixture = pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)


def read(data: bytes, id: str = ID) -> SessionText:
    return parse_session_text(id, data)


def repair(text: SessionText, id: str | None = None) -> PreparedEdit:
    return prepare_edit(text, Repair(), ids(id or text.id))


def api_problems(text: SessionText) -> list[str]:
    """Return what the API refuses in a session as it is written."""
    recorded = recorded_messages(resume_context(text).lines)
    return [problem.message for problem in find_problems(resume_request(as_context(recorded)))]


def test_every_breakage_has_a_fixture_and_a_row_in_the_documents() -> None:
    assert {broken.kind for broken in BROKEN.values()} == set(BREAKAGES)
    page = Path(__file__).parents[2].joinpath("docs", "editing.md").read_text()
    assert [
        line.split("`")[1] for line in page.splitlines() if line.startswith(tuple(f"| `{k}" for k in BREAKAGES))
    ] == [*BREAKAGES]


@each_fixture
def test_a_broken_session_is_found_to_be_broken(broken: BrokenSession) -> None:
    text = read(broken.data)
    assert broken.kind in {found.kind for found in find_breakages(text)}
    problems = api_problems(text)
    if broken.refused is not None:
        assert any(broken.refused in problem for problem in problems)


@each_fixture
@pytest.mark.parametrize("id", [ID, NEW], ids=["in place", "in a copy"])
def test_a_repaired_session_breaks_no_rule_and_the_api_takes_it(broken: BrokenSession, id: str) -> None:
    prepared = repair(read(broken.data), id)
    assert find_breakages(prepared.result) == []
    assert find_remaining_violations(prepared.result) == []
    assert api_problems(prepared.result) == []
    assert verify_edit(prepared) == (True, True, (), ())
    assert prepared.plan.removed[broken.kind] >= 1


@each_fixture
def test_a_second_repair_finds_nothing(broken: BrokenSession) -> None:
    with pytest.raises(NothingFound, match="nothing to repair"):
        repair(repair(read(broken.data)).result)


@each_fixture
def test_a_repair_keeps_the_lines_that_it_does_not_name(broken: BrokenSession) -> None:
    prepared = repair(read(broken.data))
    after = set(prepared.result.data.splitlines())
    changed = [line for line in broken.data.splitlines() if line not in after]
    added = [line for line in after if line not in broken.data.splitlines()]
    # Of a copied file every line is wrong; else a breakage touches few: itself, and what hangs on it.
    assert len(changed) <= 4 or broken.kind == "wrong-session", changed
    assert len(added) <= 4 or broken.kind == "wrong-session", added


@each_fixture
def test_undoing_a_repair_gives_the_broken_bytes_back(broken: BrokenSession, tmp_path: Path) -> None:
    path = session_file(tmp_path / "config", project_key("/home/me/project"), ID)
    path.parent.mkdir(parents=True)
    path.write_bytes(broken.data)
    session = unspool.open(tmp_path / "config").session(str(path))
    planned = plan_edit(session, Repair(), in_place=True)
    if broken is BROKEN["a missing result at the end"]:
        with pytest.raises(Refused, match="its last tool call has no result yet"):  # a tool may still be running
            apply_edit(planned, folder=tmp_path / "own")
        assert path.read_bytes() == broken.data
        return
    edited = apply_edit(planned, folder=tmp_path / "own")
    assert path.read_bytes() != broken.data
    undo_edit(edited.undo_id, folder=tmp_path / "own")
    assert path.read_bytes() == broken.data


def test_a_missing_result_says_what_claude_code_says_of_an_interrupted_call() -> None:
    prepared = repair(read(BROKEN["a missing result"].data))
    (added,) = [line for line in prepared.result.entries if line.answered_ids]
    ((_, value),) = decode_plain(added.raw)
    assert isinstance(value, dict)
    assert value["message"]["content"] == [
        {"tool_use_id": "toolu_1", "type": "tool_result", "content": INTERRUPTED_CALL, "is_error": True}
    ]


def test_a_late_result_is_moved_to_its_call_and_nothing_of_the_conversation_is_lost() -> None:
    source = read(BROKEN["a late result"].data)
    prepared = repair(source)
    assert blocks(prepared.result) == blocks(source)
    assert [message.role for message in prepared.after.messages] == ["user", "assistant"] * 3
    assert [block.kind for block in prepared.after.messages[2].blocks] == ["tool_result"]


def test_lines_before_a_missing_parent_are_part_of_the_conversation_again() -> None:
    source = read(BROKEN["a missing parent"].data)
    before = [block.text for message in resume_context(source).messages for block in message.blocks]
    after = [block.text for message in repair(source).after.messages for block in message.blocks]
    assert "One." not in before
    assert "One." in after


@pytest.mark.parametrize("made", [work(), work("2.0.76")], ids=["newest", "2.0.76"])
def test_a_sound_session_has_nothing_to_repair(made: Built) -> None:
    with pytest.raises(NothingFound, match="nothing to repair"):
        repair(read(made.data, made.id))


def test_a_conversation_without_its_first_prompt_is_refused_with_the_reason() -> None:
    made = work()
    with pytest.raises(Refused, match=r"A1: first message must use the .user. role"):
        repair(read(b"".join(made.lines[1:]), made.id))


@given(built(), st.integers(0, 2**32), st.integers(1, 4))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_repair_makes_a_damaged_session_worse(made: tuple[Built, bytes], seed: int, count: int) -> None:
    data = damage(made[0].data + made[1], Random(seed), count)
    words = check_repair(read(data, made[0].id))
    assert words in ("repaired", "sound") or words.startswith("the session cannot be repaired: ")


@pytest.mark.slow
def test_no_repair_makes_a_damaged_real_session_worse() -> None:
    paths = [path for path in sorted(corpus().rglob("*.jsonl")) if 0 < path.stat().st_size <= MAX_REAL_BYTES]
    paths = [path for path in paths if is_resumable(read(path.read_bytes(), path.stem))]
    told: Counter[str] = Counter()
    for seed in range(REAL_EXAMPLES):
        random = Random(seed)
        path = random.choice(paths)
        text = read(damage(path.read_bytes(), random, random.randint(1, 4)), path.stem)
        try:
            told[check_repair(text)] += 1
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {path}") from error
    print(dict(told))  # the figures of a long run
    assert told["repaired"] > REAL_EXAMPLES // 2, told
    refused = [words for words in told if words not in ("repaired", "sound")]
    assert all(words.startswith("the session cannot be repaired: ") for words in refused), refused


def is_resumable(text: SessionText) -> bool:
    """Tell whether a file is one of a session that can be resumed at all, before it is damaged."""
    try:
        repair(text)
    except Refused:  # a file of an agent, or a fragment: nobody can repair a conversation without its first prompt
        return False
    except NothingFound:
        pass
    return True


def check_repair(source: SessionText) -> str:
    """Repair a session and check what must hold of every repair; return what became of it."""
    try:
        prepared = repair(source)
    except NothingFound:
        assert find_breakages(source) == []
        return "sound"
    except Refused as error:
        return error.message
    result = prepared.result
    assert verify_edit(prepared).faults == ()
    assert find_breakages(result) == []
    added = new_violations(check_rules(result), check_rules(source))
    assert [one for one in added if one.rule != "C1" and not one.subject.startswith("root ")] == []
    assert lost_blocks(prepared) == Counter()
    # Which of two different lines with one uuid is meant is told by their order: another branch may be the right one.
    if not any(change.reason == "another line has its uuid" for change in prepared.plan.changes):
        assert lost_context(prepared) == Counter()
    with pytest.raises(NothingFound):
        repair(result)
    return "repaired"


def blocks(text: SessionText) -> Counter[str]:
    """Return how often each block is in a file; the ids of calls may change."""
    return Counter(key for entry in text.entries for key in block_keys(entry.raw))


def block_keys(line: object) -> list[str]:
    assert isinstance(line, bytes | memoryview)
    found = []
    for _, value in decode_plain(line):
        message = value.get("message") if isinstance(value, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        for block in [content] if isinstance(content, str) else content if isinstance(content, list) else []:
            kept = (
                {key: item for key, item in block.items() if key not in ("id", "tool_use_id")}
                if isinstance(block, dict)
                else block
            )
            found.append(msgspec.json.encode(kept, order="sorted").decode())
    return found


def lost_blocks(prepared: PreparedEdit) -> Counter[str]:
    """Return the blocks that are gone and that no repair names."""
    named = {change.entry for change in prepared.plan.changes} | {change.uuid for change in prepared.plan.changes}
    touched = Counter(
        key
        for entry in prepared.source.entries
        if entry.offset in named or entry.record.uuid in named
        for key in block_keys(entry.raw)
    )
    return blocks(prepared.source) - blocks(prepared.result) - touched


def lost_context(prepared: PreparedEdit) -> Counter[str]:
    """Return the texts that a resume sent before the repair and no longer sends, but those that a repair names."""
    named = {change.entry for change in prepared.plan.changes} | {change.uuid for change in prepared.plan.changes}

    def texts(lines: Iterable[Entry]) -> Counter[str]:
        return Counter(key for entry in lines if is_message(entry) for key in block_keys(entry.raw))

    unnamed = [line for line in prepared.before.lines if line.offset not in named and line.record.uuid not in named]
    return texts(unnamed) - texts(prepared.after.lines)
