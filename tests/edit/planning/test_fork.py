"""Forks and trims that nothing speaks against."""

from __future__ import annotations

import json

import pytest

from tests.edit.sessions import NEW, ids, manuscript
from unspool.edit.planning.plan import Fork, Trim
from unspool.edit.planning.planner import prepare_edit
from unspool.edit.session_text import SessionText, parse_session_text
from unspool.edit.verify.verify import verify_edit
from unspool.testing.build import assistant, attachment, note, session, tool_result, tool_use, user

LONG = "x" * 70_000


def titled() -> SessionText:
    """Three long turns; titles and last prompts stand where lists look for them, at the beginning and at the end."""
    return manuscript(
        session(
            note("custom-title", customTitle="Mine"),
            user("First."),
            assistant(tool_use("Bash", id="toolu_1", command="ls")),
            tool_result(LONG, id="toolu_1"),
            note("last-prompt", lastPrompt="First.", leafUuid=None),
            note("custom-title", customTitle="Mine"),
            assistant("One."),
            user("Second."),
            assistant(LONG),
            user("Third."),
            assistant(LONG),
            note("custom-title", customTitle="Mine, renamed"),
            note("last-prompt", lastPrompt="Third.", leafUuid=None),
        )
    )


@pytest.mark.parametrize("at", ["1", "2", "3"])
def test_a_fork_has_its_titles_and_prompt_at_the_end(at: str) -> None:
    prepared = prepare_edit(titled(), Fork(at), ids(NEW))
    assert verify_edit(prepared).faults == ()
    lines = [json.loads(line) for line in prepared.result.data.splitlines()[-2:]]
    assert {line["type"]: line.get("customTitle") or line.get("lastPrompt") for line in lines} == {
        "custom-title": "Mine, renamed",
        "last-prompt": "Third." if at == "3" else "First.",
    }
    assert next(line["leafUuid"] for line in lines if "leafUuid" in line) == prepared.after.leaf


def test_a_session_whose_last_line_was_written_before_its_parent_can_be_forked() -> None:
    built = session(
        user("First."), assistant("One."), user("Second."), assistant("Two."), note("last-prompt", lastPrompt="S")
    )
    lines = [*built.lines]
    leaf = json.loads(lines[3])["uuid"]
    lines[2], lines[3] = lines[3], lines[2]
    lines[4] = json.dumps({**json.loads(lines[4]), "leafUuid": leaf}).encode() + b"\n"
    source = parse_session_text(built.id, b"".join(lines))
    for at in ("1", "2"):
        prepared = prepare_edit(source, Fork(at), ids(NEW))
        assert verify_edit(prepared).faults == ()
        assert [message.role for message in prepared.after.messages] == ["user", "assistant"] * int(at)


@pytest.mark.parametrize("in_place", [False, True])
def test_the_last_turn_can_go_where_a_hooks_context_came_before_it(in_place: bool) -> None:
    context = attachment("hook_additional_context", hookName="SessionStart", content=["said"])
    model = "claude-opus-5-5"
    source = manuscript(
        session(
            user("First."), assistant("One.", model=model), context, user("Second."), assistant("Two.", model=model)
        )
    )
    prepared = prepare_edit(source, Trim(turns=range(2, 3)), ids(source.id if in_place else NEW))
    assert verify_edit(prepared).faults == ()
    assert [message.role for message in prepared.after.messages] == ["user", "assistant", "system"]


def test_a_fork_at_a_turn_ends_with_its_answer_and_not_with_what_a_task_tells_later() -> None:
    notice = "<task-notification>\n<task-id>b1</task-id>\n<status>stopped</status>\n</task-notification>"
    later = session(user("one"), assistant("a"), user(notice), user("two"), assistant("b"))
    answered = session(user("one"), assistant("a"), user(notice), assistant("b"), user("two"), assistant("c"))
    for made, is_kept in ((later, False), (answered, True)):
        prepared = prepare_edit(manuscript(made), Fork("1"), ids(NEW))
        assert verify_edit(prepared).faults == ()
        assert (b"<task-id>b1" in prepared.result.data) is is_kept
