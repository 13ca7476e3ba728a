"""A config folder with secrets of ten shapes in every place of a session, and a search for them in every byte."""

from __future__ import annotations

import json
import random
import sqlite3
import string
from collections.abc import Iterator
from pathlib import Path

import duckdb

from unspool.store.archive import decompress_at_most
from unspool.testing.build import (
    assistant,
    attachment,
    note,
    progress,
    queued,
    session,
    snapshot,
    system,
    thinking,
    tool_result,
    tool_use,
    user,
)

ID = "00000000-0000-4000-8000-000000000001"
OTHER = "00000000-0000-4000-8000-000000000002"
AGENT = "a1b2c3d"
CALL = "toolu_1"
_RANDOM = random.Random(20)
_WORD, _UPPER = string.ascii_letters + string.digits, string.ascii_uppercase + "234567"


def _some(count: int, alphabet: str = _WORD) -> str:
    return "".join(_RANDOM.choice(alphabet) for _ in range(count))


_KEY_ROWS = [_some(64, _WORD + "+/") for _ in range(6)]
_BEGIN, _END = (f"-----{word} RSA PRIVATE KEY-----" for word in ("BEGIN", "END"))
SECRETS = {
    "github": "ghp_" + _some(36),
    "aws": "AKIA" + _some(16, _UPPER),
    "anthropic": "sk-ant-api03-" + _some(93, _WORD + "_-") + "AA",
    "slack": f"xoxb-{_some(12, string.digits)}-{_some(13, string.digits)}-{_some(24)}",
    "stripe": "sk_live_" + _some(24),
    "google": "AIza" + _some(35, _WORD + "_-"),
    "npm": "npm_" + _some(36),
    "jwt": f"eyJhbGciOiJIUzI1NiJ9.eyJ{_some(40)}.{_some(43)}",
    "password": "q7" + _some(18),
    "key": "\n".join([_BEGIN, *_KEY_ROWS, _END]),
}
"""Each shape, and one secret of it."""


def needles() -> list[str]:
    """Return what must not be found: of the private key, each row."""
    return [*(secret for name, secret in SECRETS.items() if name != "key"), *_KEY_ROWS]


def words(place: str) -> str:
    """Return a text with all secrets in it."""
    tokens = " ".join(secret for name, secret in SECRETS.items() if name not in ("key", "password"))
    return f"here in the {place}: {tokens}\nDB_PASSWORD={SECRETS['password']}\n{SECRETS['key']}\nand so on"


def build_config(config: Path) -> Path:
    """Write a session with secrets everywhere, and one without any; return the session's file."""
    project = config / "projects" / "-home-me-project"
    overflow = f"{project}/{ID}/tool-results/{CALL}.txt"
    structured = {"stdout": words("output"), "stderr": "", "persistedOutputPath": overflow}
    built = session(
        user(words("prompt")),
        assistant(
            thinking(words("thinking")),
            words("answer"),
            tool_use("Bash", id=CALL, command=words("command"), env={SECRETS["npm"]: words("member")}),
        ),
        tool_result(words("result"), id=CALL, structured=structured),
        assistant(tool_use("Agent", id="toolu_2", prompt=words("agent's prompt"))),
        tool_result(words("agent's answer"), id="toolu_2", structured={"status": "completed", "agentId": AGENT}),
        snapshot(**{"a.py": {"backupFileName": "abc@v1", "version": 1}}),
        assistant(thinking("Nothing here."), "Done."),
        progress("bash_progress", tool=CALL, output=words("progress")),
        system("informational", content=words("system")),
        attachment("file", filename="a.txt", content={"type": "text", "file": {"content": words("attachment")}}),
        queued(words("queue")),
        note("unknown-kind", payload={"deep": [words("unknown")]}),
        note("custom-title", customTitle=words("title")),
        note("last-prompt", lastPrompt=words("last prompt"), leafUuid="00000000-0000-0000-0000-000000000000"),
        user("What now?"),
        assistant(thinking("A plain thought."), "All is well."),
        slug="calm-blue-sea",
    )
    path = built.save(config)
    agent = session(user(words("agent")), assistant(thinking("So."), words("agent's words")), agent=AGENT, id=ID)
    quiet = session(user("Nothing to hide here."), assistant("Nothing at all."), id=OTHER)
    quiet.save(config)
    pasted = {"1": {"id": 1, "type": "text", "content": words("paste")}}
    history = [
        {"display": words("history"), "pastedContents": pasted, "project": "/home/me/project", "sessionId": ID},
        {"display": "a prompt of another session", "project": "/home/me/project", "sessionId": OTHER},
        {"display": words("old history"), "pastedContents": {}, "project": "/home/me/project"},
    ]
    entries = [{"sessionId": ID, "firstPrompt": words("index"), "fullPath": str(path), "fileMtime": 1}]
    files: dict[Path, str | bytes] = {
        project / ID / "subagents" / f"agent-{AGENT}.jsonl": agent.data,
        project / ID / "subagents" / f"agent-{AGENT}.meta.json": json.dumps({"description": words("meta")}),
        project / ID / "tool-results" / f"{CALL}.txt": words("long result"),
        project / ID / "workflows" / "wf_1.json": json.dumps({"runId": "wf_1", "prompt": words("workflow")}),
        project / "sessions-index.json": json.dumps({"version": 1, "entries": entries}, indent=2),
        config / "todos" / f"{ID}-agent-{ID}.json": json.dumps([{"content": words("todo"), "status": "pending"}]),
        config / "tasks" / ID / "1.json": json.dumps({"id": "1", "subject": words("task")}),
        config / "file-history" / ID / "abc@v1": words("file"),
        config / "session-env" / ID / "hook.sh": words("environment"),
        config / "debug" / f"{ID}.txt": words("debug log"),
        config / "plans" / "calm-blue-sea.md": f"# Plan\n{words('plan')}\n",
        config / "history.jsonl": "".join(json.dumps(line) + "\n" for line in history),
    }
    for name, data in files.items():
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def find_secrets(*folders: Path) -> list[str]:
    """Return where a secret stands: in raw bytes, in compressed frames, in rows, in Parquet, in the text index."""
    found = []
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                found += [f"{path}: {where}" for where, data in _contents(path) if _has_secret(data)]
    return found


def _has_secret(data: bytes) -> bool:
    return any(needle.encode() in data or json.dumps(needle)[1:-1].encode() in data for needle in needles())


def _contents(path: Path) -> Iterator[tuple[str, bytes]]:
    yield "bytes", path.read_bytes()
    if path.suffix == ".parquet":
        rows = duckdb.connect().execute("SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
        yield "parquet", json.dumps(rows, default=str, ensure_ascii=False).encode("utf-8", "surrogatepass")
    if path.suffix == ".db":
        yield from _rows(path)


def _rows(path: Path) -> Iterator[tuple[str, bytes]]:
    database = sqlite3.connect(path)
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    for table in tables:
        for row in database.execute(f"SELECT * FROM {table}"):
            for value in row:
                if isinstance(value, str):
                    yield f"row of {table}", value.encode("utf-8", "surrogatepass")
                elif isinstance(value, bytes) and value[:4] == b"\x28\xb5\x2f\xfd":
                    yield f"frame of {table}", decompress_at_most(value, 1 << 26)
                elif isinstance(value, bytes):
                    yield f"row of {table}", value
    if "words" in tables:
        terms = [term for (term,) in database.execute("SELECT term FROM vocabulary")]
        lower = {needle.lower() for needle in needles()}
        yield "index", " ".join(needles()).encode() if lower & set(terms) else b""
    database.close()
