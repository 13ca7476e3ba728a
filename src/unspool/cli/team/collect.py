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
    root: Path
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
@click.option("--to", metavar="URL", envvar="UNSPOOL_COLLECT_TO", help="Where to: file:///…, s3://…, gs://…, az://….")
@click.option("--once", is_flag=True, help="Send what is new, and end. The default.")
@click.option("--follow", is_flag=True, help="Go on sending what is new.")
@click.option("--status", is_flag=True, help="Say what was sent and what waits; send nothing.")
@click.option("--dry-run", is_flag=True, help="Say what would be sent; send nothing.")
@click.option("--org", metavar="NAME", envvar="UNSPOOL_ORG", help="Whose sessions these are, on first use.")
@click.option("--user", metavar="NAME", envvar="UNSPOOL_USER", help="Who works here, on first use.")
@click.option("--since", metavar="TIME", help="Only files that changed since: `7d`, `12h`, a date.")
@click.option("--include", metavar="PROJECT", multiple=True, help="Only this project: its name, key or folder.")
@click.option("--exclude", metavar="PROJECT", multiple=True, help="All but this project.")
@click.option("--with", "extras", metavar="KINDS", help=f"Also: {', '.join(OPTIONAL)}; with commas between.")
@click.option("--rate", metavar="BYTES", type=click.IntRange(1), help="Send no more than so many bytes a second.")
@click.option("--segment-size", metavar="BYTES", type=click.IntRange(4096, 2**26), default=2**23, show_default=True,
              help="Bytes of lines in an object.")  # fmt: skip
@click.option("--outbox-size", metavar="BYTES", type=click.IntRange(1), default=2**26, show_default=True,
              help="Bytes that may wait to be sent.")  # fmt: skip
@click.option("--every", metavar="SECONDS", type=click.FloatRange(0.1, 3600), default=PAUSE, show_default=True,
              help="With --follow: how often to look.")  # fmt: skip
@click.option("--state", "state_file", metavar="FILE", type=click.Path(path_type=Path),
              help="Offsets of another collector: where to begin, and kept up to date.")  # fmt: skip
@click.option("--emails", is_flag=True, help="Redact addresses of e-mail too.")
@click.option("--homes", is_flag=True, help="Redact the user's name in paths of home folders too.")
@click.option("--rules", metavar="FILE", type=click.Path(path_type=Path), help="Redact by rules of your own, too.")
@click.option("--env-file", metavar="FILE", type=click.Path(path_type=Path), help="Credentials: a file of NAME=VALUE.")
@click.option("--print", "only_print", is_flag=True, help="With install: print the unit, write nothing.")
@options.output_options
def collect(
    *, action: str, to: str | None, follow: bool, status: bool, dry_run: bool, as_json: bool, **rest: Any
) -> None:
    """Send sessions to a team's object store: redacted, each line once.

    Secrets are replaced before a byte leaves (`unspool redact --check FILE` says which). What is sent lands in
    immutable objects that `unspool lake` reads. A collector that is killed anywhere, or whose store does not answer,
    goes on where it was. Credentials come from the environment (AWS_…, GOOGLE_…, AZURE_…) or from --env-file.

    enrol makes the file that says for whom this machine collects; install lets the system start the collector at every
    login, uninstall ends that. Exit codes: 5 if another collector runs or the store may overwrite objects, 6 if the
    store cannot be reached or refuses; what waits is sent the next time.
    """
    folder = data_folder(os.environ)
    if rest["once"] and follow:
        raise UsageError("`--once` and `--follow` do not go together", hint="leave one of them out")
    if action == "uninstall":
        _uninstall_service()
    elif status:
        _status(folder, as_json)
    elif action == "enrol":
        enrolment = _enrol(folder, rest)
        data = {name: getattr(enrolment, name) for name in ("org", "user", "device", "key_id")}
        output.write_json(data) if as_json else output.print_pairs(data.items(), indent=0)
    else:
        if to is None:
            raise UsageError("where to?", hint="`--to URL`, or `$UNSPOOL_COLLECT_TO`")
        if action == "install":
            _install_service(to, folder, only_print=rest["only_print"], passed=_unit_options(rest))
            return
        _load_credentials(rest["env_file"])
        _run(_parse_settings(to, folder, rest), rest, follow=follow, dry_run=dry_run, as_json=as_json)


def _parse_settings(to: str, folder: Path, rest: dict[str, Any]) -> _CollectorSettings:
    from unspool.display import parse_time_expression

    root = options.find_config_folder(rest["config_dir"])
    if not is_encodable(root):
        raise Refused(f"the name of `{root}` is not text", hint="the store cannot name it")
    extras = frozenset(word for word in (rest["extras"] or "").split(",") if word)
    if unknown := sorted(extras - OPTIONAL.keys()):
        raise UsageError(f"nothing to collect by that name: `{unknown[0]}`", hint=f"there are {', '.join(OPTIONAL)}")
    start = parse_time_expression(rest["since"], datetime.now(UTC))
    since = None if start is None else int(start.timestamp() * 1e9)
    return _CollectorSettings(
        to=to.rstrip("/"),
        root=root,
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
            _print_report(plan, report, as_json)
        elif follow:
            _follow(plan, collected, settings, as_json)
        else:
            # Also after a failure: what was confirmed before it was sent, and the report says so.
            try:
                collect_sessions(plan, report)
                _write_offsets(plan, collected, settings)
            finally:
                _warn(report)
                _print_report(plan, report, as_json)


class _CollectedFolder:
    """The config folder as the store knows it, and the files to collect from it."""

    def __init__(self, settings: _CollectorSettings, database: sqlite3.Connection) -> None:
        self._settings, self._database = settings, database
        self._preferences = preferences.read_preferences(settings.folder)
        self.candidates: list[CollectCandidate] = []
        self._reported: set[Skipped] = set()
        """Files that could not be read and were named: with `--follow` each is named once."""

    def is_fresh(self) -> bool:
        """Tell whether the store has read everything in the folder."""
        root = self._settings.root
        return is_synced(self._database, root) and compare_with_disk(self._database, root).is_fresh

    def refresh(self) -> list[CollectCandidate]:
        """Bring the store up to date; return the files to collect."""
        root, folder = self._settings.root, self._settings.folder
        changes = compare_with_disk(self._database, root)
        if not changes.is_fresh or not is_synced(self._database, root):
            report = store_access.sync_store(self._database, root, folder, self._preferences, changes)
            for skipped in sorted(set(report.failed) - self._reported):
                output.warn_left_out(skipped.path, skipped.reason)
            self._reported.update(report.failed)
        self.candidates = find_candidates(self._database, root, self._settings.choice)
        return self.candidates


@contextmanager
def _open_plan(settings: _CollectorSettings, enrolment: Enrolment) -> Iterator[tuple[CollectionPlan, _CollectedFolder]]:
    """Open the object store, the store, the archive and the state of a collector."""
    from unspool.cli.redact import redaction_options
    from unspool.collect import CollectionPlan, SegmentTools, limit_rate, open_object_store, open_state, read_offsets
    from unspool.redact import Redactor
    from unspool.store.archive import Archive

    object_store = open_object_store(settings.to, os.environ)
    redactor = Redactor(enrolment.secret, redaction_options(settings.folder, **settings.redaction))
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
                refuses=lambda path: is_refused(path, settings.choice),
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
            _print_report(plan, report, as_json, brief=True)


def _write_offsets(plan: CollectionPlan, collected: _CollectedFolder, settings: _CollectorSettings) -> None:
    """Keep the offsets of another collector up to date."""
    if settings.state_file is not None:
        from unspool.collect import write_offsets

        write_offsets(settings.state_file, Path.home(), collected.candidates, plan.state.ends())
        plan.on_step("told")


def _print_report(plan: CollectionPlan, report: CollectionReport, as_json: bool, *, brief: bool = False) -> None:
    waiting = plan.state.waiting()
    data = {
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
        if brief:
            click.echo(output.json_text(data).replace("\n", ""))
        else:
            output.write_json(data)
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
        output.warn(f"this machine's clock is {skew}: segments say so too; lines keep the times they have")


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
                    "confirmed": None if last is None else _format_time(last / 1000),
                }
            )
    if as_json:
        output.write_json(rows)
        return
    for row in rows:
        output.print_heading(str(row["to"]))
        output.print_pairs([(name.replace("_", " "), str(value)) for name, value in row.items() if name != "to"])
    if not rows:
        click.echo("Nothing was collected yet.", err=True)


def _enrol(folder: Path, rest: dict[str, Any]) -> Enrolment:
    from unspool.collect import enrol_device, parse_enrolment_options

    options = parse_enrolment_options(os.environ)._replace(org=rest["org"], user=rest["user"])
    return enrol_device(folder, options, os.environ)


def _unit_options(rest: dict[str, Any]) -> list[str]:
    """Return the options with which the service runs the collector."""
    arguments = []
    for name in ("include", "exclude"):
        arguments += [word for value in rest[name] for word in (f"--{name}", value)]
    for option in ("since", "extras", "rate", "state_file", "rules", "env_file", "config_dir"):
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
        click.echo("before that: unspool collect enrol --org NAME --user NAME", err=True)


def _uninstall_service() -> None:
    """Remove the unit, and print how to end a collector that runs."""
    path = unit_path(Path.home(), sys.platform, os.environ)
    if not path.exists():
        raise NothingFound(f"not installed: `{path}`")
    with raise_unwritable(f"cannot remove `{path}`"):
        path.unlink()
    click.echo(f"removed {path}")
    click.echo(f"end what runs: {service_commands(path, sys.platform)[1]}")


def _load_credentials(path: Path | None) -> None:
    """Add the variables of a file to the environment of this process; those that are set already stay."""
    if path is None:
        return
    data = read_whole(path, 1024 * 1024)
    if path.stat().st_mode & 0o077:
        raise Refused(f"others may read `{path}`, which holds credentials", hint=f"chmod 600 {path}")
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if not name or name.startswith("#"):
            continue
        if not equals or not name.replace("_", "").isalnum():
            raise Unreadable(f"not `NAME=VALUE`: line {number} of `{path}`")
        os.environ.setdefault(name, value.strip("\"'"))
