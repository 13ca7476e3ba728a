"""Administrators, tokens and keys of devices, as people use them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Ran, Run
from unspool.testing.build import assistant, session, user


class Team:
    """An administrator, a machine, a store and a lake, each with folders of their own."""

    def __init__(self, run: Run, folder: Path) -> None:
        self._run, self.folder = run, folder
        self.url, self.root = (folder / "segments").as_uri(), folder / ".claude"
        (folder / "segments").mkdir()
        session(user("tide"), assistant("low")).save(self.root)
        assert run("lake", "init", folder / "lake").code == 0

    def admin(self, *words: str | Path, by: str = "administrator") -> Ran:
        """Run a command of an administrator."""
        command = ("lake", "admin", words[0], "--lake", self.folder / "lake", *words[1:])
        return self._run(*command, UNSPOOL_HOME=str(self.folder / by))

    def collect(self, *words: str | Path, on: str = "machine", **environment: str) -> Ran:
        """Run a collector on a machine."""
        command = ("collect", *words, "--to", self.url, "--config-dir", self.root)
        return self._run(*command, UNSPOOL_HOME=str(self.folder / on), **environment)

    def ingest(self) -> Ran:
        """Ingest what there is."""
        return self._run("lake", "ingest", "--from", self.url, "--to", self.folder / "lake")


@pytest.fixture
def team(run: Run, tmp_path: Path) -> Team:
    team = Team(run, tmp_path)
    assert team.admin("init", "--org", "acme").code == 0
    return team


def test_from_a_token_to_a_revocation(team: Team, run: Run, tmp_path: Path) -> None:
    token = tmp_path / "token"
    made = team.admin("enrol", "--org", "acme", "--user", "ada", "--device", "laptop", "-o", token, "--json")
    assert json.loads(made.out)["token"] is None
    assert token.stat().st_mode & 0o777 == 0o600
    enrolled = team.collect("enrol", "--token-file", token)
    assert (enrolled.code, enrolled.out.split()[:6]) == (0, ["org", "acme", "user", "ada", "device", "laptop"])
    # A second machine with the same token is refused, and has not become the device.
    again = team.collect("enrol", "--token-file", token, on="other")
    assert (again.code, again.out) == (5, "")
    assert "another key is registered" in again.err
    assert not (tmp_path / "other" / "enrolment.json").exists()
    assert team.collect("--once").code == 0
    waiting = team.ingest()
    assert (waiting.code, waiting.err.count("a key that no administrator has accepted")) == (4, 1)
    accepted = team.admin("accept", "--org", "acme", "--from", team.url)
    assert (accepted.code, accepted.out) == (0, "acme/laptop  ada\n")
    assert team.ingest().out.startswith("2 lines of 1 segment")
    rotated = team.collect("rotate-key")
    assert (rotated.code, rotated.out) == (0, "key 2 signs from segment 2 on\n")
    session(user("moon"), assistant("full")).save(team.root)
    assert team.collect("--once").code == 0
    assert team.ingest().out.startswith("2 lines of 1 segment")
    assert run("lake", "verify", "--lake", tmp_path / "lake", "--from", team.url, "--full").code == 0
    revoked = team.admin("revoke", "acme/laptop", "--from", team.url)
    assert (revoked.code, revoked.out) == (0, "acme/laptop is revoked from segment 3 on\n")
    refused = team.collect("--once")
    assert (refused.code, refused.err.splitlines()[0]) == (5, "unspool: device `laptop` of `acme` was revoked")
    shown = team.admin("show", "--org", "acme")
    assert shown.out.splitlines()[-1].split()[:3] == ["laptop", "ada", "1"]
    used = team.admin("enrol", "--org", "acme", "--user", "ada", "--device", "laptop")
    assert (used.code, used.out) == (5, "")


def test_a_token_in_the_environment_counts_too_and_is_in_no_message(team: Team) -> None:
    token = team.admin("enrol", "--org", "acme", "--user", "ada").out.strip()
    assert token.startswith("unspool-token-1.")
    spoiled = team.collect("enrol", UNSPOOL_TOKEN=token[:-9])
    assert (spoiled.code, spoiled.out) == (4, "")
    assert spoiled.err.startswith("unspool: damaged enrolment token\n")
    done = team.collect("enrol", "--json", UNSPOOL_TOKEN=token)
    assert json.loads(done.out)["user"] == "ada"
    assert token not in done.out + done.err


def test_a_key_that_was_not_handed_over_is_handed_over_by_the_next_run(team: Team, tmp_path: Path) -> None:
    token = team.admin("enrol", "--org", "acme", "--user", "ada", "--device", "laptop").out.strip()
    assert team.collect("enrol", UNSPOOL_TOKEN=token).code == 0
    registration = tmp_path / "segments" / "enrolments" / "acme" / "laptop" / "000001.json"
    data = registration.read_bytes()
    # As if the process had been killed before.
    registration.unlink()
    assert team.collect("--once").code == 0
    assert registration.read_bytes() == data
    assert team.admin("accept", "--org", "acme", "--from", team.url).code == 0


def test_a_token_that_others_can_read_is_refused(team: Team, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("unspool-token-1.x")
    (tmp_path / "token").chmod(0o644)
    refused = team.collect("enrol", "--token-file", tmp_path / "token")
    assert (refused.code, "contains a token" in refused.err) == (5, True)


def test_a_token_for_another_action_is_not_ignored(team: Team, tmp_path: Path) -> None:
    refused = team.collect("--once", "--token-file", tmp_path / "token")
    assert (refused.code, refused.err.splitlines()[0]) == (2, "unspool: --token-file is for `collect enrol`")


def test_a_second_administrator_is_added_by_the_first(team: Team, run: Run, tmp_path: Path) -> None:
    alone = team.admin("init", "--org", "acme", by="second")
    assert (alone.code, "one of them adds your key" in alone.err) == (5, True)
    key = run("lake", "admin", "key", "--org", "acme", UNSPOOL_HOME=str(tmp_path / "second")).out.strip()
    assert team.admin("enrol", "--org", "acme", "--user", "bob", by="second").code == 5
    assert team.admin("add", "--org", "acme", "--key", key).code == 0
    first = json.loads(team.admin("show", "--org", "acme", "--json").out)
    assert (len(first["administrators"]), key in first["administrators"]) == (2, True)
    removed = team.admin("remove", "--org", "acme", "--key", first["key"], by="second")
    assert removed.out.count("administrator") == 1
    gone = team.admin("require-keys", "--org", "acme")
    assert (gone.code, gone.out) == (5, "")


def test_bindings_are_signed_and_changed_ones_stop_ingest_and_verify(team: Team, run: Run, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    bind = ("lake", "users", "--lake", lake, "--set", "acme/laptop=ada")
    assert run(*bind, UNSPOOL_HOME=str(tmp_path / "administrator")).out == "acme/laptop  ada\n"
    stranger = run(*bind, UNSPOOL_HOME=str(tmp_path / "stranger"))
    assert (stranger.code, stranger.err.splitlines()[0].split("`")[0]) == (3, "unspool: no administrator key of ")
    users = lake / "users.json"
    users.write_bytes(users.read_bytes().replace(b"ada", b"eve"))
    for command in (("ingest", "--to"), ("verify", "--lake")):
        refused = run("lake", command[0], command[1], lake, "--from", team.url)
        assert (refused.code, refused.out) == (5, "")
        assert "is not signed by a trusted administrator" in refused.err.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("revoke", "laptop"), 2),
        (("revoke", "acme/laptop", "--now", "--from-segment", "3"), 2),
        (("enrol", "--org", "acme", "--user", "ada", "--device", "../x"), 2),
        (("show", "--org", "umbrella"), 3),
        (("enrol", "--org", "umbrella", "--user", "ada"), 3),
        (("remove", "--org", "acme", "--key", "x"), 5),
    ],
)
def test_a_wrong_request_is_said_in_one_line(team: Team, words: tuple[str, ...], code: int) -> None:
    done = team.admin(*words)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("unspool: ")
    assert done.err.count("\n") <= 2


def test_a_key_cannot_be_rotated_before_there_is_one(team: Team) -> None:
    assert team.collect("enrol").code == 0
    refused = team.collect("rotate-key")
    assert (refused.code, refused.err.splitlines()[0].endswith(" has no key")) == (5, True)


def test_a_machine_without_a_key_gets_one_and_signs_from_its_next_segment_on(team: Team, tmp_path: Path) -> None:
    device = json.loads(team.collect("enrol", "--org", "acme", "--user", "ada", "--json").out)["device"]
    assert team.collect("--once").code == 0
    token = tmp_path / "token"
    team.admin("enrol", "--org", "acme", "--user", "ada", "--device", device, "-o", token)
    assert team.collect("enrol", "--token-file", token).code == 0
    (record,) = json.loads(team.admin("accept", "--org", "acme", "--from", team.url, "--json").out)["accepted"]
    assert (record["device"], record["from_segment"]) == (device, 2)
    session(user("moon"), assistant("full")).save(team.root)
    assert team.collect("--once").code == 0
    assert team.ingest().out.startswith("4 lines of 2 segments")


def test_numbers_that_are_none_and_names_that_cannot_be_used_are_refused(team: Team, run: Run, tmp_path: Path) -> None:
    enrol, lake = ("enrol", "--org", "acme", "--user"), tmp_path / "lake"
    for words in (("ada", "--hours", "nan"), ("ada", "--hours", "inf"), ("",), ("  ",), ("a" * 201,)):
        refused = team.admin(*enrol, *words)
        assert (refused.code, refused.out, "Traceback" in refused.err) == (2, "", False), words
    keep = run("lake", "forget", "--lake", lake, "--from", team.url, "--keep", "99999999")
    assert (keep.code, "Traceback" in keep.err) == (2, False)
    follow = run("lake", "ingest", "--to", lake, "--from", team.url, "--follow", "--every", "nan")
    assert (follow.code, "Traceback" in follow.err) == (2, False)
    outside = run("lake", "forget", "--lake", lake, "--from", team.url, "--device", "acme/..", "--yes")
    assert (outside.code, outside.err.count("cannot have this")) == (6, 1)
