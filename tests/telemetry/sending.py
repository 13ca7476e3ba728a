"""Send the sessions of a folder to a receiver, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.telemetry.receiver import Received
from unspool.redact import Redactor
from unspool.store import Preferences, StoreAccess
from unspool.store.usage import UsageFigures, UsageQuery
from unspool.store.usage.report import total_of_sums
from unspool.telemetry import (
    SendTiming,
    SessionGroup,
    TelemetryEndpoint,
    TelemetryExporter,
    TelemetryReport,
    TelemetrySender,
    read_endpoint,
)
from unspool.telemetry.mapping import TextPolicy

COMPARED = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens",
    "web_searches", "cost_micros", "unpriced_tokens", "responses",
)  # fmt: skip


def open_files(config: Path, own: Path) -> StoreAccess:
    """Open a folder without a store."""
    own.mkdir(exist_ok=True)
    return StoreAccess([config.resolve()], own, Preferences(), None)


def send(
    config: Path,
    own: Path,
    received: Received,
    *,
    content: bool = False,
    again: bool = False,
    environment: Mapping[str, str] | None = None,
    waits: list[float] | None = None,
) -> TelemetryReport:
    """Send all sessions of a folder; nothing is waited for, and `waits` has what would have been."""
    endpoint: TelemetryEndpoint = read_endpoint(received.address, environment or {})
    kept = [] if waits is None else waits
    timing = SendTiming(clock=lambda: 0.0, sleep=kept.append, chance=lambda: 0.0)
    redactor = Redactor(b"k" * 32)
    with TelemetrySender(endpoint, timing=timing) as sender:
        texts = TextPolicy(redactor, content=content)
        exporter = TelemetryExporter(endpoint, sender, texts, redactor.version, again=again)
        return exporter.send(open_files(config, own), _all)


def usage_of(config: Path, own: Path) -> UsageFigures:
    """Return what `unspool usage` says of a folder."""
    return total_of_sums(open_files(config, own).ledger.sums(UsageQuery()))


def assert_equal_to_usage(config: Path, own: Path, received: Received) -> None:
    """Compare what a receiver has with what `unspool usage` says, to the token and the micro-dollar."""
    figures = usage_of(config, own)
    said = {name: getattr(figures, name) for name in COMPARED}
    spans, metrics = received.figures(), received.metric_figures()
    assert {name: spans[name] for name in COMPARED} == said
    assert {name: metrics[name] for name in COMPARED} == said


def _all(_: SessionGroup) -> bool:
    return True
