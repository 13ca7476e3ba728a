"""What a resumed session would send. The cases are those the program itself was asked (2.1.325)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.test_messages import joined_again
from unspool.format.json_edit import patch
from unspool.format.records import Assistant
from unspool.graph.context.build import NO_RESPONSE, build_context
from unspool.graph.context.pairing import INTERRUPTED_CALL, NO_CONTENT, ORPHANED_RESULT, TOOL_LOADED
from unspool.testing.build import (
    Step,
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

OLD, NEW = "claude-sonnet-4-6", "claude-opus-5-5"
"""A model that gets reminders in the user's messages, and one that gets them as system messages."""


def sent(*steps: Step, leaf: int | None = None, **options: Any) -> list[tuple[str, list[Any]]]:
    """Return roles and blocks in short: text as it is, calls and results by their ids."""
    made = session(*steps, **options)
    at = made.entries[leaf].record.uuid if leaf is not None else None
    return [
        (message.role, [short(block.value) for block in message.blocks]) for message in build_context(made.entries, at)
    ]


def short(block: dict[str, Any]) -> Any:
    match block:
        case {"type": "text", "text": words}:
            return words
        case {"type": "tool_use", "name": name, "id": id}:
            return (name, id)
        case {"type": "tool_result", "content": content}:
            return {block["tool_use_id"]: content}
        case _:
            return block["type"]


def read(*ids: str, **options: Any) -> Step:
    return assistant(*(tool_use("Read", id=id) for id in ids), **options)


def test_a_conversation_is_sent_as_it_was() -> None:
    assert sent(user("one"), assistant("a"), user("two"), assistant(thinking("t"), "b")) == [
        ("user", ["one"]),
        ("assistant", ["a"]),
        ("user", ["two"]),
        ("assistant", ["thinking", "b"]),
    ]


@pytest.mark.parametrize("version", ["2.0.76", "2.1.29", "2.1.325"])
def test_parallel_results_are_one_message_whatever_their_shape(version: str) -> None:
    story = (user("go"), read("a", "b"), tool_result("A"), tool_result("B"), assistant("done"))
    assert sent(*story, version=version)[1:3] == [
        ("assistant", [("Read", "a"), ("Read", "b")]),
        ("user", [{"a": "A"}, {"b": "B"}]),
    ]


def test_blocks_keep_every_field_they_have() -> None:
    call = {**tool_use("Read", id="a"), "caller": {"type": "direct"}, "new": 1}
    made = session(user("go"), assistant(call), tool_result("A"), assistant("b"))
    assert build_context(made.entries)[1].blocks[0].value == call
    assert build_context(made.entries)[1].blocks[0].entry is not None
    assert build_context(made.entries)[1].json == {"role": "assistant", "content": [call]}


def test_what_the_user_says_in_a_row_is_one_message_with_line_ends_between() -> None:
    assert sent(user("one"), user("two"), assistant("a"))[0] == ("user", ["one\n", "two"])
    assert sent(user("go"), read("a"), tool_result("A"), user("on"), assistant("b"))[2] == ("user", [{"a": "A"}, "on"])


def test_two_answers_stay_two_messages() -> None:
    assert [role for role, _ in sent(user("x"), assistant("a"), assistant("b"))] == ["user", "assistant", "assistant"]


def test_words_come_before_calls() -> None:
    answer = assistant(tool_use("Read", id="a"), "look")
    assert sent(user("go"), answer, tool_result("A"), assistant("b"))[1] == ("assistant", ["look", ("Read", "a")])


def test_thinking_alone_and_blank_words_are_no_answer() -> None:
    assert sent(user("one"), assistant(thinking("t")), user("two"), assistant("b"))[0] == ("user", ["one\n", "two"])
    assert sent(user("one"), assistant(" \n"), user("two"), assistant("b"))[0] == ("user", ["one\n", "two"])
    assert sent(user("one"), assistant(thinking("t")))[-1] == ("assistant", [NO_RESPONSE])


@pytest.mark.parametrize("signature", ["", None])
@pytest.mark.parametrize("model", ["glm-4.7", OLD, "claude-opus-4-1-20250805"])
def test_thinking_without_a_signature_is_sent_whoever_thought_it(model: str, signature: str | None) -> None:
    thought = {"type": "thinking", "thinking": "t"} | ({} if signature is None else {"signature": signature})
    assert sent(user("x"), assistant(thought, "a", model=model))[-1] == ("assistant", ["thinking", "a"])


def test_no_call_is_sent_twice_where_history_was_appended_again() -> None:
    story = [user("x"), assistant("a", tool_use("Read", id="t")), joined_again(1, 2), tool_result("r"), assistant("b")]
    context = build_context(session(*story).entries)
    ids = [block.id for message in context for block in message.blocks if block.kind == "tool_use"]
    assert ids == ["t"]
    # Texts are: 2.1.326 sends both.
    assert [block.kind for block in context[1].blocks] == ["text", "text", "tool_use"]


def test_thinking_of_another_model_is_not_sent() -> None:
    story = [user("x"), assistant(thinking("t"), "a", model=OLD), user("y"), assistant(thinking("u"), "b", model=NEW)]
    assert [blocks for role, blocks in sent(*story) if role == "assistant"] == [["a"], ["thinking", "b"]]
    retired = assistant(thinking("t"), "a", model="claude-opus-4-1-20250805")
    assert sent(user("x"), retired)[1] == ("assistant", ["a"])


def test_a_session_that_ends_with_the_user_gets_an_answer() -> None:
    assert sent(user("one"))[-1] == ("assistant", [NO_RESPONSE])
    assert sent(user("one"), read("a"), tool_result("A"))[-1] == ("assistant", [NO_RESPONSE])
    interrupted = [user("one"), user(text("[Request interrupted by user]"))]
    assert sent(*interrupted)[-1] == ("assistant", [NO_RESPONSE])


def test_a_local_command_under_its_caveat_waits_for_no_answer() -> None:
    command = [
        user("<local-command-caveat>x</local-command-caveat>", isMeta=True),
        user("<command-name>/cost</command-name>"),
        user("<local-command-stdout>0</local-command-stdout>"),
    ]
    assert sent(user("one"), assistant("a"), *command)[-1][0] == "user"
    assert sent(user("one"), assistant("a"), *command[1:])[-1] == ("assistant", [NO_RESPONSE])


def test_local_commands_after_the_end_come_after_the_answer() -> None:
    story = [user("one"), user(text("[Request interrupted by user]")), system("local_command", "<command-name>/x")]
    assert sent(*story)[-2:] == [("assistant", [NO_RESPONSE]), ("user", ["<command-name>/x"])]
    assert sent(user("one"), assistant("a"), system("local_command", "/x"), user("two"), assistant("b"))[2] == (
        "user",
        ["/x\n", "two"],
    )


def test_calls_left_open_at_the_end_get_a_result_that_says_so() -> None:
    assert sent(user("go"), read("a", "b"), tool_result("A"))[2:] == [
        ("user", [{"a": "A"}, {"b": INTERRUPTED_CALL}]),
        ("assistant", [NO_RESPONSE]),
    ]
    assert sent(user("go"), read("a"))[2:] == [("user", [{"a": INTERRUPTED_CALL}]), ("assistant", [NO_RESPONSE])]


def test_calls_left_open_earlier_go() -> None:
    assert sent(user("go"), read("a", "b"), tool_result("A"), assistant("end"))[1] == ("assistant", [("Read", "a")])
    assert sent(user("go"), read("a"), user("two"), assistant("end"))[0] == ("user", ["go\n", "two"])


def test_results_without_a_call_go() -> None:
    orphan = user(result_block("zz", "R"))
    assert sent(user("x"), assistant("a"), orphan, assistant("b"))[2] == ("user", [NO_CONTENT])
    assert sent(orphan, assistant("b"))[0] == ("user", [ORPHANED_RESULT])
    beside = user(result_block("zz", "R"), text("hey"))
    assert sent(user("x"), assistant("a"), beside, assistant("b"))[2] == ("user", ["hey"])


def test_of_two_results_the_first_counts() -> None:
    story = [user("x"), read("a"), user(result_block("a", "1")), user(result_block("a", "2")), assistant("b")]
    assert sent(*story)[2] == ("user", [{"a": "1"}])


def test_api_errors_of_the_programs_own_are_not_sent() -> None:
    error = assistant("API Error", model="<synthetic>", isApiErrorMessage=True)
    assert sent(user("one"), error, user("two"), assistant("b"))[0] == ("user", ["one\n", "two"])
    assert sent(user("one"), error) == [("user", ["one"])]
    quiet = assistant(NO_RESPONSE, model="<synthetic>")
    assert sent(user("one"), quiet, user("two"), assistant("b"))[1] == ("assistant", [NO_RESPONSE])


def test_task_is_called_agent_now() -> None:
    story = [user("x"), assistant(tool_use("Task", id="a")), tool_result("A"), assistant("b")]
    assert sent(*story)[1] == ("assistant", [("Agent", "a")])


def test_tools_that_became_known_are_said_to_be_loaded() -> None:
    found = tool_result([{"type": "tool_reference", "tool_name": "X"}])
    assert sent(user("x"), assistant(tool_use("ToolSearch", id="a")), found, assistant("b"))[2][1][-1] == TOOL_LOADED


def test_a_compaction_cuts_and_keeps_what_it_preserves() -> None:
    story = [user("one"), assistant("a"), user("two"), assistant("b"), compaction("short", keep=2), user("three")]
    assert sent(*story, assistant("c")) == [
        ("user", ["short\n", "two"]),
        ("assistant", ["b"]),
        ("user", ["three"]),
        ("assistant", ["c"]),
    ]


def test_a_summary_without_a_boundary_is_plain_text() -> None:
    story = [user("one"), assistant("a"), user("sum", isCompactSummary=True), assistant("b")]
    assert [blocks for _, blocks in sent(*story)] == [["one"], ["a"], ["sum"], ["b"]]


def test_the_branch_that_was_left_is_not_sent() -> None:
    story = [user("one"), assistant("a"), user("two"), assistant("b"), rewind(), user("TWO"), assistant("B")]
    assert [blocks for _, blocks in sent(*story)] == [["one"], ["a"], ["TWO"], ["B"]]
    assert [blocks for _, blocks in sent(*story, leaf=3)] == [["one"], ["a"], ["two"], ["b"]]


def test_a_hint_chooses_the_branch_and_a_stale_one_does_no_harm() -> None:
    story = [user("one"), assistant("a"), user("two"), assistant("b"), rewind(), user("TWO"), assistant("B")]
    made = session(*story)
    for number, expected in ((3, "b"), (1, "B"), (5, "B")):
        hint = note("last-prompt", leafUuid=made.entries[number].record.uuid)
        assert sent(*story, hint)[-1] == ("assistant", [expected])
    assert sent(*story, note("last-prompt", leafUuid="00000000-0000-0000-0000-000000000000"))[-1][1] == ["B"]


def test_a_gap_is_healed() -> None:
    lines = session(user("one"), assistant("a"), user("two"), assistant("b")).lines
    assert sent(*(raw(line) for number, line in enumerate(lines) if number != 1)) == [
        ("user", ["one\n", "two"]),
        ("assistant", ["b"]),
    ]


def test_progress_in_the_way_is_passed_over() -> None:
    story = [user("x"), read("a"), progress("bash_progress", output="…"), tool_result("A"), assistant("b")]
    assert [role for role, _ in sent(*story, version="2.1.29")] == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize("model", [OLD, NEW])
def test_reminders_stand_before_the_prompt_or_in_a_system_message_after_it(model: str) -> None:
    story = [user("go"), attachment("date", date="2026-01-01"), attachment("skill_listing", content="- a")]
    date, skills = (
        "Today's date is 2026-01-01.",
        "The following skills are available for use with the Skill tool:\n\n- a",
    )
    first = sent(*story, assistant("a", model=model))
    if model == NEW:
        assert first[:2] == [("user", ["go"]), ("system", [f"{date}\n\n{skills}"])]
    else:
        assert first[0] == ("user", [_reminder(date), _reminder(skills) + "\n", "go"])


def test_reminders_beside_a_result_become_part_of_it() -> None:
    story = [
        user("go"),
        read("a", model=OLD),
        tool_result("A "),
        attachment("date", date="d"),
        assistant("b", model=OLD),
    ]
    date = _reminder("Today's date is d.")
    assert sent(*story)[2] == ("user", [{"a": f"A\n\n{date}"}])
    pictures = [user("go"), read("a", model=OLD), tool_result([image()]), attachment("date", date="d")]
    (content,) = sent(*pictures, assistant("b", model=OLD))[2][1][0].values()
    assert content[-1] == {"type": "text", "text": date}


def test_a_line_that_words_itself_is_taken_at_its_word() -> None:
    line = session(attachment("anything"), version="2.1.325").lines[0]
    said = [{"content": "<system-reminder>\nhey\n</system-reminder>"}]
    spoken = patch(line, {("rendered",): said, ("renderedRole",): "system"})
    story = [user("go"), raw(spoken), assistant("b", model=NEW)]
    assert ("system", ["hey"]) in sent(*story)
    in_person = patch(line, {("rendered",): said, ("renderedRole",): "user"})
    assert sent(user("go"), raw(in_person), assistant("b", model=NEW))[0][1][-1] == _reminder("hey")


def test_a_prompt_taken_in_meanwhile_is_told_as_such() -> None:
    story = [user("go"), read("a", model=OLD), tool_result("A"), queued("faster"), assistant("b", model=OLD)]
    (content,) = sent(*story)[2][1][0].values()
    assert "The user sent a new message while you were working:\nfaster" in content


def test_a_notification_is_told_to_be_one() -> None:
    news = user("<task-notification>x</task-notification>", origin={"kind": "task-notification"})
    assert sent(user("x"), assistant("a"), news, assistant("b"))[2][1][0].startswith(
        "<system-reminder>\n[SYSTEM NOTIFICATION - NOT USER INPUT]"
    )


def test_a_failed_answer_does_not_part_what_the_user_said() -> None:
    error = assistant("API Error", model="<synthetic>", isApiErrorMessage=True)
    day = [attachment("date", date="one"), error, user("two"), attachment("date", date="two")]
    assert sent(user("one"), *day, assistant("b", model=NEW)) == [
        ("user", ["one\n", "two"]),
        ("system", ["Today's date is one.\n\nToday's date is two."]),
        ("assistant", ["b"]),
    ]


def test_what_an_old_version_wrote_for_a_blank_answer_is_none() -> None:
    assert sent(user("one"), assistant(NO_CONTENT), user("two"), assistant("b"))[0] == ("user", ["one\n", "two"])


def test_a_reminder_in_the_users_name_stays_beside_a_result_for_models_that_take_system_messages() -> None:
    memory = attachment("nested_memory")
    lines = [*session(user("go"), read("a", model=NEW), tool_result("A"), memory, assistant("b", model=NEW)).lines]
    lines[3] = patch(lines[3], {("rendered",): [{"content": _reminder("x")}], ("renderedRole",): "user"})
    assert sent(*map(raw, lines))[2] == ("user", [{"a": "A"}, _reminder("x")])


@pytest.mark.parametrize("model", [OLD, NEW])
def test_a_picture_queued_meanwhile_goes_with_its_words(model: str) -> None:
    taken = attachment("queued_command", prompt=[text("look"), image()], commandMode="prompt")
    story = [user("go"), read("a", model=model), tool_result("A"), taken, assistant("b", model=model)]
    result, words, picture = sent(*story)[2][1]
    assert (result, picture) == ({"a": "A"}, "image")
    assert "look" in words
    last = build_context(session(*story).entries)[2].blocks[-1].value
    assert last == image()


def test_a_session_stopped_at_a_limit_of_turns_gets_no_answer() -> None:
    story = [user("go"), read("a"), tool_result("A")]
    assert sent(*story, attachment("max_turns_reached", exitCommitted=False))[-1][0] == "user"
    assert sent(*story, attachment("max_turns_reached", exitCommitted=True))[-1] == ("assistant", [NO_RESPONSE])


def test_local_commands_alone_are_sent() -> None:
    assert sent(system("local_command", "/x"), system("local_command", "y")) == [("user", ["/x\n", "y"])]


def test_a_leaf_that_is_not_there_gives_nothing() -> None:
    assert build_context(session(user("x")).entries, "nowhere") == []


def test_blocks_that_had_to_be_mended_are_sent_mended() -> None:
    first, second = session(user(text("a"), image()), assistant("b")).lines
    broken = first.replace(b'"text":"a"', b'"text":"a\xff"')
    assert sent(raw(broken), raw(second))[0] == ("user", ["a\ufffd", "image"])


def test_blocks_nobody_has_described_are_sent_as_they_are() -> None:
    strange = {"type": "hologram", "depth": 3}
    made = session(user(strange, text("x")), assistant("b"))
    assert [block.value for block in build_context(made.entries)[0].blocks] == [strange, text("x")]


def test_an_answer_goes_on_only_where_it_was_left() -> None:
    lines = [*session(user("x"), assistant("a"), user("y"), assistant("b")).lines]
    first = session(raw(lines[1])).records[0]
    assert isinstance(first, Assistant)
    lines[3] = patch(lines[3], {("message", "id"): first.message.id})
    assert [role for role, _ in sent(*map(raw, lines))] == ["user", "assistant", "user", "assistant"]


def test_nothing_is_sent_of_an_empty_session() -> None:
    assert build_context([]) == []
    assert sent(note("mode", mode="normal")) == []


KINDS: dict[str, dict[str, Any]] = {
    "hook_success": {"hookName": "SessionStart:startup", "hookEvent": "SessionStart", "content": "hi"},
    "hook_blocking_error": {"hookName": "h", "blockingError": {"command": "c", "blockingError": "no"}},
    "hook_additional_context": {"hookName": "h", "content": ["a", "b"]},
    "hook_stopped_continuation": {"hookName": "h", "message": "m"},
    "hook_system_message": {"hookName": "h", "content": "for people"},
    "file": {
        "filename": "/a",
        "content": {"type": "text", "file": {"content": "x\ny", "startLine": 3}},
        "truncated": True,
    },
    "directory": {"path": "/d", "content": "x"},
    "compact_file_reference": {"filename": "/a"},
    "edited_text_file": {"filename": "/a", "snippet": "1\tx"},
    "nested_memory": {"path": "/m", "content": {"path": "/m", "content": "x"}},
    "deferred_tools_delta": {"addedLines": ["A"], "removedNames": ["B"], "pendingMcpServers": ["s"]},
    "mcp_instructions_delta": {"addedBlocks": ["## s"], "removedNames": ["r"]},
    "agent_listing_delta": {"addedLines": ["- a"], "removedTypes": ["b"], "showConcurrencyNote": True},
    "queued_command": {"prompt": "<task-notification>", "commandMode": "task-notification"},
    "date_change": {"newDate": "d"},
    "total_tokens_reminder": {"text": "t"},
    "silent_turn_reminder": {"text": "t"},
    "read_truncation_notice": {"banner": "b"},
    "budget_usd": {"used": 1, "total": 5, "remaining": 4},
    "task_status": {"taskId": "1", "taskType": "t", "status": "s", "description": "d", "outputFilePath": "/o"},
    "plan_mode_exit": {"planFilePath": "/p", "planExists": True},
    "plan_mode": {"reminderType": "full"},
    "command_permissions": {"allowedTools": []},
}
SILENT = {"hook_system_message", "plan_mode", "command_permissions"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", [OLD, NEW])
def test_every_kind_of_attachment_is_told_or_left_out(kind: str, model: str) -> None:
    story = [user("go"), attachment(kind, **KINDS[kind]), assistant("b", model=model)]
    told = sent(*story) != sent(user("go"), assistant("b", model=model))
    assert told == (kind not in SILENT)


@pytest.mark.parametrize("kind", KINDS)
def test_an_attachment_without_what_it_should_carry_does_no_harm(kind: str) -> None:
    assert sent(user("go"), attachment(kind), assistant("b", model=OLD))[-1] == ("assistant", ["b"])


def _reminder(words: str) -> str:
    return f"<system-reminder>\n{words}\n</system-reminder>"


# Properties


@st.composite
def stories(draw: st.DrawFn) -> list[Step]:
    """Sessions with parallel calls, branches, compactions, reminders, open calls and lines that are missing."""
    steps: list[Step] = [user("start")]
    prompts, open_calls = 1, 0
    for number in range(draw(st.integers(0, 12))):
        kind = draw(
            st.sampled_from(["prompt", "answer", "calls", "result", "rewind", "compact", "remind", "queue", "error"])
        )
        if kind == "prompt":
            prompts_there: list[tuple[Any, ...]] = [("more",), (text("a"), image()), ("",)]
            steps.append(user(*draw(st.sampled_from(prompts_there))))
            prompts += 1
        elif kind == "answer":
            steps.append(assistant(*draw(st.sampled_from([("ok",), (thinking("t"), "ok"), (thinking("t"),), (" ",)]))))
        elif kind == "calls":
            count = draw(st.integers(1, 3))
            steps.append(assistant(*(tool_use("Read", id=f"t{number}-{one}") for one in range(count))))
            open_calls += count
        elif kind == "result" and open_calls:
            steps.append(tool_result("R"))
            open_calls -= 1
        elif kind == "rewind" and prompts:
            steps.append(rewind())
            prompts, open_calls = prompts - 1, 0
        elif kind == "compact":
            steps.append(compaction("short", keep=draw(st.integers(0, 4))))
        elif kind == "remind":
            steps.append(attachment("date", date="d"))
        elif kind == "queue":
            steps.append(queued("q"))
        elif kind == "error":
            steps.append(assistant("API Error", model="<synthetic>", isApiErrorMessage=True))
    return steps


def check(messages: list[dict[str, Any]]) -> None:
    """Check what the Messages API asks of a conversation."""
    conversation = [message for message in messages if message["role"] != "system"]
    seen: set[str] = set()
    for number, message in enumerate(conversation):
        assert message["content"]
        kinds = [block["type"] for block in message["content"]]
        for block in message["content"]:
            assert block["type"] != "text" or block["text"].strip()
        calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        assert seen.isdisjoint(calls)
        seen.update(calls)
        following = conversation[number + 1] if number + 1 < len(conversation) else {"content": []}
        results = [block["tool_use_id"] for block in following["content"] if block["type"] == "tool_result"]
        if message["role"] == "assistant":
            assert sorted(calls) == sorted(results)
        else:
            assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result")


@settings(deadline=None)
@given(stories(), st.sampled_from(["2.0.76", "2.1.29", "2.1.325"]), st.data())
def test_any_session_makes_a_conversation_the_api_takes(steps: list[Step], version: str, draw: st.DataObject) -> None:
    lines = list(session(*steps, version=version).lines)
    for _ in range(draw.draw(st.integers(0, 2))):
        if lines:
            lines.pop(draw.draw(st.integers(0, len(lines) - 1)))
    check([message.json for message in build_context(session(*map(raw, lines)).entries)])


ABANDONED = {
    "words": [assistant("x")],
    "thought": [assistant(thinking("t"), "x")],
    "call": [assistant(tool_use("Read", id="left-1")), tool_result("R", id="left-1")],
    "open call": [assistant(tool_use("Read", id="left-2"))],
    "reminder": [attachment("date", date="d")],
}


@settings(deadline=None)
@given(stories(), st.lists(st.sampled_from(sorted(ABANDONED)), max_size=3, unique=True))
def test_a_branch_that_was_left_changes_nothing(before: list[Step], kinds: list[str]) -> None:
    after = [user("again"), assistant("fine")]
    left = [user("left"), *(step for kind in kinds for step in ABANDONED[kind]), rewind()]
    assert sent(*before, *left, *after) == sent(*before, *after)


def test_a_result_that_is_a_list_of_texts_takes_the_reminders_that_the_line_has_in_words() -> None:
    one = [{"type": "text", "text": "one"}]
    story = [
        user("go"),
        read("a", model=OLD),
        tool_result(one),
        attachment("date", date="d"),
        assistant("b", model=OLD),
    ]
    texts = [{"type": "text", "text": "one\n"}, {"type": "text", "text": _reminder("d")}]
    assert sent(*worded(story, 3, "d"))[2] == ("user", [{"a": texts}])
    assert sent(*story)[2] == ("user", [{"a": one}, _reminder("Today's date is d.")])


def worded(story: list[Step], at: int, words: str) -> list[Step]:
    """Return a story in which one attachment has its words on the line, as 2.1.325 writes them."""
    lines = [*session(*story, version="2.1.325").lines]
    lines[at] = patch(lines[at], {("rendered",): [{"content": _reminder(words)}], ("renderedRole",): "system"})
    return [*map(raw, lines)]


def test_advice_about_tasks_is_worded_with_the_tasks_there_are() -> None:
    tasks = [{"id": "1", "status": "pending", "subject": "Paint"}, 7]
    told = sent(user("a"), attachment("task_reminder", content=tasks, itemCount=1), assistant("b", model=OLD))
    advice = told[0][1][0].removeprefix("<system-reminder>\n").removesuffix("\n</system-reminder>\n")
    assert advice.startswith("The task tools haven't been used recently.")
    assert advice.endswith("\n\n\nHere are the existing tasks:\n\n#1. [pending] Paint")


def test_a_model_without_tools_for_tasks_is_reminded_of_them_only_by_a_line_with_the_words() -> None:
    story = [user("a"), attachment("task_reminder", content=[], itemCount=0), assistant("b", model=NEW)]
    assert [role for role, _ in sent(*story)] == ["user", "assistant"]
    assert sent(*worded(story, 1, "d"))[1] == ("system", ["d"])


def test_a_prompt_typed_meanwhile_in_the_terminal_is_the_users() -> None:
    typed = attachment("queued_command", prompt="Stop.", humanTurn=True)
    story = [user("a"), read("t1", model=NEW), tool_result("x"), typed, assistant("b", model=NEW)]
    assert sent(*worded(story, 3, "Stop."))[2] == ("user", [{"t1": "x"}, "Stop."])


@pytest.mark.parametrize("loaded", [(), ("ExitPlanMode", "TaskStop")])
def test_calls_take_the_form_of_tools_that_were_loaded(loaded: tuple[str, ...]) -> None:
    references = [{"type": "tool_reference", "tool_name": name} for name in ("Other", *loaded)]
    calls = assistant(tool_use("ExitPlanMode", id="t1", plan="x"), tool_use("KillShell", id="t2", shell_id="b"))
    story = [user("a"), assistant(tool_use("ToolSearch", id="t0")), tool_result(references), calls]
    made = session(*story, tool_result("y"), tool_result("z"), assistant("b"))
    found = {
        block["id"]: (block["name"], block["input"])
        for message in build_context(made.entries)
        for block in message.json["content"]
        if block["type"] == "tool_use"
    }
    assert found["t1"] == ("ExitPlanMode", {} if loaded else {"plan": "x"})
    assert found["t2"] == ("TaskStop" if loaded else "KillShell", {"shell_id": "b"})


def test_agents_that_have_gone_are_named_without_advice_for_new_ones() -> None:
    gone = attachment("agent_listing_delta", addedLines=[], removedTypes=["guide"], showConcurrencyNote=True)
    (words,) = sent(user("a"), gone, assistant("b", model=NEW))[1][1]
    assert words.startswith("The following agent types are no longer available:\n- guide\n\nThis is ambient context")
    assert "concurrently" not in words
