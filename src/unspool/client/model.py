"""What answers a request: the API (`unspool.api.connection.Connection`), or a script in this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import Protocol

from unspool.api.count import Count
from unspool.api.events import AnyEvent, Json


class Model(Protocol):
    """Who is asked."""

    def events(self, body: Json, betas: Iterable[str] = ()) -> AsyncGenerator[AnyEvent, None]:
        """Yield what happens until the answer ends (`Ended`) or breaks off (`Broken`); `ApiFailed` if there is none."""

    async def count(self, body: Json, betas: Iterable[str] = ()) -> Count:
        """Return how many input tokens a request is; an estimate that says so, if nobody counts."""
