"""What a Markdown file says of itself before its text begins: a text in, its fields and the rest out. Pure.

    ---
    name: reviewer
    description: >
      Reads changes
      before they are merged
    tools: Read, Grep
    ---
    You review changes.

Rules
  1. Nothing raises: a line that is not understood is left out, and what has no end is text.
  2. Every value is a text. The items of a list have commas between them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_WHOLE = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_PAIR = re.compile(r"([A-Za-z][\w.-]*)[ \t]*:(?:[ \t]+(.*))?$")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t"}


class Matter(NamedTuple):
    """A file in its two parts."""

    fields: dict[str, str]
    body: str


def parted(text: str) -> Matter:
    """Return what a file says of itself, and the rest."""
    whole = _WHOLE.match(text)
    if whole is None:
        return Matter({}, text.removeprefix("\ufeff").strip())
    fields: dict[str, str] = {}
    lines = [line.rstrip() for line in whole[1].splitlines()]
    at = 0
    while at < len(lines):
        pair = _PAIR.match(lines[at])
        at += 1
        more = at
        while more < len(lines) and (not lines[more] or lines[more][0] in " \t-"):
            more += 1
        if pair is not None:
            fields[pair[1]] = _value((pair[2] or "").strip(), lines[at:more])
        at = more
    return Matter(fields, text[whole.end() :].strip())


def items(value: str) -> tuple[str, ...]:
    """Return the items of a list: `Read, Grep` or `[Read, Grep]`."""
    parts = (part.strip().strip("\"'") for part in value.strip().removeprefix("[").removesuffix("]").split(","))
    return tuple(part for part in parts if part)


def _value(first: str, more: list[str]) -> str:
    """Return the value that begins behind a name and may go on in the lines below."""
    inner = [line.strip() for line in more]
    if first[:1] in ("|", ">") and not first[1:].strip("+-0123456789"):
        return ("\n" if first[0] == "|" else " ").join(inner).strip()
    if not first:
        return ", ".join(_plain(line[1:].strip()) for line in inner if line.startswith("-"))
    return _plain(" ".join([first, *(line for line in inner if line and not line.startswith("#"))]))


def _plain(text: str) -> str:
    """Return a value without its quotes, or without the comment after it."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return re.split(r"[ \t]#", text, maxsplit=1)[0].rstrip()
