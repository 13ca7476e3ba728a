"""What a scripted API says: JSON in, steps out. `docs/testing.md` has the format with examples.

    {"steps": ["Hello.", {"content": ["I look.", {"type": "tool_use", "name": "Read", "input": {}}]}]}

Rules
  1. A field that is not known here is refused: a step that is not played as written proves nothing.
  2. A script is data. What has been played of it is in `Play`, and every server has its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from unspool.errors import NotFound, Unreadable

Json: TypeAlias = dict[str, Any]
Words: TypeAlias = str | list[str]

CHUNK = 24
"""Characters of a delta, where a step says nothing else."""


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Any object of a script."""


class Failure(Part, frozen=True):
    """An HTTP error instead of an answer."""

    status: int
    type: str | None = None
    message: str | None = None
    retry_after: float | None = None
    times: int | None = None


class Break(Part, frozen=True):
    """How an answer breaks off after some events."""

    how: Literal["cut", "error", "malformed", "stall"]
    after: int = 3
    type: str = "overloaded_error"
    message: str = "Overloaded"
    seconds: float = 60.0
    times: int | None = None


class Demand(Part, frozen=True):
    """What a request must contain for the run to go on."""

    text: Words = []
    result: Words = []
    is_error: bool | None = None
    system: Words = []
    anywhere: Words = []
    absent: Words = []
    tools: Words = []
    header: dict[str, str] = {}
    body: dict[str, Any] = {}


class Step(Part, frozen=True):
    """What is said to one request."""

    content: str | list[str | Json] = ""
    stop_reason: str | None = None
    usage: dict[str, Any] = {}
    model: str | None = None
    id: str | None = None
    chunk: int = CHUNK
    delay: float = 0
    pause: float = 0
    until: str | None = None
    """A file: the answer begins when it is there."""
    error: Failure | None = None
    breaks: Break | None = msgspec.field(default=None, name="break")
    expect: Demand | None = None

    @property
    def blocks(self) -> list[Json]:
        """The content as blocks; a string is a text."""
        said = [self.content] if isinstance(self.content, str) else self.content
        return [{"type": "text", "text": item} if isinstance(item, str) else item for item in said if item != ""]


class Script(Part, frozen=True):
    """Steps in order, steps by what was asked, and what is said to everything else."""

    steps: list[str | Step] = []
    cues: dict[str, list[str | Step]] = {}
    default: str | Step | None = None
    count_tokens: int | Failure | None = None
    """What is said to who wants tokens counted; without it, an estimate."""
    window: int | None = None
    """How many tokens a request and its answer may have together, by the same estimate."""


def load(path: Path, variables: Mapping[str, str] | None = None) -> Script:
    """Read a script from a file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"no such script: `{path}`") from None
    return parse(data, variables, str(path))


def parse(data: bytes, variables: Mapping[str, str] | None = None, name: str = "script") -> Script:
    """Return the script that JSON says: an object, or a list of steps. `${name}` stands for a variable."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"`{name}` is not JSON: {_said(error)}", hint="docs/testing.md has the format") from None
    return convert(value, variables, name)


def convert(value: object, variables: Mapping[str, str] | None = None, name: str = "script") -> Script:
    """Return the script that plain data says."""
    filled = _filled(value, variables or {}, name)
    try:
        if isinstance(filled, list):
            return Script(steps=msgspec.convert(filled, list[str | Step]))
        return msgspec.convert(filled, Script)
    except msgspec.ValidationError as error:
        raise Unreadable(f"`{name}`: {_said(error)}", hint="docs/testing.md has the format") from None


def _filled(value: Any, variables: Mapping[str, str], name: str) -> Any:
    match value:
        case str():
            return _VARIABLE.sub(lambda found: _variable(found, variables, name), value)
        case list():
            return [_filled(item, variables, name) for item in value]
        case dict():
            return {_filled(key, variables, name): _filled(item, variables, name) for key, item in value.items()}
        case _:
            return value


_VARIABLE = re.compile(r"\$\{(\w+)\}")


def _variable(found: re.Match[str], variables: Mapping[str, str], name: str) -> str:
    if found[1] not in variables:
        raise Unreadable(f"`{name}` needs a value for `{found[0]}`", hint=f"on the command line: `--set {found[1]}=…`")
    return variables[found[1]]


def _said(error: Exception) -> str:
    words = str(error)
    return words[:1].lower() + words[1:]
