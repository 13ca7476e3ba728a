"""The demo project about a ledger.

Its sessions are of old versions, from 1.0.56 on: agents inside the session's own file, then beside it, then in a folder
of their own; results in a chain, then in a tree; stop reasons that are null; `summary` and `progress` lines; a prompt
that only the queue has.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from unspool.demo.files import HOME, Project, keep_output
from unspool.demo.program import ProgramSettings, SimulatedAgent, SimulatedProgram, slash
from unspool.demo.session_builder import Json, text, thinking, tool_use
from unspool.demo.texts import LEDGER_FILES, benchmark_log
from unspool.demo.tool_calls import AgentCall, SimulatedCall, ToolSimulator, new_agent_task, shell, todos

OPUS, SONNET, HAIKU = "claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001"

TODOS: list[Json] = [
    {"content": "Accept grouped thousands", "status": "completed", "activeForm": "Accepting grouped thousands"},
    {"content": "Refuse two decimal points", "status": "in_progress", "activeForm": "Refusing two decimal points"},
    {"content": "Write tests", "status": "pending", "activeForm": "Writing tests"},
]


def project(shift: timedelta = timedelta()) -> Project:
    """Return the ledger project."""
    tools = ToolSimulator(f"{HOME}/work/ledger", LEDGER_FILES, arrows=True, shift=shift)
    first, second = first_look(tools), balances(tools)
    third = amounts(tools, titled=[first, second])
    return Project(tools, [first, second, third, nothing(tools), rounding(tools), import_bank(tools)])


def first_look(tools: ToolSimulator) -> SimulatedProgram:
    """1.0.56: the agent's lines are in the same file, marked as a side chain."""
    setting = ProgramSettings(version="1.0.56", model="claude-sonnet-4-20250514")
    run = SimulatedProgram("first look", tools, "2026-10-03T10:02:44.120Z", setting)
    run.prompt("What does this project do?")
    prompt = "Read README.md and say in one sentence what the project is."
    use = tool_use("Task", description="Read the readme", prompt=prompt)
    answer = "Double-entry books kept in plain text."
    run.answer("I'll have the readme read.", use)
    _aside(run, prompt, answer)
    totals = {"totalDurationMs": 6120, "totalTokens": 9841, "totalToolUseCount": 1}
    structured = {"content": [text(answer)], **totals, "usage": {}, "wasInterrupted": False}
    run.result(SimulatedCall(use, [text(answer)], structured), next(iter(run.writer.open_calls)))
    run.answer("It keeps double-entry books in plain text files.")
    run.prompt("Add a docstring to balances.", pause=41)
    line = "-> dict[str, Decimal]:\n"
    run.answer(tools.edit("ledger/balance.py", line, f'{line}    """Return the sum of each account."""\n'))
    hook = {"isMeta": False, "toolUseID": run.last_call, "level": "info"}
    run.system(None, "Running \x1b[1mPostToolUse:Edit\x1b[22m...", **hook)
    run.system(None, "\x1b[1mPostToolUse:Edit\x1b[22m [black .] completed successfully: 1 file left unchanged", **hook)
    run.answer("`balances` has a docstring now.")
    _title(run, "Plain-text ledger overview", run, top=True)
    return run


def balances(tools: ToolSimulator) -> SimulatedProgram:
    """2.0.36: an agent beside the session, named by eight digits."""
    setting = ProgramSettings(version="2.0.36", model=SONNET)
    run = SimulatedProgram("balances", tools, "2026-10-06T08:15:12.905Z", setting)
    run.prompt("Can balances overflow?")
    task = new_agent_task(run, "general-purpose", "Check the types", "Which type holds the sums in ledger/balance.py?")
    run.answer(thinking("Decimal does not overflow, but let me have it checked."), task.use)
    run.run_agent(task, tools.read("ledger/balance.py"), "Decimal, from the standard library.", model=HAIKU)
    run.answer("No: the sums are `Decimal`, which grow as needed. Only the precision of the context is limited.")
    return run


def amounts(tools: ToolSimulator, *, titled: list[SimulatedProgram]) -> SimulatedProgram:
    """2.0.76: null stop reasons, results in a chain, a todo list, a queued prompt that no user line repeats."""
    setting = ProgramSettings(version="2.0.76", model=SONNET, branch="amounts", slug="tidy-counting-abacus")
    run = SimulatedProgram("amounts", tools, "2026-10-09T15:48:30.667Z", setting)
    for other, words in zip(titled, ("Plain-text ledger overview", "Overflow of balances"), strict=True):
        _title(run, words, other)
    # An agent whose request only fills the cache.
    run.start_agent(AgentCall("a7c31d9", "Explore", "", "Warmup"), model=HAIKU).inject_user_line("Warmup")
    run.prompt("Amounts like 1,234.50 and 1.234,50 should both be read.")
    run.answer(
        "I'll read the parser and see who uses it.",
        tools.read("ledger/parse.py"),
        tools.grep(r"amount\("),
        shell("git log --oneline -3", "a1b2c3d Parse amounts", about="Look at the history"),
        ready=(1, 0, 2),
    )
    run.answer(todos([], [{**item, "status": "pending"} for item in TODOS]))
    tests = new_agent_task(run, "general-purpose", "Look for tests", "Are there tests for ledger/parse.py?")
    run.answer(tests.use)
    run.run_agent(tests, tools.glob("**/test_*.py"), "There are none.", model=HAIKU)
    old, new = 'Decimal(text.replace(",", ""))', "Decimal(_plain(text))"
    run.answer(
        tools.edit("ledger/parse.py", old, new),
        shell("python -c 'import ledger.parse'", "", about="Try the import", seconds=4),
        queued="Do not touch the export, it is in use",
    )
    run.answer(todos([{**item, "status": "pending"} for item in TODOS], TODOS))
    run.answer("Both notations are read now; the export is as it was. Two decimal points are still to be refused.")
    return run


def nothing(tools: ToolSimulator) -> SimulatedProgram:
    """Return a session without lines: 2.0.x left an empty file for each resumed session."""
    return SimulatedProgram("nothing", tools, "2026-10-09T16:31:00.000Z", ProgramSettings(version="2.0.76"))


def rounding(tools: ToolSimulator) -> SimulatedProgram:
    """2.1.29: results in a tree, progress lines, an agent in its folder, a guess at the next prompt."""
    setting = ProgramSettings(
        version="2.1.29", model=OPUS, branch="rounding", mode="acceptEdits", slug="brave-rounding-newt"
    )
    run = SimulatedProgram("rounding", tools, "2026-10-14T09:26:53.581Z", setting)
    run.prompt("Round to cents when printing, never before.")
    run.answer("Let me see where numbers are printed.", tools.grep("Decimal"), tools.read("ledger/balance.py"))
    _hook_ran(run, "Read")
    audit = new_agent_task(run, "Explore", "Find roundings", "List every call that rounds.")
    run.answer(audit.use)
    agent = run.start_agent(audit, model=HAIKU)
    _repeat_in_session(agent, "user", audit.prompt)
    agent.answer(tools.grep("round|quantize"))
    _hook_ran(agent, "Grep")
    agent.answer("Nothing is rounded anywhere.")
    _repeat_in_session(agent, "assistant", "Nothing is rounded anywhere.")
    run.finish_agent(agent, "Nothing is rounded anywhere.")
    run.answer(
        tools.edit("ledger/balance.py", "return dict(totals)", "return {name: totals[name] for name in sorted(totals)}")
    )
    check = shell("python bench/books.py", benchmark_log(400), about="Add up all the books", seconds=5)
    id = run.writer.ids.tool()
    check = msgspec.structs.replace(check, use={**check.use, "id": id})
    run.answer(check.use)
    for second in (2, 3, 4):
        data = {"output": "", "fullOutput": "", "elapsedTimeSeconds": second, "totalLines": second * 80}
        _progress(run, "bash_progress", id, f"bash-progress-{second - 2}", **data)
    run.result(keep_output(run, f"{id}.txt", check))
    run.answer("Sums keep all their digits; only the printing rounds.")
    slash(run, "cost", "", "Total cost:            $0.1175\nTotal duration (API):  38s")
    _fork(run, "aprompt_suggestion-4be1c0", "[SUGGESTION MODE: guess what the user types next.]", "commit this")
    _title(run, "Round only when printing", run)
    return run


def import_bank(tools: ToolSimulator) -> SimulatedProgram:
    """2.1.29: the context fills up; an agent writes the summary, and nothing else is kept."""
    setting = ProgramSettings(version="2.1.29", model=OPUS, branch="bank-import", slug="calm-paying-heron")
    run = SimulatedProgram("bank import", tools, "2026-10-16T12:40:08.214Z", setting)
    run.prompt("Import statements of Example Bank.")
    run.answer(
        tools.write("ledger/bank.py", '"""Statements of Example Bank."""\n\nCOLUMNS = ("date", "payee", "amount")\n')
    )
    _hook_ran(run, "Write")
    shrunk = {"trigger": "auto", "preTokens": 151_220, "tokensSaved": 24_310, "compactedToolIds": [run.last_call]}
    more = {"isMeta": False, "level": "info", "microcompactMetadata": {**shrunk, "clearedAttachmentUUIDs": []}}
    run.system("microcompact_boundary", "Context microcompacted", **more)
    run.answer("The columns are there. Which date format does the bank use?")
    run.prompt("Day first.", pause=130)
    summary = "Statements of Example Bank are to be imported; `ledger/bank.py` has the columns. Dates are day first."
    _fork(run, "acompact-5d20ae", "Summarise this conversation so that it can go on without it.", summary)
    run.compact(summary)
    run.answer(tools.edit("ledger/bank.py", '"amount")\n', '"amount")\nDATE = "%d.%m.%Y"\n'))
    run.answer("Dates are read day first.")
    return run


def _aside(run: SimulatedProgram, prompt: str, answer: str) -> None:
    """Write the lines of an agent into the session's own file."""
    writer = run.writer
    parent, envelope = writer.parent, writer.envelope
    writer.parent, writer.envelope = None, {**envelope, "isSidechain": True}
    run.inject_user_line(prompt)
    run.answer(run.tools.read("README.md"))
    run.answer(answer)
    writer.parent, writer.envelope = parent, envelope


def _title(run: SimulatedProgram, words: str, described: SimulatedProgram, *, top: bool = False) -> None:
    """Write a `summary` line with the title of a session."""
    # It may be in another session's file: the leaf decides which session has the title.
    run.writer.add({"type": "summary", "summary": words, "leafUuid": described.writer.parent})
    if top:
        run.writer.lines.insert(0, run.writer.lines.pop())


def _fork(run: SimulatedProgram, agent: str, prompt: str, answer: str) -> None:
    """Write an agent that Claude Code starts itself and that continues the session's conversation."""
    # Its first parent is a line of the session, so it is not in the agent's file.
    fork = run.start_agent(AgentCall(agent, "fork", "", prompt))
    fork.writer.parent = run.writer.parent
    fork.inject_user_line(prompt)
    fork.answer(answer)


def _progress(run: SimulatedProgram, kind: str, call: str | None, id: str, **data: Any) -> None:
    line = {"data": {"type": kind, **data}, "toolUseID": id, "parentToolUseID": call}
    run.writer.node("progress", line)


def _hook_ran(run: SimulatedProgram, tool: str) -> None:
    data = {"hookEvent": "PostToolUse", "hookName": f"PostToolUse:{tool}", "command": "callback"}
    _progress(run, "hook_progress", run.last_call, run.last_call, **data)


def _repeat_in_session(agent: SimulatedAgent, role: str, words: str) -> None:
    """Write the progress line in which a session repeats a message of its agent."""
    task, message = agent.task, {"role": role, "content": [text(words)]}
    repeated = {"type": role, "message": message, "uuid": agent.writer.parent, "timestamp": agent.now}
    data = {"message": repeated, "normalizedMessages": [], "prompt": task.prompt, "agentId": task.agent}
    _progress(agent.spawner, "agent_progress", task.call, f"agent_msg_{task.agent}", **data)
