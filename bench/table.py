"""Results as rows: ours beside a named reference, the target, and one word."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison. Less is better."""

    name: str
    unit: str
    ours: float
    reference: float
    against: str
    """What the reference is."""
    target: float | None = None
    """The most that is wanted: of the ratio, or of `ours` where the target is not a ratio."""
    of_ratio: bool = True
    details: dict[str, Any] = {}

    @property
    def ratio(self) -> float:
        """Ours by the reference."""
        return self.ours / self.reference

    @property
    def verdict(self) -> str:
        """`ok` or `over`; nothing without a target."""
        if self.target is None:
            return ""
        return "ok" if (self.ratio if self.of_ratio else self.ours) <= self.target else "over"

    def as_data(self) -> dict[str, Any]:
        """The row for `--json`."""
        return {**msgspec.to_builtins(self), "ratio": round(self.ratio, 3), "verdict": self.verdict}


HEADINGS = ("name", "ours", "reference", "ratio", "target", "", "against")


def lines(rows: Iterable[Row]) -> list[str]:
    """Return the table as lines of text."""
    cells = [HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADINGS))]
    return ["  ".join(_padded(row, widths)).rstrip() for row in cells]


def _padded(row: tuple[str, ...], widths: list[int]) -> Iterable[str]:
    for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
        yield cell.rjust(width) if 0 < column < 5 else cell.ljust(width)


def _cells(row: Row) -> tuple[str, ...]:
    target = ""
    if row.target is not None:
        target = f"≤ {row.target:g}×" if row.of_ratio else f"≤ {row.target:g} {row.unit}"
    return (
        row.name,
        f"{row.ours:.3g} {row.unit}",
        f"{row.reference:.3g} {row.unit}",
        f"{row.ratio:.2f}×",
        target,
        row.verdict,
        row.against,
    )
