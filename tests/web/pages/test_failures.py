"""What failed: the inbox and the page of failures count the same in the same span of time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.pseudo_terminal import until
from tests.serving import Served, serving
from tests.web.pages.test_lists import Place, S, settled
from unspool.demo.write import write_demo
from unspool.store.preferences import change_preference
from unspool.testing.build import assistant, raw, result_block, session, tool_result, tool_use, user

REJECTED = "The user doesn't want to proceed with this tool use. The tool use was rejected."


def fail_often(config: Path) -> None:
    """Write sessions of today in which all sorts of things failed, and a fork that repeats one of them."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    steps = [user("Count the tides.")]
    for line in range(4):
        steps += [assistant(tool_use("Bash", id=f"t{line}", command="count"))]
        steps += [tool_result(f"Exit code 1\nTraceback\nKeyError: 'tide{line}'", id=f"t{line}", error=True)]
    two = [tool_use("Read", id="r1", file_path="/a"), tool_use("Grep", id="g1", pattern="x")]
    both = [result_block("r1", "File does not exist.", error=True), result_block("g1", "bad pattern", error=True)]
    steps += [assistant(*two), user(*both)]
    steps += [assistant(tool_use("Edit", id="e1", file_path="/a")), tool_result(REJECTED, id="e1", error=True)]
    steps += [assistant("API Error: 529 overloaded", isApiErrorMessage=True)]
    made = session(*steps, id=S[2], start=now, step=0.001)
    made.save(config)
    session(*(raw(bytes(line.raw)) for line in made.entries), id=S[3]).save(config)
    once = [assistant(tool_use("Bash", id="o", command="x")), tool_result("KeyError: 'other'", id="o", error=True)]
    session(user("Once"), *once, id=S[4], start=now, step=0.001).save(config)


@pytest.fixture(scope="module", params=["demo", "made"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("failures")
    config = folder / "claude"
    # The newest day of the demo is the day before: today.
    write_demo(config, datetime.now(UTC) + timedelta(days=1))
    if request.param == "made":
        fail_often(config)
    with serving(config, home=folder / "unspool") as served:
        served.enter()
        one = Place(served, config.resolve(), folder / "unspool")
        settled(one)
        yield one


def count(kinds: list[Any]) -> dict[str, tuple[int, int]]:
    return {kind["kind"]: (kind["failures"], len(kind["sessions"])) for kind in kinds}


def test_inbox_and_failures_page_count_the_same_in_the_same_span(place: Place) -> None:
    inbox, page = place.get("/inbox.json"), place.get("/search/errors.json?since=today")
    assert inbox["failure_kinds"] == len(page["kinds"])
    assert {one["kind"]: (one["count"], one["sessions"]) for one in inbox["failures"]} == {
        kind: counts
        for kind, counts in count(page["kinds"]).items()
        if kind in {one["kind"] for one in inbox["failures"]}
    }
    assert sum(kind["failures"] for kind in page["kinds"]) == page["failures"]


@pytest.mark.parametrize("place", ["made"], indirect=True)
def test_a_fork_repeats_nothing_and_what_was_rejected_has_not_failed(place: Place) -> None:
    found = count(place.get("/search/errors.json?since=today")["kinds"])
    assert found["Bash: keyerror: …"] == (5, 2)
    assert found["Read: file does not exist."] == found["Grep: bad pattern"] == (1, 1)
    assert found["API: api error: … overloaded"] == (1, 1)
    assert place.get("/search/errors.json?since=today")["rejected"] >= 1
    assert count(place.get("/search/errors.json?since=today&tool=grep")["kinds"]) == {"Grep: bad pattern": (1, 1)}
    assert place.get("/search/errors.json?since=today&project=no-such-project")["kinds"] == []
    assert "that you rejected or interrupted" in place.page("/search/errors?since=today")


def test_without_a_store_the_inbox_counts_what_the_page_counts_and_sees_what_is_new(tmp_path: Path) -> None:
    config = tmp_path / "claude"
    fail_often(config)
    (tmp_path / "file").write_text("no folder can be made here")
    with serving(config, home=tmp_path / "file" / "unspool") as served:
        served.enter()
        # The temporary store is filled in the background, as any store is.
        before = wait_for_failures(served, 8)
        page = served.get("/search/errors.json?since=today").json
        assert count(page["kinds"]) == {one["kind"]: (one["count"], one["sessions"]) for one in before}
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        again = [assistant(tool_use("Bash", id="n", command="x")), tool_result("KeyError: 'new'", id="n", error=True)]
        session(user("Again"), *again, id=S[5], start=now, step=0.001).save(config)
        total = sum(one["count"] for one in before)
        after = wait_for_failures(served, total + 1)
        assert sum(one["count"] for one in after) == total + 1


def test_with_indexing_turned_off_the_inbox_still_knows_what_failed(tmp_path: Path) -> None:
    config, home = tmp_path / "claude", tmp_path / "unspool"
    fail_often(config)
    change_preference(home, "indexing", "off")
    with serving(config, home=home) as served:
        served.enter()
        found = {one["kind"]: (one["count"], one["sessions"]) for one in served.get("/inbox.json").json["failures"]}
        assert found["Bash: keyerror: …"] == (5, 2)
        assert count(served.get("/search/errors.json?since=today").json["kinds"]) == found


def wait_for_failures(served: Served, least: int) -> list[dict[str, Any]]:
    """Return the failures of the inbox, once there are so many."""
    found: list[dict[str, Any]] = []

    def are_read() -> bool:
        found[:] = served.get("/inbox.json").json["failures"]
        return sum(one["count"] for one in found) >= least and not served.get("/sessions.json").json["undigested"]

    until(are_read, lambda: "the failures were not read in time", patience=60)
    return found
