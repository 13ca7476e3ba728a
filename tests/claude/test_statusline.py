"""The real Claude Code with our status line: it is run, it is shown, and it has what the session cost."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.claude.program import Place, installed, newest
from tests.claude.server import Reply, Server, says
from tests.claude.terminal import Interface, trust
from unspool.statusline.status_input import parse_status_input

pytestmark = pytest.mark.claude


def test_claude_code_shows_the_line_below_its_prompt(tmp_path: Path) -> None:
    program = installed(newest())
    place = Place(tmp_path / "home", tmp_path / "work")
    place.work.mkdir(parents=True)
    place.root.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "feature/line", str(place.work)], check=True)
    trust(place, program.version)
    own, sent = tmp_path / "own", tmp_path / "sent"
    line = f"UNSPOOL_HOME={shlex.quote(str(own))} {shlex.quote(sys.executable)} -P -m unspool statusline"
    settings = {"statusLine": {"type": "command", "command": f"tee {shlex.quote(str(sent))} | {line}"}}
    (place.config / "settings.json").write_text(json.dumps(settings))
    with (
        Server({"hello": [Reply((says("Hi there."),), input_tokens=100_000)]}) as server,
        Interface(program, place, server.url) as interface,
    ):
        interface.say("hello", interface.shows("Hi there."))
        interface.until(interface.shows("context 100k"), "the status line does not show the context")
        shown = next(line.strip() for line in interface.seen.splitlines() if "context 100k" in line)
    given = parse_status_input(sent.read_bytes())
    assert given.model_name
    assert given.context_tokens == 100_000
    assert given.version == program.version
    assert shown.startswith(f"{given.model_name} | feature/line | context 100k, ")
    assert "session ~$" in shown or "session $" in shown
