"""Restricts a process with Landlock: which files it may read, write and run. Linux 5.13 and newer.

Rules
  1. A ruleset holds for a thread and all that the thread starts; it cannot be taken back.
  2. Landlock only grants. What is hidden is left out: its folder is not granted, but everything beside it is. So
     nothing can be made directly in a folder that has something hidden in it.
  3. A right that the kernel does not know yet is left out of the ruleset. What cannot be restricted at all is told by
     `abi_version`, so that the caller can ask a person instead.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import cache

from unspool.sandbox.policy import SandboxPolicy

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
_CREATE_RULESET_VERSION = 1
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION = 0x20080522

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_ALL_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
"""All rights to files that each version knows; from the fifth on also those of devices."""
_LATEST_RIGHTS = (1 << 16) - 1
_EVERYTHING = _LATEST_RIGHTS
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_IN_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15
"""Rights that a file can have; the others are those of folders."""
_TCP = 0b11
"""Binding and connecting."""
_SCOPES = 0b11
"""Abstract sockets and signals of processes outside."""
_WRITABLE_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class LandlockFailed(OSError):
    """The kernel refused a ruleset."""


@cache
def abi_version() -> int:
    """Return the version of Landlock that the kernel has; 0 if it has none."""
    if sys.platform != "linux":
        return 0
    # The system calls have these numbers on every architecture.
    version = _libc.syscall(
        ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(_CREATE_RULESET_VERSION)
    )
    return max(0, int(version))


def make_ruleset(policy: SandboxPolicy) -> int:
    """Return the descriptor of a ruleset for a policy, which the caller closes."""
    writable = [place for folder in policy.writable for place in _places_around(policy.hidden, folder)]
    return _make_ruleset(
        {
            **dict.fromkeys((*_places_around(policy.hidden, "/"), *policy.shown), _READ),
            **dict.fromkeys((*writable, *_WRITABLE_DEVICES), _EVERYTHING),
        },
        network=policy.network,
    )


def restrict_to_reading(folders: Iterable[str]) -> bool:
    """Give up, for good, all rights to files except reading below some folders, and the right to open connections.

    It holds for this thread and all that it starts later. Return whether the kernel could do it.
    """
    if abi_version() < 1:
        return False
    try:
        grants = {os.path.realpath(folder): _READ_FILE | _READ_DIR for folder in folders}
        ruleset = _make_ruleset(grants, network=False)
        try:
            restrict_self(ruleset)
        finally:
            os.close(ruleset)
    except OSError:
        return False
    return True


def _make_ruleset(grants: Mapping[str, int], *, network: bool) -> int:
    """Return the descriptor of a ruleset that grants rights to some files and folders, and no others."""
    version = abi_version()
    rights = _ALL_RIGHTS.get(version, _LATEST_RIGHTS)
    connections = _TCP if version >= 4 and not network else 0
    attribute = struct.pack("QQQ", rights, connections, _SCOPES if version >= 6 else 0)
    size = {1: 8, 2: 8, 3: 8, 4: 16, 5: 16}.get(version, 24)
    buffer = ctypes.create_string_buffer(attribute, len(attribute))
    ruleset = _libc.syscall(ctypes.c_long(_CREATE_RULESET), buffer, ctypes.c_size_t(size), ctypes.c_uint32(0))
    if ruleset < 0:
        raise LandlockFailed(ctypes.get_errno(), "the kernel did not create a Landlock ruleset")
    with ExitStack() as undo:
        undo.callback(os.close, ruleset)
        for path, granted in grants.items():
            _grant(ruleset, path, granted & rights)
        undo.pop_all()
    return int(ruleset)


def restrict_self(ruleset: int) -> None:
    """Put a ruleset in force for this thread and all that it starts."""
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise LandlockFailed(ctypes.get_errno(), "cannot drop privileges")
    if _libc.syscall(ctypes.c_long(_RESTRICT_SELF), ctypes.c_int(ruleset), ctypes.c_uint32(0)):
        raise LandlockFailed(ctypes.get_errno(), "the kernel did not enforce the Landlock ruleset")


def drop_capabilities() -> None:
    """Give up the capabilities of this thread, of which root has all: to set the clock, to read any file.

    After `restrict_self` no program that it starts gets them back.
    """
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    if _libc.capset(header, bytes(24)):
        raise LandlockFailed(ctypes.get_errno(), "the capabilities could not be given up")


def _places_around(hidden: Iterable[str], root: str) -> list[str]:
    """Return files and folders that together are all that is in a folder but what is hidden."""
    hidden = [path for path in hidden if path != "/"]
    places, around = [], [root]
    while around:
        folder = around.pop()
        below = [path for path in hidden if path.startswith(f"{folder.rstrip('/')}/")]
        if not below:
            places.append(folder)
            continue
        try:
            names = os.listdir(folder)  # noqa: PTH208 - names are wanted, and this runs before each command
        except OSError:
            continue
        for name in names:
            path = f"{folder.rstrip('/')}/{name}"
            if path not in hidden:
                around.append(path) if any(each.startswith(f"{path}/") for each in below) else places.append(path)
    return places


def _grant(ruleset: int, path: str, rights: int) -> None:
    """Grant rights to a file, or to a folder and all that is in it. What is not there needs none."""
    try:
        # O_NOFOLLOW: what a link leads to is granted by its own path, or hidden.
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        mode = os.fstat(descriptor).st_mode
        is_link = mode & 0o170000 == 0o120000
        allowed = rights if mode & 0o170000 == 0o040000 else rights & _IN_FILES
        if is_link or not allowed:
            return
        rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, descriptor), 12)
        failed = _libc.syscall(
            ctypes.c_long(_ADD_RULE),
            ctypes.c_int(ruleset),
            ctypes.c_int(_RULE_PATH_BENEATH),
            rule,
            ctypes.c_uint32(0),
        )
        if failed:
            raise LandlockFailed(ctypes.get_errno(), f"the kernel did not add a Landlock rule for {path}")
    finally:
        os.close(descriptor)
