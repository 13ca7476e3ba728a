"""Recovers entries from lines that the typed decoder refuses.

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

The typed decoder refuses a whole line for one field of an unexpected type, one unknown block or one unknown attachment.
`convert_record` makes a record of such a line all the same: an unknown block is an `Other`, a misfit field keeps its
default, and its path is returned.
"""

import re
import sys
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar, get_args

import msgspec
from msgspec import inspect

from unspool.format.base import DECODE_ERRORS, Unknown, encode_json
from unspool.format.blocks import Other
from unspool.format.json_edit import container_end, iter_slots, nesting_depth, repair_text
from unspool.format.records import AnyRecord, BadLine, Blank, Dialect, Entry, Item, KnownRecord

MAX_DEPTH = 500
"""Values nested deeper are left out of a record. Fixed, so that the result does not depend on the caller's stack."""

_MAX_SEARCH = 16
"""How many times its own length a torn line may be searched for a whole document; else that would be quadratic."""

_BOM = b"\xef\xbb\xbf"
_PADDING = re.compile(rb"(?:[ \t\r\n\x00]++|\xef\xbb\xbf)*+")
# As `JSON.stringify` writes an object that has members.
_DOCUMENT_START = b'{"'


class RecoveredDocument(NamedTuple):
    """The record of one JSON document, or the reason why there is none."""

    record: Any = None
    flaws: tuple[str, ...] = ()
    reason: str = ""


def recover_items(line: bytes, offset: int, dialect: Dialect) -> list[Item]:
    """Return the items of a line that the typed decoder refused; they cover it without gap."""
    if not line.strip(b" \t\r\n"):
        return [Blank(offset, len(line))]
    items: list[Item] = []
    # Of 610,673 real lines seven were refused: six held two documents, one began with the torn end of a record.
    at = 0
    while at < len(line):
        start = _skip_padding(line, at)
        stop, document = _document_at(line, start, dialect)
        if document.record is None:
            end = _next_document(line, start + 1, dialect)
            items.append(BadLine(offset + at, end - at, document.reason))
        else:
            end = _skip_padding(line, stop)
            flaws = _padding_flaws(line[at:start] + line[stop:end]) + document.flaws
            items.append(Entry(offset + at, line[at:end], document.record, flaws))
        at = end
    return items


def _document_at(line: bytes, start: int, dialect: Dialect) -> tuple[int, RecoveredDocument]:
    """Return the end of the document that begins at `start`, and the document."""
    if line[start : start + 1] != b"{":
        return start, RecoveredDocument(reason=_not_an_object(line, start))
    end = container_end(line, start)
    if end is None:
        return start, RecoveredDocument(reason="truncated JSON object")
    return end, _decode(line[start:end], dialect)


def _decode(text: bytes, dialect: Dialect) -> RecoveredDocument:
    try:
        return RecoveredDocument(dialect.decode(text))  # one of several documents on a line may be sound
    except DECODE_ERRORS:
        text, flaws = repair_text(text)
    if nesting_depth(text) > MAX_DEPTH:
        text, left_out = _without_depth(text)
        flaws += tuple(f"nested too deeply: {key}" for key in left_out)
    try:
        try:
            return RecoveredDocument(dialect.decode(text), flaws)
        except msgspec.ValidationError:
            record, misfits = dialect.convert(msgspec.json.decode(text))
            return RecoveredDocument(record, flaws + tuple(f"unexpected type: {path}" for path in misfits))
    except msgspec.DecodeError as error:
        return RecoveredDocument(reason=f"malformed JSON: {str(error).removeprefix('JSON is malformed: ')}")


def _next_document(line: bytes, start: int, dialect: Dialect) -> int:
    """Return where the next whole document begins that is followed by another one or by the end of the line."""
    budget = _MAX_SEARCH * len(line)
    at = line.find(_DOCUMENT_START, start)
    while at >= 0 and budget > 0:
        end, document = _document_at(line, at, dialect)
        rest = _skip_padding(line, end)
        # A whole object that something else follows is a nested one that is left of a torn record.
        ends_well = rest == len(line) or line[rest : rest + 1] == b"{"
        if document.record is not None and ends_well and dialect.is_line(document.record):
            return at
        budget -= (end - at) or (len(line) - at)
        at = line.find(_DOCUMENT_START, at + 1)
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
        value = msgspec.json.decode(repair_text(rest)[0])
    except RecursionError:  # only a list: what begins as an object does not get here
        return "not an object: a list"
    except msgspec.DecodeError:
        return "truncated: not the start of a JSON object"
    return f"not an object: {_KINDS.get(type(value), 'a number')}"


_KINDS: dict[type, str] = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}


def _without_depth(text: bytes) -> tuple[bytes, list[str | None]]:
    """Return the object without the members that are nested too deeply, and the keys of those."""
    kept, left_out = [], []
    for slot in iter_slots(text, 0):
        if nesting_depth(text, slot.value_start, slot.end) > MAX_DEPTH - 1:
            left_out.append(slot.key)
        else:
            kept.append(text[slot.start : slot.end])
    return b"{" + b",".join(kept) + b"}", left_out


S = TypeVar("S", bound=msgspec.Struct)

_MISFIT: Final = object()


def convert_record(value: dict[str, Any]) -> tuple[AnyRecord, list[str]]:
    """Convert an object to a record; return it with the paths of the fields that did not fit."""
    misfits: list[str] = []
    kind = value.get("type")
    known, unknown = _record_types()
    info = known.get(kind, unknown) if isinstance(kind, str) else unknown
    return _struct(value, info, "", misfits), misfits


def convert_struct(value: dict[str, Any], struct: type[S]) -> tuple[S, list[str]]:
    """Convert an object to a struct; return it with the paths of the fields that did not fit."""
    misfits: list[str] = []
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return _struct(value, info, "", misfits), misfits


@cache
def _record_types() -> tuple[dict[str, inspect.StructType], inspect.StructType]:
    """Return msgspec's descriptions of the known record types by tag, and of `Unknown`."""
    unknown, *known = inspect.multi_type_info([Unknown, *get_args(KnownRecord)])
    assert isinstance(unknown, inspect.StructType)
    return {str(info.tag): info for info in known if isinstance(info, inspect.StructType)}, unknown


def _struct(value: dict[str, Any], info: inspect.StructType, path: str, misfits: list[str]) -> Any:
    fields = {}
    for field in info.fields:
        # A null is never a misfit: it means what an absent field means.
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
    """Return the value as the type requires it, or `_MISFIT`."""
    match info:
        case inspect.AnyType():
            return value
        case inspect.RawType():
            return msgspec.Raw(encode_json(value))
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
        # Before and apart from int: a Python bool is an int, a JSON one is not.
        case inspect.BoolType():
            return value if isinstance(value, bool) else _MISFIT
        case inspect.IntType():
            # 10.0 and 1e3 are counts too, although the strict decoder refuses them.
            is_whole = isinstance(value, float) and value.is_integer()
            return int(value) if is_whole or (isinstance(value, int) and not isinstance(value, bool)) else _MISFIT
        case inspect.FloatType():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            # Python reads 1e999 as infinity, with which nothing can be computed.
            return value if is_number and abs(value) <= sys.float_info.max else _MISFIT
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
    return isinstance(item, inspect.UnionType) and any(isinstance(member, inspect.StructType) for member in item.types)
