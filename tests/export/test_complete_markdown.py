"""`--md --depth all`: every text of every line is there, or a mark says that it is left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import unspool
from unspool.demo.write import write_demo
from unspool.export import Depth, decode_line, render_markdown
from unspool.format import Entry
from unspool.home import Session
from unspool.testing.build import Step, assistant, session, tool_result, tool_use, user

BOOKKEEPING = re.compile(
    r"uuid|id$|_id$|ids$|timestamp|version|cwd|branch|type|role|model|slug|signature|mode|stop|entry", re.I
)
"""Names of fields that identify a line and say nothing; the head of the document says that they are left out."""
ENCODED = re.compile(r"[A-Za-z0-9+/_=\s-]{512,}")
TAG = re.compile(r"</?[a-z][a-z0-9_-]*>")


def texts(value: Any, name: str = "") -> Iterator[str]:
    """Yield every string of a line that is no id and no encoded data."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not re.fullmatch(r"[\w$-]+", key):
                yield key
            if key != "usage":  # token counts
                yield from texts(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item, name)
    elif isinstance(value, str) and not ENCODED.fullmatch(value):
        is_bookkeeping = BOOKKEEPING.search(name) and len(value) <= 400 and "\n" not in value
        if not is_bookkeeping:
            yield re.sub("[\ud800-\udfff]", "\ufffd", value)  # half a character has no bytes


def plain(markdown: str) -> str:
    """Return what Markdown says: without the marks of quotes, and with and without those of escapes."""
    text = "\n".join(line.rstrip() for one in markdown.splitlines() for line in [one.removeprefix("> ")])
    return text + "\n" + re.sub(r"\\([\\`*_\[\]<>#|])", r"\1", text)


def decode(entry: Entry) -> Any:
    try:
        return json.loads(entry.line)
    except ValueError:  # a byte order mark, half a character: the package reads these too
        return decode_line(entry)


def missing(one: Session) -> list[str]:
    """Return the texts of a session and its agents that its Markdown neither has nor says it leaves out."""
    markdown = render_markdown(one, depth=Depth.ALL)
    said = plain(markdown)
    found = []
    files = [one.entries, *(file.entries for file in one.agent_files)]
    for entry in (entry for entries in files for entry in entries):
        if f"written before, left out (byte {entry.offset:,})" in markdown:
            continue
        for text in texts(decode(entry)):
            for part in TAG.split(text):
                lines = "\n".join(line.rstrip() for line in part.splitlines()).strip()
                if lines and lines not in said:
                    found.append(f"{entry.offset}: {part[:200]!r}")
    for bad in one.bad_lines:
        if f"at byte {bad.offset:,}, unreadable" not in markdown:
            found.append(f"{bad.offset}: a bad line")
    return found


def test_the_demo_is_complete(tmp_path: Path) -> None:
    write_demo(tmp_path)
    sessions = list(unspool.open(tmp_path).sessions())
    assert len(sessions) > 10
    assert {one.id: lost for one in sessions if (lost := missing(one))} == {}


def test_the_conformance_cases_are_complete() -> None:
    cases = sorted((Path(__file__).parents[1] / "conformance" / "cases").iterdir())
    assert len(cases) > 80
    lost = {}
    for case in cases:
        for one in unspool.open(case / "config").sessions():
            if found := missing(one):
                lost[f"{case.name} {one.id}"] = found
    assert lost == {}


def told(tmp_path: Path, *steps: Step) -> str:
    path = session(*steps).save(tmp_path / "c")
    (one,) = unspool.open(path).sessions()
    assert missing(one) == []
    return render_markdown(one, depth=Depth.ALL)


def test_what_a_call_was_given_is_there(tmp_path: Path) -> None:
    prompt = "Look at the harbour.\n\nThen at the sea."
    markdown = told(
        tmp_path,
        user("Go."),
        assistant(tool_use("Bash", command="ls -l", description="List what is there", timeout=5000)),
        tool_result("a\nb"),
        assistant(tool_use("Task", description="Look", prompt=prompt, subagent_type="scout")),
        tool_result("Exit code 1\n" + "\n".join(map(str, range(500))), error=True),
        user("A note that nobody typed.", isMeta=True),
    )
    for text in ("List what is there", "5000", "Then at the sea.", "scout", "A note that nobody typed.", "\n499\n"):
        assert text in markdown


def test_a_shorter_transcript_does_not_say_that_it_is_complete(tmp_path: Path) -> None:
    path = session(user("Go."), assistant(tool_use("Bash", command="ls", description="List it"))).save(tmp_path)
    (one,) = unspool.open(path).sessions()
    assert "This export contains every line" not in render_markdown(one)
    assert "List it" not in render_markdown(one)


def test_any_field_of_any_type_is_there(tmp_path: Path) -> None:
    odd: list[Any] = [
        {"type": "user", "uuid": {"deep": "a text in the id"}, "message": {"role": "user", "content": "odd"}},
        {"type": "assistant", "message": {"content": [{"type": ["list"], "words": "in a list"}, "bare words"]}},
        {"type": "attachment", "attachment": {"type": "hook_success", "content": "first\nsecond", "command": "run it"}},
        {"type": "progress", "data": {"type": "bash_progress", "output": "half\nway", "fullOutput": "the whole"}},
        {"type": "system", "subtype": "never_seen", "detail": {"Why?": "because"}},
        {"type": ["x"], "content": "tide"},
        {
            "type": "user",
            "message": {"role": "user", "content": [{"type": "text", "text": 7}, {"a b": None, "c": "d"}]},
        },
        {"type": "queue-operation", "operation": "remove", "content": ["taken", {"back": "again"}]},
        {"type": "user", "sessionId": "line\nbreak", "message": "no message at all"},
    ]
    path = session(user("Go.")).save(tmp_path / "c")
    with path.open("ab") as file:
        file.write(b"".join(json.dumps(line).encode() + b"\n" for line in odd) + b"{torn")
    (one,) = unspool.open(path).sessions()
    assert missing(one) == []
    assert "a text in the id" in render_markdown(one, depth=Depth.ALL)
