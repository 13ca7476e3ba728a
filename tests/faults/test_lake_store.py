"""A lake on a real S3 server that loses requests and answers, fails and takes its time: every line is there once."""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

from tests.collect.lake.sending import Device
from tests.faults.conftest import Program
from tests.faults.s3 import CREDENTIALS, Proxy
from tests.faults.tally import Tally
from tests.faults.world import World
from unspool.collect.lake.ingest import STEPS
from unspool.collect.object_store import SegmentStore

ROUNDS = max(int(os.environ.get("UNSPOOL_FAULTS", "0")) // 10, 2)
FAULTS = ("request", "answer", "slow", "500", "503")
LINES = 'SELECT source, generation, "offset", raw FROM entries'


def test_whatever_the_store_does_every_line_is_in_the_lake_once(
    program: Program, proxy: Proxy, place: SegmentStore, tmp_path: Path, tally: Tally
) -> None:
    chance, world, device = random.Random(20260110), World(tmp_path / "config"), Device(place)
    for _ in range(2):
        world.append(world.create(), 4)
    said = {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.server_port}", "UNSPOOL_PLACE_TIMEOUT": "5"}
    lake = f"{place.url}/lake"
    ingest = ("lake", "ingest", "--from", place.url, "--to", lake)
    assert program.run("lake", "init", lake, **said).code == 0
    sent: Counter[tuple[Any, ...]] = Counter()
    proxy.faults = FAULTS
    for number in range(ROUNDS):
        device.is_chained = number * 2 >= ROUNDS
        for path in world.paths:
            world.append(path, 2)
        for made in device.send(world.root, size=2000):
            for header, lines in made.parts:
                sent.update((header.source, header.generation, line.offset, line.raw) for line in lines)
        proxy.share = 0.06
        killed = {"UNSPOOL_KILL_AT": chance.choice(STEPS)} if chance.random() < 0.3 else {}
        done = program.run(*ingest, **said, **killed)
        assert done.code in (0, 6, -9), done.err
        if done.code == 6:
            assert re.match(r"unspool: (unexpected response from )?the ", done.err)
            assert done.err.count("\n") <= 2
        tally.steps["lake, on a bad store"] += done.code == -9
    proxy.share = 0.0
    done = program.run(*ingest, **said)
    assert (done.code, done.err) == (0, "")
    done = program.run("lake", "verify", "--lake", lake, "--from", place.url, **said)
    assert done.code == 0, done.out
    rows = json.loads(program.run("lake", "sql", "--lake", lake, LINES, "--format", "json", **said).out)
    there = Counter((row["source"], row["generation"], row["offset"], row["raw"]) for row in rows)
    tally.compared["lines in a lake on S3"] += sent.total()
    tally.wrong += (sent - there).total() + (there - sent).total()
    assert there == sent
    assert sum(number for fault, number in proxy.done.items() if fault in FAULTS) >= ROUNDS
