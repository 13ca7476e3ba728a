from __future__ import annotations

from tests.client.conftest import Place
from tests.client.ui.rig import Open, bash, lines
from tests.pseudo_terminal import CTRL_C, ENTER, UP

CTRL_B = "\x02"
WAITS = "echo started; until [ -e go ]; do sleep 0.02; done; echo finished"


def in_background(command: str) -> dict[str, object]:
    return {"type": "tool_use", "name": "Bash", "input": {"command": command, "run_in_background": True}}


def test_the_end_of_a_background_command_is_shown_at_once(open_chat: Open, place: Place) -> None:
    script = [{"content": [in_background(WAITS)]}, "It runs."]
    with open_chat(script, "--permission-mode", "bypassPermissions") as terminal:
        terminal.say("go")
        terminal.see("It runs.", "1 in the background (/tasks)")
        terminal.press("half a thought")
        (place.work / "go").touch()
        terminal.see("background command completed: echo started", "> half a thought")  # nothing was sent
        assert "1 in the background" not in terminal.seen
        terminal.press(CTRL_C)
        terminal.say("/tasks")
        terminal.ask_key("start", "Which background task?")
        terminal.see("completed (", "exit code 0)")
        terminal.press(ENTER)
        terminal.answer("o", "Show its output (o)")
        terminal.see("     started\n     finished")


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
    script = [{"content": [bash(WAITS)]}, {"content": "I go on.", "expect": {"result": "manually backgrounded"}}]
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
