"""The demo project about birds.

Pictures and a PDF in prompts and results (2.1.325), commands, skills and shell lines (2.1.200).
"""

from __future__ import annotations

from base64 import b64encode
from datetime import timedelta

from unspool.demo.files import CONFIG, HOME, Project
from unspool.demo.png import as_text, curve, table
from unspool.demo.program import ProgramSettings, SimulatedProgram, compact, own_command, shell_line, skill, slash
from unspool.demo.session_builder import Json, document, image, text, tool_use
from unspool.demo.texts import BIRD_FILES, pdf
from unspool.demo.tool_calls import SimulatedCall, ToolSimulator, shell
from unspool.demo.usage import SONNET

_PDF = pdf("Meise 12, Amsel 4")
_EMPTY, _DESIGN, _FULL = as_text(table(rows=1, wrong=0)), as_text(curve(waves=1.5)), as_text(table(wrong=-1))
"""The page as the user saw it, the drawing in the project, and the page as it is in the end."""


def project(shift: timedelta = timedelta()) -> Project:
    """Return the bird project."""
    # A name with umlaut, underscore and dot: Claude Code replaces all of them in the name of the project's folder.
    tools = ToolSimulator(f"{HOME}/Projekte/vogel_zähler.app", BIRD_FILES, shift=shift)
    return Project(tools, [release(tools), pictures(tools)])


def pictures(tools: ToolSimulator) -> SimulatedProgram:
    """Return a session with pictures and a PDF in prompts and results."""
    setting = ProgramSettings(branch="heute-seite", model=SONNET)
    run = SimulatedProgram("pictures", tools, "2026-11-05T18:31:09.777Z", setting)
    words = "[Image #1] Die Liste auf der Seite „Heute“ ist leer. Siehst du, warum?"
    run.prompt(image(_EMPTY), text(words), shown=words, imagePasteIds=[1])
    run.inject_user_line([text("[Image: source: /tmp/paste/1.png]")], isMeta=True)
    run.answer("Ich sehe mir Bild, Ansicht und Vorlage an.", _picture(tools), tools.read("vogel/views.py"))
    run.answer(
        "Die Vorlage heißt die Liste `arten`, die Ansicht liefert aber gar keine. Ich ergänze das. 🐦",
        tools.edit("vogel/views.py", "PAGE = 40\n", 'PAGE = 40\nARTEN = ("Amsel", "Meise", "Grünfink")\n'),
    )
    run.answer("Ein Blick auf die Seite.", _screenshot(), attributionMcpServer="browser")
    run.answer("`heute.html` bekommt jetzt `ARTEN`; die Liste ist nicht mehr leer.")
    run.end_turn(title="Leere Artenliste auf „Heute“")
    data = b64encode(_PDF).decode()
    run.prompt(text("Hier ist die Zählung vom Samstag. Übernimm die Zahlen."), document(data), pause=320)
    run.answer(_scan(tools, data), shell("ls -1 data", "", about="Look for the data folder"))
    run.answer(
        tools.write("data/2026-11-07.csv", "art,zahl\nMeise,12\nAmsel,4\n"),
        _background("python -m vogel.import data/2026-11-07.csv"),
    )
    _task_done(run)
    run.answer("Zwölf Meisen und vier Amseln sind eingetragen.")
    run.end_turn()
    run.close()
    return run


def release(tools: ToolSimulator) -> SimulatedProgram:
    """Return a session with commands: the user's own, a skill, built-in ones and shell lines."""
    setting = ProgramSettings(version="2.1.200", branch="main", model="claude-haiku-4-5-20251001", mode="acceptEdits")
    run = SimulatedProgram("release", tools, "2026-10-22T14:12:31.004Z", setting)
    own_command(run, "count", "since v1.2", "Count the commits since v1.2 and group them by folder.")
    log = shell("git log --oneline v1.2..", "9d0c1aa Heute-Seite\n51f2e07 Grünfink zählt", about="List the commits")
    run.answer("I'll look at the log.", log)
    run.answer("Two commits since v1.2: one in `vogel/templates`, one in `vogel`.", attributionSkill="count")
    run.end_turn()
    shell_line(run, "git describe --tags", "v1.2-2-g9d0c1aa")
    run.prompt("Write the release notes.", pause=12)
    body = "Read the commits, group them, write one line for each."
    skill(run, "release-notes", "v1.3", body, folder=f"{CONFIG}/skills/release-notes")
    run.attach("command_permissions", allowedTools=["Write"])
    run.answer(tools.write("NOTES.md", "# v1.3\n\n- Die Seite „Heute“ zeigt alle Arten.\n- Grünfinken zählen mit.\n"))
    run.answer("The notes for v1.3 are in `NOTES.md`.", attributionSkill="release-notes")
    run.end_turn()
    slash(run, "usage", "", "Settings dialog dismissed")
    run.wait(1_900)
    run.system("away_summary", "While you were away: the notes are written, the tag is missing.", isMeta=False)
    run.wait(33)
    summary = "The notes for v1.3 were written to NOTES.md from two commits. The tag is still to be made."
    compact(run, "keep the version number", summary, keep=3)
    run.attach("invoked_skills", skills=[{"name": "release-notes", "path": "userSettings", "content": body}])
    run.prompt("Tag it.", pause=25)
    run.answer(shell("git tag v1.3", "", about="Tag the release"))
    run.answer("Tagged v1.3.")
    run.end_turn()
    run.close()
    return run


def _picture(tools: ToolSimulator) -> SimulatedCall:
    size = {"originalWidth": 240, "originalHeight": 96, "displayWidth": 240, "displayHeight": 96}
    file = {"base64": _DESIGN, "type": "image/png", "originalSize": len(_DESIGN) * 3 // 4, "dimensions": size}
    use = tool_use("Read", file_path=tools.path("static/heute.png"))
    return SimulatedCall(use, [image(_DESIGN)], {"type": "image", "file": file})


def _screenshot() -> SimulatedCall:
    """Return a call of an MCP server's tool that returns a picture."""
    content = [text("Took a screenshot of http://localhost:8000/heute"), image(_FULL)]
    use = tool_use("mcp__browser__screenshot", url="http://localhost:8000/heute")
    return SimulatedCall(use, content, content, seconds=1.6)


def _scan(tools: ToolSimulator, data: str) -> SimulatedCall:
    path = tools.path("data/samstag.pdf")
    words = f"PDF file read: {path} ({len(_PDF)} bytes)"
    file = {"filePath": path, "base64": data, "originalSize": len(_PDF)}
    return SimulatedCall(tool_use("Read", file_path=path), words, {"type": "pdf", "file": file})


def _background(command: str) -> SimulatedCall:
    use = tool_use("Bash", command=command, description="Import the counts", run_in_background=True)
    ran = shell(command, "", about="", backgroundTaskId="b3vogel9k")
    return SimulatedCall(use, "Command running in background with ID: b3vogel9k.", ran.structured)


def _task_done(run: SimulatedProgram) -> None:
    """Write the notification of a background command that ends while the model works."""
    words = (
        f"<task-notification>\n<task-id>b3vogel9k</task-id>\n<tool-use-id>{run.last_call}</tool-use-id>\n"
        "<status>completed</status>\n<summary>Background command finished</summary>\n</task-notification>"
    )
    run.note_queue("enqueue", content=words)
    ids = {"commandUuid": run.writer.ids.uuid(), "deliveryId": run.writer.ids.uuid()}
    run.note_queue("remove", content=words, reason="absorbed_mid_turn", **ids)
    origin = {"kind": "task-notification", "producer": "session-task"}
    data: Json = {"prompt": words, "commandMode": "task-notification", "origin": origin, "timestamp": run.now}
    run.attach("queued_command", words, **data)
