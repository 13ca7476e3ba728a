"""Keeps the translated sessions of another agent's folder in a config folder of their own, up to date.

Rules
  1. The folder is `other-agents/<agent>-<digest of the path>` in unspool's data folder, for the user alone. It is
     derived: deleted, it is made again. Nothing is written into the agent's own folder.
  2. A file that has grown is read on from where the last reading ended. One that is no longer that file (another inode,
     fewer bytes, other bytes at its head or before that place) is translated anew, as a new file.
  3. A session whose original is gone is removed, as Claude Code's sessions are by Claude Code: the archive keeps it.
  4. The torn end of a file is translated as a torn line, which the next reading takes back.
  5. One process at a time translates a folder. One that is killed leaves lines that the next writes once more.
  6. What cannot be read is listed, and costs nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from unspool.errors import Unreadable, UnspoolError, cannot_write
from unspool.files import (
    MAX_SIDE_FILE,
    error_reason,
    hold_lock,
    make_data_folder,
    make_folder,
    open_regular,
    read_pieces,
    read_whole,
    temporary_file,
    write_atomically,
)
from unspool.format import DECODE_ERRORS, encode_json
from unspool.other_agents.recognition import FOLDER, AgentFolder, OtherAgentFile, find_files
from unspool.other_agents.translate import (
    CodexTranslator,
    GeminiTranslator,
    OpenCodeTranslator,
    PiTranslator,
    SessionTranslator,
    make_digest,
    torn_line,
)
from unspool.paths import project_key
from unspool.read import (
    START,
    Change,
    Position,
    Skipped,
    detect_change,
    position_at,
    read_line_chunks,
)

VERSION: Final = 1
"""Of the translation: with another one everything is translated anew."""
_STATE: Final = "state.json"
_TRANSLATORS: Final[dict[str, type[SessionTranslator]]] = {
    "codex": CodexTranslator, "gemini": GeminiTranslator, "pi": PiTranslator,
}  # fmt: skip
_MAX_COMPRESSED: Final = 1024**3
"""Bytes up to which a compressed file is read."""


class MirroredFile(msgspec.Struct, omit_defaults=True):
    """What is known of a file of another agent, or of a session in its database."""

    stamp: list[int] = []
    """Size, time and inode when it was read."""
    mark: str = ""
    """Of a session in a database: a text that changes with it."""
    target: str = ""
    """The translated file, as a path in the folder."""
    written: int = 0
    """Bytes of whole lines in that file."""
    position: Position = START
    translator: Any = None
    reason: str = ""
    """Why it could not be read to its end."""


class MirrorState(msgspec.Struct, omit_defaults=True):
    """What is known of all files of a folder."""

    version: int = 0
    root: str = ""
    stores: dict[str, str] = {}
    """The stamps of databases."""
    files: dict[str, MirroredFile] = {}


class Mirror:
    """The translated sessions of a folder."""

    def __init__(self, folder: AgentFolder, data_folder: Path) -> None:
        self._agent = folder
        self._data_folder = data_folder
        self.root = data_folder / FOLDER / f"{folder.program}-{make_digest(str(folder.root))[:16]}"
        self.skipped: list[Skipped] = []
        self._state = MirrorState()
        self._is_changed = False

    def update(self) -> None:
        """Bring the folder up to date."""
        self._state = self._read_state()
        unreadable: list[tuple[Path, str]] = []
        try:
            if self._agent.program == "opencode":
                self._update_stores()
            else:
                self._update_files(unreadable)
        except OSError as error:
            hint = (
                "set `$UNSPOOL_HOME` to a folder that you can write: the sessions of other agents are translated there"
            )
            refused = cannot_write(self.root, error_reason(error))
            raise type(refused)(refused.message, hint=hint) from None
        self.skipped += [Skipped(path, reason) for path, reason in unreadable]

    def _read_state(self) -> MirrorState:
        try:
            state = msgspec.json.decode(read_whole(self.root / _STATE, MAX_SIDE_FILE * 4), type=MirrorState)
        except (UnspoolError, *DECODE_ERRORS):
            return MirrorState(version=VERSION, root=str(self._agent.root))
        return state if state.version == VERSION else MirrorState(version=VERSION, root=str(self._agent.root))

    def _begin(self) -> None:
        make_data_folder(self._data_folder)
        make_folder(self.root / "projects")

    def _update_files(self, unreadable: list[tuple[Path, str]]) -> None:
        found = {str(file.path): file for file in find_files(self._agent, unreadable)}
        changed = {path: stamp for path in found if (stamp := self._changed_stamp(path)) is not None}
        gone = [] if unreadable else [path for path in self._state.files if path not in found]
        self._note_reasons(found)
        if not changed and not gone and (self.root / "projects").is_dir():
            return
        self._begin()
        with hold_lock(self.root / "lock"):
            self._state = self._read_state()  # another process may have been faster
            for path in changed:
                stamp = self._changed_stamp(path)
                if stamp is not None:
                    self._translate_file(found[path], stamp)
            for path in gone:
                self._forget(path)
            self._write_state()
        self._note_reasons(found)

    def _note_reasons(self, paths: Any) -> None:
        known = {skipped.path for skipped in self.skipped}
        for path in paths:
            entry = self._state.files.get(path)
            if entry is not None and entry.reason and Path(path) not in known:
                self.skipped.append(Skipped(Path(path), entry.reason))

    def _changed_stamp(self, path: str) -> list[int] | None:
        """Return the stamp of a file that has changed; None if it has not, or cannot be reached."""
        try:
            status = os.lstat(path)
        except OSError:
            return None
        stamp = [status.st_size, status.st_mtime_ns, status.st_ino]
        known = self._state.files.get(path)
        return None if known is not None and known.stamp == stamp else stamp

    def _forget(self, path: str) -> None:
        entry = self._state.files.pop(path, None)
        if entry is not None and entry.target:
            with suppress(FileNotFoundError):
                (self.root / entry.target).unlink()

    def _translate_file(self, file: OtherAgentFile, stamp: list[int]) -> None:
        path = str(file.path)
        entry = self._state.files.setdefault(path, MirroredFile())
        entry.stamp, entry.reason = stamp, ""
        try:
            if path.endswith(".jsonl"):
                self._translate_lines(file, entry)
            else:
                translator = self._new_translator(file)
                lines = (translator.translate(piece) for piece in _read_document(file.path))
                self._write_whole(path, entry, lines, translator)
            self._set_time(entry, stamp[1])
        except UnspoolError as error:
            entry.reason = error.reason or error.message

    def _new_translator(self, file: OtherAgentFile) -> SessionTranslator:
        translator = _TRANSLATORS[self._agent.program]()
        translator.session_id = file.session_id
        if self._agent.program == "gemini":
            translator.session_id, translator.cwd = _find_chat_facts(file.path)
        translator.session_id = translator.session_id or make_digest(str(file.path))[:32]
        return translator

    def _translate_lines(self, file: OtherAgentFile, entry: MirroredFile) -> None:
        """Translate what is new in a file of lines."""
        with open_regular(file.path) as source:
            change = detect_change(source, entry.position)
        translator = self._known_translator(entry) if change in (Change.GROWN, Change.SAME) else None
        target = self.root / entry.target
        if translator is None or not entry.target or not _has_size(target, entry.written):
            translator = self._new_translator(file)
            reader = _LineReader(file.path, 0)
            self._write_whole(str(file.path), entry, reader.translate(translator), translator)
        else:
            reader = _LineReader(file.path, entry.position.offset)
            with target.open("r+b") as lines:
                lines.truncate(entry.written)
                lines.seek(entry.written)
                for text in reader.translate(translator):
                    lines.write(text)
                    entry.written += len(text)
        with (self.root / entry.target).open("ab") as end:
            end.write(torn_line(translator.program, reader.torn))
        with open_regular(file.path) as source:
            entry.position = position_at(source, reader.offset)
        entry.translator = msgspec.to_builtins(translator)
        entry.reason = reader.reason

    def _known_translator(self, entry: MirroredFile) -> SessionTranslator | None:
        try:
            return msgspec.convert(entry.translator, _TRANSLATORS[self._agent.program])
        except msgspec.ValidationError:
            return None

    def _write_whole(
        self, path: str, entry: MirroredFile, lines: Iterator[bytes], translator: SessionTranslator
    ) -> None:
        """Write a translated file anew, in the project that its lines name."""
        written = 0
        with temporary_file(self.root / "new") as (beside, descriptor):
            with os.fdopen(os.dup(descriptor), "wb") as file:
                for text in lines:
                    file.write(text)
                    written += len(text)
            target = self._choose_target(path, translator)
            if entry.target and entry.target != target:
                with suppress(FileNotFoundError):
                    (self.root / entry.target).unlink()
            make_folder((self.root / target).parent)
            if not _keep_beginning(self.root / target, beside, entry.written, written):
                beside.replace(self.root / target)
        entry.target, entry.written = target, written

    def _choose_target(self, path: str, translator: SessionTranslator) -> str:
        """Return the place of a session: its project and id, which another file may have as well."""
        key = project_key(translator.cwd) if translator.cwd else self._agent.program
        name = "".join(char if char.isalnum() or char in "-_" else "-" for char in translator.session_id)[:100]
        target = f"projects/{key}/{name}.jsonl"
        if any(other.target == target for known, other in self._state.files.items() if known != path):
            target = f"projects/{key[:200]}-{make_digest(path)[:8]}/{name}.jsonl"
        return target

    def _set_time(self, entry: MirroredFile, modified: int) -> None:
        # Lists order sessions by the time of their files: it is that of the original.
        if entry.target:
            os.utime(self.root / entry.target, ns=(modified, modified))

    def _update_stores(self) -> None:
        from unspool.other_agents.opencode_rows import open_stores

        try:
            stores = open_stores(self._agent.root)
        except UnspoolError as error:
            self.skipped.append(Skipped(self._agent.root, error.reason))
            return
        for store in stores:
            stamp = store.stamp()
            if stamp and self._state.stores.get(str(store.path)) == stamp and (self.root / "projects").is_dir():
                continue
            try:
                self._update_store(store, stamp)
            except UnspoolError as error:
                self.skipped.append(Skipped(store.path, error.reason))

    def _update_store(self, store: Any, stamp: str) -> None:
        found = {f"{store.path}#{session.id}": session for session in store.sessions()}
        known = self._state.files
        changed = [key for key, session in found.items() if key not in known or known[key].mark != session.mark]
        gone = [key for key in known if key.startswith(f"{store.path}#") and key not in found]
        if not changed and not gone and self._state.stores.get(str(store.path)) == stamp:
            return
        self._begin()
        with hold_lock(self.root / "lock"):
            self._state = self._read_state()
            for key in changed:
                session = found[key]
                entry = self._state.files.setdefault(key, MirroredFile())
                translator = OpenCodeTranslator(session_id=session.id)
                # Rows are changed in place, so all of a session is translated anew.
                self._write_whole(key, entry, map(translator.translate_row, store.rows(session.id)), translator)
                entry.mark = session.mark
                self._set_time(entry, session.modified)
            for key in gone:
                self._forget(key)
            self._state.stores[str(store.path)] = stamp
            self._write_state()

    def _write_state(self) -> None:
        write_atomically(self.root / _STATE, encode_json(msgspec.to_builtins(self._state)))


class _LineReader:
    """Reads the lines of a file from an offset on, and remembers how far it came."""

    def __init__(self, path: Path, offset: int) -> None:
        self._path = path
        self.offset = offset
        """After the last whole line, or the last line without an end that is a whole object."""
        self.torn = b""
        self.reason = ""

    def translate(self, translator: SessionTranslator) -> Iterator[bytes]:
        """Yield the lines for each line of the file."""
        left_out: list[tuple[int, int]] = []
        try:
            for chunk in read_line_chunks(self._path, start=self.offset, left_out=left_out):
                yield from self._translate_chunk(chunk.data[chunk.start : chunk.end], translator)
                self.offset = chunk.offset + chunk.end - len(self.torn)
        except Unreadable as error:
            self.reason = error.reason
        if left_out:
            self.reason = f"{len(left_out):,} of its lines are too long to be held in memory"
            self.offset = max(self.offset, *(offset + length for offset, length in left_out))

    def _translate_chunk(self, data: bytes, translator: SessionTranslator) -> Iterator[bytes]:
        start = 0
        while (end := data.find(b"\n", start) + 1) > 0:
            yield translator.translate(data[start:end])
            start = end
        rest = data[start:]
        if rest and rest.rstrip().endswith(b"}") and _is_object(rest):
            yield translator.translate(rest)
        else:
            self.torn = rest


def _is_object(data: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(data), dict)
    except DECODE_ERRORS:
        return False


def _has_size(path: Path, least: int) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return status.st_size >= least


def _keep_beginning(old: Path, new: Path, known: int, written: int) -> bool:
    """Append what is new if the old file is the beginning of the new one: the store reads on. Tell whether it is."""
    if not 0 < known <= written or not _has_size(old, known):
        return False
    with old.open("r+b") as target, new.open("rb") as source:
        left = known
        while left:
            size = min(left, 1 << 20)
            if (data := target.read(size)) != source.read(size) or not data:
                return False
            left -= len(data)
        target.truncate(known)
        target.seek(known)
        while data := source.read(1 << 20):
            target.write(data)
    return True


def _read_document(path: Path) -> Iterator[bytes]:
    """Yield the pieces of a file that is translated as a whole: a document, or compressed lines."""
    if path.suffix != ".zst":
        yield read_whole(path, MAX_SIDE_FILE)
        return
    from backports import zstd  # few folders have compressed sessions

    decompressor, rest, size = zstd.ZstdDecompressor(), b"", 0
    for data in read_pieces(path):
        try:
            plain = decompressor.decompress(data, 1 << 24)
            while True:
                size += len(plain)
                if size > _MAX_COMPRESSED:
                    reason = f"more than {_MAX_COMPRESSED:,} bytes when it is decompressed"
                    raise Unreadable(f"`{path}`: {reason}", reason=reason)
                *lines, rest = (rest + plain).split(b"\n")
                yield from (line + b"\n" for line in lines)
                if decompressor.eof or decompressor.needs_input:
                    break
                plain = decompressor.decompress(b"", 1 << 24)
        except (zstd.ZstdError, EOFError):
            raise Unreadable(f"`{path}`: damaged zstd data", reason="damaged zstd data") from None
    if rest:
        yield rest


def _find_chat_facts(path: Path) -> tuple[str, str | None]:
    """Return the session id in the head of a chat of Gemini CLI, and the folder that it was in."""
    id, cwd = "", None
    with suppress(UnspoolError):
        for chunk in read_line_chunks(path):
            head = chunk.data[chunk.start : chunk.end]
            head = head.partition(b"\n")[0] if path.suffix == ".jsonl" else head
            import re

            match = re.search(rb'"sessionId"\s*:\s*"([0-9A-Za-z_-]{1,100})"', head[:4096])
            id = match[1].decode() if match else ""
            break
    with suppress(UnspoolError, UnicodeDecodeError):
        cwd = read_whole(path.parent.parent / ".project_root", 4096).decode().strip() or None
    return id, cwd
