"""A config folder in which everything happens that a page has to show, with numbers that are known to the last one.

Rules
  1. Nothing here is computed by the code that is tested: what the page must say is in `EXPECTED`, added up from the
     numbers that the lines below are given.
  2. Everything in the main session is told at the default depth; `VISIBLE` says by which words it is recognised.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from tests.browser import showcase_beside as beside
from unspool.testing.build import (
    Built,
    Json,
    Step,
    assistant,
    attachment,
    compaction,
    image,
    note,
    queued,
    raw,
    rewind,
    session,
    system,
    text,
    thinking,
    tool_result,
    tool_use,
    user,
    wait,
)
from unspool.testing.pictures import as_text, curve, table

ID = "5ca1ab1e-0000-4000-8000-000000000001"
CWD = "/home/me/shop"
TITLE = "Make the cart total right"
OPUS = "claude-opus-4-5-20251101"
PR = "https://git.example.com/me/shop/pull/42"
PASTED, SCREENSHOT = table(), curve()
FILES = [f"{CWD}/src/shop/{name}.py" for name in (
    "cart", "prices", "taxes", "coupons", "stock", "orders", "users", "mail", "api", "views", "money", "settings",
)]  # fmt: skip


class Spent(NamedTuple):
    """Tokens of one request: fresh input, written to the cache for five minutes, read from it, output."""

    fresh: int
    written: int
    read: int
    output: int

    @property
    def usage(self) -> Json:
        """As the API tells it."""
        return {
            "input_tokens": self.fresh,
            "cache_creation_input_tokens": self.written,
            "cache_read_input_tokens": self.read,
            "cache_creation": {"ephemeral_5m_input_tokens": self.written, "ephemeral_1h_input_tokens": 0},
            "output_tokens": self.output,
        }


class Ledger:
    """Remembers what every request of a session was given, so that its sums are known."""

    def __init__(self, start: int) -> None:
        self.requests: list[Spent] = []
        self.context = start
        """Tokens that the next request begins with."""

    def answer(self, *content: str | Json, adds: int = 5_000, output: int = 100, **fields: Any) -> Step:
        """An answer; its request has `adds` tokens that no request before had."""
        spent = Spent(5, adds, self.context, output)
        self.requests.append(spent)
        self.context += adds
        return assistant(*content, model=OPUS, usage=spent.usage, **fields)

    @property
    def cost_micros(self) -> int:
        """Millionths of a dollar: 5, 6.25, 0.5 and 25 dollars for a million tokens."""
        return sum(
            round(spent.fresh * 5 + spent.written * 6.25 + spent.read * 0.5 + spent.output * 25)
            for spent in self.requests
        )


def build(config: Path) -> None:
    """Write the folder."""
    main_session().save(config)
    beside.write(config)


def main_session() -> Built:
    """Return the session."""
    return session(
        *_steps(Ledger(20_000)), id=ID, cwd=CWD, branch="cart-total", start="2026-03-02T10:00:00.000Z", slug=beside.SLUG
    )


def first_call() -> str:
    """Return the key of the first tool call of the main session."""
    offset = 0
    for line in main_session().data.splitlines(keepends=True):
        message = json.loads(line).get("message") or {}
        for number, block in enumerate(message["content"] if isinstance(message.get("content"), list) else ()):
            if block.get("type") == "tool_use":
                return f"{offset}.{number}"
        offset += len(line)
    raise AssertionError("the session has no tool call")


def ledger() -> Ledger:
    """Return what the requests of the main session were given."""
    made = Ledger(20_000)
    _steps(made)
    return made


def _steps(said: Ledger) -> list[Step]:
    return [
        *_look(said),
        *_fix(said),
        *_ask(said),
        *_agents(said),
        *_rewind(said),
        *_compacted(said),
        *_strange(said),
        *_interrupted(said),
    ]


def _look(said: Ledger) -> list[Step]:
    """A pasted picture, a dozen reads in a row, three calls at once, a screenshot of an MCP server."""
    question = "[Image #1] The total in this screenshot is wrong. Find out why."
    first = said.answer(
        thinking("The fourth row is off by forty cents. Either a tax is missing or something is rounded."),
        "I'll read everything that touches the total.",
    )
    reads: list[Step] = []
    for number, path in enumerate(FILES):
        body = f"1\t# {path.rpartition('/')[2]}\n2\tANSWER = {number}"
        file = {"filePath": path, "content": body, "numLines": 2, "startLine": 1, "totalLines": 2}
        reads += [
            said.answer(tool_use("Read", file_path=path)),
            tool_result(body, structured={"type": "text", "file": file}),
        ]
    shot = [text("Took a screenshot of /cart"), image(as_text(SCREENSHOT))]
    found = "src/shop/cart.py:399:    total = round(total, 0)"
    return [
        note("ai-title", aiTitle=TITLE),
        user(image(as_text(PASTED)), text(question), imagePasteIds=[1]),
        first,
        *reads,
        said.answer(
            "Three things at once.",
            tool_use("Grep", pattern="round\\(", path="src"),
            tool_use("Bash", command="git log --oneline -3", description="Look at the history"),
            tool_use("Glob", pattern="tests/**/*.py"),
        ),
        tool_result(found, structured={"mode": "content", "numFiles": 1, "content": found, "numLines": 1}),
        tool_result("a1b2c3d Round the total", structured=_shell("a1b2c3d Round the total")),
        tool_result(
            "tests/test_cart.py",
            structured={"filenames": ["tests/test_cart.py"], "durationMs": 9, "numFiles": 1, "truncated": False},
        ),
        said.answer(tool_use("mcp__browser__screenshot", url="http://localhost:8000/cart")),
        wait(3),
        tool_result(shot, structured=shot),
    ]


RED = "\x1b[31m\x1b[1mFAILED\x1b[0m tests/test_cart.py::test_total - assert \x1b[32m41.6\x1b[0m == \x1b[31m42.0\x1b[0m"


def _fix(said: Ledger) -> list[Step]:
    """A failing command in colours, a patch far down in a file, a hook that fails, a pull request."""
    failed = f"Exit code 1\n{RED}\n1 failed, 11 passed in 0.52s"
    path = f"{CWD}/src/shop/cart.py"
    old, new = "    total = round(total, 0)\n", "    total = total.quantize(CENT)\n    check(total)\n    log(total)\n"
    lines = [
        "     for item in items:", "         total += item.price", " ", "-    total = round(total, 0)",
        "+    total = total.quantize(CENT)", "+    check(total)", "+    log(total)", "     return total", " ", " ",
    ]  # fmt: skip
    patch = {"oldStart": 396, "oldLines": 7, "newStart": 396, "newLines": 9, "lines": lines}
    structured = {
        "filePath": path, "oldString": old, "newString": new, "originalFile": None, "structuredPatch": [patch],
        "userModified": False, "replaceAll": False,
    }  # fmt: skip
    use = tool_use("Edit", file_path=path, old_string=old, new_string=new, replace_all=False)
    hooks = [{"command": "ruff check", "durationMs": 120}, {"command": "notify-send done", "durationMs": 12}]
    return [
        said.answer(tool_use("Bash", command="uv run pytest -q --color=yes", description="Run the tests")),
        wait(11),
        tool_result(failed, error=True, structured=f"Error: {failed}"),
        said.answer("The total is rounded to whole coins. It has to keep its cents.", use),
        tool_result(f"The file {path} has been updated successfully.", structured=structured),
        said.answer(tool_use("Bash", command="uv run pytest -q", description="Run the tests")),
        wait(4),
        tool_result("12 passed in 0.48s", structured=_shell("12 passed in 0.48s")),
        said.answer(beside.LONG_ANSWER, output=700),
        system(
            "stop_hook_summary", hookCount=2, hookInfos=hooks, hookErrors=["notify-send: no display"],
            preventedContinuation=False, stopReason="", hasOutput=True, level="suggestion",
        ),
        system("turn_duration", durationMs=69_000, messageCount=44),
        note("pr-link", prNumber=42, prUrl=PR, prRepository="me/shop", timestamp="2026-03-02T10:01:30.000Z"),
    ]  # fmt: skip


QUESTION = "How should half a cent be rounded?"
OPTIONS = ("Half even", "Half up", "Truncate")


def _ask(said: Ledger) -> list[Step]:
    options = [{"label": label, "description": f"Round {label.lower()}"} for label in OPTIONS]
    asked = [{"question": QUESTION, "header": "Rounding", "options": options, "multiSelect": False}]
    words = f'User has answered your questions: "{QUESTION}"="Half up". You can now continue.'
    return [
        wait(120),
        user("What about half a cent?"),
        said.answer(tool_use("AskUserQuestion", questions=asked)),
        wait(29),
        tool_result(words, structured={"questions": asked, "answers": {QUESTION: "Half up"}}),
        said.answer("Half a cent is rounded up from now on."),
    ]


def _agents(said: Ledger) -> list[Step]:
    """Three at once; the second starts one of its own. Their files are beside this one."""
    orders = beside.ORDERS
    reports: list[Step] = []
    for order in orders:
        structured = {
            "status": "completed", "prompt": order.prompt, "agentId": order.agent, "agentType": order.kind,
            "content": [text(order.report)], "totalDurationMs": 30_000, "totalTokens": 4_321,
            "totalToolUseCount": 1, "resolvedModel": beside.HAIKU,
        }  # fmt: skip
        reports += [wait(9), tool_result([text(order.report)], id=order.call, structured=structured)]
    calls = [
        tool_use("Agent", id=order.call, description=order.about, prompt=order.prompt, subagent_type=order.kind)
        for order in orders
    ]
    return [
        wait(60),
        user("Check the whole shop with agents."),
        said.answer("Three agents: code, tests, documents.", *calls),
        *reports,
        said.answer("The agents found one more place, in `orders.py`."),
    ]


ABANDONED, KEPT = "Rewrite full output in Rust.", "Keep it in Python and add a test."
NEW_FILE = "".join(f"def test_{number}() -> None: ...\n" for number in range(8))


def _rewind(said: Ledger) -> list[Step]:
    """A prompt that is taken back; another in its place. Something is typed while the model works."""
    path = f"{CWD}/tests/test_orders.py"
    written: Json = {
        "type": "create", "filePath": path, "content": NEW_FILE, "structuredPatch": [], "originalFile": None,
        "userModified": False,
    }  # fmt: skip
    return [
        wait(30),
        user(ABANDONED),
        said.answer("I'd begin with the types.", tool_use("Bash", command="cargo init", description="Begin")),
        tool_result("Created binary package", structured=_shell("Created binary package")),
        said.answer("There is a crate now."),
        rewind(),
        wait(45),
        user(KEPT),
        said.answer(tool_use("Write", file_path=path, content=NEW_FILE)),
        queued("And mention it in the changelog"),
        tool_result(f"File created successfully at: {path}", structured=written),
        said.answer("`tests/test_orders.py` has eight tests, and the changelog a line."),
    ]


COMPACTED = (155_000, 9_400)
"""Tokens before and after."""
SUMMARY = "The cart total keeps its cents. Half a cent is rounded up. One more place is in `orders.py`."


def _compacted(said: Ledger) -> list[Step]:
    """The context is full; then a command in the background, and an API that is overloaded."""
    assert said.context == COMPACTED[0]
    said.context = COMPACTED[1]
    overloaded: Json = {
        "error": {"message": "529 Overloaded", "status": 529, "formatted": "529 Overloaded"},
        "level": "error", "retryInMs": 512, "retryAttempt": 1, "maxRetries": 10,
    }  # fmt: skip
    started = {**_shell(""), "backgroundTaskId": "bimport01"}
    notice = (
        "<task-notification>\n<task-id>bimport01</task-id>\n<status>completed</status>\n"
        "<summary>Background command finished</summary>\n</task-notification>"
    )
    return [
        compaction(SUMMARY, before=COMPACTED[0], postTokens=COMPACTED[1], durationMs=31_000),
        user("Run the long import in the background."),
        said.answer(
            tool_use("Bash", command="python -m shop.import", description="Import", run_in_background=True), adds=2_000
        ),
        tool_result("Command running in background with ID: bimport01.", structured=started),
        wait(20),
        user(notice, origin={"kind": "task-notification"}, promptSource="system"),
        system("api_error", **overloaded),
        said.answer("The import is through: 1,204 rows."),
    ]


def _strange(said: Ledger) -> list[Step]:
    """What no version is known to write, and a line that was never finished."""
    return [
        user("Show me the hologram."),
        attachment("weather_report", sky="clear", knots=12),
        note("hologram-state", shape="bell", turning=True),
        said.answer({"type": "hologram", "shape": "bell"}, "There it is."),
        system("tide_turned", "High water", level="info"),
        raw(b'{"type":"user","message":{"role":"user","content":"never fini\n'),
    ]


def _interrupted(said: Ledger) -> list[Step]:
    return [
        wait(15),
        user("Delete the old branch."),
        said.answer(tool_use("Bash", command="git branch -D old", description="Delete it")),
        wait(2),
        user(text("[Request interrupted by user for tool use]")),
    ]


def _shell(output: str) -> Json:
    return {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}


class Expected(NamedTuple):
    """What a page must say of the main session, by hand."""

    prompts: int = 8
    """Those that a person typed and did not take back: seven, and one while the model worked."""
    abandoned: int = 1
    calls: int = 27
    """12 reads, 3 at once, a screenshot, 2 runs of the tests, an edit, a question, 3 agents, a crate, a file,
    an import, a branch."""
    failed: int = 1
    added: int = 11
    """3 in the edit, 8 in the new file."""
    removed: int = 1
    agents: int = 4
    compactions: int = 1
    requests: int = 31
    failing_bash_seconds: int = 12
    question_seconds: int = 30
    patch_line: int = 399


EXPECTED = Expected()
VISIBLE: dict[str, str] = {
    "the prompt": "The total in this screenshot is wrong",
    "the MCP screenshot": "mcp__browser__screenshot",
    "a dozen reads": "12 reads",
    "the failing command": "uv run pytest -q --color=yes",
    "the patch": "src/shop/cart.py",
    "the hook that failed": "notify-send",
    "the question": QUESTION,
    "the chosen answer": "Half up",
    "an agent": "Search the code",
    "an agent of an agent": "Count the tests",
    "the branch that was left": ABANDONED,
    "the branch that was kept": KEPT,
    "what was typed meanwhile": "And mention it in the changelog",
    "the compaction": "155",
    "the command in the background": "python -m shop.import",
    "the API error": "529 Overloaded",
    "the unknown record": "hologram-state",
    "the unknown block": "hologram",
    "the pull request": "42",
    "the interrupt": "interrupted",
}
"""Everything that has to be seen without a click, by words it is told in."""
