"""The largest 5-hour window that the store keeps is the largest of the report, however the lines came."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.world import synced
from unspool.format import format_timestamp
from unspool.prices import find_windows
from unspool.store import open_store
from unspool.store.usage.ledger import StoreLedger, UsageQuery

BEGIN = datetime(2026, 1, 5, 9, tzinfo=UTC)
S = [f"{number}0000000-0000-4000-8000-00000000000{number}" for number in range(4)]
answers = st.lists(
    st.tuples(st.integers(0, 60 * 24 * 3), st.integers(0, 5000), st.integers(0, 2)), min_size=1, max_size=8
)


def kept(own: Path) -> tuple[int, int, int] | None:
    """Return the row of the one home: start of the newest window, micro-dollars and tokens."""
    with closing(open_store(own)) as database:
        row: tuple[int, int, int] | None = database.execute(
            "SELECT newest, cost_micros, total_tokens FROM largest_windows"
        ).fetchone()
        return row


def reported(own: Path, root: Path) -> tuple[int, int, int]:
    """Return the same from all responses of the report."""
    with closing(open_store(own)) as database:
        sums = StoreLedger(database, root, lambda: (_ for _ in ()).throw(AssertionError)).sums(UsageQuery(exact=True))
    windows = [window for window in find_windows(one.time for one in sums) if not window.is_gap]
    used = [
        [
            (one.bill.cost_micros, sum(one.bill[2:7]))
            for one in sums
            if one.time is not None and window.start <= one.time < window.end
        ]
        for window in windows
    ]
    cost = max((sum(micros for micros, _ in of) for of in used[:-1]), default=0)
    return windows[-1].start, cost, max((sum(tokens for _, tokens in of) for of in used[:-1]), default=0)


def write(root: Path, group: Sequence[tuple[int, int, int]], number: int) -> None:
    """Append a response for each of these minutes, with so much output, to one of three sessions."""
    for at, (minute, output, file) in enumerate(group):
        # Every other one has an id that a later one, perhaps in another file, has too.
        id = f"msg_{number}_{at}" if at % 2 else f"msg_{at}"
        usage = {"input_tokens": 4, "cache_read_input_tokens": 1000, "output_tokens": output}
        line = {
            "type": "assistant",
            "uuid": f"{number}{at}000000-0000-4000-8000-000000000000",
            "sessionId": S[file],
            "timestamp": format_timestamp(BEGIN + timedelta(minutes=minute)),
            "message": {"id": id, "role": "assistant", "model": "claude-opus-4-5", "content": [], "usage": usage},
        }
        target = root / "projects" / "p" / f"{S[file]}.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("a") as grown:
            grown.write(json.dumps(line) + "\n")


@given(st.lists(answers, min_size=1, max_size=3))
@settings(max_examples=15)
def test_the_largest_window_is_that_of_the_report_after_every_sync(groups: list[list[tuple[int, int, int]]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        own, root = Path(place) / "own", Path(place) / "config"
        for number, group in enumerate(groups):
            write(root, group, number)
            synced(own, root)
            assert kept(own) == reported(own, root)


def test_a_store_whose_row_was_deleted_makes_it_again(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "config"
    write(root, [(0, 10, 0), (900, 20, 0)], 0)
    synced(own, root)
    before = kept(own)
    with closing(open_store(own)) as database:
        database.execute("DELETE FROM largest_windows")
    synced(own, root)
    assert kept(own) == before == reported(own, root)
