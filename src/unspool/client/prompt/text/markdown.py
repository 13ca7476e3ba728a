r"""Parses what Markdown files of users hold besides text: front matter, and `@` mentions of other files. Pure.

    ---
    name: reviewer
    description: >
      Reads changes
      before they are merged
    tools: Read, Grep
    ---
    You review changes. See @docs/style.md.

Rules
  1. Nothing raises: a line of the front matter that is not understood is left out, and front matter without an end is
     text.
  2. Every value is a text. The items of a list are joined by commas.
  3. A mention begins a word, so a mail address is none, and what stands in code is none either.
  4. Punctuation at the end of a mention does not belong to it. A space inside of one is written `\\ `.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_MENTION = re.compile(r"(?:^|(?<=[\s(\"']))@((?:\\ |[^\s\\`\"'()<>|])+)")
_WHOLE = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_PAIR = re.compile(r"([A-Za-z][\w.-]*)[ \t]*:(?:[ \t]+(.*))?$")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t"}


class FrontMatter(NamedTuple):
    """A file, split into its front matter and its text."""

    fields: dict[str, str]
    body: str


def parse_front_matter(text: str) -> FrontMatter:
    """Split a file into its front matter and its text."""
    whole = _WHOLE.match(text)
    if whole is None:
        return FrontMatter({}, text.removeprefix("\ufeff").strip())
    fields: dict[str, str] = {}
    lines = [line.rstrip() for line in whole[1].splitlines()]
    at = 0
    while at < len(lines):
        pair = _PAIR.match(lines[at])
        at += 1
        more = at
        while more < len(lines) and (not lines[more] or lines[more][0] in " \t-"):
            more += 1
        # A line that is no `name: value` is skipped with all that is indented below it.
        if pair is not None:
            fields[pair[1]] = _parse_value((pair[2] or "").strip(), lines[at:more])
        at = more
    return FrontMatter(fields, text[whole.end() :].strip())


def parse_list(value: str) -> tuple[str, ...]:
    """Return the items of a list value: `Read, Grep` or `[Read, Grep]`."""
    parts = (part.strip().strip("\"'") for part in value.strip().removeprefix("[").removesuffix("]").split(","))
    return tuple(part for part in parts if part)


def _parse_value(first: str, more: list[str]) -> str:
    """Return a value that begins behind its name and may continue on the lines below."""
    inner = [line.strip() for line in more]
    if first[:1] in ("|", ">") and not first[1:].strip("+-0123456789"):
        return ("\n" if first[0] == "|" else " ").join(inner).strip()
    if not first:
        return ", ".join(_unquote(line[1:].strip()) for line in inner if line.startswith("-"))
    return _unquote(" ".join([first, *(line for line in inner if line and not line.startswith("#"))]))


def _unquote(text: str) -> str:
    """Return a value without its quotes, or without the comment after it."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return re.split(r"[ \t]#", text, maxsplit=1)[0].rstrip()


def find_mentions(text: str) -> list[str]:
    """Return the files that a text mentions with `@`, in order, each once.

    >>> mentioned("See @docs/a.md, not me@home.org or `@code`.")
    ['docs/a.md']
    """
    plain = _SPAN.sub(" ", _FENCED.sub("", text))
    names = (match[1].replace("\\ ", " ").rstrip(".,;:!?") for match in _MENTION.finditer(plain))
    return list(dict.fromkeys(name for name in names if name))
