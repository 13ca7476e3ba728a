"""Formats numbers as Prometheus text.

# HELP unspool_collect_pending_segments Segments that wait to be sent.
# TYPE unspool_collect_pending_segments gauge
unspool_collect_pending_segments{org="acme",device="5f1c"} 3
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple


class MetricFamily(NamedTuple):
    """A metric with its values, each by its labels."""

    name: str
    help: str
    values: Sequence[tuple[Mapping[str, str], float]]


def format_metrics(families: Iterable[MetricFamily]) -> str:
    """Return metrics in Prometheus' text format, all as gauges.

    >>> print(format_metrics([MetricFamily("up", "Whether.", [({"name": 'a"b'}, 1.0)])]), end="")
    # HELP up Whether.
    # TYPE up gauge
    up{name="a\\\\"b"} 1
    """
    lines = []
    for family in families:
        lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} gauge"]
        for labels, value in family.values:
            pairs = ",".join(f'{name}="{_escape(text)}"' for name, text in labels.items())
            lines.append(f"{family.name}{f'{{{pairs}}}' if pairs else ''} {value:.15g}")
    return "".join(f"{line}\n" for line in lines)


def epoch_seconds(time: str | None) -> float | None:
    """Return a time in ISO format as seconds since 1970; None if it is none.

    >>> epoch_seconds("2026-01-05T00:00:00Z")
    1767571200.0
    """
    try:
        return datetime.fromisoformat(time).timestamp() if time else None
    except ValueError:
        return None


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
