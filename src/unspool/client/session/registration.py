"""That somebody works here: `sessions/<pid>.json`, as the program registers its processes.

So lists show the session as running, and neither an editor nor a second client writes into it meanwhile.

Rules
  1. It is a help, nothing depends on it: where it cannot be written, nothing is said.

[merged: branch.py] The git branch of a folder: read from `.git/HEAD`, without git.

[merged: slug.py] A name for a session that people can say: adjective-verb-noun, as `slug` on its lines and its plan's file name.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import msgspec

from unspool.client.protocols import Choice, Permit, Person, Ruling, Wish
from unspool.client.session.writer import FORMAT_VERSION, make_folder, spelled


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


_LARGEST = 4096


def branch(folder: Path) -> str:
    """Return the branch that is checked out; `HEAD` if none is, nothing outside of a repository."""
    for place in (folder, *folder.parents):
        words = _head(place / ".git")
        if words is not None:
            return words.removeprefix("ref: refs/heads/") if words.startswith("ref: refs/heads/") else "HEAD"
    return ""


def _head(git: Path) -> str | None:
    """Return what `HEAD` says; in a worktree `.git` is a file that names the folder."""
    try:
        if git.is_file():
            named = git.read_bytes()[:_LARGEST].decode(errors="replace").strip()
            if not named.startswith("gitdir: "):
                return None
            git = git.parent / named.removeprefix("gitdir: ")
        return (git / "HEAD").read_bytes()[:_LARGEST].decode(errors="replace").strip()
    except OSError:
        return None


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


def slug(session_id: str) -> str:
    """Return the name that goes with an id."""
    number = int.from_bytes(hashlib.sha256(session_id.encode()).digest()[:12], "big")
    words = []
    for choice in (_ADJECTIVES.split(), _VERBS.split(), _NOUNS.split()):
        number, place = divmod(number, len(choice))
        words.append(choice[place])
    return "-".join(words)
