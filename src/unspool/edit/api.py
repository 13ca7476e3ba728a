"""Plan, verify, apply, undo: a session of `unspool.home` in, files changed out.

    session = unspool.open().session("945090a1")
    planned = unspool.plan_edit(session, unspool.Trim(results=True))      # nothing is written
    edited = unspool.apply_edit(planned)                                  # a new session
    unspool.undo_edit(edited.undo_id)

Rules
  1. By default a new session comes of it, beside its source. In place only if nobody works with the session.
  2. Nothing is applied that would break a rule its source keeps.
  3. Whatever a killed process left is looked after first.

[merged: late.py] Lines that were appended to a session while it was edited, made to fit what is left of it.

[merged: undisturbed.py] A while without the garbage collector.
"""

from __future__ import annotations

import gc
import os
import secrets
import unicodedata
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from unspool.edit import in_use
from unspool.edit.apply import journal, transaction
from unspool.edit.apply.journal import Journal
from unspool.edit.apply.transaction import Wanted
from unspool.edit.copy_side_files import Destination, adapted, copies, moves
from unspool.edit.plan import Plan
from unspool.edit.planner import Fork, Ids, Move, Operation, Prepared, plan
from unspool.edit.session_view import read, view
from unspool.edit.side_files import Surroundings, surroundings
from unspool.edit.verify.check_session import manuscript_of, slugs
from unspool.edit.verify.verify import Verified, verified
from unspool.errors import NotFound, Refused
from unspool.files.open import pieces_of
from unspool.format.entry import Entry
from unspool.format.json_edit import patch
from unspool.home import Session
from unspool.paths import data_folder, project_key


def fitted(moved: Mapping[str, str | None]) -> Callable[[bytes], bytes]:
    """Return what makes late lines hang on lines that are still there; all else of them stays."""

    def fit(late: bytes) -> bytes:
        pieces = []
        tail = read("", late)
        for item in tail.items:
            piece = late[item.offset : item.offset + item.length]
            if isinstance(item, Entry) and item.record.parent_uuid in moved:
                piece = patch(piece, {("parentUuid",): moved[item.record.parent_uuid or ""]})
            pieces.append(piece)
        return b"".join(pieces)

    return fit


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keep the garbage collector out meanwhile: it would look at every line again and again, and finds nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


_LIMIT = 200


class Planned(msgspec.Struct, frozen=True):
    """An edit that could be applied."""

    session: Session
    prepared: Prepared
    verified: Verified
    around: Surroundings
    destination: Destination
    seed: bytes

    @property
    def plan(self) -> Plan:
        """What it would do."""
        return self.prepared.plan


class Edited(msgspec.Struct, frozen=True):
    """An edit that was applied."""

    undo_id: str
    planned: Planned
    claude: bool | None = None
    """Whether an installed Claude Code sent what was predicted; None: it was not asked."""

    @property
    def path(self) -> Path:
        """The file of the session that came of it."""
        return self.planned.destination.path


def plan_edit(session: Session, operation: Operation, *, in_place: bool = False, id: str | None = None) -> Planned:
    """Return what an operation would do to a session. Nothing is written. `id`: of the new session."""
    if session.path.name.startswith("agent-") or not session.path.is_file():
        raise Refused(
            f"`{session.path.name}` cannot be edited by itself",
            hint="name the session it belongs to" if session.path.is_file() else "`unspool restore` puts it back first",
        )
    if in_place and isinstance(operation, Fork):
        raise Refused("a fork is always a new session", hint="leave out `--in-place`")
    with undisturbed():
        return _planned(session, operation, session.path.stem if in_place else id or str(uuid.uuid4()))


def apply_edit(
    planned: Planned,
    *,
    folder: Path | None = None,
    claude: bool | None = None,
    at: Callable[[str], None] = lambda _: None,
) -> Edited:
    """Apply a plan: all of it or nothing. `folder` is unspool's own data folder."""
    own = folder or data_folder(os.environ)
    if planned.verified.faults:
        raise Refused(f"the edit would break a rule: {planned.verified.faults[0]}", hint="nothing was written")
    with journal.locked(own):
        transaction.recover(own)
        _check_source(planned)
        id = secrets.token_hex(4)
        plan = planned.plan
        about = Journal(
            id=id,
            operation=plan.operation,
            source=plan.source,
            session=plan.session,
            path=str(planned.destination.path),
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            state="applying",
            actions=(),
            within=str(planned.around.config or planned.around.path.parent),
            report={**as_data(planned, claude=claude), "undo_id": id},
        )
        transaction.apply(own, about, _wanted(planned), at)
    return Edited(id, planned, claude)


def undo_edit(
    id: str | None = None, *, folder: Path | None = None, at: Callable[[str], None] = lambda _: None
) -> Journal:
    """Take an edit back: the last one that stands, or the one with this id."""
    own = folder or data_folder(os.environ)
    with journal.locked(own):
        transaction.recover(own)
        return transaction.undo(own, journal.chosen(own, id), at)


def edit_log(*, folder: Path | None = None) -> list[Journal]:
    """Return all edits, oldest first; what a killed process left is looked after."""
    own = folder or data_folder(os.environ)
    if journal.place(own).is_dir():
        if any(one.state in ("applying", "undoing") for one in journal.journals(own)):
            with journal.locked(own):
                transaction.recover(own)
        return journal.journals(own)
    return []


def as_data(planned: Planned, *, claude: bool | None = None) -> dict[str, Any]:
    """Return what is said of an edit, as plain data."""
    plan = planned.plan
    return {
        "session": plan.session,
        "path": str(planned.destination.path),
        "source": plan.source,
        "operation": plan.operation,
        "lines": [*plan.lines],
        "file_bytes": [*plan.file_bytes],
        "context_tokens": [*plan.context_tokens],
        "exact_tokens": plan.exact_tokens,
        "removed": dict(plan.removed),
        "payback": plan.payback._asdict() if plan.payback else None,
        "verified": {
            "invariants": planned.verified.invariants,
            "replay": planned.verified.replay,
            "claude": claude,
        },
    }


def changes_as_data(plan: Plan) -> list[dict[str, Any]]:
    """Return what goes and why, as plain data."""
    return [
        {
            "entry": one.uuid or one.entry,
            "offset": one.entry,
            "block": one.block,
            "kind": one.kind,
            "reason": one.reason,
        }
        for one in plan.changes
    ]


def _planned(session: Session, operation: Operation, id: str) -> Planned:
    in_place = id == session.path.stem
    manuscript = manuscript_of(session)
    around = surroundings(session, slugs(manuscript))
    now = datetime.now(UTC)
    ids = Ids(
        session=id,
        seed=secrets.token_bytes(16),
        boundary=str(uuid.uuid4()),
        summary=str(uuid.uuid4()),
        now=now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    )
    folder = _folder(operation, around)
    there = Destination(folder / f"{ids.session}.jsonl", int(now.timestamp() * 1000), in_place)
    prepared = plan(manuscript, operation, ids, lambda new: adapted(new, around, there, ids.seed))
    if in_place and not isinstance(operation, Move) and prepared.plan.data == manuscript.data:
        raise Refused("there is nothing to do", hint="the session is as it would be already")
    return Planned(session, prepared, verified(prepared), around, there, ids.seed)


def _folder(operation: Operation, around: Surroundings) -> Path:
    """Return the project's folder that the session comes to lie in."""
    if not isinstance(operation, Move):
        return around.path.parent
    if around.config is None:
        raise Refused("the session lies in no config folder", hint="only there are sessions found by their folder")
    target = Path(operation.to).expanduser()
    if not target.is_dir():
        raise NotFound(f"no such folder: `{operation.to}`", hint="the session can be gone on with there when it exists")
    key = project_key(unicodedata.normalize("NFC", str(target.resolve())))
    projects = around.config / "projects"
    if len(key) > _LIMIT:  # two makers of the name hash differently; the beginning is the same
        same = [one for one in sorted(projects.glob(f"{key[:_LIMIT]}-*")) if one.is_dir()]
        key = same[0].name if same else key
    if projects / key == around.path.parent:
        raise Refused(f"the session lies there already: `{key}`", hint="name another folder")
    return projects / key


def _check_source(planned: Planned) -> None:
    """Refuse what cannot be applied any more."""
    if planned.plan.in_place:
        why = in_use.reason(
            planned.session.path, planned.session.id, planned.around.config, view(planned.prepared.source)
        )
        if why is not None:
            raise Refused(
                f"the session is in use: {why}", hint="without `--in-place` a new session comes of it; or wait"
            )
    if not _begins(planned.session.path, planned.prepared.source.data):
        raise Refused("the session has changed meanwhile", hint="nothing was written; plan the edit again")


def _begins(path: Path, data: bytes) -> bool:
    """Tell whether a file still begins with what was read of it; a piece at a time, for there may be much of it."""
    known, at = memoryview(data), 0
    for piece in pieces_of(path):
        if known[at : at + len(piece)] != piece[: len(data) - at]:
            return False
        at += len(piece)
        if at >= len(data):
            break
    return at >= len(data)


def _wanted(planned: Planned) -> list[Wanted]:
    plan, path = planned.plan, planned.session.path
    if not plan.in_place:
        own = Wanted("create", planned.destination.path, data=plan.data, decides=True)
        return [*copies(planned.prepared, planned.around, planned.destination, planned.seed), own]
    read = planned.prepared.source.data
    late = fitted(plan.moved)
    if plan.operation != "move":
        return [Wanted("replace", path, data=plan.data, read=read, late=late, decides=True)]
    data = plan.data if plan.data != read else None
    own = Wanted("move", path, data=data, target=planned.destination.path, read=read, late=late, decides=True)
    return [*moves(planned.prepared, planned.around, planned.destination, planned.seed), own]
