"""The long story of the demo: a slow tide table is made fast, planned further, and goes on after a compaction.

One session of several turns over two days (2.1.325): parallel calls, a failing test, tasks, a web search, a
queued prompt, an output too long for its line, a plan, a pull request, a name.
"""

from __future__ import annotations

from typing import Any

from unspool.testing.build import Json, text, thinking, tool_use
from unspool.testing.demo.commands import rename
from unspool.testing.demo.desk import Call, Desk, failing_shell, new_task, search, shell, task_status
from unspool.testing.demo.files import CONFIG, keep_output
from unspool.testing.demo.program import Program, Setting, silent
from unspool.testing.demo.texts import CACHE, OFFLINE_PLAN, SUMMARY, benchmark_log

SLUG = "salty-humming-harbour"
PLAN = f"{CONFIG}/plans/{SLUG}.md"
TITLE = "Speed up the tide table"

_TASKS = (
    ("Read each station once", "Call load() outside the loop over days", "Moving load out of the loop"),
    ("Turn the test around", "It expects the station to be read for each day", "Turning the test around"),
    ("Cache stations", "A second table of the same harbour should not read the file again", "Adding the cache"),
)
_FAILURE = """.\x1b[31mF\x1b[0m
=================================== FAILURES ===================================
\x1b[31m\x1b[1m__________________ test_the_station_is_read_for_each_day ___________________\x1b[0m
\x1b[1m\x1b[31mE       assert 1 == 3\x1b[0m
\x1b[1m\x1b[31mE        +  where 1 = len(['Example Harbour'])\x1b[0m
\x1b[1m\x1b[31mtests/test_table.py\x1b[0m:19: AssertionError
\x1b[31m\x1b[1m1 failed\x1b[0m, \x1b[32m1 passed\x1b[0m\x1b[31m in 0.31s\x1b[0m"""


def tide_cache(desk: Desk) -> Program:
    """Tell it."""
    setting = Setting(branch="tide-cache", mode="acceptEdits", cache="1h", slug=SLUG)
    run = Program("tide cache", desk, "2026-11-09T08:41:07.412Z", setting)
    run.open()
    _hook(run, "hook_success", "SessionStart:startup", "up to date", **_ran("git fetch --quiet", "up to date"))
    _find_the_cause(run)
    _fix_it(run)
    _look_it_up(run)
    _measure(run)
    rename(run, "tide-cache")
    _plan(run)
    _publish(run)
    _next_day(run)
    run.close()
    return run


def _find_the_cause(run: Program) -> None:
    desk = run.desk
    run.prompt("Printing a week of tides for one station takes four seconds. Find out why and fix it.")
    _hook(run, "hook_additional_context", "UserPromptSubmit", "3 tests are slow", content=["3 tests are slow"])
    almanac = "## almanac\nAsk for the moon by date."
    run.attach("mcp_instructions_delta", almanac, addedNames=["almanac"], addedBlocks=[almanac], removedNames=[])
    run.attach("auto_mode", "Work on without asking.", autoModeConsentFlow=False)
    run.answer(
        thinking("A table of 28 lines cannot take four seconds to compute. Something is read again and again."),
        "I'll look at the table, and at everything that loads a station.",
        desk.read("src/tidewatch/table.py"),
        desk.grep(r"load\("),
        desk.glob("**/*.py"),
        ready=(1, 2, 0),
    )
    run.attach("nested_memory", "src/tidewatch/CLAUDE.md: rows are strings.", **_memory(run))
    run.answer(
        silent(),
        "`table` calls `load` once for each day, and `load` reads all 4,200 stations. I'll note what to do.",
        *(new_task(number, *task) for number, task in enumerate(_TASKS, 1)),
    )
    run.tasks = [_task(number, "completed") for number in (1, 2, 3)]
    run.answer(task_status(1, "pending", "in_progress"), desk.read("src/tidewatch/harmonics.py", 29, 14))


def _fix_it(run: Program) -> None:
    desk = run.desk
    old = "        station = load(name)\n        start ="
    run.answer(
        "The station does not change between days, so it is read once, before the loop.",
        desk.edit("src/tidewatch/table.py", f"    for offset in range(days):\n{old}", _LOOP),
    )
    _hook(run, "hook_success", "PostToolUse:Edit", "1 file unchanged", **_ran("ruff format src", "1 file unchanged"))
    run.answer(failing_shell("uv run pytest -q --color=yes", _FAILURE, about="Run the tests"))
    run.attach("silent_turn_reminder", "Tell the user how it goes.", text="Tell the user how it goes.")
    run.answer(
        thinking("The test asserts the very thing that was slow. It has to be turned around, not satisfied."),
        "One test expects the station to be read three times. That was the defect, so the test changes.",
        desk.edit("tests/test_table.py", "test_the_station_is_read_for_each_day", "test_the_station_is_read_once"),
        desk.edit("tests/test_table.py", "assert len(calls) == 3", "assert len(calls) == 1"),
    )
    run.answer(
        shell("uv run pytest -q", "..\n2 passed in 0.12s", about="Run the tests", seconds=2.1),
        task_status(1, "in_progress", "completed"),
        task_status(2, "pending", "completed"),
    )
    run.answer(
        desk.write("src/tidewatch/cache.py", CACHE),
        desk.edit("src/tidewatch/table.py", "import Station, load, predict", "import Station, predict"),
    )
    run.answer(desk.edit("src/tidewatch/table.py", "station = load(name)", "station = cached_station(name)"))
    run.answer(
        desk.edit(
            "src/tidewatch/table.py",
            "from tidewatch.harmonics",
            "from tidewatch.cache import station as cached_station\nfrom tidewatch.harmonics",
        )
    )
    run.answer(
        shell("uv run pytest -q", "..\n2 passed in 0.11s", about="Run the tests", seconds=1.9),
        task_status(3, "pending", "completed"),
    )
    run.answer(
        "A week of tides now takes 0.02 s instead of 4 s.\n\n"
        "- `table` read the constants of all stations once a day; it reads them once.\n"
        "- `cache.station` keeps the last 64 stations, so a second table is free.\n"
        "- The test that expected three reads now expects one."
    )
    run.titles["ai-title"] = {"aiTitle": TITLE}
    run.end_turn(hook="uv run ruff check --quiet")


def _look_it_up(run: Program) -> None:
    desk = run.desk
    run.prompt("Mention the cache of @src/tidewatch in @README.md. Is it safe if two threads ask?", pause=540)
    folder = desk.path("src/tidewatch")
    names = "cache.py\nharmonics.py\ntable.py"
    run.attach("directory", names, role="user", path=folder, content=names, displayPath="src/tidewatch")
    readme = desk.read("README.md")
    content = {"type": "text", "file": readme.structured["file"]}
    words = f"Result of reading README.md:\n{readme.result}"
    path = desk.path("README.md")
    run.attach("file", words, role="user", filename=path, content=content, displayPath="README.md")
    found = {"functools, annotated": "https://docs.example.com/functools", "Caches": "https://example.com/caches"}
    said = "The cache stays coherent under threads, but a function may run twice for the same first call."
    run.answer("I'll check before I write it down.", search("lru_cache thread safety", found, said), searches=2)
    run.answer(
        desk.edit("README.md", "Times are local.\n", "Times are local.\nThe last 64 stations stay in memory.\n"),
    )
    run.answer("The moon, for the example in it.", _moon(), attributionMcpServer="almanac")
    run.attach("total_tokens_reminder", "Much is left.", text="<total_tokens>14200000 tokens left</total_tokens>")
    run.answer("README says so now. Two threads may read a station twice at first; the cache itself stays sound.")
    run.end_turn(hook="uv run ruff check --quiet")


def _measure(run: Program) -> None:
    run.prompt("Run the long benchmark over all harbours.", pause=75)
    log = shell("python bench/all.py", benchmark_log(1_600), about="Time every harbour", seconds=94)
    run.answer(
        "This takes about a minute and a half.",
        keep_output(run, "bq7kd02xw.txt", log),
        queued="Tell me the slowest harbour too, please",
    )
    failed: Json = {"stdout": "", "stderr": "notify: no display", "exitCode": 1, "durationMs": 12}
    _hook(run, "hook_non_blocking_error", "PostToolUse:Bash", None, command="notify-send done", **failed)
    _hook(run, "hook_system_message", "PostToolUse:Bash", None, content="The benchmark was noted.")
    run.answer("All 1,600 tables are done; none takes longer than 102 ms. The slowest is Null Point.")
    run.end_turn()


def _plan(run: Program) -> None:
    desk = run.desk
    run.prompt("Plan an offline mode. Do not write any code yet.", pause=210, permissionMode="plan")
    where: Json = {"planFilePath": PLAN, "planExists": False, "isSubAgent": False}
    run.attach("plan_mode", "Only plan, change nothing but the plan.", reminderType="full", **where)
    draft = OFFLINE_PLAN.replace("[x]", "[ ]")
    run.answer(silent(), "I'll write the plan down.", desk.write(PLAN, draft))
    approved = f"User has approved your plan. It has been saved to: {PLAN}"
    structured = {"plan": draft, "isAgent": False, "filePath": PLAN}
    run.answer(Call(tool_use("ExitPlanMode", plan=draft, planFilePath=PLAN), approved, structured, seconds=41))
    run.attach("plan_mode_exit", "Plan mode is over.", planFilePath=PLAN, planExists=True)
    run.answer(
        "Two tasks of the first phase are done already; I tick them.",
        desk.edit(PLAN, "- [ ] Ship `constants.csv`", "- [x] Ship `constants.csv`"),
        desk.edit(PLAN, "- [ ] Read each station once", "- [x] Read each station once"),
    )
    run.answer("The plan has three phases; the first is nearly done.")
    run.end_turn()


def _publish(run: Program) -> None:
    run.prompt("Commit this and open a pull request.", pause=65)
    committed = "[tide-cache 4be91c7] Read each station once\n 5 files changed, 31 insertions(+), 6 deletions(-)"
    commit: Json = {"gitOperation": {"commit": {"sha": "4be91c7", "kind": "committed"}}}
    url = "https://git.example.com/robin/tidewatch/pull/17"
    run.answer(
        shell("git add -A && git commit -qm 'Read each station once'", committed, about="Commit", **commit),
    )
    run.answer(shell("gh pr create --fill", url, about="Open a pull request", seconds=3.4))
    link = {"prNumber": 17, "prUrl": url, "prRepository": "robin/tidewatch", "timestamp": run.now}
    run.note("pr-link", sessionId=run.id, **link)
    run.answer(f"Opened {url}.")
    run.end_turn(hook="uv run ruff check --quiet")


def _next_day(run: Program) -> None:
    desk = run.desk
    run.prompt("Good morning. Go on with the first phase: say how old the constants are.", pause=74_000)
    run.attach("date_change", "Today is 2026-11-10.", newDate="2026-11-10")
    snippet = '2\tname = "tidewatch"\n3\tversion = "0.4.1"'
    desk.files["pyproject.toml"] = desk.files["pyproject.toml"].replace("0.4.0", "0.4.1")
    path = desk.path("pyproject.toml")
    run.attach("edited_text_file", "pyproject.toml was changed.", filename=path, snippet=snippet)
    run.compact(SUMMARY, keep=4)  # early, so that the file stays small
    run.attach("plan_file_reference", OFFLINE_PLAN, planFilePath=PLAN, planContent=OFFLINE_PLAN)
    big = desk.path("src/tidewatch/constants.csv")
    run.attach("compact_file_reference", filename=big, displayPath="src/tidewatch/constants.csv")
    run.attach("task_reminder", "All tasks are done.", content=run.tasks, itemCount=len(run.tasks))
    run.answer(thinking("The file carries a date in its first comment."), desk.read("src/tidewatch/cache.py"))
    run.answer(desk.edit("src/tidewatch/cache.py", _UNDATED, _DATED))
    no = {"blockingError": "[ruff check src]: E402 import not at top of file", "command": "ruff check src"}
    _hook(run, "hook_blocking_error", "PostToolUse:Edit", no["blockingError"], blockingError=no)
    run.answer(
        "The date has to follow the imports.",
        desk.edit("src/tidewatch/cache.py", f"{_DATED}\n\n{_IMPORTS}", f"{_UNDATED}\n\n{_IMPORTS}\n\n{_DATE}"),
    )
    run.answer(
        "`cache.CONSTANTS_FROM` holds the date of the constants; the status command can show it.",
        desk.edit(PLAN, "- [ ] Say how old", "- [x] Say how old"),
    )
    run.answer("The first phase is done: the date of the constants is known, and the plan is ticked off.")
    run.end_turn(hook="uv run ruff check --quiet")


def _hook(run: Program, kind: str, name: str, words: str | None, **data: Any) -> None:
    event = name.partition(":")[0]
    id = run.last_call if event == "PostToolUse" else run.writer.ids.uuid()
    run.attach(kind, words, hookName=name, hookEvent=event, toolUseID=id, **data)


def _ran(command: str, said: str) -> Json:
    """What is known of a hook that went well."""
    ended = {"stdout": f"{said}\n", "stderr": "", "exitCode": 0, "durationMs": 61}
    return {"content": said, "command": command, **ended}


def _memory(run: Program) -> Json:
    path = run.desk.path("src/tidewatch/CLAUDE.md")
    content = {"path": path, "type": "Project", "content": "Rows are plain strings; nothing here prints.\n"}
    return {"path": path, "content": content, "displayPath": "src/tidewatch/CLAUDE.md"}


def _moon() -> Call:
    """A tool of an MCP server: its result is a list."""
    content = [text("2026-11-09: new moon, spring tide")]
    return Call(tool_use("mcp__almanac__moon_phase", date="2026-11-09"), content, content, seconds=0.7)


def _task(number: int, status: str) -> Json:
    subject, description, active = _TASKS[number - 1]
    named = {"id": str(number), "subject": subject, "description": description, "activeForm": active}
    return {**named, "status": status, "blocks": [], "blockedBy": []}


_LOOP = """    station = load(name)
    for offset in range(days):
        start ="""
_UNDATED = '"""Stations, read once."""'
_DATE = 'CONSTANTS_FROM = "2026-03-01"'
_DATED = f"{_UNDATED}\n\n{_DATE}"
_IMPORTS = """from __future__ import annotations

from functools import lru_cache

from tidewatch.harmonics import Station, load"""
