"""Taking rights away from this process, for good: Linux's Landlock, where the kernel has it.

Afterwards files can be read below some folders only, and nothing can be written, made, renamed or removed anywhere; no
connection can be opened. Rights cannot be had back, and every thread made later lacks them too.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable

_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""System calls, the same on every architecture."""
_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVS = 38
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
"""By version of the interface: everything it can take away."""
_TCP = 3


def restrict(readable: Iterable[str]) -> bool:
    """Give up all rights to files but to read below these folders; tell whether the kernel could."""
    if sys.platform != "linux":
        return False
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    version = call(_CREATE, None, ctypes.c_size_t(0), _VERSION)
    if version < 1:
        return False
    rights = _FILE_RIGHTS.get(version, (1 << 16) - 1)
    rules = struct.pack("QQ", rights, _TCP) if version >= 4 else struct.pack("Q", rights)
    ruleset = call(_CREATE, rules, ctypes.c_size_t(len(rules)), 0)
    if ruleset < 0:
        return False
    for folder in readable:
        descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", _READ_FILE | _READ_DIR, descriptor)
        call(_ADD, ruleset, _PATH_BENEATH, rule, 0)
        os.close(descriptor)
    ctypes.CDLL(None).prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    done = call(_RESTRICT, ruleset, 0) == 0
    os.close(ruleset)
    return bool(done)
