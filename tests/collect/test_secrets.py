"""Planted secrets: of none is there a trace in anything that was sent."""

from __future__ import annotations

import json
from pathlib import Path

from tests.collect.machine import Machine, folder_place, headers
from tests.redact.secrets import PLANTED
from tests.redact.test_lines import PLACES
from unspool.collect.selection import OPTIONAL, SelectionRules
from unspool.store.archive.archive import decompress
from unspool.testing.build import assistant, session, tool_result, tool_use, user

ID = "00000000-0000-4000-8000-000000000001"


def test_no_planted_secret_leaves_the_machine(tmp_path: Path) -> None:
    root, place = tmp_path / ".claude", folder_place(tmp_path / "lake")
    _plant(root)
    machine = Machine(tmp_path / "own", root, place, SelectionRules(extras=frozenset(OPTIONAL)))
    report = machine.collect()
    assert report.counts.total() > 10 * len(PLANTED)
    assert report.counts.keys() >= {planted.kind for planted in PLANTED}
    sent = [(found.name, place.get(found.name) or b"") for found in place.names("")]
    assert len(headers(place)) > 10
    for name, data in sent:
        text = name + (decompress(data) if name.endswith(".zst") else data).decode()
        for planted in PLANTED:
            assert planted.secret not in text, (planted.kind, name)
            assert json.dumps(planted.secret)[1:-1] not in text, (planted.kind, name)


def test_what_comes_of_it_is_as_readable_as_before(tmp_path: Path) -> None:
    root, place = tmp_path / ".claude", folder_place(tmp_path / "lake")
    _plant(root)
    Machine(tmp_path / "own", root, place).collect()
    from tests.collect.machine import rows

    for source, generations in rows(place).items():
        for row in generations[0]:
            if source.endswith(".jsonl") and not row.bad:
                json.loads(row.raw)


def _plant(root: Path) -> None:
    """Write a config folder with every secret in every place."""
    steps = []
    for number, planted in enumerate(PLANTED):
        steps += [
            user(f"look at {planted.text}"),
            assistant(tool_use("Bash", id=f"toolu_{number}", command=f"echo '{planted.text}'")),
            tool_result(planted.text, id=f"toolu_{number}", structured={"stdout": planted.text, "stderr": ""}),
        ]
    path = session(*steps, id=ID).save(root)
    with path.open("ab") as file:
        for make in PLACES.values():
            for planted in PLANTED:
                file.write(json.dumps({"type": "x", "uuid": "1", **make(planted.text)}).encode() + b"\n")
        for planted in PLANTED:
            file.write(b'{"type":"user","torn":' + json.dumps(planted.text).encode() + b"\n")
    everything = "\n".join(planted.text for planted in PLANTED)
    folder = path.with_suffix("")
    name = PLANTED[7].secret
    files = {
        root / "history.jsonl": "".join(json.dumps({"display": planted.text}) + "\n" for planted in PLANTED),
        root / "plans" / "plan.md": everything,
        root / "plans" / f"{name}.md": "# a name that is a secret",
        root / "todos" / f"{ID}-agent-{ID}.json": json.dumps([{"content": planted.text} for planted in PLANTED]),
        root / "settings.json": json.dumps({"env": {"API_TOKEN": PLANTED[1].secret}, "x": everything}, indent=2),
        root / "projects" / f"-srv-{name}" / "sessions-index.json": json.dumps(
            {"entries": [{"firstPrompt": everything}]}
        ),
        path.parent / "memory" / "MEMORY.md": everything,
        folder / "subagents" / "agent-a1b2c3d.jsonl": json.dumps({"type": "user", "content": everything}) + "\n",
        folder / "tool-results" / "toolu_1.txt": everything,
        root / "file-history" / ID / "0123456789abcdef@v1": everything,
    }
    for file_path, text in files.items():
        file_path.parent.mkdir(parents=True, exist_ok=True)
        file_path.write_text(text)
