"""What a tool may be called with: a struct in, its JSON schema out; a call in, the struct or words about what is wrong.

Rules
  1. The first thing a model reads about a bad call is which field is wrong and what it should be: as the program
     words it, `InputValidationError: Read failed due to the following issue: …`.
  2. All that is wrong is said at once.
  3. Models write `"10"` for 10, `"true"` for true and null for nothing. They may.

[merged: tool.py] What a tool is: a name, an input, what it says to the model and what it leaves in the session.

Rules
  1. A tool never asks for permission and never writes a line: the loop does, before and after.
  2. What went wrong is an `Outcome` with `is_error`, worded so that a model can act on it; `ToolFailed` makes one.
  3. A tool that is cancelled (`asyncio.CancelledError`) ends what it started, and lets the cancellation pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import msgspec

if TYPE_CHECKING:
    from unspool.client.tool_context import Desk

Json: TypeAlias = dict[str, Any]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a call."""

    content: str | list[Json]
    """What the model is told: a text, or blocks (texts, images, documents)."""
    result: Any = None
    """`toolUseResult`: the program's own shape for this tool. None: the line has none."""
    is_error: bool = False
    extra: tuple[Json, ...] = ()
    """Blocks that follow as a meta line of the user's, as the program does with a PDF."""


class ToolFailed(Exception):
    """A call that cannot be done. The text goes to the model; `toolUseResult` becomes `Error: <text>`."""


class BadCall(ToolFailed):
    """A call that was not begun, because of what it asks for: the model gets the text as `<tool_use_error>`."""

    result_prefix = "Error: "
    """What stands before the text in `toolUseResult`."""


class Tool(Protocol):
    """One tool. Tools hold no state: what they share is on the desk."""

    name: str
    description: str
    """For the model; short."""
    input_schema: Json
    is_concurrent: bool
    """Whether it may run beside other calls: it only looks."""

    def target(self, input: Json) -> str:
        """Return what a call is aimed at, in a few words; never fails."""

    async def run(self, input: Json, desk: Desk, call_id: str) -> Outcome:
        """Do it. The input may be anything; what does not fit is a `ToolFailed`."""


Shape = TypeVar("Shape", bound=msgspec.Struct)

_KINDS = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}
_UNSAID = frozenset({"title", "default", "$defs"})


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The input of a tool. A field that has no default must be given."""


class BadInput(BadCall):
    """An input that does not fit its tool; `toolUseResult` is these words too."""

    result_prefix = ""


def schema(shape: type[msgspec.Struct]) -> Json:
    """Return the JSON schema of an input, without names and references."""
    whole = msgspec.json.schema(shape)
    definitions = whole.get("$defs", {})
    plain: Json = _plain(whole, definitions)
    plain.pop("description", None)  # the tool has one
    plain.setdefault("properties", {})
    return plain


def parse(tool: str, input: object, shape: type[Shape]) -> Shape:
    """Return an input as its struct."""
    try:
        return msgspec.convert(input, shape, strict=False)
    except (msgspec.ValidationError, RecursionError) as problem:
        issues = list(_issues(input, schema(shape), "")) or [f"The input is not as expected: {problem}"]
        words = "issue" if len(issues) == 1 else "issues"
        text = "\n".join(issues)
        raise BadInput(f"InputValidationError: {tool} failed due to the following {words}:\n{text}") from None


def aim(input: object, *names: str) -> str:
    """Return the first of these fields that is a text: what a call is aimed at."""
    given = input if isinstance(input, dict) else {}
    return next((value for name in names if isinstance(value := given.get(name), str) and value), "")


def _plain(node: Any, definitions: Json) -> Any:
    if isinstance(node, list):
        return [_plain(part, definitions) for part in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _plain(definitions[node["$ref"].rpartition("/")[2]], definitions)
    plain = {key: _plain(value, definitions) for key, value in node.items() if key not in _UNSAID}
    kinds = [kind for kind in plain.pop("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        plain = kinds[0] | plain
    elif kinds:
        plain["anyOf"] = kinds
    if isinstance(plain.get("enum"), list):
        plain["enum"] = [value for value in plain["enum"] if value is not None]
    return plain


def _issues(value: object, expected: Json, name: str) -> Iterator[str]:
    """Yield what is wrong with a value and all that is in it."""
    wanted, given = expected.get("type", "string" if "enum" in expected else None), _kind(value)
    match wanted:
        case "object" if isinstance(value, dict):
            yield from _issues_inside(value, expected, name)
        case "array" if isinstance(value, list):
            for at, part in enumerate(value):
                yield from _issues(part, expected.get("items", {}), f"{name}[{at}]")
        case "integer" if isinstance(value, float):
            yield f"The parameter `{name}` is expected as a whole number but provided as `{value}`"
        case str() if given != (kind := wanted.replace("integer", "number")) and not _means(value, wanted):
            named = f"parameter `{name}` type" if name else "input"
            yield f"The {named} is expected as `{kind}` but provided as `{given}`"
        case "integer" if isinstance(value, int) and value < expected.get("minimum", value):
            yield f"The parameter `{name}` is expected as `{expected['minimum']}` or more but provided as `{value}`"
        case "string" if "enum" in expected and value not in expected["enum"]:
            among = ", ".join(f"`{each}`" for each in expected["enum"])
            yield f"The parameter `{name}` is expected as one of {among} but provided as `{value}`"
        case "string" if isinstance(value, str) and len(value) < expected.get("minLength", 0):
            yield f"The parameter `{name}` cannot be empty"


def _issues_inside(value: Json, expected: Json, name: str) -> Iterator[str]:
    properties = expected.get("properties", {})
    inside = f"{name}." if name else ""
    for key in expected.get("required", []):
        if key not in value:
            yield f"The required parameter `{inside}{key}` is missing"
    if expected.get("additionalProperties") is False:
        for key in value:
            if key not in properties:
                yield f"An unexpected parameter `{inside}{key}` was provided"
    for key, part in properties.items():
        if value.get(key) is not None or (key in value and key in expected.get("required", [])):
            yield from _issues(value[key], part, f"{inside}{key}")


def _means(value: object, wanted: str) -> bool:
    """Tell whether a text is what is wanted in quotation marks."""
    type = {"integer": int, "number": float, "boolean": bool}.get(wanted)
    try:
        return type is not None and msgspec.convert(value, type, strict=False) is not None
    except msgspec.ValidationError:
        return False


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "null")
