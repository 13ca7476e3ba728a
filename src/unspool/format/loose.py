"""The slow path into typed records: what fits goes in, what does not is named and left out.

The fast decoder refuses a whole line for one field of an unexpected type, one unknown block or one unknown
attachment. Here such a line still gives a record: an unknown block is an `Other`, a misfit field keeps its
default, and the caller learns which.
"""

from functools import cache
from typing import Any, Final, TypeVar, get_args

import msgspec
from msgspec import inspect

from unspool.format.blocks import Other
from unspool.format.envelope import Unknown
from unspool.format.patch import encode
from unspool.format.records import AnyRecord, KnownRecord

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
