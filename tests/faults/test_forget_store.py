"""`lake forget` on a real S3 server: no byte of a user is left in any object."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.collect.lake.lifecycle.erasing import administer, unpack, write_history, write_session
from tests.collect.lake.sending import Device
from unspool.collect.lake.lake import create_lake, open_lake
from unspool.collect.lake.lifecycle import (
    ForgetRequest,
    Forgetting,
    make_plan,
    measure_plan,
    preview_filter,
    read_forget_filter,
)
from unspool.collect.lake.run import IngestJob, run_once
from unspool.collect.lake.trust import open_trust
from unspool.collect.lake.verify import verify_lake
from unspool.collect.object_store import SegmentStore
from unspool.collect.trust import create_administrator_key


def find(place: SegmentStore, text: bytes) -> set[str]:
    """Return in which objects of the store a text is, compressed or not."""
    found = set()
    for listed in list(place.names("")):
        data = place.get(listed.name) or b""
        if text in data + unpack(listed.name, data) + listed.name.encode():
            found.add(listed.name)
    return found


@pytest.mark.slow
def test_no_object_on_s3_has_a_byte_of_a_forgotten_user(place: SegmentStore, tmp_path: Path) -> None:
    url = f"{place.url}/lake"
    key = create_administrator_key(tmp_path / "administrator", "acme")
    lake = create_lake(url, os.environ)
    administer(url, key)
    for number, name in enumerate(("ada", "bob")):
        write_session(tmp_path / name, f"{name}-app", number, f"planted-{name}")
        write_history(tmp_path / name, number, f"{name}-app", f"planted-{name}")
        device = Device(place, f"{name}-laptop", user=f"user-{name}")
        device.is_chained = True
        device.send(tmp_path / name)
    run_once(IngestJob(place.url, url), os.environ)
    assert find(place, b"planted-ada")
    lake, request = open_lake(url, os.environ), ForgetRequest(users=("user-ada",))
    trust = open_trust(lake, place)
    trusted = trust.administrator_keys
    plan = make_plan(lake, place, request, read_forget_filter(place.get, trusted, trusted).rules)
    plan, _ = measure_plan(lake, place, plan, preview_filter(place, plan, "refuse", trusted), trust)
    assert Forgetting(lake, place, {"acme": key}, trust).run(plan, "refuse").files > 0
    for text in (b"planted-ada", b"user-ada", b"ada-app", b"00000000-1111-4111"):
        assert find(place, text) == set()
    assert find(place, b"planted-bob")
    assert verify_lake(open_lake(url, os.environ), place, is_full=True).problems == ()
