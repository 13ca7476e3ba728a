"""`unspool statusline install`: shown before it is done, taken back byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Run
from unspool.format import json_edit
from unspool.statusline import claude_settings

OWN = b'{\n   "model": "opus", "env": {"TOKEN": "s"},\n   "hooks": {}\n}'
OTHER = b'{"statusLine": {"type": "command", "command": "~/bin/line.sh", "padding": 0}, "model": "opus"}\n'
COMMAND = "/opt/unspool/bin/unspool statusline"
members: st.SearchStrategy[dict[str, object]] = st.dictionaries(
    st.sampled_from(["model", "env", "hooks", "x"]), st.sampled_from([1, "a", {}, [1], None])
)
layouts = st.sampled_from([None, 1, 2, "\t"])


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    (tmp_path / "claude" / "projects").mkdir(parents=True)
    return tmp_path / "claude" / "settings.json"


def test_it_is_shown_installed_and_taken_back_byte_for_byte(run: Run, settings: Path) -> None:
    settings.write_bytes(OWN)
    done = run("statusline", "install", "--yes", "--config-dir", settings.parent)
    assert (done.code, done.err) == (0, "")
    assert '+   "statusLine": {' in done.out
    value = json.loads(settings.read_bytes())["statusLine"]
    assert value["type"] == "command"
    assert value["command"].endswith("statusline")
    assert "installed" in run("statusline", "status", "--config-dir", settings.parent).out
    assert run("statusline", "uninstall", "--yes", "--config-dir", settings.parent).code == 0
    assert settings.read_bytes() == OWN
    assert sorted(path.name for path in settings.parent.iterdir()) == ["projects", "settings.json"]


def test_without_settings_there_are_none_afterwards(run: Run, settings: Path) -> None:
    assert run("statusline", "install", "--yes", "--config-dir", settings.parent).code == 0
    assert run("statusline", "uninstall", "--yes", "--config-dir", settings.parent).code == 0
    assert [path.name for path in settings.parent.iterdir()] == ["projects"]


def test_installing_twice_changes_nothing(run: Run, settings: Path) -> None:
    run("statusline", "install", "--yes", "--config-dir", settings.parent)
    before = settings.read_bytes()
    assert "already installed" in run("statusline", "install", "--yes", "--config-dir", settings.parent).out
    assert settings.read_bytes() == before


def test_the_status_line_of_another_program_is_replaced_only_if_asked_for_and_comes_back(
    run: Run, settings: Path
) -> None:
    settings.write_bytes(OTHER)
    done = run("statusline", "install", "--yes", "--config-dir", settings.parent)
    assert done.code == 5
    assert "--replace" in done.err
    assert settings.read_bytes() == OTHER
    assert run("statusline", "install", "--replace", "--yes", "--config-dir", settings.parent).code == 0
    assert run("statusline", "uninstall", "--yes", "--config-dir", settings.parent).code == 0
    assert settings.read_bytes() == OTHER


def test_what_has_changed_meanwhile_stays(run: Run, settings: Path) -> None:
    settings.write_bytes(OTHER)
    run("statusline", "install", "--replace", "--yes", "--config-dir", settings.parent)
    settings.write_bytes(settings.read_bytes().replace(b'"opus"', b'"sonnet"'))
    run("statusline", "uninstall", "--yes", "--config-dir", settings.parent)
    assert settings.read_bytes() == OTHER.replace(b'"opus"', b'"sonnet"')


def test_nothing_is_changed_without_a_yes(run: Run, settings: Path) -> None:
    settings.write_bytes(OWN)
    assert run("statusline", "install", "--config-dir", settings.parent).code == 5
    assert settings.read_bytes() == OWN


def test_there_is_nothing_to_remove_where_nothing_was_installed(run: Run, settings: Path) -> None:
    settings.write_bytes(OTHER)
    assert run("statusline", "uninstall", "--yes", "--config-dir", settings.parent).code == 1
    assert settings.read_bytes() == OTHER


@pytest.mark.parametrize("document", [b"{", b"[]", b'{"a": 1} // x'])
def test_settings_that_are_no_object_are_refused(run: Run, settings: Path, document: bytes) -> None:
    settings.write_bytes(document)
    assert run("statusline", "install", "--yes", "--config-dir", settings.parent).code == 5
    assert settings.read_bytes() == document


def test_hooks_and_status_line_may_come_and_go_in_any_order(run: Run, settings: Path) -> None:
    settings.write_bytes(b'{\n  "model": "opus"\n}\n')
    for command in ("hooks install", "statusline install", "hooks remove", "statusline uninstall"):
        assert run(*command.split(), "--yes", "--config-dir", settings.parent).code == 0
    assert settings.read_bytes() == b'{\n  "model": "opus"\n}\n'


@given(members, layouts, st.booleans())
def test_what_is_added_and_removed_leaves_every_byte(
    values: dict[str, object], indent: int | str | None, has_other: bool
) -> None:
    if has_other:
        values = {**values, "statusLine": {"type": "command", "command": "other"}}
    before = json.dumps(values, indent=indent).encode()
    after = claude_settings.add_status_line(before, COMMAND)
    assert json.loads(after) == {**values, "statusLine": {"type": "command", "command": COMMAND}}
    assert claude_settings.remove_status_line(after, before) == before
    grown = json_edit.patch(after, {("new",): 1})
    undone = claude_settings.remove_status_line(grown, before)
    assert undone is not None
    assert json.loads(undone) == {**values, "new": 1}


@pytest.mark.parametrize(
    ("command", "is_ours"),
    [
        (COMMAND, True),
        ("'/a b/bin/unspool' statusline", True),
        ("/usr/bin/python3 -P -m unspool statusline", True),
        ("unspool statusline --config-dir x", True),
        ("ccusage statusline", False),
        ("unspool ls", False),
        (7, False),
    ],
)
def test_ours_is_known_by_its_command(command: object, is_ours: bool) -> None:
    assert claude_settings.is_our_status_line({"type": "command", "command": command}) is is_ours


def test_fields_are_listed(run: Run) -> None:
    assert "{context_left_percent}" in run("statusline", "fields").out
