"""MCP servers in a terminal: approval, `/mcp`, and hostile words on the screen."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.client.conftest import Place
from tests.client.mcp.conftest import THINGS, config, hostile, use
from tests.client.ui.rig import Typed

pytest.importorskip("mcp")


@contextmanager
def open_terminal(place: Place, script: object, *flags: str, sees: str) -> Iterator[Typed]:
    command = ("-m", "unspool", "chat", "--trust", "--model", place.script(script), *flags)
    with Typed(*command, cwd=place.work, environment=place.environment, size=(100, 40)) as typed:
        typed.see(sees)
        yield typed


def test_a_server_of_the_project_is_shown_and_asked_about_once(place: Place) -> None:
    (place.work / ".mcp.json").write_text(config(things=THINGS))
    with open_terminal(place, ["Hi."], sees="Use the MCP server things?") as terminal:
        assert "things_server.py" in terminal.shown.replace("\n", "")
        terminal.answer("y", "Use the MCP server things?")
        terminal.see("/help")
        terminal.say("hi")
        terminal.see("● Hi.")
        terminal.say("/mcp reconnect things")  # it waits until the server has started, however long that takes
        terminal.see("✔ things  stdio, project, connected: 6 tools, 1 prompt, 1 resource")
        terminal.say("/mcp")
        terminal.answer("d", "MCP servers")
        terminal.leave()
    kept = json.loads((place.root / "unspool" / "mcp-servers.json").read_text())
    assert [*kept["folders"][str(place.work)]["approved"]] == ["things"]
    with open_terminal(place, ["Hi."], sees="/help") as terminal:
        assert "Use the MCP server" not in terminal.shown
        terminal.leave()


def test_escapes_of_a_server_never_reach_the_terminal(place: Place) -> None:
    script = [{"content": [use("mcp__bad__call")]}, "Done."]
    given = ("--mcp-config", config(bad=hostile("escapes")))
    with open_terminal(place, script, *given, sees="/help") as terminal:
        terminal.say("go")
        terminal.answer("y", "Allow this? mcp__bad__call")
        terminal.see("● Done.")
        terminal.leave()
        assert terminal.title == ""
        for forbidden in (b"\x1b]0;", b"\x1b[2J", "\u202e".encode()):
            assert forbidden not in terminal.sent


def test_a_prompt_waits_for_servers_that_start_late_and_says_so(place: Place) -> None:
    os.mkfifo(gate := place.root / "gate")
    script = [{"content": [use("mcp__slow__call")]}, "Done."]
    given = ("--allowedTools", "mcp__slow", "--mcp-config", config(slow=hostile("late", str(gate))))
    with open_terminal(place, script, *given, sees="/help") as terminal:
        terminal.say("go")
        terminal.see("still connecting to slow (MCP)")
        assert "Done." not in terminal.shown
        gate.write_text("")
        terminal.see("● Done.")
        assert "No such tool" not in terminal.shown
        terminal.leave()


def test_escape_sends_a_prompt_without_the_tools_of_a_server_that_starts_late(place: Place) -> None:
    os.mkfifo(gate := place.root / "gate")
    script = ["Without.", {"content": [use("mcp__slow__call")]}, "With."]
    given = ("--allowedTools", "mcp__slow", "--mcp-config", config(slow=hostile("late", str(gate))))
    with open_terminal(place, script, *given, sees="/help") as terminal:
        terminal.say("go")
        terminal.see("still connecting to slow (MCP)")
        terminal.press("\x1b")
        terminal.see("● Without.")
        gate.write_text("")
        terminal.say("again")
        terminal.see("● With.")
        assert "No such tool" not in terminal.shown
        terminal.leave()
