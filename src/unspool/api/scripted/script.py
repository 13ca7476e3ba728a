"""Reads the script of a scripted API, plays its steps, and checks what a step expects of a request.

    {"steps": ["Hello.", {"content": ["I look.", {"type": "tool_use", "name": "Read", "input": {}}]}]}

`docs/testing.md` has the format with examples.

Rules
  1. A field that is not known here is refused: a step that is not played as written proves nothing.
  2. A script is data. What has been played of it is in `ScriptPlayer`, and every server has its own.
  3. A cue is looked for from the last message back; the responses given since then say which of its steps comes next.
     So agents, resumed sessions and requests at the same time get theirs, and a request sent again gets the same.
  4. A request that no cue is for gets the next of the steps. A step is used up by one request; one that fails some
     times first, by so many more.
  5. When nothing is left, `default` is played. Without one the run has failed.
"""

from __future__ import annotations

import collections
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from unspool.api.endpoint import is_secret_header
from unspool.errors import NotFound, Unreadable

Json: TypeAlias = dict[str, Any]
Words: TypeAlias = str | list[str]

CHUNK = 24
"""Characters of a delta, where a step says nothing else."""
_FORMAT_HINT = "docs/testing.md has the format"
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class ScriptPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Any object of a script."""


class Failure(ScriptPart, frozen=True):
    """An HTTP error instead of a response."""

    status: int
    type: str | None = None
    message: str | None = None
    retry_after: float | None = None
    times: int | None = None


class Break(ScriptPart, frozen=True):
    """How a response breaks off after some events."""

    how: Literal["cut", "error", "malformed", "stall"]
    after: int = 3
    type: str = "overloaded_error"
    message: str = "Overloaded"
    seconds: float = 60.0
    times: int | None = None


class Demand(ScriptPart, frozen=True):
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


class ScriptStep(ScriptPart, frozen=True):
    """The response to one request."""

    content: str | list[str | Json] = ""
    stop_reason: str | None = None
    usage: dict[str, Any] = {}
    model: str | None = None
    id: str | None = None
    chunk: int = CHUNK
    delay: float = 0
    pause: float = 0
    until: str | None = None
    """A file: the response begins when it is there."""
    error: Failure | None = None
    breaks: Break | None = msgspec.field(default=None, name="break")
    expect: Demand | None = None

    @property
    def blocks(self) -> list[Json]:
        """The content as blocks; a string is a text."""
        items = [self.content] if isinstance(self.content, str) else self.content
        return [{"type": "text", "text": item} if isinstance(item, str) else item for item in items if item != ""]


class Script(ScriptPart, frozen=True):
    """Steps in order, steps by cue, and the response to everything else."""

    steps: list[str | ScriptStep] = []
    cues: dict[str, list[str | ScriptStep]] = {}
    default: str | ScriptStep | None = None
    count_tokens: int | Failure | None = None
    """The response to a request to count tokens; without it, an estimate."""
    window: int | None = None
    """How many tokens a request and its response may have together, by the same estimate."""


def load_script(path: Path, variables: Mapping[str, str] | None = None) -> Script:
    """Read a script from a file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"script not found: `{path}`") from None
    return parse_script(data, variables, str(path))


def parse_script(data: bytes, variables: Mapping[str, str] | None = None, name: str = "script") -> Script:
    """Parse a script in JSON: an object, or a list of steps. `${name}` stands for a variable."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"`{name}` is not JSON: {_lower_first(error)}", hint=_FORMAT_HINT) from None
    return convert_script(value, variables, name)


def convert_script(value: object, variables: Mapping[str, str] | None = None, name: str = "script") -> Script:
    """Convert plain data to a script."""
    filled = _fill_variables(value, variables or {}, name)
    try:
        if isinstance(filled, list):
            return Script(steps=msgspec.convert(filled, list[str | ScriptStep]))
        return msgspec.convert(filled, Script)
    except msgspec.ValidationError as error:
        raise Unreadable(f"`{name}`: {_lower_first(error)}", hint=_FORMAT_HINT) from None


def _fill_variables(value: Any, variables: Mapping[str, str], name: str) -> Any:
    def fill(found: re.Match[str]) -> str:
        if found[1] not in variables:
            hint = f"on the command line: `--set {found[1]}=…`"
            raise Unreadable(f"`{name}` needs a value for `{found[0]}`", hint=hint)
        return variables[found[1]]

    match value:
        case str():
            return _VARIABLE.sub(fill, value)
        case list():
            return [_fill_variables(item, variables, name) for item in value]
        case dict():
            pairs = ((_fill_variables(key, variables, name), item) for key, item in value.items())
            return {key: _fill_variables(item, variables, name) for key, item in pairs}
        case _:
            return value


def _lower_first(error: Exception) -> str:
    words = str(error)
    return words[:1].lower() + words[1:]


class PlayedStep(NamedTuple):
    """A step with its name, and whether it fails this time."""

    name: str
    step: ScriptStep
    fails: bool


class ScriptPlayer:
    """Chooses the step for each request. Threads may ask at the same time."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._next_step = 0
        self._tries: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()

    @property
    def unused(self) -> list[str]:
        """The names of steps that no request has reached."""
        return [f"steps.{number}" for number in range(self._next_step, len(self.script.steps))]

    def choose(self, body: Json) -> PlayedStep | None:
        """Return the step for a request; None if the script has none."""
        with self._lock:
            return self._choose_cued(body) or self._choose_next() or self._try("default", self.script.default)

    def _choose_cued(self, body: Json) -> PlayedStep | None:
        responses = 0
        messages = body.get("messages")
        for message in reversed(messages if isinstance(messages, list) else []):
            if not isinstance(message, dict) or message.get("role") == "assistant":
                responses += 1
                continue
            text = "\n".join(message_texts(message)) if message.get("role") == "user" else ""
            # Of several cues the one that stands last in the text.
            place, cue = max(((text.rfind(cue), cue) for cue in self.script.cues), default=(-1, ""))
            if place >= 0 and (steps := self.script.cues[cue]):
                number = min(responses, len(steps) - 1)
                return self._try(f"cues.{cue}.{number}", steps[number])
        return None

    def _choose_next(self) -> PlayedStep | None:
        if self._next_step >= len(self.script.steps):
            return None
        played = self._try(f"steps.{self._next_step}", self.script.steps[self._next_step])
        if played is not None and not self._comes_again(played):
            self._next_step += 1
        return played

    def _try(self, name: str, step: str | ScriptStep | None) -> PlayedStep | None:
        if step is None:
            return None
        step = ScriptStep(content=step) if isinstance(step, str) else step
        self._tries[name] += 1
        failures = _count_failures(step)
        return PlayedStep(name, step, failures is None or self._tries[name] <= failures)

    def _comes_again(self, played: PlayedStep) -> bool:
        """Return whether the next request gets this step again: after a failure that is not the last of it."""
        step = played.step
        failure = step.error or step.breaks
        if failure is None or not played.fails or (step.breaks is not None and step.breaks.times is None):
            return False
        return bool(step.blocks) or self._tries[played.name] < (failure.times or 1)


def _count_failures(step: ScriptStep) -> int | None:
    """Return how often a step fails before it is played; None if it always does."""
    failure = step.error or step.breaks
    if failure is None:
        return 0
    if failure.times is not None and step.blocks:
        return failure.times
    return 1 if step.error is not None and step.blocks else None


def message_texts(message: Json) -> list[str]:
    """Return the texts of a message."""
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    blocks = content if isinstance(content, list) else []
    return [str(block.get("text")) for block in blocks if isinstance(block, dict) and block.get("type") == "text"]


def unmet_demands(demand: Demand, body: Json, headers: Mapping[str, str]) -> list[str]:
    """Return what a request should contain and does not; in headers names are lower case."""
    last = _last_user_messages(body)
    results = [
        block
        for message in last
        if isinstance(message.get("content"), list)
        for block in message["content"]
        if isinstance(block, dict) and block.get("type") == "tool_result"
    ]
    offered = [tool.get("name") for tool in body.get("tools") or [] if isinstance(tool, dict)]
    whole = _to_json(body.get("messages"))
    result_texts = "\n".join("\n".join(message_texts(block)) for block in results)
    return [
        *_missing("text", demand.text, "\n".join(text for message in last for text in message_texts(message))),
        *_missing("tool result", demand.result, result_texts),
        *_wrong_results(demand.is_error, results),
        *_missing("system prompt", demand.system, "\n".join(message_texts({"content": body.get("system")}))),
        *_missing("message", demand.anywhere, whole, as_json=True),
        *(f"`{words}` is there and should not be" for words in _as_list(demand.absent) if _to_json(words) in whole),
        *(f"no tool `{name}` is offered" for name in _as_list(demand.tools) if name not in offered),
        *_wrong_headers(demand.header, headers),
        *_wrong_values("", demand.body, body),
    ]  # fmt: skip


def _last_user_messages(body: Json) -> list[Json]:
    """Return the user's messages since the last response."""
    found: list[Json] = []
    for message in reversed(body.get("messages") or []):
        if not isinstance(message, dict) or message.get("role") == "assistant":
            break
        if message.get("role") == "user":
            found.insert(0, message)
    return found


def _missing(what: str, demanded: Words, text: str, *, as_json: bool = False) -> Iterator[str]:
    for words in _as_list(demanded):
        if (_to_json(words) if as_json else words) not in text:
            yield f"no {what} holds `{words}`"


def _wrong_results(demanded: bool | None, results: list[Json]) -> Iterator[str]:
    if demanded is None:
        return
    if not results:
        yield "there is no tool result"
    for block in results:
        if bool(block.get("is_error")) is not demanded:
            yield f"the result of `{block.get('tool_use_id')}` is {'no' if demanded else 'an'} error"


def _wrong_headers(demanded: Mapping[str, str], headers: Mapping[str, str]) -> Iterator[str]:
    for name, words in demanded.items():
        value = headers.get(name.lower())
        if value is None:
            yield f"there is no header `{name}`"
        elif words not in value:
            shown = "what it should not" if is_secret_header(name) else f"`{value}`"
            yield f"the header `{name}` holds {shown}"


def _wrong_values(path: str, demanded: object, value: object) -> Iterator[str]:
    """Yield where a value is not what it should be; objects may have more fields."""
    if isinstance(demanded, dict) and isinstance(value, dict):
        for key, inner in demanded.items():
            yield from _wrong_values(f"{path}.{key}".lstrip("."), inner, value.get(key))
    elif demanded != value:
        yield f"`{path}` is `{_to_json(value)[:100]}`, not `{_to_json(demanded)[:100]}`"


def _as_list(words: Words) -> list[str]:
    return [words] if isinstance(words, str) else [*words]


def _to_json(value: object) -> str:
    """Return a value as JSON; a string without its quotes."""
    text = msgspec.json.encode(value).decode(errors="replace")
    return text[1:-1] if isinstance(value, str) else text
