"""Writes the sessions of the demo that happen now: one asks for permission, one works, one has answered.

They have the shape of 2.1.29. Newer versions list their processes in `sessions/`, and a session without a process that
is alive has ended; before that, what a session is doing is judged by its lines.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from unspool.demo.files import HOME, Project
from unspool.demo.program import ProgramSettings, SimulatedProgram
from unspool.demo.session_builder import tool_use
from unspool.demo.tool_calls import ToolSimulator, shell
from unspool.format import format_timestamp

_OPUS, _SONNET = "claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929"
_FILES = {
    "site/index.html": "<h1>Harbour times</h1>\n<p>High water at 06:12 and 18:37.</p>\n",
    "site/style.css": "body { font: 16px sans-serif; }\n",
    "README.md": "# harbour-site\n\nThe tide tables as a web page.\n",
}


def project(now: datetime) -> Project:
    """Return the project whose sessions happen at `now`."""
    tools = ToolSimulator(f"{HOME}/code/harbour-site", _FILES)
    return Project(tools, [answered(tools, now), asking(tools, now), working(tools, now)])


def answered(tools: ToolSimulator, now: datetime) -> SimulatedProgram:
    """Return a session whose turn ended some minutes ago."""
    run = _start("harbour style", tools, now - timedelta(minutes=26), _SONNET, "main")
    run.prompt("Make the text larger on phones.")
    run.answer("I'll read the style first.", tools.read("site/style.css"))
    rule = "body { font: 16px sans-serif; }\n@media (max-width: 40em) { body { font-size: 20px; } }"
    run.answer(tools.edit("site/style.css", "body { font: 16px sans-serif; }", rule))
    run.answer("On screens narrower than 40em the text is now 20 pixels high.")
    run.end_turn()
    return run


def asking(tools: ToolSimulator, now: datetime) -> SimulatedProgram:
    """Return a session that waits for permission to push."""
    run = _start("harbour publish", tools, now - timedelta(minutes=6), _OPUS, "publish")
    run.prompt("Publish the tide tables for next week.")
    run.answer("First the check.", shell("make check", "3 pages, no broken links", about="Check the pages", seconds=9))
    push = tool_use("Bash", command="git push origin publish", description="Publish the pages")
    run.answer("The pages are fine. I'll push them.", push)
    return run


def working(tools: ToolSimulator, now: datetime) -> SimulatedProgram:
    """Return a session that was given a prompt a minute ago."""
    run = _start("harbour map", tools, now - timedelta(seconds=70), _OPUS, "map")
    run.prompt("Add a map of the harbour to the page.")
    run.answer("I'll look at the page.", tools.read("site/index.html"))
    return run


def _start(name: str, tools: ToolSimulator, start: datetime, model: str, branch: str) -> SimulatedProgram:
    setting = ProgramSettings(version="2.1.29", model=model, branch=branch)
    return SimulatedProgram(name, tools, format_timestamp(start), setting)
