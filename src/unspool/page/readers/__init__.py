"""Reads from session files what the pages of cost, review and time are computed from (`page.analysis`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.page.readers.request_context import read_request_context

__all__ = ["read_request_context"]

__getattr__ = lazy_door(__name__, {
    "request_context": "read_request_context",
})
