from __future__ import annotations

import json
import os
from pathlib import Path

from tests.client.conftest import Place
from tests.client.session.test_clipboard_picture import PICTURE
from tests.client.ui.rig import Open, lines
from tests.pseudo_terminal import CTRL_C, CTRL_V, ENTER, UP
from unspool.client.session.pasted_texts import PastedTexts
from unspool.client.session.prompt_history import TypedPrompt, read_prompt_history

LONG = "\n".join(f"line {number}" for number in range(1, 501))
FOLDED = "[Pasted text #1 +499 lines]"


def paste(text: str) -> str:
    """Return the keys that a terminal sends when somebody pastes."""
    return f"\x1b[200~{text}\x1b[201~".replace("\n", "\r")


def test_a_long_pasted_text_is_folded_and_sent_whole(open_chat: Open, place: Place) -> None:
    script = [{"content": "Read.", "expect": {"text": ["see line 1\n", "line 500 please"]}}]
    with open_chat(script) as terminal:
        terminal.press("see " + paste(LONG) + " please")
        terminal.see(f"> see {FOLDED} please")
        terminal.press(ENTER)
        terminal.see("Read.", "$0.")
        assert "line 250" not in terminal.shown
        terminal.press(UP)
        terminal.until(lambda: terminal.seen.count(f"see {FOLDED} please") == 2, "the history has it not")
        terminal.press(CTRL_C)
    (prompt,) = [line for line in lines(place.sessions()[0]) if "permissionMode" in line]
    assert prompt["message"]["content"] == f"see {LONG} please"
    (kept,) = lines(place.config / "history.jsonl")
    assert kept["display"] == f"see {FOLDED} please"
    assert kept["pastedContents"] == {"1": {"id": 1, "type": "text", "content": LONG}}


def test_a_folded_text_of_an_earlier_chat_is_sent_whole_again(open_chat: Open, place: Place) -> None:
    with open_chat(["One."]) as terminal:
        terminal.press(paste(LONG) + ENTER)
        terminal.see("One.")
    with open_chat([{"content": "Two.", "expect": {"text": LONG}}]) as terminal:
        terminal.press(UP)
        terminal.see(f"> {FOLDED}")
        terminal.press(ENTER)
        terminal.see("Two.")


def test_a_text_that_is_pasted_again_is_unfolded(open_chat: Open) -> None:
    short = "a\nb\nc\nd"
    with open_chat([{"content": "Yes.", "expect": {"text": short}}]) as terminal:
        terminal.press(paste(short))
        terminal.see("[Pasted text #1 +3 lines]")
        terminal.press(paste(short))
        terminal.see("> a\n  b\n  c\n  d")
        terminal.press(ENTER)
        terminal.see("Yes.")


def test_three_lines_are_shown_as_they_are() -> None:
    pasted = PastedTexts()
    assert pasted.fold("a\nb\nc") == "a\nb\nc"
    assert pasted.fold("a\nb\nc\nd") == "[Pasted text #1 +3 lines]"
    assert pasted.fold("x" * 800) == "[Pasted text #2]"
    assert pasted.fold("a\nb\nc\nd") == "[Pasted text #1 +3 lines]"
    assert pasted.expand("[Pasted text #2] and [Pasted text #9]") == "x" * 800 + " and [Pasted text #9]"


def test_pasted_texts_that_claude_code_keeps_are_found_by_their_hash(tmp_path: Path) -> None:
    (tmp_path / "paste-cache").mkdir()
    (tmp_path / "paste-cache" / "e5f2e06a19d035fb.txt").write_text(LONG)
    (tmp_path / "secret.txt").write_text("secret")
    path = tmp_path / "history.jsonl"
    hashes = ["e5f2e06a19d035fb", "0000000000000000", "../secret"]
    contents = {
        str(number): {"id": number, "type": "text", "contentHash": value} for number, value in enumerate(hashes)
    }
    path.write_text(json.dumps({"display": "see", "pastedContents": contents, "project": "/work"}) + "\n")
    assert read_prompt_history(path, "/work") == [TypedPrompt("see", {0: LONG})]


def test_ctrl_v_inserts_the_picture_of_the_clipboard_and_says_if_there_is_none(open_chat: Open, place: Place) -> None:
    folder = place.root / "programs"
    folder.mkdir()
    (folder / "dot.png").write_bytes(PICTURE)
    (folder / "xclip").write_text(f"#!/bin/sh\nexec cat {folder}/dot.png\n")
    (folder / "xclip").chmod(0o755)
    with open_chat(["A dot."], DISPLAY=":0", PATH=f"{folder}:{os.environ['PATH']}") as terminal:
        terminal.press("what is this " + CTRL_V)
        terminal.see("> what is this [Image #1]")
        terminal.press(ENTER)
        terminal.see("● A dot.")
        (folder / "dot.png").write_bytes(b"")
        terminal.press(CTRL_V)
        terminal.see("no picture in the clipboard")
    (prompt,) = [line for line in lines(place.sessions()[0]) if "permissionMode" in line]
    assert [block["type"] for block in prompt["message"]["content"]] == ["text", "image"]
