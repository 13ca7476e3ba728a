"""Long outputs, notifications and pictures."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.client.conftest import Chat, Place
from tests.client.ui.rig import Open, bash, lines
from tests.pseudo_terminal import ENTER, ESCAPE
from unspool.client.session.pasted_texts import find_picture
from unspool.client.ui.drawing.notification import make_notification

CTRL_O = "\x0f"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_a_long_output_is_folded_and_shown_by_a_key(open_chat: Open) -> None:
    script = [{"content": [bash("seq 101 150"), bash("seq 201 250")]}, "Done."]
    with open_chat(script, "--permission-mode", "bypassPermissions") as terminal:
        terminal.say("go")
        terminal.see("Done.", "… 44 more lines (Ctrl-O shows them)")
        assert "     250" not in terminal.shown
        terminal.press(CTRL_O)
        terminal.see("     225", "     250")
        assert "     150" not in terminal.shown
        terminal.press(CTRL_O)
        terminal.see("     125", "     150")
        terminal.press(CTRL_O)
        terminal.see("no output is folded")


def test_the_bell_calls_when_a_question_waits(open_chat: Open, place: Place) -> None:
    place.config.mkdir()
    (place.config / "settings.json").write_text(json.dumps({"messageIdleNotifThresholdMs": 100}))
    with open_chat([{"content": [bash("touch made")]}, "Done."]) as terminal:
        terminal.say("go")
        terminal.see("Allow this?")
        terminal.until(lambda: b"\a" in terminal.sent, "no bell")
        terminal.answer(ESCAPE, "Allow this?")


def test_the_bell_calls_at_the_end_of_a_long_turn_only(open_chat: Open, place: Place) -> None:
    place.config.mkdir()
    gate = place.root / "gate"
    script = ["Quick.", {"content": "At last.", "until": str(gate)}]
    settings = place.config / "settings.json"
    settings.write_text(json.dumps({"messageIdleNotifThresholdMs": 3_600_000}))
    with open_chat(script) as terminal:
        terminal.say("go")
        terminal.see("Quick.", "$0.")
        assert b"\a" not in terminal.sent
        settings.write_text(json.dumps({"messageIdleNotifThresholdMs": 1}))
        terminal.say("/theme dark")  # reads the settings again
        terminal.see("theme: dark")
        terminal.say("and?")
        terminal.see("Esc interrupts")
        gate.touch()
        terminal.see("At last.")
        terminal.until(lambda: b"\a" in terminal.sent, "no bell")


def test_a_notification_is_one_safe_line() -> None:
    evil = "Allow \x1b]0;owned\x07 \n\x9b31m?"
    assert make_notification(evil, "auto", {}) == "\a"
    assert make_notification(evil, "notifications_disabled", {"TERM_PROGRAM": "iTerm.app"}) == ""
    assert make_notification("x", "auto", {"TERM_PROGRAM": "iTerm.app", "TMUX": "1"}) == "\a"
    said = make_notification(evil, "auto", {"TERM_PROGRAM": "iTerm.app"})
    assert said.startswith("\x1b]9;unspool: Allow")
    assert said.endswith("\a")
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in said[4:-1])


def test_the_pasted_path_of_a_picture_sends_the_picture(open_chat: Open, place: Place) -> None:
    picture = place.root / "my picture.png"
    picture.write_bytes(PIXEL)
    with open_chat(["A dot."]) as terminal:
        terminal.press(f"what is \x1b[200~{str(picture).replace(' ', chr(92) + ' ')}\x1b[201~?")
        terminal.see("> what is [Image #1]?")
        terminal.press(ENTER)
        terminal.see("A dot.")
    (prompt,) = [line for line in lines(place.sessions()[0]) if "permissionMode" in line]
    text, image = prompt["message"]["content"]
    assert text == {"type": "text", "text": "what is [Image #1]?"}
    assert base64.b64decode(image["source"]["data"]) == PIXEL


def test_a_file_that_is_no_picture_is_named(open_chat: Open, place: Place) -> None:
    (place.work / "bad.png").write_text("no picture")
    with open_chat(["x"]) as terminal:
        terminal.press("\x1b[200~bad.png\x1b[201~")
        terminal.see("> [Image #1]")
        terminal.press(ENTER)
        terminal.see("only PNG, JPEG, GIF and WebP can", "hint: send a smaller picture")


def test_a_picture_that_a_prompt_names_is_sent_too(chat: Chat, place: Place) -> None:
    (place.work / "dot.png").write_bytes(PIXEL)
    assert chat("-p", "see @dot.png", script=["A dot."]).out == "A dot.\n"
    written = json.dumps(lines(place.sessions()[0]))
    assert base64.b64encode(PIXEL).decode() in written


@pytest.mark.parametrize(
    "text", ["", "x" * 5000 + ".png", "~nobody/x.png", "a\0.png", "no.png", "one\ntwo.png", "'", "file://"]
)
def test_other_texts_are_no_pictures(tmp_path: Path, text: str) -> None:
    assert find_picture(text, tmp_path) is None
