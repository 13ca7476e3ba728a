"""Writes the damaged sessions of the demo."""

from __future__ import annotations

from datetime import timedelta

from unspool.demo.files import HOME, Project
from unspool.demo.program import ProgramSettings, SimulatedProgram, shift_time
from unspool.demo.tool_calls import ToolSimulator
from unspool.demo.usage import HAIKU
from unspool.format import encode_json

_SCRIPT = ProgramSettings(model=HAIKU, entrypoint="sdk-cli", version="2.1.200")


def project(shift: timedelta = timedelta()) -> Project:
    """Return the project with the damaged sessions."""
    tools = ToolSimulator(f"{HOME}/notes", {"todo.md": "- water the plants\n- call the harbour master\n"}, shift=shift)
    return Project(tools, [doubled(tools), torn(tools), future(tools)])


def torn(tools: ToolSimulator) -> SimulatedProgram:
    """A session that ends in the middle of a line, as after a power failure."""
    run = SimulatedProgram("torn", tools, "2026-11-02T21:47:55.310Z", _SCRIPT)
    run.prompt("What is on my list?")
    run.answer(tools.read("todo.md"))
    run.answer("Water the plants, and call the harbour master.")
    line = run.writer.lines[-1]
    # Nothing follows, and no line end: a reader must not take it for a line yet.
    run.writer.lines.append(line[: len(line) // 3])
    return run


def doubled(tools: ToolSimulator) -> SimulatedProgram:
    """A session with two documents in one line, as when two processes write at once."""
    run = SimulatedProgram("doubled", tools, "2026-10-28T07:15:02.940Z", _SCRIPT)
    run.prompt("Is there anything for today?")
    run.answer("Only the plants.")
    run.write_state()
    # The line end of the first document is missing: readers must take the line apart.
    last = run.writer.lines.pop().rstrip(b"\n")
    title = encode_json({"type": "ai-title", "aiTitle": "What to do today", "sessionId": run.id})
    run.writer.lines.append(last + title + b"\n")
    return run


def future(tools: ToolSimulator) -> SimulatedProgram:
    """A session of a later version with unknown record types, attachments and blocks."""
    setting = ProgramSettings(version="2.4.0", model=HAIKU, entrypoint="sdk-cli")
    run = SimulatedProgram("future", tools, "2026-11-13T06:30:00.000Z", setting)
    run.prompt("Remind me of the harbour master at nine.")
    run.attach("weather_report", sky="clear", wind={"from": "NW", "knots": 12})
    run.note("reminder-set", at=shift_time("2026-11-13T09:00:00.000Z", tools.shift), words="call the harbour master")
    run.answer({"type": "hologram", "shape": "bell"}, "I'll ring at nine.")
    run.system("tide_turned", "High water", level="info")
    run.close()
    return run
