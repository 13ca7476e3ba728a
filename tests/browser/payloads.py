"""The payloads: what somebody who may write into a session might try, each with a number that tells it from all others.

They stand in `payloads.txt`, one a line. A payload that works opens a dialog with its number, or asks a trap for
`/pwn-` and its number.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

HEADING = ";;"
_FILE = Path(__file__).with_name("payloads.txt")
_ESCAPE = re.compile(r"\\(\\|n|t|x[0-9a-f]{2}|u[0-9a-f]{4})")


class Payload(NamedTuple):
    """One of them."""

    number: int
    family: str
    text: str


def payloads(origin: str) -> list[Payload]:
    """Return all of them; `origin` is where the trap listens."""
    found: list[Payload] = []
    family = ""
    for line in _FILE.read_text().splitlines():
        if line.startswith(HEADING):
            family = line.removeprefix(HEADING).strip()
        elif line:
            number = len(found) + 1
            marked = line.replace("ALERT", f"alert({number})").replace("PWN", f"{origin}/pwn-{number}")
            found.append(Payload(number, family, _ESCAPE.sub(_meant, marked)))
    return found


def _meant(escape: re.Match[str]) -> str:
    name = escape[1]
    return {"\\": "\\", "n": "\n", "t": "\t"}.get(name) or chr(int(name[1:], 16))
