"""`unspool collect --status`: what was sent to each object store, as a list, JSON or Prometheus text."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from unspool.cli import output
from unspool.errors import NothingFound

_METRICS = {
    "streams": "Files sent.",
    "segments": "Segments sent.",
    "lines": "Lines sent.",
    "pending": "Parts of segments that wait.",
    "pending_bytes": "Bytes that wait.",
    "redactions": "Secrets replaced in lines sent.",
    "failed_files": "Unreadable files at the last look.",
    "failed_attempts": "Attempts in a row that the store did not answer or refused.",
}
_TIMES = {
    "confirmed": "When the store last confirmed a segment.",
    "looked": "When a collector last looked at the files; with --follow at least once an hour.",
}


def show_collector_status(folder: Path, *, as_json: bool, as_metrics: bool) -> None:
    """Print what was sent to every target, without connecting to any."""
    rows = _read_rows(folder)
    if as_metrics:
        click.echo(_metrics_text(rows), nl=False)
    elif as_json:
        items = [{**row, "confirmed": row["confirmed_at"]} for row in rows]
        output.write_document("collect-status", {"items": items}, [])
    else:
        for row in rows:
            output.print_heading(str(row["to"]))
            output.print_pairs([(name.replace("_", " "), str(value)) for name, value in row.items() if name != "to"])
    if not rows:
        raise NothingFound("nothing collected yet")


def _read_rows(folder: Path) -> list[dict[str, Any]]:
    from unspool.collect import known_targets, open_state

    rows = []
    for url, org, device in known_targets(folder):
        with open_state(folder, url, org, device) as state:
            sent, waiting, condition = state.sent().values(), state.waiting(), state.condition()
            rows.append(
                {
                    "to": url,
                    "org": org,
                    "device": device,
                    "streams": len(sent),
                    "segments": state.chain_end().sequence,
                    "lines": sum(stream.lines for stream in sent),
                    "pending": len(waiting),
                    "pending_bytes": sum(part.size for part in waiting),
                    "redactions": condition.redactions,
                    "failed_files": condition.failed,
                    "failed_attempts": condition.refused,
                    "confirmed_at": _format_time(condition.confirmed),
                    "looked_at": _format_time(condition.looked),
                }
            )
    return rows


def _metrics_text(rows: list[dict[str, Any]]) -> str:
    from unspool.collect import MetricFamily, format_metrics

    labels = [{name: row[name] for name in ("to", "org", "device")} for row in rows]
    families = [
        MetricFamily(
            f"unspool_collect_{name}", words, [(label, row[name]) for label, row in zip(labels, rows, strict=True)]
        )
        for name, words in _METRICS.items()
    ]
    times = [
        MetricFamily(f"unspool_collect_{name}_timestamp_seconds", words, _times(rows, labels, f"{name}_at"))
        for name, words in _TIMES.items()
    ]
    return format_metrics([*families, *times])


def _times(rows: list[dict[str, Any]], labels: list[dict[str, Any]], name: str) -> list[tuple[dict[str, Any], float]]:
    from unspool.collect import epoch_seconds

    seconds = [(label, epoch_seconds(row[name])) for label, row in zip(labels, rows, strict=True)]
    return [(label, time) for label, time in seconds if time is not None]


def _format_time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
