"""That somebody works here: `sessions/<pid>.json`, as the program registers its processes.

So lists show the session as running, and neither an editor nor a second client writes into it meanwhile.

Rules
  1. It is a help, nothing depends on it: where it cannot be written, nothing is said.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import msgspec

from unspool.client.person import Choice, Permit, Person, Ruling, Wish
from unspool.client.writer import FORMAT_VERSION, make_folder, spelled


class Presence:
    """The entry of this process."""

    def __init__(self, config: Path, session_id: str, cwd: Path, clock: Callable[[], datetime]) -> None:
        self._path = config / "sessions" / f"{os.getpid()}.json"
        self._clock = clock
        self._about = {
            "pid": os.getpid(),
            "sessionId": session_id,
            "cwd": spelled(str(cwd)),
            "startedAt": self._now(),
            **_born(),
            "version": FORMAT_VERSION,
            "kind": "interactive",
            "entrypoint": "unspool",
        }

    def tell(self, status: str, waiting_for: str | None = None) -> None:
        """Say what is going on: `idle`, `busy`, or `waiting` for something."""
        waits = {} if waiting_for is None else {"waitingFor": waiting_for}
        now = self._now()
        about = {**self._about, "status": status, **waits, "updatedAt": now, "statusUpdatedAt": now}
        with suppress(OSError):
            make_folder(self._path.parent)
            beside = self._path.with_suffix(".json.new")
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(about))
            beside.replace(self._path)

    def end(self) -> None:
        """Take the entry away."""
        with suppress(OSError):
            self._path.unlink()

    def _now(self) -> int:
        return round(self._clock().timestamp() * 1000)


class Announced:
    """A person of whom it is said when they are waited for."""

    def __init__(self, person: Person, presence: Presence) -> None:
        self._person = person
        self._presence = presence

    async def permit(self, wish: Wish, ruling: Ruling) -> Permit:
        """Ask whether a call may be made."""
        with self._waiting("permission prompt"):
            return await self._person.permit(wish, ruling)

    async def choose(self, choices: tuple[Choice, ...]) -> dict[str, str] | None:
        """Ask which answers are meant."""
        with self._waiting("input needed"):
            return await self._person.choose(choices)

    async def approve(self, plan: str) -> Permit:
        """Ask whether a plan is good."""
        with self._waiting("permission prompt"):
            return await self._person.approve(plan)

    @contextmanager
    def _waiting(self, what: str) -> Iterator[None]:
        self._presence.tell("waiting", what)
        try:
            yield
        finally:
            self._presence.tell("busy")


def _born() -> dict[str, str]:
    """Return when this process began, in clock ticks since boot, where the system tells."""
    try:
        fields = Path("/proc/self/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return {}
    return {"procStart": fields[19]} if len(fields) > 19 else {}
