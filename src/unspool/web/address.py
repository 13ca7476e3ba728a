"""Chooses the address of this machine that the page is served from, and listens there.

Rules
  1. A browser sends a cookie to every port of its host. On 127.0.0.1 that is every server of every user of this
     machine, so the page has an address of 127.0.0.0/8 of its own, chosen at random once per data folder and kept.
  2. Where the system has only 127.0.0.1 (macOS), a name under `localhost` takes its place if it resolves to this
     machine; else the page is served from 127.0.0.1, and the user is told.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from unspool.errors import UnspoolError
from unspool.files import create_atomically, make_data_folder, open_regular, write_atomically

ADDRESS_FILE: Final = "serve-address"
"""In the data folder: the address that was chosen."""
SHARED_ADDRESS: Final = "127.0.0.1"


class ServeAddress(NamedTuple):
    """Where the page is served from."""

    bind: str
    """The address to listen on."""
    host: str
    """The address or name in links, which cookies belong to."""
    note: str | None = None
    """What the user should know about it."""


def find_address(folder: Path) -> ServeAddress:
    """Return where the page of a data folder is served from on this system."""
    address, is_kept = read_address(folder)
    if can_bind(address):
        note = (
            None if is_kept else f"cannot save the address of the page in `{folder}`: the next run will use another one"
        )
        return ServeAddress(address, address, note)
    name = local_name(address)
    if resolves_to_this_machine(name):
        return ServeAddress(SHARED_ADDRESS, name, f"cannot use the address {address}, serving on `{name}` instead")
    return ServeAddress(
        SHARED_ADDRESS,
        SHARED_ADDRESS,
        f"cannot use the address {address}, serving on {SHARED_ADDRESS} instead: other servers on "
        "that address, also those of other users, receive the browser's cookie; on macOS add the "
        f"address with `sudo ifconfig lo0 alias {address}`",
    )


def read_address(folder: Path) -> tuple[str, bool]:
    """Return the address of a data folder, and whether it is kept there. One that is missing or unusable is chosen."""
    path = folder / ADDRESS_FILE
    with suppress(OSError, UnspoolError, UnicodeError), open_regular(path) as descriptor:
        known = os.read(descriptor, 64).decode("ascii").strip()
        if is_private_loopback(known):
            return known, True
    chosen = choose_address()
    try:
        make_data_folder(folder)
        try:
            create_atomically(path, [f"{chosen}\n".encode()])
        except FileExistsError:  # it holds something else, or another process has just made it
            write_atomically(path, f"{chosen}\n".encode())
    except OSError:
        return chosen, False
    return chosen, True


def choose_address() -> str:
    """Return a random address of 127.0.0.0/8, but none of 127.0.0.0/16, which systems and containers use themselves."""
    while True:
        address = str(ipaddress.IPv4Address(0x7F000000 | secrets.randbelow(1 << 24)))
        if is_private_loopback(address):
            return address


def is_private_loopback(address: str) -> bool:
    """Tell whether an address is one that `choose_address` may return."""
    try:
        value = int(ipaddress.IPv4Address(address))
    except ValueError:
        return False
    # 0 and 255 at the end are no hosts in networks of the usual size, and some programs refuse them.
    return value >> 24 == 127 and (value >> 16) & 255 != 0 and value & 255 not in (0, 255)


def local_name(address: str) -> str:
    """Return the name under `localhost` that takes the place of an address.

    >>> local_name("127.77.1.2")
    'unspool-4d0102.localhost'
    """
    return f"unspool-{int(ipaddress.IPv4Address(address)) & 0xFFFFFF:06x}.localhost"


def can_bind(address: str) -> bool:
    """Tell whether this system lets a server listen on an address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def resolves_to_this_machine(name: str) -> bool:
    """Tell whether a name leads to this machine and nowhere else."""
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return False
    return SHARED_ADDRESS in found and all(ipaddress.ip_address(one.partition("%")[0]).is_loopback for one in found)
