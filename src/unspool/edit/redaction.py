"""Removes texts, secrets or turns from a session and from all files that belong to it, on disk.

    plan = plan_redaction(session, RedactionRequest(texts=("hunter2",)))
    applied = apply_redaction(plan)            # `unspool.undo_edit(applied.id)` takes it back
    shred_backups(folder, plan.removal)        # from then on it cannot

Rules
  1. The session itself is changed, and every file that belongs to it, all together or not at all, with the journal and
     the backups of any other edit.
  2. What cannot be changed is named: other files of the config folder that hold the same text.
  3. A shredded edit has no backups. So have earlier edits whose backups hold what was removed.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from unspool.display import amount
from unspool.edit.api import Planned, check_source, edit_as_json
from unspool.edit.apply import journal, recovery, transaction
from unspool.edit.apply.journal import Journal
from unspool.edit.apply.transaction import FileOperation
from unspool.edit.planning.draft import relink_appended
from unspool.edit.planning.plan import EditIds, Redact
from unspool.edit.planning.planner import prepare_edit
from unspool.edit.planning.redaction import find_turn_agents, find_turn_lines, list_texts, redact_session_text
from unspool.edit.planning.session_view import view_session
from unspool.edit.session_text import SessionText, garbage_collection_paused, parse_session_text
from unspool.edit.side_files import (
    Destination,
    SessionFiles,
    SideFile,
    find_session_files,
    read_agent_files,
    read_file,
    read_session_text,
)
from unspool.edit.verify.verify import verify_edit
from unspool.errors import Refused, UnspoolError, UsageError, turn_not_found
from unspool.files import read_pieces
from unspool.format import Entry, format_timestamp
from unspool.home import Session
from unspool.paths import data_folder
from unspool.redact import MARKER, RedactionOptions, SecretRecorder, TextRemoval, redact_line, secret_texts

_HISTORY = "history.jsonl"
_MAX_SEARCHED_FILE = 256 * 1024 * 1024


class RedactionRequest(NamedTuple):
    """What is to be removed from a session."""

    texts: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    """Patterns of re2."""
    secrets: RedactionOptions | None = None
    """The rules by which secrets are found; None: they are not searched."""
    turns: range | None = None


class RedactionPlan(NamedTuple):
    """What would be removed, from which files."""

    planned: Planned
    removal: TextRemoval
    changes: list[FileOperation]
    """All files that change; the last one decides."""
    found: dict[str, int]
    """The secrets that were found, by kind."""
    elsewhere: list[Path]
    """Files of the config folder that hold the same text, and belong to something else."""
    whole_files: frozenset[str]
    """Paths of files of which nothing stays."""
    session_files: frozenset[str]
    """Paths of all files that belong to the session."""
    cwds: frozenset[str]
    """The working folders of the session."""

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self.planned.session.path.stem

    def owns_history_line(self, line: bytes) -> bool:
        """Tell whether a line of the prompt history is of this session."""
        return _owns_history_line(line, self.session_id, self.cwds)


def plan_redaction(session: Session, request: RedactionRequest, archived: Iterable[bytes] = ()) -> RedactionPlan:
    """Return what would be removed from a session; nothing is written.

    `archived` are earlier contents of its files: secrets that only they hold are removed, too.
    """
    if session.is_missing or session.path.name.startswith("agent-") or not session.path.is_file():
        raise Refused("only a session with its file can be redacted", hint="run `unspool restore` first")
    if not (request.texts or request.patterns or request.secrets is not None or request.turns is not None):
        raise UsageError("nothing to remove is named", hint="add `--text`, `--regex`, `--secrets` or `--turns`")
    with garbage_collection_paused():
        text = read_session_text(session)
        files = find_session_files(session, text)
        files.files.extend(_find_named_files(files, session.path.stem))
        archived = list(archived)
        removal, found, whole_files = _make_removal(session, text, files, request, archived)
        id = session.path.stem
        now = datetime.now(UTC)
        ids = EditIds(id, secrets.token_bytes(16), "", "", format_timestamp(now))
        prepared = prepare_edit(text, Redact(removal), ids)
        destination = Destination(session.path, int(now.timestamp() * 1000), in_place=True)
        planned = Planned(session, prepared, verify_edit(prepared), files, destination, ids.seed)
        cwds = _list_cwds(text)
        changes = list(_list_changes(planned, removal, whole_files, cwds))
    own_paths = frozenset(map(str, (files.path, *(file.path for file in files.files))))
    elsewhere = list(_find_elsewhere(files, own_paths, removal))
    return RedactionPlan(planned, removal, changes, found, elsewhere, whole_files, own_paths, cwds)


def apply_redaction(
    plan: RedactionPlan, *, folder: Path | None = None, at: Callable[[str], None] = lambda _: None
) -> Journal | None:
    """Change all files of the session; return the edit, None if no file has anything to remove."""
    own = folder or data_folder(os.environ)
    planned = plan.planned
    if planned.verified.faults:
        raise Refused(f"the session would be invalid: {planned.verified.faults[0]}", hint="nothing was written")
    with journal.lock_edits(own):
        recovery.recover(own)
        if not plan.changes:
            return None
        check_source(planned)
        id = secrets.token_hex(4)
        entry = Journal(
            id=id,
            operation="redact",
            source=plan.session_id,
            session=plan.session_id,
            path=str(planned.session.path),
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            state="applying",
            actions=(),
            within=str(planned.files.config or planned.files.path.parent),
            report={**edit_as_json(planned), "undo_id": id},
        )
        return transaction.apply(own, entry, plan.changes, at)


def find_backups(folder: Path, removal: TextRemoval, session_id: str) -> list[str]:
    """Return the ids of edits whose backups hold what is removed, and of redactions of the session."""
    return [
        entry.id
        for entry in journal.read_journals(folder)
        if entry.state != "shredded"
        and ((entry.operation == "redact" and entry.session == session_id) or _holds(folder, entry, removal))
    ]


def shred_backups(
    folder: Path, removal: TextRemoval, session_id: str, at: Callable[[str], None] = lambda _: None
) -> list[str]:
    """Delete the backups of edits that hold what was removed; return the ids of the edits, which cannot be undone."""
    shredded = []
    with journal.lock_edits(folder):
        recovery.recover(folder)
        for id in find_backups(folder, removal, session_id):
            entry = journal.read_journal(folder, id)
            assert entry is not None
            # First the state: a backup that is missing must not be searched for.
            journal.write_journal(folder, replace(entry, state="shredded"))
            at("shredding")
            for action in entry.actions:
                if action.backup is not None:
                    (journal.edits_folder(folder) / id / action.backup).unlink(missing_ok=True)
            shredded.append(id)
            at("shredded")
        _remove_leftovers(folder)
    return shredded


def _remove_leftovers(folder: Path) -> None:
    """Delete backups that a killed process left of an edit that is shredded."""
    for entry in journal.read_journals(folder):
        if entry.state == "shredded":
            for action in entry.actions:
                if action.backup is not None:
                    (journal.edits_folder(folder) / entry.id / action.backup).unlink(missing_ok=True)


def _holds(folder: Path, entry: Journal, removal: TextRemoval) -> bool:
    for action in entry.actions:
        if action.backup is None:
            continue
        path = journal.edits_folder(folder) / entry.id / action.backup
        try:
            data = b"".join(read_pieces(path))
        except (OSError, UnspoolError):
            continue
        if removal.clean_lines(data) != data or removal.matches(data):
            return True
    return False


def _make_removal(
    session: Session, text: SessionText, files: SessionFiles, request: RedactionRequest, archived: list[bytes]
) -> tuple[TextRemoval, dict[str, int], frozenset[str]]:
    texts = [text for text in request.texts if text]
    if any(len(text.strip()) < 2 for text in texts):
        raise UsageError("a text of one character cannot be removed", hint="name a longer text")
    recorder = None
    if request.secrets is not None:
        recorder = SecretRecorder(secrets.token_bytes(32), request.secrets)
        for data in (*_all_contents(text, files), *archived):
            for line in data.split(b"\n"):
                redact_line(recorder, line)
            # A private key in a file that is no file of lines spans many of them.
            if b"PRIVATE KEY" in data:
                redact_line(recorder, data)
        texts += secret_texts(recorder.found)
    lines, agents, whole_files = set[str](), set[str](), frozenset[str]()
    if request.turns is not None:
        view = view_session(text)
        chosen = find_turn_lines(view, request.turns)
        if not chosen:
            raise turn_not_found(str(request.turns.start), amount(len(view.turns), "turn"))
        lines = {entry.record.uuid for entry in chosen if entry.record.uuid}
        agents = find_turn_agents(text, chosen, read_agent_files(files, session.path.stem))
        whole_files = _find_whole_files(files, chosen)
        texts += list_texts([*chosen, *_archived_entries(archived, lines)])
    kinds: dict[str, int] = {}
    for kind in recorder.found.values() if recorder else ():
        kinds[kind] = kinds.get(kind, 0) + 1
    removal = TextRemoval(
        texts=texts, patterns=request.patterns, redactor=recorder, whole_lines=lines, whole_agents=agents
    )
    return removal, kinds, whole_files


def _archived_entries(archived: list[bytes], uuids: set[str]) -> Iterator[Entry]:
    """Yield the lines of some turns as they were earlier: after a kill, the files no longer say what was in them."""
    for data in archived:
        for entry in parse_session_text("", data).entries:
            if entry.record.uuid in uuids:
                yield entry


def _all_contents(text: SessionText, files: SessionFiles) -> Iterator[bytes]:
    yield text.data
    for file in files.files:
        data = read_file(file.path)
        if file.role == "history":  # secrets of other sessions are theirs
            cwds = _list_cwds(text)
            lines = [line for line in data.split(b"\n") if _owns_history_line(line, text.id, cwds)]
            data = b"\n".join(lines)
        yield data


def _list_cwds(text: SessionText) -> frozenset[str]:
    return frozenset(entry.record.cwd for entry in text.entries if isinstance(entry.record.cwd, str))


def _find_named_files(files: SessionFiles, id: str) -> Iterator[SideFile]:
    """Yield files of the config folder that have the session's id in their path, and the history of prompts."""
    if files.config is None:
        return
    known = {files.path, *(file.path for file in files.files)}
    for path in _walk(files.config):
        if path in known or path == files.path:
            continue
        inner = path.relative_to(files.config)
        if path == files.config / _HISTORY:
            yield SideFile(path, "history")
        elif inner.parts[0] in ("projects", "sessions") or path.name.endswith((".lock", ".tmp")):
            continue
        elif any(id in part for part in inner.parts):
            yield SideFile(path, "file")


def _walk(folder: Path) -> Iterator[Path]:
    for above, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(above, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _find_whole_files(files: SessionFiles, lines: list[Entry]) -> frozenset[str]:
    """Return the long results, and backups of files, that the lines of some turns name."""
    raw = b"".join(bytes(entry.raw) for entry in lines)
    roles = ("result", "backup")
    return frozenset(
        str(file.path) for role in roles for file in files.with_role(role) if file.path.name.encode() in raw
    )


def _list_changes(
    planned: Planned, removal: TextRemoval, whole_files: frozenset[str], cwds: frozenset[str]
) -> Iterator[FileOperation]:
    changes = []
    id = planned.session.path.stem
    for file in planned.files.files:
        before = read_file(file.path)
        after, adapt = _clean_side_file(file, before, removal, id, whole=str(file.path) in whole_files, cwds=cwds)
        if after != before:
            changes.append(FileOperation("replace", file.path, data=after, base=before, adapt_appended=adapt))
    plan = planned.plan
    if plan.data != planned.prepared.source.data:
        changes.append(
            FileOperation(
                "replace",
                planned.session.path,
                data=plan.data,
                base=planned.prepared.source.data,
                adapt_appended=partial(_clean_appended, removal=removal, kept=plan.kept_ancestors),
            )
        )
    # The session's own file comes last, if it changes: before that the edit has not happened.
    yield from changes[:-1]
    yield from (change._replace(decides=True) for change in changes[-1:])


def _clean_appended(data: bytes, removal: TextRemoval, kept: Any) -> bytes:
    return removal.clean_lines(relink_appended(data, kept_ancestors=kept))


def _clean_side_file(
    file: SideFile, before: bytes, removal: TextRemoval, id: str, *, whole: bool, cwds: frozenset[str]
) -> tuple[bytes, Callable[[bytes], bytes]]:
    if file.role == "history":

        def clean_history(data: bytes) -> bytes:
            lines = data.split(b"\n")
            return b"\n".join(
                removal.clean_line(line) if _owns_history_line(line, id, cwds) else line for line in lines
            )

        return clean_history(before), clean_history
    if file.role in ("agent", "lines"):
        is_whole = file.path.stem.removeprefix("agent-") in removal.whole_agents
        own = ("subagents" in file.path.parts) or file.role == "lines"
        text = parse_session_text(file.path.stem, before)
        finished = redact_session_text(
            text,
            removal,
            whole=is_whole,
            is_own=lambda entry: own or entry.record.session_id in (None, id),
        )
        return finished.data, removal.clean_lines
    if whole:
        return f"{MARKER}\n".encode(), bytes
    if file.path.suffix == ".jsonl":
        return removal.clean_lines(before), removal.clean_lines
    return removal.clean_file(before), removal.clean_file


class _HistoryLine(msgspec.Struct):
    sessionId: Any = None  # noqa: N815 - the name in the file
    project: Any = None


_HISTORY_LINE = msgspec.json.Decoder(_HistoryLine)


def _owns_history_line(line: bytes, id: str, cwds: frozenset[str]) -> bool:
    """Tell whether a prompt was typed in a session; before 2.1 lines name only the project."""
    try:
        found = _HISTORY_LINE.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return bool(line.strip())  # nobody can tell whose it is
    return found.sessionId == id or (
        found.sessionId is None and isinstance(found.project, str) and found.project in cwds
    )


def _find_elsewhere(files: SessionFiles, own: frozenset[str], removal: TextRemoval) -> Iterator[Path]:
    """Yield the files of the config folder that hold the same text, and belong to something else (rule 2)."""
    if files.config is None or removal.whole_lines:
        return
    for path in _walk(files.config):
        if str(path) in own and path.name != _HISTORY:
            continue
        if path.name == _HISTORY:  # lines of other sessions stay
            continue
        try:
            if path.stat().st_size <= _MAX_SEARCHED_FILE and removal.matches(b"".join(read_pieces(path))):
                yield path
        except (OSError, UnspoolError):
            continue
