"""Reads the blocks of a page of the documentation, and compares outputs with what the page shows.

Rules
  1. A `console` block has commands after `$ ` (continued after `> `), each followed by its output.
  2. In an output, a line `...` stands for any number of lines, and `<time>`, `<date>`, `<duration>`, `<size>`,
     `<number>`, `<id>` and `<version>` for what varies; the blanks of such a line may vary too. `/home/you` is the
     home folder.
  3. A block after a line `<!-- not run: REASON -->` is not run.
  4. The `python` blocks of a page are one program. It runs at the place of the last of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
HOME = "/home/you"
ELLIPSIS = "..."

_BLOCK = re.compile(
    r"(?P<mark><!-- not run: (?P<reason>[^\n]*?) -->\n+)?^```(?P<language>console|python)\n(?P<body>.*?)^```$",
    re.M | re.S,
)
_PLACEHOLDERS = {
    "<time>": r"(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?",
    "<date>": r"\d{4}-\d\d-\d\d",
    "<duration>": r"\d+(?:\.\d+)? ?(?:ms|s|min|h|d|w)(?: \d+ (?:s|min|h))?(?: ago)?",
    "<size>": r"\d[\d.]* (?:bytes|kB|MB|GB)",
    "<number>": r"\d[\d.,]*",
    "<id>": r"[0-9a-f][0-9a-f-]{5,}…?",
    "<version>": r"\d+(?:\.\d+)+\S*",
}


class PageCommand(msgspec.Struct):
    """A command of a page, with the output that the page shows for it."""

    text: str
    expected: list[str]
    line: int


class PageBlock(msgspec.Struct):
    """A `console` or `python` block of a page."""

    language: str
    body: str
    line: int
    reason: str | None = None
    """Why it is not run; None if it is."""

    @property
    def commands(self) -> list[PageCommand]:
        """The commands of a `console` block."""
        found: list[PageCommand] = []
        for number, line in enumerate(self.body.splitlines(), self.line + 1):
            if line.startswith("$ "):
                found.append(PageCommand(line[2:], [], number))
            elif not found:
                raise ValueError(f"line {number}: an output without a command")
            elif line.startswith("> ") and not found[-1].expected:
                found[-1].text += f"\n{line[2:]}"
            else:
                found[-1].expected.append(line)
        return found


def read_blocks(text: str) -> list[PageBlock]:
    """Return the `console` and `python` blocks of a page, in order."""
    return [
        PageBlock(match["language"], match["body"], text.count("\n", 0, match.start("body")), reason=match["reason"])
        for match in _BLOCK.finditer(text)
    ]


def matches(expected: list[str], actual: list[str]) -> bool:
    """Return whether a command printed what the page shows."""
    if ELLIPSIS not in expected:
        return len(expected) == len(actual) and all(map(line_matches, expected, actual))
    at = expected.index(ELLIPSIS)
    head, rest = expected[:at], expected[at + 1 :]
    if len(actual) < len(head) or not all(map(line_matches, head, actual)):
        return False
    return any(matches(rest, actual[start:]) for start in range(at, len(actual) + 1))


def line_matches(expected: str, actual: str) -> bool:
    """Return whether a line of an output is what the page shows."""
    parts = re.split(r"(<[a-z]+>)", expected.rstrip())
    pattern = "".join(_PLACEHOLDERS.get(part) or re.escape(part) for part in parts)
    # Columns are aligned by what varies, so one blank and several are the same in such a line.
    if len(parts) > 1:
        pattern = re.sub(r"(?:\\ )+", r" +", pattern)
    return re.fullmatch(pattern, actual.rstrip()) is not None


def renew(expected: list[str], actual: list[str]) -> list[str]:
    """Return what the page should show instead, keeping placeholders and what the page left out."""
    if matches(expected, actual):
        return expected
    patterns = [line for line in expected if re.search("<[a-z]+>", line)]
    if ELLIPSIS in expected:
        head = expected.index(ELLIPSIS)
        tail = len(expected) - head - 1 if expected.count(ELLIPSIS) == 1 else 0
        if len(actual) > head + tail:
            shown = [*actual[:head], ELLIPSIS, *actual[len(actual) - tail :]]
            return _keep_placeholders(shown, patterns)
    return _keep_placeholders(actual, patterns)


def _keep_placeholders(lines: Iterable[str], patterns: list[str]) -> list[str]:
    return [next((pattern for pattern in patterns if line_matches(pattern, line)), line).rstrip() for line in lines]


def mark_variation(first: list[str], second: list[str]) -> list[str]:
    """Return the output of one run, with placeholders where another run printed something else."""
    if len(first) != len(second):
        return first
    return [one if one == two else _mark_line(one, two) for one, two in zip(first, second, strict=True)]


def _mark_line(one: str, two: str) -> str:
    kinds = "|".join(f"(?P<{name[1:-1]}>(?<![\\w-]){pattern}(?![\\w-]))" for name, pattern in _PLACEHOLDERS.items())
    found, other = list(re.finditer(kinds, one)), list(re.finditer(kinds, two))
    if [match.lastgroup for match in found] != [match.lastgroup for match in other]:
        return one
    marked = one
    for match, counterpart in reversed(list(zip(found, other, strict=True))):
        if match[0] != counterpart[0]:
            marked = f"{marked[: match.start()]}<{match.lastgroup}>{marked[match.end() :]}"
    return marked if line_matches(marked, two) else one


def replace_outputs(text: str, outputs: dict[int, list[str]]) -> str:
    """Return the page with new outputs, given by the line of their command."""
    lines = text.splitlines()
    for block in reversed([block for block in read_blocks(text) if block.language == "console" and not block.reason]):
        for command in reversed(block.commands):
            start = command.line + command.text.count("\n")
            lines[start : start + len(command.expected)] = renew(command.expected, outputs[command.line])
    return "\n".join(lines) + "\n"
