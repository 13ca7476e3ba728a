"""What only the terminal interface of Claude Code can do: rewinding, summarizing a part, local commands, keys."""

from __future__ import annotations

from collections.abc import Callable

from tests.claude.features import NUMBERS, Feature, Leg, Stage, with_settings
from tests.pseudo_terminal import DOWN, ENTER, ESCAPE, UP, until

CTRL_B, CTRL_K, CTRL_X = "\x02", "\x0b", "\x18"
EMPTY = "\x15\x0b"
"""Ctrl-U and Ctrl-K: empty the input, wherever the cursor is in it (2.1.290 puts it at the start)."""


def leave(stage: Stage) -> None:
    """End the program as a person does."""
    process = stage.interface.process
    stage.interface.say("/exit", lambda: process.poll() is not None)


def answer(stage: Stage, prompt: str, words: str) -> None:
    """Say a prompt and wait for the answer."""
    before = stage.interface.seen.count(words)
    stage.say(prompt)
    stage.interface.until(lambda: stage.interface.seen.count(words) > before, f"never saw `{words}`")


def lines(stage: Stage) -> list[str]:
    return stage.interface.seen.splitlines()


def choose(stage: Stage, key: str, words: str) -> None:
    """Move through the menu of rewinding until a line of it is chosen."""
    interface = stage.interface

    def is_chosen() -> bool:
        menu = interface.seen.rpartition("Rewind\n")[2]
        return any("❯" in line and words in line for line in menu.splitlines())

    if not is_chosen():
        interface.press_until(key, is_chosen)


def rewind(stage: Stage, prompt: str, action: str, done: Callable[[], bool]) -> None:
    """Go back to before a prompt: restore, or summarize."""
    interface = stage.interface
    interface.press_until(ESCAPE + ESCAPE, interface.shows("Rewind"))
    choose(stage, UP, prompt)
    interface.press_until(ENTER, interface.shows("Restore conversation"))
    choose(stage, DOWN, action)
    interface.press_until(ENTER, done)


def _talk(stage: Stage) -> None:
    answer(stage, "Say hello.", "Hello to you.")
    answer(stage, "Write it.", "Written.")
    answer(stage, "Read the notes.", "About milk.")


def _rewind_all(stage: Stage) -> None:
    _talk(stage)
    rewind(stage, "Write it.", "Restore code and conversation", lambda: not (stage.place.work / "new.txt").exists())
    stage.interface.press(EMPTY)  # the prompt is in the input again
    answer(stage, "Do three things.", "Done.")
    leave(stage)


def _rewind_conversation(stage: Stage) -> None:
    answer(stage, "Say hello.", "Hello to you.")
    answer(stage, "Write it.", "Written.")
    answer(stage, "Think aloud.", "Aloud.")  # no call: 2.1.29 writes this answer down
    rewind(stage, "Think aloud.", "Restore conversation", lambda: "Aloud." not in stage.interface.seen)


def _summarize(action: str, prompt: str) -> Callable[[Stage], None]:
    def drive(stage: Stage) -> None:
        _talk(stage)
        asked = len(stage.server.requests)
        rewind(stage, prompt, action, lambda: len(stage.server.requests) > asked)
        stage.interface.see("ummarized", "ompacted")
        stage.interface.press(EMPTY)  # what the input still holds
        answer(stage, "Do three things.", "Done.")
        leave(stage)

    return drive


def _local_commands(stage: Stage) -> None:
    interface = stage.interface
    answer(stage, "Say hello.", "Hello to you.")
    interface.say("/context", interface.shows("Context Usage", "tokens ("))
    interface.press(ESCAPE)
    interface.press_until("!", interface.shows("! for bash mode", "! for shell mode", "shell mode", "bash mode"))
    interface.say("echo from a shell", lambda: any("⎿" in line and "from a shell" in line for line in lines(stage)))
    answer(stage, "Read the notes.", "About milk.")
    leave(stage)


def _interrupt(stage: Stage) -> None:
    interface = stage.interface
    answer(stage, "Say hello.", "Hello to you.")
    interface.say("Never end.", (stage.place.work / "endless").exists)
    interface.press_until(ESCAPE, interface.shows("nterrupted", "What should Claude do instead?"))
    answer(stage, "Read the notes.", "About milk.")
    leave(stage)


def _queue(stage: Stage) -> None:
    interface = stage.interface
    interface.say("Be slow and long.", (stage.place.work / "slow").exists)
    interface.press("Read the notes.")
    interface.until(interface.shows("Read the notes."), "never typed")
    interface.press(ENTER)
    interface.until(lambda: "Read the notes." in str(stage.server.requests[-1:]), "never asked")
    interface.see("About milk.", "That was slow.")
    answer(stage, "Say hello.", "Hello to you.")
    leave(stage)


def _to_background(stage: Stage) -> None:
    interface = stage.interface
    interface.say("Never end.", (stage.place.work / "endless").exists)
    interface.press_until(CTRL_B, interface.shows("It ended."))
    answer(stage, "Say hello.", "Hello to you.")
    (stage.place.work / "endless").unlink()


def _stop_agents(stage: Stage) -> None:
    interface = stage.interface
    answer(stage, "Send an agent to wait.", "It is sent.")
    interface.press_until((CTRL_X + CTRL_K) * 2, interface.shows("ackground agents stopped"))
    answer(stage, "Say hello.", "Hello to you.")
    leave(stage)


def _schedule(stage: Stage) -> None:
    interface = stage.interface
    answer(stage, "Schedule it.", "Scheduled.")
    asked = len(stage.server.requests)
    until(lambda: "Dig deep" in str(stage.server.requests[asked:]), lambda: interface.seen, patience=150)
    interface.see("Dug.")
    leave(stage)


def _put_out_much(stage: Stage) -> None:
    answer(stage, "Count far.", "That was far.")
    leave(stage)


def _microcompact(stage: Stage) -> None:
    answer(stage, "Read a lot.", "That was a lot.")
    leave(stage)


NO_SUMMARY = "2.1.29 has no such line in its menu"
NO_FIRST_PART = "2.1.100 has no such line in its menu"
REFUSED_COUNT = "2.1.100 counts the tokens for `/context` by a request that ends with an answer, which the API refuses"
NO_ANSWERS = "2.1.29 does not write down what the model answers to a result in the terminal: nothing comes after it"
DRIVEN = (2, 1, 100)
SCREENS = (
    Feature(
        "rewind of code and conversation",
        (Leg(keys=_rewind_all),),
        ("Write it.", "Do three things."),
        DRIVEN,
        why=NO_ANSWERS,
    ),
    Feature("rewind of the conversation", (Leg(keys=_rewind_conversation),), ("Write it.", "Think aloud.")),
    Feature(
        "rewound and resumed",
        (Leg(keys=_rewind_conversation), Leg("Do three things.")),
        ("Hello to you.", "Done."),
    ),
    Feature(
        "summarize from here",
        (Leg(keys=_summarize("Summarize from here", "Write it.")),),
        ('"subtype":"compact_boundary"', "Done."),
        since=DRIVEN,
        why=NO_SUMMARY,
    ),
    Feature(
        "summarize up to here",
        (Leg(keys=_summarize("Summarize up to here", "Read the notes.")),),
        ('"subtype":"compact_boundary"', "Done."),
        since=(2, 1, 200),
        why=NO_FIRST_PART,
    ),
    Feature(
        "microcompaction",
        (Leg(keys=_microcompact), Leg("Say hello.")),
        ('"subtype":"microcompact_boundary"',),
        since=(2, 1, 12),
        until=(2, 1, 63),
        why="written by 2.1.12 to 2.1.62; 2.1.325 and later cut results otherwise (`results cut after a pause`)",
        files=NUMBERS,
    ),
    Feature(
        "local commands",
        (Leg(keys=_local_commands), Leg("Say hello.")),
        ("from a shell", "Read the notes."),
        since=(2, 1, 200),
        why=REFUSED_COUNT,
    ),
    Feature(
        "interrupt in the terminal",
        (Leg(keys=_interrupt), Leg("Say hello.")),
        ("[Request interrupted by user",),
        DRIVEN,
        why=NO_ANSWERS,
    ),
    Feature("queued in the terminal", (Leg(keys=_queue), Leg("Say hello.")), ("slept",), DRIVEN, why=NO_ANSWERS),
    Feature(
        "sent to the background",
        (Leg(keys=_to_background), Leg("Say hello.")),
        ("Hello to you.",),
        DRIVEN,
        why=NO_ANSWERS,
    ),
    Feature(
        "agents stopped by keys",
        (Leg(keys=_stop_agents), Leg("Say hello.")),
        ('"subtype":"agents_killed"',),
        since=(2, 1, 200),
        why="the versions before have no such keys, or do not write it down",
    ),
    Feature(
        "a scheduled prompt",
        (Leg(keys=_schedule), Leg("Say hello.")),
        ('"subtype":"scheduled_task_fire"', "Dug."),
        since=(2, 1, 200),
        why="2.1.100 has no such tool",
    ),
    Feature(
        "output that only the model sees",
        (
            Leg(keys=_put_out_much, flags=with_settings(env={"CLAUDE_CODE_BASH_OUTPUT_AUDIENCE_NOTE": "1"})),
            Leg("Say hello."),
        ),
        ('"type":"bash_output_audience_note"',),
        since=(2, 1, 290),
        why="no version before knows the switch",
    ),
)
