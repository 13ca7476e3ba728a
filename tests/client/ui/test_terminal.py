from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import Place
from tests.client.ui.rig import TRUST, Open, bash, lines
from tests.pseudo_terminal import CTRL_C, ENTER, ESCAPE, SHIFT_TAB, UP, until
from unspool.sandbox import find_mechanism

EVIL = "x\x1b]0;owned\x07\x1b]52;c;aGFjaw==\x07\x1b[2J\x1b[31mred\x9b31m [bold]not bold[/bold] \u202etxt y"


def test_an_answer_is_shown_as_markdown_and_the_prompt_stays_below(open_chat: Open) -> None:
    answer = "# Title\n\nSome **bold** words.\n\n```python\nprint(1)\n```\n\n1. one\n2. two\n"
    with open_chat([answer]) as terminal:
        terminal.say("hi")
        terminal.see("> hi", "● Title", "Some bold words.", "print(1)", " 1 one", " 2 two", "$0.")
        assert "```" not in terminal.shown
        assert "**" not in terminal.shown
        assert terminal.seen.rstrip().splitlines()[-1].startswith("default: asks before changes")
        assert terminal.leave() == 0
        assert "unspool chat --resume" in terminal.shown


def test_escape_sequences_of_model_and_tools_never_reach_the_terminal(open_chat: Open, place: Place) -> None:
    (place.work / "evil.txt").write_text(f"file {EVIL}\n")
    (place.work / "na\x1b]0;owned\x07me").write_text("")
    use = {"type": "tool_use", "name": "Bash", "input": {"command": "cat evil.txt; ls", "description": EVIL}}
    script = [{"content": [f"said {EVIL}", use]}, {"content": f"```\n{EVIL}\n```", "chunk": 3}]
    with open_chat(script, "--permission-mode", "bypassPermissions") as terminal:
        terminal.say("go")
        terminal.see("$0.", "said xred", "[bold]not bold[/bold]", "<U+202E>")
        terminal.leave()
        assert terminal.title == ""
        for forbidden in (b"\x1b]", b"\x1b[2J", b"\x9b31m", "\u202e".encode(), b"owned", b"aGFjaw"):
            assert forbidden not in terminal.sent.replace(b"na", b"")


def test_a_question_shows_all_of_a_command_before_it_is_answered(open_chat: Open, place: Place) -> None:
    long = "echo " + "a" * 300 + " && touch made"
    with open_chat([{"content": [bash(long)]}, {"content": "Done.", "expect": {"is_error": False}}]) as terminal:
        terminal.say("go")
        terminal.see("Allow this?")
        assert long.replace(" ", "") in "".join(terminal.shown.split())
        assert not (place.work / "made").exists()
        terminal.answer("y", "Allow this?")
        terminal.see("Done.")
    assert (place.work / "made").exists()


def test_no_can_be_said_with_words_for_the_model(open_chat: Open, place: Place) -> None:
    script = [{"content": [bash("touch made")]}, {"content": "As you like.", "expect": {"result": "use mkdir"}}]
    with open_chat(script) as terminal:
        terminal.say("go")
        terminal.answer_in_words("n", "Allow this?", "what instead?", "use mkdir")
        terminal.see("As you like.", "not allowed")
    assert not (place.work / "made").exists()


def test_what_is_typed_before_a_question_can_be_read_does_not_answer_it(open_chat: Open, place: Place) -> None:
    gate = place.root / "gate"
    script = [{"content": [bash("touch made")], "until": str(gate)}, "Done."]
    with open_chat(script) as terminal:
        terminal.say("go")
        terminal.see("Esc interrupts")
        terminal.press("yyy")
        terminal.see("> yyy")
        gate.touch()
        terminal.see("Allow this?")
        terminal.press("y")  # within the pause, most likely; after it, `made` would be there
        terminal.answer(ESCAPE, "Allow this?")
        terminal.see("interrupted", "> yyy")  # what was typed is still there


def test_control_c_at_a_question_refuses_and_ends_the_turn(open_chat: Open, place: Place) -> None:
    with open_chat([{"content": [bash("touch made.txt")]}]) as terminal:
        terminal.say("make")
        terminal.answer(CTRL_C, "Allow this? Bash(touch made.txt)")
        terminal.see("interrupted")
        terminal.leave()
    assert not (place.work / "made.txt").exists()


def test_a_long_option_keeps_its_letter_in_a_narrow_terminal(open_chat: Open) -> None:
    with open_chat(
        [{"content": [bash("seq 1 3; touch one; chmod 600 one; mkdir two")]}, "Done."], size=(60, 40)
    ) as terminal:
        terminal.say("go")
        terminal.see("2. Yes, and allow", "(s)", "3. Yes, and always allow", "(a)")
        terminal.answer("y", "Allow this?")
        terminal.see("● Done.")
        terminal.leave()


def test_escape_at_a_question_refuses_and_ends_the_turn(open_chat: Open, place: Place) -> None:
    with open_chat([{"content": [bash("touch made")]}, "Never said."]) as terminal:
        terminal.say("go")
        terminal.answer(ESCAPE, "Allow this?")
        terminal.see("interrupted")
        assert "Never said." not in terminal.shown
    assert not (place.work / "made").exists()


@pytest.mark.parametrize("key", [ESCAPE, CTRL_C])
def test_a_turn_is_interrupted_and_the_next_one_begins(open_chat: Open, place: Place, key: str) -> None:
    slow = {"content": "One two three four five six.", "chunk": 4, "pause": 0.4}
    script = {"cues": {"slow": [slow], "next": [{"content": "Still here.", "expect": {"anywhere": "interrupted"}}]}}
    with open_chat(script) as terminal:
        terminal.say("slow")
        terminal.see("One")
        terminal.press(key)
        terminal.see("interrupted")
        terminal.say("next")
        terminal.see("Still here.")
        assert terminal.leave() == 0
    written = [line for line in lines(place.sessions()[0]) if line["type"] == "user"]
    assert any("[Request interrupted by user]" in json.dumps(line) for line in written)


def test_what_is_typed_meanwhile_is_taken_at_the_next_step(open_chat: Open, place: Place) -> None:
    gate = place.root / "gate"
    script = [
        {"content": [bash("true")], "until": str(gate)},
        {"content": "I heard it.", "expect": {"text": "and be quick"}},
    ]
    with open_chat(script, "--permission-mode", "bypassPermissions") as terminal:
        terminal.say("go")
        terminal.see("Esc interrupts")
        terminal.press("and be quick" + ENTER)
        terminal.see("waits: and be quick")
        gate.touch()
        terminal.see("I heard it.", "> and be quick")
        assert "waits:" not in terminal.seen


def test_what_is_typed_too_late_is_the_next_prompt(open_chat: Open, place: Place) -> None:
    gate = place.root / "gate"
    script = [{"content": "First.", "until": str(gate)}, {"content": "Second.", "expect": {"text": "then this"}}]
    with open_chat(script) as terminal:
        terminal.say("go")
        terminal.see("Esc interrupts")
        terminal.press("then this" + ENTER)
        terminal.see("waits: then this")
        gate.touch()
        terminal.see("First.", "> then this", "Second.")


def test_lines_can_be_many_and_are_remembered(open_chat: Open, place: Place) -> None:
    with open_chat(["One.", "Two.", "Three."]) as terminal:
        terminal.press("first\\" + ENTER + "second\x1b\rthird" + ENTER)
        terminal.see("One.")
        terminal.press("\x1b[200~pasted\nlines\x1b[201~")
        terminal.see("pasted\n  lines")
        terminal.press(ENTER)
        terminal.see("Two.")
        terminal.press(UP + UP + UP + UP + UP)
        terminal.see("> first\n  second\n  third")
    prompts = [line["message"]["content"] for line in lines(place.sessions()[0]) if "permissionMode" in line]
    assert prompts == ["first\nsecond\nthird", "pasted\nlines"]
    with open_chat(["x"]) as terminal:
        terminal.press(UP)
        terminal.see("> pasted")


def test_control_c_clears_and_twice_leaves(open_chat: Open) -> None:
    with open_chat(["x"]) as terminal:
        terminal.press("unfinished")
        terminal.see("> unfinished")
        terminal.press(CTRL_C)
        until(lambda: "unfinished" not in terminal.seen, lambda: terminal.shown)
        terminal.press(CTRL_C)
        terminal.see("Ctrl-C again leaves")
        terminal.press(CTRL_C)
        assert terminal.process.wait(timeout=20) == 0


def test_shift_tab_goes_through_the_modes(open_chat: Open, place: Place) -> None:
    with open_chat(["Hello."]) as terminal:
        for mode in ("acceptEdits", "plan", "default", "acceptEdits"):
            terminal.press(SHIFT_TAB)
            terminal.see(f"{mode}: ")
        terminal.say("hi")
        terminal.see("Hello.")
    assert [line["permissionMode"] for line in lines(place.sessions()[0]) if "permissionMode" in line] == [
        "acceptEdits"
    ]


def test_commands_and_files_are_completed(open_chat: Open, place: Place) -> None:
    (place.work / "src").mkdir()
    (place.work / "src" / "module.py").write_text("")
    with open_chat(["x"]) as terminal:
        terminal.press("/co")
        terminal.see("/compact", "/context", "/cost")
        terminal.press(CTRL_C + "look at @mod")
        terminal.see("src/module.py")
        terminal.press("\t")
        terminal.see("> look at @src/module.py")


def test_commands_say_what_there_is_to_say(open_chat: Open) -> None:
    todo = {"type": "tool_use", "name": "TodoWrite", "input": {
        "todos": [{"content": "Write it down", "status": "in_progress", "activeForm": "Writing it down"}]}}  # fmt: skip
    with open_chat([{"content": [todo]}, "Noted."]) as terminal:
        terminal.say("note it")
        terminal.see("Noted.")
        for typed, words in {
            "/todos": "[>] Write it down",
            "/cost": "Total cost: $",
            "/context": "Context: ",
            "/permissions": "mode: default",
            "/help": "Esc Esc: rewind",
            "/nosuch": "unknown command `/nosuch`",
        }.items():
            terminal.say(typed)
            terminal.see(words)


def test_a_terminal_that_can_only_print_is_talked_to_line_by_line(open_chat: Open, place: Place) -> None:
    script = [{"content": ["I touch.", bash("touch made")]}, "Done."]
    with open_chat(script, TERM="dumb") as terminal:
        terminal.press("go\n")
        terminal.see("Allow this?", "1. Yes (y)")
        terminal.press("y\n")
        terminal.see("Done.", "$0.")
        terminal.press("/exit\n")
        assert terminal.process.wait(timeout=20) == 0
        assert b"\x1b" not in terminal.sent
        assert "rror" not in terminal.shown
    assert (place.work / "made").exists()


def test_without_colours_there_are_none(open_chat: Open) -> None:
    with open_chat(["**Hello** `code`"], NO_COLOR="1") as terminal:
        terminal.say("hi")
        terminal.see("Hello code")
        codes = [
            code for found in re.findall(rb"\x1b\[([0-9;]*)m", terminal.sent) for code in found.split(b";") if code
        ]
        assert [code for code in codes if 30 <= int(code) <= 48 or 90 <= int(code) <= 107] == []
        assert b"1" in codes  # bold is no colour


@pytest.mark.parametrize("columns", [20, 37])
def test_narrow_terminals_are_no_worse(open_chat: Open, columns: int) -> None:
    script = [{"content": ["A sentence that is longer than that.", bash("touch something-rather-long")]}, "Done."]
    with open_chat(script, size=(columns, 30), sees="default: asks") as terminal:
        terminal.press("go" + ENTER)
        terminal.answer("y", "1. Yes (y)")
        terminal.see("Done.")
        assert terminal.leave() == 0


def test_a_folder_that_brings_something_is_trusted_once_or_not(open_chat: Open, place: Place) -> None:
    (place.work / ".claude").mkdir()
    (place.work / ".claude" / "settings.json").write_text('{"permissions": {"allow": ["Bash(touch:*)"]}}')
    script = {"cues": {"go": [{"content": [bash("touch made")]}, "Done."]}}
    with open_chat(script, sees=TRUST) as terminal:
        terminal.see("It contains .claude/settings.json")
        terminal.answer("n", TRUST)
        terminal.say("go")
        terminal.answer(ESCAPE, "Allow this?")
    assert not (place.work / "made").exists()
    with open_chat(script) as terminal:  # a "no" is kept too
        assert TRUST not in terminal.shown
        terminal.see("change it with `/trust`")
        terminal.say("/trust")
        terminal.see("trusted: settings")
        terminal.say("go")
        terminal.see("Done.")
    assert (place.work / "made").exists()
    with open_chat(script) as terminal:
        assert "trust" not in terminal.shown
        terminal.say("/trust no")
        terminal.see("not trusted: settings")
    with open_chat(script) as terminal:
        assert TRUST not in terminal.shown
        terminal.say("go")
        terminal.see("Allow this?")


def test_trust_is_offered_in_a_folder_that_brings_nothing_too(open_chat: Open, place: Place) -> None:
    subprocess.run(["git", "init", "-q", place.work], check=True, env=place.environment)
    script = {"cues": {"go": [{"content": [bash("git status --short")]}, "Done."]}}
    with open_chat(script, sees=TRUST) as terminal:
        terminal.answer("y", TRUST)
        terminal.say("go")
        terminal.see("Done.")
    with open_chat(script) as terminal:
        assert TRUST not in terminal.shown


def test_what_is_always_allowed_is_kept_where_it_was_said_to_be(open_chat: Open, place: Place) -> None:
    script = {"cues": {"go": [{"content": [bash("touch made")]}, "Done."]}}
    local, own = place.work / ".claude" / "settings.local.json", place.root / "unspool" / "rules.json"
    with open_chat(script, size=(200, 40)) as terminal:
        terminal.say("go")
        terminal.see(f"always: adds Bash(touch:*) to {own}", "always allow Bash(touch:*) in this folder (a)")
        terminal.answer("y", "Allow this?")
        terminal.see("Done.")
        terminal.say("/trust")
        terminal.see("trusted: settings")
        terminal.say("go on")
        terminal.see(f"always: adds Bash(touch:*) to {local}")
        terminal.answer("a", "Allow this?")
        until(lambda: terminal.shown.count("Done.") == 3, lambda: terminal.shown)  # once as what was said last
    assert json.loads(local.read_text())["permissions"]["allow"] == ["Bash(touch:*)"]
    assert not own.exists()
    with open_chat(script) as terminal:
        terminal.say("go")
        terminal.see("Done.")


def test_always_is_a_choice_in_a_folder_that_is_not_trusted(open_chat: Open, place: Place) -> None:
    subprocess.run(["git", "init", "-q", place.work], check=True, env=place.environment)
    script = {"cues": {"go": [{"content": [bash("git status --short")]}, "Done."]}}
    own = place.root / "unspool" / "rules.json"
    with open_chat(script, size=(200, 40)) as terminal:
        terminal.say("go")
        terminal.see(f"always: adds Bash(git status:*) to {own}")
        terminal.answer("a", "Allow this?")
        terminal.see("Done.")
    assert json.loads(own.read_text()) == {
        "folders": {str(place.work): {"allow": ["Bash(git status:*)"], "sandboxed": []}}
    }
    assert own.stat().st_mode & 0o777 == 0o600
    assert not (place.work / ".claude").exists()
    with open_chat(script) as terminal:
        terminal.say("go")
        terminal.see("Done.")
        terminal.say("/permissions")
        terminal.see("allow  Bash(git status:*)  (kept)")


@pytest.mark.skipif(find_mechanism() is None, reason="no sandbox works on this machine")
def test_always_can_mean_in_the_sandbox(open_chat: Open, place: Place) -> None:
    outside = place.root / "outside"
    script = {"cues": {"go": [{"content": [bash(f"touch inside {outside}")]}, "Done."]}}
    own = place.root / "unspool" / "rules.json"
    for times in (1, 2):
        with open_chat(script, size=(200, 40)) as terminal:
            terminal.say("go")
            if times == 1:
                terminal.see(f"always, in the sandbox: adds Bash(touch:*) to {own}")
                terminal.answer("b", "Allow this?")
            terminal.see("Done.")  # the second time without a question
        assert (place.work / "inside").exists()  # the folder worked in can be written
        assert not outside.exists()
        (place.work / "inside").unlink()
    assert json.loads(own.read_text())["folders"][str(place.work)] == {"allow": [], "sandboxed": ["Bash(touch:*)"]}


def edit(file: Path, old: str, new: str) -> dict[str, Any]:
    input = {"file_path": str(file), "old_string": old, "new_string": new}
    return {"type": "tool_use", "name": "Edit", "input": input}


def read(file: Path) -> dict[str, Any]:
    return {"type": "tool_use", "name": "Read", "input": {"file_path": str(file)}}


def test_an_edit_is_approved_on_the_difference_to_the_file(open_chat: Open, place: Place) -> None:
    file = place.work / "a.txt"
    file.write_text("".join(f"line {number}\n" for number in range(1, 30)))
    missing = edit(file, "no such line", "x")
    script = [
        {"content": [read(file)]},
        {"content": [missing]},
        {"content": [edit(file, "12\n", "twelve\n")], "expect": {"result": "String to replace not found"}},
        "Done.",
    ]
    with open_chat(script) as terminal:
        terminal.say("go")
        terminal.see("file change, +1 −1", " 9   line 9", "12 - line 12", "12 + line twelve", "15   line 15")
        assert "line 8\n" not in terminal.shown.partition("file change")[2]
        assert "no such line" not in terminal.shown.partition("file change")[2]
        assert "the whole change" not in terminal.shown  # it is short
        terminal.see("always allow Edit(/**) in this folder (r)")
        terminal.answer("y", "Allow this? Edit(a.txt)")
        terminal.see("Done.")
    assert "line twelve\n" in file.read_text()


def test_a_long_change_is_folded_and_can_be_seen_in_full(open_chat: Open, place: Place) -> None:
    file = place.work / "new.txt"
    content = "".join(f"text {number}\n" for number in range(1, 101))
    write = {"type": "tool_use", "name": "Write", "input": {"file_path": str(file), "content": content}}
    with open_chat([{"content": [write]}, "Done."]) as terminal:
        terminal.say("go")
        terminal.see("a new file, +100 −0; 60 lines folded", " 30 + text 30", "60 more lines", "100 + text 100")
        assert "text 50" not in terminal.shown
        terminal.ask_key("w", "Allow this? Write(new.txt)")
        terminal.see(" 50 + text 50")
        assert not file.exists()
        terminal.until(lambda: "the whole change" not in terminal.seen, "it is still offered")
        terminal.answer("y", "Allow this? Write(new.txt)")
        terminal.see("Done.")
    assert file.read_text() == content


def test_a_folder_can_be_left_instead_of_trusted(open_chat: Open, place: Place) -> None:
    (place.work / "CLAUDE.md").write_text("Be nice.\n")
    with open_chat(["x"], sees=TRUST) as terminal:
        terminal.ask_key(ESCAPE, "Do you trust this folder?")
        assert terminal.process.wait(timeout=20) == 0


def test_a_custom_command_is_expanded_under_the_rules(open_chat: Open, place: Place) -> None:
    folder = place.config / "commands"
    folder.mkdir(parents=True)
    (place.work / "notes.md").write_text("Remember the milk\n")
    (folder / "review.md").write_text(
        "---\ndescription: Look at it\nallowed-tools: Bash(touch:*)\n---\n"
        "Review $0: !`echo from the shell`\n\n@notes.md\n"
    )
    expect = {"text": ["<command-name>/review</command-name>", "Review this: from the shell", "Remember the milk"]}
    script = [{"content": [bash("touch made")], "expect": expect}, "Reviewed.", {"content": [bash("touch other")]}]
    with open_chat(script) as terminal:
        terminal.press("/rev")
        terminal.see("Look at it (user)")
        terminal.press("iew this" + ENTER)
        terminal.see("Reviewed.", "> /review this")
        terminal.say("again")
        terminal.see("Allow this?")  # what the command allowed was allowed to it alone
    assert (place.work / "made").exists()


def test_a_shell_command_of_ones_own_is_run_and_told_to_the_model(open_chat: Open, place: Place) -> None:
    expect = {"anywhere": ["<bash-input>echo hello; pwd</bash-input>", f"<bash-stdout>hello\n{place.work}"]}
    with open_chat([{"content": "I saw it.", "expect": expect}]) as terminal:
        terminal.say("!echo hello; pwd")
        terminal.see(f"hello\n     {place.work}")
        terminal.say("and?")
        terminal.see("I saw it.")
        terminal.say("!sleep 60")
        terminal.see("running…")
        terminal.press(ESCAPE)
        terminal.see("interrupted")


def test_words_that_wait_can_be_changed_after_an_interrupt(open_chat: Open, place: Place) -> None:
    script = {"cues": {"go": [{"content": "First.", "until": str(place.root / "never")}]}}
    with open_chat(script) as terminal:
        terminal.say("go")
        terminal.see("Esc interrupts")
        terminal.press("then this" + ENTER)
        terminal.see("waits: then this")
        terminal.press(ESCAPE)
        terminal.see("interrupted", "> then this")
        assert "waits:" not in terminal.seen


def test_a_file_that_is_named_comes_with_the_prompt(open_chat: Open, place: Place) -> None:
    (place.work / "notes.md").write_text("Remember the milk\n")
    outside = place.root / "outside.txt"
    outside.write_text("not yours")
    expect = {"anywhere": ["Remember the milk"], "absent": "not yours"}
    with open_chat([{"content": "Milk.", "expect": expect}]) as terminal:
        terminal.say(f"see @notes.md and @{outside}")
        terminal.see("Milk.")
    (prompt,) = [line for line in lines(place.sessions()[0]) if "permissionMode" in line]
    assert prompt["message"]["content"] == f"see @notes.md and @{outside}"


def test_a_session_is_resumed_by_choice(open_chat: Open, place: Place) -> None:
    with open_chat(["Milk."]) as terminal:
        terminal.say("what was it?")
        terminal.see("Milk.")
        terminal.leave()
    with open_chat([{"content": "As I said.", "expect": {"anywhere": ["what was it?", "Milk."]}}]) as terminal:
        terminal.say("/resume")
        terminal.see("❯ what was it?")
        terminal.answer(ENTER, "Resume which session?")
        terminal.see("resumed from", "● Milk.")
        terminal.say("go on")
        terminal.see("As I said.")
    assert len(place.sessions()) == 1


def test_one_goes_back_to_an_earlier_prompt_with_the_files(open_chat: Open, place: Place) -> None:
    path = place.work / "poem.txt"
    path.write_text("roses\n")
    read = {"type": "tool_use", "name": "Read", "input": {"file_path": str(path)}}
    write = {"type": "tool_use", "name": "Write", "input": {"file_path": str(path), "content": "violets\n"}}
    script = {
        "cues": {
            "first": ["One."],
            "change it": [{"content": [read]}, {"content": [write]}, "Changed."],
            "instead": [{"content": "Anew.", "expect": {"anywhere": "One.", "absent": "Changed."}}],
        }
    }
    with open_chat(script, "--permission-mode", "acceptEdits") as terminal:
        terminal.say("first")
        terminal.see("One.")
        terminal.say("change it")
        terminal.see("Changed.", "-roses", "+violets")
        terminal.press(ESCAPE + ESCAPE)
        terminal.see("Rewind to before which prompt?", "❯ change it", "1 file")
        terminal.answer(ENTER, "Rewind to before which prompt?")
        terminal.answer(ENTER, "What should be restored?")
        terminal.see("rewound;")
        assert path.read_text() == "roses\n"
        terminal.see("> change it")
        terminal.press(CTRL_C)
        terminal.say("instead")
        terminal.see("Anew.")
        terminal.say("/tree")
        terminal.see("change it", "instead")
        terminal.answer(ESCAPE, "Resume from which branch?")
        assert terminal.leave() == 0


def test_a_conversation_is_copied_renamed_exported_and_begun_anew(open_chat: Open, place: Place) -> None:
    with open_chat(
        {"cues": {"hi": ["Hello."], "new": [{"content": "New.", "expect": {"absent": "Hello."}}]}}
    ) as terminal:
        terminal.say("/export")
        terminal.see("the conversation is empty")
        terminal.say("hi")
        terminal.see("Hello.")
        terminal.say("/rename My talk")
        terminal.see("renamed to `My talk`")
        terminal.say("/export out.md")
        terminal.see("written: ")
        terminal.say("/model haiku")
        terminal.see("resumed with claude-haiku-5-5")
        terminal.say("/fork")
        terminal.see("the original is unchanged")
        terminal.say("/clear")
        terminal.say("new")
        terminal.see("New.")
        terminal.say("/exit")
        assert terminal.process.wait(timeout=20) == 0
    assert "Hello." in (place.work / "out.md").read_text()
    assert (place.work / "out.md").stat().st_mode & 0o777 == 0o600
    assert len(place.sessions()) == 3
    assert any("My talk" in path.read_text() for path in place.sessions())


def test_a_conversation_is_compacted_when_asked(open_chat: Open) -> None:
    summary = "<summary>We greeted each other.</summary>"
    script = ["Hello. " * 50, summary, {"content": "Yes.", "expect": {"anywhere": "We greeted"}}]
    with open_chat(script) as terminal:
        terminal.say("hi")
        terminal.see("Hello.", "$0.")
        terminal.say("/compact keep the greeting")
        terminal.see("compacted")
        terminal.say("then")
        terminal.see("Yes.")


def test_a_session_that_is_not_there_is_said_and_nothing_is_opened(open_chat: Open) -> None:
    with open_chat(["x"], "--resume", "nosuch", sees="no session matches") as terminal:
        assert terminal.process.wait(timeout=20) == 3
