"""Swaps session files for other things while commands read them, from a thread of its own.

Links lead nowhere, to themselves, or to a file beside the config folder; nothing is ever written through one.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import stat
import threading
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def swap_files(config: Path, seed: int) -> Iterator[None]:
    """Replace files of a config folder again and again until the end, and put all back then."""
    kept = {path: path.read_bytes() for path in sorted(config.rglob("*")) if path.is_file() and not path.is_symlink()}
    outside = config.parent / "outside.jsonl"
    outside.write_bytes(b'{"type":"user"}\n')
    stop = threading.Event()
    thread = threading.Thread(target=_swap, args=(kept, outside, random.Random(seed), stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        for path, data in kept.items():
            with contextlib.suppress(OSError):
                _put(path, data)


def _swap(kept: dict[Path, bytes], outside: Path, rng: random.Random, stop: threading.Event) -> None:
    paths = sorted(kept)
    while not stop.wait(0.002):
        path = rng.choice(paths)
        with contextlib.suppress(OSError):
            _replace(path, kept[path], outside, rng)


def _replace(path: Path, data: bytes, outside: Path, rng: random.Random) -> None:
    some = rng.randrange(len(data) + 1)
    match rng.randrange(11):
        case 0:
            with _open_itself(path) as file:
                os.ftruncate(file, some)
        case 1:
            with _open_itself(path) as file:
                os.pwrite(file, data[:some], os.fstat(file).st_size)
        case 2:
            _put(path, data[:some])
        case 3:
            _put(path, data + data)
        case 4:
            _remove(path)
        case 5:
            _remove(path)
            path.mkdir()
        case 6:
            _remove(path)
            os.mkfifo(path)
        case 7:
            _remove(path)
            path.symlink_to(rng.choice(("/nowhere/at/all", path.name, str(outside))))
        case 8:
            with _open_itself(path) as file:  # other bytes in the same file
                os.pwrite(file, b"\0" * 100, some)
        case _:
            _put(path, data)


@contextlib.contextmanager
def _open_itself(path: Path) -> Iterator[int]:
    """Open a regular file for writing: no link, and no pipe, which would be waited for."""
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            yield descriptor
        else:
            raise OSError("not a regular file")
    finally:
        os.close(descriptor)


def _put(path: Path, data: bytes) -> None:
    """Write a file beside and rename it into place: another inode."""
    if path.is_dir() and not path.is_symlink():
        _remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    beside.write_bytes(data)
    beside.replace(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
