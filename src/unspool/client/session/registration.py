"""Registers this process as working on a session, and says what a session is named after: git branch and slug.

The process is registered in `sessions/<pid>.json`, as Claude Code does: lists show the session as running, and neither
an editor nor a second client writes into it meanwhile.

Rules
  1. Nothing depends on the registration: if it cannot be written, nothing is reported.
  2. The git branch is read from `.git/HEAD`, without starting git.
  3. A slug is a name that people can say (adjective-verb-noun): `slug` on the session's lines, and the file name of
     its plan.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import msgspec

from unspool.client.protocols import PermissionAnswer, PermissionRequest, UserInterface, UserQuestion
from unspool.client.session.writer import write_private_file
from unspool.errors import Unwritable
from unspool.files import read_git_head
from unspool.format import FORMAT_VERSION, replace_surrogates
from unspool.permissions import RuleDecision
from unspool.processes import read_start_ticks


class SessionRegistration:
    """The entry of this process in `sessions/`."""

    def __init__(self, config: Path, session_id: str, cwd: Path, clock: Callable[[], datetime]) -> None:
        self._path = config / "sessions" / f"{os.getpid()}.json"
        self._clock = clock
        ticks = read_start_ticks(os.getpid())
        self._fields = {
            "pid": os.getpid(),
            "sessionId": session_id,
            "cwd": replace_surrogates(str(cwd)),
            "startedAt": self._now(),
            **({"procStart": ticks} if ticks else {}),
            "version": FORMAT_VERSION,
            "kind": "interactive",
            "entrypoint": "unspool",
        }

    def write_status(self, status: str, waiting_for: str | None = None) -> None:
        """Write what the session does: `idle`, `busy`, or `waiting` for something."""
        waiting = {} if waiting_for is None else {"waitingFor": waiting_for}
        now = self._now()
        entry = {**self._fields, "status": status, **waiting, "updatedAt": now, "statusUpdatedAt": now}
        with suppress(Unwritable):
            write_private_file(self._path, msgspec.json.encode(entry))

    @contextmanager
    def waiting(self, reason: str) -> Iterator[None]:
        """Say that the session waits for its user, until the `with` ends."""
        self.write_status("waiting", reason)
        try:
            yield
        finally:
            self.write_status("busy")

    def remove(self) -> None:
        """Remove the entry."""
        with suppress(OSError):
            self._path.unlink()

    def _now(self) -> int:
        return round(self._clock().timestamp() * 1000)


class AnnouncedUser:
    """A user interface that registers the session as waiting while it asks."""

    def __init__(self, user: UserInterface, registration: SessionRegistration) -> None:
        self._user = user
        self._registration = registration

    async def ask_permission(self, request: PermissionRequest, decision: RuleDecision) -> PermissionAnswer:
        """Ask whether a tool call may run."""
        with self._registration.waiting("permission prompt"):
            return await self._user.ask_permission(request, decision)

    async def ask_questions(self, questions: tuple[UserQuestion, ...]) -> dict[str, str] | None:
        """Ask questions of the model."""
        with self._registration.waiting("input needed"):
            return await self._user.ask_questions(questions)

    async def approve_plan(self, plan: str) -> PermissionAnswer:
        """Ask whether a plan is approved."""
        with self._registration.waiting("permission prompt"):
            return await self._user.approve_plan(plan)


def git_branch(folder: Path) -> str:
    """Return the branch that is checked out; `HEAD` if none is, an empty text outside of a repository."""
    head = read_git_head(str(folder))
    return "" if head is None else head[0] or "HEAD"


_ADJECTIVES = """\
amber ample azure bold brave breezy bright brisk calm candid careful cheerful clear clever cosy crisp curious
dapper deep eager early easy elegant fair fancy fine fleet fluffy fond frank fresh gentle glad golden graceful
grand happy hearty honest humble jolly keen kind light lively lucid lucky mellow merry mild misty modest neat
nimble noble patient playful polite proud quick quiet rapid ready robust rosy serene sharp silent silver sleek
smooth snug soft solid sparkling spry steady still sturdy sunny swift tender tidy tranquil vivid warm wise
witty zesty
"""
_VERBS = """\
baking bathing beaming blooming bouncing brewing building chasing chiming climbing coasting cooking crafting
dancing dashing digging dreaming drifting exploring finding floating flying foraging gathering gliding growing
humming hopping juggling jumping knitting leaping learning listening marching meandering mending mixing
munching napping orbiting painting pacing pondering prancing purring puzzling racing reading resting rolling
rowing running sailing scribbling searching shining singing sipping skating sketching sleeping sliding
snoozing soaring spinning splashing sprouting strolling swimming swinging tinkering tumbling waddling walking
wandering weaving whistling wishing wondering writing
"""
_NOUNS = """\
acorn anchor apple aspen badger bamboo barn beacon beaver berry birch bison brook candle canyon castle cedar
cherry cloud clover comet compass coral cove crane creek crystal daisy dawn dolphin dune eagle elm ember
falcon feather fern finch fjord forest fountain fox garden glacier grove harbour hare hawk hazel heron hill
island ivy jasmine kettle kite lagoon lake lantern lark leaf lily lynx maple marble meadow moon moss mountain
oak ocean orchard otter owl panda pebble pine planet plum pond poppy prairie puffin quail quilt rabbit raven
reef river robin rose sparrow spruce squirrel star stone stream sunrise swan thistle tiger tulip turtle valley
violet walnut willow wren zephyr
"""


def session_slug(session_id: str) -> str:
    """Return the name that belongs to a session id."""
    number = int.from_bytes(hashlib.sha256(session_id.encode()).digest()[:12], "big")
    words = []
    for choices in (_ADJECTIVES.split(), _VERBS.split(), _NOUNS.split()):
        number, at = divmod(number, len(choices))
        words.append(choices[at])
    return "-".join(words)
