"""`unspool lake admin`: the administrators of a lake, and the keys of devices that they accept or revoke."""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unspool.cli import options, output
from unspool.cli.main import SuggestingGroup
from unspool.cli.team.forget import parse_device
from unspool.display import TextColumn, units
from unspool.errors import NotFound, Refused, UsageError
from unspool.extras import require_extras
from unspool.files import create_atomically, raise_unwritable
from unspool.paths import data_folder

if TYPE_CHECKING:
    from unspool.collect.lake.trust import DeviceRecord, OrgAdministrators
    from unspool.collect.trust import AdministratorKey

_LAKE = click.option("--lake", "url", metavar="PATH|URL", required=True, help="Folder or URL of the lake")
_ORG = click.option(
    "--org", metavar="NAME", required=True, envvar="UNSPOOL_ORG", help="Organization that you administer"
)
_COLUMNS = (
    TextColumn("device"),
    TextColumn("user", least=6),
    TextColumn("signs from", right=True),
    TextColumn("accepted"),
    TextColumn("revoked from", right=True),
)
_LONGEST_HOURS = 30 * 24
_LONGEST_USER = 200
"""As in an enrolment."""


@click.group(cls=SuggestingGroup)
def admin() -> None:
    """Manage who may send to a lake: administrators, tokens, and keys of devices.

    Without administrators, a lake believes what devices say of themselves. With them, devices can have keys that sign
    what they send, and you sign bindings of users. Your own key is in the data folder; see docs/team.md.
    """


@admin.command()
@_LAKE
@_ORG
@options.json_option
def init(url: str, org: str, as_json: bool) -> None:
    """Become the first administrator of an organization.

    Makes your key in the data folder, unless it is there, and writes its public key into the lake. Signs existing
    bindings of users. Run it again after an interruption.
    """
    require_extras("sql", "team")
    from unspool.collect.lake import open_lake, sign_bindings
    from unspool.collect.lake.trust import create_administrators, read_administrators

    lake, key = open_lake(url, os.environ), _own_or_new_key(org)
    found = read_administrators(lake).get(org)
    if found is None:
        found = create_administrators(lake, key)
    elif key.public_key not in found.keys:
        raise Refused(f"`{org}` has administrators already", hint="one of them adds your key: `unspool lake admin add`")
    sign_bindings(lake, key)
    _print_administrators(org, key.public_key, found, as_json=as_json)


@admin.command()
@_ORG
@options.json_option
def key(org: str, as_json: bool) -> None:
    """Print your public key, and make it if there is none: another administrator adds it to the lake."""
    require_extras("team")
    public = _own_or_new_key(org).public_key
    data = {"org": org, "key": public, "administrators": [], "requires_keys": False, "devices": []}
    output.print_result("lake-admin", data, public, as_json=as_json)


@admin.command()
@_LAKE
@_ORG
@click.option("--key", "other", metavar="KEY", required=True, help="Their public key (`lake admin key` prints it)")
@options.json_option
def add(url: str, org: str, other: str, as_json: bool) -> None:
    """Add another administrator."""
    require_extras("sql", "team")
    from unspool.collect.lake import open_lake
    from unspool.collect.lake.trust import add_administrator

    own = _own_key(org)
    _print_administrators(
        org, own.public_key, add_administrator(open_lake(url, os.environ), own, other), as_json=as_json
    )


@admin.command()
@_LAKE
@_ORG
@click.option("--key", "other", metavar="KEY", required=True, help="Their public key")
@click.option(
    "--from", "sources", metavar="URL", multiple=True,
    help="Destination of the collectors, if something was forgotten: sign that again too; repeatable",
)  # fmt: skip
@options.json_option
def remove(url: str, org: str, other: str, sources: tuple[str, ...], as_json: bool) -> None:
    """Remove an administrator. You sign again what they have signed: for devices, for users, and what was forgotten."""
    require_extras("sql", "team")
    from unspool.collect.lake import open_lake, open_source, sign_bindings
    from unspool.collect.lake.lifecycle import has_forgotten
    from unspool.collect.lake.trust import (
        read_administrators,
        refuse_stranger,
        remove_administrator,
        sign_records_again,
    )
    from unspool.collect.trust import sign_tombstones_again

    lake, own = open_lake(url, os.environ), _own_key(org)
    administrators = read_administrators(lake)
    refuse_stranger(administrators, own)
    if other == own.public_key:
        raise UsageError("you cannot remove yourself", hint="another administrator removes your key")
    if not sources and has_forgotten(lake, org):
        words = f"something of `{org}` was forgotten: without a new signature of it, nothing could be ingested any more"
        raise Refused(words, hint="add `--from URL`, the destination of the collectors")
    # Before the removal: afterwards the old signatures would count no more, and the devices would have to wait.
    for source in sources:
        sign_tombstones_again(open_source(source, os.environ), own, administrators[org].keys, other)
    signed = other.encode()
    sign_records_again(lake, own, administrators[org], lambda data: signed in data)
    sign_bindings(lake, own)
    _print_administrators(org, own.public_key, remove_administrator(lake, own, other), as_json=as_json)


@admin.command()
@_LAKE
@_ORG
@options.json_option
def show(url: str, org: str, as_json: bool) -> None:
    """List the administrators of an organization, and its devices with a key."""
    require_extras("sql", "team")
    from unspool.collect.lake import open_lake
    from unspool.collect.lake.trust import read_administrators, read_records

    lake = open_lake(url, os.environ)
    found = read_administrators(lake).get(org)
    if found is None:
        raise NotFound(f"`{org}` has no administrators in this lake", hint=f"see `unspool lake admin init --org {org}`")
    try:
        own = _own_key(org).public_key
    except NotFound:
        own = None
    records = list(read_records(lake, {org: found}).values())
    _print_administrators(org, own, found, records, as_json=as_json)


@admin.command("require-keys")
@_LAKE
@_ORG
@click.option("--off", is_flag=True, help="Accept devices without a key again")
@options.json_option
def require_keys(url: str, org: str, *, off: bool, as_json: bool) -> None:
    """Refuse new segments of devices that have no accepted key."""
    require_extras("sql", "team")
    from unspool.collect.lake import open_lake
    from unspool.collect.lake.trust import require_keys as set_requirement

    own = _own_key(org)
    found = set_requirement(open_lake(url, os.environ), own, is_required=not off)
    _print_administrators(org, own.public_key, found, as_json=as_json)


@admin.command()
@_LAKE
@_ORG
@click.option("--user", metavar="NAME", required=True, help="Whose device it is")
@click.option("--device", metavar="NAME", help="Name of the device; by default a random one. For a machine without a "
              "key: the name that it has")  # fmt: skip
@click.option("--hours", type=options.FiniteRange(min=0, max=_LONGEST_HOURS, min_open=True), default=24,
              show_default=True, help="How long the token counts")  # fmt: skip
@click.option("-o", "target", metavar="FILE", type=click.Path(path_type=Path),
              help="Write the token into a new file that only you can read")  # fmt: skip
@options.json_option
def enrol(
    url: str, org: str, *, user: str, device: str | None, hours: float, target: Path | None, as_json: bool
) -> None:
    """Make a token with which one device enrols, once.

    The device runs `unspool collect enrol --token-file FILE --to URL`; then `unspool lake admin accept` accepts its
    key. Anybody with the token can enrol in place of the device: treat it like a password.
    """
    require_extras("sql", "team")
    from unspool.collect import check_device_name
    from unspool.collect.lake import open_lake
    from unspool.collect.lake.trust import has_record, read_administrators, refuse_stranger
    from unspool.collect.trust import make_token

    device = device or secrets.token_hex(8)
    check_device_name(device)
    if not user.strip() or len(user) > _LONGEST_USER:
        raise UsageError("invalid name of a user", hint=f"use 1 to {_LONGEST_USER} characters")
    lake, own = open_lake(url, os.environ), _own_key(org)
    refuse_stranger(read_administrators(lake), own)
    if has_record(lake, org, device):
        hint = "rotate it there with `unspool collect rotate-key`, or enrol under a new name"
        raise Refused(f"device `{device}` of `{org}` has a key already, or was revoked", hint=hint)
    token = make_token(own, device, user, datetime.now(UTC), hours)
    if target is not None:
        with raise_unwritable(f"cannot write `{target}`"):
            try:
                create_atomically(target, [f"{token}\n".encode()])
            except FileExistsError:
                raise Refused(f"`{target}` exists", hint="name a new file") from None
        output.warn(f"wrote the token for device `{device}` to {target}")
    data = {"org": org, "device": device, "user": user, "hours": hours, "token": None if target else token}
    if as_json:
        output.write_document("lake-admin-token", data)
    elif target is None:
        output.warn(f"token for device `{device}`, for {hours:g} hours")
        # Not through the sanitiser: it is base64, and must not be broken.
        click.echo(token)


@admin.command()
@_LAKE
@_ORG
@click.option("--from", "source", metavar="URL", required=True, help="Destination of the collectors")
@options.json_option
@click.pass_context
def accept(ctx: click.Context, url: str, org: str, source: str, as_json: bool) -> None:
    """Accept the keys of all devices that have enrolled with a valid token. Exits with 5 if it refuses one."""
    require_extras("sql", "team")
    from unspool.collect.lake import open_lake, open_source
    from unspool.collect.lake.trust import accept_registrations, read_administrators, refuse_stranger

    lake, own = open_lake(url, os.environ), _own_key(org)
    administrators = read_administrators(lake)
    refuse_stranger(administrators, own)
    report = accept_registrations(lake, open_source(source, os.environ), own, administrators[org])
    if as_json:
        refused = [one._asdict() for one in report.refused]
        accepted = [_device_item(record) for record in report.accepted]
        output.write_document("lake-admin-accept", {"accepted": accepted, "refused": refused})
    else:
        for record in report.accepted:
            output.print_line(f"{record.home}  {record.user}")
        for one in report.refused:
            output.warn(f"refused `{one.name}`: {one.reason}")
        output.warn(f"{units.amount(len(report.accepted), 'key')} accepted")
    if report.refused:
        ctx.exit(Refused.exit_code)


@admin.command()
@click.argument("device", metavar="ORG/DEVICE")
@_LAKE
@click.option("--now", "is_now", is_flag=True, help="Refuse all that is not in the tables yet (default)")
@click.option("--from-segment", metavar="N", type=click.IntRange(min=1), help="Refuse segment N and all later ones")
@click.option("--from", "source", metavar="URL", help="Destination of the collectors: tell the device there")
@options.json_option
def revoke(device: str, url: str, *, is_now: bool, from_segment: int | None, source: str | None, as_json: bool) -> None:
    """Refuse what a device sends from now on, after a loss or a theft.

    `lake verify` names segments that come after that. With --from, the collector of the device prints one line and
    ends. The machine can enrol again as another device.
    """
    require_extras("sql", "team")
    from unspool.collect.lake import open_lake, open_source
    from unspool.collect.lake.trust import read_administrators, refuse_stranger, revoke_device

    org, name = parse_device(device)
    if is_now and from_segment is not None:
        raise UsageError("--now and --from-segment cannot be used together", hint="remove one of them")
    lake, own = open_lake(url, os.environ), _own_key(org)
    administrators = read_administrators(lake)
    refuse_stranger(administrators, own)
    store = open_source(source, os.environ) if source else None
    record = revoke_device(lake, own, administrators[org], name, from_segment, object_store=store)
    data = {"org": org, "device": name, "revoked_from": record.revoked_from, "told": store is not None}
    line = f"{device} is revoked from segment {record.revoked_from:,} on"
    output.print_result("lake-admin-revoke", data, line, as_json=as_json)


def _own_key(org: str) -> AdministratorKey:
    from unspool.collect.trust import read_administrator_key

    return read_administrator_key(data_folder(os.environ), org)


def _own_or_new_key(org: str) -> AdministratorKey:
    from unspool.collect.trust import create_administrator_key

    try:
        return _own_key(org)
    except NotFound:
        return create_administrator_key(data_folder(os.environ), org)


def _print_administrators(
    org: str,
    own: str | None,
    found: OrgAdministrators,
    records: list[DeviceRecord] | None = None,
    *,
    as_json: bool,
) -> None:
    keys = sorted(found.keys)
    if as_json:
        devices = [_device_item(record) for record in records or ()]
        data = {"org": org, "key": own, "administrators": keys, "requires_keys": found.requires_keys}
        output.write_document("lake-admin", {**data, "devices": devices})
        return
    pairs = [("org", org), *(("administrator", f"{one}{' (you)' if one == own else ''}") for one in keys)]
    output.print_pairs([*pairs, ("keys required", "yes" if found.requires_keys else "no")], indent=0)
    if records:
        output.print_line()
        output.print_table(_COLUMNS, [_device_cells(record) for record in records])


def _device_item(record: DeviceRecord) -> dict[str, Any]:
    return {
        "org": record.org,
        "device": record.device,
        "user": record.user,
        "key": record.key or None,
        "from_segment": record.from_segment,
        "accepted": record.accepted or None,
        "revoked_from": record.revoked_from,
    }


def _device_cells(record: DeviceRecord) -> list[str]:
    revoked = "" if record.revoked_from is None else f"{record.revoked_from:,}"
    signs = f"{record.from_segment:,}" if record.key else ""
    return [record.device, record.user or "", signs, record.accepted, revoked]
