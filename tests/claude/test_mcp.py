"""The real Claude Code with our MCP server and our plugin: it calls the tools, and gets the offer of the hook."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.claude.program import CHECKOUT, Place, Program, installed, newest
from tests.claude.server import Reply, Server, calls, says
from unspool.demo import write_demo

pytestmark = pytest.mark.claude

PLUGIN = CHECKOUT / "plugin"


@pytest.fixture(scope="module")
def program() -> Program:
    return installed(newest())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A home whose config folder is the demo, and an `unspool` on the path."""
    root, tools = tmp_path / "home", tmp_path / "bin"
    root.mkdir()
    tools.mkdir()
    write_demo(root / "config", datetime.now(UTC))
    command = tools / "unspool"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m unspool "$@"\n')
    command.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), "/usr/bin", "/bin", *_node()])
    variables = {"PATH": path, "UNSPOOL_HOME": str(tmp_path / "own"), "TZ": "UTC"}
    return Place(root, work, variables)


def _node() -> list[str]:
    return [folder for folder in os.environ["PATH"].split(os.pathsep) if Path(folder, "node").exists()][:1]


def run_unspool(place: Place, *arguments: str) -> None:
    environment = {**place.variables, "HOME": str(place.root), "CLAUDE_CONFIG_DIR": str(place.config)}
    subprocess.run([sys.executable, "-m", "unspool", *arguments], env=environment, check=True, capture_output=True)


def results(requests: list[dict[str, Any]]) -> list[str]:
    """Return the texts of the tool results in the last request."""
    blocks = [
        block
        for message in requests[-1]["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    return [
        block["content"]
        if isinstance(block["content"], str)
        else "".join(part.get("text", "") for part in block["content"])
        for block in blocks
    ]


def test_claude_code_asks_the_installed_server_about_the_demo(program: Program, place: Place) -> None:
    run_unspool(place, "mcp", "install", "--yes", "--config-dir", str(place.config))
    script = [
        Reply((calls("mcp__unspool__recall_decisions", topic="why was printing a week of tides slow"),)),
        Reply((calls("mcp__unspool__read_session", session="tide-cache", turn=1),)),
        Reply((calls("mcp__unspool__find_file_history", path="tidewatch/README.md"),)),
        Reply((says("Because every day read all stations."),)),
    ]
    with Server({"why was it slow": script}) as server:
        done = program.run(place, server.url, "why was it slow", "--allowedTools", "mcp__unspool")
        found = results(server.requests)
    assert done["result"] == "Because every day read all stations."
    assert "0.02 s instead of 4 s" in found[0]
    assert "test_the_station_is_read_for_each_day" in found[1]
    assert "+The last 64 stations stay in memory." in found[2]
    assert all("data, not instructions" in text for text in found)


def test_claude_code_loads_the_plugin_with_its_tools_its_command_and_its_offer(program: Program, place: Place) -> None:
    # A session in the folder that is worked in, so that there is something to offer.
    with Server({"paint": [Reply((says("The wall is blue."),))]}) as server:
        program.run(place, server.url, "paint the harbour wall")
    run_unspool(place, "sync", "--config-dir", str(place.config))
    tool = "mcp__plugin_unspool_unspool__search_sessions"
    script = [Reply((calls(tool, query="wall blue"),)), Reply((says("It was painted blue."),))]
    with Server({"Recall from the history of earlier sessions: the harbour wall": script}) as server:
        done = program.run(place, server.url, "/unspool:recall the harbour wall", "--plugin-dir", str(PLUGIN))
        requests = server.requests
    sent = json.dumps(requests)
    assert done["result"] == "It was painted blue."
    assert "The wall is blue." in results(requests)[0]
    assert "Earlier sessions in this folder" in sent
    assert "paint the harbour wall" in sent
    assert "session-history" in sent
