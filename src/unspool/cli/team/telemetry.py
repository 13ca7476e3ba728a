"""`unspool export --otlp`: sends sessions as traces and metrics to a receiver of OpenTelemetry."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import msgspec

from unspool.cli import options, output, store_access
from unspool.display import amount, parse_time_expression
from unspool.errors import NotFound, NothingFound, UsageError
from unspool.paths import data_folder
from unspool.store import StoreAccess
from unspool.telemetry import (
    SIGNALS,
    SessionGroup,
    TelemetryExporter,
    TelemetryReport,
    TelemetrySender,
    check_messages,
    read_endpoint,
)


class TelemetryOptions(NamedTuple):
    """What is sent, and where."""

    address: str
    """Empty: the environment has it."""
    session: str | None = None
    project: str | None = None
    since: str | None = None
    content: bool = False
    again: bool = False


def send_telemetry(wanted: TelemetryOptions, access: options.AccessOptions, *, as_json: bool) -> None:
    """Send the chosen sessions, as far as the receiver does not have them, and say what was sent."""
    if wanted.session and (wanted.project or wanted.since):
        raise UsageError("SESSION cannot be used with --project or --since", hint="remove one of them")
    endpoint = read_endpoint(wanted.address, os.environ)
    check_messages()
    from unspool.export import read_redaction_options, read_share_key
    from unspool.redact import Redactor
    from unspool.telemetry.mapping import TextPolicy

    folder = data_folder(os.environ)
    redactor = Redactor(read_share_key(folder), read_redaction_options(folder, None, emails=False, homes=False))
    with store_access.open_folders(access) as opened, TelemetrySender(endpoint) as sender:
        is_chosen = _make_filter(wanted, opened)
        texts = TextPolicy(redactor, content=wanted.content)
        exporter = TelemetryExporter(endpoint, sender, texts, redactor.version, again=wanted.again)
        sizes = (source.size for source in opened.home.tree.sources)
        with output.progress_bar(sum(sizes), "sending") as advance:
            report = exporter.send(opened, is_chosen, advance)
    if as_json:
        addresses = {
            f"{signal}_url": endpoint.url(signal) if signal in endpoint.signals else None for signal in SIGNALS
        }
        document = {**addresses, **msgspec.to_builtins(report)}
        output.write_document("export-otlp", document, opened.skipped)
    if report.rejected or report.notes:
        output.warn("; ".join([f"the receiver rejected {report.rejected:,} spans and points", *report.notes]))
    if not (report.sessions or report.unchanged):
        raise NothingFound("no sessions found")
    if not as_json:
        output.print_line(_describe(report))


def _describe(report: TelemetryReport) -> str:
    if not report.sessions:
        return f"nothing new: the receiver has {amount(report.unchanged, 'session')}"
    sent = f"sent {amount(report.sessions, 'session')}: {amount(report.spans, 'span')}"
    unchanged = f"; {report.unchanged:,} unchanged" if report.unchanged else ""
    redacted = sum(report.redactions.values())
    replaced = f"; {amount(redacted, 'secret')} replaced" if redacted else ""
    return f"{sent}, {amount(report.points, 'data point')}{unchanged}{replaced}"


def _make_filter(wanted: TelemetryOptions, opened: StoreAccess) -> Callable[[SessionGroup], bool]:
    """Return the function that chooses sessions: whole ones, so that no trace is half there."""
    if wanted.session:
        session = opened.home.session(wanted.session)
        if session.source.place not in {source.place for source in opened.home.tree.sources}:
            hint = "name its config folder or project with `--config-dir`"
            raise NotFound(f"`{wanted.session}` is not in the folders that are read", hint=hint)
        return lambda group: group.id == session.id
    if not (wanted.project or wanted.since):
        return lambda _: True
    from unspool.cli.query.ls import SessionChooser, SessionFilter, read_session_rows

    after = parse_time_expression(wanted.since, datetime.now().astimezone())
    session_filter = SessionFilter(wanted.project, after, None, None, None, ())
    rows = read_session_rows(opened, SessionChooser(session_filter, None, show_all=True), session_filter)
    ids = {row["id"] for row in rows}
    return lambda group: group.id in ids
