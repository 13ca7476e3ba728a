"""Where segments go: a folder here; a real S3 server in `tests/faults`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unspool.collect.object_store import SegmentStore, open_object_store
from unspool.errors import MissingExtra, ObjectStoreFailed, Refused, UsageError


@pytest.fixture
def place(tmp_path: Path) -> SegmentStore:
    return open_object_store(f"file://{tmp_path}/a place", {})


def test_what_was_put_is_never_put_again(place: SegmentStore) -> None:
    assert place.put_new("a/b", b"one")
    assert not place.put_new("a/b", b"two")
    assert place.get("a/b") == b"one"
    assert place.get("a/c") is None
    assert [(found.name, found.size) for found in place.names("a")] == [("a/b", 3)]


def test_objects_in_a_folder_are_for_their_owner_alone(tmp_path: Path) -> None:
    place = open_object_store(f"file://{tmp_path}/new", {})
    place.put_new("segments/a", b"one")
    place.put_new("m", b"one")
    place.replace("m", b"two", place.stored("m"))
    place.clock("acme/d1")
    files = [path for path in (tmp_path / "new").rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert len(files) == 3
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_an_object_is_replaced_and_taken_away(place: SegmentStore) -> None:
    assert place.replace("m", b"one", None)
    assert not place.replace("m", b"two", None)
    assert place.replace("m", b"two", place.stored("m"))
    assert place.get("m") == b"two"
    place.delete("m")
    place.delete("m")
    assert place.get("m") is None


def test_a_store_is_probed_as_often_as_one_likes(place: SegmentStore) -> None:
    assert place.probe("acme/d1", b"here\n").data == b"here\n"
    assert place.probe("acme/d1", b"again\n").data == b"here\n"


class _Careless(SegmentStore):
    """A store that overwrites whatever it is told, as some do."""

    def put_new(self, name: str, data: bytes) -> bool:
        before = self.stored(name)
        return self.replace(name, data, before) if before else super().put_new(name, data)


def test_a_store_that_overwrites_is_refused(place: SegmentStore) -> None:
    careless = _Careless(place.url, place._store, place._folder)
    with pytest.raises(Refused, match="ignores conditional puts"):
        careless.probe("acme/d1", b"here\n")


@pytest.mark.parametrize(
    "url",
    ["", "folder", "http://x/y", "ftp://x", "file://relative/x", "s3://key:secret@bucket/x", "az://a/c?sig=secret"],
)
def test_a_url_that_will_not_do_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        open_object_store(url, {})
    assert "secret" not in refused.value.message


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ObjectStoreFailed, match="not a directory"):
        open_object_store(f"file://{tmp_path}/file/below", {})


def test_without_the_library_it_is_said_which_one_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    with pytest.raises(MissingExtra, match="needs the `team` extra"):
        open_object_store("file:///tmp", {})
