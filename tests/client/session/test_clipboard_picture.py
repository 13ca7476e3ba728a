"""Pictures from the clipboard, with programs in the place of `xclip`, `wl-paste` and `pngpaste`."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from unspool.client.session.clipboard_picture import read_clipboard_picture
from unspool.errors import UnspoolError

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("name", "variable", "platform", "arguments"),
    [
        ("wl-paste", "WAYLAND_DISPLAY", "linux", "--type image/png"),
        ("xclip", "DISPLAY", "linux", "-selection clipboard -target image/png -out"),
        ("pngpaste", "NOTHING", "darwin", "-"),
    ],
)
def test_the_program_of_the_desktop_gives_the_picture(
    tmp_path: Path, name: str, variable: str, platform: str, arguments: str
) -> None:
    (tmp_path / "dot.png").write_bytes(PICTURE)
    program(tmp_path, name, f'[ "$*" = "{arguments}" ] && exec cat {tmp_path}/dot.png')
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", variable: ":0"}
    assert asyncio.run(read_clipboard_picture(environment, platform)) == PICTURE


@pytest.mark.parametrize(
    ("text", "variables", "words"),
    [
        ("exit 1", {"DISPLAY": ":0"}, "no picture in the clipboard"),
        ("echo only words", {"DISPLAY": ":0"}, "no picture in the clipboard"),
        ("yes", {"DISPLAY": ":0"}, "the picture in the clipboard is too large"),
        (None, {"DISPLAY": ":0"}, "`xclip` was not found"),
        (None, {}, "there is no desktop"),
    ],
)
def test_why_there_is_no_picture_is_said(
    tmp_path: Path, text: str | None, variables: dict[str, str], words: str
) -> None:
    if text is not None:
        program(tmp_path, "xclip", text)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin" if text else str(tmp_path), **variables}
    with pytest.raises(UnspoolError) as error:
        asyncio.run(read_clipboard_picture(environment, "linux"))
    assert words in error.value.message
