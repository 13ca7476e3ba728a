"""What happened, in order."""

from __future__ import annotations

from typing import Any

from unspool.export.story import (
    AnswerStep,
    EventKind,
    EventStep,
    PromptStep,
    SidechainStep,
    ThinkingStep,
    ToolCallStep,
    build_story,
)
from unspool.testing.build import (
    Step,
    assistant,
    attachment,
    compaction,
    queued,
    result_block,
    session,
    system,
    thinking,
    tool_result,
    tool_use,
    user,
)


def told(*steps: Step, **more: Any) -> list[tuple[str, str]]:
    entries = session(*steps, **more).entries
    return [_told(step) for step in build_story(entries).steps(entries)]


def _told(step: PromptStep | AnswerStep | ThinkingStep | ToolCallStep | EventStep | SidechainStep) -> tuple[str, str]:
    match step:
        case ToolCallStep(call=call):
            return "call", call.id
        case SidechainStep(entries=entries):
            return "inside", str(len(entries))
        case EventStep(kind=kind, text=text):
            return kind.value, text
        case PromptStep(queued=True, text=text):
            return "queued", text
        case ThinkingStep(text=text):
            return "thought", text
        case _:
            return type(step).__name__.removesuffix("Step").lower(), step.text


def test_a_result_is_told_with_its_call() -> None:
    steps = [user("hi"), assistant(thinking("hm"), "a", tool_use("Bash", id="x")), tool_result("y"), assistant("b")]
    assert told(*steps) == [("prompt", "hi"), ("thought", "hm"), ("answer", "a"), ("call", "x"), ("answer", "b")]


def test_a_result_without_a_call_is_told_where_it_stands() -> None:
    assert told(user("hi"), user(result_block("gone", "y"))) == [("prompt", "hi"), (EventKind.RESULT.value, "y")]
    assert told(assistant(result_block("gone", "y"))) == [(EventKind.RESULT.value, "y")]


def test_what_was_written_again_is_not_told_again() -> None:
    message = {"role": "assistant", "id": "m", "content": [{"type": "text", "text": "a"}, tool_use("Bash", id="x")]}
    again = assistant("a", message=message, timestamp="2026-01-05T09:00:00.000Z")
    assert told(user("hi"), again, again) == [("prompt", "hi"), ("answer", "a"), ("call", "x")]


def test_a_queued_prompt_is_told_once() -> None:
    assert told(user("hi"), queued("wait"), assistant("ok")) == [("prompt", "hi"), ("queued", "wait"), ("answer", "ok")]
    old = told(user("hi"), queued("wait"), assistant("ok"), version="2.0.76")
    assert old == [("prompt", "hi"), ("queued", "wait"), ("answer", "ok")]
    assert told(queued("wait", taken=False), user("wait")) == [("prompt", "wait")]


def test_a_command_that_starts_work_and_a_plan_are_prompts() -> None:
    plan = "Implement the following plan:\n\n# Plan"
    command = "<command-message>x</command-message><command-name>/x</command-name><command-args>y</command-args>"
    assert told(user(command), user("Do.", isMeta=True), assistant("ok"), user(plan, planContent="# Plan")) == [
        ("prompt", "/x y"), ("answer", "ok"), ("prompt", plan),
    ]  # fmt: skip


def test_what_the_program_says_is_told_as_what_it_is() -> None:
    assert told(
        user("<command-name>/x</command-name>"),
        user("<local-command-stdout></local-command-stdout>"),
        system("local_command", "<command-name>/y</command-name>"),
        system("local_command", "<local-command-stdout>z</local-command-stdout>"),
        attachment("queued_command", prompt="<task-notification><summary>Done.</summary></task-notification>"),
        user("<system-reminder>be good</system-reminder>"),
        user("[Request interrupted by user]"),
        system("turn_duration", durationMs=1),
        system("api_error", error={"cause": {"message": "reset"}}),
        system("api_error", error=None),
        compaction("so far", keep=1),
    ) == [
        ("command", "/x"),
        ("command", "/y"),
        ("output", "z"),
        ("notification", "Done."),
        ("interrupted", "[Request interrupted by user]"),
        ("API error", "reset"),
        ("API error", ""),
        ("compacted", "auto, 160,000 tokens, 1 line kept"),
        ("summary", "so far"),
    ]


def test_reasoning_that_only_the_api_can_read_is_still_a_thought() -> None:
    assert told(assistant({"type": "redacted_thinking", "data": "x"})) == [("thought", "")]


def test_lines_of_an_agent_inside_a_session_are_one_step() -> None:
    inside = [user("look", isSidechain=True), assistant("ok", isSidechain=True)]
    assert told(user("hi"), *inside, assistant("done")) == [("prompt", "hi"), ("inside", "2"), ("answer", "done")]
    assert told(user("hi"), *inside) == [("prompt", "hi"), ("inside", "2")]
    assert told(*inside) == [("prompt", "look"), ("answer", "ok")]
