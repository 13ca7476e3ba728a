"""`unspool collect`: sends sessions to a team's object store, redacted, each line once."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from unspool.cli import options, output, store_access
from unspool.cli.main import on_step
from unspool.collect import (
    OPTIONAL,
    CollectCandidate,
    SelectionRules,
    find_candidates,
    is_refused,
    service_commands,
    unit_path,
    unit_text,
)
from unspool.display import units
from unspool.errors import NothingFound, ObjectStoreFailed, Refused, Unreadable, UsageError
from unspool.files import raise_unwritable, read_whole
from unspool.paths import data_folder, is_encodable
from unspool.read import Skipped
from unspool.store import open_archive, open_store, preferences, translate_errors
from unspool.store.sync import compare_with_disk, is_synced

if TYPE_CHECKING:
    import sqlite3

    from unspool.collect import CollectionPlan, CollectionReport, Enrolment

PAUSE = 5.0
"""Seconds between looks: a new line is in a segment within twice that."""
_LONGEST = 300.0
"""Seconds between attempts, at most, while the store does not answer."""
_MANIFEST = 60.0
"""Seconds between manifests, at least: one lists all streams."""
_MAX_CLOCK_SKEW = 300.0
"""Seconds that the clock may be wrong before a warning."""


_PASSED_VARIABLES = ("UNSPOOL_HOME", "CLAUDE_CONFIG_DIR")
"""Variables of this environment that the service gets too."""


class _CollectorSettings(NamedTuple):
    """What is collected, where it is sent, and within which limits."""

    to: str
    roots: list[Path]
    folder: Path
    choice: SelectionRules
    state_file: Path | None
    rate: int | None
    segment_size: int
    outbox_size: int
    every: float
    redaction: dict[str, Any]


@click.command()
@click.argument("action", type=click.Choice(["run", "enrol", "install", "uninstall"]), default="run")
@click.option(
    "--to", metavar="URL", envvar="UNSPOOL_COLLECT_TO", help="Destination: file:///…, s3://…, gs://… or az://…"
)
@click.option("--once", is_flag=True, help="Send new lines once, and exit (default)")
@click.option("--follow", is_flag=True, help="Keep running and send new lines")
@click.option("--status", is_flag=True, help="Show what was sent and what waits; send nothing")
@click.option("--dry-run", is_flag=True, help="Show what would be sent; send nothing")
@click.option("--org", metavar="NAME", envvar="UNSPOOL_ORG", help="Organization, on first use")
@click.option("--user", metavar="NAME", envvar="UNSPOOL_USER", help="User name, on first use")
@click.option(
    "--since", metavar="TIME", help="Only files that changed since TIME: a date, an age like `12h`, or `yesterday`"
)
@click.option(
    "--include", metavar="PROJECT", multiple=True, help="Only this project: its name, key or folder; repeatable"
)
@click.option("--exclude", metavar="PROJECT", multiple=True, help="Exclude this project; repeatable")
@click.option("--with", "extras", metavar="KINDS", help=f"Also send these, separated by commas: {', '.join(OPTIONAL)}")
@click.option("--rate", metavar="BYTES", type=click.IntRange(1), help="Maximum bytes per second")
@click.option("--segment-size", metavar="BYTES", type=click.IntRange(4096, 2**26), default=2**23, show_default=True,
              help="Maximum bytes of lines per object")  # fmt: skip
@click.option("--outbox-size", metavar="BYTES", type=click.IntRange(1), default=2**26, show_default=True,
              help="Maximum bytes waiting to be sent")  # fmt: skip
@click.option("--every", metavar="SECONDS", type=click.FloatRange(0.1, 3600), default=PAUSE, show_default=True,
              help="With --follow: how often to check for changes")  # fmt: skip
@click.option("--state", "state_file", metavar="FILE", type=click.Path(path_type=Path),
              help="Offsets file of another collector: start there and update it")  # fmt: skip
@click.option("--emails", is_flag=True, help="Also redact e-mail addresses")
@click.option("--homes", is_flag=True, help="Also redact the user name in home folder paths")
@click.option("--rules", metavar="FILE", type=click.Path(path_type=Path), help="File with additional redaction rules")
@click.option(
    "--env-file", metavar="FILE", type=click.Path(path_type=Path), help="File with credentials as NAME=VALUE lines"
)
@click.option("--print", "only_print", is_flag=True, help="With install: print the service unit, write nothing")
@options.output_options
def collect(
    *, action: str, to: str | None, follow: bool, status: bool, dry_run: bool, as_json: bool, **rest: Any
) -> None:
    """Send redacted sessions to a team's object store.

    unspool replaces secrets before it sends anything (`unspool redact --check FILE` lists them), and writes immutable
    objects that `unspool lake` reads. After a crash or an unreachable store, the next run continues where the last one
    stopped. Credentials come from the environment (AWS_…, GOOGLE_…, AZURE_…) or from --env-file.

    `enrol` sets the organization and user of this machine. `install` starts the collector at every login, `uninstall`
    stops that. Exit codes: 5 if another collector runs or the store may overwrite objects, 6 if the store is
    unreachable or rejects the request; the next run sends what waits.
    """
    folder = data_folder(os.environ)
    if rest["once"] and follow:
        raise UsageError("--once and --follow cannot be used together", hint="remove one of them")
    if action == "uninstall":
        _uninstall_service()
    elif status:
        _status(folder, as_json)
    elif action == "enrol":
        enrolment = _enrol(folder, rest)
        data = {name: getattr(enrolment, name) for name in ("org", "user", "device", "key_id")}
        if as_json:
            output.write_document("collect-enrol", data)
        else:
            output.print_pairs(data.items(), indent=0)
    else:
        if to is None:
            raise UsageError("missing destination", hint="add `--to URL`, or set `$UNSPOOL_COLLECT_TO`")
        if action == "install":
            _install_service(to, folder, only_print=rest["only_print"], passed=_unit_options(rest))
            return
        _load_credentials(rest["env_file"])
        _run(_parse_settings(to, folder, rest), rest, follow=follow, dry_run=dry_run, as_json=as_json)


def _parse_settings(to: str, folder: Path, rest: dict[str, Any]) -> _CollectorSettings:
    from unspool.display import parse_time_expression

    roots = options.find_config_folders(rest["config_dirs"])
    for root in roots:
        if not is_encodable(root):
            raise Refused(f"the name of `{root}` is not valid UTF-8", hint="rename the folder")
    extras = frozenset(word for word in (rest["extras"] or "").split(",") if word)
    if unknown := sorted(extras - OPTIONAL.keys()):
        raise UsageError(f"unknown kind `{unknown[0]}`", hint=f"use one of: {', '.join(OPTIONAL)}")
    start = parse_time_expression(rest["since"], datetime.now(UTC))
    since = None if start is None else int(start.timestamp() * 1e9)
    return _CollectorSettings(
        to=to.rstrip("/"),
        roots=roots,
        folder=folder,
        choice=SelectionRules(rest["include"], rest["exclude"], since, extras),
        state_file=rest["state_file"],
        rate=rest["rate"],
        segment_size=rest["segment_size"],
        outbox_size=rest["outbox_size"],
        every=rest["every"],
        redaction={"rules": rest["rules"], "emails": rest["emails"], "homes": rest["homes"]},
    )


def _run(settings: _CollectorSettings, rest: dict[str, Any], *, follow: bool, dry_run: bool, as_json: bool) -> None:
    from unspool.collect import CollectionReport, collect_sessions, collector_lock, preview_segments

    enrolment = _enrol(settings.folder, rest)
    with ExitStack() as stack:
        if not dry_run:
            stack.enter_context(collector_lock(settings.folder))
        plan, collected = stack.enter_context(_open_plan(settings, enrolment))
        report = CollectionReport()
        if dry_run:
            preview_segments(plan, report)
            _print_report(plan, collected, report, as_json)
        elif follow:
            _follow(plan, collected, settings, as_json)
        else:
            # Also after a failure: what was confirmed before it was sent, and the report says so.
            try:
                collect_sessions(plan, report)
                _write_offsets(plan, collected, settings)
            finally:
                _warn(report)
                _print_report(plan, collected, report, as_json)


class _CollectedFolder:
    """The config folders as the store knows them, and the files to collect from them."""

    def __init__(self, settings: _CollectorSettings, database: sqlite3.Connection) -> None:
        self._settings, self._database = settings, database
        self._preferences = preferences.read_preferences(settings.folder)
        self.candidates: list[CollectCandidate] = []
        self.skipped: list[Skipped] = []
        """Files and folders that could not be read when the store was last brought up to date."""
        self._reported: set[Skipped] = set()
        """Those that were named: with `--follow` each is named once."""

    def is_fresh(self) -> bool:
        """Tell whether the store has read everything in the folders."""
        roots = self._settings.roots
        return is_synced(self._database, roots) and all(
            compare_with_disk(self._database, root).is_fresh for root in roots
        )

    def refresh(self) -> list[CollectCandidate]:
        """Bring the store up to date; return the files to collect."""
        roots, folder = self._settings.roots, self._settings.folder
        skipped: set[Skipped] = set()
        for root in roots:
            changes = compare_with_disk(self._database, root)
            skipped.update(changes.look.skipped)
            if not changes.is_fresh or not is_synced(self._database, root):
                report = store_access.sync_store(self._database, root, folder, self._preferences, changes)
                skipped.update(report.failed)
        self.skipped = sorted(skipped)
        output.warn_skipped(sorted(skipped - self._reported))
        self._reported |= skipped
        self.candidates = find_candidates(self._database, roots, self._settings.choice)
        return self.candidates


@contextmanager
def _open_plan(settings: _CollectorSettings, enrolment: Enrolment) -> Iterator[tuple[CollectionPlan, _CollectedFolder]]:
    """Open the object store, the store, the archive and the state of a collector."""
    from unspool.collect import CollectionPlan, SegmentTools, limit_rate, open_object_store, open_state, read_offsets
    from unspool.export import read_redaction_options
    from unspool.redact import Redactor
    from unspool.store.archive import Archive

    object_store = open_object_store(settings.to, os.environ)
    redactor = Redactor(enrolment.secret, read_redaction_options(settings.folder, **settings.redaction))
    with ExitStack() as stack:
        stack.enter_context(translate_errors(settings.folder))
        database = open_store(settings.folder)
        stack.callback(database.close)
        archive = open_archive(settings.folder)
        stack.callback(archive.close)
        state = stack.enter_context(open_state(settings.folder, settings.to, enrolment.org, enrolment.device))
        offsets = read_offsets(settings.state_file, Path.home()) if settings.state_file else {}
        collected = _CollectedFolder(settings, database)
        tools = SegmentTools(
            enrolment, redactor, Archive(archive), lambda: _format_time(time.time()), settings.segment_size, offsets
        )
        yield (
            CollectionPlan(
                state=state,
                object_store=object_store,
                tools=tools,
                refresh=collected.refresh,
                milliseconds=lambda: int(time.time() * 1000),
                on_step=on_step(),
                pace=limit_rate(settings.rate),
                outbox=settings.outbox_size,
                refuses=lambda path: is_refused(database, path, settings.choice),
            ),
            collected,
        )


def _follow(plan: CollectionPlan, collected: _CollectedFolder, settings: _CollectorSettings, as_json: bool) -> None:
    """Send what is new, again and again, until the process is ended."""
    from unspool.collect import CollectionReport, collect_sessions, publish_progress

    pause, last_failure, is_probed, published = 0.0, "", False, 0.0
    while True:
        time.sleep(pause)
        report = CollectionReport()
        report.is_probed = is_probed
        try:
            if last_failure or not is_probed or not collected.is_fresh():
                collect_sessions(plan, report, publishes=False)
                _write_offsets(plan, collected, settings)
            if plan.state.is_unpublished and time.monotonic() - published >= _MANIFEST:
                publish_progress(plan)
                published = time.monotonic()
            is_probed, last_failure, pause = True, "", settings.every
        except ObjectStoreFailed as failure:
            if failure.is_final:
                raise
            # A store that stays away is reported once, not at every attempt.
            if failure.message.partition(";")[0] != last_failure:
                last_failure = failure.message.partition(";")[0]
                output.warn(failure.message)
            pause = min(max(settings.every, pause * 2), max(settings.every, _LONGEST))
        _warn(report)
        if report.segments:
            _print_report(plan, collected, report, as_json, brief=True)


def _write_offsets(plan: CollectionPlan, collected: _CollectedFolder, settings: _CollectorSettings) -> None:
    """Keep the offsets of another collector up to date."""
    if settings.state_file is not None:
        from unspool.collect import write_offsets

        write_offsets(settings.state_file, Path.home(), collected.candidates, plan.state.ends())
        plan.on_step("told")


def _print_report(
    plan: CollectionPlan, collected: _CollectedFolder, report: CollectionReport, as_json: bool, *, brief: bool = False
) -> None:
    waiting = plan.state.waiting()
    counts = {
        "segments": report.segments,
        "bytes": report.bytes,
        "lines": report.lines,
        "redactions": report.redactions,
        "pending": len(waiting),
        "pending_bytes": sum(segment.size for segment in waiting),
        "source_bytes": report.source_bytes,
        "redacted": dict(report.counts.most_common()),
        "failed": [{"path": path, "reason": reason} for path, reason in report.failed],
    }
    if as_json:
        data = output.make_document("collect", counts, collected.skipped)
        click.echo(output.json_line(data) if brief else output.json_text(data))
        return
    sent = f"{units.amount(report.segments, 'segment')}, {units.amount(report.lines, 'line')}"
    redacted = ", ".join(f"{kind} {number:,}" for kind, number in report.counts.most_common())
    click.echo(f"{sent}, {units.size(report.bytes)}; redacted: {redacted or 'nothing'}; waiting: {len(waiting):,}")
    sys.stdout.flush()


def _warn(report: CollectionReport) -> None:
    for path, reason in report.failed:
        output.warn_left_out(path, reason)
    if abs(report.ahead) > _MAX_CLOCK_SKEW:
        skew = f"{abs(report.ahead) / 3600:,.1f} hours {'ahead of' if report.ahead > 0 else 'behind'} the store's"
        output.warn(f"this machine's clock is {skew}; segments record the offset, lines keep their times")


def _status(folder: Path, as_json: bool) -> None:
    """Print what was sent to every target, without connecting to any."""
    from unspool.collect import known_targets, open_state

    rows = []
    for url, org, device in known_targets(folder):
        with open_state(folder, url, org, device) as state:
            sent, waiting, last = state.sent().values(), state.waiting(), state.last_confirmed
            rows.append(
                {
                    "to": url,
                    "org": org,
                    "device": device,
                    "streams": len(sent),
                    "segments": sum(stream.sequence for stream in sent),
                    "lines": sum(stream.lines for stream in sent),
                    "pending": len(waiting),
                    "pending_bytes": sum(segment.size for segment in waiting),
                    "confirmed_at": None if last is None else _format_time(last / 1000),
                }
            )
    if as_json:
        items = [{**row, "confirmed": row["confirmed_at"]} for row in rows]
        output.write_document("collect-status", {"items": items}, [])
    else:
        for row in rows:
            output.print_heading(str(row["to"]))
            output.print_pairs([(name.replace("_", " "), str(value)) for name, value in row.items() if name != "to"])
    if not rows:
        raise NothingFound("nothing collected yet")


def _enrol(folder: Path, rest: dict[str, Any]) -> Enrolment:
    from unspool.collect import enrol_device, parse_enrolment_options

    options = parse_enrolment_options(os.environ)._replace(org=rest["org"], user=rest["user"])
    return enrol_device(folder, options, os.environ)


def _unit_options(rest: dict[str, Any]) -> list[str]:
    """Return the options with which the service runs the collector."""
    arguments = []
    for name in ("include", "exclude"):
        arguments += [word for value in rest[name] for word in (f"--{name}", value)]
    arguments += [word for value in rest["config_dirs"] if value is not None for word in ("--config-dir", value)]
    for option in ("since", "extras", "rate", "state_file", "rules", "env_file"):
        if rest[option] is not None:
            # Absolute: the system starts the collector in another folder.
            value = rest[option].absolute() if isinstance(rest[option], Path) else rest[option]
            arguments += [
                {"extras": "--with", "state_file": "--state"}.get(option, f"--{option.replace('_', '-')}"),
                f"{value}",
            ]
    return arguments + [f"--{name}" for name in ("emails", "homes") if rest[name]]


def _format_time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}Z"


def _install_service(to: str, folder: Path, *, only_print: bool, passed: Sequence[str]) -> None:
    """Write the systemd unit or launchd file of the collector, and print how to start it."""
    path = unit_path(Path.home(), sys.platform, os.environ)
    command = [sys.executable, "-m", "unspool", "collect", "--to", to, "--follow", *passed]
    environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    text = unit_text(command, environment, sys.platform)
    if only_print:
        click.echo(text.decode(), nl=False)
        return
    with raise_unwritable(f"cannot write `{path}`"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    click.echo(f"wrote {path}")
    click.echo(f"start it: {service_commands(path, sys.platform)[0]}")
    if not (folder / "enrolment.json").exists():
        click.echo("first run: unspool collect enrol --org NAME --user NAME", err=True)


def _uninstall_service() -> None:
    """Remove the unit, and print how to end a collector that runs."""
    path = unit_path(Path.home(), sys.platform, os.environ)
    if not path.exists():
        raise NothingFound(f"not installed: `{path}`")
    with raise_unwritable(f"cannot remove `{path}`"):
        path.unlink()
    click.echo(f"removed {path}")
    click.echo(f"stop the running collector with: {service_commands(path, sys.platform)[1]}")


def _load_credentials(path: Path | None) -> None:
    """Add the variables of a file to the environment of this process; those that are set already stay."""
    if path is None:
        return
    data = read_whole(path, 1024 * 1024)
    if path.stat().st_mode & 0o077:
        raise Refused(f"other users can read `{path}`, which contains credentials", hint=f"run `chmod 600 {path}`")
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if not name or name.startswith("#"):
            continue
        if not equals or not name.replace("_", "").isalnum():
            raise Unreadable(f"line {number} of `{path}` is not NAME=VALUE")
        os.environ.setdefault(name, value.strip("\"'"))
