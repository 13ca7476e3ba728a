"""Parses plans and memory files, which are Markdown: headings, tasks and links, each with its line.

Rules
  1. Nothing raises: any text is a plan, if an empty one. Bytes that are not UTF-8 become `\\ufffd`.
  2. Lines count from 1 and end at `\\n` alone, as in editors.
  3. In a code fence `#` begins a comment, not a heading. A task there is kept all the same: one fence left open must
     not swallow the rest of a plan.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import field

from unspool.format.base import Shape

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
# Possessive quantifiers, so that any line takes linear time.
_TASK = re.compile(r"[ \t]*+(?:[-*+]|\d{1,9}[.)])[ \t]++\[([ xX])\](?:[ \t](.*))?$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_LINK = re.compile(r"\[\[([^\[\]]++)\]\]|(?<!!)\[([^\[\]]*+)\]\(([^()\s]*+)[^()]*+\)")
_PAIR = re.compile(r"(\s*+)([\w.-]++):(?:\s(.*))?$")


class Heading(Shape, frozen=True):
    """A heading."""

    text: str = ""
    level: int = 1
    line: int = 1


class PlanTask(Shape, frozen=True):
    """A `- [ ]` line, with the section and the phase that it belongs to."""

    text: str = ""
    done: bool = False
    line: int = 1
    section: str | None = None
    phase: str | None = None


class PlanDocument(Shape, frozen=True):
    """`plans/<name>.md`: a plan that ExitPlanMode submitted."""

    title: Heading | None = None
    """The first heading of the first level, else the first of any."""
    sections: tuple[Heading, ...] = ()
    """The headings of the second level."""
    phases: tuple[Heading, ...] = ()
    """The headings that begin with "Phase", on any level."""
    tasks: tuple[PlanTask, ...] = ()


def parse_plan(text: bytes | str) -> PlanDocument:
    """Parse a plan."""
    headings: list[Heading] = []
    above: list[Heading] = []
    tasks: list[PlanTask] = []
    for line in _lines(text):
        if heading := _heading(line):
            above = [outer for outer in above if outer.level < heading.level] + [heading]
            headings.append(heading)
        elif match := _TASK.match(line.text):
            tasks.append(
                PlanTask(
                    text=(match[2] or "").strip(),
                    done=match[1] != " ",
                    line=line.number,
                    section=next((outer.text for outer in above if outer.level == 2), None),
                    phase=next((outer.text for outer in above if _is_phase(outer)), None),
                )
            )
    return PlanDocument(
        title=next((heading for heading in headings if heading.level == 1), headings[0] if headings else None),
        sections=tuple(heading for heading in headings if heading.level == 2),
        phases=tuple(heading for heading in headings if _is_phase(heading)),
        tasks=tuple(tasks),
    )


class Link(Shape, frozen=True):
    """A `[text](target)`, or a `[[name]]` of another memory."""

    text: str = ""
    target: str = ""
    line: int = 1


class MemoryDocument(Shape, frozen=True):
    """`memory/MEMORY.md`, the index of a project's memory, or a file that it links to."""

    front_matter: dict[str, str] = field(default_factory=dict)
    """Only in the files; a key below another is written with a dot, as `metadata.type`."""
    headings: tuple[Heading, ...] = ()
    links: tuple[Link, ...] = ()


def parse_memory(text: bytes | str) -> MemoryDocument:
    """Parse a memory file."""
    lines = list(_lines(text))
    front = _front_matter(lines)
    body = [line for line in lines[len(front) :] if not line.fenced]
    return MemoryDocument(
        front_matter=dict(_pairs(front)),
        headings=tuple(heading for line in body if (heading := _heading(line))),
        links=tuple(
            Link(text=match[1] or match[2], target=match[1] or match[3], line=line.number)
            for line in body
            for match in _LINK.finditer(line.text)
        ),
    )


class _Line(NamedTuple):
    number: int
    text: str
    fenced: bool


def _lines(text: bytes | str) -> Iterator[_Line]:
    if isinstance(text, bytes):
        text = text.decode("utf-8", errors="replace")
    fence = ""
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        line = line.removesuffix("\r")
        match = _FENCE.match(line)
        marks, rest = (match[1], match[2].strip()) if match else ("", "")
        closes = bool(fence) and marks.startswith(fence) and not rest
        if closes or (marks and not fence and "`" not in rest):
            fence = "" if fence else marks
        yield _Line(number, line, bool(fence) or closes)


def _heading(line: _Line) -> Heading | None:
    match = None if line.fenced else _HEADING.match(line.text)
    return Heading(text=match[2].strip(), level=len(match[1]), line=line.number) if match else None


def _is_phase(heading: Heading) -> bool:
    return heading.text.lower().startswith("phase")


def _front_matter(lines: list[_Line]) -> list[_Line]:
    """Return the lines from the first `---` to the second, none if the file does not begin with one."""
    if lines[0].text.rstrip() != "---":
        return []
    ends = (index for index, line in enumerate(lines[1:], 2) if line.text.rstrip() == "---")
    return lines[: next(ends, 0)]


def _pairs(lines: list[_Line]) -> Iterator[tuple[str, str]]:
    parent = ""
    for line in lines:
        if match := _PAIR.match(line.text):
            indent, key, value = match[1], match[2], (match[3] or "").strip()
            if not indent:
                parent = key
            if value:
                yield f"{parent}.{key}" if indent else key, value.strip("\"'")
