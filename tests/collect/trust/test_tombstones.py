"""A rewritten segment counts as what its tombstone says, and nothing else does."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from unspool.collect.trust import make_signing_key, public_key, sign_document
from unspool.collect.trust.notices import NoticeFilter
from unspool.collect.trust.tombstones import (
    LIST_KIND,
    NOTICE_KIND,
    TOMBSTONE_KIND,
    ForgetRules,
    ForgottenDevice,
    ForgottenList,
    ForgottenNotice,
    SegmentTombstone,
    hash_session,
    list_name,
    notice_name,
    original_digest,
    read_list,
    read_notice,
    tombstone_name,
)
from unspool.collect.trust.trusted_keys import NAME, add_trusted_keys, read_trusted_keys
from unspool.errors import Refused, Unreadable, UsageError

KEY = make_signing_key()
TRUSTED = {public_key(KEY)}
SEGMENT = "segments/acme/d1/2026-01-05/000000000001-0000000000000000.jsonl.zst"
BEFORE, AFTER, BETWEEN = (hashlib.sha256(data).hexdigest() for data in (b"before", b"after", b"between"))
SESSION = "0000000a-1111-4111-8111-00000000000a"


def nothing(_: str) -> bytes | None:
    """Return what an empty store has."""
    return None


def signed(key: str = KEY, segment: str = SEGMENT) -> dict[str, bytes]:
    """Return a store with the tombstone of a segment."""
    body = SegmentTombstone(segment=segment, original=BEFORE, digest=AFTER, replaced=BETWEEN)
    return {tombstone_name(SEGMENT): sign_document(key, TOMBSTONE_KIND, body)}


@pytest.mark.parametrize("data", [b"after", b"between"])
def test_a_rewritten_segment_has_the_digest_from_before(data: bytes) -> None:
    assert original_digest(signed().get, TRUSTED, SEGMENT, data, BEFORE) == BEFORE


def test_a_segment_that_nobody_rewrote_has_its_own_digest_and_needs_no_tombstone() -> None:
    assert original_digest(nothing, (), SEGMENT, b"before", "") == BEFORE


def test_every_other_pair_is_refused() -> None:
    with pytest.raises(Unreadable, match="has no tombstone"):
        original_digest(nothing, TRUSTED, SEGMENT, b"after", BEFORE)
    for store, data, original in (
        (signed(), b"others", BEFORE),
        (signed(), b"after", AFTER),
        (signed(make_signing_key()), b"after", BEFORE),
        (signed(segment=SEGMENT.replace("d1", "d2")), b"after", BEFORE),
    ):
        with pytest.raises(Refused):
            original_digest(store.get, TRUSTED, SEGMENT, data, original)
    # A signature of another kind of document is none.
    body = SegmentTombstone(segment=SEGMENT, original=BEFORE, digest=AFTER, replaced=AFTER)
    other = {tombstone_name(SEGMENT): sign_document(KEY, LIST_KIND, body)}
    with pytest.raises(Unreadable):
        original_digest(other.get, TRUSTED, SEGMENT, b"after", BEFORE)


def test_a_list_or_notice_counts_only_where_it_belongs() -> None:
    forgotten = sign_document(KEY, LIST_KIND, ForgottenList(org="acme", salt="s"))
    assert read_list(nothing, "acme", TRUSTED) is None
    found = read_list({list_name("acme"): forgotten}.get, "acme", TRUSTED)
    assert found is not None
    assert found.org == "acme"
    with pytest.raises(Refused, match="another organisation"):
        read_list({list_name("other"): forgotten}.get, "other", TRUSTED)
    notice = sign_document(KEY, NOTICE_KIND, ForgottenNotice(org="acme", device="d1", salt="s"))
    with pytest.raises(Refused, match="another device"):
        read_notice({notice_name("acme", "d2"): notice}.get, "acme", "d2", TRUSTED)
    with pytest.raises(Refused, match="cannot be checked"):
        read_notice({notice_name("acme", "d1"): notice}.get, "acme", "d1", ())


def test_rules_say_what_is_forgotten() -> None:
    devices = {"d1": ForgottenDevice(7, "restart"), "d2": ForgottenDevice(7, "refuse")}
    known = ForgottenList(
        org="acme", salt="s", devices=devices, streams={"d3": ["a"]}, kept_after={"d4": 3},
        sessions=[hash_session("s", SESSION)], touched={"d1": 1, "d2": 1, "d3": 2, "d4": 3},
    )  # fmt: skip
    rules = ForgetRules({"acme": known})
    assert [rules.is_forgotten("acme/d1", number, "x", None) for number in (7, 8)] == [True, False]
    assert [rules.is_forgotten("acme/d2", number, "x", None) for number in (7, 8)] == [True, True]
    assert [rules.is_forgotten("acme/d3", 1, stream, None) for stream in "ab"] == [True, False]
    assert [rules.is_forgotten("acme/d4", number, "x", None) for number in (3, 4)] == [True, False]
    assert [rules.is_forgotten(home, 9, "x", SESSION.upper()) for home in ("acme/d9", "other/d9")] == [True, False]
    assert rules.names_session("acme", f'{{"forkedFrom": "{SESSION}"}}')
    assert not rules.names_session("acme", SESSION.replace("a", "b"))


def test_a_notice_that_only_removes_sessions_neither_stops_nor_restarts_a_device() -> None:
    notice = NoticeFilter(ForgottenNotice(org="acme", device="d1", salt="s", sessions=[hash_session("s", SESSION)]))
    notice.refuse_device()
    assert not notice.must_restart(1)
    assert [notice.drops_line(text) for text in (f'"{SESSION}"', '"else"')] == [True, False]


def test_a_machine_trusts_the_keys_that_it_was_told(tmp_path: Path) -> None:
    first, second = (public_key(make_signing_key()) for _ in range(2))
    assert read_trusted_keys(tmp_path) == {}
    add_trusted_keys(tmp_path, "acme", (first,))
    add_trusted_keys(tmp_path, "acme", (second,))
    assert read_trusted_keys(tmp_path) == {"acme": {first, second}}
    assert (tmp_path / NAME).stat().st_mode & 0o077 == 0
    with pytest.raises(UsageError):
        add_trusted_keys(tmp_path, "acme", ("no key",))
    (tmp_path / NAME).write_text("{")
    with pytest.raises(Unreadable):
        read_trusted_keys(tmp_path)
