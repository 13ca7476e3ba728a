"""Refuses system calls to a process: those for networks, and those that could lead out of a sandbox. Linux.

Rules
  1. A refused call fails with EPERM, so that programs go on and say what they could not do; `clone3` with ENOSYS, after
     which the C library uses `clone`, whose flags can be looked at.
  2. On another machine than the two whose numbers are known, there is no filter, and the caller is told.
  3. Of the families of sockets those are listed that may be opened: a new one is refused.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

Sockets = Literal["all", "internet", "none"]
"""Which sockets may be opened. Those of the internet are harmless only in a network namespace that leads nowhere."""

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_LOAD, _EQUAL, _AT_LEAST, _AND_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_NEW_NAMESPACES = 0x7E020000
"""The flags of `clone` that make a namespace."""
_X32_BIT = 0x40000000
_INTERNET_FAMILIES = (2, 10, 16)
"""IPv4, IPv6, and netlink, by which programs ask for their own addresses."""


class _Machine(NamedTuple):
    """The numbers of a machine's system calls."""

    architecture: int
    clone: int
    clone3: int
    socket: int
    refused: Mapping[str, int]
    """Calls that reach other processes, keys, namespaces, mounts and the kernel; and files by other ways than paths."""
    beside_files: Mapping[str, int]
    """Calls that Landlock does not restrict: owners, permissions and attributes of files, and shared memory."""
    times: Mapping[str, int]
    """Calls that change the times of files."""
    ioctl: int
    to_itself: Mapping[str, tuple[int, int]]
    """Calls that a process may make about itself only: the number, and which argument has the id, 0 for itself."""


_SAME_EVERYWHERE = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438, "mount_setattr": 442,
    "open_tree_attr": 467,
    "process_madvise": 440, "process_mrelease": 448,
}  # fmt: skip
_SAME_BESIDE_FILES = {"fchmodat2": 452, "setxattrat": 463, "removexattrat": 466, "file_setattr": 469}
_REFUSED_IOCTLS = (
    0x40086602, 0x40046602, 0x401C5820, 0x40087602, 0x40806685, 0x800C6613,  # flags, attributes, verity, encryption
    0x5412, 0x541C,  # input of a terminal, as if somebody had typed it
)  # fmt: skip
"""What changes a file by a descriptor that is open for reading only, and what types."""
_MACHINES: Final[Mapping[str, _Machine]] = MappingProxyType(
    {
        "x86_64": _Machine(
            architecture=0xC000003E,
            clone=56,
            clone3=435,
            socket=41,
            refused=_SAME_EVERYWHERE | {
                "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "add_key": 248, "request_key": 249,
                "keyctl": 250, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "mount": 165, "umount2": 166,
                "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308, "kexec_load": 246,
                "kexec_file_load": 320,
                "init_module": 175, "delete_module": 176, "finit_module": 313, "reboot": 169, "open_by_handle_at": 304,
            },
            beside_files=_SAME_BESIDE_FILES | {
                "shmget": 29, "semget": 64, "msgget": 68, "mq_open": 240, "chmod": 90, "fchmod": 91, "fchmodat": 268,
                "chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260,
                "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198,
                "fremovexattr": 199,
            },
            times={"utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280},
            ioctl=16,
            to_itself={
                "prlimit64": (302, 0), "sched_setparam": (142, 0), "sched_setscheduler": (144, 0),
                "sched_setaffinity": (203, 0), "sched_setattr": (314, 0), "setpriority": (141, 1),
                "ioprio_set": (251, 1),
            },
        ),
        "aarch64": _Machine(
            architecture=0xC00000B7,
            clone=220,
            clone3=435,
            socket=198,
            refused=_SAME_EVERYWHERE | {
                "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "add_key": 217, "request_key": 218,
                "keyctl": 219, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "mount": 40, "umount2": 39,
                "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268, "kexec_load": 104, "kexec_file_load": 294,
                "init_module": 105, "delete_module": 106, "finit_module": 273, "reboot": 142, "open_by_handle_at": 265,
            },
            beside_files=_SAME_BESIDE_FILES | {
                "mq_open": 180, "msgget": 186, "semget": 190, "shmget": 194, "fchmod": 52, "fchmodat": 53,
                "fchownat": 54, "fchown": 55, "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14,
                "lremovexattr": 15, "fremovexattr": 16,
            },
            times={"utimensat": 88},
            ioctl=29,
            to_itself={
                "prlimit64": (261, 0), "sched_setparam": (118, 0), "sched_setscheduler": (119, 0),
                "sched_setaffinity": (122, 0), "sched_setattr": (274, 0), "setpriority": (140, 1),
                "ioprio_set": (30, 1),
            },
        ),
    }
)  # fmt: skip

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


class SystemCallFilter:
    """A filter of system calls, made before the process that it is for."""

    def __init__(self, code: bytes) -> None:
        self.code = code
        """The instructions, as the kernel and bubblewrap take them."""
        self._buffer = ctypes.create_string_buffer(code, len(code))
        self._program = _Program(len(code) // 8, ctypes.addressof(self._buffer))

    def restrict_self(self) -> None:
        """Put the filter in force for this thread and all that it starts."""
        if _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(self._program), 0, 0):
            raise OSError(ctypes.get_errno(), "the kernel did not accept the system call filter")


@cache
def make_filter(
    *, sockets: Sockets, in_namespaces: bool, times: bool = True, more: tuple[int, ...] = ()
) -> SystemCallFilter:
    """Return the filter of a sandboxed command.

    `in_namespaces` says whether the command has namespaces of its own, in which mounts and processes are out of reach,
    so that less has to be refused; `times` whether it may change the times of files, where it has none. `more` are the
    numbers of other calls that are refused.
    """
    machine = _MACHINES[platform.machine()]
    refused = [*machine.refused.values(), *more]
    program = list[bytes]()
    if not in_namespaces:
        refused += [*machine.beside_files.values(), *(() if times else machine.times.values())]
        for number, argument in machine.to_itself.values():
            program += _refuse_arguments(number, argument, allowed=(0,))
        program += _refuse_arguments(machine.ioctl, 1, refused=_REFUSED_IOCTLS)
    if sockets != "all":
        program += _refuse_arguments(machine.socket, 0, allowed=_INTERNET_FAMILIES if sockets == "internet" else ())
    return SystemCallFilter(_make_code(machine, refused, program))


def is_available() -> bool:
    """Return whether the numbers of this machine's system calls are known."""
    return platform.system() == "Linux" and platform.machine() in _MACHINES


def _make_code(machine: _Machine, refused: Iterable[int], by_arguments: list[bytes]) -> bytes:
    program = [
        _statement(_LOAD, _ARCHITECTURE),
        _jump(_EQUAL, machine.architecture, 1, 0),
        _statement(_RETURN, _KILL),
        _statement(_LOAD, _NUMBER),
        _jump(_AT_LEAST, _X32_BIT, 0, 1),
        _statement(_RETURN, _KILL),
        _jump(_EQUAL, machine.clone3, 0, 1),
        _statement(_RETURN, _ERROR | errno.ENOSYS),
    ]
    for number in refused:
        program += [_jump(_EQUAL, number, 0, 1), _REFUSE]
    program += [
        *by_arguments,
        _jump(_EQUAL, machine.clone, 0, 3),
        _statement(_LOAD, _FIRST_ARGUMENT),
        _jump(_AND_SET, _NEW_NAMESPACES, 0, 1),
        _REFUSE,
        _statement(_RETURN, _ALLOW),
    ]
    return b"".join(program)


def _refuse_arguments(
    number: int, argument: int, *, allowed: tuple[int, ...] | None = None, refused: tuple[int, ...] = ()
) -> list[bytes]:
    """Return instructions that refuse a call by one of its arguments: all values but some, or only some."""
    values, then = (refused, _REFUSE) if allowed is None else (allowed, _statement(_RETURN, _ALLOW))
    compared = [line for value in values for line in (_jump(_EQUAL, value, 0, 1), then)]
    # Of 64 bits the lower ones are looked at: ids, families and requests have 32.
    load = _statement(_LOAD, _FIRST_ARGUMENT + 8 * argument)
    last = _statement(_RETURN, _ALLOW) if allowed is None else _REFUSE
    return [_jump(_EQUAL, number, 0, len(compared) + 2), load, *compared, last]


def _statement(code: int, value: int) -> bytes:
    return struct.pack("HBBI", code, 0, 0, value)


def _jump(code: int, value: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


_REFUSE: Final = _statement(_RETURN, _ERROR | errno.EPERM)
