"""Many processes at once: no errors, and everybody gets the right answer."""

from __future__ import annotations

import json
from pathlib import Path

from tests.faults.conftest import Program
from tests.faults.world import World, check

ASKED = [
    ("sync",),
    ("ls", "--json"),
    ("usage", "--json"),
    ("usage", "session", "--json"),
    ("sync", "--deep"),
    ("usage", "blocks", "--json", "--order", "desc"),
]
PROCESSES = 50


def test_fifty_processes_that_make_fill_and_ask_a_store_all_get_it_right(program: Program, tmp_path: Path) -> None:
    world = World(tmp_path / "config")
    for _ in range(6):
        world.append(world.create(), 12)
    world.tear(world.create(), 100)
    commands = [ASKED[number % len(ASKED)] for number in range(PROCESSES)]
    expected = {
        command: json.loads(program.run(*command, "--no-store", "--config-dir", world.root).out)
        for command in set(commands)
        if command[0] != "sync"
    }
    assert not program.folder.exists()
    started = [(command, program.start(*command, "--config-dir", world.root)) for command in commands]
    ended = [(command, *process.communicate(timeout=120), process.returncode) for command, process in started]
    for command, out, err, code in ended:
        assert (code, err) == (0, b""), command
        if command in expected:
            assert json.loads(out) == expected[command]
    world.synced()
    check(world, program.folder, tmp_path / "fresh")
