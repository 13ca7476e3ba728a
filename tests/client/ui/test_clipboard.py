"""Ctrl-V with a real clipboard: an X server without a screen, and `xclip`."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from struct import pack

import pytest

from tests.client.conftest import Place
from tests.client.ui.rig import Open, lines
from tests.pseudo_terminal import CTRL_V

pytestmark = pytest.mark.skipif(
    not (shutil.which("Xvfb") and shutil.which("xclip")), reason="Xvfb and xclip are not installed"
)


def chunk(kind: bytes, data: bytes) -> bytes:
    return pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))


def make_picture(width: int, height: int) -> bytes:
    """Return a PNG of noise: it is as large as it looks, and X11 hands it over in pieces."""
    rows = b"".join(b"\0" + os.urandom(3 * width) for _ in range(height))
    head = chunk(b"IHDR", pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.fixture
def display() -> Iterator[str]:
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-nolisten", "tcp", "-screen", "0", "320x200x24"]
    server = subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL)
    os.close(writing)
    with os.fdopen(reading) as answer:
        number = answer.readline().strip()
    yield f":{number}"
    server.terminate()  # the programs that own its clipboard end with it
    server.wait()


def copy(display: str, data: bytes, target: str) -> None:
    """Put something into the clipboard."""
    command = ["xclip", "-selection", "clipboard", "-target", target, "-in"]
    environment = {"DISPLAY": display, "PATH": os.environ["PATH"]}
    subprocess.run(command, input=data, env=environment, check=True, stdout=subprocess.DEVNULL)


def test_the_picture_in_the_clipboard_is_sent(open_chat: Open, place: Place, display: str) -> None:
    picture = make_picture(400, 300)
    assert len(picture) > 300_000
    with open_chat(["I see it."], DISPLAY=display) as terminal:
        terminal.press(CTRL_V)
        terminal.see("no picture in the clipboard")
        copy(display, b"only words", "UTF8_STRING")
        terminal.press(CTRL_V)
        terminal.until(lambda: terminal.shown.count("no picture in the clipboard") == 2, "words are no picture")
        copy(display, picture, "image/png")
        terminal.press(CTRL_V)
        terminal.see("> [Image #1]")
        terminal.say(" what is it?")
        terminal.see("I see it.")
    prompt = next(line["message"]["content"] for line in lines(place.sessions()[0]) if line["type"] == "user")
    (image,) = [block for block in prompt if block["type"] == "image"]
    assert base64.b64decode(image["source"]["data"]) == picture
