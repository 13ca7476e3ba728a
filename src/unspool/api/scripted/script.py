"""What a scripted API says: JSON in, steps out. `docs/testing.md` has the format with examples.

    {"steps": ["Hello.", {"content": ["I look.", {"type": "tool_use", "name": "Read", "input": {}}]}]}

Rules
  1. A field that is not known here is refused: a step that is not played as written proves nothing.
  2. A script is data. What has been played of it is in `Play`, and every server has its own.

[merged: play.py] A script while it is played: a request in, the step for it out.

Rules
  1. A cue is looked for from the last message back; the answers given since then say which of its steps comes next. So
     agents, resumed sessions and requests at the same time get theirs, and a request asked again gets the same.
  2. What no cue is for gets the next of the steps. A step is used up by one request; one that fails some times first,
     by so many more.
  3. When nothing is left, `default` is said. Without one the run has failed.

[merged: demands.py] What a step demands of the request it answers: both in, what is lacking out. Pure.
"""

from __future__ import annotations

import collections
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

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


class Cast(NamedTuple):
    """A step with its name, and whether it fails this time."""

    name: str
    step: Step
    fails: bool


class Play:
    """How far a script has been played. Threads may ask at the same time."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._at = 0
        self._tries: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()

    @property
    def window(self) -> int | None:
        """How many tokens fit, if the script says so."""
        return self._script.window

    @property
    def unused(self) -> list[str]:
        """The names of steps that nobody has asked for."""
        return [f"steps.{number}" for number in range(self._at, len(self._script.steps))]

    def cast(self, body: Json) -> Cast | None:
        """Return the step for a request."""
        with self._lock:
            return self._cued(body) or self._next() or self._rest()

    def _cued(self, body: Json) -> Cast | None:
        answers = 0
        messages = body.get("messages")
        for message in reversed(messages if isinstance(messages, list) else []):
            if not isinstance(message, dict) or message.get("role") == "assistant":
                answers += 1
                continue
            text = "\n".join(texts(message)) if message.get("role") == "user" else ""
            place, cue = max(((text.rfind(cue), cue) for cue in self._script.cues), default=(-1, ""))
            if place >= 0 and self._script.cues[cue]:
                steps = self._script.cues[cue]
                number = min(answers, len(steps) - 1)
                return self._tried(f"cues.{cue}.{number}", _step(steps[number]))
        return None

    def _next(self) -> Cast | None:
        if self._at >= len(self._script.steps):
            return None
        name, step = f"steps.{self._at}", _step(self._script.steps[self._at])
        cast = self._tried(name, step)
        if not self._has_more(name, step, cast):
            self._at += 1
        return cast

    def _rest(self) -> Cast | None:
        default = self._script.default
        return None if default is None else self._tried("default", _step(default))

    def _tried(self, name: str, step: Step) -> Cast:
        self._tries[name] += 1
        times = _times(step)
        return Cast(name, step, times is None or self._tries[name] <= times)

    def _has_more(self, name: str, step: Step, cast: Cast) -> bool:
        """Tell whether the next request gets this step again: after a failure that is not the last of it."""
        failure = step.error or step.breaks
        if failure is None or not cast.fails:
            return False
        if step.breaks is not None and step.breaks.times is None:
            return False
        return bool(step.blocks) or self._tries[name] < (failure.times or 1)


def texts(message: Json) -> list[str]:
    """Return the texts of a message."""
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    blocks = content if isinstance(content, list) else []
    return [str(block.get("text")) for block in blocks if isinstance(block, dict) and block.get("type") == "text"]


def _step(step: str | Step) -> Step:
    return Step(content=step) if isinstance(step, str) else step


def _times(step: Step) -> int | None:
    """Return how often a step fails before it is said; None if it always does."""
    failure = step.error or step.breaks
    if failure is None:
        return 0
    if failure.times is not None and step.blocks:
        return failure.times
    return 1 if step.error is not None and step.blocks else None


SECRET = ("key", "token", "secret", "auth", "cookie", "password")
"""A header with such a word in its name is never shown."""


def lacking(demand: Demand, body: Json, headers: Mapping[str, str]) -> list[str]:
    """Return what a request should contain and does not; in headers names are lower case."""
    last = _last(body)
    results = [block for message in last for block in _results(message)]
    offered = [tool.get("name") for tool in body.get("tools") or [] if isinstance(tool, dict)]
    whole = _json(body.get("messages"))
    return [
        *_each("text", demand.text, "\n".join(text for message in last for text in texts(message))),
        *_each("tool result", demand.result, "\n".join(_said_demands(block) for block in results)),
        *_errors(demand.is_error, results),
        *_each("system prompt", demand.system, "\n".join(texts({"content": body.get("system")}))),
        *_each("message", demand.anywhere, whole, _json),
        *(f"`{words}` is there and should not be" for words in _list(demand.absent) if _json(words) in whole),
        *(f"no tool `{name}` is offered" for name in _list(demand.tools) if name not in offered),
        *_headers(demand.header, headers),
        *_within("", demand.body, body),
    ]  # fmt: skip


def is_secret(name: str) -> bool:
    """Tell whether a header must not be shown."""
    return any(word in name.lower() for word in SECRET)


def _last(body: Json) -> list[Json]:
    """Return the user's messages since the last answer."""
    found: list[Json] = []
    for message in reversed(body.get("messages") or []):
        if not isinstance(message, dict) or message.get("role") == "assistant":
            break
        if message.get("role") == "user":
            found.insert(0, message)
    return found


def _results(message: Json) -> list[Json]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_result"]


def _said_demands(result: Json) -> str:
    return "\n".join(texts(result))


def _each(what: str, demanded: Words, found: str, form: Any = str) -> Iterator[str]:
    for words in _list(demanded):
        if form(words) not in found:
            yield f"no {what} holds `{words}`"


def _errors(demanded: bool | None, results: list[Json]) -> Iterator[str]:
    if demanded is None:
        return
    if not results:
        yield "there is no tool result"
    for block in results:
        if bool(block.get("is_error")) is not demanded:
            yield f"the result of `{block.get('tool_use_id')}` is {'no' if demanded else 'an'} error"


def _headers(demanded: Mapping[str, str], headers: Mapping[str, str]) -> Iterator[str]:
    for name, words in demanded.items():
        value = headers.get(name.lower())
        if value is None:
            yield f"there is no header `{name}`"
        elif words not in value:
            shown = "what it should not" if is_secret(name) else f"`{value}`"
            yield f"the header `{name}` holds {shown}"


def _within(path: str, demanded: object, found: object) -> Iterator[str]:
    """Yield where a value is not what it should be; objects may have more fields."""
    if isinstance(demanded, dict) and isinstance(found, dict):
        for key, value in demanded.items():
            yield from _within(f"{path}.{key}".lstrip("."), value, found.get(key))
    elif demanded != found:
        yield f"`{path}` is `{_json(found)[:100]}`, not `{_json(demanded)[:100]}`"


def _list(words: Words) -> list[str]:
    return [words] if isinstance(words, str) else [*words]


def _json(value: object) -> str:
    text = msgspec.json.encode(value).decode(errors="replace")
    return text[1:-1] if isinstance(value, str) else text
