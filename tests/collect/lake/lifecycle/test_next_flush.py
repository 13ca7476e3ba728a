"""What an administrator has removed, its device does not send again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.collect.lake.lifecycle.erasing import ErasableLake, session_id, write_history, write_session
from tests.collect.machine import Machine
from unspool.collect.segment_maker import CollectionPlan
from unspool.collect.state import open_state
from unspool.collect.trust.tombstones import notice_name
from unspool.errors import Refused


class Following(Machine):
    """A machine that trusts the administrators of a lake."""

    def __init__(self, lake: ErasableLake, folder: Path, **options: Any) -> None:
        root = lake.top / "config"
        root.mkdir(exist_ok=True)
        super().__init__(folder, root, lake.place, trusted={lake.key.public_key}, **options)


@pytest.fixture
def sent(erasable: ErasableLake, tmp_path: Path) -> Following:
    """A machine that has sent two sessions and a history, which were ingested."""
    machine = Following(erasable, tmp_path / "data")
    write_session(machine.root, "secret", 10, "planted-one")
    write_session(machine.root, "plain", 11, "planted-two")
    write_history(machine.root, 10, "secret", "planted-one")
    write_history(machine.root, 11, "plain", "planted-two")
    machine.collect()
    erasable.ingest()
    assert erasable.problems() == []
    return machine


def go_on(machine: Following) -> None:
    """Let both sessions and the history go on."""
    write_session(machine.root, "secret", 10, "planted-one", ["msg_later_1"])
    write_session(machine.root, "plain", 11, "planted-two", ["msg_later_2"])
    write_history(machine.root, 10, "secret", "planted-one")
    write_history(machine.root, 11, "plain", "planted-two")


def check_rest(erasable: ErasableLake, *gone: str) -> None:
    """Check that nothing is left of what was forgotten, and that the rest went on."""
    erasable.ingest()
    assert erasable.find(*gone) == set()
    assert erasable.problems() == []
    assert ("msg_later_2",) in erasable.rows("SELECT response_id FROM responses")
    assert erasable.rows("SELECT count(*) FROM history") == [(2,)]


def test_a_session_that_goes_on_after_it_was_forgotten_is_not_sent(erasable: ErasableLake, sent: Following) -> None:
    erasable.forget(sessions=(session_id(10),))
    go_on(sent)
    sent.collect()
    check_rest(erasable, "planted-one", session_id(10))


def test_a_forgotten_project_is_not_sent_whatever_session_is_new_in_it(erasable: ErasableLake, sent: Following) -> None:
    erasable.forget(projects=("secret",))
    go_on(sent)
    write_session(sent.root, "secret", 12, "planted-one")
    sent.collect()
    check_rest(erasable, "planted-one", session_id(12), "-home-ada-secret")


def test_parts_that_wait_are_made_anew_without_it(erasable: ErasableLake, sent: Following) -> None:
    go_on(sent)
    with pytest.raises(RuntimeError), sent.planned() as plan:
        _make_only(plan)
    erasable.forget(sessions=(session_id(10),))
    sent.collect()
    check_rest(erasable, "planted-one", session_id(10))


def _make_only(plan: CollectionPlan) -> None:
    from unspool.collect.collector import collect_sessions
    from unspool.collect.segment_maker import CollectionReport

    def end(step: str) -> None:
        if step == "packed":
            raise RuntimeError

    collect_sessions(plan._replace(on_step=end), CollectionReport())


def test_a_collector_that_lost_its_state_reads_its_rewritten_chain_and_sends_none_of_it(
    erasable: ErasableLake, sent: Following
) -> None:
    erasable.forget(sessions=(session_id(10),))
    go_on(sent)
    for name in ("collect.db", "collect.db-wal", "collect.db-shm"):
        (sent.folder / name).unlink(missing_ok=True)
    sent.collect()
    check_rest(erasable, "planted-one", session_id(10))


def test_a_forgotten_device_is_refused(erasable: ErasableLake, sent: Following) -> None:
    erasable.forget(devices=("acme/d1",))
    go_on(sent)
    before = sorted(listed.name for listed in sent.place.names("segments"))
    with pytest.raises(Refused, match="an administrator has removed this device"):
        sent.collect()
    assert sorted(listed.name for listed in sent.place.names("segments")) == before
    assert erasable.find("planted", session_id(10), session_id(11)) == set()


def test_a_forgotten_device_starts_anew_if_it_may(erasable: ErasableLake, sent: Following) -> None:
    erasable.forget(devices=("acme/d1",), then="restart")
    assert erasable.find("planted", session_id(10)) == set()
    go_on(sent)
    assert sent.collect().lines == 16
    assert sent.collect().lines == 0
    erasable.ingest()
    assert erasable.problems() == []
    assert erasable.rows("SELECT count(*) FROM entries") == [(12,)]
    assert erasable.rows("SELECT count(*) FROM history") == [(4,)]


def test_a_notice_that_nobody_known_has_signed_stops_the_collector(erasable: ErasableLake, sent: Following) -> None:
    erasable.forget(sessions=(session_id(10),))
    name = notice_name("acme", "d1")
    notice = sent.place.get(name)
    assert notice is not None
    sent.place.overwrite(name, notice.replace(b"sessions", b"sessionz"))
    with pytest.raises(Refused, match="not signed by a trusted administrator"):
        sent.collect()
    with pytest.raises(Refused, match="cannot be checked"):
        Machine(sent.folder, sent.root, sent.place).collect()


def test_nothing_is_restarted_twice(erasable: ErasableLake, sent: Following) -> None:
    erasable.forget(devices=("acme/d1",), then="restart")
    sent.collect()
    with open_state(sent.folder, sent.place.url, "acme", "d1") as state:
        sequence = state.chain_end().sequence
    go_on(sent)
    assert sent.collect().lines == 6
    with open_state(sent.folder, sent.place.url, "acme", "d1") as state:
        assert state.chain_end().sequence == sequence + 1
