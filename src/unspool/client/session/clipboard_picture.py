"""Reads the picture in the clipboard of the desktop, with the program that the system has for it.

    macOS     pngpaste -
    Wayland   wl-paste --type image/png
    X11       xclip -selection clipboard -target image/png -out

Rules
  1. The program gets five seconds, and what it prints is bounded: another program owns the clipboard.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress

from unspool.errors import NothingFound, UsageError
from unspool.format import parse_image_header

_SECONDS = 5.0
_MAX_BYTES = 32 * 1024 * 1024
_HINT = "paste the path of a picture instead"


def _choose_command(environment: Mapping[str, str], platform: str) -> tuple[str, ...]:
    """Return the command that prints the picture; a `UsageError` where there is no clipboard."""
    if platform == "darwin":
        return ("pngpaste", "-")
    if environment.get("WAYLAND_DISPLAY"):
        return ("wl-paste", "--type", "image/png")
    if environment.get("DISPLAY"):
        return ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")
    raise UsageError("no clipboard can be reached from here: there is no desktop", hint=_HINT)


async def read_clipboard_picture(environment: Mapping[str, str], platform: str = sys.platform) -> bytes:
    """Return the picture in the clipboard as a file has it; an `UnspoolError` says why there is none."""
    command = _choose_command(environment, platform)
    data = await asyncio.to_thread(_read_output, command, environment)
    if len(data) > _MAX_BYTES:
        raise UsageError("the picture in the clipboard is too large", hint=_HINT)
    # Owners of the clipboard hand over what they have: `xclip` does so whatever type was asked for.
    if parse_image_header(data) is None:
        raise NothingFound("no picture in the clipboard", hint=f"copy one, or {_HINT}")
    return data


def _read_output(command: tuple[str, ...], environment: Mapping[str, str]) -> bytes:
    """Return the start of what a program prints in a few seconds; then it is killed, with what it has started."""
    path = shutil.which(command[0], path=environment.get("PATH", os.defpath))
    if path is None:
        why = f"cannot read the clipboard: `{command[0]}` was not found"
        raise UsageError(why, hint=f"install it, or {_HINT}")
    nothing = subprocess.DEVNULL
    with subprocess.Popen(
        [path, *command[1:]],
        env=dict(environment),
        stdin=nothing,
        stdout=subprocess.PIPE,
        stderr=nothing,
        start_new_session=True,
    ) as child:
        assert child.stdout is not None

        def kill() -> None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)

        timer = threading.Timer(_SECONDS, kill)
        timer.start()
        try:
            return child.stdout.read(_MAX_BYTES + 1)
        finally:
            timer.cancel()
            kill()
