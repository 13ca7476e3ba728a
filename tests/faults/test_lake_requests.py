"""The requests of an ingest, counted at an S3 server: they follow what is new, not what is there already."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from tests.collect.lake.sending import Device
from tests.faults.conftest import Program
from tests.faults.s3 import CREDENTIALS, Proxy
from tests.faults.world import World
from unspool.collect.lake.tables import lake_tables
from unspool.collect.object_store import SegmentStore

DEVICES, SEGMENTS, MANY = 20, 5, 40
"""Devices and the segments of each in a large round; segments that one has afterwards."""
MOST = 100
"""Requests of an ingest of one new line. It does not matter what was ingested before."""


class Team:
    """Devices that send one line each, and ingests whose requests are counted."""

    def __init__(self, program: Program, proxy: Proxy, place: SegmentStore, folder: Path) -> None:
        self.program, self.proxy, self.place = program, proxy, place
        self.said = {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.server_port}"}
        self.lake, self.world = f"{place.url}/lake", World(folder / "config")
        assert program.run("lake", "init", self.lake, **self.said).code == 0
        self.world.append(self.world.create(), 2)
        self.devices = [Device(place, f"d{number}") for number in range(DEVICES)]
        self.command = ("lake", "ingest", "--from", place.url, "--to", self.lake, "--json")

    def send(self, devices: int, count: int = 1) -> None:
        """Send lines of some devices one by one: each is a segment."""
        for _ in range(count):
            self.world.append(self.world.paths[0], 1)
            for device in self.devices[:devices]:
                device.is_chained = True
                device.send(self.world.root)

    def count(self) -> str:
        """Return the requests since the last call by method and kind of object: for the message of a test."""
        kinds = Counter((one.method, re.sub(r".*/|[0-9a-f-]{8,}|\?.*", "", one.path)) for one in self.proxy.seen)
        self.proxy.seen.clear()
        return str(kinds.most_common())

    def ingest(self) -> tuple[int, int]:
        """Run an ingest; return how many segments it read, and how many requests it made."""
        before = self.proxy.done.total()
        done = self.program.run(*self.command, **self.said)
        assert done.code == 0, done.err
        return json.loads(done.out)["segments"], self.proxy.done.total() - before

    def follow(self, rounds: int) -> list[tuple[int, int]]:
        """Let an ingest follow while one device sends line by line; return segments and requests of each round."""
        follower = self.program.start(*self.command, "--follow", "--every", "8", **self.said)
        try:
            assert follower.stdout is not None
            follower.stdout.readline()
            found = []
            for _ in range(rounds):
                before = self.proxy.done.total()
                self.send(1)
                segments = json.loads(follower.stdout.readline())["segments"]
                found.append((segments, self.proxy.done.total() - before))
            return found
        finally:
            follower.kill()
            follower.communicate()


def test_requests_follow_the_new_segments_and_not_the_old_ones(
    program: Program, proxy: Proxy, place: SegmentStore, tmp_path: Path
) -> None:
    team = Team(program, proxy, place, tmp_path)
    team.send(DEVICES, SEGMENTS)
    for _ in range(2):
        many, large = team.ingest()
        assert many == DEVICES * SEGMENTS
        assert large <= 10 * many + 4 * len(lake_tables())
        # The second time, every device has rows that are replaced.
        assert large <= 5 * many
        team.send(DEVICES, SEGMENTS)
    assert team.ingest()[0] == DEVICES * SEGMENTS
    team.count()
    # Each time by a process that knows nothing but what is in the lake.
    for _ in range(3):
        team.send(1)
        segments, requests = team.ingest()
        assert segments == 1
        assert requests <= MOST, team.count()
        team.count()
    team.send(1, MANY)
    rounds = team.follow(3)
    assert [segments for segments, _ in rounds] == [1, 1, 1]
    assert max(requests for _, requests in rounds) <= MOST, team.count()
