"""JSON text that a strict decoder refuses for its characters, made acceptable.

JavaScript writes a lone surrogate as an escape, a crash can leave half of a UTF-8 sequence. Both are shown as
U+FFFD; the bytes they came from are kept by whoever holds the line.
"""

import re

_SURROGATES = re.compile(
    rb"\\\\|(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""Escaped backslashes and true pairs are matched only to be passed over."""


def mend(text: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return JSON text that decoders accept, and what was replaced by U+FFFD in it."""
    flaws = []
    try:
        text.decode()
    except UnicodeDecodeError:
        text = text.decode(errors="replace").encode()
        flaws.append("invalid UTF-8")
    mended = _SURROGATES.sub(_replace, text)
    if mended != text:
        flaws.append("lone surrogate")
    return mended, tuple(flaws)


def _replace(match: re.Match[bytes]) -> bytes:
    escape = match[0]
    return escape if match[1] or escape == rb"\\" else rb"\ufffd"
