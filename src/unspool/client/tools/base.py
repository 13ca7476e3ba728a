"""The base class of the built-in tools: a struct describes the arguments, and each input is checked against it.

Rules
  1. The first thing that a model reads about a bad call is which field is wrong and what it should be, in Claude Code's
     words: `InputValidationError: Read failed due to the following issue: …`.
  2. All that is wrong is said at once.
  3. Models write `"10"` for 10, `"true"` for true and null for nothing. They may.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import FileChange, InvalidToolCall, Json, ToolOutcome

_TYPE_NAMES = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}
_OMITTED_FROM_SCHEMA = frozenset({"title", "default", "$defs"})


class ToolArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of a tool. A field without a default is required."""


ArgumentsT = TypeVar("ArgumentsT", bound=msgspec.Struct)


class InvalidArguments(InvalidToolCall):
    """An input that does not fit the arguments of its tool; `toolUseResult` is the same text."""

    result_prefix = ""


class BuiltInTool(Generic[ArgumentsT]):
    """A tool whose input becomes a struct before `execute` gets it."""

    name: str
    """Some tools have had other names, and are called by them."""
    description: str
    is_concurrent = False
    arguments: type[ArgumentsT]
    target_fields: tuple[str, ...] = ()
    """Fields of the input that may say what a call is aimed at; the first that is a text counts."""
    ignored_fields: frozenset[str] = frozenset()
    """Fields that models know from Claude Code, and that change nothing here."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name or self.name
        self.input_schema = make_schema(self.arguments)

    def target(self, input: Json) -> str:
        """Return what a call is aimed at, in a few words."""
        return first_text(input, *self.target_fields)

    def check(self, input: Json) -> None:
        """Raise an `InvalidToolCall` if the input does not fit the arguments."""
        self._parse(input)

    def preview(self, input: Json, context: ToolContext, call_id: str) -> FileChange | None:
        """Return what a call would change in a file, and change nothing; a `ToolFailed` if it cannot be made."""
        return self.plan_change(self._parse(input), context, call_id)

    def plan_change(self, arguments: ArgumentsT, context: ToolContext, call_id: str) -> FileChange | None:
        """Return what a call whose arguments are valid would change in a file; None: it changes none."""
        return None

    async def run(self, input: Json, context: ToolContext, call_id: str) -> ToolOutcome:
        """Check the input and make the call."""
        return await self.execute(self._parse(input), context, call_id)

    def _parse(self, input: Json) -> ArgumentsT:
        return parse_arguments(self.name, self.adapt(input), self.arguments)

    def adapt(self, input: Any) -> Any:
        """Return an input without the fields that are ignored."""
        if not isinstance(input, dict):
            return input
        return {name: value for name, value in input.items() if name not in self.ignored_fields}

    async def execute(self, arguments: ArgumentsT, context: ToolContext, call_id: str) -> ToolOutcome:
        """Make a call whose arguments are valid."""
        raise NotImplementedError


def make_schema(shape: type[msgspec.Struct]) -> Json:
    """Return the JSON schema of a struct, without names and references."""
    schema = msgspec.json.schema(shape)
    plain: Json = _inline(schema, schema.get("$defs", {}))
    plain.pop("description", None)  # the tool has one
    plain.setdefault("properties", {})
    return plain


def parse_arguments(tool: str, input: object, shape: type[ArgumentsT]) -> ArgumentsT:
    """Return an input as its struct; `InvalidArguments` names all that is wrong with it."""
    try:
        return msgspec.convert(input, shape, strict=False)  # "10" is 10, and "true" is true
    except (msgspec.ValidationError, RecursionError) as problem:
        # msgspec stops at the first mistake, so the input is checked again against the schema.
        issues = list(_find_issues(input, make_schema(shape), "")) or [f"The input is not as expected: {problem}"]
        noun = "issue" if len(issues) == 1 else "issues"
        text = "\n".join(issues)
        raise InvalidArguments(f"InputValidationError: {tool} failed due to the following {noun}:\n{text}") from None


def first_text(input: object, *names: str) -> str:
    """Return the first of these fields that is a text; empty if none is."""
    fields = input if isinstance(input, dict) else {}
    return next((value for name in names if isinstance(value := fields.get(name), str) and value), "")


def _inline(node: Any, definitions: Json) -> Any:
    """Replace references by what they refer to, and leave out what a model does not need."""
    if isinstance(node, list):
        return [_inline(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inline(definitions[node["$ref"].rpartition("/")[2]], definitions)
    plain = {key: _inline(value, definitions) for key, value in node.items() if key not in _OMITTED_FROM_SCHEMA}
    alternatives = [part for part in plain.pop("anyOf", []) if part != {"type": "null"}]
    if len(alternatives) == 1:
        plain = alternatives[0] | plain
    elif alternatives:
        plain["anyOf"] = alternatives
    if isinstance(plain.get("enum"), list):
        plain["enum"] = [value for value in plain["enum"] if value is not None]
    return plain


def _find_issues(value: object, schema: Json, name: str) -> Iterator[str]:
    """Yield what is wrong with a value and all that is in it."""
    expected, provided = schema.get("type", "string" if "enum" in schema else None), _type_name(value)
    match expected:
        case "object" if isinstance(value, dict):
            yield from _find_issues_inside(value, schema, name)
        case "array" if isinstance(value, list):
            for at, item in enumerate(value):
                yield from _find_issues(item, schema.get("items", {}), f"{name}[{at}]")
        case "integer" if isinstance(value, float):
            yield f"The parameter `{name}` is expected as a whole number but provided as `{value}`"
        case str() if provided != (kind := expected.replace("integer", "number")) and not _means(value, expected):
            what = f"parameter `{name}` type" if name else "input"
            yield f"The {what} is expected as `{kind}` but provided as `{provided}`"
        case "integer" if isinstance(value, int) and value < schema.get("minimum", value):
            yield f"The parameter `{name}` is expected as `{schema['minimum']}` or more but provided as `{value}`"
        case "string" if "enum" in schema and value not in schema["enum"]:
            among = ", ".join(f"`{allowed}`" for allowed in schema["enum"])
            yield f"The parameter `{name}` is expected as one of {among} but provided as `{value}`"
        case "string" if isinstance(value, str) and len(value) < schema.get("minLength", 0):
            yield f"The parameter `{name}` cannot be empty"


def _find_issues_inside(value: Json, schema: Json, name: str) -> Iterator[str]:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    prefix = f"{name}." if name else ""
    for key in required:
        if key not in value:
            yield f"The required parameter `{prefix}{key}` is missing"
    if schema.get("additionalProperties") is False:
        for key in value:
            if key not in properties:
                yield f"An unexpected parameter `{prefix}{key}` was provided"
    for key, part in properties.items():
        if value.get(key) is not None or (key in value and key in required):
            yield from _find_issues(value[key], part, f"{prefix}{key}")


def _means(value: object, expected: str) -> bool:
    """Return whether a text is a value of the expected type in quotation marks."""
    type = {"integer": int, "number": float, "boolean": bool}.get(expected)
    try:
        return type is not None and msgspec.convert(value, type, strict=False) is not None
    except msgspec.ValidationError:
        return False


def _type_name(value: object) -> str:
    return _TYPE_NAMES.get(type(value), "null")
