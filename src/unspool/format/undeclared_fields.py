"""Finds what newer versions of Claude Code write and no struct declares: fields of lines and of tool results.

For `unspool doctor`. Nothing is lost where a field is not declared: it stays in the bytes of its line.

Rules
  1. Only objects that have a struct are looked into. What is kept as it is (`Any`, `Raw`) may have any fields.
  2. A field is named by the struct it is in: `user.x`, `user.message.x`, `attachment/file.x`, `block/text.x`, `Bash.x`.
  3. Nothing raises, whatever a line holds. Names are cut: a hostile line may have any.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, get_args

from msgspec import inspect

from unspool.format.attachments import KnownAttachment
from unspool.format.blocks import KnownBlock
from unspool.format.records import KnownProgress, KnownRecord
from unspool.format.tools.parse import RESULT_TYPES

MAX_NAME: Final = 80
"""How many characters of a field's name are kept."""
_MAX_DEPTH: Final = 40
_PAYLOADS: Final = {"attachment": KnownAttachment, "progress": KnownProgress, "block": KnownBlock}


def find_undeclared_fields(value: Any) -> Iterator[str]:
    """Yield the names of fields of a decoded line that are not declared, where its type is known."""
    kind = value.get("type") if isinstance(value, dict) else None
    info = _record_types().get(kind) if isinstance(kind, str) else None
    if info is not None:
        yield from _walk_struct(value, info, str(kind), 0)


def find_undeclared_in_result(tool: str, value: Any) -> Iterator[str]:
    """Yield the names of fields of a tool's structured result that are not declared, where the tool is known."""
    infos = _result_types(tool)
    if infos and isinstance(value, dict):
        tagged = [info for info in infos if info.tag_field and value.get(info.tag_field) == info.tag]
        if tagged or len(infos) == 1:
            yield from _walk_struct(value, (tagged or infos)[0], tool, 0)


@cache
def _record_types() -> dict[str, inspect.StructType]:
    infos = inspect.multi_type_info(get_args(KnownRecord))
    return {str(info.tag): info for info in infos if isinstance(info, inspect.StructType)}


@cache
def _result_types(tool: str) -> tuple[inspect.StructType, ...]:
    infos = (inspect.type_info(shape) for shape in RESULT_TYPES.get(tool, ()))
    return tuple(info for info in infos if isinstance(info, inspect.StructType))


@cache
def _payload_tags(kind: str) -> frozenset[str]:
    return frozenset(str(struct.__struct_config__.tag) for struct in get_args(_PAYLOADS[kind]))


def _walk_struct(value: dict[str, Any], info: inspect.StructType, name: str, depth: int) -> Iterator[str]:
    fields = {field.encode_name: field for field in info.fields}
    for key, item in value.items():
        field = fields.get(key)
        if field is not None:
            yield from _walk(item, field.type, f"{name}.{key}", depth + 1)
        elif key != info.tag_field:
            yield f"{name}.{key[:MAX_NAME]}"


def _walk(value: Any, info: inspect.Type, name: str, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        return
    match info:
        case inspect.StructType() if isinstance(value, dict):
            yield from _walk_struct(value, info, name, depth)
        case inspect.UnionType():
            for member in info.types:
                if isinstance(member, inspect.StructType) and member.tag is not None:
                    if isinstance(value, dict) and value.get(member.tag_field or "type") == member.tag:
                        yield from _walk_struct(value, member, _payload_name(str(member.tag), name), depth)
                elif not isinstance(member, inspect.AnyType | inspect.RawType):
                    yield from _walk(value, member, name, depth)
        case inspect.VarTupleType() if isinstance(value, list):
            for item in value:
                yield from _walk(item, info.item_type, name, depth + 1)
        case inspect.DictType() if isinstance(value, dict):
            for item in value.values():
                yield from _walk(item, info.value_type, name, depth + 1)
        case _:
            pass


def _payload_name(tag: str, name: str) -> str:
    """Return the name of an attachment, of progress or of a block; of anything else the name it has."""
    kind = "attachment" if name == "attachment.attachment" else "progress" if name == "progress.data" else "block"
    return f"{kind}/{tag}" if tag in _payload_tags(kind) else name
