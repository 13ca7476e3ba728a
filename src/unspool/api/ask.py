"""The API for who waits for it: a request in, the answer out. `connection.py` without `await`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from unspool.api.assembly import Answer
from unspool.api.connection import Connection
from unspool.api.count import Count, estimated
from unspool.api.endpoint import Endpoint
from unspool.api.events import AnyEvent, Json
from unspool.api.retry import IMPATIENT, PATIENT, Patience


def answer(
    endpoint: Endpoint,
    body: Json,
    *,
    betas: Iterable[str] = (),
    notice: Callable[[AnyEvent], None] | None = None,
    patience: Patience = PATIENT,
) -> Answer:
    """Return what the API says to a request: `ApiFailed` if that is nothing, and `broken` is set if it is not all."""

    async def ask() -> Answer:
        async with Connection(endpoint, patience=patience) as api:
            return await api.answer(body, betas, notice)

    return asyncio.run(ask())


def count(
    endpoint: Endpoint | None,
    body: Json,
    *,
    betas: Iterable[str] = (),
    patience: Patience = IMPATIENT,
) -> Count:
    """Return how many input tokens a request is: exact if the API says, else an estimate that says so. Never fails."""
    if endpoint is None:
        return estimated(body, "there is no API to ask")

    async def ask() -> Count:
        async with Connection(endpoint, patience=patience) as api:
            return await api.count(body, betas)

    return asyncio.run(ask())
