"""What a tool may be called with: a struct in, its JSON schema out; a call in, the struct or words about what is wrong.

Rules
  1. The first thing a model reads about a bad call is which field is wrong and what it should be: as the program
     words it, `InputValidationError: Read failed due to the following issue: …`.
  2. All that is wrong is said at once.
  3. Models write `"10"` for 10, `"true"` for true and null for nothing. They may.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import msgspec

from unspool.client.tools.tool import BadCall

Json: TypeAlias = dict[str, Any]
Shape = TypeVar("Shape", bound=msgspec.Struct)

_KINDS = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}
_UNINTERESTING = frozenset({"title", "default", "$defs"})


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
        issues = _issues(input, shape) or [f"The input is not as expected: {problem}"]
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
    plain = {key: _plain(value, definitions) for key, value in node.items() if key not in _UNINTERESTING}
    kinds = [kind for kind in plain.pop("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        plain = kinds[0] | plain
    elif kinds:
        plain["anyOf"] = kinds
    if isinstance(plain.get("enum"), list):
        plain["enum"] = [value for value in plain["enum"] if value is not None]
    return plain


def _issues(input: object, shape: type[msgspec.Struct]) -> list[str]:
    if not isinstance(input, dict):
        return [f"The input is expected as `object` but provided as `{_kind(input)}`"]
    fields = {field.encode_name: field for field in msgspec.structs.fields(shape)}
    missing = [
        f"The required parameter `{name}` is missing"
        for name, field in fields.items()
        if field.required and name not in input
    ]
    unexpected = [f"An unexpected parameter `{name}` was provided" for name in input if name not in fields]
    properties = schema(shape)["properties"]
    unfit = [
        issue
        for name, field in fields.items()
        if name in input and (issue := _issue(name, input[name], field.type, properties[name]))
    ]
    return missing + unexpected + unfit


def _issue(name: str, value: object, type: Any, expected: Json) -> str | None:
    try:
        msgspec.convert(value, type, strict=False)
    except (msgspec.ValidationError, RecursionError) as problem:
        wanted, given = expected.get("type", "string" if "enum" in expected else None), _kind(value)
        if wanted and given != wanted.replace("integer", "number"):
            return f"The parameter `{name}` type is expected as `{wanted}` but provided as `{given}`"
        words = str(problem).replace("`$", f"`{name}")
        among = "; expected one of " + ", ".join(f"`{each}`" for each in expected["enum"]) if "enum" in expected else ""
        return f"The parameter `{name}` is not as expected: {words}{among}"
    return None


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "null")
