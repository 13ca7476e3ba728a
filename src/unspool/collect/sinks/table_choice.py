"""Chooses the tables of a lake that a sink copies: by default those without text."""

from __future__ import annotations

from collections.abc import Sequence

from unspool.collect.lake.tables import lake_tables, private_tables
from unspool.errors import Refused, UsageError


def choose_tables(names: Sequence[str], *, with_text: bool) -> list[str]:
    """Return the tables that are copied, in the order of the lake; no names mean all that may be copied."""
    private = frozenset() if with_text else frozenset(private_tables())
    unknown = [name for name in names if name not in lake_tables()]
    if unknown:
        raise UsageError(f"no such table: `{unknown[0]}`", hint=f"choose from {', '.join(lake_tables())}")
    refused = [name for name in names if name in private]
    if refused:
        message = f"the table `{refused[0]}` has text that people or Claude wrote, or names of their files"
        raise Refused(message, hint="add `--with-text` if everybody who reads the database may see it")
    return [name for name in lake_tables() if (name in names if names else name not in private)]
