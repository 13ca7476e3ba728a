"""The list of what was forgotten: an older one, or none, is noticed; a new administrator can sign it again."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.collect.lake.lifecycle.erasing import ErasableLake, session_id, write_session
from unspool.collect.lake import sign_bindings
from unspool.collect.lake.lake import open_lake
from unspool.collect.lake.lifecycle import has_forgotten
from unspool.collect.lake.trust import (
    add_administrator,
    read_administrators,
    remove_administrator,
    sign_records_again,
)
from unspool.collect.trust import create_administrator_key, find_notice, sign_tombstones_again
from unspool.collect.trust.tombstones import list_name
from unspool.errors import Refused


@pytest.mark.parametrize("how", ["older", "missing"])
def test_a_list_that_is_older_than_the_lake_is_noticed_and_nothing_comes_back(erasable: ErasableLake, how: str) -> None:
    device, _ = erasable.people(is_chained=True)
    erasable.forget(sessions=(session_id(11),))
    before = erasable.place.get(list_name("acme"))
    erasable.forget(sessions=(session_id(10),))
    newest = erasable.place.get(list_name("acme"))
    assert before is not None
    assert newest is not None
    if how == "older":
        erasable.place.overwrite(list_name("acme"), before)
    else:
        erasable.place.delete(list_name("acme"))
    # An old collector sends it again, and so would the store's own owner.
    write_session(erasable.top / "ada", "ada-secret", 10, "planted-ada-one", ["again"])
    device.send(erasable.top / "ada")
    words = r"`tombstones/acme\.json` is missing or older than the lake: it lacks change 2"
    again = partial(erasable.forget, sessions=(session_id(20),), is_every_device=True)
    for call in (erasable.ingest, erasable.verify, again):
        with pytest.raises(Refused, match=words):
            call()
    assert erasable.rows(f"SELECT count(*) FROM entries WHERE session_id = '{session_id(10)}'") == [(0,)]
    erasable.place.overwrite(list_name("acme"), newest)
    assert erasable.ingest().bad == ()
    assert erasable.rows(f"SELECT count(*) FROM entries WHERE session_id = '{session_id(10)}'") == [(0,)]


def test_what_a_removed_administrator_has_forgotten_counts_if_another_signs_it_again(
    erasable: ErasableLake, tmp_path: Path
) -> None:
    device, _ = erasable.people(is_chained=True, is_signed=True)
    lake, ada = open_lake(str(erasable.folder), {}), erasable.key
    assert not has_forgotten(lake, "acme")
    erasable.forget(sessions=(session_id(10),))
    for name in ("entries", "side_files"):
        lake.table(name, fresh=True)
    assert (has_forgotten(lake, "acme"), has_forgotten(lake, "acm")) == (True, False)
    bob = create_administrator_key(tmp_path / "bob", "acme")
    keys = add_administrator(lake, ada, bob.public_key).keys
    changed = len(list(erasable.place.names("tombstones/acme")))
    assert sign_tombstones_again(erasable.place, bob, keys, ada.public_key) == changed + 2
    # The same again finds nothing left to do.
    assert sign_tombstones_again(erasable.place, bob, keys, ada.public_key) == 0
    notice = find_notice(erasable.place, "acme", device.device, {bob.public_key})
    assert notice is not None
    assert notice.device == device.device
    sign_records_again(lake, bob, read_administrators(lake)["acme"], lambda _: True)
    sign_bindings(lake, bob)
    remove_administrator(lake, bob, ada.public_key)
    write_session(erasable.top / "ada", "ada-plain", 11, "planted-ada-two", ["later"])
    device.send(erasable.top / "ada")
    assert erasable.ingest(again=True).bad == ()
    assert erasable.problems() == []
    assert erasable.find("planted-ada-one", session_id(10)) == set()
