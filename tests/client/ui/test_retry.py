from __future__ import annotations

from tests.client.ui.rig import Open


def test_the_retried_answer_replaces_what_differs_on_the_screen(open_chat: Open) -> None:
    broken = {
        "content": "Same.\n\nWrong one.\n\nWrong two.\n\nAnd then",
        "chunk": 6,
        "break": {"how": "cut", "after": 9},
    }
    with open_chat([broken, "Same.\n\nRight.\n\nThe end."]) as terminal:
        terminal.say("go")
        terminal.see("The end.", "$0.")
        terminal.until(lambda: "Wrong" not in terminal.shown, "it is still there")
        assert b"Wrong one." in terminal.sent
        shown = terminal.shown
        assert [shown.count(words) for words in ("● Same.", "Right.", "retrying in", "> go")] == [1, 1, 1, 1]
        assert shown.index("> go") < shown.index("Same.") < shown.index("Right.")
