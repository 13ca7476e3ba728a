"""The StructuredOutput tool: the model gives its answer as JSON that follows a schema (`--json-schema`).

Of JSON Schema, `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`, `items`, `anyOf` and `oneOf`
are checked. What else a schema says reaches the model, and is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import InvalidToolCall, Json, ToolOutcome

_MAX_DEPTH = 50
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


class StructuredOutputTool:
    """Takes the answer of the model, if it follows the schema."""

    name = "StructuredOutput"
    # Claude Code's own words (2.1.325).
    description = (
        "Use this tool to return your final response in the requested structured format. You MUST call this tool "
        "exactly once at the end of your response to provide the structured output."
    )
    is_concurrent = False

    def __init__(self, schema: Json) -> None:
        self.input_schema = schema
        self._output: Json | None = None

    def take_output(self) -> Json | None:
        """Return the output that came since it was last taken."""
        output, self._output = self._output, None
        return output

    def target(self, input: Json) -> str:
        """Return nothing: it acts on nothing."""
        return ""

    def check(self, input: Json) -> None:
        """Raise an `InvalidToolCall` if the output does not follow the schema."""
        problems = [*find_violations(input, self.input_schema, "output")]
        if problems:
            raise InvalidToolCall(f"Output does not match required schema: {'; '.join(problems[:5])}")

    def preview(self, input: Json, context: ToolContext, call_id: str) -> None:
        """Change no file."""

    async def run(self, input: Json, context: ToolContext, call_id: str) -> ToolOutcome:
        """Keep the output."""
        self._output = input
        # As Claude Code 2.1.326 does: no further request, and the output as text is the result of the turn.
        notice, text = "Structured output provided successfully", msgspec.json.encode(input).decode()
        return ToolOutcome(content=notice, result=notice, ends_turn=text)


def find_violations(value: Any, schema: Any, where: str, depth: int = 0) -> Iterator[str]:
    """Yield what in a value does not follow a schema."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return
    types = schema.get("type")
    names = [types] if isinstance(types, str) else types if isinstance(types, list) else []
    if names and not any(_has_type(value, name) for name in names):
        yield f"{where} must be {' or '.join(map(str, names))}"
        return
    options = schema.get("enum")
    if isinstance(options, list) and value not in options:
        yield f"{where} must be one of {options}"
    if "const" in schema and value != schema["const"]:
        yield f"{where} must be {schema['const']!r}"
    for kind in ("anyOf", "oneOf"):
        choices = schema.get(kind)
        if isinstance(choices, list) and choices:
            fitting = [choice for choice in choices if not [*find_violations(value, choice, where, depth + 1)]]
            if not fitting:
                yield f"{where} fits none of `{kind}`"
    if isinstance(value, dict):
        yield from _object_violations(value, schema, where, depth)
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield from find_violations(item, schema.get("items"), f"{where}[{place}]", depth + 1)


def _object_violations(value: Json, schema: Json, where: str, depth: int) -> Iterator[str]:
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if name not in value:
            yield f"{where} must have `{name}`"
    for name, item in value.items():
        if name in known:
            yield from find_violations(item, known[name], f"{where}.{name}", depth + 1)
        elif schema.get("additionalProperties") is False:
            yield f"{where} must not have `{name}`"


def _has_type(value: Any, name: object) -> bool:
    if isinstance(value, bool):  # in Python `True` is an integer; in JSON it is none
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(name, str) and isinstance(value, _TYPES.get(name, (object,)))
