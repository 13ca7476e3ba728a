"""Hooks of settings files, run by the command as real processes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import Chat, Place

DENY = {
    "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": "No.",
    }
}
TOUCH = {"type": "tool_use", "name": "Bash", "input": {"command": "touch made"}}
SCRIPT = [{"content": [TOUCH]}, "Done."]
ALLOW = ("--allowedTools", "Bash")


def say(value: object) -> str:
    return f"echo '{json.dumps(value)}'"


def specific(event: str, **fields: object) -> str:
    return say({"hookSpecificOutput": {"hookEventName": event, **fields}})


def write_hooks(folder: Path, event: str, *commands: Any, matcher: str = "", **more: Any) -> None:
    listed = [{"type": "command", "command": one} if isinstance(one, str) else one for one in commands]
    path = folder / "settings.json"
    known = json.loads(path.read_text()) if path.exists() else {"hooks": {}}
    known["hooks"].setdefault(event, []).append({"matcher": matcher, "hooks": listed})
    folder.mkdir(exist_ok=True)
    path.write_text(json.dumps({**known, **more}))


def lines(place: Place, kind: str) -> list[dict[str, Any]]:
    (path,) = place.sessions()
    return [value for line in path.read_text().splitlines() if (value := json.loads(line))["type"] == kind]


def attachments(place: Place) -> list[dict[str, Any]]:
    return [line["attachment"] for line in lines(place, "attachment")]


def result(place: Place) -> str:
    """Return the content of the only tool result."""
    (content,) = [
        block["content"]
        for line in lines(place, "user")
        if isinstance(line["message"]["content"], list)
        for block in line["message"]["content"]
        if block["type"] == "tool_result"
    ]
    return str(content)


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (say(DENY), "PreToolUse:Bash hook error: No."),
        ("echo not here >&2; exit 2", "PreToolUse:Bash hook error: [echo not here >&2; exit 2]: not here"),
        (say({"decision": "block", "reason": "Old words."}), "PreToolUse:Bash hook error: Old words."),
        ("/no/such/program", "it cannot be started"),
        ("kill -9 $$", "it was killed by signal 9"),
        ({"type": "command", "command": "sleep 60", "timeout": 0.2}, "it did not answer within 0.2 s"),
        ("echo '{\"hookSpecificOutput\": 5'", "its answer is not valid JSON"),
        (say({"decision": 5}), "its answer is not what a hook answers"),
        (say({"permissionDecision": "deny"}), "`permissionDecision` belongs into `hookSpecificOutput`"),
        (specific("PostToolUse", permissionDecision="allow"), "it answers for `PostToolUse`"),
        ({"type": "function", "prompt": "Is it good?"}, "hooks of the type `function` are not supported"),
        ({"type": "mcp_tool", "server": "s", "tool": "t"}, "there is no MCP server `s`"),
        ({"type": "prompt", "prompt": " "}, "it has no prompt"),
        ({"type": "http"}, "it has no url"),
        ({"type": "command", "command": "true", "args": ["a", 5]}, "its `args` are not a list of texts"),
        ({"type": "command"}, "it has no command"),
        (say({"continue": False, "stopReason": "Enough."}), "Enough."),
    ],
)
def test_a_hook_that_denies_or_gives_no_answer_denies_the_call(
    chat: Chat, place: Place, hook: object, words: str
) -> None:
    write_hooks(place.config, "PreToolUse", hook, matcher="Bash")
    done = chat("-p", "go", *ALLOW, "--output-format", "json", script=SCRIPT)
    assert done.code == 0
    assert not (place.work / "made").exists()
    assert words in result(place)
    assert [denied["tool_name"] for denied in done.object["permission_denials"]] == ["Bash"]


@pytest.mark.parametrize("matcher", ["", "*", "Bash", "Read|Bash", "B.*h", "(unclosed"])
def test_a_matcher_says_which_tools_a_hook_is_called_for(chat: Chat, place: Place, matcher: str) -> None:
    write_hooks(place.config, "PreToolUse", say(DENY), matcher=matcher)
    assert chat("-p", "go", *ALLOW, script=SCRIPT).code == 0
    assert not (place.work / "made").exists()


@pytest.mark.parametrize("matcher", ["Read", "Bas", "Edit|Write", "^ash"])
def test_a_hook_for_other_tools_is_not_called(chat: Chat, place: Place, matcher: str) -> None:
    write_hooks(place.config, "PreToolUse", say(DENY), matcher=matcher)
    assert chat("-p", "go", *ALLOW, script=SCRIPT).code == 0
    assert (place.work / "made").exists()


@pytest.mark.parametrize(
    ("condition", "command", "is_called"),
    [
        ("Bash(touch *)", "touch made", True),
        ("Bash(touch:*)", "cd . && touch made", True),
        ("Bash(touch *)", "(FOO=1 touch made)", True),
        ("Bash(touch *)", "echo $(touch made)", True),
        ("Bash(touch *)", "for name in made; do touch $name; done", True),
        ("Bash", "touch made", True),
        ("", "touch made", True),
        ("no rule((", "touch made", True),
        (["Bash"], "touch made", True),
        ("Bash(git *)", "touch made", False),
        ("Bash(git *)", "echo git; touch made", False),
        ("Read", "touch made", False),
        ("mcp__things", "touch made", False),
    ],
)
def test_a_condition_says_for_which_calls_a_hook_is_called(
    chat: Chat, place: Place, condition: object, command: str, is_called: bool
) -> None:
    write_hooks(place.config, "PreToolUse", {"type": "command", "command": say(DENY), "if": condition}, matcher="Bash")
    call = {"type": "tool_use", "name": "Bash", "input": {"command": command}}
    assert chat("-p", "go", "--allowedTools", "Bash", script=[{"content": [call]}, "Done."]).code == 0
    assert (place.work / "made").exists() is not is_called


def test_a_condition_about_files_is_a_pattern_of_paths(chat: Chat, place: Place) -> None:
    write_hooks(place.config, "PreToolUse", {"type": "command", "command": say(DENY), "if": "Write(*.py)"})
    calls = [
        {"type": "tool_use", "name": "Write", "input": {"file_path": str(place.work / name), "content": "x"}}
        for name in ("a.py", "b.txt")
    ]
    assert chat("-p", "go", "--allowedTools", "Write", script=[{"content": calls}, "Done."]).code == 0
    assert [path.name for path in place.work.iterdir()] == ["b.txt"]


def test_a_condition_never_holds_for_events_that_are_about_no_call(chat: Chat, place: Place) -> None:
    write_hooks(place.config, "Stop", {"type": "command", "command": "touch made", "if": "Bash"})
    ran = chat("-p", "go", script=["Hi."])
    assert not (place.work / "made").exists()
    assert "it never runs: its `if` is about tool calls, and `Stop` is not" in ran.err


def test_once_is_a_field_of_skills_and_changes_nothing_in_settings(chat: Chat, place: Place) -> None:
    write_hooks(place.config, "PreToolUse", {"type": "command", "command": "echo x >> calls", "once": True})
    call = {"content": [{"type": "tool_use", "name": "Bash", "input": {"command": "true"}}]}
    ran = chat("-p", "go", "--allowedTools", "Bash", script=[call, call, "Done."])
    assert (ran.err, (place.work / "calls").read_text()) == ("", "x\nx\n")


def test_an_exit_code_other_than_2_blocks_nothing_and_is_said(chat: Chat, place: Place) -> None:
    write_hooks(place.config, "PreToolUse", "echo broken >&2; exit 1")
    done = chat("-p", "go", *ALLOW, script=SCRIPT)
    assert (place.work / "made").exists()
    assert "PreToolUse:Bash hook `echo broken >&2; exit 1` failed: broken" in done.err
    (failed,) = attachments(place)
    assert {**failed, "durationMs": 0, "toolUseID": ""} == {
        "type": "hook_non_blocking_error", "hookName": "PreToolUse:Bash", "toolUseID": "", "hookEvent": "PreToolUse",
        "stderr": "Failed with non-blocking status code: broken", "stdout": "", "exitCode": 1,
        "command": "echo broken >&2; exit 1", "durationMs": 0,
    }  # fmt: skip


def test_deny_goes_before_ask_and_allow_and_all_hooks_run_at_once(chat: Chat, place: Place) -> None:
    # Each waits until the other has begun: one after the other they would wait for ever.
    meet = "touch {0}; while [ ! -e {1} ]; do sleep 0.01; done; "
    allow = specific("PreToolUse", permissionDecision="allow")
    write_hooks(place.config, "PreToolUse", meet.format("a", "b") + allow, meet.format("b", "a") + say(DENY))
    assert chat("-p", "go", script=SCRIPT).code == 0
    assert not (place.work / "made").exists()


def test_a_hook_stands_for_a_yes_but_not_before_rules_that_deny_or_ask(chat: Chat, place: Place) -> None:
    allow = specific("PreToolUse", permissionDecision="allow")
    write_hooks(place.config, "PreToolUse", allow, permissions={"ask": ["Bash(touch asked)"]})
    names = ("made", "asked", "denied")
    calls = [{"type": "tool_use", "name": "Bash", "input": {"command": f"touch {name}"}} for name in names]
    flags = ("--disallowedTools", "Bash(touch denied)", "--sandbox", "off")
    chat("-p", "go", *flags, script=[{"content": calls}, "Done."])
    assert [name for name in names if (place.work / name).exists()] == ["made"]


def test_a_changed_input_is_judged_like_one_of_the_model(chat: Chat, place: Place) -> None:
    for command in ("touch changed", "touch secret", 5):
        (place.config / "settings.json").unlink(missing_ok=True)
        write_hooks(place.config, "PreToolUse", specific("PreToolUse", updatedInput={"command": command}))
        chat("-p", "go", *ALLOW, "--disallowedTools", "Bash(touch secret)", script=SCRIPT)
    assert sorted(path.name for path in place.work.iterdir()) == ["changed"]


def test_a_hook_can_ask_where_a_rule_allows(chat: Chat, place: Place) -> None:
    write_hooks(
        place.config, "PreToolUse", specific("PreToolUse", permissionDecision="ask", permissionDecisionReason="Hm.")
    )
    chat("-p", "go", *ALLOW, script=SCRIPT)
    assert not (place.work / "made").exists()
    assert "a hook asks: Hm." in result(place)


def test_what_hooks_add_is_sent_after_the_results_and_after_a_resume(chat: Chat, place: Place) -> None:
    for event in ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"):
        write_hooks(place.config, event, specific(event, additionalContext=f"{event} says more."))
    first = ["SessionStart hook additional context: SessionStart says more.",
             "UserPromptSubmit hook additional context: UserPromptSubmit says more."]  # fmt: skip
    second = [f"{event}:Bash hook additional context: {event} says more." for event in ("PreToolUse", "PostToolUse")]
    script = [{"content": [TOUCH], "expect": {"anywhere": first}}, {"content": "Done.", "expect": {"anywhere": second}}]
    assert chat("-p", "go", *ALLOW, script=script) == (0, "Done.\n", "")
    assert [one["hookName"] for one in attachments(place)] == [
        "SessionStart:startup", "UserPromptSubmit", "PreToolUse:Bash", "PostToolUse:Bash"
    ]  # fmt: skip
    (place.config / "settings.json").unlink()
    script = [{"content": "Still there.", "expect": {"anywhere": [*first, *second]}}]
    assert chat("-p", "on", "--continue", script=script) == (0, "Still there.\n", "")


def test_the_plain_output_of_a_prompt_hook_is_told_to_the_model(chat: Chat, place: Place) -> None:
    write_hooks(place.config, "UserPromptSubmit", "echo it rains")
    script = [{"content": "Yes.", "expect": {"anywhere": ["UserPromptSubmit hook success: it rains"]}}]
    assert chat("-p", "go", script=script).code == 0


@pytest.mark.parametrize("hook", ["echo not today >&2; exit 2", say({"decision": "block", "reason": "not today"})])
def test_a_prompt_that_a_hook_refuses_is_not_sent(chat: Chat, place: Place, hook: str) -> None:
    chat("-p", "one", script=["First."])
    write_hooks(place.config, "UserPromptSubmit", hook)
    done = chat("-p", "go", "--continue", "--output-format", "json", script=["Never said."])
    assert (done.code, done.object["num_turns"], done.object["is_error"]) == (0, 0, False)
    assert "not today" in done.object["result"]
    assert [line["message"]["content"] for line in lines(place, "user")] == ["one"]
    (note,) = [line for line in lines(place, "system") if line["subtype"] == "informational"]
    assert note["content"].endswith("\n\nOriginal prompt: go")
    (place.config / "settings.json").unlink()
    assert chat("-p", "hi", "--continue", script=["Hello."]) == (0, "Hello.\n", "")


def test_a_result_that_a_hook_objects_to_reaches_the_model_with_the_objection(chat: Chat, place: Place) -> None:
    write_hooks(place.config, "PostToolUse", say({"decision": "block", "reason": "Do it again."}))
    script = [{"content": [TOUCH]}, {"content": "Done.", "expect": {"anywhere": ["Do it again."]}}]
    assert chat("-p", "go", *ALLOW, script=script).code == 0


def test_a_hook_ends_the_turn_after_a_result(chat: Chat, place: Place) -> None:
    write_hooks(place.config, "PostToolUse", say({"continue": False, "stopReason": "Enough."}))
    done = chat("-p", "go", *ALLOW, "--output-format", "json", script=SCRIPT)
    assert (done.code, done.object["num_turns"], done.object["result"]) == (0, 1, "Enough.")
    assert (place.work / "made").exists()


def test_a_stop_hook_sends_the_model_back_to_work(chat: Chat, place: Place) -> None:
    block = say({"decision": "block", "reason": "Not yet."})
    write_hooks(place.config, "Stop", f"cat >> inputs; test -e once || {{ touch once; {block}; }}")
    script = ["One.", {"content": "Two.", "expect": {"anywhere": ["Stop hook feedback:\nNot yet."]}}]
    assert chat("-p", "go", script=script) == (0, "Two.\n", "")
    inputs = [json.loads(line) for line in (place.work / "inputs").read_text().splitlines()]
    assert [(one["stop_hook_active"], one["last_assistant_message"]) for one in inputs] == [
        (False, "One."),
        (True, "Two."),
    ]
    summaries = [line for line in lines(place, "system") if line["subtype"] == "stop_hook_summary"]
    assert [one["hookErrors"] for one in summaries] == [["Not yet."], []]


def test_a_stop_hook_that_always_blocks_does_not_run_for_ever(chat: Chat, place: Place) -> None:
    write_hooks(place.config, "Stop", say({"decision": "block", "reason": "Never."}))
    done = chat("-p", "go", "--output-format", "json", script={"default": "Again."})
    assert (done.code, done.object["num_turns"]) == (0, 9)
    assert "it ends all the same" in done.err


def test_hooks_get_what_claude_code_sends(chat: Chat, place: Place) -> None:
    for event in ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "SessionEnd"):
        write_hooks(
            place.config, event, f'cat > {event}.json; echo "$CLAUDE_PROJECT_DIR $ANTHROPIC_API_KEY" > variables'
        )
    assert chat("-p", "go", *ALLOW, script=SCRIPT, ANTHROPIC_API_KEY="secret").code == 0
    (path,) = place.sessions()
    base = {"session_id": path.stem, "transcript_path": str(path), "cwd": str(place.work)}
    got = {file.stem: json.loads(file.read_text()) for file in place.work.glob("*.json")}
    assert got["SessionStart"] == {**base, "hook_event_name": "SessionStart", "source": "startup"}
    assert got["SessionEnd"] == {**base, "hook_event_name": "SessionEnd", "reason": "other"}
    base["permission_mode"] = "default"
    assert got["UserPromptSubmit"] == {**base, "hook_event_name": "UserPromptSubmit", "prompt": "go"}
    call = {"tool_name": "Bash", "tool_input": {"command": "touch made"}}
    assert got["PreToolUse"].pop("tool_use_id") == got["PostToolUse"].pop("tool_use_id")
    assert got["PreToolUse"] == {**base, "hook_event_name": "PreToolUse", **call}
    assert got["PostToolUse"].pop("duration_ms") >= 0
    assert got["PostToolUse"].pop("tool_response")["interrupted"] is False
    assert got["PostToolUse"] == {**base, "hook_event_name": "PostToolUse", **call}
    assert (place.work / "variables").read_text() == f"{place.work} \n"


@pytest.mark.parametrize(
    ("decision", "made"),
    [({"behavior": "allow"}, ["made"]), ({"behavior": "allow", "updatedInput": {"command": "touch other"}}, ["other"]),
     ({"behavior": "deny", "message": "No way."}, []), ({"behavior": "maybe"}, [])],
)  # fmt: skip
def test_a_permission_hook_answers_for_the_user(chat: Chat, place: Place, decision: Any, made: list[str]) -> None:
    write_hooks(place.config, "PermissionRequest", specific("PermissionRequest", decision=decision))
    chat("-p", "go", "--sandbox", "off", script=SCRIPT)
    assert [path.name for path in place.work.iterdir()] == made


def test_hooks_of_a_folder_run_only_if_it_is_trusted(chat: Chat, place: Place) -> None:
    write_hooks(place.work / ".claude", "SessionStart", "touch ran")
    assert "is not trusted: its settings are ignored" in chat("-p", "go", script=["Hi."]).err
    assert not (place.work / "ran").exists()
    chat("-p", "go", "--trust", script=["Hi."])
    assert (place.work / "ran").exists()


def test_a_folder_cannot_switch_off_hooks_of_the_user(chat: Chat, place: Place) -> None:
    write_hooks(place.config, "PreToolUse", say(DENY))
    write_hooks(place.work / ".claude", "SessionStart", "touch ran", disableAllHooks=True)
    chat("-p", "go", "--trust", *ALLOW, script=SCRIPT)
    assert not (place.work / "made").exists()
    assert not (place.work / "ran").exists()
    write_hooks(place.config, "PreToolUse", disableAllHooks=True)
    chat("-p", "go", *ALLOW, script=SCRIPT)
    assert (place.work / "made").exists()


def test_a_hook_of_a_subagent_is_told_which_agent_it_is(chat: Chat, place: Place) -> None:
    write_hooks(place.config, "PreToolUse", "cat > pre.json; " + say(DENY), matcher="Bash")
    write_hooks(place.config, "SubagentStop", "cat > stop.json")
    task = {
        "type": "tool_use",
        "name": "Task",
        "input": {"description": "d", "prompt": "work", "subagent_type": "Explore"},
    }
    script = {"cues": {"go": [{"content": [task]}, "Done."], "work": [{"content": [TOUCH]}, "I could not."]}}
    assert chat("-p", "go", *ALLOW, script=script).out == "Done.\n"
    assert not (place.work / "made").exists()
    before, stop = (json.loads((place.work / name).read_text()) for name in ("pre.json", "stop.json"))
    assert (before["agent_type"], stop["hook_event_name"], stop["agent_id"]) == (
        "Explore",
        "SubagentStop",
        before["agent_id"],
    )
    assert Path(stop["agent_transcript_path"]).exists()


def test_the_words_of_a_compaction_hook_are_sent_with_the_request_for_the_summary(chat: Chat, place: Place) -> None:
    chat("-p", "hello", script=["Hi."])
    write_hooks(place.config, "PreCompact", "cat > compact.json; echo remember the colour")
    script = [{"content": "<summary>Blue.</summary>", "expect": {"anywhere": ["remember the colour"]}}]
    assert chat("-p", "/compact keep it", "--continue", script=script).code == 0
    got = json.loads((place.work / "compact.json").read_text())
    assert (got["trigger"], got["custom_instructions"]) == ("manual", "keep it")


def test_a_hook_that_leaves_a_process_holds_nothing_up(chat: Chat, place: Place) -> None:
    write_hooks(place.config, "UserPromptSubmit", "sleep 300 & echo $! > pid; echo it rains")
    script = [{"content": "Hi.", "expect": {"anywhere": ["it rains"]}}]
    done = chat("-p", "go", script=script)
    os.kill(int((place.work / "pid").read_text()), signal.SIGKILL)
    assert done == (0, "Hi.\n", "")
