"""Edits of real sessions: whatever can be applied adds no violation, is sound for the API, and is undone."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

import unspool
from tests.edit.sessions import NEW, ids
from tests.edit.test_properties import tree
from tests.real_files import corpus
from unspool.edit.api import apply_edit, plan_edit, undo_edit
from unspool.edit.planning.plan import Clone, Compress, Fork, Operation, Trim, TrimTo
from unspool.edit.planning.planner import prepare_edit
from unspool.edit.session_text import SessionText, parse_session_text
from unspool.edit.verify.verify import verify_edit
from unspool.errors import UnspoolError
from unspool.format.blocks import Text
from unspool.format.records import Assistant
from unspool.graph.turns import find_prompts

OPERATIONS: dict[str, Operation] = {
    "clone": Clone(),
    "fork": Fork("1"),
    "tools": Trim(tools=()),
    "results": Trim(results=True, superseded_reads=True),
    "thinking": Trim(thinking=True, images=True),
    "turns": Trim(turns=range(1, 2)),
    "last": Trim(keep_last=1),
    "outside": Trim(outside=True),
    "ladder": TrimTo(percent=40),
    "compress": Compress(keep_last=1, keep_calls=True),
    "compress all": Compress(keep_last=0),
}
NAMED = (
    "obra+episodic-memory/head/test/fixtures/large-conversation.jsonl",
    "FSM1+cipher-box/entire/c6/44f3afc869/1/full.jsonl",
    "marot+spotter/head/test/fixtures/transcripts/8463c716-a2ea-4c14-9efa-87158ebd9f20.jsonl",
)


def sessions(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*.jsonl")) if not path.name.startswith(("agent-", "history"))]


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_edit_of_any_real_session_is_sound_or_refused_with_a_reason(name: str) -> None:
    operation, told = OPERATIONS[name], Counter[str]()
    for path in sessions(corpus()):
        source = parse_session_text(path.stem, path.read_bytes())
        places = (NEW,) if isinstance(operation, Clone | Fork) else (NEW, source.id)
        for id in places:
            try:
                prepared = prepare_edit(source, operation, ids(id))
            except UnspoolError:
                told["refused"] += 1
                continue
            faults = verify_edit(prepared).faults
            if faults and "[trimmed for fixture]" in source.data.decode(errors="replace"):
                continue  # one file has the same id on every line: it is refused, by name
            if faults and all(fault.startswith("the API would reject it") for fault in faults):
                told["refused"] += 1  # when it is applied, with this reason: most lines of one file have no parent
                continue
            assert faults == (), path
            told["sound"] += 1
    assert told["sound"] > 5, told


@pytest.mark.parametrize("name", NAMED)
def test_results_and_superseded_reads_are_most_of_a_context(name: str) -> None:
    path = corpus() / name
    source = parse_session_text(path.stem, path.read_bytes())
    prepared = prepare_edit(source, Trim(results=True, superseded_reads=True), ids(source.id))
    before, after = prepared.plan.context_tokens
    assert after <= 0.4 * before
    assert [text for *_, text in find_prompts(prepared.result.entries)] == [
        text for *_, text in find_prompts(source.entries)
    ]
    assert answers(prepared.result) == answers(source)


def answers(text: SessionText) -> list[str]:
    return [
        block.text
        for entry in text.entries
        if isinstance(entry.record, Assistant)
        for block in entry.record.message.blocks
        if isinstance(block, Text)
    ]


def test_undo_restores_every_byte_of_every_file(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(
        corpus() / "handgemacht-ai+claude-code-log" / "head" / "test" / "test_data" / "real_projects", folder
    )
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    before = tree(folder)
    done = 0
    for path in sessions(folder)[:12]:
        for operation in (Clone(), Trim(tools=()), Compress(keep_last=1)):
            for in_place in (False, True):
                if in_place and isinstance(operation, Clone):
                    continue
                session = unspool.open(folder).session(str(path))
                try:
                    apply_edit(plan_edit(session, operation, in_place=in_place), folder=tmp_path / "own")
                except UnspoolError:
                    continue
                done += 1
    for _ in range(done):
        undo_edit(folder=tmp_path / "own")
    assert done > 10
    assert tree(folder) == before
