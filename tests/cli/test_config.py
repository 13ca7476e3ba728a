"""`unspool config`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.cli.conftest import Ran, Run


@pytest.fixture
def config(run: Run, tmp_path: Path) -> Callable[..., Ran]:
    """Return a function that runs `unspool config` in a data folder of the test's own."""
    return lambda *arguments: run("config", *arguments, UNSPOOL_HOME=str(tmp_path / "own"))


def test_the_settings_are_listed_with_their_defaults(config: Callable[..., Ran], tmp_path: Path) -> None:
    done = config()
    assert (done.code, done.err) == (0, "")
    assert done.out.replace(str(tmp_path), "TMP") == snapshot("""\
setting                  value  default  meaning
archive                  on     on       keep a compressed copy of all lines after Claude Code dele…
timezone                 local  local    time zone of days and hours: `Europe/Berlin`, `UTC`, `+05:…
background               on     on       continue the first sync of a large folder in the background
indexing                 on     on       keep a word index for fast searches
statusline.template                      template of `unspool statusline`
limits.five_hour_cost                    limit of a 5-hour window in dollars; learned if it is not…
limits.five_hour_tokens                  limit of a 5-hour window in tokens; learned if it is not s…
prices.MODEL                             dollars a million tokens: {"input": 3, "output": 15}
no settings changed; TMP/own/settings.json does not exist yet
""")
    assert not (tmp_path / "own").exists()


def test_what_was_set_is_listed_and_printed(config: Callable[..., Ran], tmp_path: Path) -> None:
    for key, value in (("archive", "off"), ("timezone", "-05:30"), ("prices.glm-4.7", '{"input": 0.6, "output": 2}')):
        assert config(key, value) == (0, "", "")
    assert config("archive").out == "off\n"
    assert config("background").out == "on\n"
    assert config("timezone").out == "-05:30\n"
    assert json.loads(config("prices.glm-4.7").out) == {"input": 0.6, "output": 2}
    assert config().out.replace(str(tmp_path), "TMP") == snapshot("""\
setting                  value                        default  meaning
archive                  off                          on       keep a compressed copy of all lines…
timezone                 -05:30                       local    time zone of days and hours: `Europe…
background               on                           on       continue the first sync of a large f…
indexing                 on                           on       keep a word index for fast searches
statusline.template                                            template of `unspool statusline`
limits.five_hour_cost                                          limit of a 5-hour window in dollars;…
limits.five_hour_tokens                                        limit of a 5-hour window in tokens;…
prices.glm-4.7           {"input": 0.6, "output": 2}           dollars a million tokens: {"input":…
in TMP/own/settings.json
""")


def test_the_json_has_values_defaults_and_meanings(config: Callable[..., Ran], tmp_path: Path) -> None:
    config("background", "off")
    data = json.loads(config("--json").out)
    assert data["file"] == str(tmp_path / "own" / "settings.json")
    assert [(row["key"], row["value"], row["default"]) for row in data["settings"]] == [
        ("archive", True, True),
        ("timezone", "local", "local"),
        ("background", False, True),
        ("indexing", True, True),
        ("statusline.template", None, None),
        ("limits.five_hour_cost", None, None),
        ("limits.five_hour_tokens", None, None),
    ]
    assert all(row["meaning"] for row in data["settings"])
    assert json.loads(config("background", "--json").out) == {
        "schema": "unspool/config-key/1",
        **data["settings"][2],
    }


def test_unset_brings_the_default_back(config: Callable[..., Ran]) -> None:
    config("archive", "off")
    assert config("--unset", "archive") == (0, "", "")
    assert config("archive").out == "on\n"


def test_keys_of_another_version_are_named(config: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "settings.json").write_text('{"new\\u001b[2J": 1, "archive": false}')
    assert config().out.splitlines()[-1] == "unknown to this version, kept: new"
    assert json.loads(config("--json").out)["unknown"] == ["new\x1b[2J"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            ["colour"],
            2,
            snapshot("""\
unspool: unknown setting `colour`
hint: list the settings with `unspool config`
"""),
        ),
        (
            ["colour", "on"],
            2,
            snapshot("""\
unspool: unknown setting `colour`
hint: list the settings with `unspool config`
"""),
        ),
        (
            ["--nope"],
            2,
            snapshot("""\
unspool: unknown setting `--nope`
hint: list the settings with `unspool config`
"""),
        ),
        (
            ["archive", "maybe"],
            2,
            snapshot("""\
unspool: `archive` cannot be set to `maybe`
hint: use `on` or `off`
"""),
        ),
        (
            ["timezone", "Mars/Olympus"],
            2,
            snapshot("""\
unspool: unknown time zone `Mars/Olympus`
hint: a name as Europe/Berlin, `UTC`, an offset as +05:30, or `local`
"""),
        ),
        (
            ["prices.a", "3"],
            2,
            snapshot("""\
unspool: invalid price: `3`
hint: write it as JSON, in quotes: '{"input": 3, "output": 15}'
"""),
        ),
        (
            ["prices.a", '{"input": 3}'],
            2,
            snapshot("""\
unspool: the price of `a` lacks `output`
hint: give `input` and `output`, or both `long_` ones
"""),
        ),
        (
            ["prices.a"],
            1,
            snapshot("""\
unspool: `prices.a` is not set
hint: list settings with `unspool config`; built-in prices are in effect
"""),
        ),
        (
            ["--unset", "colour"],
            2,
            snapshot("""\
unspool: unknown setting `colour`
hint: list the settings with `unspool config`
"""),
        ),
        (
            ["archive", "--unset", "archive"],
            2,
            snapshot("""\
unspool: --unset takes one key and no value
hint: use `unspool config --unset KEY`
"""),
        ),
    ],
)
def test_a_wrong_key_or_value_is_one_line_and_a_hint(
    config: Callable[..., Ran], arguments: list[str], code: int, words: str
) -> None:
    assert config(*arguments) == (code, "", words)


def test_a_damaged_file_is_named_by_every_command_that_needs_it(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "own" / "settings.json"
    path.parent.mkdir()
    path.write_text("{")
    for command in (["config"], ["config", "archive"], ["config", "archive", "off"], ["usage"]):
        done = run(*command, UNSPOOL_HOME=str(path.parent))
        assert (done.code, done.out) == (4, "")
        assert f"hint: fix or delete `{path}`" in done.err
