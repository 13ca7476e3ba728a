"""A person's settings: the file `settings.json` in the data folder, in and out.

    {"archive": true, "timezone": "Europe/Berlin", "prices": {"glm-4.7": {"input": 0.6, "output": 2.2}}}

Rules
  1. What is not set has its default, and no file means no settings. A file that is damaged is never written over.
  2. A change touches one key: the others stay, those that this version does not know too.
  3. A change is there whole or not at all: a new file of mode 0600 is written, flushed and renamed to its place.
  4. Changes are made one at a time, by a lock on the folder: of two at once, to different keys, both are kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from unspool.errors import NotFound, Unreadable, Usage
from unspool.files.open import read_whole

if TYPE_CHECKING:
    from unspool.prices.price_list import Price

NAME = "settings.json"
PRICES = "prices."
"""What the key of a model's price begins with."""

_LIMIT = 4_000_000


class Settings(NamedTuple):
    """What a person has set, or the defaults."""

    archive: bool = True
    timezone: str | None = None
    """The zone of reports; none is the machine's own."""
    prices: tuple[Price, ...] = ()
    background: bool = True
    indexing: bool = True
    """Whether the words of what was read are indexed."""
    unknown: tuple[str, ...] = ()
    """Keys of the file that this version does not know."""


MEANINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "archive": "keep raw lines, compressed, when their files are gone",
        "timezone": "whose days: `Europe/Berlin`, `UTC`, `+05:30`, `local`",
        "background": "let the first sync of a large folder go on by itself",
        "indexing": "keep an index of words, so that a search answers at once",
        "prices.MODEL": 'dollars a million tokens: {"input": 3, "output": 15}',
    }
)
"""The keys there are, and what they are for."""


def read(folder: Path) -> Settings:
    """Return the settings of a data folder."""
    values, path = load(folder), folder / NAME
    if not values:
        return Settings()
    try:
        return Settings(
            archive=_flag(values, "archive", default=True),
            timezone=_timezone(values),
            prices=_prices(values),
            background=_flag(values, "background", default=True),
            indexing=_flag(values, "indexing", default=True),
            unknown=tuple(sorted(key for key in values if key not in Settings._fields[:-1])),
        )
    except Usage as error:
        hint = f"mend `{path}`, or take the value out with `unspool config --unset KEY`"
        raise Unreadable(f"a setting is wrong: {error.message}", hint=hint) from None


def edition(chosen: Settings) -> str:
    """Return what names the prices that sums are made with."""
    from unspool.prices.price_list import DIGEST, VERSION

    own = "".join(f" {price!r}" for price in chosen.prices)
    if own:
        import hashlib

        own = f" {hashlib.sha256(own.encode()).hexdigest()}"
    return f"{VERSION} {DIGEST}{own}"


def load(folder: Path) -> dict[str, Any]:
    """Return what the file says, as it says it; nothing if there is none."""
    path = folder / NAME
    try:
        data = read_whole(path.resolve(), _LIMIT)
    except NotFound:
        return {}
    import json

    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the settings are not JSON: {_said(error)}", hint=f"mend or remove `{path}`") from None
    if not isinstance(values, dict):
        raise Unreadable("the settings are not a JSON object", hint=f"mend or remove `{path}`")
    return values


def change(folder: Path, key: str, value: str | None) -> None:
    """Set a key to what a person wrote; None takes it out, so that its default holds again."""
    new = None if value is None else _parsed(key, value)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(folder):
        values = load(folder)
        if value is None and key not in values:
            check(key)
        place, name = _place(values, key, folder)
        if new is not None:
            place[name] = new
        elif name in place:
            del place[name]
        else:
            return
        if not values.get("prices", True):
            del values["prices"]
        _write((folder / NAME).resolve(), values)


def check(key: str) -> None:
    """Refuse a key that there is not."""
    if key in ("archive", "timezone", "background", "indexing") or key.removeprefix(PRICES) not in ("", key):
        return
    raise Usage(f"no such setting: `{key}`", hint=f"there are {', '.join(MEANINGS)}")


def _parsed(key: str, value: str) -> object:
    check(key)
    if key == "timezone":
        return value if _zone_of(value) is not None else None
    return _price(key.removeprefix(PRICES), value) if key.startswith(PRICES) else _switch(key, value)


def _switch(key: str, value: str) -> bool:
    if value not in ("on", "off"):
        raise Usage(f"`{key}` cannot be `{value}`", hint="it is `on` or `off`")
    return value == "on"


def _price(model: str, value: str) -> object:
    import json

    from unspool.prices.price_list import override

    try:
        given = json.loads(value)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        example = '{"input": 3, "output": 15}'
        raise Usage(f"not a price: `{value}`", hint=f"write it as JSON, in quotes: '{example}'")
    override(model, given)
    return given


def _flag(values: Mapping[str, Any], key: str, *, default: bool) -> bool:
    value = values.get(key, default)
    if not isinstance(value, bool):
        raise Usage(f"`{key}` is neither true nor false")
    return value


def _timezone(values: Mapping[str, Any]) -> str | None:
    value = values.get("timezone")
    if value is not None and not isinstance(value, str):
        raise Usage("`timezone` is no text")
    if value is not None:
        _zone_of(value)
    return value


def _prices(values: Mapping[str, Any]) -> tuple[Price, ...]:
    given = values.get("prices", {})
    if not isinstance(given, dict) or not all(isinstance(price, dict) for price in given.values()):
        raise Usage("`prices` is no object of objects")
    if not given:
        return ()
    from unspool.prices.price_list import override

    return tuple(override(model, price) for model, price in given.items())


def _zone_of(text: str) -> object:
    from unspool.store.usage.report import zone_of

    return zone_of(text)


def _place(values: dict[str, Any], key: str, folder: Path) -> tuple[dict[str, Any], str]:
    """Return the object that has a key, and the name it has there."""
    if not key.startswith(PRICES) or key in values:
        return values, key
    prices = values.setdefault("prices", {})
    if not isinstance(prices, dict):
        raise Unreadable("a setting is wrong: `prices` is no object", hint=f"mend `{folder / NAME}`")
    return prices, key.removeprefix(PRICES)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process changes the settings of the folder, and keep others out."""
    lock = _locking()
    if lock is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _locking() -> Callable[[int], object] | None:
    """Return how to lock a folder; nothing where the system cannot, as on Windows."""
    try:
        from fcntl import LOCK_EX, flock
    except ImportError:
        return None
    return lambda descriptor: flock(descriptor, LOCK_EX)


def _write(path: Path, values: Mapping[str, Any]) -> None:
    import json

    data = json.dumps(values, indent=2).encode() + b"\n"
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    temporary.unlink(missing_ok=True)  # left by a process of this number that was killed
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    try:
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    _flush(path.parent)


def _flush(folder: Path) -> None:
    with suppress(OSError):  # some systems cannot; the rename is done all the same
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _said(error: Exception) -> str:
    return str(error).partition("\n")[0].lower()
