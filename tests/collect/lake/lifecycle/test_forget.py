"""Of what was forgotten no byte is left, everything else is as it was, and whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.collect.lake.lifecycle.erasing import ErasableLake, session_id, write_session
from unspool.collect.lake.lifecycle.forget import STEPS
from unspool.errors import Unreadable
from unspool.store.archive import compress, decompress_at_most

ADA = ("planted-ada-one", "planted-ada-two", "user-ada", "ada-secret", "ada-plain", session_id(10), session_id(11))
COSTS = "SELECT response_id, sum(output_tokens) FROM org_responses WHERE device = '{}' GROUP BY ALL ORDER BY ALL"


@pytest.mark.parametrize("is_chained", [True, False], ids=["one chain", "a chain for each stream"])
def test_of_a_session_no_byte_is_left_and_the_rest_is_as_if_it_had_never_been(
    erasable: ErasableLake, *, is_chained: bool
) -> None:
    erasable.people(is_chained=is_chained)
    assert erasable.find("planted-ada-one", session_id(10))
    report = erasable.forget(sessions=(session_id(10),))
    assert (report.devices, report.lines) == (1, 5)
    assert erasable.find("planted-ada-one", session_id(10)) == set()
    assert erasable.problems() == []
    assert erasable.ingest().lines == 0
    assert erasable.rows("SELECT DISTINCT session FROM entries ORDER BY 1") == [
        (session_id(number),) for number in (11, 20, 21)
    ]
    assert erasable.rows("SELECT DISTINCT session_id FROM sessions ORDER BY 1") == [
        (session_id(number),) for number in (11, 20, 21)
    ]
    # The answer that both sessions have counts in the one that is left.
    assert erasable.rows(COSTS.format("ada-laptop")) == [("mada1", 20), ("mada3", 21)]
    ours, theirs = erasable.everything(), erasable.anew().everything()
    assert {name for name, rows in theirs.items() if rows != ours[name]} == set()
    assert erasable.ingest(again=True).bad == ()
    assert erasable.problems() == []


@pytest.mark.parametrize("is_chained", [True, False], ids=["one chain", "a chain for each stream"])
def test_of_a_user_no_byte_is_left_and_others_keep_every_row(erasable: ErasableLake, *, is_chained: bool) -> None:
    erasable.people(is_chained=is_chained)
    before = erasable.rows("SELECT * FROM entries WHERE device = 'bob-laptop' ORDER BY ALL")
    costs = erasable.rows(COSTS.format("bob-laptop"))
    erasable.forget(users=("user-ada",))
    assert erasable.find(*ADA) == set()
    assert erasable.problems() == []
    assert erasable.rows("SELECT * FROM entries ORDER BY ALL") == before
    assert erasable.rows(COSTS.format("bob-laptop")) == costs
    assert erasable.rows("SELECT DISTINCT device FROM responses") == [("bob-laptop",)]


def test_of_a_project_no_byte_is_left_also_not_in_the_history(erasable: ErasableLake) -> None:
    erasable.people(is_chained=True)
    erasable.forget(projects=("ada-secret",))
    assert erasable.find("planted-ada-one", "ada-secret", session_id(10)) == set()
    assert erasable.find("planted-ada-two")
    assert erasable.problems() == []


def test_what_a_collector_sends_again_is_not_added_and_a_full_check_names_it(erasable: ErasableLake) -> None:
    ada, _ = erasable.people(is_chained=True)
    erasable.forget(sessions=(session_id(10),))
    write_session(erasable.top / "ada", "ada-secret", 10, "planted-ada-one", ["mada9"])
    write_session(erasable.top / "ada", "ada-plain", 11, "planted-ada-two", ["mada8"])
    ada.send(erasable.top / "ada", size=700)
    assert erasable.ingest().bad == ()
    assert erasable.rows(f"SELECT count(*) FROM entries WHERE session = '{session_id(10)}'") == [(0,)]
    assert ("mada8",) in erasable.rows("SELECT response_id FROM responses")
    assert {what for what, _ in erasable.problems()} == {"not forgotten"}
    assert erasable.verify().problems == ()
    erasable.forget(sessions=(session_id(10),))
    assert erasable.find("planted-ada-one", session_id(10)) == set()
    assert erasable.problems() == []


def test_each_lake_of_the_same_segments_forgets(erasable: ErasableLake) -> None:
    erasable.people(is_chained=True)
    other = erasable.anew()
    erasable.forget(sessions=(session_id(10),))
    assert other.rows(f"SELECT count(*) FROM entries WHERE session = '{session_id(10)}'") == [(4,)]
    # Its segments are rewritten already.
    assert other.forget(sessions=(session_id(10),)).segments == 0
    assert other.find("planted-ada-one", session_id(10)) == set()
    assert other.problems() == []
    assert erasable.problems() == []


class Killed(BaseException):
    """Ends a run as if the process had been killed."""


def kill_at(step: str) -> Callable[[str], None]:
    """Return what ends a run at a step; of those that come for each segment and table, the second time."""
    left = [2 if step in {"signed", "rewritten", "checkpointed", "cleaned"} else 1]

    def on_step(name: str) -> None:
        left[0] -= name == step
        if name == step and not left[0]:
            raise Killed

    return on_step


@pytest.mark.parametrize("step", STEPS)
def test_the_same_command_finishes_what_was_killed(erasable: ErasableLake, step: str) -> None:
    erasable.people(is_chained=True)
    request = {"projects": ("ada-secret",)} if STEPS.index(step) % 2 else {"users": ("user-ada", "user-bob")}
    with pytest.raises(Killed):
        erasable.forget(kill_at(step), **request)
    # Whatever was done until then: an ingest adds nothing of it.
    assert erasable.ingest().bad == ()
    if step != "done":
        erasable.forget(**request)
    gone = ("planted-ada-one", "ada-secret", session_id(10)) if "projects" in request else (*ADA, "user-bob", "planted")
    assert erasable.find(*gone) == set()
    assert erasable.problems() == []


@pytest.mark.parametrize("step", ["listed", "rewritten", "replaced", "checkpointed"])
def test_an_ingest_at_the_same_time_loses_nothing_and_brings_nothing_back(erasable: ErasableLake, step: str) -> None:
    ada, _ = erasable.people(is_chained=True)
    done: list[str] = []

    def on_step(name: str) -> None:
        if name == step and not done:
            done.append(name)
            write_session(erasable.top / "ada", "ada-plain", 11, "planted-ada-two", ["mada8"])
            ada.send(erasable.top / "ada", size=700)
            erasable.ingest()

    erasable.forget(on_step, sessions=(session_id(10),))
    erasable.ingest()
    assert done
    assert erasable.find("planted-ada-one", session_id(10)) == set()
    assert erasable.problems() == []
    assert ("mada8",) in erasable.rows("SELECT response_id FROM responses")


@pytest.mark.parametrize("step", ["read", "lines", "answered"])
def test_an_ingest_that_began_before_does_not_bring_it_back(erasable: ErasableLake, step: str) -> None:
    ada, _ = erasable.people(is_chained=True)
    write_session(erasable.top / "ada", "ada-secret", 10, "planted-ada-one", ["mada9"])
    write_session(erasable.top / "ada", "ada-plain", 11, "planted-ada-two", ["mada8"])
    ada.send(erasable.top / "ada", size=700)
    done: list[str] = []

    def on_step(name: str) -> None:
        if name == step and not done:
            done.append(name)
            erasable.forget(sessions=(session_id(10),))

    erasable.ingest(fault=lambda _: on_step)
    assert done
    assert erasable.ingest().bad == ()
    assert erasable.rows(f"SELECT count(*) FROM entries WHERE session = '{session_id(10)}'") == [(0,)]
    assert ("mada8",) in erasable.rows("SELECT response_id FROM responses")
    assert erasable.problems() == []


def test_segments_that_were_swapped_are_refused(erasable: ErasableLake, tmp_path: Path) -> None:
    erasable.people(is_chained=True)
    names = sorted(listed.name for listed in erasable.place.names("segments/acme/ada-laptop"))
    before = {name: erasable.place.get(name) for name in names}
    erasable.forget(sessions=(session_id(10),))
    changed = [name for name in names if erasable.place.get(name) != before[name]]
    first, second = (erasable.place.get(name) for name in changed[:2])
    assert first is not None
    assert second is not None
    # Another rewritten one, one whose tombstone is gone, and the bytes from before.
    erasable.place.overwrite(changed[0], second)
    assert "bad segment" in {what for what, _ in erasable.problems()}
    erasable.place.overwrite(changed[0], first)
    assert erasable.problems() == []
    tombstone = f"tombstones/{changed[0].removeprefix('segments/').removesuffix('.jsonl.zst')}.json"
    signed = erasable.place.get(tombstone)
    assert signed is not None
    erasable.place.delete(tombstone)
    assert "bad segment" in {what for what, _ in erasable.problems()}
    erasable.place.overwrite(tombstone, signed.replace(b'"digest', b'"digesT'))
    assert "bad segment" in {what for what, _ in erasable.problems()}
    erasable.place.overwrite(tombstone, signed)
    original = before[changed[0]]
    assert original is not None
    erasable.place.overwrite(changed[0], original)
    assert {what for what, _ in erasable.problems()} == {"not forgotten"}


def test_of_a_device_nothing_is_left_either_that_cannot_be_read(erasable: ErasableLake) -> None:
    device, _ = erasable.people(is_chained=True)
    write_session(erasable.top / "ada", "ada-plain", 11, "planted-ada-two", ["later"])
    last = device.send(erasable.top / "ada")[-1]
    erasable.place.overwrite(last.name, compress(decompress_at_most(last.data, 1 << 28) + b"more", 1))
    folder = "segments/acme/ada-laptop"
    strays = [
        f"{folder}/notes.txt",
        f"{folder}/2000-01-01/x.jsonl.zst",
        f"{folder}/{'0' * 32}/{1:010d}-{'0' * 16}.jsonl.zst",
    ]
    for name in strays:
        erasable.place.overwrite(name, b"planted-ada-one")
    # Neither do they stop whoever reads the chain.
    assert {bad.name for bad in erasable.ingest(again=True).bad} == {*strays, last.name}
    erasable.forget(devices=("acme/ada-laptop",))
    assert erasable.find(*ADA) == set()
    named = {where for _, where in erasable.problems()}
    assert named == {*strays, last.name}


def test_a_damaged_segment_in_the_tables_is_named_before_rows_that_cannot_be_compared_are_removed(
    erasable: ErasableLake,
) -> None:
    erasable.people(is_chained=True)
    first = min(one.name for one in erasable.place.names("segments/acme/ada-laptop"))
    data = erasable.place.get(first) or b""
    erasable.place.overwrite(first, compress(decompress_at_most(data, 1 << 28) + b"more", 1))
    with pytest.raises(Unreadable, match=first):
        erasable.forget(devices=("acme/ada-laptop",))
    erasable.place.overwrite(first, data)
    erasable.forget(devices=("acme/ada-laptop",))
    assert erasable.find(*ADA) == set()
    assert erasable.problems() == []
