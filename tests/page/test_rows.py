"""Rows: one of everything, at the usual depth."""

from __future__ import annotations

from pathlib import Path

from inline_snapshot import snapshot

from tests.page.scene import built, viewed
from unspool.export.depth import Depth
from unspool.page.rows import TranscriptRow
from unspool.testing.build import assistant, attachment, note, queued, text, thinking, tool_result, tool_use, user


def told(row: TranscriptRow) -> str:
    parts = [
        row.sign,
        row.name,
        row.target,
        row.text[:24],
        row.outcome,
        f"({row.state})" if row.state != "done" else "",
    ]
    parts += [f"[{row.bracket}]" if row.bracket else "", f"{len(row.pictures)} image" if row.pictures else ""]
    return " ".join(part for part in parts if part)


def test_one_of_everything_is_visible_at_the_usual_depth(tmp_path: Path) -> None:
    view = built(tmp_path)
    rows = [(section.number, told(row)) for section in view.sections.read_turns(None) for row in section.rows]
    assert rows == snapshot(
        [
            (1, "› prompt Please fix **the bug** 1 image"),
            (1, "· thinking Let me look. 12 characters"),
            (1, "I will look at it."),
            (1, "≡ 2 reads · 1 search a.py, b.py, project"),
            (1, "✓ Edit a.py +2 −1"),
            (1, "✗ Bash make test exit 1 · 3 lines (failed)"),
            (1, "Two at once."),
            (1, "✓ Agent Look (Explore) 3 calls [first]"),
            (1, "✓ Agent Read 3 calls [last]"),
            (1, "✓ mcp__shots__take http://x.test/ 1 image · 1 line 1 image"),
            (1, "✓ AskUserQuestion Which colour? Blue"),
            (1, "✗ hook 1 hook at the end of the turn · lint failed · lint (failed)"),
            (1, "✗ hook PostToolUse:Edit · exit 127 · no such hook (failed)"),
            (2, "› queued and the docs"),
            (2, "All done."),
            (2, "⇡ pull request #7 me/project https://github.com/me/project/pull/7"),
            (2, "? unknown record `brand-new-record`"),
            (2, "? unknown attachment `brand_new_attachment`"),
            (2, "✗ bad line truncated JSON object 7 bytes unreadable (failed)"),
            (3, "› prompt A wrong turn"),
            (3, "Going wrong."),
            (4, "› prompt The right turn"),
            (4, "↪ hook Stop lint"),
            (4, "✗ API error 529 overloaded (failed)"),
            (4, "⇣ compacted auto, 160,000 tokens to 12,000"),
            (4, "≡ summary What was said so far."),
            (4, "/ command /model opus"),
            (4, "│ output Set model"),
            (5, "› prompt Go on"),
            (5, "✓ Write n.txt +2 −0"),
            (5, "■ interrupted [Request interrupted by user] (interrupted)"),
            (6, "› prompt Last one"),
            (6, "… Bash sleep 100 no result yet (open)"),
        ]
    )


def test_numbers_of_a_row_are_those_of_the_lines(tmp_path: Path) -> None:
    view = built(tmp_path)
    (bash,) = (row for section in view.sections.read_turns(range(1, 2)) for row in section.rows if row.name == "Bash")
    assert (bash.took, bash.tokens, bash.size) == (1.0, 300, 60)
    edit = next(row for section in view.sections.read_turns(range(1, 2)) for row in section.rows if row.name == "Edit")
    assert edit.outcome == "+2 −1"


def test_depths_show_more_and_more(tmp_path: Path) -> None:
    lines = [note("mode", mode="plan"), user("hi"), assistant(thinking("hm"), "ho", tool_use("Bash")), tool_result("x")]
    view = viewed(tmp_path, *lines)
    kinds = [[row.kind for section in view.sections.read_turns(None, depth) for row in section.rows] for depth in Depth]
    assert kinds == [
        ["prompt"],
        ["prompt", "answer"],
        ["prompt", "thought", "answer", "call"],
        ["mode", "prompt", "thought", "answer", "call"],
    ]


def test_reads_that_went_well_are_folded_and_others_are_not(tmp_path: Path) -> None:
    read = [assistant(tool_use("Read", file_path="/a/b.py")), tool_result("x")]
    failed = [assistant(tool_use("Read", file_path="/c")), tool_result("no such file", error=True)]
    view = viewed(tmp_path, user("go"), *read * 2, *failed, *read * 3, assistant("done"))
    rows = [(row.kind, row.name, len(row.rows)) for section in view.sections.read_turns(None) for row in section.rows]
    assert rows == [
        ("prompt", "prompt", 0),
        ("call", "Read", 0),
        ("call", "Read", 0),
        ("call", "Read", 0),
        ("fold", "3 reads", 3),
        ("answer", "", 0),
    ]


def test_a_call_of_no_name_and_one_that_was_refused_are_rows_too(tmp_path: Path) -> None:
    words = "The user doesn't want to proceed with this tool use."
    view = viewed(tmp_path, user("go"), assistant(tool_use("", id="x")), tool_result(words, error=True))
    row = view.sections.read_turns(None)[0].rows[-1]
    assert (row.name, row.state, row.sign, row.outcome) == ("(no name)", "rejected", "⊘", "rejected")


def test_each_block_of_a_line_has_a_row_and_a_key_of_its_own(tmp_path: Path) -> None:
    lost = [{"type": "tool_result", "tool_use_id": id, "content": id} for id in ("x", "y")]
    message = {"id": "m", "role": "assistant", "content": [text("ok"), text("ok"), *lost]}
    view = viewed(tmp_path, user("go"), assistant("", message=message))
    rows = view.sections.read_turns(None)[-1].rows[1:]
    assert [(row.key.partition(".")[2], row.text or row.target) for row in rows] == [
        ("0", "ok"), ("1", "ok"), ("2", "x"), ("3", "y"),
    ]  # fmt: skip


def test_a_hook_that_did_not_fail_is_folded_into_its_call(tmp_path: Path) -> None:
    hook = {"hookName": "PostToolUse:Bash", "hookEvent": "PostToolUse", "toolUseID": "b"}
    view = viewed(
        tmp_path,
        user("go"),
        assistant(tool_use("Bash", id="b", command="ls")),
        tool_result("x", id="b"),
        attachment("hook_success", **hook, stdout="fine", exitCode=0),
        attachment("hook_non_blocking_error", **hook, stderr="broken", exitCode=1),
        assistant("Done."),
    )
    rows = view.sections.read_turns(None, Depth.ALL)[0].rows
    assert [(row.kind, [inner.target for inner in row.rows]) for row in rows] == [
        ("prompt", []),
        ("call", ["PostToolUse:Bash: fine"]),
        ("hook", []),
        ("answer", []),
    ]


def test_a_queued_prompt_is_shown_once(tmp_path: Path) -> None:
    view = viewed(tmp_path, user("go"), assistant("Working."), queued("and the docs"), assistant("Done."))
    texts = [
        f"{row.target} {row.text}" for section in view.sections.read_turns(None, Depth.STEPS) for row in section.rows
    ]
    assert sum("and the docs" in text for text in texts) == 1


def test_the_tokens_of_an_answer_without_a_stop_reason_are_a_partial_count(tmp_path: Path) -> None:
    view = viewed(tmp_path, user("go"), assistant("First."), assistant("Second."), version="2.1.60")
    answers = [row for section in view.sections.read_turns() for row in section.rows if row.kind == "answer"]
    assert {row.is_partial for row in answers} == {True}
