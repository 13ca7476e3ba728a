"""Opens a link in the user's browser without showing it to other users of the machine.

A browser is started with the address in its arguments, which every user can list. So it is given the name of a file
that only the user can read (0600), and that file leads to the link. It is removed when the link was used, or when the
server ends.
"""

from __future__ import annotations

import html
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>unspool</title>
<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={link}"></head>
<body><p><a href="{link}">Open unspool</a></p></body></html>
"""


def has_screen() -> bool:
    """Tell whether a browser can show something here."""
    # Without a screen `webbrowser` would start a text browser in this terminal.
    return not sys.platform.startswith("linux") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


@contextmanager
def link_file(folder: Path, link: str) -> Iterator[Path]:
    """Write a page for the user alone that leads to a link; it is removed at the end."""
    path = folder / f"open-{os.urandom(8).hex()}.html"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_PAGE.format(link=html.escape(link)))
        yield path
    finally:
        with suppress(FileNotFoundError):
            path.unlink()


def open_file(path: Path) -> None:
    """Open a file in the browser."""
    import webbrowser

    webbrowser.open(path.absolute().as_uri())
