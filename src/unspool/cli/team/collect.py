"""`unspool collect`: sends sessions to a team's object store, redacted, each line once."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from unspool import __version__
from unspool.cli import options, output, store_access
from unspool.cli.main import on_step
from unspool.cli.team.collector_status import show_collector_status
from unspool.cli.team.credentials import CredentialsFile, load_credentials
from unspool.cli.team.device_keys import enrol_device_with_token, find_token, rotate_key
from unspool.cli.team.service_install import install_service, list_service_options, uninstall_service
from unspool.collect import (
    COLLECTOR,
    OPTIONAL,
    CollectCandidate,
    DeviceHeartbeat,
    FlushSchedule,
    SelectionRules,
    describe_system,
    find_candidates,
    is_refused,
    open_object_store,
    send_heartbeat,
    unit_path,
)
from unspool.display import units
from unspool.errors import NotFound, NothingFound, ObjectStoreFailed, Refused, UsageError
from unspool.paths import data_folder, is_encodable
from unspool.read import Skipped
from unspool.store import open_archive, open_store, preferences, translate_errors
from unspool.store.sync import compare_with_disk, is_synced

if TYPE_CHECKING:
    import sqlite3

    from unspool.collect import CollectionPlan, CollectionReport, Enrolment

PAUSE = 5.0
"""Seconds between looks at the files."""
_LONGEST = 300.0
"""Seconds between attempts, at most, while the store does not answer."""
_REST, _REST_CHECK = 24 * 3600 * 10**9, 3600.0
"""Nanoseconds after which a file that nobody changed rests; seconds between looks for such files."""
_HEARTBEAT, _NEWS = 900.0, 60.0
"""Seconds between heartbeats, and at least between those that tell that something was sent."""
_COMPARISON = 24 * 3600.0
"""Seconds between comparisons of every byte, with --deep."""
_MAX_CLOCK_SKEW = 300.0
"""Seconds that the clock may be wrong before a warning."""


_VERSION = re.compile(r"[0-9][0-9A-Za-z.+-]{0,30}")
_NOT_FOR_SERVICE = frozenset(
    {
        "to",
        "once",
        "follow",
        "status",
        "dry_run",
        "only_print",
        "as_json",
        "prometheus",
        "yes",
        "token_file",
        "administrators",
    }
)
"""Options that are for one run, or that the service has anyway."""


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
    deep: bool
    schedule: FlushSchedule


@click.command()
@click.argument(
    "action", type=click.Choice(["run", "enrol", "rotate-key", "leave", "install", "uninstall"]), default="run"
)
@click.option(
    "--to", metavar="URL", envvar="UNSPOOL_COLLECT_TO", help="Destination: file:///…, s3://…, gs://… or az://…"
)
@click.option("--once", is_flag=True, help="Send new lines once, and exit (default)")
@click.option("--follow", is_flag=True, help="Keep running and send new lines")
@click.option("--status", is_flag=True, help="Show what was sent and what waits; send nothing")
@click.option("--prometheus", is_flag=True, help="With --status: print metrics in Prometheus' text format")
@click.option("--yes", is_flag=True, help="With leave: drop what waits to be sent")
@click.option("--dry-run", is_flag=True, help="Show what would be sent; send nothing")
@click.option(
    "--deep", is_flag=True,
    help="Also find files that were rewritten in the middle, by comparing every byte; with --follow once a day",
)  # fmt: skip
@click.option("--org", metavar="NAME", envvar="UNSPOOL_ORG", help="Organization, on first use")
@click.option("--user", metavar="NAME", envvar="UNSPOOL_USER", help="User name, on first use")
@click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With enrol: file with a token of an administrator; or $UNSPOOL_TOKEN",
)
@click.option(
    "--administrator", "administrators", metavar="KEY", multiple=True,
    help="With enrol: public key of an administrator, who may remove sessions; a token has one already; repeatable",
)  # fmt: skip
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
@click.option("--every", metavar="SECONDS", type=options.FiniteRange(0.1, 3600), default=PAUSE, show_default=True,
              help="With --follow: how often to check for changes")  # fmt: skip
@click.option("--flush-age", metavar="SECONDS", type=options.FiniteRange(0, 3600), default=60.0, show_default=True,
              help="With --follow: send new lines after this time at the latest")  # fmt: skip
@click.option("--flush-size", metavar="BYTES", type=click.IntRange(1), default=2**18, show_default=True,
              help="With --follow: send new lines earlier if there are this many bytes")  # fmt: skip
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

    `enrol` sets the organization and user of this machine; with a token of an administrator, the machine gets a key
    that signs what it sends, and `rotate-key` exchanges that. `leave` ends the enrolment; what was sent stays.
    `install` starts the collector at every login, `uninstall` stops that.

    Exit codes: 5 if another collector runs, an administrator has revoked the device, or the store may overwrite
    objects; 6 if the store is unreachable or rejects the request. The next run sends what waits.
    """
    folder = data_folder(os.environ)
    if rest["token_file"] is not None and action != "enrol":
        raise UsageError("--token-file is for `collect enrol`", hint="remove it, or run `unspool collect enrol`")
    if rest["once"] and follow:
        raise UsageError("--once and --follow cannot be used together", hint="remove one of them")
    if action == "uninstall":
        uninstall_service(COLLECTOR)
    elif status:
        show_collector_status(folder, as_json=as_json, as_metrics=rest["prometheus"])
    elif action == "leave":
        _leave(folder, is_forced=rest["yes"], as_json=as_json)
    elif action == "rotate-key":
        load_credentials(rest["env_file"])
        rotate_key(folder, to, as_json=as_json)
    elif action == "enrol":
        _enrol_now(folder, to, rest, as_json=as_json)
    else:
        if to is None:
            raise UsageError("missing destination", hint="add `--to URL`, or set `$UNSPOOL_COLLECT_TO`")
        if action == "install":
            passed = list_service_options(rest, _NOT_FOR_SERVICE)
            install_service(COLLECTOR, ["collect", "--to", to, "--follow", *passed], only_print=rest["only_print"])
            if not rest["only_print"] and not (folder / "enrolment.json").exists():
                click.echo("first run: unspool collect enrol --org NAME --user NAME", err=True)
            return
        credentials = CredentialsFile(rest["env_file"])
        credentials.load()
        settings = _parse_settings(to, folder, rest, follow=follow)
        _run(settings, rest, credentials, follow=follow, dry_run=dry_run, as_json=as_json)


def _enrol_now(folder: Path, to: str | None, rest: dict[str, Any], *, as_json: bool) -> None:
    """Enrol this machine, and show as what."""
    if any(rest["config_dirs"]):
        # Whoever names a folder that is not there is in the wrong place: an enrolment cannot be taken back silently.
        options.find_config_folders(rest["config_dirs"])
    load_credentials(rest["env_file"])
    token = find_token(rest["token_file"], os.environ)
    enrolment = enrol_device_with_token(folder, token, to, rest) if token else _enrol(folder, rest)
    if rest["administrators"]:
        from unspool.collect.trust import add_trusted_keys

        add_trusted_keys(folder, enrolment.org, rest["administrators"])
    data = {name: getattr(enrolment, name) for name in ("org", "user", "device", "key_id")}
    if as_json:
        output.write_document("collect-enrol", data)
    else:
        output.print_pairs(data.items(), indent=0)


def _parse_settings(to: str, folder: Path, rest: dict[str, Any], *, follow: bool) -> _CollectorSettings:
    from unspool.display import parse_time_expression

    roots = options.find_config_folders(rest["config_dirs"])
    for root in roots:
        options.refuse_other_agents(root)
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
        deep=rest["deep"],
        # A single run sends everything.
        schedule=FlushSchedule(rest["flush_age"], rest["flush_size"]) if follow else FlushSchedule(),
    )


def _run(
    settings: _CollectorSettings,
    rest: dict[str, Any],
    credentials: CredentialsFile,
    *,
    follow: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    from unspool.collect import CollectionReport, collector_lock, preview_segments

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
            _follow(plan, collected, settings, credentials, as_json)
        else:
            # Also after a failure: what was confirmed before it was sent, and the report says so.
            try:
                _collect_noted(plan, collected, report)
                _HeartbeatWriter(plan, collected).write_if_due(report)
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
        self._compared, self._refreshed = float("-inf"), float("-inf")
        """When every byte was last compared, and when the store was last brought up to date."""

    def is_fresh(self) -> bool:
        """Tell whether the store has read everything in the folders, and nothing that was held is due."""
        if self._is_comparison_due() or time.monotonic() - self._refreshed > _REST_CHECK:
            return False
        if self._settings.schedule.has_due():
            return False
        roots = self._settings.roots
        return is_synced(self._database, roots) and all(
            compare_with_disk(self._database, root).is_fresh for root in roots
        )

    def refresh(self) -> list[CollectCandidate]:
        """Bring the store up to date; return the files to collect."""
        roots, folder = self._settings.roots, self._settings.folder
        skipped: dict[Path, Skipped] = {}
        """By path, so that no file is named twice."""
        deep = self._is_comparison_due()
        for root in roots:
            changes = compare_with_disk(self._database, root)
            skipped |= {one.path: one for one in changes.look.skipped}
            if deep or not changes.is_fresh or not is_synced(self._database, root):
                report = store_access.sync_store(self._database, root, folder, self._preferences, changes, deep=deep)
                skipped = {one.path: one for one in report.failed} | skipped
        self._refreshed = time.monotonic()
        if deep:
            self._compared = self._refreshed
        self.skipped = sorted(skipped.values())
        output.warn_skipped([one for one in self.skipped if one not in self._reported])
        self._reported.update(self.skipped)
        self.candidates = find_candidates(self._database, roots, self._settings.choice)
        return self.candidates

    def claude_code_version(self) -> str | None:
        """Return the version of Claude Code that wrote last."""
        query = "SELECT version FROM answers WHERE version IS NOT NULL ORDER BY time DESC LIMIT 1"
        row = self._database.execute(query).fetchone()
        # A line may hold any text there, and this one is not redacted.
        return row[0] if row and _VERSION.fullmatch(row[0]) else None

    def _is_comparison_due(self) -> bool:
        return self._settings.deep and time.monotonic() - self._compared > _COMPARISON


@contextmanager
def _open_plan(settings: _CollectorSettings, enrolment: Enrolment) -> Iterator[tuple[CollectionPlan, _CollectedFolder]]:
    """Open the object store, the store, the archive and the state of a collector."""
    from unspool.collect import CollectionPlan, SegmentTools, limit_rate, open_state, read_offsets
    from unspool.collect.trust import read_trusted_keys
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
            enrolment,
            redactor,
            Archive(archive),
            lambda: _format_time(time.time()),
            settings.segment_size,
            offsets,
            lambda modified: time.time_ns() - modified > _REST,
            settings.schedule,
            # With `--follow` it may change: summer begins, or a laptop travels.
            zone=lambda: datetime.now().astimezone().isoformat(timespec="seconds")[19:],
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
                trusted=read_trusted_keys(settings.folder).get(enrolment.org, ()),
            ),
            collected,
        )


def _follow(
    plan: CollectionPlan,
    collected: _CollectedFolder,
    settings: _CollectorSettings,
    credentials: CredentialsFile,
    as_json: bool,
) -> None:
    """Send what is new, again and again, until the process is ended."""
    from unspool.collect import CollectionReport

    pause, last_failure, is_probed, heartbeats = 0.0, "", False, _HeartbeatWriter(plan, collected)
    while True:
        time.sleep(pause)
        if credentials.refresh():
            plan = plan._replace(object_store=open_object_store(settings.to, os.environ))
            heartbeats = _HeartbeatWriter(plan, collected)
        report = CollectionReport()
        report.is_probed = is_probed
        try:
            if last_failure or not is_probed or not collected.is_fresh():
                _collect_noted(plan, collected, report)
                _write_offsets(plan, collected, settings)
            heartbeats.write_if_due(report)
            is_probed, last_failure, pause = True, "", settings.every
        except ObjectStoreFailed as failure:
            # Credentials that were exchanged meanwhile are the likely reason.
            if failure.is_final and not credentials.has_changed():
                raise
            # A store that stays away is reported once, not at every attempt.
            if failure.message.partition(";")[0] != last_failure:
                last_failure = failure.message.partition(";")[0]
                output.warn(failure.message)
            pause = min(max(settings.every, pause * 2), max(settings.every, _LONGEST))
        _warn(report)
        if report.segments:
            _print_report(plan, collected, report, as_json, brief=True)


def _collect_noted(plan: CollectionPlan, collected: _CollectedFolder, report: CollectionReport) -> None:
    """Send what is new, and record for `--status` how that went."""
    from unspool.collect import collect_sessions

    try:
        collect_sessions(plan, report)
    except ObjectStoreFailed:
        _note_look(plan, collected, report, is_refused=True)
        raise
    _note_look(plan, collected, report, is_refused=False)


def _note_look(
    plan: CollectionPlan, collected: _CollectedFolder, report: CollectionReport, *, is_refused: bool
) -> None:
    plan.state.note_look(plan.milliseconds(), len(report.failed) + len(collected.skipped), is_refused=is_refused)


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
        "pending_bytes": sum(part.size for part in waiting),
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
    output.warn_skipped([Skipped(Path(path), reason) for path, reason in report.failed])
    if abs(report.ahead) > _MAX_CLOCK_SKEW:
        skew = f"{abs(report.ahead) / 3600:,.1f} hours {'ahead of' if report.ahead > 0 else 'behind'} the store's"
        output.warn(f"this machine's clock is {skew}; segments record the offset, lines keep their times")


def _leave(folder: Path, *, is_forced: bool, as_json: bool) -> None:
    """End this machine's enrolment: tell the stores, and forget the device, its key and what was sent."""
    from unspool.collect import (
        collector_lock,
        known_targets,
        open_state,
        read_enrolment,
        remove_enrolment,
    )

    try:
        enrolment = read_enrolment(folder)
    except NotFound:
        raise NothingFound("this machine is not enrolled") from None
    informed = []
    with collector_lock(folder):
        targets = [
            url for url, org, device in known_targets(folder) if (org, device) == (enrolment.org, enrolment.device)
        ]
        waiting = 0
        for url in targets:
            with open_state(folder, url, enrolment.org, enrolment.device) as state:
                waiting += len(state.waiting())
        if waiting and not is_forced:
            hint = "send them with `unspool collect --to URL`, or drop them with `unspool collect leave --yes`"
            raise Refused(f"{waiting:,} parts wait to be sent", hint=hint)
        for url in targets:
            try:
                _tell_leaving(folder, url, enrolment)
                informed.append(url)
            except Refused:
                # The heartbeat would bring the user's name back into a store from which it was removed.
                continue
            except (ObjectStoreFailed, UsageError) as failure:
                output.warn(f"`{url}` was not told: {failure.message}")
        remove_enrolment(folder)
    if unit_path(Path.home(), sys.platform, os.environ).exists():
        uninstall_service(COLLECTOR)
    data = {"org": enrolment.org, "device": enrolment.device, "told": informed, "dropped": waiting}
    line = f"left {enrolment.org}; what device {enrolment.device} has sent stays in the store"
    output.print_result("collect-leave", data, line, as_json=as_json)


def _tell_leaving(folder: Path, url: str, enrolment: Enrolment) -> None:
    """Say in a store that this device leaves; `Refused` if an administrator has removed it there."""
    from unspool.collect import add_progress, open_state
    from unspool.collect.trust import NoticeFilter, find_notice, read_trusted_keys

    store, trusted = open_object_store(url, os.environ), read_trusted_keys(folder).get(enrolment.org, ())
    NoticeFilter(find_notice(store, enrolment.org, enrolment.device, trusted)).refuse_device()
    with open_state(folder, url, enrolment.org, enrolment.device) as state:
        heartbeat = add_progress(state, _make_heartbeat(enrolment, left=True))
    send_heartbeat(store, heartbeat, enrolment.key_for(heartbeat.segments + 1))


def _make_heartbeat(enrolment: Enrolment, **numbers: Any) -> DeviceHeartbeat:
    return DeviceHeartbeat(
        org=enrolment.org,
        user=enrolment.user,
        device=enrolment.device,
        written=_format_time(time.time()),
        collector=__version__,
        system=describe_system(),
        **numbers,
    )


class _HeartbeatWriter:
    """Writes the heartbeat of this device, at most once in a while."""

    def __init__(self, plan: CollectionPlan, collected: _CollectedFolder) -> None:
        self._plan, self._collected = plan, collected
        self._sent = float("-inf")
        self._is_refused = False

    def write_if_due(self, report: CollectionReport) -> None:
        """Say that the collector runs, what it sent, and how much waits; a store that refuses that is named once."""
        from unspool.collect import publish_progress

        if time.monotonic() - self._sent < (_NEWS if self._plan.state.is_unpublished else _HEARTBEAT):
            return
        self._sent = time.monotonic()
        heartbeat = _make_heartbeat(
            self._plan.tools.enrolment,
            claude_code=self._collected.claude_code_version(),
            failed=len(report.failed) + len(self._collected.skipped),
            redactions=report.redactions,
        )
        try:
            publish_progress(self._plan, heartbeat)
        except ObjectStoreFailed as failure:
            if not self._is_refused:
                output.warn(f"the heartbeat was not written: {failure.message}")
            self._is_refused = True


def _enrol(folder: Path, rest: dict[str, Any]) -> Enrolment:
    from unspool.collect import enrol_device, parse_enrolment_options

    options = parse_enrolment_options(os.environ)._replace(org=rest["org"], user=rest["user"])
    return enrol_device(folder, options, os.environ)


def _format_time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}Z"
