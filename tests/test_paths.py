"""Names to paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.errors import NotFound, Refused
from unspool.paths import agent_file, config_folder, join_names, project_key, resolve_existing, session_file

ID = "11111111-1111-4111-8111-111111111111"


@pytest.mark.parametrize(
    ("cwd", "key"),
    [
        ("/home/me/work", "-home-me-work"),
        ("/home/me/a.b c_d", "-home-me-a-b-c-d"),
        ("/x/é日", "-x---"),
        ("/x/😀", "-x---"),
        ("C:\\Users\\me", "C--Users-me"),
        ("/" + "a" * 199, "-" + "a" * 199),
    ],
)
def test_every_character_but_letters_and_digits_becomes_a_dash(cwd: str, key: str) -> None:
    assert project_key(cwd) == key


def test_a_long_key_is_cut_and_gets_a_hash() -> None:
    # As Java hashes the string: 31 * h + c in 32 bits; here worked out by hand for a repeated letter.
    key = project_key("/" + "a" * 200)
    assert key.startswith("-" + "a" * 199 + "-")
    assert len(key) <= 200 + 1 + 7


def test_the_config_folder_is_the_one_given_then_the_environments_then_home() -> None:
    environment = {"HOME": "/home/me", "CLAUDE_CONFIG_DIR": "/etc/claude"}
    assert config_folder("/x", environment) == Path("/x")
    assert config_folder(None, environment) == Path("/etc/claude")
    assert config_folder(None, {"HOME": "/home/me"}) == Path("/home/me/.claude")
    assert config_folder(None, {}).name == ".claude"


def test_a_session_file_lies_in_its_project(tmp_path: Path) -> None:
    assert session_file(tmp_path, "-a", ID) == tmp_path / "projects" / "-a" / f"{ID}.jsonl"
    assert agent_file(tmp_path, "-a", ID, "a1") == tmp_path / "projects" / "-a" / ID / "subagents" / "agent-a1.jsonl"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\0b", "..\\x", "../../etc/passwd"])
def test_only_a_plain_name_becomes_part_of_a_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused):
        join_names(tmp_path, name)
    with pytest.raises(Refused):
        session_file(tmp_path, name, ID)


@pytest.mark.parametrize("name", ["", "x", "../" + ID, ID + "/..", ID + "\0", ID + "\n", ID.replace("1", "g")])
def test_a_session_id_is_a_uuid(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="invalid session id"):
        session_file(tmp_path, "-a", name)


@pytest.mark.parametrize("name", ["", "../a", "a/b", "-a", "a.b", "a\n", "a" * 200])
def test_an_agent_id_is_a_word(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match="invalid agent id"):
        agent_file(tmp_path, "-a", ID, name)


def test_a_path_a_person_names_must_exist_and_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert resolve_existing(tmp_path / "link") == tmp_path.resolve()
    for gone in (tmp_path / "gone", tmp_path / ".claude", Path("a\0b")):
        with pytest.raises(NotFound) as error:
            resolve_existing(gone)
        assert error.value.hint
    (tmp_path / "round").symlink_to(tmp_path / "round")
    with pytest.raises(NotFound):
        resolve_existing(tmp_path / "round")
