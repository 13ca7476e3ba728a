"""A lake with pseudonyms has no name of a user and the same sums, and only the key tells who is who."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collect.lake.lifecycle.erasing import ErasableLake
from unspool.collect.lake.lake import open_lake
from unspool.collect.lake.lifecycle import mark_lake, reveal_users
from unspool.errors import Refused

SUMS = 'SELECT "user", count(*), sum(cost_micros) FROM org_responses GROUP BY 1 ORDER BY 2, 3, 1'


def test_no_name_is_in_the_tables_and_the_sums_are_the_same(erasable: ErasableLake, tmp_path: Path) -> None:
    erasable.people(is_chained=True)
    # A second device of the same person.
    other = erasable.device("ada-desktop", "user-ada", is_chained=True)
    other.send(erasable.top / "bob", size=700)
    erasable.ingest()
    sums = erasable.rows(SUMS)
    path = tmp_path / "keys" / "pseudonyms.json"
    path.parent.mkdir()
    with pytest.raises(Refused, match="has names of users already"):
        mark_lake(open_lake(str(erasable.folder), {}), path)
    hidden = erasable.empty("hidden")
    key = mark_lake(open_lake(str(hidden.folder), {}), path)
    with pytest.raises(Refused, match="has pseudonyms"):
        hidden.ingest()
    hidden.ingest(pseudonyms=path)
    names = {key.name_user("user-ada"): "user-ada", key.name_user("user-bob"): "user-bob"}
    assert sorted((names[user], *rest) for user, *rest in hidden.rows(SUMS)) == sorted(sums)
    assert dict(reveal_users(hidden.place, key)) == names
    assert {
        text for text, place in hidden.find("user-ada", "user-bob") if place.startswith(str(hidden.folder))
    } == set()
    assert hidden.verify(is_full=True).problems == ()
    # Another key is none, and a file that others can read is refused.
    with pytest.raises(Refused, match="another key"):
        mark_lake(open_lake(str(hidden.folder), {}), path.with_name("other.json"))
    path.chmod(0o644)
    with pytest.raises(Refused, match="other users can read"):
        hidden.ingest(pseudonyms=path)


def test_a_user_is_forgotten_by_name_and_others_keep_their_pseudonyms(erasable: ErasableLake, tmp_path: Path) -> None:
    path = tmp_path / "pseudonyms.json"
    key = mark_lake(open_lake(str(erasable.folder), {}), path)
    erasable.people(is_chained=True, pseudonyms=path)
    erasable.forget(users=("user-ada",), pseudonyms={"user-ada": key.name_user("user-ada")}, name_user=key.name_user)
    assert erasable.find("planted-ada", "user-ada", key.name_user("user-ada")) == set()
    assert erasable.rows('SELECT DISTINCT "user" FROM entries') == [(key.name_user("user-bob"),)]
    assert erasable.problems() == []
