"""Signatures: only what a trusted key has signed, for its purpose, is taken."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.collect.trust import (
    create_administrator_key,
    is_signed,
    make_signing_key,
    open_document,
    public_key,
    read_administrator_key,
    sign_bytes,
    sign_document,
)
from unspool.errors import NotFound, Refused, Unreadable, UnspoolError, UsageError

KEY = make_signing_key()
TRUSTED = frozenset({public_key(KEY)})


def open_body(data: bytes, kind: str = "users") -> dict[str, str]:
    return open_document(data, kind, TRUSTED, dict[str, str], name="users.json")


def test_a_signed_document_gives_its_body() -> None:
    assert open_body(sign_document(KEY, "users", {"a/b": "me"})) == {"a/b": "me"}


def test_a_document_of_another_key_is_refused() -> None:
    with pytest.raises(Refused, match="not signed by a trusted administrator"):
        open_body(sign_document(make_signing_key(), "users", {}))


def test_a_document_that_names_a_trusted_key_but_is_signed_by_another_is_refused() -> None:
    document = msgspec.json.decode(sign_document(make_signing_key(), "users", {}))
    document["key"] = public_key(KEY)
    with pytest.raises(Refused):
        open_body(msgspec.json.encode(document))


def test_a_document_of_another_kind_is_not_taken_even_under_a_new_name() -> None:
    document = msgspec.json.decode(sign_document(KEY, "tombstone", {}))
    with pytest.raises(Unreadable, match="not a document of the kind `users`"):
        open_body(msgspec.json.encode(document))
    document["unspool"] = "users"
    with pytest.raises(Refused):
        open_body(msgspec.json.encode(document))


def test_a_signed_body_of_another_shape_is_unreadable() -> None:
    with pytest.raises(Unreadable):
        open_body(sign_document(KEY, "users", ["a"]))


@given(st.data())
def test_no_changed_document_gives_another_body(data: st.DataObject) -> None:
    document = bytearray(sign_document(KEY, "users", {"a/b": "me"}))
    place = data.draw(st.integers(0, len(document) - 1))
    document[place] = data.draw(st.integers(0, 255))
    with suppress(UnspoolError):
        assert open_body(bytes(document)) == {"a/b": "me"}


@given(st.binary(), st.text(), st.text())
def test_nonsense_is_no_signature(data: bytes, key: str, signature: str) -> None:
    assert not is_signed(key, "x", data, signature)
    assert not is_signed(public_key(KEY), "x", data, signature)


@given(st.binary(), st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_signature_holds_for_its_bytes_and_purpose_only(data: bytes, purpose: str) -> None:
    signature = sign_bytes(KEY, purpose, data)
    assert is_signed(public_key(KEY), purpose, data, signature)
    assert not is_signed(public_key(KEY), purpose, data + b"x", signature)
    assert not is_signed(public_key(KEY), purpose + "x", data, signature)


def test_the_key_of_an_administrator_is_created_once_and_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    key = create_administrator_key(folder, "acme")
    assert read_administrator_key(folder, "acme") == key
    assert (folder / "administrator-acme.json").stat().st_mode & 0o777 == 0o600
    assert key.private_key not in repr(key)
    with pytest.raises(Refused, match="exists already"):
        create_administrator_key(folder, "acme")


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    create_administrator_key(tmp_path, "acme")
    (tmp_path / "administrator-acme.json").chmod(0o644)
    with pytest.raises(Refused, match="other users can read"):
        read_administrator_key(tmp_path, "acme")


def test_a_missing_damaged_or_foreign_key_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no administrator key of `acme`"):
        read_administrator_key(tmp_path, "acme")
    create_administrator_key(tmp_path, "acme")
    (tmp_path / "administrator-acme.json").rename(tmp_path / "administrator-other.json")
    with pytest.raises(Unreadable):
        read_administrator_key(tmp_path, "other")
    with pytest.raises(UsageError, match="invalid org name"):
        read_administrator_key(tmp_path, "../acme")
