"""Reads what is compared of a session, or of one branch of it: figures, turns, calls, files, context and result.

Rules
  1. Counts and times are those of lists (`graph/session_facts.py`); requests and costs are those of the ledger, with
     agents; files are those of the SQL table `files_touched`. So every figure equals that of other commands.
  2. A request of an agent belongs to the turn in which the agent was started.
  3. A branch has the requests of its own answers, and of the agents that it started.
  4. A session whose own file is missing has agents, requests and files, and no lines, as in lists.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from unspool.errors import NotFound
from unspool.format import (
    DECODE_ERRORS,
    Assistant,
    Entry,
    Text,
    decode_file_change,
    elapsed_time,
    structured_result_text,
)
from unspool.graph import Turn, collect_facts, describe_target, find_tool_calls, split_turns
from unspool.graph.context import build_context, build_thread_context
from unspool.home import Session, read_agent_file
from unspool.page.analysis.comparison import ComparedCall, ComparedSession, ComparedTurn
from unspool.paths import project_name
from unspool.prices import Price, Response, cost_micros, known_cost
from unspool.read import Kind
from unspool.store import PriceLookup
from unspool.store.usage import Ledger, UsageQuery

_CHANGING: Final = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_MAX_TEXT: Final = 2000
"""Characters of a prompt or an answer that are shown."""


class PricedRequest(NamedTuple):
    """A billed request: the file it stands in, and its price."""

    file: str
    response: Response
    price: Price | None


def read_paid_requests(session: Session, ledger: Ledger, prices: PriceLookup) -> list[PricedRequest]:
    """Return the requests that a session pays for; of several files with its id, those that this one pays for."""
    own, home = str(session.own_path), session.home
    return [
        PricedRequest(one.file, one.response, prices.price(one.response))
        for one in ledger.requests(UsageQuery(), session.id)
        if home.find_paying_file(one.file, session.id) == own
    ]


def read_compared_session(
    session: Session, requests: Iterable[PricedRequest], branch: int | None = None
) -> ComparedSession:
    """Return what is compared of a session; `branch` is the number of one of its threads, from 1."""
    entries = _own_entries(session)
    requests = list(requests)
    starts = {agent.id: agent.call.use_entry.offset for agent in session.agents if agent.call}
    if branch is not None:
        entries = _thread_entries(session, branch)
        requests = _of_branch(requests, entries, starts)
    facts = collect_facts(entries)
    turns = split_turns(entries)
    by_turn = _group_by_turn(requests, turns, starts)
    own = {entry.offset for entry in entries}
    agents = [agent.entries for agent in session.agent_files if branch is None or starts.get(agent.id) in own]
    if session.is_missing:
        agents.append(_first_agent_entries(session))
    files = _changed_files([entries, *agents])
    unpriced = sum(_tokens(one.response) for one in requests if one.price is None)
    figures: dict[str, int | float | None] = {
        "turns": facts.turns,
        "requests": len(requests),
        "input_tokens": sum(one.response.input for one in requests),
        "output_tokens": sum(one.response.output for one in requests),
        "cache_read_tokens": sum(one.response.cache_read for one in requests),
        "cache_write_tokens": sum(one.response.cache_write_5m + one.response.cache_write_1h for one in requests),
        "cost_micros": known_cost(sum(cost_micros(one.response, one.price) for one in requests), unpriced),
        "unpriced_tokens": unpriced,
        "context_tokens": facts.context_tokens,
        "compactions": facts.compactions,
        "tool_calls": facts.tool_calls,
        "errors": facts.errors,
        "agents": len(agents),
        "files_changed": len(files),
        "lines_added": sum(added for added, _ in files.values()),
        "lines_removed": sum(removed for _, removed in files.values()),
        "wall_seconds": facts.wall,
        "active_seconds": facts.active,
    }
    return ComparedSession(
        id=session.id,
        branch=branch,
        title=facts.title or ("" if session.is_missing else session.title),
        settings={
            "model": ", ".join(facts.models),
            "version": ", ".join(facts.versions),
            "project": project_name(facts.cwd, session.source.project) or "",
            "branch": facts.branch or "",
        },
        figures=figures,
        turns=tuple(
            _read_turn(turn, number, by_turn.get(turn.prompt.offset, []), session.cwd)
            for number, turn in enumerate(turns, 1)
        ),
        files=files,
        context=_measure_context(entries, branch),
        first_prompt=facts.first_prompt,
        result=_last_answer(entries)[:_MAX_TEXT],
        ended=_stop_reason(entries),
    )


def context_messages(session: Session, branch: int | None = None) -> list[dict[str, object]]:
    """Return the messages of the request that a session, or a branch of it, would send next."""
    if branch is None:
        return [] if session.is_missing else [message.json for message in session.context()]
    return [message.json for message in build_thread_context(list(_thread_entries(session, branch)))]


def _own_entries(session: Session) -> Sequence[Entry]:
    """Return the lines of the session's own file: none if it is missing, and an agent's file stands for it."""
    return () if session.is_missing else session.entries


def _first_agent_entries(session: Session) -> Sequence[Entry]:
    """Return the lines of the agent's file that stands for a session; of a file of several sessions, its own."""
    sources = session.home.tree.of(Kind.AGENT)
    source = next((one for one in sources if one.path == session.path), session.source)
    return read_agent_file(source, session.home, session.id).entries


def _thread_entries(session: Session, branch: int) -> tuple[Entry, ...]:
    threads = [] if session.is_missing else session.threads
    if not 1 <= branch <= len(threads):
        raise NotFound(
            f"session `{session.id}` has no branch {branch}", hint=f"it has {len(threads)}: `unspool show --tree`"
        )
    return threads[branch - 1].entries


def _of_branch(
    requests: Sequence[PricedRequest], entries: Sequence[Entry], starts: dict[str, int]
) -> list[PricedRequest]:
    ids = {entry.record.message.id for entry in entries if isinstance(entry.record, Assistant)}
    offsets = {entry.offset for entry in entries}
    agents = {id for id, offset in starts.items() if offset in offsets}
    return [one for one in requests if one.response.id in ids or _agent_of(one.file) in agents]


def _agent_of(file: str) -> str | None:
    name = file.replace("\\", "/").rpartition("/")[2].removesuffix(".jsonl")
    return name.removeprefix("agent-") if name.startswith("agent-") else None


def _group_by_turn(
    requests: Sequence[PricedRequest], turns: Sequence[Turn], starts: dict[str, int]
) -> dict[int, list[PricedRequest]]:
    """Return the requests of each turn, by the offset of its prompt; those before the first turn are in none."""
    offsets = sorted(turn.prompt.offset for turn in turns)
    found: dict[int, list[PricedRequest]] = {}
    for one in requests:
        agent = _agent_of(one.file)
        offset = one.response.offset if agent is None else starts.get(agent, -1)
        if (at := bisect_right(offsets, offset)) > 0:
            found.setdefault(offsets[at - 1], []).append(one)
    return found


def _read_turn(turn: Turn, number: int, requests: Sequence[PricedRequest], cwd: str | None) -> ComparedTurn:
    lines = [turn.prompt, *turn.entries]
    calls = tuple(
        ComparedCall(
            call.name, describe_target(call.name, call.input, cwd)[:200], call.failed, str(call.use_entry.offset)
        )
        for call in find_tool_calls(lines)
    )
    times = [time for entry in lines if (time := getattr(entry.record, "timestamp", None))]
    took = elapsed_time(times[0], times[-1]) if len(times) > 1 else None
    return ComparedTurn(
        number,
        turn.text[:_MAX_TEXT],
        calls,
        len(requests),
        sum(cost_micros(one.response, one.price) for one in requests),
        sum(_tokens(one.response) for one in requests if one.price is None),
        max(took.total_seconds(), 0.0) if took is not None else 0.0,
        _last_answer(turn.entries)[:_MAX_TEXT],
    )


def _tokens(response: Response) -> int:
    return response.prompt + response.output


def _changed_files(files: Iterable[Sequence[Entry]]) -> dict[str, tuple[int, int]]:
    """Return the files that calls changed, with the lines added and removed where the results tell."""
    changed: dict[str, tuple[int, int]] = {}
    for entries in files:
        for call in find_tool_calls(entries):
            path = call.arguments.get("file_path") or call.arguments.get("notebook_path")
            if call.name not in _CHANGING or not isinstance(path, str) or call.result is None or call.failed:
                continue
            added, removed = _count_lines(call.result_entry)
            before = changed.get(path, (0, 0))
            changed[path] = before[0] + added, before[1] + removed
    return changed


def _count_lines(entry: Entry | None) -> tuple[int, int]:
    raw = getattr(entry.record, "tool_use_result", None) if entry is not None else None
    text = structured_result_text(raw) if raw else None
    if text is None or not text.startswith("{"):
        return 0, 0
    try:
        return decode_file_change(text).count_changed_lines() or (0, 0)
    except DECODE_ERRORS:
        return 0, 0


def _measure_context(entries: Sequence[Entry], branch: int | None) -> dict[str, int]:
    """Return the bytes of the context at the end, by kind of block."""
    from unspool.format import encode_json

    messages = build_context(entries) if branch is None else build_thread_context(list(entries))
    sizes: Counter[str] = Counter()
    for message in messages:
        content = message.json.get("content")
        for block in content if isinstance(content, list) else [content]:
            kind = block.get("type") if isinstance(block, dict) else "text"
            name = f"{message.role} {kind}" if kind == "text" else str(kind)
            sizes[name] += len(encode_json(block))
    return dict(sizes)


def _last_answer(entries: Sequence[Entry]) -> str:
    for entry in reversed(entries):
        if isinstance(entry.record, Assistant) and not entry.record.is_sidechain:
            texts = [block.text for block in entry.record.message.blocks if isinstance(block, Text)]
            if texts:
                return "\n".join(texts).strip()
    return ""


def _stop_reason(entries: Sequence[Entry]) -> str:
    for entry in reversed(entries):
        if isinstance(entry.record, Assistant) and not entry.record.is_sidechain:
            reason = entry.record.message.stop_reason
            return reason if isinstance(reason, str) else ""
    return ""
