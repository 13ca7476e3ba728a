"""Reads and changes unspool's own settings: the file `settings.json` in the data folder.

    {"archive": true, "timezone": "Europe/Berlin", "prices": {"glm-4.7": {"input": 0.6, "output": 2.2}}}

Rules
  1. What is not set has its default, and no file means no settings. A file that is damaged is never written over.
  2. A change touches one key: the others stay, those that this version does not know too.
  3. A change is there whole or not at all: a new file of mode 0600 is written, flushed and renamed to its place.
  4. Changes are made one at a time, by a lock on the folder: of two at once, to different keys, both are kept.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from unspool.errors import NotFound, Unreadable, UsageError, cannot_read
from unspool.files import hold_lock, make_data_folder, read_whole
from unspool.format import parse_zone

if TYPE_CHECKING:
    from unspool.prices import Price

FILE_NAME = "settings.json"
PRICE_PREFIX = "prices."
"""The beginning of the key of a model's price."""

_LIMIT = 4_000_000


class Preferences(NamedTuple):
    """The settings of a user, or the defaults."""

    archive: bool = True
    timezone: str | None = None
    """The zone of reports; none is the machine's own."""
    prices: tuple[Price, ...] = ()
    background: bool = True
    indexing: bool = True
    """Whether the words of what was read are indexed."""
    statusline: str | None = None
    """The template of the status line; none is the default."""
    limits: tuple[int | None, int | None] = (None, None)
    """Of a 5-hour window: micro-dollars and tokens; none is learned."""
    unknown: tuple[str, ...] = ()
    """Keys of the file that this version does not know."""


MEANINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "archive": "keep a compressed copy of all lines after Claude Code deletes the files",
        "timezone": "time zone of days and hours: `Europe/Berlin`, `UTC`, `+05:30`, `local`",
        "background": "continue the first sync of a large folder in the background",
        "indexing": "keep a word index for fast searches",
        "statusline.template": "template of `unspool statusline`",
        "limits.five_hour_cost": "limit of a 5-hour window in dollars; learned if it is not set",
        "limits.five_hour_tokens": "limit of a 5-hour window in tokens; learned if it is not set",
        "prices.MODEL": 'dollars a million tokens: {"input": 3, "output": 15}',
    }
)
"""Every key, and what it is for."""


def read_preferences(folder: Path) -> Preferences:
    """Return the settings of a data folder."""
    values, path = load_file(folder), folder / FILE_NAME
    if not values:
        return Preferences()
    try:
        return Preferences(
            archive=_read_flag(values, "archive"),
            timezone=_read_timezone(values),
            prices=_read_prices(values),
            background=_read_flag(values, "background"),
            indexing=_read_flag(values, "indexing"),
            statusline=_read_template(values),
            limits=_read_limits(values),
            unknown=tuple(sorted(key for key in values if key not in Preferences._fields[:-1])),
        )
    except UsageError as error:
        hint = f"fix `{path}`, or remove the value with `unspool config --unset KEY`"
        raise Unreadable(f"invalid setting: {error.message}", hint=hint) from None


def price_edition(preferences: Preferences) -> str:
    """Return an id of the prices that sums are made with: the built-in list and the user's own."""
    from unspool.prices import DIGEST, VERSION

    own = "".join(f" {price!r}" for price in preferences.prices)
    if own:
        import hashlib

        own = f" {hashlib.sha256(own.encode()).hexdigest()}"
    return f"{VERSION} {DIGEST}{own}"


def load_file(folder: Path) -> dict[str, Any]:
    """Return the content of the file as it is; an empty one if there is no file."""
    path = folder / FILE_NAME
    try:
        data = read_whole(path.resolve(), _LIMIT)  # resolved: the user may have made it a link
    except NotFound:
        return {}
    except (PermissionError, Unreadable):
        # A folder that cannot be opened has no settings for anybody: readers use the files then, as they do if the
        # folder cannot be created. Settings in a folder that can be opened are the user's, and must be obeyed.
        if not os.access(folder, os.X_OK):
            return {}
        raise cannot_read(path, "permission denied") from None
    import json

    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        words = str(error).partition("\n")[0].lower()
        raise Unreadable(f"the settings are not valid JSON: {words}", hint=f"fix or delete `{path}`") from None
    if not isinstance(values, dict):
        raise Unreadable("the settings are not a JSON object", hint=f"fix or delete `{path}`")
    return values


def change_preference(folder: Path, key: str, value: str | None) -> None:
    """Set a key to a value as it is written on the command line; None removes it, so that its default holds again."""
    new = None if value is None else _parse(key, value)
    make_data_folder(folder)
    with hold_lock(folder):
        values = load_file(folder)
        if value is None and key not in values:
            check_key(key)
        parent, name = _parent_of(values, key, folder)
        if new is not None:
            parent[name] = new
        elif name in parent:
            del parent[name]
        else:
            return
        for section in _SECTIONS:
            if not values.get(section, True):
                del values[section]
        _write((folder / FILE_NAME).resolve(), values)


def check_key(key: str) -> None:
    """Raise an error for a key that does not exist."""
    if key in MEANINGS or key.removeprefix(PRICE_PREFIX) not in ("", key):
        return
    raise UsageError(f"unknown setting `{key}`", hint="list the settings with `unspool config`")


def _parse(key: str, value: str) -> object:
    check_key(key)
    if key == "timezone":
        return value if parse_zone(value) is not None else None  # `local` is the default, and is not written
    if key.startswith(PRICE_PREFIX):
        return _parse_price(key.removeprefix(PRICE_PREFIX), value)
    if key == "statusline.template":
        return _check_template(value)
    if key in _LIMITS:
        return _parse_limit(key, value)
    if value not in ("on", "off"):
        raise UsageError(f"`{key}` cannot be set to `{value}`", hint="use `on` or `off`")
    return value == "on"


def _parse_price(model: str, value: str) -> object:
    import json

    from unspool.prices import parse_own_price

    try:
        price = json.loads(value)
    except (ValueError, RecursionError):
        price = None
    if not isinstance(price, dict):
        example = '{"input": 3, "output": 15}'
        raise UsageError(f"invalid price: `{value}`", hint=f"write it as JSON, in quotes: '{example}'")
    parse_own_price(model, price)
    return price


def _read_flag(values: Mapping[str, Any], key: str) -> bool:
    value = values.get(key, True)
    if not isinstance(value, bool):
        raise UsageError(f"`{key}` is neither true nor false")
    return value


def _read_timezone(values: Mapping[str, Any]) -> str | None:
    value = values.get("timezone")
    if value is not None and not isinstance(value, str):
        raise UsageError("`timezone` is not a string")
    if value is not None:
        parse_zone(value)
    return value


def _read_prices(values: Mapping[str, Any]) -> tuple[Price, ...]:
    prices = values.get("prices", {})
    if not isinstance(prices, dict) or not all(isinstance(price, dict) for price in prices.values()):
        raise UsageError("`prices` is not an object of objects")
    if not prices:
        return ()
    from unspool.prices import parse_own_price

    return tuple(parse_own_price(model, price) for model, price in prices.items())


_LIMITS: Final = MappingProxyType({"limits.five_hour_cost": 1_000_000, "limits.five_hour_tokens": 1})
"""Each limit, and how many of its units (micro-dollars, tokens) one of the setting's is."""
_SECTIONS = ("prices", "statusline", "limits")
"""Keys whose values are objects with settings of their own: `prices.MODEL`."""


def _check_template(value: str) -> str:
    from unspool.statusline import check_template

    check_template(value)
    return value


def _parse_limit(key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0
    if not 0 < number < 10**12 or (key == "limits.five_hour_tokens" and number != int(number)):
        raise UsageError(f"not a limit: `{value}`", hint="a number of dollars or tokens above 0")
    return int(number) if number == int(number) else number


def _section(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = values.get(name, {})
    if not isinstance(section, dict):
        raise UsageError(f"`{name}` is not an object")
    return section


def _read_template(values: Mapping[str, Any]) -> str | None:
    template = _section(values, "statusline").get("template")
    if template is None:
        return None
    if not isinstance(template, str):
        raise UsageError("`statusline.template` is not text")
    return _check_template(template)


def _read_limits(values: Mapping[str, Any]) -> tuple[int | None, int | None]:
    limits = _section(values, "limits")
    cost, tokens = (
        round(_parse_limit(key, str(limits[name])) * unit) if (name := key.partition(".")[2]) in limits else None
        for key, unit in _LIMITS.items()
    )
    return cost, tokens


def read_value(values: Mapping[str, Any], key: str) -> object:
    """Return the value that a key has in the content of the file; None if it is not set."""
    section, _, name = key.partition(".")
    inner = values.get(section) if section in _SECTIONS else None
    return inner.get(name) if isinstance(inner, dict) else values.get(key)


def _parent_of(values: dict[str, Any], key: str, folder: Path) -> tuple[dict[str, Any], str]:
    """Return the object that has a key, and the name it has there."""
    name, _, inner = key.partition(".")
    if name not in _SECTIONS or not inner or key in values:
        return values, key
    section = values.setdefault(name, {})
    if not isinstance(section, dict):
        raise Unreadable(f"invalid setting: `{name}` is not an object", hint=f"fix `{folder / FILE_NAME}`")
    return section, inner


def _write(path: Path, values: Mapping[str, Any]) -> None:
    import json

    from unspool.files import write_atomically  # start-up: most commands only read the settings

    for left in path.parent.glob(f".{path.name}.*.tmp"):  # by processes that were killed: this one has the lock
        left.unlink(missing_ok=True)
    write_atomically(path, json.dumps(values, indent=2).encode() + b"\n")
