"""Times with a zone, without a library of zones: DuckDB asks for `pytz` to make one, and all of ours are UTC."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta, tzinfo
from types import ModuleType


class _Utc(tzinfo):
    """UTC, as DuckDB asks for it."""

    def utcoffset(self, _: datetime | None) -> timedelta:
        return timedelta(0)

    def dst(self, _: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, _: datetime | None) -> str:
        return "UTC"

    def localize(self, time: datetime, is_dst: bool = False) -> datetime:
        """Return a time in this zone."""
        return time.replace(tzinfo=self)

    def normalize(self, time: datetime) -> datetime:
        """Return a time as it is."""
        return time


def only_utc() -> None:
    """Let times with a zone come out in UTC. Only in a process whose engine knows no other."""
    utc, module = _Utc(), ModuleType("pytz")
    module.utc = utc  # type: ignore[attr-defined]
    module.timezone = lambda _: utc  # type: ignore[attr-defined]
    module.UnknownTimeZoneError = KeyError  # type: ignore[attr-defined]
    sys.modules["pytz"] = module
