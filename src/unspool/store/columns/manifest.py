"""Which column files there are, and which rows in them are current. One file says so; it is replaced whole.

Rules
  1. What the manifest names is on the disk before it does. Whatever it does not name is rubbish, and is removed.
  2. A reader holds the readers' lock from before it reads the manifest until it is done with the files; rubbish is
     removed only while nobody does.
  3. A manifest that cannot be read, or was made by another version, is none: everything is derived again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import msgspec

from unspool.store.columns.parquet import File, digest, save, sync_folder
from unspool.store.columns.tables import text

FOLDER = "columns"
_NAME, _READERS = "manifest", "readers.lock"
_VERSION = 1
"""Of how rows are derived; what they are is in the scripts."""


class Current(msgspec.Struct, frozen=True, array_like=True):
    """Which rows of a file are current, and what of it they were made from."""

    source_id: int
    generation: int
    offset: int
    revision: int
    part: str


class Part(msgspec.Struct, frozen=True):
    """Rows of some files."""

    files: list[File]
    weight: int
    """What they were made from: the bytes of the files, and one for each."""

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.size for file in self.files)


class Manifest(msgspec.Struct):
    """What is current."""

    version: str = ""
    serial: int = 0
    """One more each time."""
    revision: int = 0
    """The last that was given."""
    kinds: dict[str, str] = {}
    """By kind of file: what tells whether any of them has changed."""
    edition: str = ""
    """Of the prices."""
    lines: dict[str, Current] = {}
    """By path: rows made from lines."""
    answers: dict[str, Current] = {}
    """By path: rows made from what was billed."""
    parts: dict[str, Part] = {}
    tables: dict[str, File] = {}
    """Those that are written whole."""

    def files(self) -> Iterator[File]:
        """Yield every file."""
        for part in self.parts.values():
            yield from part.files
        yield from self.tables.values()

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.size for file in self.files())


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Manifest).decode


@cache
def version() -> str:
    """Return what names the way rows are derived."""
    scripts = text("parts.sql")
    return f"{_VERSION} {hashlib.blake2b(scripts.encode(), digest_size=8).hexdigest()}"


def read(columns: Path) -> Manifest:
    """Return the manifest; an empty one if there is none that holds."""
    try:
        data = (columns / _NAME).read_bytes()
        manifest = _decode(data[16:])
    except (OSError, msgspec.MsgspecError, ValueError):
        return Manifest(version())
    if hashlib.blake2b(data[16:], digest_size=16).digest() != data[:16] or manifest.version != version():
        return Manifest(version())
    return manifest


def record(columns: Path, manifest: Manifest) -> None:
    """Write the manifest beside the one that holds."""
    manifest.serial += 1
    data = _encode(manifest)
    save(columns / f"{_NAME}.new", hashlib.blake2b(data, digest_size=16).digest() + data)


def publish(columns: Path) -> None:
    """Let what was written hold."""
    (columns / f"{_NAME}.new").replace(columns / _NAME)
    sync_folder(columns)


def is_whole(columns: Path, manifest: Manifest, *, deep: bool = False) -> bool:
    """Tell whether every file is there as it was written; `deep` compares every byte."""
    return not any(True for _ in damaged(columns, manifest, deep=deep))


def damaged(columns: Path, manifest: Manifest, *, deep: bool = False) -> Iterator[File]:
    """Yield the files that are missing or not as they were written."""
    for file in manifest.files():
        path = columns / file.name
        try:
            if path.stat().st_size != file.size or (deep and digest(path.read_bytes()) != file.digest):
                yield file
        except OSError:
            yield file


def forget(manifest: Manifest, lost: list[File]) -> None:
    """Take out what the files that were lost held."""
    names = {file.name for file in lost}
    gone = {name for name, part in manifest.parts.items() if any(file.name in names for file in part.files)}
    manifest.parts = {name: part for name, part in manifest.parts.items() if name not in gone}
    manifest.lines = {path: one for path, one in manifest.lines.items() if one.part not in gone}
    manifest.answers = {path: one for path, one in manifest.answers.items() if one.part not in gone}
    manifest.tables = {table: file for table, file in manifest.tables.items() if file.name not in names}


@contextmanager
def reading(columns: Path) -> Iterator[Manifest]:
    """Read the manifest, and keep what it names from being removed."""
    descriptor = hold(columns)
    try:
        yield read(columns)
    finally:
        os.close(descriptor)


def hold(columns: Path) -> int:
    """Keep column files from being removed until the descriptor is closed, at the latest when the process ends."""
    import fcntl

    descriptor = os.open(columns / _READERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def sweep(columns: Path, manifest: Manifest) -> bool:
    """Remove what the manifest does not name; not while somebody may be reading it."""
    import fcntl

    descriptor = os.open(columns / _READERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        named = {file.name for file in manifest.files()}
        for path in _children(columns / "parts"):
            if path.name not in manifest.parts:
                shutil.rmtree(path, ignore_errors=True)
        for path in _children(columns / "tables"):
            if f"tables/{path.name}" not in named:
                path.unlink(missing_ok=True)
        for path in _children(columns / "scopes"):
            if not path.name.startswith(f"{manifest.serial}-"):
                path.unlink(missing_ok=True)
        return True
    finally:
        os.close(descriptor)


def make_folders(columns: Path) -> None:
    """Make the folders, for the user alone."""
    for folder in (columns, columns / "parts", columns / "tables", columns / "scopes"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _children(folder: Path) -> list[Path]:
    with suppress(OSError):
        return list(folder.iterdir())
    return []
