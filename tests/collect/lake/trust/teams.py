"""A lake with an administrator, and devices that enrol there and sign."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tests.collect.lake.lakes import TestLake
from tests.collect.lake.sending import Device, Made
from unspool.collect.lake import sign_bindings
from unspool.collect.lake.lake import Lake, open_lake
from unspool.collect.lake.trust import (
    AcceptReport,
    OrgAdministrators,
    accept_registrations,
    create_administrators,
    read_administrators,
)
from unspool.collect.trust import (
    DeviceKey,
    create_administrator_key,
    make_first_key,
    make_next_key,
    make_token,
    parse_token,
    publish_key,
)


class Team:
    """An organisation with an administrator."""

    def __init__(self, lake: TestLake, folder: Path, org: str = "acme") -> None:
        self.lake, self.place, self.org = lake, lake.place, org
        self.key = create_administrator_key(folder, org)
        create_administrators(self.opened, self.key)
        sign_bindings(self.opened, self.key)

    @property
    def opened(self) -> Lake:
        """The lake, as it is now."""
        return open_lake(str(self.lake.folder), {})

    @property
    def administrators(self) -> OrgAdministrators:
        """Who administers now."""
        return read_administrators(self.opened)[self.org]

    def token(self, device: str, user: str = "ada", hours: float = 1) -> str:
        """Return a token for a device."""
        return make_token(self.key, device, user, datetime.now(UTC), hours)

    def accept(self) -> AcceptReport:
        """Accept the keys that wait."""
        return accept_registrations(self.opened, self.place, self.key, self.administrators)

    def device(self, name: str = "laptop", user: str = "ada", *, is_accepted: bool = True) -> Device:
        """Return a device with a key."""
        device = Device(self.place, name, self.org, user)
        device.is_chained, device.most_parts = True, 1
        device.key = make_first_key(parse_token(self.token(name, user)), 1)
        publish_key(self.place, self.org, name, device.key)
        if is_accepted:
            assert self.accept().refused == []
        return device

    def rotate(self, device: Device, from_segment: int) -> DeviceKey:
        """Exchange the key of a device; return the old one."""
        old = device.key
        assert old is not None
        device.key = make_next_key(self.org, device.device, old, from_segment)
        publish_key(self.place, self.org, device.device, device.key)
        return old

    def reasons(self) -> dict[str, str]:
        """Ingest, and return why objects are bad, by name."""
        return {bad.name: bad.reason for bad in self.lake.ingest().bad}

    def problems(self, *, is_full: bool = False) -> set[tuple[str, str]]:
        """Return what is wrong, and where."""
        return {(problem.what, problem.where) for problem in self.lake.verify(is_full=is_full).problems}


def put(device: Device, made: list[Made]) -> None:
    """Put segments that were made."""
    for one in made:
        device.place.overwrite(one.name, one.data)
    device.publish()
