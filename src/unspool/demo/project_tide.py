"""The demo project about tides.

Its longest session has several turns over two days (2.1.325): parallel calls, a failing test, tasks, a web search, a
queued prompt, an output too long for its line, a plan, a pull request, a name. Others have agents, a rewind, a fork and
API errors.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from unspool.demo.files import CONFIG, HOME, Project, keep_output
from unspool.demo.program import ProgramSettings, SimulatedAgent, SimulatedProgram, go_back, interrupt, rename, silent
from unspool.demo.session_builder import Json, text, thinking, tool_use
from unspool.demo.texts import CACHE, OFFLINE_PLAN, SUMMARY, TIDE_FILES, benchmark_log
from unspool.demo.tool_calls import (
    SimulatedCall,
    ToolSimulator,
    failing_shell,
    launched_agent,
    new_agent_task,
    new_task,
    notify_of_agent,
    question,
    rejected,
    search,
    shell,
    task_status,
)
from unspool.demo.usage import HAIKU, SONNET
from unspool.format import encode_json

SLUG = "salty-humming-harbour"
_TABLE, _HARMONICS = "src/tidewatch/table.py", "src/tidewatch/harmonics.py"
PLAN = f"{CONFIG}/plans/{SLUG}.md"
_CHECK = "uv run ruff check --quiet"

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


def tide_cache(tools: ToolSimulator) -> SimulatedProgram:
    """Return the session that makes the tide table faster."""
    setting = ProgramSettings(branch="tide-cache", mode="acceptEdits", cache="1h", slug=SLUG)
    run = SimulatedProgram("tide cache", tools, "2026-11-09T08:41:07.412Z", setting)
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


def _find_the_cause(run: SimulatedProgram) -> None:
    tools = run.tools
    run.prompt("Printing a week of tides for one station takes four seconds. Find out why and fix it.")
    _hook(run, "hook_additional_context", "UserPromptSubmit", "3 tests are slow", content=["3 tests are slow"])
    almanac = "## almanac\nAsk for the moon by date."
    run.attach("mcp_instructions_delta", almanac, addedNames=["almanac"], addedBlocks=[almanac], removedNames=[])
    run.attach("auto_mode", "Work on without asking.", autoModeConsentFlow=False)
    run.answer(
        thinking("A table of 28 lines cannot take four seconds to compute. Something is read again and again."),
        "I'll look at the table, and at everything that loads a station.",
        tools.read(_TABLE),
        tools.grep(r"load\("),
        tools.glob("**/*.py"),
        ready=(1, 2, 0),
    )
    run.attach("nested_memory", "src/tidewatch/CLAUDE.md: rows are strings.", **_memory(run))
    run.answer(
        silent(),
        "`table` calls `load` once for each day, and `load` reads all 4,200 stations. I'll note what to do.",
        *(new_task(number, *task) for number, task in enumerate(_TASKS, 1)),
    )
    run.tasks = [_task(number, "completed") for number in (1, 2, 3)]
    run.answer(task_status(1, "pending", "in_progress"), tools.read(_HARMONICS, 29, 14))


def _fix_it(run: SimulatedProgram) -> None:
    tools = run.tools
    old = "        station = load(name)\n        start ="
    run.answer(
        "The station does not change between days, so it is read once, before the loop.",
        tools.edit(_TABLE, f"    for offset in range(days):\n{old}", _LOOP),
    )
    _hook(run, "hook_success", "PostToolUse:Edit", "1 file unchanged", **_ran("ruff format src", "1 file unchanged"))
    run.answer(failing_shell("uv run pytest -q --color=yes", _FAILURE, about="Run the tests"))
    run.attach("silent_turn_reminder", "Tell the user how it goes.", text="Tell the user how it goes.")
    run.answer(
        thinking("The test asserts the very thing that was slow. It has to be turned around, not satisfied."),
        "One test expects the station to be read three times. That was the defect, so the test changes.",
        tools.edit("tests/test_table.py", "test_the_station_is_read_for_each_day", "test_the_station_is_read_once"),
        tools.edit("tests/test_table.py", "assert len(calls) == 3", "assert len(calls) == 1"),
    )
    run.answer(
        shell("uv run pytest -q", "..\n2 passed in 0.12s", about="Run the tests", seconds=2.1),
        task_status(1, "in_progress", "completed"),
        task_status(2, "pending", "completed"),
    )
    run.answer(
        tools.write("src/tidewatch/cache.py", CACHE),
        tools.edit(_TABLE, "import Station, load, predict", "import Station, predict"),
    )
    run.answer(tools.edit(_TABLE, "station = load(name)", "station = cached_station(name)"))
    cached = "from tidewatch.cache import station as cached_station"
    run.answer(tools.edit(_TABLE, "from tidewatch.harmonics", f"{cached}\nfrom tidewatch.harmonics"))
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
    run.end_turn(hook=_CHECK, title="Speed up the tide table")


def _look_it_up(run: SimulatedProgram) -> None:
    tools = run.tools
    run.prompt("Mention the cache of @src/tidewatch in @README.md. Is it safe if two threads ask?", pause=540)
    folder = tools.path("src/tidewatch")
    names = "cache.py\nharmonics.py\ntable.py"
    run.attach("directory", names, role="user", path=folder, content=names, displayPath="src/tidewatch")
    readme = tools.read("README.md")
    content = {"type": "text", "file": readme.structured["file"]}
    words = f"Result of reading README.md:\n{readme.result}"
    path = tools.path("README.md")
    run.attach("file", words, role="user", filename=path, content=content, displayPath="README.md")
    pages = {"functools, annotated": "https://docs.example.com/functools", "Caches": "https://example.com/caches"}
    summary = "The cache stays coherent under threads, but a function may run twice for the same first call."
    run.answer("I'll check before I write it down.", search("lru_cache thread safety", pages, summary), searches=2)
    local = "Times are local.\n"
    run.answer(tools.edit("README.md", local, f"{local}The last 64 stations stay in memory.\n"))
    run.answer("The moon, for the example in it.", _moon(), attributionMcpServer="almanac")
    run.attach("total_tokens_reminder", "Much is left.", text="<total_tokens>14200000 tokens left</total_tokens>")
    run.answer("README says so now. Two threads may read a station twice at first; the cache itself stays sound.")
    run.end_turn(hook=_CHECK)


def _measure(run: SimulatedProgram) -> None:
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


def _plan(run: SimulatedProgram) -> None:
    tools = run.tools
    run.prompt("Plan an offline mode. Do not write any code yet.", pause=210, permissionMode="plan")
    where: Json = {"planFilePath": PLAN, "planExists": False, "isSubAgent": False}
    run.attach("plan_mode", "Only plan, change nothing but the plan.", reminderType="full", **where)
    draft = OFFLINE_PLAN.replace("[x]", "[ ]")
    run.answer(silent(), "I'll write the plan down.", tools.write(PLAN, draft))
    approved = f"User has approved your plan. It has been saved to: {PLAN}"
    structured = {"plan": draft, "isAgent": False, "filePath": PLAN}
    run.answer(SimulatedCall(tool_use("ExitPlanMode", plan=draft, planFilePath=PLAN), approved, structured, seconds=41))
    run.attach("plan_mode_exit", "Plan mode is over.", planFilePath=PLAN, planExists=True)
    run.answer(
        "Two tasks of the first phase are done already; I tick them.",
        tools.edit(PLAN, "- [ ] Ship `constants.csv`", "- [x] Ship `constants.csv`"),
        tools.edit(PLAN, "- [ ] Read each station once", "- [x] Read each station once"),
    )
    run.answer("The plan has three phases; the first is nearly done.")
    run.end_turn()


def _publish(run: SimulatedProgram) -> None:
    run.prompt("Commit this and open a pull request.", pause=65)
    committed = "[tide-cache 4be91c7] Read each station once\n 5 files changed, 31 insertions(+), 6 deletions(-)"
    commit: Json = {"gitOperation": {"commit": {"sha": "4be91c7", "kind": "committed"}}}
    url = "https://git.example.com/robin/tidewatch/pull/17"
    run.answer(shell("git add -A && git commit -qm 'Read each station once'", committed, about="Commit", **commit))
    run.answer(shell("gh pr create --fill", url, about="Open a pull request", seconds=3.4))
    link = {"prNumber": 17, "prUrl": url, "prRepository": "robin/tidewatch", "timestamp": run.now}
    run.note("pr-link", sessionId=run.id, **link)
    run.answer(f"Opened {url}.")
    run.end_turn(hook=_CHECK)


def _next_day(run: SimulatedProgram) -> None:
    tools = run.tools
    run.prompt("Good morning. Go on with the first phase: say how old the constants are.", pause=74_000)
    today = run.now[:10]
    run.attach("date_change", f"Today is {today}.", newDate=today)
    snippet = '2\tname = "tidewatch"\n3\tversion = "0.4.1"'
    tools.files["pyproject.toml"] = tools.files["pyproject.toml"].replace("0.4.0", "0.4.1")
    path = tools.path("pyproject.toml")
    run.attach("edited_text_file", "pyproject.toml was changed.", filename=path, snippet=snippet)
    # Long before a real context would be full, so that the file stays small.
    run.compact(SUMMARY, keep=4)
    run.attach("plan_file_reference", OFFLINE_PLAN, planFilePath=PLAN, planContent=OFFLINE_PLAN)
    big = tools.path("src/tidewatch/constants.csv")
    run.attach("compact_file_reference", filename=big, displayPath="src/tidewatch/constants.csv")
    run.attach("task_reminder", "All tasks are done.", content=run.tasks, itemCount=len(run.tasks))
    run.answer(thinking("The file carries a date in its first comment."), tools.read("src/tidewatch/cache.py"))
    run.answer(tools.edit("src/tidewatch/cache.py", _UNDATED, _DATED))
    no = {"blockingError": "[ruff check src]: E402 import not at top of file", "command": "ruff check src"}
    _hook(run, "hook_blocking_error", "PostToolUse:Edit", no["blockingError"], blockingError=no)
    run.answer(
        "The date has to follow the imports.",
        tools.edit("src/tidewatch/cache.py", f"{_DATED}\n\n{_IMPORTS}", f"{_UNDATED}\n\n{_IMPORTS}\n\n{_DATE}"),
    )
    run.answer(
        "`cache.CONSTANTS_FROM` holds the date of the constants; the status command can show it.",
        tools.edit(PLAN, "- [ ] Say how old", "- [x] Say how old"),
    )
    run.answer("The first phase is done: the date of the constants is known, and the plan is ticked off.")
    run.end_turn(hook=_CHECK)


def _hook(run: SimulatedProgram, kind: str, name: str, words: str | None, **data: Any) -> None:
    event = name.partition(":")[0]
    id = run.last_call if event == "PostToolUse" else run.writer.ids.uuid()
    run.attach(kind, words, hookName=name, hookEvent=event, toolUseID=id, **data)


def _ran(command: str, output: str) -> Json:
    """Return the fields of a hook that succeeded."""
    ended = {"stdout": f"{output}\n", "stderr": "", "exitCode": 0, "durationMs": 61}
    return {"content": output, "command": command, **ended}


def _memory(run: SimulatedProgram) -> Json:
    path = run.tools.path("src/tidewatch/CLAUDE.md")
    content = {"path": path, "type": "Project", "content": "Rows are plain strings; nothing here prints.\n"}
    return {"path": path, "content": content, "displayPath": "src/tidewatch/CLAUDE.md"}


def _moon() -> SimulatedCall:
    """Return a call of an MCP server's tool, whose result is a list of blocks."""
    content = [text("2026-11-09: new moon, spring tide")]
    return SimulatedCall(tool_use("mcp__almanac__moon_phase", date="2026-11-09"), content, content, seconds=0.7)


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


def project(shift: timedelta = timedelta()) -> Project:
    """Return the tide project."""
    # In this order: the sessions change the same files one after the other.
    tools = ToolSimulator(f"{HOME}/code/tidewatch", TIDE_FILES, shift=shift)
    sessions = [tide_cache(tools), time_zones(tools)]
    rewound = station_names(tools)
    return Project(tools, [*sessions, rewound, forked(rewound), nightly(tools)])


def time_zones(tools: ToolSimulator) -> SimulatedProgram:
    """Return a session with three parallel agents: one starts another, one runs in the background."""
    setting = ProgramSettings(branch="time-zones", effort="high")
    run = SimulatedProgram("time zones", tools, "2026-11-12T13:05:22.018Z", setting)
    run.prompt("Where do we assume that local time is UTC? Use agents, I want to be sure nothing is missed.")
    prompt = "List every place in src/ that makes a datetime without a zone."
    code = new_agent_task(run, "Explore", "Search the code", prompt)
    tests = new_agent_task(run, "general-purpose", "Search the tests", "Which tests would pass in one time zone only?")
    docs = new_agent_task(run, "Explore", "Search the documents", "What does README.md promise about times?")
    run.answer(
        thinking("Code, tests and documents do not depend on each other: three agents."),
        "I'll send three agents: code, tests, documents.",
        code.use,
        tests.use,
        docs.use,
    )
    reader = run.start_agent(docs, model=HAIKU)
    run.result(launched_agent(reader))
    seeker, tester = run.start_agent(code, model=HAIKU), run.start_agent(tests, model=SONNET)
    seeker.answer(silent(), tools.grep("datetime"), tools.read(_HARMONICS))
    seeker.answer(_IN_CODE)
    _search_tests(tester)
    run.finish_agent(seeker, _IN_CODE)
    run.finish_agent(tester, _IN_TESTS)
    run.answer("Code and tests are back; the documents are still being read.")
    reader.answer(tools.glob("**/*.md"), tools.read("README.md"))
    reader.wait(12)
    reader.answer(_IN_DOCS)
    notify_of_agent(reader, _IN_DOCS)
    run.answer(
        "Three places assume UTC:\n\n1. `table` combines a date with midnight, without a zone.\n"
        "2. `EPOCH` in `harmonics.py` has none either.\n3. README promises local times; nothing makes them local."
    )
    run.end_turn(title="Find where local time is taken for UTC")
    _decide(run)
    run.close()
    return run


def _decide(run: SimulatedProgram) -> None:
    """Write a turn in which the model asks the user a question."""
    run.prompt("Make README true.", pause=140)
    offered = {"The harbour's": "As printed tables do", "The reader's": "As phones do", "UTC": "As the code does now"}
    run.answer(
        thinking("Local to whom: the harbour, or the reader? That is not mine to choose."),
        question("Whose local time should the tables show?", "Time zone", offered, "The harbour's"),
    )
    run.answer("Tables will show the harbour's time; that is one change, in `table`, and a column in `constants.csv`.")
    run.end_turn()


_IN_CODE = "`table.py` calls datetime.combine without a zone; `harmonics.py` has a naive EPOCH."
_IN_TESTS = "One test depends on the zone: the week of 2026-11-09 has 26 tides in UTC and 27 elsewhere."
_IN_DOCS = "README.md says: times are local."


def _search_tests(agent: SimulatedAgent) -> None:
    """Write the lines of an agent that starts another one."""
    prompt = "How many tides does a week have, by zone? Only compute."
    inner = new_agent_task(agent, "Explore", "Count the tides", prompt)
    agent.answer("I'll have the tides counted.", inner.use, agent.tools.read("tests/test_table.py"))
    counted = "UTC 26\nUTC+1 27\nUTC-5 26"
    count = shell("python count.py", counted, about="Count the tides by zone", seconds=6)
    agent.run_agent(inner, count, f"Counted:\n{counted}", model=HAIKU)
    agent.answer(_IN_TESTS)


def station_names(tools: ToolSimulator) -> SimulatedProgram:
    """Return a session with a rejected call, an interruption and a rewind; then another branch."""
    setting = ProgramSettings(branch="station-names", model=SONNET)
    run = SimulatedProgram("station names", tools, "2026-11-13T16:20:40.500Z", setting)
    run.prompt("How does `load` behave if a station's name is misspelt?")
    run.answer(tools.grep("LookupError"))
    run.answer("It raises `LookupError`, naming the station that was asked for, and offers nothing instead.")
    run.end_turn()
    run.prompt("Make it find the nearest name.", pause=48)
    use = tool_use("Bash", command="uv add rapidfuzz", description="Add a library for fuzzy matching")
    run.answer("I'll add a library for that.", rejected(use))
    interrupt(run, tool=True)
    go_back(run)
    run.prompt("Make it find the nearest name, with the standard library only.", pause=95)
    suggestion = (
        "        near = get_close_matches(name, _names(), n=1)\n"
        '        hint = f"; did you mean {near[0]}?" if near else ""\n'
        '        raise LookupError(f"no such station: {name}{hint}")'
    )
    old = '        raise LookupError(f"no such station: {name}")'
    run.answer(thinking("difflib has get_close_matches."), tools.edit(_HARMONICS, old, suggestion))
    run.answer("`load` now suggests the nearest name, found with `difflib`.")
    run.end_turn(title="Suggest the nearest station name")
    run.close()
    return run


def forked(origin: SimulatedProgram) -> SimulatedProgram:
    """Return a session made with `--fork-session`: the current branch copied under a new id, then continued."""
    run = SimulatedProgram("station names, forked", origin.tools, "2026-11-13T17:02:11.250Z", origin.setting)
    lines = [msgspec.json.decode(line, type=Json) for line in origin.writer.lines]
    parents = {line["uuid"]: line["parentUuid"] for line in lines if "uuid" in line}
    # Only the branch in use is copied: what was rewound stays in the first file. Uuids and times stay the same.
    branch, uuid = set(), origin.writer.parent
    while uuid is not None:
        branch.add(uuid)
        uuid = parents[uuid]
    for line in lines:
        if line.get("uuid") in branch:
            run.writer.lines.append(encode_json({**line, "sessionId": run.id}) + b"\n")
    run.writer.parent, run.turn = origin.writer.parent, origin.turn
    run.writer.prompts += [prompt for prompt in origin.writer.prompts if prompt[1] in branch]
    run.meter.add_input(lines)
    run.prompt("In this fork: suggest three names instead of one.")
    run.answer("That is `n=3`, and the words around it.", run.tools.read(_HARMONICS, 29, 10))
    interrupt(run)
    run.close()
    return run


def nightly(tools: ToolSimulator) -> SimulatedProgram:
    """Return a session of a script: the API is overloaded twice, and refuses the last request."""
    setting = ProgramSettings(model=SONNET, entrypoint="sdk-cli", mode="dontAsk", effort="low")
    run = SimulatedProgram("nightly", tools, "2026-11-14T02:00:03.120Z", setting)
    _queue(run)
    run.prompt(text("Check the tables of all harbours against the gauges."), text("Answer in one line."))
    for attempt, delay in ((1, 512), (2, 1_071)):
        run.system("api_error", level="error", retryInMs=delay, retryAttempt=attempt, **_OVERLOADED)
        run.wait(delay / 1000)
    run.answer(shell("python bench/gauges.py", "1600 tables, 0 off by more than 0.2 m", about="Compare", seconds=51))
    run.answer("All 1,600 tables are within 0.2 m of their gauges.")
    run.write_state()
    _queue(run)
    run.prompt(text("And for the whole next year?"), pause=61)
    failed = {"model": "<synthetic>", "stop_reason": "stop_sequence"}
    flags = {"isApiErrorMessage": True, "error": "invalid_request", "apiErrorStatus": 400}
    kind = {"apiErrorType": "invalid_request_error", "failedResponseHadNoToolCall": True}
    _error(run, "API Error: 400 the request is longer than the demo allows", failed, {**flags, **kind})
    run.close()
    return run


_OVERLOADED: Json = {
    "error": {
        "message": '529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
        "status": 529,
        "formatted": "529 Overloaded",
        "connection": None,
        "isNetworkDown": False,
    },
    "maxRetries": 10,
    "source": "request_retry",
}


def _queue(run: SimulatedProgram) -> None:
    """Write the queue lines of a script's prompt."""
    # Prompts of scripts go through the queue; the text of blocks is not in it.
    run.note_queue("enqueue")
    run.note_queue("dequeue")


def _error(run: SimulatedProgram, words: str, message: Json, flags: Json) -> None:
    """Write the synthetic answer that stands for an API error."""
    kinds = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    nothing = dict.fromkeys(kinds, 0)
    body = {"id": run.writer.ids.uuid(), "type": "message", "role": "assistant", **message, "stop_sequence": ""}
    line = {"message": {**body, "usage": nothing, "content": [text(words)]}, "requestId": run.writer.ids.request()}
    run.writer.node("assistant", {**line, **flags})
