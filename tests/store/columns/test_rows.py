"""Every table says what the raw lines say: the expected rows are computed with nothing but `json` (`plain.py`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from tests.store import plain
from tests.store.asking import Columns
from tests.store.dirty import ONE, THREE, TWO
from unspool.store.columns.tables import public_tables


def same(found: Iterable[Any], expected: Iterable[Any]) -> None:
    """Compare rows in whatever order."""
    ours, theirs = Counter(map(repr, found)), Counter(map(repr, expected))
    assert (ours - theirs, theirs - ours) == (Counter(), Counter())


def known(columns: Columns) -> dict[Path, int]:
    """Return the files of lines, with their numbers."""
    query = "SELECT path, id FROM sources WHERE kind IN ('session', 'agent', 'journal')"
    return {Path(path): id for path, id in columns.rows(query)}


def docs(columns: Columns) -> list[tuple[int, plain.Doc]]:
    """Return every document with the number of its file."""
    return [
        (id, one) for path, id in known(columns).items() for one in plain.documents(path) if isinstance(one, plain.Doc)
    ]


def test_every_table_has_a_test_here() -> None:
    text = Path(__file__).read_text()
    assert [name for name in public_tables() if f"FROM {name}" not in text] == []


def test_entries_are_the_documents_of_all_files(columns: Columns) -> None:
    query = 'SELECT source_id, "offset", length, type, uuid, parent_uuid, session_id, timestamp, cwd, slug FROM entries'
    names = ("type", "uuid", "parentUuid", "sessionId")
    same(
        columns.rows(query),
        [
            (id, doc.offset, doc.length, *(text(doc.value.get(name)) for name in names),
             plain.time(doc.value.get("timestamp")), text(doc.value.get("cwd")), text(doc.value.get("slug")))
            for id, doc in docs(columns)
        ],
    )  # fmt: skip


def text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def test_conversations_are_the_user_assistant_and_system_lines(columns: Columns) -> None:
    rows = columns.rows("SELECT * FROM claude_conversations")
    found = [(*row[:8], row[8] and json.loads(row[8]), row[9] and json.loads(row[9]), *row[10:]) for row in rows]
    expected = []
    for _, doc in docs(columns):
        value = doc.value
        kind = value.get("type")
        if kind not in ("user", "assistant", "system"):
            continue
        message = plain.message(value)
        content = value.get("content") if kind == "system" else plain.words(plain.blocks(value))
        uses = [b for b in plain.blocks(value) if isinstance(b, dict) and b.get("type") == "tool_use"]
        cells = (text(value.get("sessionId")), text(value.get("cwd")), value.get("uuid"), value.get("parentUuid"), kind)
        about = (plain.time(value.get("timestamp")), content, message.get("model"), uses or None, message.get("usage"))
        expected.append((*cells, *about, value.get("slug"), text(value.get("gitBranch")), text(value.get("cwd"))))
    same(found, expected)


def test_messages_are_lines_joined_by_their_id(columns: Columns) -> None:
    query = """SELECT source_id, message_id, role, "offset", lines, started, ended, model, stop_reason, blocks, text
        FROM messages"""
    ids = known(columns)
    expected = []
    for said in messages(columns):
        first, last = said.lines[0], said.lines[-1]
        answers = [plain.message(line.value) for line in said.lines if line.value["type"] == "assistant"]
        reasons = [one["stop_reason"] for one in answers if one.get("stop_reason")]
        times = (plain.time(first.value.get("timestamp")), plain.time(last.value.get("timestamp")))
        model = answers[0].get("model") if answers else None
        words = plain.words([block for _, block in said.blocks])
        about = (ids[said.path], said.id, first.value["type"], first.offset, len(said.lines), *times, model)
        expected.append((*about, reasons[-1] if reasons else None, len(said.blocks), words))
    same(columns.rows(query), expected)


def messages(columns: Columns) -> list[plain.Said]:
    ids = known(columns)
    return [said for root in columns.roots for said in plain.messages(root) if said.path in ids]


def test_blocks_are_those_of_the_messages(columns: Columns) -> None:
    query = 'SELECT source_id, message_id, position, "offset", type, text, tool_use_id, tool_name, input FROM blocks'
    found = [(*row[:8], row[8] and json.loads(row[8])) for row in columns.rows(query) if row[4] in _TOLD]
    ids = known(columns)
    expected = []
    for said in messages(columns):
        for position, (line, block) in enumerate(said.blocks):
            kind = block.get("type") if isinstance(block, dict) else None
            if kind in _TOLD:
                words = plain.result_words(block) if kind == "tool_result" else block.get("text", block.get("thinking"))
                call = block.get("id" if kind == "tool_use" else "tool_use_id", "" if "tool" in kind else None)
                place = (ids[said.path], said.id, position, line.offset, kind)
                given = block.get("input") if kind == "tool_use" else None
                expected.append((*place, words, call, block.get("name"), given))
    same(found, expected)


_TOLD = ("text", "thinking", "tool_use", "tool_result")


def test_blocks_of_other_kinds_are_told_without_their_bytes(odd: Columns) -> None:
    query = f"""SELECT type, text, media_type, data_bytes FROM blocks
        WHERE type NOT IN {_TOLD} AND session_id = '{ONE}' ORDER BY "offset", position"""
    pdf, dot = len("cGRm"), odd.rows("SELECT max(data_bytes) FROM blocks WHERE type = 'image'")[0][0]
    assert [(kind, words and json.loads(words), media, size) for kind, words, media, size in odd.rows(query)] == [
        ("brand_new", {"type": "brand_new", "payload": {"k": [1, 2]}}, None, None),
        ("image", None, "image/png", dot),
        ("document", None, "application/pdf", pdf),
    ]
    assert dot > 50


def test_tool_calls_are_uses_and_results_with_one_id(columns: Columns) -> None:
    query = """SELECT source_id, tool_use_id, name, input, result, error, "offset", result_offset, started, ended, uuid,
        result_uuid FROM tool_calls"""
    found = [(*row[:3], row[3] and json.loads(row[3]), *row[4:]) for row in columns.rows(query)]
    ids = known(columns)
    expected = []
    for call in (call for root in columns.roots for call in plain.calls(root) if call.use.path in ids):
        use, result, given = call.use, call.result, call.given
        ended = plain.time(result.value.get("timestamp")) if result else None
        about = (ids[use.path], call.block.get("id", ""), call.block.get("name", ""), call.block.get("input"))
        came = (plain.result_words(given), bool(given.get("is_error"))) if given else (None, None)
        places = (use.offset, result.offset if result else None, plain.time(use.value.get("timestamp")), ended)
        uuids = (use.value.get("uuid"), result.value.get("uuid") if result else None)
        expected.append((*about, *came, *places, *uuids))
    same(found, expected)


def test_structured_results_are_as_written_without_pictures(columns: Columns) -> None:
    found = columns.rows("SELECT source_id, tool_use_id, structured FROM tool_calls WHERE structured IS NOT NULL")
    ids = known(columns)
    expected = {
        (ids[call.use.path], call.block.get("id", "")): call.result.value.get("toolUseResult")
        for root in columns.roots
        for call in plain.calls(root)
        if call.use.path in ids and call.result and "toolUseResult" in call.result.value
    }
    assert {(id, call) for id, call, _ in found} == expected.keys()
    for id, call, structured in found:
        assert json.loads(structured) == without_pictures(expected[id, call])


def without_pictures(value: Any, key: str = "", *, bulky: bool | None = None) -> Any:
    """Leave out what is long under a name that holds base64, if the whole is long."""
    if bulky is None:
        bulky = len(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) > 4096
    match value:
        case dict():
            return {name: without_pictures(one, name, bulky=bulky) for name, one in value.items()}
        case list():
            return [without_pictures(one, bulky=bulky) for one in value]
        case str() if bulky and key in ("base64", "data") and len(value) > 4096:
            return ""
        case _:
            return value


def test_turns_are_prompts_of_a_person(odd: Columns) -> None:
    found = odd.rows(
        f"SELECT number, prompt, queued, answers, tool_calls, errors FROM turns WHERE session_id = '{ONE}'"
    )
    assert found == [
        (1, "Look \ufffd at this \U0001f600", False, 1, 2, 1),
        (2, "no uuid, no time", False, 4, 3, 0),
        (3, "typed meanwhile", True, 0, 0, 0),
        (4, "Now the pictures", False, 1, 0, 0),
        (5, "One way", False, 1, 0, 0),
        (6, "Another way", False, 4, 2, 0),
    ]
    lines = [doc for id, doc in docs(odd) if doc.path.stem == ONE]
    starts = [at for at, doc in enumerate(lines) if is_prompt(doc.value)]
    ends = [*starts[1:], len(lines)]
    counted = odd.rows(f"SELECT lines, started, ended FROM turns WHERE session_id = '{ONE}' ORDER BY number")
    times = [[plain.time(doc.value.get("timestamp")) for doc in lines] for _ in starts]
    assert counted == [
        (end - at - 1, stamps[at], max(time for time in stamps[at:end] if time))
        for at, end, stamps in zip(starts, ends, times, strict=True)
    ]


def is_prompt(value: dict[str, Any]) -> bool:
    """Tell a prompt of the folder of odd lines."""
    if value.get("type") == "attachment":
        return bool(value["attachment"]["type"] == "queued_command")
    words = plain.words(plain.blocks(value))
    results = [b for b in plain.blocks(value) if b.get("type") == "tool_result"]
    flagged = value.get("isMeta") or value.get("isCompactSummary") or words.startswith("<")
    return value.get("type") == "user" and not results and not flagged


def test_agents_are_linked_by_the_surest_sign(odd: Columns) -> None:
    query = "SELECT agent_id, session_id, class, type, description, prompt, tool_use_id, linked_by, lines FROM agents"
    assert sorted(odd.rows(query), key=repr) == [
        ("a000001", ONE, "task", "Explore", "find", "Find it", "toolu_task", "result", 3),
        ("a000002", ONE, "task", "Explore", "find", "By progress", "toolu_task", "progress", 3),
        ("a000003", ONE, "task", None, "words", "Word for word", "toolu_word", "prompt", 3),
        ("a000004", ONE, "warmup", "general", "said beside", "Warmup", None, None, 2),
        ("a00000f", ONE, "task", None, None, f"of {ONE}", None, None, 2),
        ("a00000f", TWO, "task", None, None, f"of {TWO}", None, None, 2),
        ("a0000ff", None, "orphan", None, None, "", None, None, 0),
    ]


def test_files_touched_are_calls_that_name_one(columns: Columns) -> None:
    actions = {"Read": "read", "NotebookRead": "read", "Write": "write", "Edit": "edit", "MultiEdit": "edit"}
    actions["NotebookEdit"] = "edit"
    ids = known(columns)
    expected = []
    for call in (call for root in columns.roots for call in plain.calls(root) if call.use.path in ids):
        name, given = call.block.get("name"), call.block.get("input")
        path = (given.get("file_path") or given.get("notebook_path")) if isinstance(given, dict) else None
        if name in actions and isinstance(path, str):
            done = call.given is not None and not call.given.get("is_error")
            time = plain.time(call.use.value.get("timestamp"))
            expected.append((ids[call.use.path], call.block.get("id", ""), name, path, actions[name], time, done))
    query = "SELECT source_id, tool_use_id, tool, path, action, time, done FROM files_touched"
    same(columns.rows(query), expected)


def test_a_change_tells_how_many_lines_it_added_and_removed(odd: Columns) -> None:
    query = f"SELECT tool, added, removed FROM files_touched WHERE session_id = '{ONE}' ORDER BY tool"
    assert odd.rows(query) == [("Edit", 2, 1), ("Read", None, None)]


def test_compactions_are_boundary_lines(columns: Columns) -> None:
    expected = []
    for id, doc in docs(columns):
        value = doc.value
        if value.get("type") == "system" and value.get("subtype") == "compact_boundary":
            done = value.get("compactMetadata") or {}
            tokens = (done.get("preTokens"), done.get("postTokens"))
            expected.append((id, value.get("uuid"), doc.offset, "compact", done.get("trigger"), *tokens))
    query = """SELECT source_id, uuid, "offset", kind, trigger, pre_tokens, post_tokens FROM compactions
        WHERE kind = 'compact'"""
    same(columns.rows(query), expected)


def test_responses_are_billed_once(odd: Columns) -> None:
    names = [*next(iter(plain.billed(odd.roots[0]).values()))]
    found = {row["response_id"]: {name: row[name] for name in names} for row in odd.dicts("SELECT * FROM responses")}
    assert found == plain.billed(odd.roots[0])
    assert odd.rows("SELECT sum(unpriced_tokens) > 0, count(*) FILTER (copies > 1) > 0 FROM responses") == [
        (True, True)
    ]


def test_a_message_has_the_cost_of_the_copy_that_counts(odd: Columns) -> None:
    billed = plain.billed(odd.roots[0])
    found = odd.rows("SELECT message_id, sum(cost_micros), count(*) FROM messages WHERE counted GROUP BY message_id")
    assert {id: (cost, copies) for id, cost, copies in found} == {
        id: (one["cost_micros"], 1) for id, one in billed.items()
    }


def test_days_add_up_responses(odd: Columns) -> None:
    billed = list(plain.billed(odd.roots[0]).values())
    days = sorted({one["time"].date() for one in billed})
    expected = []
    for day in days:
        some = [one for one in billed if one["time"].date() == day]
        sums = [sum(one[name] or 0 for one in some) for name in ("output_tokens", "cost_micros")]
        expected.append((day, len(some), *sums, sorted({one["model"] for one in some})))
    assert odd.rows("SELECT date, responses, output_tokens, cost_micros, models FROM daily") == expected


def test_sessions_are_files_of_sessions(odd: Columns) -> None:
    billed = plain.billed(odd.roots[0])
    found = {row["session_id"]: row for row in odd.dicts("SELECT * FROM sessions")}
    assert found.keys() == {ONE, TWO, THREE}
    for id, row in found.items():
        lines = [doc.value for _, doc in docs(odd) if doc.path.stem == id]
        times = [time for line in lines if (time := plain.time(line.get("timestamp")))]
        said = [one for one in plain.messages(odd.roots[0]) if one.path.stem == id]
        assert (row["started"], row["ended"]) == (min(times, default=None), max(times, default=None))
        assert row["messages"] == len(said)
        assert row["tool_calls"] == sum(call.use.path.stem == id for call in plain.calls(odd.roots[0]))
        assert row["cost_micros"] == sum(one["cost_micros"] or 0 for one in billed.values() if one["session_id"] == id)
        assert not row["gone"]
    assert found[ONE]["title"] == "The dirty one"
    assert (found[ONE]["agents"], found[TWO]["agents"], found[THREE]["hidden"]) == (5, 1, "empty")


def test_sources_are_the_files(odd: Columns) -> None:
    root = odd.roots[0]
    paths = [path for path in root.rglob("*") if path.is_file()]
    query = "SELECT path, size, epoch_us(modified), gone FROM sources"
    same(odd.rows(query), [(str(p), p.stat().st_size, p.stat().st_mtime_ns // 1000, False) for p in paths])
    lines = dict(odd.rows("SELECT path, lines FROM sources WHERE kind IN ('session', 'agent')"))
    assert lines == {str(path): len(list(plain.documents(path))) for path in plain.files(root)}


def test_bad_lines_are_told_by_place(columns: Columns) -> None:
    ids = known(columns)
    expected = [
        (ids[one.path], one.offset, one.length)
        for path in ids
        for one in plain.documents(path)
        if isinstance(one, plain.Bad)
    ]
    query = f"""SELECT source_id, "offset", length FROM bad_lines WHERE source_id IN
        ({", ".join(map(str, ids.values()))})"""
    same(columns.rows(query), expected)


def test_history_todos_plans_and_statistics_are_the_side_files(odd: Columns) -> None:
    root = odd.roots[0]
    typed = [plain.fixed(json.loads(line)) for line in (root / "history.jsonl").read_text().splitlines()]
    times = [datetime.fromtimestamp(one["timestamp"] / 1000, UTC).replace(tzinfo=None) for one in typed]
    expected = [
        (time, one["project"], one.get("sessionId"), one["display"], one["pastedContents"])
        for time, one in zip(times, typed, strict=True)
    ]
    rows = odd.rows("SELECT * FROM claude_history ORDER BY timestamp")
    assert [(*row[:4], json.loads(row[4])) for row in rows] == expected
    rows = odd.rows("SELECT time, project, session_id, display, pasted FROM history ORDER BY time")
    assert [(*row[:4], json.loads(row[4])) for row in rows] == expected
    (todo,) = (root / "todos").iterdir()
    items = [
        (at, one["content"], one["status"], one.get("activeForm"))
        for at, one in enumerate(json.loads(todo.read_text()))
    ]
    assert odd.rows("SELECT * FROM claude_todos ORDER BY todo_index") == [(ONE, ONE, *item) for item in items]
    assert odd.rows("SELECT position, content, status, active_form FROM todos ORDER BY position") == items
    (plan,) = (root / "plans").iterdir()
    about = (plan.name, plan.stem, plan.read_text(), plan.stat().st_size)
    assert odd.rows("SELECT plan_name, slug, content, file_size FROM claude_plans") == [about]
    assert odd.rows("SELECT name, slug, content, size, title FROM plans") == [(*about, "Fox")]
    assert odd.rows("SELECT * FROM claude_stats") == [(date(2026, 1, 5), 3, 1, 2)]


def test_prices_are_the_table(odd: Columns) -> None:
    source = Path(__file__).parents[3] / "src" / "unspool" / "prices" / "price_list.py"
    lines = [line.split() for line in source.read_text().splitlines() if line.startswith("claude-")]
    expected = [
        (line[0], int(line[2]), *(round(float(rate) * 1_000_000) for rate in line[3:8]), float(line[8]), float(line[9]))
        for line in lines
    ]
    rates = "input_micros, output_micros, cache_read_micros, cache_write_5m_micros, cache_write_1h_micros"
    same(odd.rows(f"SELECT model, above_tokens, {rates}, us_factor, fast_factor FROM prices"), expected)


def test_every_table_has_exactly_the_columns_and_types_that_are_declared(columns: Columns) -> None:
    with columns.connection() as connection:
        for table in public_tables().values():
            found = [(row[0], row[1]) for row in connection.execute(f"DESCRIBE {table.name}").fetchall()]
            assert found == [(column.name, column.type.replace("TEXT", "VARCHAR")) for column in table.columns]
