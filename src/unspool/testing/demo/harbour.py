"""More of the tide project (2.1.325): agents that start agents, a way back, a fork, a script that meets errors."""

from __future__ import annotations

import msgspec

from unspool.format.patch import encode
from unspool.testing.build import Json, text, thinking, tool_use
from unspool.testing.demo.commands import go_back, interrupt
from unspool.testing.demo.desk import Desk, question, rejected, shell
from unspool.testing.demo.files import HOME, Project
from unspool.testing.demo.meter import HAIKU, SONNET
from unspool.testing.demo.orders import launched, notify, order, report
from unspool.testing.demo.program import Program, Setting, silent
from unspool.testing.demo.texts import TIDE_FILES
from unspool.testing.demo.tide import tide_cache


def project() -> Project:
    """Return the tide project; its sessions change the same files one after the other."""
    desk = Desk(f"{HOME}/code/tidewatch", TIDE_FILES)
    sessions = [tide_cache(desk), time_zones(desk)]
    rewound = station_names(desk)
    return Project(desk, [*sessions, rewound, forked(rewound), nightly(desk)])


def time_zones(desk: Desk) -> Program:
    """Three agents at once: one starts another, one works on in the background."""
    run = Program("time zones", desk, "2026-11-12T13:05:22.018Z", Setting(branch="time-zones", effort="high"))
    run.open()
    run.prompt("Where do we assume that local time is UTC? Use agents, I want to be sure nothing is missed.")
    code = order(run, "Explore", "Search the code", "List every place in src/ that makes a datetime without a zone.")
    tests = order(run, "general-purpose", "Search the tests", "Which tests would pass in one time zone only?")
    docs = order(run, "Explore", "Search the documents", "What does README.md promise about times?")
    run.answer(
        thinking("Code, tests and documents do not depend on each other: three agents."),
        "I'll send three agents: code, tests, documents.",
        code.use,
        tests.use,
        docs.use,
    )
    reader = run.start_agent(docs, model=HAIKU)
    run.result(launched(reader))
    seeker, tester = run.start_agent(code, model=HAIKU), run.start_agent(tests, model=SONNET)
    _search_code(seeker)
    _search_tests(tester)
    for worker, words in ((seeker, _IN_CODE), (tester, _IN_TESTS)):
        run.catch_up(worker)
        run.result(report(worker, words))
    run.answer("Code and tests are back; the documents are still being read.")
    _search_documents(reader)
    notify(run, reader, _IN_DOCS)
    run.answer(
        "Three places assume UTC:\n\n1. `table` combines a date with midnight, without a zone.\n"
        "2. `EPOCH` in `harmonics.py` has none either.\n3. README promises local times; nothing makes them local."
    )
    run.titles["ai-title"] = {"aiTitle": "Find where local time is taken for UTC"}
    run.end_turn()
    _decide(run)
    run.close()
    return run


def _decide(run: Program) -> None:
    """The model asks before it goes on."""
    run.prompt("Make README true.", pause=140)
    run.answer(
        thinking("Local to whom: the harbour, or the reader? That is not mine to choose."),
        question(
            "Whose local time should the tables show?",
            "Time zone",
            {"The harbour's": "As printed tables do", "The reader's": "As phones do", "UTC": "As the code does now"},
            "The harbour's",
        ),
    )
    run.answer("Tables will show the harbour's time; that is one change, in `table`, and a column in `constants.csv`.")
    run.end_turn()


_IN_CODE = "`table.py` calls datetime.combine without a zone; `harmonics.py` has a naive EPOCH."
_IN_TESTS = "One test depends on the zone: the week of 2026-11-09 has 26 tides in UTC and 27 elsewhere."
_IN_DOCS = "README.md says: times are local."


def _search_code(worker: Program) -> None:
    assert worker.order is not None
    worker.prompt(worker.order.prompt)
    worker.answer(silent(), worker.desk.grep("datetime"), worker.desk.read("src/tidewatch/harmonics.py"))
    worker.answer(_IN_CODE)


def _search_tests(worker: Program) -> None:
    """An agent that starts one of its own."""
    assert worker.order is not None
    worker.prompt(worker.order.prompt)
    inner = order(worker, "Explore", "Count the tides", "How many tides does a week have, by zone? Only compute.")
    worker.answer("I'll have the tides counted.", inner.use, worker.desk.read("tests/test_table.py"))
    helper = worker.start_agent(inner, model=HAIKU)
    helper.prompt(inner.prompt)
    counted = "UTC 26\nUTC+1 27\nUTC-5 26"
    helper.answer(shell("python count.py", counted, about="Count the tides by zone", seconds=6))
    helper.answer(f"Counted:\n{counted}")
    worker.catch_up(helper)
    worker.result(report(helper, f"Counted:\n{counted}"))
    worker.answer(_IN_TESTS)


def _search_documents(worker: Program) -> None:
    assert worker.order is not None
    worker.prompt(worker.order.prompt)
    worker.answer(worker.desk.glob("**/*.md"), worker.desk.read("README.md"))
    worker.wait(12)
    worker.answer(_IN_DOCS)


def station_names(desk: Desk) -> Program:
    """A wrong turn, stopped and taken back; then another branch."""
    run = Program("station names", desk, "2026-11-13T16:20:40.500Z", Setting(branch="station-names", model=SONNET))
    run.open()
    run.prompt("How does `load` behave if a station's name is misspelt?")
    run.answer(desk.grep("LookupError"))
    run.answer("It raises `LookupError`, naming the station that was asked for, and offers nothing instead.")
    run.end_turn()
    run.prompt("Make it find the nearest name.", pause=48)
    use = tool_use("Bash", command="uv add rapidfuzz", description="Add a library for fuzzy matching")
    run.answer("I'll add a library for that.", rejected(use))
    interrupt(run, tool=True)
    go_back(run)
    run.prompt("Make it find the nearest name, with the standard library only.", pause=95)
    run.answer(
        thinking("difflib has get_close_matches."),
        desk.edit(
            "src/tidewatch/harmonics.py",
            '        raise LookupError(f"no such station: {name}")',
            "        near = get_close_matches(name, _names(), n=1)\n"
            '        hint = f"; did you mean {near[0]}?" if near else ""\n'
            '        raise LookupError(f"no such station: {name}{hint}")',
        ),
    )
    run.answer("`load` now suggests the nearest name, found with `difflib`.")
    run.titles["ai-title"] = {"aiTitle": "Suggest the nearest station name"}
    run.end_turn()
    run.close()
    return run


def forked(origin: Program) -> Program:
    """`--fork-session`: the branch in use is copied under a new id, all else stays the same, and it goes on."""
    run = Program("station names, forked", origin.desk, "2026-11-13T17:02:11.250Z", origin.setting)
    run.open()
    lines = [msgspec.json.decode(line, type=Json) for line in origin.writer.lines]
    parents = {line["uuid"]: line["parentUuid"] for line in lines if "uuid" in line}
    branch, at = set(), origin.writer.parent
    while at is not None:
        branch.add(at)
        at = parents[at]
    for line in lines:
        if line.get("uuid") in branch:
            run.writer.lines.append(encode({**line, "sessionId": run.id}) + b"\n")
    run.writer.parent, run.turn = origin.writer.parent, origin.turn
    run.writer.prompts += [prompt for prompt in origin.writer.prompts if prompt[1] in branch]
    run.meter.hear(lines)
    run.prompt("In this fork: suggest three names instead of one.")
    run.answer("That is `n=3`, and the words around it.", run.desk.read("src/tidewatch/harmonics.py", 29, 10))
    interrupt(run)
    run.close()
    return run


def nightly(desk: Desk) -> Program:
    """A script asks, in blocks. The API is overloaded twice, and refuses in the end."""
    setting = Setting(model=SONNET, entrypoint="sdk-cli", mode="dontAsk", effort="low")
    run = Program("nightly", desk, "2026-11-14T02:00:03.120Z", setting)
    _queue(run)
    run.prompt(text("Check the tables of all harbours against the gauges."), text("Answer in one line."))
    for attempt, delay in ((1, 512), (2, 1_071)):
        run.system("api_error", level="error", retryInMs=delay, retryAttempt=attempt, **_OVERLOADED)
        run.wait(delay / 1000)
    run.answer(shell("python bench/gauges.py", "1600 tables, 0 off by more than 0.2 m", about="Compare", seconds=51))
    run.answer("All 1,600 tables are within 0.2 m of their gauges.")
    run.state()
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


def _queue(run: Program) -> None:
    """A script's prompts go through the queue; the text of blocks is not in it."""
    run.note("queue-operation", operation="enqueue", timestamp=run.now)
    run.note("queue-operation", operation="dequeue", timestamp=run.now)


def _error(run: Program, words: str, message: Json, flags: Json) -> None:
    """An answer that is none."""
    nothing = {
        "input_tokens": 0,
        "output_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
    body = {"id": run.writer.ids.uuid(), "type": "message", "role": "assistant", **message, "stop_sequence": ""}
    line = {"message": {**body, "usage": nothing, "content": [text(words)]}, "requestId": run.writer.ids.request()}
    run.writer.node("assistant", {**line, **flags})
