"""A real S3 server that loses requests and answers, fails, and takes its time: every line is there once in the end."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest

from tests.collect.machine import expected, rows
from tests.faults.conftest import Program
from tests.faults.s3 import CREDENTIALS, Proxy
from tests.faults.tally import Tally
from tests.faults.world import World
from unspool.collect.collector import STEPS
from unspool.collect.object_store import SegmentStore

ROUNDS = max(int(os.environ.get("UNSPOOL_FAULTS", "0")) // 10, 4)
STATUSES = ("409", "412", "500", "503")
FAULTS = (
    ("answer", "412", "everything") if ROUNDS < 10 else ("request", "answer", "slow", "hang", *STATUSES, "everything")
)


@pytest.fixture
def said(proxy: Proxy) -> dict[str, str]:
    """What a process must be told of the server."""
    return {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.server_port}", "UNSPOOL_PLACE_TIMEOUT": "2"}


def test_the_store_keeps_what_was_put_and_notices_who_else_replaces(place: SegmentStore) -> None:
    assert place.probe("acme/d1", b"here\n").data == b"here\n"
    assert place.probe("acme/d1", b"again\n").data == b"here\n"
    assert place.put_new("m", b"one")
    before = place.stored("m")
    assert place.replace("m", b"two", before)
    assert not place.replace("m", b"three", before)
    assert place.get("m") == b"two"
    assert [found.name for found in place.names("probes/acme")] == ["probes/acme/d1"]


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_the_store_does_nothing_is_lost_or_doubled(
    *,
    fault: str,
    program: Program,
    proxy: Proxy,
    said: dict[str, str],
    place: SegmentStore,
    tmp_path: Path,
    tally: Tally,
) -> None:
    chance, world = random.Random(fault), World(tmp_path / "config")
    for _ in range(3):
        world.append(world.create(), 5)
    arguments = ("collect", "--to", place.url, "--config-dir", world.root, "--segment-size", "4096")
    for _ in range(ROUNDS):
        proxy.faults = ("request", "answer", "slow", *STATUSES) if fault == "everything" else (fault,)
        proxy.share = 0.1 if fault == "hang" else 0.4
        killed = {"UNSPOOL_KILL_AT": f"{chance.choice(STEPS)}:2"} if chance.random() < 0.3 else {}
        done = program.run(*arguments, **said, **killed)
        assert done.code in (0, 6, -9), done.err
        if done.code == 6:
            assert re.match(r"unspool: (unexpected response from )?the store at ", done.err)
            assert done.err.count("\n") == 2
        for path in world.paths:
            world.append(path, chance.randint(0, 3))
    proxy.share = 0.0
    done = program.run(*arguments, **said)
    assert (done.code, done.err) == (0, "")
    world.synced()
    found, wanted = rows(place), expected(world)
    tally.wrong += found != wanted
    tally.compared["lines in S3"] += sum(len(made) for source in wanted.values() for made in source)
    assert found == wanted
    assert proxy.done[fault] or fault == "everything"


def test_wrong_credentials_are_named(
    program: Program, said: dict[str, str], place: SegmentStore, tmp_path: Path
) -> None:
    world = World(tmp_path / "config")
    world.create()
    wrong = {**said, "AWS_SECRET_ACCESS_KEY": "wrong"}
    done = program.run("collect", "--to", place.url, "--config-dir", world.root, **wrong)
    assert done.code == 6
    assert "rejects the credentials" in done.err
    assert done.err.count("\n") == 2
    assert program.run("collect", "--to", place.url, "--config-dir", world.root, **said).code == 0
    world.synced()
    assert rows(place) == expected(world)


def test_a_store_that_ignores_conditions_is_refused(
    program: Program, proxy: Proxy, said: dict[str, str], place: SegmentStore, tmp_path: Path
) -> None:
    world = World(tmp_path / "config")
    world.create()
    proxy.deaf = True
    done = program.run("collect", "--to", place.url, "--config-dir", world.root, **said)
    assert done.code == 5
    assert "ignores conditional puts" in done.err
    assert done.err.count("\n") == 2
    assert list(place.names("segments")) == []


def test_a_clock_that_the_store_refuses_is_named_and_nothing_is_lost(
    program: Program, proxy: Proxy, said: dict[str, str], place: SegmentStore, tmp_path: Path
) -> None:
    world = World(tmp_path / "config")
    world.create()
    arguments = ("collect", "--to", place.url, "--config-dir", world.root)
    proxy.faults, proxy.share = ("403RequestTimeTooSkewed",), 1.0
    done = program.run(*arguments, **said)
    assert done.code == 6
    assert "rejects this machine's clock; waiting: 1 part (" in done.err
    assert done.err.count("\n") == 2
    proxy.share = 0.0
    assert program.run(*arguments, **said).code == 0
    world.synced()
    assert rows(place) == expected(world)
