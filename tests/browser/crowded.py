"""A config folder whose sessions have what made pages too wide, cut or too small: long names, long titles, odd orders.

Each session was made after a real one whose page broke a rule of `measuring.py`; no word of the real one is in it.
"""

from __future__ import annotations

from pathlib import Path

from unspool.testing.build import Built, Json, Step, assistant, session, tool_result, tool_use, user, wait

LONG, OPENING, STEPS = (f"c40bded0-0000-4000-8000-00000000000{number}" for number in range(3))
PROJECT = "1862-track-local-run-start-end-12-01-124500-of-the-harbour-gauges"
PROMPT = (
    "So the most private option is obviously to use the public key of the user from the key pair that harbours keep. "
    "The way this looks is odd. How would anybody find out which key is theirs if they wanted to share a gauge with me?"
)
FILE = f"/home/me/{PROJECT}/src/harbour_gauges_with_a_long_name/measurements_of_the_northern_coast.py"
AGENT = "c4000000000000001"
LOST = "c4000000000000002"
CALL, LOST_CALL = "toolu_01crowded0000000000000001", "toolu_01crowded0000000000000002"
MCP = "mcp__northern-coast-gauges-and-tide-tables__list_every_measurement_of_a_harbour"
STEPS_OF_A_TURN = 150
"""More than a page puts into one part of a turn."""


def build(config: Path) -> None:
    """Write the folder."""
    long_names().save(config)
    path = long_turn().save(config)
    copied = config / "projects" / "-home-me-another-folder-with-the-same-session" / path.name
    copied.parent.mkdir(parents=True)
    copied.write_bytes(path.read_bytes())
    _agent().save_agent(config, agentType="general-purpose", description="Search everything", toolUseId=CALL)
    opening().save(config)


def long_names() -> Built:
    """Return a session with long names in every place where there can be one."""
    return session(
        user(PROMPT),
        *_order(CALL, AGENT, f"Search all documents of {PROJECT} for the keys"),
        *_order(LOST_CALL, LOST, "Search the tests"),
        assistant(tool_use(MCP, id="m", harbour="north" * 40)),
        tool_result("measurement " * 4_000, id="m"),
        assistant(tool_use("Read", id="r", file_path=FILE)),
        tool_result("1\tGAUGES = 3\n" * 400, id="r"),
        *_same_call(),
        assistant(tool_use("ExitPlanMode", id="p", plan="# Gauges"), usage=_usage(60_000)),
        wait(900),
        tool_result("The plan was rejected: measure the northern coast first, then the others", id="p", error=True),
        *_write("/home/me/notes.txt", "one line"),
        *_changes(),
        assistant("Done.", usage=_usage(90_000)),
        id=LONG, cwd=f"/home/me/{PROJECT}", branch="feature/phase-14-share-gauges-between-harbours",
        start="2026-03-02T10:00:00.000Z",
    )  # fmt: skip


def opening() -> Built:
    """Return a session whose first line is an answer, with headings of its own."""
    return session(
        assistant("## What was done before\n\nEverything.\n\n### The rest\n\nNothing."),
        user("Go on."),
        assistant("It is done."),
        id=OPENING, cwd="/home/me/gauges", start="2026-03-02T09:00:00.000Z",
    )  # fmt: skip


def long_turn() -> Built:
    """Return a session with a turn of several parts; each begins with a long answer."""
    steps: list[Step] = [user(f"Measure every harbour. {PROMPT}")]
    for number in range(STEPS_OF_A_TURN):
        words = (
            f"Now the {number}th harbour, which lies between two others and has a gauge that nobody has read for years."
        )
        steps += [
            assistant(words, tool_use("Bash", id=f"b{number}", command=f"measure {number}"), usage=_usage(150_000))
        ]
        steps += [tool_result("Exit code 1", id=f"b{number}", error=number % 3 == 0)]
    return session(*steps, assistant("Measured."), id=STEPS, cwd="/home/me/gauges", start="2026-03-02T08:00:00.000Z")


def _usage(context: int) -> Json:
    return {
        "input_tokens": 10, "cache_creation_input_tokens": 4_000, "cache_read_input_tokens": context,
        "output_tokens": 900,
    }  # fmt: skip


def _order(call: str, agent: str, about: str) -> list[Step]:
    use = tool_use("Agent", id=call, description=about, prompt="Search.", subagent_type="general-purpose")
    structured = {"status": "completed", "agentId": agent, "content": [{"type": "text", "text": "Found."}]}
    return [assistant(use, usage=_usage(20_000)), tool_result("Found.", id=call, structured=structured)]


def _agent() -> Built:
    steps = [user("Search."), assistant(tool_use("Grep", pattern="key")), tool_result("1 match"), assistant("Found.")]
    return session(*steps, id=LONG, cwd=f"/home/me/{PROJECT}", start="2026-03-02T10:00:02.000Z", agent=AGENT)


def _same_call() -> list[Step]:
    return [
        step
        for number in range(3)
        for step in (
            assistant(tool_use("Bash", id=f"same{number}", command="git status")),
            tool_result("nothing to commit", id=f"same{number}"),
        )
    ]


def _write(path: str, content: str) -> list[Step]:
    structured: Json = {
        "type": "create",
        "filePath": path,
        "content": content,
        "structuredPatch": [],
        "originalFile": None,
    }
    return [
        assistant(tool_use("Write", id="w", file_path=path, content=content)),
        tool_result("ok", id="w", structured=structured),
    ]


def _changes() -> list[Step]:
    """Change many places of one long file, so that its review has many hunks below a header that stays."""
    before = [f"GAUGE_{number} = {number}" for number in range(600)]
    steps: list[Step] = []
    for number in range(12):
        at = 20 + number * 45
        old, new = before[at], f"GAUGE_{at} = None"
        hunk = {"oldStart": at + 1, "oldLines": 1, "newStart": at + 1, "newLines": 1, "lines": [f"-{old}", f"+{new}"]}
        structured = {
            "filePath": FILE, "oldString": old, "newString": new, "originalFile": "\n".join(before),
            "structuredPatch": [hunk], "userModified": False, "replaceAll": False,
        }  # fmt: skip
        use = tool_use("Edit", id=f"e{number}", file_path=FILE, old_string=old, new_string=new)
        steps += [assistant(use), tool_result("ok", id=f"e{number}", structured=structured)]
        before[at] = new
    return steps
