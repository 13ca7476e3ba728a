"""A lake with an administrator, sessions with texts that are looked for, and a search of every byte that is left."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

from arro3.io import read_parquet

from tests.collect.lake.lakes import TestLake
from tests.collect.lake.sending import Device
from unspool.collect.lake import sign_bindings
from unspool.collect.lake.lake import create_lake, open_lake
from unspool.collect.lake.lifecycle import (
    ForgetReport,
    ForgetRequest,
    Forgetting,
    make_plan,
    measure_plan,
    preview_filter,
    read_forget_filter,
)
from unspool.collect.lake.trust import (
    accept_registrations,
    create_administrators,
    open_trust,
    read_administrators,
)
from unspool.collect.trust import (
    AdministratorKey,
    create_administrator_key,
    make_first_key,
    make_token,
    parse_token,
    publish_key,
)
from unspool.store.archive import decompress_at_most, frame_errors

MOST = 1 << 28
COUNT = "SELECT count(*) FROM entries"


def session_id(number: int) -> str:
    """Return the id of a session."""
    return f"{number:08x}-1111-4111-8111-{number:012x}"


def write_session(root: Path, project: str, number: int, text: str, responses: Iterable[str] = ()) -> Path:
    """Write a session with a prompt and an answer for each response, each with a text; return its file."""
    folder, id = root / "projects" / f"-home-ada-{project}", session_id(number)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{id}.jsonl"
    for at, response in enumerate(responses or [f"msg_{number}_a", f"msg_{number}_b"]):
        shared = {"sessionId": id, "cwd": f"/home/ada/{project}", "version": "2.1.0", "gitBranch": f"branch-{project}"}
        time = f"2026-01-05T10:{at:02d}:0"
        prompt: dict[str, Any] = {"type": "user", "uuid": f"u{number}-{at}", "timestamp": f"{time}1.000Z", **shared}
        prompt["message"] = {"role": "user", "content": f"{text} prompt {at}"}
        answer: dict[str, Any] = {
            "type": "assistant", "uuid": f"a{number}-{at}", "timestamp": f"{time}2.000Z", **shared
        }  # fmt: skip
        answer["requestId"] = f"req_{response}"
        answer["message"] = {
            "id": response, "role": "assistant", "model": "claude-opus-4-5-20251101", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": f"{text} answer {at}"}],
            "usage": {"input_tokens": 10 + number, "output_tokens": 20 + at},
        }  # fmt: skip
        with path.open("a") as file:
            file.write(json.dumps(prompt) + "\n" + json.dumps(answer) + "\n")
    return path


def write_history(root: Path, number: int, project: str, text: str) -> None:
    """Add a prompt to the history."""
    line = {"display": f"{text} typed", "timestamp": 1767607200000, "project": f"/home/ada/{project}"}
    with (root / "history.jsonl").open("a") as file:
        file.write(json.dumps({**line, "sessionId": session_id(number)}) + "\n")


def administer(url: str | Path, key: AdministratorKey) -> None:
    """Make a key the first administrator of a lake."""
    opened = open_lake(str(url), os.environ)
    create_administrators(opened, key)
    sign_bindings(opened, key)


class ErasableLake(TestLake):
    """A lake of which things can be forgotten."""

    __test__ = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.key = create_administrator_key(folder / "administrator", "acme")
        self.top = folder
        administer(self.folder, self.key)

    def sign(self, device: Device) -> None:
        """Let a device sign what it sends, with a key that was accepted."""
        token = make_token(self.key, device.device, device.user, datetime.now(UTC), 1)
        device.key = make_first_key(parse_token(token), 1)
        publish_key(self.place, "acme", device.device, device.key)
        opened = open_lake(str(self.folder), {})
        administrators = read_administrators(opened)["acme"]
        assert accept_registrations(opened, self.place, self.key, administrators).refused == []

    def people(self, *, is_chained: bool, is_signed: bool = False, **how: Any) -> tuple[Device, Device]:
        """Send and ingest what two people did; return their devices."""
        found = []
        for name in ("ada", "bob"):
            root = self.top / name
            base = 10 if name == "ada" else 20
            write_session(root, f"{name}-secret", base, f"planted-{name}-one", [f"m{name}1", f"m{name}2"])
            # Another session has the first answer of that one too, as after a fork.
            write_session(root, f"{name}-plain", base + 1, f"planted-{name}-two", [f"m{name}1", f"m{name}3"])
            write_history(root, base, f"{name}-secret", f"planted-{name}-one")
            write_history(root, base + 1, f"{name}-plain", f"planted-{name}-two")
            device = self.device(f"{name}-laptop", f"user-{name}", is_chained=is_chained)
            if is_signed:
                self.sign(device)
            device.send(root, size=700)
            found.append(device)
        self.ingest(**how)
        return found[0], found[1]

    def forget(
        self,
        on_step: Callable[[str], None] = lambda _: None,
        name_user: Callable[[str], str] | None = None,
        **request: Any,
    ) -> ForgetReport:
        """Forget something."""
        opened = open_lake(str(self.folder), {})
        trust = open_trust(opened, self.place)
        trusted = trust.administrator_keys
        known = read_forget_filter(self.place.get, trusted, trusted)
        wanted = ForgetRequest(**request)
        plan = make_plan(opened, self.place, wanted, known.rules)
        plan, _ = measure_plan(opened, self.place, plan, preview_filter(self.place, plan, wanted.then, trusted), trust)
        return Forgetting(opened, self.place, {"acme": self.key}, trust, on_step=on_step, name_user=name_user).run(
            plan, wanted.then
        )

    def empty(self, name: str) -> ErasableLake:
        """Return an empty lake for the same segments."""
        made = ErasableLake.__new__(ErasableLake)
        made.folder, made.url, made.place = self.top / name, self.url, self.place
        made.key, made.top = self.key, self.top
        create_lake(str(made.folder), {})
        administer(made.folder, self.key)
        return made

    def anew(self) -> ErasableLake:
        """Return a lake made from the same segments."""
        made = self.empty("anew")
        made.ingest()
        return made

    def problems(self) -> list[tuple[str, str]]:
        """Return everything that a full check finds."""
        return [(one.what, one.where) for one in self.verify(is_full=True).problems]

    def find(self, *texts: str) -> set[tuple[str, str]]:
        """Return in which files of the store and the lake one of these texts is, compressed or not."""
        found = set()
        for folder in (self.folder, self.top / "segments"):
            for path in folder.rglob("*"):
                if path.is_file():
                    data = path.read_bytes()
                    everything = data + unpack(path.name, data) + str(path).encode()
                    found |= {(text, str(path)) for text in texts if text.encode() in everything}
        return found


def unpack(name: str, data: bytes) -> bytes:
    """Return what a file or an object has when it is decompressed."""
    if name.endswith(".parquet"):
        rows = read_parquet(BytesIO(data)).read_all()
        return "\n".join(str(rows.column(name).to_pylist()) for name in rows.column_names).encode()
    try:
        return decompress_at_most(data, MOST)
    except frame_errors():
        return b""
