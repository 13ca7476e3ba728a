"""The manifest of the column files: which Parquet files there are, and which of their rows are current.

Rules
  1. A file is on the disk before the manifest names it. Files that the manifest does not name are removed.
  2. A reader holds a shared lock from before it reads the manifest until it is done with the files; files are removed
     only while no reader holds it.
  3. A manifest that cannot be read, or was written by another version, counts as empty: everything is derived again.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import msgspec

from unspool.errors import UnspoolError
from unspool.files import LockTaken, acquire_lock, flush_folder, hold_lock, make_folder, read_whole, write_durably
from unspool.store.columns.parquet import ColumnFile, content_digest
from unspool.store.columns.tables import read_script

COLUMNS_FOLDER = "columns"
MANIFEST, _READERS = "manifest", "readers.lock"
_MAX_BYTES = 1024**3
_VERSION = 2
"""Raised when rows are derived in another way; a change of their columns shows in `parts.sql`."""


class CurrentRows(msgspec.Struct, frozen=True, array_like=True):
    """Which rows of a session file are current, and how far the file was read for them."""

    source_id: int
    generation: int
    offset: int
    revision: int
    part: str


class ColumnPart(msgspec.Struct, frozen=True):
    """A folder of Parquet files with the rows of some session files."""

    files: list[ColumnFile]
    weight: int
    """What the rows were derived from: the bytes of the session files, and one for each file."""

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.size for file in self.files)


class ColumnManifest(msgspec.Struct):
    """All column files, and what in them is current."""

    version: str = ""
    serial: int = 0
    """Raised by one each time the manifest is written."""
    revision: int = 0
    """The last revision that was given to the rows of a file."""
    kinds: dict[str, str] = {}
    """By kind of file: a hash that changes when any of them does."""
    edition: str = ""
    """The edition of the prices that costs were computed with."""
    lines: dict[str, CurrentRows] = {}
    """By path: rows derived from lines."""
    answers: dict[str, CurrentRows] = {}
    """By path: rows of billed responses."""
    parts: dict[str, ColumnPart] = {}
    tables: dict[str, ColumnFile] = {}
    """Tables that are written whole, by name."""

    def files(self) -> Iterator[ColumnFile]:
        """Yield every column file."""
        for part in self.parts.values():
            yield from part.files
        yield from self.tables.values()

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.size for file in self.files())


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ColumnManifest).decode


@cache
def derivation_version() -> str:
    """Return a version that changes when the columns, or the way rows are derived, change."""
    script = read_script("parts.sql")
    return f"{_VERSION} {hashlib.blake2b(script.encode(), digest_size=8).hexdigest()}"


def read_manifest(columns: Path) -> ColumnManifest:
    """Return the manifest; an empty one if there is none that is valid."""
    try:
        data = read_whole(columns / MANIFEST, _MAX_BYTES)
        manifest = _decode(data[16:])
    except (OSError, msgspec.MsgspecError, ValueError, UnspoolError):
        return ColumnManifest(derivation_version())
    # The first 16 bytes are the hash of the rest: a manifest that was damaged or cut off is not taken for valid.
    if hashlib.blake2b(data[16:], digest_size=16).digest() != data[:16] or manifest.version != derivation_version():
        return ColumnManifest(derivation_version())
    return manifest


def write_manifest(columns: Path, manifest: ColumnManifest) -> None:
    """Write a new manifest beside the current one."""
    manifest.serial += 1
    data = _encode(manifest)
    write_durably(columns / f"{MANIFEST}.new", hashlib.blake2b(data, digest_size=16).digest() + data)


def publish_manifest(columns: Path) -> None:
    """Replace the current manifest by the one that was written last."""
    (columns / f"{MANIFEST}.new").replace(columns / MANIFEST)  # atomic: a reader sees the old one or the new one
    flush_folder(columns)


def damaged_files(columns: Path, manifest: ColumnManifest, *, deep: bool = False) -> Iterator[ColumnFile]:
    """Yield the files that are missing or not as they were written; `deep` compares every byte."""
    for file in manifest.files():
        path = columns / file.name
        try:
            if path.stat().st_size != file.size or (deep and content_digest(path.read_bytes()) != file.digest):
                yield file
        except OSError:
            yield file


def live_weights(current: Mapping[str, CurrentRows]) -> dict[str, int]:
    """Return for each part how much of its weight is still current."""
    weights: dict[str, int] = {}
    for rows in current.values():
        weights[rows.part] = weights.get(rows.part, 0) + rows.offset + 1
    return weights


def drop_files(manifest: ColumnManifest, lost: list[ColumnFile]) -> None:
    """Remove lost files from the manifest, and with them everything that their parts held."""
    names = {file.name for file in lost}
    lost_parts = {name for name, part in manifest.parts.items() if any(file.name in names for file in part.files)}
    manifest.parts = {name: part for name, part in manifest.parts.items() if name not in lost_parts}
    manifest.lines = {path: rows for path, rows in manifest.lines.items() if rows.part not in lost_parts}
    manifest.answers = {path: rows for path, rows in manifest.answers.items() if rows.part not in lost_parts}
    manifest.tables = {table: file for table, file in manifest.tables.items() if file.name not in names}


@contextmanager
def open_manifest(columns: Path) -> Iterator[ColumnManifest]:
    """Read the manifest, and keep the files it names from being removed meanwhile."""
    with keep_files(columns):
        yield read_manifest(columns)


@contextmanager
def keep_files(columns: Path) -> Iterator[None]:
    """Keep the column files from being removed meanwhile."""
    with hold_lock(columns / _READERS, shared=True):
        yield


def keep_files_until_exit(columns: Path) -> None:
    """Keep column files from being removed until the process ends."""
    acquire_lock(columns / _READERS, shared=True)


def remove_unreferenced(columns: Path, manifest: ColumnManifest) -> bool:
    """Remove files that the manifest does not name, unless a reader may use them; return whether that was done."""
    try:
        with hold_lock(columns / _READERS, timeout=0):
            named = {file.name for file in manifest.files()}
            for path in _children(columns / "parts"):
                if path.name not in manifest.parts:
                    shutil.rmtree(path, ignore_errors=True)
            # A file in `scopes` holds what a query about some folders counted; the next manifest makes it obsolete.
            for path in (*_children(columns / "tables"), *_children(columns / "scopes")):
                if f"tables/{path.name}" not in named and not path.name.startswith(f"{manifest.serial}-"):
                    path.unlink(missing_ok=True)
    except LockTaken:
        return False
    return True


def make_folders(columns: Path) -> None:
    """Create the folders of the column files, accessible to the user alone."""
    for folder in (columns, columns / "parts", columns / "tables", columns / "scopes"):
        make_folder(folder)


def _children(folder: Path) -> list[Path]:
    with suppress(OSError):
        return list(folder.iterdir())
    return []
