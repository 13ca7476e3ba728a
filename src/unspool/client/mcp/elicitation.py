"""Passes the questions of an MCP server (elicitation) to the user: forms, and addresses to open.

Rules
  1. A server is answered only while one of its calls runs, ten times in a call. Further questions are declined, and a
     server that keeps asking is disconnected. When the call ends, so does its question.
  2. A form has the fields that the protocol allows: texts, numbers, yes or no, and choices. Any other is declined.
  3. What a server says is bounded and safe for a terminal. An answer is checked against the form before it is sent.
  4. Where nobody can answer, every question is declined.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date, datetime
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from unspool.client.tool_result import Json
from unspool.display import clean, clean_line

FieldKind: TypeAlias = Literal["text", "number", "integer", "boolean", "choice", "choices"]
FieldValue: TypeAlias = str | float | bool | list[str]
_MAX_FIELDS = 20
_MAX_OPTIONS = 100
_MAX_LABEL = 80
_MAX_DESCRIPTION = 300
_MAX_MESSAGE = 2_000
_MAX_OPTION = 200
_MAX_TEXT = 10_000
_MAX_ADDRESS = 2_000
_MAX_QUESTIONS = 10
"""How many questions of one call reach the user."""
_MAX_REQUESTS = 100
"""After how many questions of one call the server is disconnected: each answer may lead to the next."""
_SECRET = re.compile(
    r"pass(word|phrase|code)|secret|credential|token|(api|access|private)[ _-]?key|\bpin\b|\bcvv\b|card number",
    re.IGNORECASE,
)
_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_WHOLE_NUMBER = "a whole number"


class FormField(NamedTuple):
    """One field of a form."""

    name: str
    title: str
    kind: FieldKind
    description: str = ""
    is_required: bool = False
    options: tuple[tuple[str, str], ...] = ()
    """The values to choose from, each with what is shown for it."""
    least: float | None = None
    """The smallest number, the shortest text, or the fewest choices."""
    most: float | None = None
    format: str = ""
    default: FieldValue | None = None


class ServerForm(NamedTuple):
    """A form that a server wants to be filled."""

    server: str
    message: str
    fields: tuple[FormField, ...]

    @property
    def wants_secret(self) -> bool:
        """Whether it seems to ask for what the protocol does not let a form ask for."""
        words = (self.message, *(f"{field.name} {field.title} {field.description}" for field in self.fields))
        return any(_SECRET.search(text) for text in words)


class ServerAddress(NamedTuple):
    """An address that a server wants the user to open."""

    server: str
    message: str
    address: str
    host: str


class FormAnswer(NamedTuple):
    """What the user answers."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, FieldValue] | None = None
    is_final: bool = False
    """Whether no more questions of this server are wanted."""


class FormUser(NamedTuple):
    """How the user is reached."""

    ask: Callable[[ServerForm | ServerAddress], Awaitable[FormAnswer]]
    tell: Callable[[str], None]
    """Shows one line."""


class InvalidForm(Exception):
    """A question that cannot be shown; the text says why."""


class ElicitationRequests:
    """The questions of one connection."""

    def __init__(self, server: str, user: FormUser | None) -> None:
        self._server, self._user = clean_line(server)[:_MAX_LABEL], user
        self._calls = 0
        self._asked = 0
        """How often the server has asked since a call began while none ran."""
        self._is_refused = False
        self._open = asyncio.Lock()
        """Held while a question is open: a server may send several at once."""
        self._idle = asyncio.Event()

    @contextmanager
    def during_call(self) -> Iterator[None]:
        """Let the server ask until its call ends."""
        if not self._calls:
            self._asked = 0
            self._idle = asyncio.Event()
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    @property
    def is_flooding(self) -> bool:
        """Whether the server has asked more often than anything but a loop would."""
        return self._asked > _MAX_REQUESTS

    async def answer(self, question: Mapping[str, Any]) -> FormAnswer:
        """Ask the user, and return the answer."""
        self._asked += 1
        user = self._user
        if user is None or self._declines():
            return FormAnswer("decline")
        if self._asked > _MAX_QUESTIONS:
            if self._asked == _MAX_QUESTIONS + 1:
                words = f"asks more than {_MAX_QUESTIONS} times in one call: further questions are declined"
                user.tell(f"MCP server `{self._server}` {words}")
            return FormAnswer("decline")
        try:
            parsed = parse_question(self._server, question)
        except InvalidForm as problem:
            user.tell(f"a question of the MCP server `{self._server}` was declined: {problem}")
            return FormAnswer("decline")
        async with self._open:
            if self._declines():  # since the question before was answered
                return FormAnswer("decline")
            answer = await self._ask_while_called(user, parsed)
            if answer.is_final:
                self._is_refused = True
            return answer

    def _declines(self) -> bool:
        """Return whether no question is passed on now."""
        return self._is_refused or not self._calls

    async def _ask_while_called(self, user: FormUser, parsed: ServerForm | ServerAddress) -> FormAnswer:
        job = asyncio.ensure_future(user.ask(parsed))
        ending = asyncio.ensure_future(self._idle.wait())
        try:
            await asyncio.wait({job, ending}, return_when=asyncio.FIRST_COMPLETED)
            return job.result() if job.done() else FormAnswer("cancel")
        finally:
            ending.cancel()
            job.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait({job})


def parse_question(server: str, question: Mapping[str, Any]) -> ServerForm | ServerAddress:
    """Return what a server asks for; an `InvalidForm` if it cannot be shown."""
    message = clean(str(question.get("message") or "")[: _MAX_MESSAGE * 2])
    message = message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}…"
    if question.get("mode") == "url":
        return _parse_address(server, message, question.get("url"))
    schema = question.get("requestedSchema")
    properties = schema.get("properties", {}) if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or schema.get("type") != "object" or not isinstance(properties, dict):
        raise InvalidForm("its schema does not describe an object")
    if len(properties) > _MAX_FIELDS:
        raise InvalidForm(f"it has {len(properties):,} fields, more than {_MAX_FIELDS}")
    listed = schema.get("required")
    required = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    fields = tuple(_parse_field(name, value, is_required=name in required) for name, value in properties.items())
    return ServerForm(server, message, fields)


def _parse_address(server: str, message: str, address: Any) -> ServerAddress:
    """Return an address as it can be judged by reading it: no letters that look like others, and no user name."""
    try:
        parts = urlsplit(address if isinstance(address, str) else "")
        host = parts.hostname or ""
        is_plain = parts.scheme in ("http", "https") and "@" not in parts.netloc
    except ValueError:
        host, is_plain = "", False
    if not (is_plain and host and address.isascii() and address.isprintable() and " " not in address):
        raise InvalidForm("its address is not a plain http or https address")
    if len(address) > _MAX_ADDRESS:
        raise InvalidForm(f"its address has more than {_MAX_ADDRESS:,} characters")
    return ServerAddress(server, message, address, host)


def _parse_field(name: str, value: Any, *, is_required: bool) -> FormField:
    shown = _shorten(name, _MAX_LABEL)
    if not isinstance(value, dict) or len(name) > _MAX_OPTION:
        raise InvalidForm(f"the field `{shown}` has no definition")
    field = FormField(
        name,
        _shorten(value.get("title") or name, _MAX_LABEL) or "(no name)",
        "text",
        _shorten(value.get("description") or "", _MAX_DESCRIPTION),
        is_required,
    )
    match value.get("type"):
        case "string" if "enum" in value or "oneOf" in value:
            field = field._replace(kind="choice", options=_parse_options(shown, value, "oneOf"))
        case "string":
            format = value.get("format")
            field = field._replace(
                least=_number(value.get("minLength")),
                most=_number(value.get("maxLength")),
                format=format if isinstance(format, str) else "",
            )
        case "number" | "integer" as kind:
            field = field._replace(kind=kind, least=_number(value.get("minimum")), most=_number(value.get("maximum")))
        case "boolean":
            field = field._replace(kind="boolean")
        case "array" if isinstance(value.get("items"), dict):
            field = field._replace(
                kind="choices",
                options=_parse_options(shown, value["items"], "anyOf"),
                least=_number(value.get("minItems")),
                most=_number(value.get("maxItems")),
            )
        case _:
            raise InvalidForm(f"the field `{shown}` is of a type that forms cannot have")
    return field._replace(default=_parse_default(field, value.get("default")))


def _parse_options(shown: str, value: Json, key: str) -> tuple[tuple[str, str], ...]:
    """Return the values of a choice; `key` is where those with titles stand."""
    found: list[tuple[str, str]] = []
    names = value.get("enumNames")
    if isinstance(plain := value.get("enum"), list):
        titles = names if isinstance(names, list) and len(names) == len(plain) else plain
        listed = [*zip(plain, titles, strict=True)]
    else:
        titled = value.get(key)
        parts = titled if isinstance(titled, list) else []
        listed = [(part.get("const"), part.get("title")) for part in parts if isinstance(part, dict)]
    for option, title in listed[: _MAX_OPTIONS + 1]:
        if not isinstance(option, str) or len(option) > _MAX_OPTION:
            raise InvalidForm(f"the field `{shown}` has choices that are not short texts")
        found.append((option, _shorten(title or option, _MAX_LABEL) or "(empty)"))
    if not 0 < len(listed) <= _MAX_OPTIONS:
        raise InvalidForm(f"the field `{shown}` has {len(listed):,} choices: between 1 and {_MAX_OPTIONS} are possible")
    return tuple(found)


def _parse_default(field: FormField, value: Any) -> FieldValue | None:
    """Return the value that the server proposes, if it may be the answer."""
    known = {option for option, _ in field.options}
    match field.kind:
        case "boolean":
            return value if isinstance(value, bool) else None
        case "choice":
            return value if isinstance(value, str) and value in known else None
        case "choices":
            is_valid = isinstance(value, list) and all(isinstance(item, str) and item in known for item in value)
            return value if is_valid and not find_count_problem(field, len(value)) else None
        case "text" if isinstance(value, str):
            # A text that is shown otherwise than it is sent must not be accepted with one key.
            is_plain = value == clean_line(value)[:_MAX_DESCRIPTION]
            return value if is_plain and not _find_text_problem(field, value) else None
        case "number" | "integer" if (number := _number(value)) is not None:
            return parse_answer(field, str(value))[0] if abs(number) < 1e15 else None
        case _:
            return None


def parse_answer(field: FormField, text: str) -> tuple[str | float | None, str]:
    """Return the value that a typed text means, and what is wrong with it; one of them is empty."""
    if not text:
        return None, "it needs an answer"
    if field.kind == "text":
        problem = _find_text_problem(field, text)
        return (None, problem) if problem else (text, "")
    number: float | None = None
    if field.kind == "integer":
        number = int(text) if _INTEGER.fullmatch(text) else None
    else:
        with suppress(ValueError):
            number = float(text)
    if number is None or not math.isfinite(number):
        return None, f"it must be {_WHOLE_NUMBER if field.kind == 'integer' else 'a number'}"
    problem = _find_bound_problem(field, number, "")
    return (None, problem) if problem else (number, "")


def find_count_problem(field: FormField, count: int) -> str:
    """Return what is wrong with how many options were chosen; empty if nothing is."""
    return _find_bound_problem(field, count, " chosen")


def _find_text_problem(field: FormField, text: str) -> str:
    if len(text) > _MAX_TEXT:
        return f"it may have {_MAX_TEXT:,} characters"
    if problem := _find_bound_problem(field, len(text), " characters long"):
        return problem
    try:
        match field.format:
            case "email" if not _EMAIL.fullmatch(text):
                return "it must be an email address"
            case "uri" if not urlsplit(text).scheme or any(map(str.isspace, text)):
                return "it must be an address such as https://example.org"
            case "date":
                date.fromisoformat(text)
            case "date-time":
                datetime.fromisoformat(text)
            case _:
                pass
    except ValueError:
        return {
            "date": "it must be a date such as 2026-01-31",
            "date-time": "it must be a time such as 2026-01-31T12:00:00Z",
        }.get(field.format, "it must be an address such as https://example.org")
    return ""


def _find_bound_problem(field: FormField, value: float, unit: str) -> str:
    if field.least is not None and value < field.least:
        return f"it must be at least {field.least:g}{unit}"
    if field.most is not None and value > field.most:
        return f"it must be at most {field.most:g}{unit}"
    return ""


def _number(value: Any) -> float | None:
    # In Python `True` is a number; an integer may be too large for the functions of floats.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:
        return None


def _shorten(value: object, most: int) -> str:
    text = clean_line(str(value)[: most * 4])
    return text if len(text) <= most else f"{text[:most]}…"
