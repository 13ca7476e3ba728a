"""What is forgotten in a team whose devices sign, and in a lake that was verified."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collect.lake.lifecycle.erasing import COUNT, ErasableLake, session_id, write_history, write_session
from tests.collect.lake.sending import Device
from tests.collect.lake.test_spark import PicklingContext
from unspool.collect.lake.lake import open_lake
from unspool.collect.lake.lifecycle import PseudonymKey, mark_lake
from unspool.collect.lake.run import IngestJob
from unspool.collect.lake.spark import ingest_with_spark
from unspool.collect.lake.verify.state import read_verified
from unspool.collect.object_store import ListedObject
from unspool.collect.segments import read_original
from unspool.collect.trust.tombstones import tombstone_name


@pytest.fixture
def signed(erasable: ErasableLake) -> tuple[Device, Device]:
    """Two devices with keys, which have sent sessions that were ingested."""
    return erasable.people(is_chained=True, is_signed=True)


def rewritten(lake: ErasableLake, home: str) -> list[ListedObject]:
    """Return the segments of a device that were rewritten."""
    listed = sorted(lake.place.names(f"segments/{home}"))
    return [one for one in listed if read_original(lake.place.get(one.name) or b"")]


def recorded(lake: ErasableLake) -> set[str]:
    """Return the devices that `lake verify` has recorded."""
    return set(read_verified(open_lake(str(lake.folder), {}).object_store).devices)


def test_a_rewritten_segment_is_believed_for_its_tombstone_and_the_next_one_for_its_signature(
    erasable: ErasableLake, signed: tuple[Device, Device]
) -> None:
    before = erasable.rows(COUNT)
    erasable.forget(sessions=(session_id(10),))
    assert erasable.find("planted-ada-one", session_id(10)) == set()
    assert erasable.problems() == []
    write_session(erasable.top / "ada", "ada-plain", 11, "planted-ada-two", ["mada7"])
    signed[0].send(erasable.top / "ada", size=700)
    assert erasable.ingest().bad == ()
    assert erasable.ingest(again=True).bad == ()
    assert erasable.rows(COUNT) == [(before[0][0] - 4 + 2,)]
    assert erasable.problems() == []


@pytest.mark.parametrize("what", ["bytes", "tombstone"])
def test_a_rewritten_segment_with_other_bytes_or_without_its_tombstone_is_refused(
    erasable: ErasableLake, signed: tuple[Device, Device], what: str
) -> None:
    erasable.forget(sessions=(session_id(10),))
    first, last = rewritten(erasable, "acme/ada-laptop")[0], rewritten(erasable, "acme/ada-laptop")[-1]
    if what == "bytes":
        # The content of another rewritten segment: signed by nobody, and no tombstone has this pair.
        erasable.place.overwrite(first.name, erasable.place.get(last.name) or b"")
        assert first.name != last.name
    else:
        erasable.place.delete(tombstone_name(first.name))
    assert first.name in {bad.name for bad in erasable.ingest(again=True).bad}
    assert ("bad segment", first.name) in erasable.problems()


@pytest.mark.usefixtures("signed")
def test_nothing_of_a_forgotten_user_is_left_of_its_keys_and_of_what_was_verified(erasable: ErasableLake) -> None:
    assert erasable.verify().problems == ()
    assert recorded(erasable) == {"acme/ada-laptop", "acme/bob-laptop"}
    erasable.forget(users=("user-ada",))
    assert erasable.find("planted-ada", "user-ada", session_id(10), session_id(11)) == set()
    assert recorded(erasable) == {"acme/bob-laptop"}
    assert not (erasable.folder / "devices" / "acme" / "ada-laptop.json").exists()
    left = {one.name for one in erasable.place.names("enrolments/acme/ada-laptop")}
    assert left == {"enrolments/acme/ada-laptop/forgotten.json"}
    assert erasable.find("planted-bob", "user-bob")
    assert erasable.verify().problems == ()
    assert erasable.problems() == []
    # Only stubs are left of it, and its name is not recorded anew.
    assert recorded(erasable) == {"acme/bob-laptop"}


@pytest.mark.usefixtures("signed")
def test_a_device_that_may_start_anew_keeps_its_key(erasable: ErasableLake) -> None:
    erasable.forget(devices=("acme/ada-laptop",), then="restart")
    assert (erasable.folder / "devices" / "acme" / "ada-laptop.json").exists()
    assert {one.name[-11:] for one in erasable.place.names("enrolments/acme/ada-laptop")} == {
        "000001.json",
        "gotten.json",
    }
    assert erasable.problems() == []


def test_what_was_verified_before_is_verified_again_without_what_was_forgotten(
    erasable: ErasableLake, signed: tuple[Device, Device]
) -> None:
    assert erasable.verify().problems == ()
    assert erasable.verify().read_segments == 0
    erasable.forget(sessions=(session_id(10),))
    again = erasable.verify()
    listed = [one for home in ("ada", "bob") for one in erasable.place.names(f"segments/acme/{home}-laptop")]
    assert again.problems == ()
    assert 0 < again.read_segments < len(listed)
    assert again.lines == sum(rows for ((rows,),) in map(erasable.rows, (COUNT, "SELECT count(*) FROM side_files")))
    assert erasable.verify().read_segments == 0
    # The sums are those after the removal: a row that comes back is one too many.
    assert erasable.verify(is_full=True).problems == ()


def test_a_segment_that_its_device_did_not_sign_gets_no_tombstone(
    erasable: ErasableLake, signed: tuple[Device, Device]
) -> None:
    # Somebody with the device's credentials, and not its key, names the session that is going to be forgotten.
    forged, key = signed[0], signed[0].key
    forged.key = None
    write_history(erasable.top / "ada", 10, "ada-secret", "forged-text")
    write_session(erasable.top / "ada", "ada-plain", 12, "forged-text")
    forged.send(erasable.top / "ada", size=700)
    names = {one.name for one in erasable.place.names("segments/acme/ada-laptop")}
    refused = {bad.name for bad in erasable.ingest().bad}
    assert refused
    erasable.forget(sessions=(session_id(10), session_id(12)))
    assert not refused & {one.name for one in rewritten(erasable, "acme/ada-laptop")}
    assert {bad.name for bad in erasable.ingest().bad} == refused
    assert erasable.rows("SELECT count(*) FROM entries WHERE raw LIKE '%forged%'") == [(0,)]
    assert names == {one.name for one in erasable.place.names("segments/acme/ada-laptop")}
    assert key is not None


def test_spark_leaves_out_what_was_forgotten_and_writes_pseudonyms(erasable: ErasableLake, tmp_path: Path) -> None:
    file = tmp_path / "pseudonyms.json"
    key: PseudonymKey = mark_lake(open_lake(str(erasable.folder), {}), file)
    ada, _ = erasable.people(is_chained=True, is_signed=True, pseudonyms=file)
    erasable.forget(sessions=(session_id(10),), name_user=key.name_user)
    write_session(erasable.top / "ada", "ada-secret", 10, "planted-ada-one", ["mada9"])
    write_session(erasable.top / "ada", "ada-plain", 11, "planted-ada-two", ["mada8"])
    ada.send(erasable.top / "ada", size=700)
    job = IngestJob(erasable.url, str(erasable.folder), pseudonyms=file)
    assert ingest_with_spark(PicklingContext(), job, {}).bad == ()
    assert erasable.rows(f"SELECT count(*) FROM entries WHERE session = '{session_id(10)}'") == [(0,)]
    assert ("mada8",) in erasable.rows("SELECT response_id FROM responses")
    pseudonyms = {(key.name_user(f"user-{name}"),) for name in ("ada", "bob")}
    for table in ("entries", "responses", "sources"):
        assert set(erasable.rows(f'SELECT DISTINCT "user" FROM {table}')) == pseudonyms, table
    assert erasable.verify().problems == ()
