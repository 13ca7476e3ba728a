"""Lines the typed decoder refuses: find the documents in them, mend what can be mended, name the rest.

| found                                  | becomes                                                                |
|----------------------------------------|------------------------------------------------------------------------|
| several documents on one line (`}{`)   | one entry each                                                         |
| the torn end or beginning of a record  | a bad line; a whole document after it on the same line is an entry     |
| byte order mark, NUL padding           | part of the entry beside it, as a flaw; alone: a bad line              |
| invalid UTF-8, lone surrogates         | an entry; its text reads U+FFFD there, its bytes are unchanged         |
| a field of an unexpected type          | an entry; that field keeps its default, and is named as a flaw         |
| an unknown type                        | an entry with an `Unknown` record; an unknown block or kind: `Other`   |
| nesting deeper than the decoder goes   | an entry without that field, named as a flaw                           |
| valid JSON that is no object           | a bad line                                                             |
| a key written twice                    | an entry; the last one counts                                          |
| nothing but white space                | a blank                                                                |

[merged: loose.py] The slow path into typed records: what fits goes in, what does not is named and left out.

The fast decoder refuses a whole line for one field of an unexpected type, one unknown block or one unknown
attachment. Here such a line still gives a record: an unknown block is an `Other`, a misfit field keeps its
default, and the caller learns which.
"""

import re
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar, get_args

import msgspec
from msgspec import inspect

from unspool.format import json_edit as json_text
from unspool.format.base import UNDECODABLE
from unspool.format.blocks import Other
from unspool.format.entry import BadLine, Blank, Dialect, Entry, Item
from unspool.format.envelope import Unknown
from unspool.format.json_edit import encode
from unspool.format.records import AnyRecord, KnownRecord
from unspool.format.repair_text import mend

MAX_DEPTH = 500
"""Deeper values are left out of a record. Fixed, so that the outcome does not depend on who calls."""

_WORK = 16
"""How many times its own length a torn line may be searched for a whole document."""

_BOM = b"\xef\xbb\xbf"
_PADDING = re.compile(rb"(?:[ \t\r\n\x00]++|\xef\xbb\xbf)*+")
_START = b'{"'


class Document(NamedTuple):
    """What could be made of one JSON document."""

    record: Any = None
    flaws: tuple[str, ...] = ()
    reason: str = ""
    """Why there is no record."""


def items(line: bytes, offset: int, dialect: Dialect) -> list[Item]:
    """Return what a refused line holds; the items cover it."""
    if not line.strip(b" \t\r\n"):
        return [Blank(offset, len(line))]
    found: list[Item] = []
    at = 0
    while at < len(line):
        start = _skip_padding(line, at)
        stop, document = _document_at(line, start, dialect)
        if document.record is None:
            end = _next_document(line, start + 1, dialect)
            found.append(BadLine(offset + at, end - at, document.reason))
        else:
            end = _skip_padding(line, stop)
            flaws = _padding_flaws(line[at:start] + line[stop:end]) + document.flaws
            found.append(Entry(offset + at, line[at:end], document.record, flaws))
        at = end
    return found


def _document_at(line: bytes, start: int, dialect: Dialect) -> tuple[int, Document]:
    """Return the end of the document that begins here, and what it is."""
    if line[start : start + 1] != b"{":
        return start, Document(reason=_not_an_object(line, start))
    end = json_text.container_end(line, start)
    if end is None:
        return start, Document(reason="torn: the object has no end")
    return end, _decode(line[start:end], dialect)


def _decode(text: bytes, dialect: Dialect) -> Document:
    try:
        return Document(dialect.decode(text))
    except UNDECODABLE:
        text, flaws = mend(text)
    if json_text.depth(text) > MAX_DEPTH:
        text, left_out = _without_depth(text)
        flaws += tuple(f"nested too deeply: {key}" for key in left_out)
    try:
        try:
            return Document(dialect.decode(text), flaws)
        except msgspec.ValidationError:
            record, misfits = dialect.loosen(msgspec.json.decode(text))
            return Document(record, flaws + tuple(f"unexpected type: {path}" for path in misfits))
    except msgspec.DecodeError as error:
        return Document(reason=f"malformed JSON: {str(error).removeprefix('JSON is malformed: ')}")


def _next_document(line: bytes, start: int, dialect: Dialect) -> int:
    """Return where the next whole document begins from which on the line can be read to its end."""
    work = _WORK * len(line)
    at = line.find(_START, start)
    while at >= 0 and work > 0:
        end, document = _document_at(line, at, dialect)
        rest = _skip_padding(line, end)
        ends_well = rest == len(line) or line[rest : rest + 1] == b"{"
        if document.record is not None and ends_well and dialect.stands_alone(document.record):
            return at
        work -= (end - at) or (len(line) - at)
        at = line.find(_START, at + 1)
    return len(line)


def _skip_padding(line: bytes, at: int) -> int:
    match = _PADDING.match(line, at)
    return match.end() if match else at


def _padding_flaws(padding: bytes) -> tuple[str, ...]:
    flaws = ("byte order mark",) if _BOM in padding else ()
    return (*flaws, "NUL padding") if b"\0" in padding else flaws


def _not_an_object(line: bytes, start: int) -> str:
    rest = line[start:]
    if not rest:
        return "NUL padding" if b"\0" in line else "byte order mark"
    try:
        value = msgspec.json.decode(mend(rest)[0])
    except RecursionError:
        return "not an object: a list"
    except msgspec.DecodeError:
        return "torn: not the start of an object"
    return f"not an object: {_KINDS.get(type(value), 'a number')}"


_KINDS: dict[type, str] = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}


def _without_depth(text: bytes) -> tuple[bytes, list[str | None]]:
    """Return the object without the members that are nested too deeply, and their keys."""
    kept, left_out = [], []
    for slot in json_text.slots(text, 0):
        if json_text.depth(text, slot.value_start, slot.end) > MAX_DEPTH - 1:
            left_out.append(slot.key)
        else:
            kept.append(text[slot.start : slot.end])
    return b"{" + b",".join(kept) + b"}", left_out


S = TypeVar("S", bound=msgspec.Struct)

_MISFIT: Final = object()


def record(value: dict[str, Any]) -> tuple[AnyRecord, list[str]]:
    """Return the record that an object means, and the paths of the fields that did not fit."""
    misfits: list[str] = []
    kind = value.get("type")
    known, unknown = _infos()
    info = known.get(kind, unknown) if isinstance(kind, str) else unknown
    return _struct(value, info, "", misfits), misfits


def shaped(value: dict[str, Any], struct: type[S]) -> tuple[S, list[str]]:
    """Return the struct that an object means, and the paths of the fields that did not fit."""
    misfits: list[str] = []
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return _struct(value, info, "", misfits), misfits


@cache
def _infos() -> tuple[dict[str, inspect.StructType], inspect.StructType]:
    """Describe the known types of lines by name, and the unknown one."""
    unknown, *known = inspect.multi_type_info([Unknown, *get_args(KnownRecord)])
    assert isinstance(unknown, inspect.StructType)
    return {str(info.tag): info for info in known if isinstance(info, inspect.StructType)}, unknown


def _struct(value: dict[str, Any], info: inspect.StructType, path: str, misfits: list[str]) -> Any:
    fields = {}
    for field in info.fields:
        if field.encode_name not in value or value[field.encode_name] is None:
            continue
        where = f"{path}.{field.encode_name}" if path else field.encode_name
        fitted = _fit(value[field.encode_name], field.type, where, misfits)
        if fitted is _MISFIT:
            misfits.append(where)
        else:
            fields[field.name] = fitted
    return info.cls(**fields)


def _fit(value: Any, info: inspect.Type, path: str, misfits: list[str]) -> Any:
    """Return the value as the type asks, or `_MISFIT`."""
    match info:
        case inspect.AnyType():
            return value
        case inspect.RawType():
            return msgspec.Raw(encode(value))
        case inspect.StructType() if isinstance(value, dict):
            return _struct(value, info, path, misfits)
        case inspect.UnionType():
            return _fit_union(value, info, path, misfits)
        case inspect.VarTupleType() if isinstance(value, list):
            return _fit_items(value, info, path, misfits)
        case inspect.DictType() if isinstance(value, dict):
            fitted = {key: _fit(item, info.value_type, f"{path}.{key}", misfits) for key, item in value.items()}
            misfits.extend(f"{path}.{key}" for key, item in fitted.items() if item is _MISFIT)
            return {key: item for key, item in fitted.items() if item is not _MISFIT}
        case inspect.StrType():
            return value if isinstance(value, str) else _MISFIT
        case inspect.BoolType():
            return value if isinstance(value, bool) else _MISFIT
        case inspect.IntType():
            whole = isinstance(value, float) and value.is_integer()
            return int(value) if whole or (isinstance(value, int) and not isinstance(value, bool)) else _MISFIT
        case inspect.FloatType():
            return value if isinstance(value, int | float) and not isinstance(value, bool) else _MISFIT
        case _:
            return _MISFIT


def _fit_union(value: Any, info: inspect.UnionType, path: str, misfits: list[str]) -> Any:
    structs = {str(i.tag): i for i in info.types if isinstance(i, inspect.StructType) and i.tag is not None}
    if structs and isinstance(value, dict):
        kind = value.get("type")
        if isinstance(kind, str) and kind in structs:
            return _struct(value, structs[kind], path, misfits)
        return Other(type=kind if isinstance(kind, str) else None, value=value)
    for member in info.types:
        if isinstance(member, inspect.VarTupleType) and isinstance(value, dict) and _holds_blocks(member):
            return (_fit(value, member.item_type, path, misfits),)  # one block without its list
        if isinstance(member, inspect.StructType) and member.tag is not None:
            continue
        fitted = _fit(value, member, path, misfits)
        if fitted is not _MISFIT:
            return fitted
    return _MISFIT


def _fit_items(value: list[Any], info: inspect.VarTupleType, path: str, misfits: list[str]) -> tuple[Any, ...]:
    fitted = [_fit(item, info.item_type, f"{path}[{index}]", misfits) for index, item in enumerate(value)]
    if _holds_blocks(info):  # a string between blocks is kept too
        return tuple(Other(value=value[i]) if item is _MISFIT else item for i, item in enumerate(fitted))
    misfits.extend(f"{path}[{index}]" for index, item in enumerate(fitted) if item is _MISFIT)
    return tuple(item for item in fitted if item is not _MISFIT)


def _holds_blocks(info: inspect.VarTupleType) -> bool:
    item = info.item_type
    return isinstance(item, inspect.UnionType) and any(isinstance(one, inspect.StructType) for one in item.types)
