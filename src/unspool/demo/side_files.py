"""Writes the side files of the demo: history, todos, plans, settings, statistics.

They are computed from the sessions, with the faults of real ones: the index misses a session, names one that is gone
and has a stale time; the statistics count every line of a message.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import date, timedelta

import msgspec

from unspool.demo.files import CONFIG, File, Project, last_time, rows
from unspool.demo.program import SimulatedProgram, milliseconds, new_id, shift_time
from unspool.demo.project_ledger import TODOS
from unspool.demo.session_builder import Json
from unspool.demo.texts import MEMORY, STATIONS
from unspool.format import encode_json

NOW = "2026-11-14T08:00:00.000Z"
"""When the demo was written, by its own dates."""
_PID = 4_193_021

_SETTINGS: Json = {
    "model": "opus",
    "permissions": {
        "allow": ["Bash(uv run pytest:*)", "Bash(git log:*)", "Read(//home/robin/code/**)"],
        "ask": ["Bash(git push:*)"],
        "deny": ["Read(.env)"],
        "defaultMode": "acceptEdits",
    },
    "hooks": {
        "PostToolUse": [{"matcher": "Edit|Write", "hooks": [{"type": "command", "command": "ruff format || true"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "ruff check -q || true"}]}],
    },
    "env": {"TIDEWATCH_TOKEN": "example-not-a-real-token"},
}


def files(tide: Project, ledger: Project, others: list[Project], shift: timedelta = timedelta()) -> Iterator[File]:
    """Yield the side files of all projects, `shift` later than the demo's own dates."""
    now, settings_changed, indexed, remembered, noted = (
        shift_time(time, shift)
        for time in (
            NOW,
            "2026-10-19T09:12:00.000Z",
            "2026-10-15T00:00:00.000Z",
            "2026-11-10T05:35:00.000Z",
            "2026-11-09T09:04:00.000Z",
        )
    )
    runs = [run for project in (tide, ledger, *others) for run in project.sessions]
    yield File("history.jsonl", _history(runs), now)
    yield File("stats-cache.json", _pretty(_stats(runs, now[:10])), now)
    yield File("settings.json", _pretty(_SETTINGS), settings_changed)
    yield File(f"sessions/{_PID}.json", encode_json(_process(tide.sessions[0])), now)
    yield File(f"{ledger.place}/sessions-index.json", _pretty(_index(ledger)), indexed)
    yield File(f"{tide.place}/memory/MEMORY.md", MEMORY.encode(), remembered)
    yield File(f"{tide.place}/memory/stations.md", STATIONS.encode(), noted)
    for path, words in tide.tools.files.items():
        if path.startswith(f"{CONFIG}/plans/"):
            yield File(path.removeprefix(f"{CONFIG}/"), words.encode(), last_time(tide.sessions[0]))
    for run in ledger.sessions:
        kept = TODOS if run.id == new_id("amounts") else []
        yield File(f"todos/{run.id}-agent-{run.id}.json", _pretty(kept), last_time(run))


def _history(runs: list[SimulatedProgram]) -> bytes:
    """Return `history.jsonl`: everything that was typed in a terminal."""
    typed = sorted(((time, shown, run) for run in runs for shown, time in run.history), key=lambda item: item[:2])
    lines = []
    for time, shown, run in typed:
        pasted = {"1": {"id": 1, "type": "image", "contentHash": "5f1d0c27b7a4e9b3"}} if "[Image #1]" in shown else {}
        line: Json = {"display": shown, "pastedContents": pasted, "timestamp": milliseconds(time)}
        line["project"] = run.tools.cwd
        # Older versions wrote the history without the session.
        if run.is_at_least(2, 0, 50):
            line["sessionId"] = run.id
        lines.append(encode_json(line) + b"\n")
    return b"".join(lines)


def _process(run: SimulatedProgram) -> Json:
    """Return the registry entry of a Claude Code that was killed and could not delete it."""
    began = milliseconds(run.start)
    who = {"pid": _PID, "sessionId": run.id, "cwd": run.tools.cwd, "startedAt": began, "procStart": "570957"}
    kind = {"version": run.setting.version, "peerProtocol": 1, "kind": "interactive", "entrypoint": "cli"}
    name = {"name": "tide-cache", "nameSource": "custom", "nameSince": began}
    seen = milliseconds(last_time(run))
    return {**who, **kind, **name, "status": "idle", "updatedAt": seen, "statusUpdatedAt": seen}


def _index(project: Project) -> Json:
    # Indexes of real folders miss sessions, have stale times and name deleted files: readers must not trust them.
    *indexed, _missing = [run for run in project.sessions if run.writer.lines]
    entries = [_entry(project, run) for run in indexed]
    entries[-1]["fileMtime"] -= 86_400_000
    gone = new_id("gone")
    path = f"{CONFIG}/{project.place}/{gone}.jsonl"
    entries.append({**entries[0], "sessionId": gone, "fullPath": path, "firstPrompt": "Which tax year is this?"})
    return {"version": 1, "entries": entries, "originalPath": project.tools.cwd}


def _entry(project: Project, run: SimulatedProgram) -> Json:
    lines = rows(run)
    titles = {line["leafUuid"]: line["summary"] for line in lines if line["type"] == "summary"}
    title = {"summary": titles[run.writer.parent]} if run.writer.parent in titles else {}
    return {
        "sessionId": run.id,
        "fullPath": f"{CONFIG}/{project.place}/{run.id}.jsonl",
        "fileMtime": milliseconds(last_time(run)),
        "firstPrompt": run.history[0][0],
        **title,
        "messageCount": sum(line["type"] in ("user", "assistant") for line in lines),
        "created": run.start,
        "modified": last_time(run),
        "gitBranch": run.setting.branch,
        "projectPath": project.tools.cwd,
        "isSidechain": False,
    }


def _stats(runs: list[SimulatedProgram], today: str) -> Json:
    """Return the cache of `/stats`: the whole days before today, with the tokens of every line."""
    days: dict[str, Counter[str]] = defaultdict(Counter)
    tokens: dict[str, Counter[str]] = defaultdict(Counter)
    models: dict[str, Counter[str]] = defaultdict(Counter)
    hours: Counter[str] = Counter()
    started = [run for run in runs if run.writer.lines and run.start < today]
    for run in started:
        days[run.start[:10]]["sessionCount"] += 1
        hours[str(int(run.start[11:13]))] += 1
        for line in rows(run):
            if line["type"] in ("user", "assistant") and line["timestamp"] < today:
                _count(line, days[line["timestamp"][:10]], tokens[line["timestamp"][:10]], models)
    longest = max(started, key=lambda run: run.duration_ms)
    messages = sum(day["messageCount"] for day in days.values())
    first = min(run.start for run in started)
    kinds = ("messageCount", "sessionCount", "toolCallCount")
    return {
        "version": 2,
        "lastComputedDate": str(date.fromisoformat(today) - timedelta(days=1)),
        "dailyActivity": [
            {"date": day, **{kind: counts[kind] for kind in kinds}} for day, counts in sorted(days.items())
        ],
        "dailyModelTokens": [{"date": day, "tokensByModel": dict(by)} for day, by in sorted(tokens.items()) if by],
        "modelUsage": {model: {**used, "webSearchRequests": 0, "costUSD": 0} for model, used in models.items()},
        "totalSessions": len(started),
        "totalMessages": messages,
        "longestSession": {
            "sessionId": longest.id,
            "duration": longest.duration_ms,
            "messageCount": len(longest.writer.written),
            "timestamp": longest.start,
        },
        "firstSessionDate": first,
        "hourCounts": dict(sorted(hours.items(), key=lambda item: int(item[0]))),
        "totalSpeculationTimeSavedMs": 0,
    }


def _count(line: Json, day: Counter[str], tokens: Counter[str], models: dict[str, Counter[str]]) -> None:
    day["messageCount"] += 1
    message = line["message"]
    if line["type"] == "user" or message["model"] == "<synthetic>":
        return
    day["toolCallCount"] += sum(block["type"] == "tool_use" for block in message["content"])
    usage, model = message["usage"], models[message["model"]]
    # Claude Code counts each line of a message here, so a message of two lines counts twice.
    tokens[message["model"]] += usage["input_tokens"] + usage["output_tokens"]
    model["inputTokens"] += usage["input_tokens"]
    model["outputTokens"] += usage["output_tokens"]
    model["cacheReadInputTokens"] += usage["cache_read_input_tokens"]
    model["cacheCreationInputTokens"] += usage["cache_creation_input_tokens"]


def _pretty(value: object) -> bytes:
    return msgspec.json.format(encode_json(value), indent=2)
