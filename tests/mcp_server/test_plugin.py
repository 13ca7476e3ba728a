"""The plugin folder: its files are valid, and name tools and commands that exist."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from unspool.mcp_server.tools import TOOLS

PLUGIN = Path(__file__).parents[2] / "plugin"


def front_matter(path: Path) -> dict[str, str]:
    """Return the fields above the text of a Markdown file."""
    _, fields, _ = path.read_text().split("---\n", 2)
    return {name: value.strip() for name, _, value in (line.partition(":") for line in fields.splitlines())}


def test_the_plugin_starts_our_server_and_names_tools_that_it_has() -> None:
    assert json.loads((PLUGIN / ".claude-plugin" / "plugin.json").read_text())["name"] == "unspool"
    servers = json.loads((PLUGIN / ".mcp.json").read_text())["mcpServers"]
    assert servers == {"unspool": {"command": "unspool", "args": ["mcp"]}}
    allowed = front_matter(PLUGIN / "commands" / "recall.md")["allowed-tools"].split(", ")
    assert {name.removeprefix("mcp__plugin_unspool_unspool__") for name in allowed} <= set(TOOLS)
    skill = PLUGIN / "skills" / "session-history" / "SKILL.md"
    assert front_matter(skill)["name"] == skill.parent.name
    named = set(re.findall(r"`(\w+_\w+)", skill.read_text()))
    assert named - {"token_budget"} <= set(TOOLS)


def test_the_hook_is_quiet_where_unspool_is_not_installed() -> None:
    (start,) = json.loads((PLUGIN / "hooks" / "hooks.json").read_text())["hooks"]["SessionStart"]
    (hook,) = start["hooks"]
    done = subprocess.run(
        ["/bin/sh", "-c", hook["command"]], env={"PATH": "/nowhere"}, input="{}", capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
