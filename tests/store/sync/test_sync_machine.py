"""Whatever happens to files between syncs, and wherever a sync ends, nothing is lost and nothing counts twice."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, rule

from tests.faults.world import SEEN, World, check, synced
from tests.profiles import examples
from unspool.store.sync.sync import STEPS, SyncOptions

cuts = st.integers(0, 5000)
counts = st.integers(1, 5)


class Ended(Exception):
    """A sync was ended on the way."""


class Syncing(RuleBasedStateMachine):
    """Files that change in every way there is, a store that follows, and the model."""

    files = Bundle("files")

    def __init__(self) -> None:
        super().__init__()
        self._place = Path(tempfile.mkdtemp(prefix="unspool-"))
        self._folder = self._place / "own"
        self._world = World(self._place / "config")
        self._number = 0

    @initialize(target=files)
    def first(self) -> Path:
        return self._world.create()

    @rule(target=files)
    def create(self) -> Path:
        return self._world.create()

    @rule(target=files, path=files)
    def fork(self, path: Path) -> Path:
        return self._world.fork(path) if path.exists() else self._world.create()

    @rule(path=files, count=counts)
    def append(self, path: Path, count: int) -> None:
        if path.exists():
            self._world.append(path, count)

    @rule(path=files, cut=cuts)
    def tear(self, path: Path, cut: int) -> None:
        if path.exists():
            self._world.tear(path, cut)

    @rule(path=files)
    def break_off(self, path: Path) -> None:
        if path.exists():
            self._world.break_off(path)

    @rule(path=files, cut=cuts)
    def truncate(self, path: Path, cut: int) -> None:
        if path.exists():
            self._world.truncate(path, cut)

    @rule(path=files, cut=cuts)
    def rewrite(self, path: Path, cut: int) -> None:
        if path.exists():
            self._world.rewrite(path, cut, most=SEEN)

    @rule(path=files)
    def replace(self, path: Path) -> None:
        if path.exists():
            self._world.replace(path)

    @rule(target=files, path=consumes(files))
    def delete(self, path: Path) -> Path:
        if path.exists():
            self._world.delete(path)
        return path

    @rule()
    def recreate(self) -> None:
        self._world.recreate()

    @rule(deep=st.booleans())
    def sync(self, deep: bool) -> None:
        synced(self._folder, self._world.root, SyncOptions(deep=deep))
        self._world.synced()

    @rule(step=st.sampled_from(STEPS[1:]), grown=st.booleans())
    def end_on_the_way(self, step: str, grown: bool) -> None:
        """End a sync of files that have grown, and let the next one go on; they may have grown in between."""
        for path in self._world.paths:
            self._world.append(path, 1)

        def reached(name: str) -> None:
            if name == step:
                raise Ended

        with suppress(Ended):
            synced(self._folder, self._world.root, SyncOptions(on_step=reached))
        if grown:
            for path in self._world.paths:
                self._world.append(path, 1)
        synced(self._folder, self._world.root)
        self._world.synced()

    @rule()
    def nothing_is_lost(self) -> None:
        self.sync(deep=True)
        self._number += 1
        check(self._world, self._folder, self._place / f"fresh-{self._number}")

    def teardown(self) -> None:
        try:
            self.nothing_is_lost()
        finally:
            shutil.rmtree(self._place)


Syncing.TestCase.settings = settings(max_examples=examples(30), stateful_step_count=20, deadline=None)
TestSyncing = Syncing.TestCase
