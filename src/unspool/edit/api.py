"""Plans, verifies, applies and undoes edits of sessions on disk.

    session = unspool.open().session("945090a1")
    planned = unspool.plan_edit(session, unspool.Trim(results=True))      # nothing is written
    edited = unspool.apply_edit(planned)                                  # a new session
    unspool.undo_edit(edited.undo_id)

Rules
  1. By default an edit makes a new session, beside its source. In place only if nobody works with the session.
  2. Nothing is applied that would break a rule which the source keeps.
  3. What a killed process left is finished or taken back first.
"""

from __future__ import annotations

import os
import secrets
import unicodedata
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from unspool.edit.apply import journal, recovery, transaction
from unspool.edit.apply.journal import Journal
from unspool.edit.apply.transaction import FileOperation
from unspool.edit.planning.draft import relink_appended
from unspool.edit.planning.plan import EditIds, EditPlan, Fork, Move, Operation
from unspool.edit.planning.planner import PreparedEdit, prepare_edit
from unspool.edit.session_text import garbage_collection_paused
from unspool.edit.side_files import (
    Destination,
    SessionFiles,
    complete_id_map,
    copy_side_files,
    find_session_files,
    move_side_files,
    read_session_text,
)
from unspool.edit.verify.verify import Verification, verify_edit
from unspool.errors import NotFound, Refused
from unspool.files import read_pieces
from unspool.format import Assistant, User, format_timestamp
from unspool.home import Session
from unspool.paths import data_folder, project_key

_MAX_PROJECT_KEY = 200


class Planned(msgspec.Struct, frozen=True):
    """An edit that could be applied."""

    session: Session
    prepared: PreparedEdit
    verified: Verification
    files: SessionFiles
    destination: Destination
    seed: bytes
    moved_to: Path | None = None
    """The folder that `move` names."""

    @property
    def plan(self) -> EditPlan:
        """What it would do."""
        return self.prepared.plan

    @property
    def resume_folder(self) -> str | None:
        """The folder to resume the result in: Claude Code looks for a session by the folder that it runs in."""
        if self.moved_to is not None:
            return str(self.moved_to)
        records = (entry.record for entry in self.prepared.result.entries)
        messages = (record for record in records if isinstance(record, User | Assistant))
        return next((message.cwd for message in messages if message.cwd is not None), None)


class Edited(msgspec.Struct, frozen=True):
    """An edit that was applied."""

    undo_id: str
    planned: Planned
    claude: bool | None = None
    """Whether an installed Claude Code sent what was predicted; None: it was not run."""

    @property
    def path(self) -> Path:
        """The file of the resulting session."""
        return self.planned.destination.path


def plan_edit(session: Session, operation: Operation, *, in_place: bool = False, id: str | None = None) -> Planned:
    """Return what an operation would do to a session. Nothing is written. `id`: of the new session."""
    if session.is_missing:
        message = f"session `{session.id}` cannot be edited: its file is gone, only its agents are left"
        raise Refused(message, hint=f"restore it with `unspool restore {session.own_path.name}`, if the archive has it")
    if session.path.name.startswith("agent-") or not session.path.is_file():
        raise Refused(
            f"`{session.path.name}` cannot be edited separately",
            hint="edit the session that it belongs to" if session.path.is_file() else "run `unspool restore` first",
        )
    if in_place and isinstance(operation, Fork):
        raise Refused("a fork cannot be made in place", hint="remove `--in-place`")
    new_id = session.path.stem if in_place else id or str(uuid.uuid4())
    with garbage_collection_paused():
        text = read_session_text(session)
        files = find_session_files(session, text)
        now = datetime.now(UTC)
        ids = EditIds(
            session=new_id,
            seed=secrets.token_bytes(16),
            boundary=str(uuid.uuid4()),
            summary=str(uuid.uuid4()),
            now=format_timestamp(now),
        )
        path = _target_folder(operation, files) / f"{new_id}.jsonl"
        destination = Destination(path, int(now.timestamp() * 1000), new_id == session.path.stem)
        prepared = prepare_edit(
            text, operation, ids, lambda id_map: complete_id_map(id_map, files, destination, ids.seed)
        )
        if destination.in_place and not isinstance(operation, Move) and prepared.plan.data == text.data:
            raise Refused("nothing to change", hint="the session already has the requested form")
        moved_to = Path(operation.to).expanduser().resolve() if isinstance(operation, Move) else None
        return Planned(session, prepared, verify_edit(prepared), files, destination, ids.seed, moved_to)


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
        raise Refused(
            f"the edit would make the session invalid: {planned.verified.faults[0]}", hint="nothing was written"
        )
    with journal.lock_edits(own):
        # An unfinished edit may be one of this very session: its file must be whole before it is compared.
        recovery.recover(own)
        check_source(planned)
        id = secrets.token_hex(4)
        plan = planned.plan
        entry = Journal(
            id=id,
            operation=plan.operation,
            source=plan.source,
            session=plan.session,
            path=str(planned.destination.path),
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            state="applying",
            actions=(),
            within=str(planned.files.config or planned.files.path.parent),
            report={**edit_as_json(planned, claude=claude), "undo_id": id},
        )
        transaction.apply(own, entry, _list_file_changes(planned), at)
    return Edited(id, planned, claude)


def undo_edit(
    id: str | None = None,
    *,
    folder: Path | None = None,
    config: Path | None = None,
    merge: bool = False,
    at: Callable[[str], None] = lambda _: None,
) -> Journal:
    """Take an edit back: the last one that stands, the one with this id, or the last one of the session with this id.

    With `config`, only edits of sessions in that folder. With `merge`, lines that were written since are kept.
    """
    own = folder or data_folder(os.environ)
    with journal.lock_edits(own):
        recovery.recover(own)
        return transaction.undo(own, journal.find_journal(own, id, config), at, merge=merge)


def edit_log(*, folder: Path | None = None, config: Path | None = None) -> list[Journal]:
    """Return all edits, oldest first; what a killed process left is finished or taken back.

    With `config`, only edits of sessions in that folder.
    """
    own = folder or data_folder(os.environ)
    if not journal.edits_folder(own).is_dir():
        return []
    # Reading needs no lock: it is taken only where there is something to recover.
    if any(entry.state in ("applying", "undoing") for entry in journal.read_journals(own)):
        with journal.lock_edits(own):
            recovery.recover(own)
    return [entry for entry in journal.read_journals(own) if config is None or entry.is_within(config)]


def edit_as_json(planned: Planned, *, claude: bool | None = None) -> dict[str, Any]:
    """Return an edit as plain data, for `--json` and the journal."""
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
        "verified": {"invariants": planned.verified.invariants, "replay": planned.verified.replay, "claude": claude},
    }


def changes_as_json(plan: EditPlan) -> list[dict[str, Any]]:
    """Return what is removed or changed and why, as plain data."""
    return [
        {
            "entry": change.uuid or change.entry,
            "offset": change.entry,
            "block": change.block,
            "kind": change.kind,
            "reason": change.reason,
        }
        for change in plan.changes
    ]


def _target_folder(operation: Operation, files: SessionFiles) -> Path:
    """Return the project's folder that the resulting session is written to."""
    if not isinstance(operation, Move):
        return files.path.parent
    if files.config is None:
        raise Refused("the session is not in a config folder", hint="copy the session into a config folder first")
    target = Path(operation.to).expanduser()
    if not target.is_dir():
        raise NotFound(f"folder not found: `{operation.to}`", hint="create the folder first")
    key = project_key(unicodedata.normalize("NFC", str(target.resolve())))
    projects = files.config / "projects"
    if len(key) > _MAX_PROJECT_KEY:
        # A long name ends in a hash, and not all its makers hash alike: a folder with the same beginning is the one.
        same = [folder for folder in sorted(projects.glob(f"{key[:_MAX_PROJECT_KEY]}-*")) if folder.is_dir()]
        key = same[0].name if same else key
    if projects / key == files.path.parent:
        raise Refused(f"the session is already in `{key}`", hint="choose another folder")
    return projects / key


def check_source(planned: Planned) -> None:
    """Refuse a plan that cannot be applied any more."""
    if planned.plan.in_place:
        from unspool.edit.in_use import in_use_reason  # start-up: most edits write a new session

        why = in_use_reason(planned.session.path, planned.session.id, planned.files.config, planned.prepared.source)
        if why is not None:
            raise Refused(f"the session is in use: {why}", hint="remove `--in-place` to write a new session, or wait")
    if not _begins_with(planned.session.path, planned.prepared.source.data):
        raise Refused("the session changed during the edit", hint="nothing was written; run the edit again")


def _begins_with(path: Path, data: bytes) -> bool:
    """Return whether a file still begins with the bytes that were read of it; it may be too large to read twice."""
    at = 0
    for piece in read_pieces(path):
        # Not by views: these are compared a byte at a time, which took a twentieth of an edit.
        if not data.startswith(piece[: len(data) - at], at):
            return False
        at += len(piece)
        if at >= len(data):
            break
    return at >= len(data)


def _list_file_changes(planned: Planned) -> list[FileOperation]:
    plan, path = planned.plan, planned.session.path
    side_files = (planned.prepared, planned.files, planned.destination, planned.seed)
    if not plan.in_place:
        return [
            *copy_side_files(*side_files),
            FileOperation("create", planned.destination.path, data=plan.data, decides=True),
        ]
    base = planned.prepared.source.data
    adapt_appended = partial(relink_appended, kept_ancestors=plan.kept_ancestors)
    if plan.operation != "move":
        return [FileOperation("replace", path, data=plan.data, base=base, adapt_appended=adapt_appended, decides=True)]
    own = FileOperation(
        "move",
        path,
        data=plan.data if plan.data != base else None,
        target=planned.destination.path,
        base=base,
        adapt_appended=adapt_appended,
        decides=True,
    )
    return [*move_side_files(*side_files), own]
