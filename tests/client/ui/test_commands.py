from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import Chat, Place
from tests.client.ui.rig import Open
from tests.pseudo_terminal import ENTER, ESCAPE
from unspool.client.ui.commands.interface_settings import (
    InterfaceSettings,
    load_interface_settings,
    write_user_setting,
)


def settings(place: Place, **values: Any) -> Path:
    path = place.config / "settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(values))
    return path


def trust(place: Place) -> None:
    (place.root / "unspool").mkdir(exist_ok=True)
    (place.root / "unspool" / "trusted.json").write_text(json.dumps({"folders": [str(place.work)]}))


def test_the_status_line_is_what_a_command_prints_first(open_chat: Open, place: Place) -> None:
    command = "cat > new.json; mv new.json status.json; printf '\\033[31mmy \\033]0;owned\\007line\\nsecond\\n'"
    settings(place, statusLine={"type": "command", "command": command})
    trust(place)
    with open_chat([{"content": "Hello.", "usage": {"input_tokens": 1234, "output_tokens": 5}}]) as terminal:
        terminal.see("my line")
        assert "second" not in terminal.shown
        assert terminal.title == ""
        terminal.say("hi")
        terminal.see("Hello.", "$0.")
        terminal.until(
            lambda: json.loads((place.work / "status.json").read_text())["cost"]["total_cost_usd"] > 0, "cost"
        )
        terminal.say("/statusline")
        terminal.see("printed: my line")
    sent = json.loads((place.work / "status.json").read_text())
    assert sent["hook_event_name"] == "Status"
    assert sent["workspace"] == {"current_dir": str(place.work), "project_dir": str(place.work), "added_dirs": []}
    assert sent["transcript_path"] == str(place.sessions()[0])
    assert sent["session_id"] == place.sessions()[0].stem
    assert sent["context_window"]["context_window_size"] == 200_000


def test_no_status_line_runs_in_a_folder_that_is_not_trusted(open_chat: Open, place: Place) -> None:
    settings(place, statusLine={"type": "command", "command": "touch ran; echo line"})
    with open_chat(["x"]) as terminal:
        terminal.say("/statusline")
        terminal.see("the status line does not run: this folder is not trusted")
    assert not (place.work / "ran").exists()


def test_a_status_line_is_set_and_a_failure_is_named(open_chat: Open, place: Place) -> None:
    path = settings(place, model="opus")
    trust(place)
    with open_chat(["x"], size=(200, 40)) as terminal:
        terminal.say("/statusline")
        terminal.see("no status line; set one with")
        terminal.say("/statusline exit 3")
        terminal.see(f"written to {path}")
        terminal.say("/statusline")
        terminal.see("failed: it ended with exit code 3")
        terminal.say("/statusline off")
        terminal.see("status line: off")
    assert json.loads(path.read_text()) == {"model": "opus"}


def test_status_names_session_server_and_settings_but_no_secret(open_chat: Open, place: Place) -> None:
    path = settings(place, theme="dark")
    hidden = {"ANTHROPIC_BASE_URL": "http://me:secret@localhost:1/", "ANTHROPIC_API_KEY": "sk-secret"}
    with open_chat(["x"], size=(160, 40), **hidden) as terminal:
        terminal.say("/status")
        terminal.see(
            "Version ", f"{place.work} (not trusted)", "http://localhost:1/ (API key of the environment)", str(path)
        )
        assert "secret" not in terminal.shown


def test_agents_and_hooks_are_listed(open_chat: Open, chat: Chat, place: Place) -> None:
    settings(place, hooks={"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}]})
    (place.config / "agents").mkdir()
    (place.config / "agents" / "critic.md").write_text(
        "---\nname: critic\ndescription: Finds faults\n---\nBe strict.\n"
    )
    with open_chat(["x"]) as terminal:
        terminal.say("/agents")
        terminal.see("general-purpose (built in)", "critic (user): Finds faults")
        terminal.say("/hooks")
        terminal.see("PreToolUse\n    [Bash] true")
    assert "[Bash] true" in chat("-p", "/hooks", script=["x"]).out


def test_permission_rules_are_narrowed_by_words(chat: Chat, place: Place) -> None:
    settings(place, permissions={"allow": ["Bash(ls:*)", "Edit"], "deny": ["Bash(rm:*)"]})
    shown = chat("-p", "/permissions bash DENY", script=["x"]).out
    assert "deny   Bash(rm:*)  (user)" in shown
    assert "Bash(ls:*)" not in shown
    assert "2 other rules; list all with `/permissions`" in shown


def test_init_asks_the_model_for_instructions(open_chat: Open) -> None:
    expect = {"text": ["<command-name>/init</command-name>", "write a file CLAUDE.md", "keep it short"]}
    with open_chat([{"content": "Written.", "expect": expect}]) as terminal:
        terminal.say("/init keep it short")
        terminal.see("Written.", "> /init keep it short")


def test_memory_is_edited_with_the_users_editor(open_chat: Open, place: Place) -> None:
    editor = place.root / "editor"
    editor.write_text('#!/bin/sh\nprintf "Be nice.\\n" >> "$1"\n')
    editor.chmod(0o755)
    with open_chat(["x"], size=(200, 40), EDITOR=str(editor)) as terminal:
        terminal.say("/memory")
        terminal.ask_key("local", "Edit which instructions?")
        terminal.see("new; of this project, your own")
        terminal.press(ENTER)
        terminal.see("after `/clear`")
    assert (place.work / "CLAUDE.local.md").read_text() == "Be nice.\n"
    with open_chat(["x"], EDITOR="/nonexistent") as terminal:
        terminal.say("/memory")
        terminal.ask_key(ENTER, "Edit which instructions?")
        terminal.see("ended with exit code 127", "set EDITOR to another editor")


def test_the_theme_is_picked_and_kept(open_chat: Open, place: Place) -> None:
    path = settings(place, model="opus")
    with open_chat(["x"]) as terminal:
        terminal.say("/config")
        terminal.ask_key("theme" + ENTER, "Change which setting?")
        terminal.ask_key("light-d" + ENTER, "Which theme?")
        terminal.see("theme: light-daltonized, written to")
        terminal.say("/config theme pink")
        terminal.see("invalid value `pink` of `theme`", "hint: use one of: dark, light")
    assert json.loads(path.read_text()) == {"model": "opus", "theme": "light-daltonized"}


def test_vim_keys_edit_the_prompt(open_chat: Open, place: Place) -> None:
    with open_chat([{"content": "Yes.", "expect": {"text": "one three"}}]) as terminal:
        terminal.say("/vim")
        terminal.see("INSERT · default: asks")
        terminal.press("one two three")
        terminal.see("> one two three")
        terminal.press(ESCAPE)
        terminal.see("NORMAL · default: asks")
        terminal.press("0wdw")
        terminal.see("> one three")
        terminal.press(ENTER)
        terminal.see("Yes.")
    assert json.loads((place.config / "settings.json").read_text()) == {"editorMode": "vim"}


@pytest.mark.parametrize("value", [None, 7, [], {"type": "command"}, {"type": "command", "command": 3}, "x"])
def test_settings_that_are_nonsense_count_as_not_set(tmp_path: Path, value: Any) -> None:
    for key in ("theme", "editorMode", "preferredNotifChannel", "statusLine"):
        (tmp_path / "settings.json").write_text(json.dumps({key: value}))
        assert load_interface_settings(tmp_path, tmp_path / "work", trusted=True) == InterfaceSettings()
    write_user_setting(tmp_path, "theme", "light")
    assert load_interface_settings(tmp_path, tmp_path / "work", trusted=True).theme == "light"
