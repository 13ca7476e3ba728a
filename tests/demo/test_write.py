"""The demo folder: written the same each time, readable to the last byte, and true to itself."""

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from unspool.demo import write as demo
from unspool.demo.files import CONFIG
from unspool.errors import Refused
from unspool.format.base import Unknown
from unspool.format.blocks import Document, Image, Other, Thinking, ToolResult, ToolUse
from unspool.format.records import AnyRecord, Assistant, Attachment, BadLine, Entry, Item, Progress, System, User
from unspool.format.side_files import json, markdown
from unspool.live import Board
from unspool.live.state.model import BoardGroup
from unspool.read import tail
from unspool.read.source_tree import Kind, Source, Tree, scan

Json = dict[str, Any]

RECORDS = {
    "user", "assistant", "system", "attachment", "progress", "summary", "queue-operation", "last-prompt", "mode",
    "permission-mode", "ai-title", "custom-title", "agent-name", "pr-link", "file-history-snapshot",
    "file-history-delta", "cost-state", "api-request", "api-request-shape", "api-request-blob", "tools-used",
    "atis-latch",
}  # fmt: skip
SYSTEM = {
    None, "api_error", "away_summary", "compact_boundary", "local_command", "microcompact_boundary",
    "stop_hook_summary", "turn_duration",
}  # fmt: skip
ATTACHMENTS = {
    "agent_listing_delta", "auto_mode", "command_permissions", "compact_file_reference", "date", "date_change",
    "deferred_tools_delta", "directory", "edited_text_file", "environment", "file", "hook_additional_context",
    "hook_blocking_error", "hook_non_blocking_error", "hook_success", "hook_system_message", "invoked_skills",
    "mcp_instructions_delta", "model", "nested_memory", "plan_file_reference", "plan_mode", "plan_mode_exit",
    "prompt_snapshot", "queued_command", "remote_session_change", "session_context", "silent_turn_reminder",
    "skill_listing", "task_reminder", "total_tokens_reminder",
}  # fmt: skip
TOOLS = {
    "Agent", "AskUserQuestion", "Bash", "Edit", "ExitPlanMode", "Glob", "Grep", "Read", "Skill", "Task", "TaskCreate",
    "TaskUpdate", "TodoWrite", "WebSearch", "Write", "mcp__almanac__moon_phase", "mcp__browser__screenshot",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "claude"
    demo.write_demo(path)
    return path


@pytest.fixture(scope="module")
def tree(folder: Path) -> Tree:
    return scan(folder)


# Written the same each time


def test_two_writes_give_the_same_names_bytes_modes_and_times(folder: Path, tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        demo.write_demo(tmp_path / "deep" / "down")
    finally:
        os.umask(mask)
    assert state(tmp_path / "deep" / "down") == state(folder)


def test_only_the_owner_may_look(folder: Path) -> None:
    modes = {path.is_dir(): path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}
    assert modes == {True: 0o700, False: 0o600}


def test_a_session_was_last_changed_at_its_last_line(tree: Tree) -> None:
    for source in tree.of(Kind.SESSION, Kind.AGENT):
        times = [record.timestamp for record in records(source) if record.timestamp]
        if times:
            assert source.modified == round(datetime.fromisoformat(times[-1]).timestamp() * 1000) * 1_000_000


def test_the_summary_counts_what_there_is(tmp_path: Path) -> None:
    summary = demo.write_demo(tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    kinds = Counter(source.kind for source in scan(tmp_path).sources)
    assert summary == demo.DemoSummary(
        kinds[Kind.SESSION], kinds[Kind.AGENT], len(files), sum(path.stat().st_size for path in files)
    )
    assert 12 <= summary.sessions <= 16


def test_an_older_demo_is_restored_and_what_is_not_the_demos_stays(folder: Path, tmp_path: Path) -> None:
    demo.write_demo(tmp_path)
    session = next(scan(tmp_path).of(Kind.SESSION)).path
    session.write_bytes(b"overwritten")
    (tmp_path / "history.jsonl").unlink()
    (tmp_path / "mine.txt").write_text("mine")
    demo.write_demo(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "mine"
    (tmp_path / "mine.txt").unlink()
    assert {name: it for name, it in state(tmp_path).items() if name != "."} == {
        name: it for name, it in state(folder).items() if name != "."
    }


# Nothing else is touched


def test_a_folder_with_something_in_it_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "projects").mkdir()
    (tmp_path / "projects" / "real.jsonl").write_text("{}\n")
    before = state(tmp_path)
    with pytest.raises(Refused, match="not empty") as caught:
        demo.write_demo(tmp_path)
    assert caught.value.hint
    assert state(tmp_path) == before


@pytest.mark.parametrize("there", [True, False], ids=["to a folder", "to nowhere"])
def test_a_link_is_not_followed(tmp_path: Path, there: bool) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    if there:
        target.mkdir()
    link.symlink_to(target)
    with pytest.raises(Refused, match="is a symbolic link"):
        demo.write_demo(link)
    assert not there or not list(target.iterdir())
    assert target.exists() == there


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(Refused, match="not a folder"):
        demo.write_demo(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_link_inside_an_older_demo_is_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "demo", tmp_path / "outside"
    demo.write_demo(inside)
    (inside / "plans").rename(outside)
    (inside / "plans").symlink_to(outside)
    next(outside.iterdir()).write_text("mine")
    with pytest.raises(Refused, match="already exists"):
        demo.write_demo(inside)
    assert next(outside.iterdir()).read_text() == "mine"


def test_a_file_is_not_written_through_a_link_or_a_second_name(tmp_path: Path) -> None:
    inside, first, second = tmp_path / "demo", tmp_path / "first", tmp_path / "second"
    demo.write_demo(inside)
    (inside / "history.jsonl").rename(first)
    (inside / "history.jsonl").symlink_to(first)
    second.write_text("mine")
    (inside / "settings.json").unlink()
    (inside / "settings.json").hardlink_to(second)
    first.write_text("mine")
    demo.write_demo(inside)
    assert (first.read_text(), second.read_text()) == ("mine", "mine")
    assert not (inside / "history.jsonl").is_symlink()


# Readable


def test_every_file_but_the_programs_locks_has_a_kind(folder: Path, tree: Tree) -> None:
    known = {source.path for source in tree.sources}
    unknown = {path.name for path in folder.rglob("*") if path.is_file() and path not in known}
    assert unknown == {demo.MARKER, ".lock"}
    assert {source.kind for source in tree.sources} == set(Kind) - {Kind.JOURNAL, Kind.WORKFLOW}
    assert not tree.skipped


def test_the_items_of_a_file_cover_its_bytes(tree: Tree) -> None:
    for source in tree.of(Kind.SESSION, Kind.AGENT):
        end = 0
        for item in items(source):
            assert item.offset == end
            end += item.length
        assert end == source.size


def test_there_is_something_of_everything(tree: Tree) -> None:
    found = [record for source in tree.of(Kind.SESSION, Kind.AGENT) for record in records(source)]
    blocks = [block for record in found if isinstance(record, User | Assistant) for block in record.message.blocks]
    assert {tag(record) for record in found} >= RECORDS
    assert {record.subtype for record in found if isinstance(record, System)} >= SYSTEM
    attached = [record.attachment for record in found if isinstance(record, Attachment)]
    assert {tag(one) for one in attached} >= ATTACHMENTS
    progress = {tag(record.data) for record in found if isinstance(record, Progress)}
    assert progress == {"agent_progress", "bash_progress", "hook_progress"}
    assert {block.name for block in blocks if isinstance(block, ToolUse)} == TOOLS
    assert {bool(block.thinking) for block in blocks if isinstance(block, Thinking)} == {True, False}
    assert {type(block) for block in blocks} >= {Image, Document, ToolResult}


def test_what_is_wrong_is_wrong_on_purpose(tree: Tree) -> None:
    everything = [(source, item) for source in tree.of(Kind.SESSION, Kind.AGENT) for item in items(source)]
    assert [item.reason for _, item in everything if isinstance(item, BadLine)] == ["truncated JSON object"]
    found = [item.record for _, item in everything if isinstance(item, Entry)]
    assert [record.type for record in found if isinstance(record, Unknown)] == ["reminder-set"]
    attached = [record.attachment for record in found if isinstance(record, Attachment)]
    assert [one.type for one in attached if isinstance(one, Other)] == ["weather_report"]
    assert any(source.size == 0 for source in tree.of(Kind.SESSION))
    assert sum(isinstance(item, Entry) and not item.line.endswith(b"\n") for _, item in everything) == 1, "doubled"


def test_the_side_files_can_be_read(folder: Path, tree: Tree) -> None:
    (index,) = tree.of(Kind.INDEX)
    indexed = json.parse_object(index.path.read_bytes(), json.SessionsIndex).entries
    beside = {source.session_id: source for source in tree.of(Kind.SESSION) if source.project == index.project}
    assert {entry.session_id for entry in indexed} - set(beside), "one is gone"
    assert {id for id, source in beside.items() if source.size} - {entry.session_id for entry in indexed}
    stale = [e for e in indexed if e.session_id in beside and not is_fresh(e, beside[e.session_id])]
    assert len(stale) == 1
    (stats,) = tree.of(Kind.STATS)
    assert json.parse_object(stats.path.read_bytes(), json.StatsCache).version == 2
    (plan,) = tree.of(Kind.PLAN)
    parsed = markdown.parse_plan(plan.path.read_text())
    assert (len(parsed.phases), [task.done for task in parsed.tasks].count(True)) == (3, 3)
    assert plan.path.stem in {record.slug for source in tree.of(Kind.SESSION) for record in records(source)}
    (process,) = tree.of(Kind.REGISTRY)
    assert json.parse_object(process.path.read_bytes(), json.ProcessEntry).status == "idle"
    assert any(json.parse_todos(source.path.read_bytes()) for source in tree.of(Kind.TODOS))
    lines = (folder / "history.jsonl").read_bytes().splitlines()
    typed = [json.parse_object(line, json.HistoryEntry) for line in lines]
    assert typed == sorted(typed, key=lambda entry: entry.timestamp or 0)


# True to itself


def test_the_parents_of_a_session_are_in_it(tree: Tree) -> None:
    for source in tree.of(Kind.SESSION, Kind.AGENT):
        nodes = [record for record in records(source) if record.uuid]
        known = {record.uuid for record in nodes}
        assert len(known) == len(nodes)
        outside = [record for record in nodes if record.parent_uuid and record.parent_uuid not in known]
        forked = source.agent_id is not None and source.agent_id.startswith(("acompact-", "aprompt_suggestion-"))
        assert len(outside) == int(forked)


def test_every_call_has_its_result(tree: Tree) -> None:
    for source in tree.of(Kind.SESSION, Kind.AGENT):
        messages = [record.message for record in records(source) if isinstance(record, User | Assistant)]
        blocks = [block for message in messages for block in message.blocks]
        uses = [block.id for block in blocks if isinstance(block, ToolUse)]
        assert sorted(uses) == sorted(block.tool_use_id for block in blocks if isinstance(block, ToolResult))


def test_every_line_of_a_message_repeats_its_usage(tree: Tree) -> None:
    for source in tree.of(Kind.SESSION, Kind.AGENT):
        said = defaultdict(set)
        for record in records(source):
            if isinstance(record, Assistant) and record.message.usage:
                usage = record.message.usage
                said[record.message.id].add((usage.input_tokens, usage.cache_read_input_tokens))
        assert all(len(usages) == 1 for usages in said.values())


def test_the_programs_cost_is_the_sum_of_the_messages(tree: Tree) -> None:
    totals: dict[str | None, Counter[str]] = defaultdict(Counter)
    costs: dict[str | None, Json] = {}
    seen: set[str] = set()
    for source in sorted(tree.of(Kind.SESSION, Kind.AGENT), key=lambda source: source.modified):
        for line in objects(source):
            if line["type"] == "cost-state":
                costs[source.session_id] = line["modelUsage"]
            message = line.get("message", {})
            if line["type"] == "assistant" and message["model"] != "<synthetic>" and message["id"] not in seen:
                seen.add(message["id"])
                totals[source.session_id][message["model"]] += message["usage"]["output_tokens"]
    assert len(costs) > 3
    for session, models in costs.items():
        assert {model: used["outputTokens"] for model, used in models.items()} == totals[session]


def test_a_fork_has_the_same_lines_under_another_id(tree: Tree) -> None:
    owners: dict[str, set[str]] = defaultdict(set)
    for source in tree.of(Kind.SESSION):
        for line in objects(source):
            if "uuid" in line:
                owners[line["uuid"]].add(line["sessionId"])
    shared = {tuple(sorted(ids)) for ids in owners.values() if len(ids) > 1}
    assert len(shared) == 1


def test_every_backup_is_there_and_named_by_its_path(folder: Path, tree: Tree) -> None:
    backups = {source.path for source in tree.of(Kind.FILE_BACKUP)}
    named = set()
    for source in tree.of(Kind.SESSION):
        for line in objects(source):
            if line["type"] == "file-history-delta" and line["backup"]["backupFileName"]:
                path = f"{line['backup']['realParentDir']}/{Path(line['trackingPath']).name}"
                digest = hashlib.sha256(path.encode()).hexdigest()
                assert line["backup"]["backupFileName"] == f"{digest[:16]}@v1"
            kept = line.get("snapshot", {}).get("trackedFileBackups", {}).values()
            for backup in [*kept, line.get("backup", {})]:
                if backup.get("backupFileName"):
                    assert source.session_id is not None
                    named.add(folder / "file-history" / source.session_id / backup["backupFileName"])
    assert named == backups


def test_an_output_too_long_for_its_line_is_in_its_file(folder: Path, tree: Tree) -> None:
    kept = [
        line["toolUseResult"]
        for source in tree.of(Kind.SESSION)
        for line in objects(source)
        if isinstance(line.get("toolUseResult"), dict) and "persistedOutputPath" in line["toolUseResult"]
    ]
    assert kept
    for result in kept:
        path = folder / Path(result["persistedOutputPath"]).relative_to(CONFIG)
        assert path.stat().st_size == result["persistedOutputSize"]
        assert path.read_text().startswith(result["stdout"])


def test_an_agent_is_named_by_the_call_that_started_it(tree: Tree) -> None:
    calls: dict[str, Source] = {}
    for source in tree.of(Kind.SESSION, Kind.AGENT):
        for record in records(source):
            if isinstance(record, Assistant):
                calls |= {block.id: source for block in record.message.blocks if isinstance(block, ToolUse)}
    depths: list[int | None] = []
    for source in tree.of(Kind.AGENT_META):
        meta = json.parse_object(source.path.read_bytes(), json.AgentMeta)
        assert meta.tool_use_id is not None
        assert calls[meta.tool_use_id].kind is (Kind.SESSION if meta.spawn_depth == 1 else Kind.AGENT)
        depths.append(meta.spawn_depth)
    assert Counter(depths) == {1: 3, 2: 1}


def state(folder: Path) -> dict[str, tuple[bytes | None, int, int]]:
    """Return what can be seen of a folder: bytes, mode and time of all that is in it."""
    return {
        path.relative_to(folder).as_posix(): (
            None if path.is_dir() else path.read_bytes(),
            path.stat().st_mode,
            path.stat().st_mtime_ns,
        )
        for path in (folder, *folder.rglob("*"))
    }


def items(source: Source) -> Iterator[Item]:
    for piece in tail.pieces(source.path, final=True):
        yield from piece.items


def records(source: Source) -> list[AnyRecord]:
    return [item.record for item in items(source) if isinstance(item, Entry)]


def objects(source: Source) -> list[Json]:
    return [msgspec.json.decode(item.line) for item in items(source) if isinstance(item, Entry)]


def tag(struct: object) -> str:
    """Return the name that the file has for a struct."""
    return "" if isinstance(struct, Unknown | Other) else str(type(struct).__struct_config__.tag)  # type: ignore[attr-defined]


def is_fresh(entry: json.IndexEntry, source: Source) -> bool:
    return entry.file_mtime == source.modified // 1_000_000


# Written at a time


def test_dates_move_by_whole_days_and_nothing_else_changes(folder: Path, tmp_path: Path) -> None:
    demo.write_demo(tmp_path / "moved", datetime.fromisoformat("2027-03-05T12:30:00Z"))
    shift = datetime.fromisoformat("2027-03-05T08:00:00Z") - datetime.fromisoformat("2026-11-14T08:00:00Z")
    moved = {path.relative_to(tmp_path / "moved") for path in (tmp_path / "moved").rglob("*.jsonl")}
    assert moved > {path.relative_to(folder) for path in folder.rglob("*.jsonl")}
    for path in folder.rglob("*.jsonl"):
        if path.name == "history.jsonl":
            continue
        other = tmp_path / "moved" / path.relative_to(folder)
        assert other.stat().st_size == path.stat().st_size
        assert other.stat().st_mtime - path.stat().st_mtime == pytest.approx(shift.total_seconds())


def test_at_a_time_one_session_needs_you_one_works_and_one_waits(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    demo.write_demo(tmp_path / "claude", now)
    board = Board(tmp_path / "claude", tmp_path / "signals", clock=lambda: now)
    board.refresh()
    groups = [row.group for row in board.rows(now) if row.project == "harbour-site"]
    assert sorted(groups, key=str) == [BoardGroup.NEEDS_YOU, BoardGroup.WAITING, BoardGroup.WORKING]


def test_nothing_happens_after_the_time(tmp_path: Path) -> None:
    for time in ("2026-11-14T00:30:00Z", "2027-01-01T23:59:00Z", "2024-02-29T07:00:00Z"):
        now = datetime.fromisoformat(time)
        assert max(datetime.fromisoformat(file.time) for file in demo.contents(now)) <= now
