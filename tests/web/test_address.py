"""The address that the page is served from: one of its own, kept, and what takes its place where there is none."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.serving import serving
from unspool.testing.build import session, user
from unspool.web import address
from unspool.web.address import ADDRESS_FILE, choose_address, is_private_loopback, read_address


def test_an_address_is_random_and_none_that_systems_use() -> None:
    chosen = [choose_address() for _ in range(2000)]
    assert all(map(is_private_loopback, chosen))
    assert len({*chosen}) > 1990
    assert len({one.split(".")[1] for one in chosen}) > 200


@pytest.mark.parametrize(
    "other", ["127.0.0.1", "127.0.1.1", "127.0.0.53", "127.5.5.0", "127.5.5.255", "10.1.1.1", "::1", "localhost", ""]
)
def test_other_addresses_are_not_ours(other: str) -> None:
    assert not is_private_loopback(other)


def test_it_is_chosen_once_for_each_data_folder_and_kept_for_the_user_alone(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    chosen = read_address(first)
    assert chosen == read_address(first)
    assert chosen[1]
    assert read_address(second)[0] != chosen[0]
    assert stat.S_IMODE((first / ADDRESS_FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(first.stat().st_mode) == 0o700


@pytest.mark.parametrize("held", [b"", b"127.0.0.1\n", b"0.0.0.0", b"\xff" * 100, b"127.1.1.1.example.com", b"1" * 99])
def test_a_file_that_names_no_such_address_is_replaced(tmp_path: Path, held: bytes) -> None:
    (tmp_path / ADDRESS_FILE).write_bytes(held)
    chosen, is_kept = read_address(tmp_path)
    assert is_private_loopback(chosen)
    assert (chosen, is_kept) == read_address(tmp_path)


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("127.9.9.9\n")
    (tmp_path / ADDRESS_FILE).symlink_to(other)
    assert read_address(tmp_path)[1]
    assert not (tmp_path / ADDRESS_FILE).is_symlink()
    assert other.read_text() == "127.9.9.9\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_gives_an_address_for_once(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    chosen, is_kept = read_address(tmp_path)
    assert is_private_loopback(chosen)
    assert not is_kept


def test_without_such_addresses_a_name_of_this_machine_is_used_and_else_the_shared_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, _ = read_address(tmp_path)
    assert address.find_address(tmp_path) == (own, own, None)
    # A system that has 127.0.0.1 alone, as macOS does.
    monkeypatch.setattr(address, "can_bind", lambda _: False)
    monkeypatch.setattr(address, "resolves_to_this_machine", lambda name: name.endswith(".localhost"))
    named = address.find_address(tmp_path)
    assert named.bind == "127.0.0.1"
    assert named.host == address.local_name(own)
    assert named.note
    monkeypatch.setattr(address, "resolves_to_this_machine", lambda _: False)
    shared = address.find_address(tmp_path)
    assert (shared.bind, shared.host) == ("127.0.0.1", "127.0.0.1")
    assert shared.note is not None
    assert "other servers on that address" in shared.note


def test_a_name_that_leads_elsewhere_is_not_this_machine() -> None:
    assert address.resolves_to_this_machine("localhost") == address.resolves_to_this_machine("127.0.0.1") is True
    assert not address.resolves_to_this_machine("192.0.2.1")
    assert not address.resolves_to_this_machine("x" * 300)


def test_two_servers_of_a_folder_have_one_address_and_of_another_folder_another(tmp_path: Path) -> None:
    config = tmp_path / "claude"
    session(user("hello")).save(config)
    with serving(config, home=tmp_path / "a") as one, serving(config, home=tmp_path / "a") as two:
        assert one.host == two.host
        assert is_private_loopback(one.host)
        with serving(config, home=tmp_path / "b") as three:
            assert three.host != one.host
    with serving(config, home=tmp_path / "a") as again:
        assert again.host == one.host
