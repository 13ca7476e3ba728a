"""No attack on the permission check passes without a question, in any mode."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.client.permissions.attacks import AGAINST_DENIALS, ALLOWED, DENIED, SEEN, make_world, read_attacks
from unspool.client.permissions.policy import PermissionPolicy
from unspool.client.permissions.settings import load_settings
from unspool.client.tool_context import ToolContext, Workspace


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a project with what the attacks name."""
    place = tmp_path_factory.mktemp("world")
    make_world(place)
    (place / "config").mkdir()
    return place


def judge(
    world: Path, command: str, mode: str = "default", *, trusted: bool = True, first: str = "", **rules: tuple[str, ...]
) -> str:
    """Return what is decided about a command; `first` is the first folder on `PATH`."""
    search_path = f"{first}:{os.environ['PATH']}" if first else os.environ["PATH"]
    root = world / "project"
    config = world / "config"
    loaded = load_settings(
        config, root, trusted=trusted, allowed=rules.get("allowed", ()), disallowed=rules.get("denied", ())
    )
    context = ToolContext(
        Workspace(config, config / "projects" / "p", "s", root), {"HOME": str(world), "PATH": search_path}
    )
    context.mode = mode
    return PermissionPolicy(loaded, root=root, trusted=trusted).judge("Bash", {"command": command}, context).behaviour


ATTACKS = read_attacks()


def test_there_are_as_many_attacks_as_promised() -> None:
    found = [attack for attacks in ATTACKS.values() for attack in attacks]
    assert len({*found}) == len(found) >= 400
    assert all(len(attacks) >= 15 for attacks in ATTACKS.values())


@pytest.mark.parametrize("mode", ["default", "plan", "dontAsk"])
@pytest.mark.parametrize("kind", ATTACKS)
def test_an_attack_asks_or_is_denied(world: Path, kind: str, mode: str) -> None:
    assert [attack for attack in ATTACKS[kind] if judge(world, attack, mode) == "allow"] == []


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "plan", "dontAsk"])
def test_what_once_ran_without_a_question_asks_or_is_denied(world: Path, mode: str) -> None:
    for trusted in (True, False):
        assert [attack for attack in SEEN if judge(world, attack, mode, trusted=trusted) == "allow"] == []


@pytest.mark.parametrize("kind", ATTACKS)
def test_where_edits_are_accepted_no_attack_reaches_out_of_the_project(world: Path, kind: str) -> None:
    # A file inside the project may be made in this mode, so each attack makes one outside.
    outside = [attack.replace("pwned", "../pwned") for attack in ATTACKS[kind] if attack != "echo x > out"]
    assert [attack for attack in outside if judge(world, attack, "acceptEdits") == "allow"] == []


@pytest.mark.parametrize("command", AGAINST_DENIALS)
@pytest.mark.parametrize("mode", ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"])
def test_a_denial_holds_for_all_that_a_word_may_become(world: Path, mode: str, command: str) -> None:
    assert judge(world, command, mode, allowed=ALLOWED, denied=DENIED) != "allow"


@pytest.mark.parametrize(
    "command",
    ["cat a src/*.py", "git log --oneline", "git checkout {main,dev}", "sed -n 1p a", "echo x > out", "cat $HOME"],
)
def test_a_denial_leaves_the_rest_alone(world: Path, command: str) -> None:
    denied = ("Bash(rm:*)", "Bash(git push:*)")
    assert judge(world, command, "bypassPermissions", denied=denied) == "allow"


def test_a_file_is_not_copied_to_where_a_link_leads(world: Path) -> None:
    for command in ("cp src/evil d", "mv src/evil d", "cp src/evil d/", "cp a b src/evil d", "cp src/evil d/evil"):
        assert judge(world, command, "acceptEdits") == "ask", command
    assert judge(world, "cp src/evil src/d2", "acceptEdits") == "allow"
    assert judge(world, "cp src/a.py d", "acceptEdits") == "allow"


def test_a_file_whose_name_is_an_option_is_not_one(world: Path) -> None:
    root = world / "project"
    planted = [root / "src" / name for name in ("--pre=.evil", "-opwned", "-fprint")]
    for path in planted:
        path.write_text("x\n")
    try:
        for command in ("cd src && sort *", "cd src && cat -*", "cd src && rg x *", "cd src && find * -name x"):
            assert judge(world, command) == "ask", command
        assert judge(world, "cat src/*") == "ask"  # also because of the link
    finally:
        for path in planted:
            path.unlink()


def test_a_wrapper_does_not_run_the_builtin_but_the_file_that_the_project_has_of_that_name(world: Path) -> None:
    place = world / "project" / "d"
    for name in ("echo", "time", "pwd"):
        (place / name).write_text("touch pwned\n")
        (place / name).chmod(0o755)
    try:
        for command in ("timeout 5 echo x", "nice pwd", "timeout 1 time ls", "time ls"):
            assert judge(world, command, first=str(place)) == "ask", command
            assert judge(world, command) == "allow", command
        assert judge(world, "echo x; pwd", first=str(place)) == "allow"
    finally:
        for name in ("echo", "time", "pwd"):
            (place / name).unlink()


@pytest.mark.parametrize("folder", [".pyenv/shims", ".asdf/shims", ".volta/bin"])
def test_the_shim_of_a_version_manager_is_not_the_program(world: Path, folder: str) -> None:
    place = world / folder  # which program it runs, a file of the project says
    place.mkdir(parents=True)
    (place / "node").write_text("")
    assert judge(world, "node --version", first=str(place)) == "ask"
    assert judge(world, "node --version", first="/nowhere") == "allow"


@pytest.mark.parametrize("command", ["cat *\ud800", "cat \ud800*", "cat '\ud800'", "ls \ud800/*"])
def test_half_a_character_asks_and_is_no_error(world: Path, command: str) -> None:
    assert judge(world, command) == "ask"
