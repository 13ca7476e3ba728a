"""`unspool lake forget`: removes sessions, projects, devices and users from an object store and a lake."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unspool.cli import options, output
from unspool.cli.main import on_step
from unspool.display import units
from unspool.errors import NothingFound, UsageError
from unspool.extras import require_extras
from unspool.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from unspool.collect.lake.lifecycle import ForgetReport
    from unspool.collect.lake.trust import OrgAdministrators
    from unspool.collect.trust import AdministratorKey


_MOST_DAYS = 36_500

PSEUDONYMS = click.option(
    "--pseudonyms", metavar="FILE", type=click.Path(path_type=Path), envvar="UNSPOOL_PSEUDONYMS",
    help="File with the key of a lake that has pseudonyms in place of users",
)  # fmt: skip


@click.command()
@click.option("--lake", "url", metavar="PATH|URL", required=True, help="Folder or URL of the lake")
@click.option("--from", "source", metavar="URL", required=True, help="Destination of the collectors")
@click.option("--user", "users", metavar="USER", multiple=True, help="All devices of this user; repeatable")
@click.option("--device", "devices", metavar="ORG/DEVICE", multiple=True, help="All of this device; repeatable")
@click.option("--session", "sessions", metavar="ID", multiple=True, help="This session, by its whole id; repeatable")
@click.option(
    "--project", "projects", metavar="PROJECT", multiple=True,
    help="This project: its name, key or folder; repeatable",
)  # fmt: skip
@click.option(
    "--keep", metavar="DAYS", type=click.IntRange(min=1, max=_MOST_DAYS),
    help="Of all devices: what they sent more than DAYS days ago",
)  # fmt: skip
@click.option(
    "--then", type=click.Choice(["refuse", "restart"]), default="refuse", show_default=True,
    help="With --user or --device: whether the collector stops, or sends everything that it still has",
)  # fmt: skip
@click.option("--full", is_flag=True, help="Read the segments of every device, not only of those found in the tables")
@PSEUDONYMS
@click.option("--yes", is_flag=True, help="Remove without asking; needed if nobody can be asked")
@options.json_option
def forget(
    *,
    url: str,
    source: str,
    users: tuple[str, ...],
    devices: tuple[str, ...],
    sessions: tuple[str, ...],
    projects: tuple[str, ...],
    keep: int | None,
    then: str,
    full: bool,
    pseudonyms: Path | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove sessions, projects, devices, users or old days from the object store and the lake, for good.

    Rewrites segments under their names, each with a tombstone that an administrator signs. Removes rows, logs and old
    files of the tables at once: a query that runs at that time may fail. Collectors do not send the same again. After
    an interruption, the same command finishes the work.

    A bucket with versions keeps the old bytes: delete old versions yourself. One with an object lock cannot forget.
    """
    require_extras("sql", "team")
    from unspool.collect.lake import open_lake, open_source
    from unspool.collect.lake.lifecycle import (
        ForgetRequest,
        Forgetting,
        make_plan,
        measure_plan,
        open_pseudonyms,
        preview_filter,
        read_forget_filter,
    )
    from unspool.collect.lake.trust import open_trust

    if keep and (users or devices or sessions or projects):
        raise UsageError("--keep cannot be used with others", hint="run the command twice")
    if not (users or devices or sessions or projects or keep):
        raise UsageError("nothing to forget", hint="add `--user`, `--device`, `--session`, `--project` or `--keep`")
    for device in devices:
        parse_device(device)
    opened, store = open_lake(url, os.environ), open_source(source, os.environ)
    trust = open_trust(opened, store)
    trusted = trust.administrator_keys
    known = read_forget_filter(store.get, trusted, trusted)
    since = (datetime.now(UTC).date() - timedelta(days=keep)).isoformat() if keep else None
    key = open_pseudonyms(opened, pseudonyms)
    names = {user: key.name_user(user) for user in users} if key else {}
    request = ForgetRequest(users, devices, sessions, projects, then, full, since, names)
    plan = make_plan(opened, store, request, known.rules)
    plan, measured = measure_plan(opened, store, plan, preview_filter(store, plan, then, trusted), trust)
    if not plan.homes:
        raise NothingFound("nothing of it is in the segments")
    # Before the question: whoever answers it must be able to do it.
    keys = _read_keys(plan.orgs, trust.administrators)
    if not yes and (as_json or not _confirm(measured)):
        _print_report(measured, is_done=False, as_json=as_json)
        return
    forgetting = Forgetting(opened, store, keys, trust, on_step=on_step(), name_user=key.name_user if key else None)
    report = forgetting.run(plan, then)
    _print_report(report._replace(is_versioned=measured.is_versioned), is_done=True, as_json=as_json)


def parse_device(text: str) -> tuple[str, str]:
    """Return the organisation and the name of a device that is written as `ORG/DEVICE`."""
    org, _, device = text.partition("/")
    if not org or not device or "/" in device:
        raise UsageError(f"not a device: `{text}`", hint="use `ORG/DEVICE`, as in `unspool lake status`")
    return org, device


def _read_keys(orgs: Iterable[str], administrators: Mapping[str, OrgAdministrators]) -> dict[str, AdministratorKey]:
    from unspool.collect.lake.trust import refuse_stranger
    from unspool.collect.trust import read_administrator_key

    keys = {org: read_administrator_key(data_folder(os.environ), org) for org in orgs}
    for key in keys.values():
        refuse_stranger(administrators, key)
    return keys


def _confirm(measured: ForgetReport) -> bool:
    """Show what would go, and ask; without a terminal, nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    click.echo(_describe(measured, is_done=False), err=True)
    click.confirm("Remove this for good?", abort=True, err=True)
    return True


def _print_report(report: ForgetReport, *, is_done: bool, as_json: bool) -> None:
    line = _describe(report, is_done=is_done)
    if not is_done:
        line += "; add `--yes` to remove it"
    output.print_result("lake-forget", {**report._asdict(), "removed": is_done}, line, as_json=as_json)
    if report.is_versioned:
        output.warn("the object store keeps old versions of objects: delete them there")


def _describe(report: ForgetReport, *, is_done: bool) -> str:
    of = f"{units.amount(report.parts, 'part')} in {units.amount(report.segments, 'segment')}"
    where = f"of {units.amount(report.devices, 'device')}"
    verb = "removed" if is_done else "would be removed"
    files = f"; {units.amount(report.files, 'old file')} deleted" if is_done else ""
    return f"{units.amount(report.lines, 'line')}, {of} {where} {verb}{files}"
