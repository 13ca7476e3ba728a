"""`unspool serve` as people start it: a process of its own, reached by the address it prints first."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.browser.watching import origin_of

STARTS_WITHIN = 30.0
ENDS_WITHIN = 15.0


class Served:
    """A server that runs."""

    def __init__(self, process: subprocess.Popen[bytes], address: str, errors: Path) -> None:
        self.process = process
        self.address = address
        """The one-time address."""
        self.origin = origin_of(address)
        self._errors = errors

    @property
    def said(self) -> str:
        """What it has said on stderr."""
        return self._errors.read_text(errors="replace")


@contextmanager
def serving(
    config: Path, place: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """Serve a config folder; `place` is an empty folder for what the server keeps. It must end well."""
    place.mkdir(parents=True, exist_ok=True)
    errors = place / "stderr.txt"
    command = [sys.executable, "-m", "unspool", "--config-dir", str(config), "serve", "--port", "0", "--no-browser"]
    around = {
        "HOME": str(place),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "UNSPOOL_HOME": str(place / "unspool"),
        **(environment or {}),
    }
    with errors.open("wb") as output:
        process = subprocess.Popen(
            [*command, *arguments], env=around, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=output
        )
    try:
        yield Served(process, _first_line(process, errors), errors)
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, and end it if it does not."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(ENDS_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
    finally:
        if process.stdout:
            process.stdout.close()


def _first_line(process: subprocess.Popen[bytes], errors: Path) -> str:
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    deadline, said = time.monotonic() + STARTS_WITHIN, b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while b"\n" not in said and time.monotonic() < deadline:
            if selector.select(max(0.0, deadline - time.monotonic())):
                piece = os.read(process.stdout.fileno(), 65536)
                if not piece:
                    break
                said += piece
    assert b"\n" in said, f"no address within {STARTS_WITHIN:.0f} s: {said!r} {errors.read_text(errors='replace')}"
    return said.partition(b"\n")[0].decode()
