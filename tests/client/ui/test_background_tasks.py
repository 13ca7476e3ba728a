from __future__ import annotations

import json

from tests.client.conftest import Place
from tests.client.ui.rig import Open, bash, lines
from tests.pseudo_terminal import CTRL_C, ENTER, ESCAPE, UP

CTRL_B = "\x02"
WAITS = "echo started; until [ -e go ]; do sleep 0.02; done; echo finished"


def in_background(command: str) -> dict[str, object]:
    return {"type": "tool_use", "name": "Bash", "input": {"command": command, "run_in_background": True}}


def test_the_end_of_a_background_command_is_shown_and_told_to_the_model_at_once(open_chat: Open, place: Place) -> None:
    told = {"content": "So it has ended.", "expect": {"text": "completed (exit code 0)</summary>"}}
    script = [{"content": [in_background(WAITS)]}, "It runs.", told]
    with open_chat(script, "--permission-mode", "bypassPermissions") as terminal:
        terminal.say("go")
        terminal.see("It runs.", "1 in the background (/tasks)")
        terminal.press("half a thought")
        (place.work / "go").touch()
        terminal.see("background command completed: echo started", "So it has ended.")
        terminal.see("> half a thought")  # it was not sent
        assert "1 in the background" not in terminal.seen
        terminal.press(CTRL_C)
        terminal.say("/tasks")
        terminal.ask_key("start", "Which background task?")
        terminal.see("completed (", "exit code 0)")
        terminal.press(ENTER)
        terminal.answer("o", "Show its output (o)")
        terminal.see("     started\n     finished")


def test_a_running_agent_is_moved_to_the_background_and_its_end_is_told(open_chat: Open, place: Place) -> None:
    errand = {"description": "A long errand", "prompt": "Wait there.", "subagent_type": "general-purpose"}
    script = {
        "cues": {
            "go": [
                {"content": [{"type": "tool_use", "name": "Task", "input": errand}]},
                {"content": "I do something else.", "expect": {"result": "Async agent launched"}},
                {"content": "It has come back.", "expect": {"text": "<result>I waited.</result>"}},
            ],
            "Wait there.": [{"content": [bash(WAITS)]}, "I waited."],
        }
    }
    with open_chat(script, "--permission-mode", "bypassPermissions") as terminal:
        terminal.say("go")
        terminal.see("Ctrl-B: background")
        terminal.until(lambda: [*place.config.glob("projects/*/*/subagents/*.jsonl")] != [], "no agent began")
        terminal.press(CTRL_B)
        terminal.see("I do something else.", "1 in the background (/tasks)")
        terminal.say("/tasks")
        terminal.ask_key(ESCAPE, "Which background task?")
        terminal.see("A long errand")
        (place.work / "go").touch()
        terminal.see("background agent completed: A long errand", "It has come back.")
    (agent,) = place.config.glob("projects/*/*/subagents/*.jsonl")
    (result,) = [line["toolUseResult"] for line in lines(place.sessions()[0]) if "toolUseResult" in line]
    assert (result["status"], result["outputFile"]) == ("async_launched", str(agent))


def test_a_hook_that_objects_later_wakes_the_model(open_chat: Open, place: Place) -> None:
    once = "test -e once && exit 0; touch once; until [ -e go ]; do sleep 0.02; done; echo look again >&2; exit 2"
    hook = {"type": "command", "command": once, "asyncRewake": True}
    settings = json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}})
    script = ["Done.", {"content": "I looked.", "expect": {"text": "look again"}}]
    with open_chat(script, "--settings", settings) as terminal:
        terminal.say("work")
        terminal.see("Done.")
        terminal.until((place.work / "once").exists, "the hook did not begin")
        (place.work / "go").touch()
        terminal.see("I looked.")


def test_a_hook_that_always_objects_wakes_the_model_eight_times_in_a_row(open_chat: Open, place: Place) -> None:
    hook = {"type": "command", "command": "echo x >> objected; echo look again >&2; exit 2", "asyncRewake": True}
    settings = json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}})
    objections = place.work / "objected"

    def count() -> int:
        return objections.read_text().count("x") if objections.exists() else 0

    with open_chat([f"Answer {number}." for number in range(30)], "--settings", settings) as terminal:
        terminal.say("work")
        terminal.until(lambda: count() == 9, "the hook did not object nine times")
        terminal.see("Answer 8.")
        # What it said last is told with the next prompt, which begins a new row.
        terminal.say("more")
        terminal.until(lambda: count() == 18, "the hook did not object nine times more")
    assert count() == 18
    assert place.sessions()[0].read_text().count("hook feedback") == 17


def test_a_background_command_is_stopped_and_the_model_is_told(open_chat: Open, place: Place) -> None:
    script = [
        {"content": [in_background(WAITS)]},
        "It runs.",
        {"content": "So be it.", "expect": {"anywhere": "was stopped</summary>"}},
    ]
    with open_chat(script, "--permission-mode", "bypassPermissions") as terminal:
        terminal.say("go")
        terminal.see("It runs.")
        terminal.say("/tasks")
        terminal.ask_key(ENTER, "Which background task?")
        terminal.answer("s", "Stop it (s)")
        terminal.see("stopped: echo started")
        terminal.say("and now?")
        terminal.see("So be it.")


def test_a_running_command_is_moved_to_the_background_by_a_key(open_chat: Open, place: Place) -> None:
    script = [
        {"content": [bash(WAITS)]},
        {"content": "I go on.", "expect": {"result": "manually backgrounded"}},
        "Yes.",
    ]
    with open_chat(script, "--permission-mode", "bypassPermissions") as terminal:
        terminal.say("go")
        terminal.see("Ctrl-B: background")
        terminal.press(CTRL_B)
        terminal.see("I go on.", "1 in the background (/tasks)")
        (place.work / "go").touch()
        terminal.see("background command completed")
    results = [line["toolUseResult"] for line in lines(place.sessions()[0]) if "toolUseResult" in line]
    assert results[0]["backgroundedByUser"] is True


def test_tasks_are_listed_while_a_turn_runs(open_chat: Open, place: Place) -> None:
    gate = place.root / "gate"
    script = [{"content": [in_background(WAITS)]}, {"content": "Done.", "until": str(gate)}]
    with open_chat(script, "--permission-mode", "bypassPermissions") as terminal:
        terminal.say("go")
        terminal.see("1 in the background (/tasks)")
        terminal.press("/tasks nosuch" + ENTER)
        terminal.see("no background task matches `nosuch`", "list them with `/tasks`")
        terminal.press("/tasks" + ENTER)
        terminal.ask_key(ENTER, "Which background task?")
        terminal.answer("o", "Show its output (o)")
        terminal.see("     started")
        gate.touch()
        terminal.see("Done.")
        terminal.press(UP)
        terminal.see("> /tasks")


def test_without_tasks_it_is_said_how_to_get_one(open_chat: Open) -> None:
    with open_chat(["x"]) as terminal:
        terminal.say("/tasks")
        terminal.see("nothing has run in the background", "hint: Ctrl-B moves")
