"""Settings: the file, and changes of it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import json_values
from unspool.errors import Unreadable, UsageError
from unspool.paths import data_folder
from unspool.store.preferences import FILE_NAME, Preferences, change_preference, load_file, read_preferences

PRICE = '{"input": 3, "output": 15}'


def put(folder: Path, value: Any) -> Path:
    """Write a settings file."""
    folder.mkdir(exist_ok=True)
    path = folder / FILE_NAME
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_without_a_file_there_are_defaults(tmp_path: Path) -> None:
    assert read_preferences(tmp_path / "none") == read_preferences(tmp_path) == Preferences()
    assert Preferences() == (True, None, (), True, True, None, (None, None), ())


def test_what_is_set_is_read(tmp_path: Path) -> None:
    put(tmp_path, {"archive": False, "timezone": "Asia/Kolkata", "prices": {"glm": {"input": 1, "output": 2.5}}})
    found = read_preferences(tmp_path)
    assert found[:2] == (False, "Asia/Kolkata")
    assert found.background is True
    (price,) = found.prices
    assert (price.model, price.rates.input, price.rates.output, price.source) == (
        "glm",
        10_000,
        25_000,
        "your settings",
    )


def test_keys_of_another_version_are_named_and_kept(tmp_path: Path) -> None:
    path = put(tmp_path, {"zebra": [1.50, None], "archive": True, "apple": "ä"})
    assert read_preferences(tmp_path).unknown == ("apple", "zebra")
    change_preference(tmp_path, "archive", "off")
    assert json.loads(path.read_text()) == {"zebra": [1.50, None], "archive": False, "apple": "ä"}
    change_preference(tmp_path, "apple", None)
    assert read_preferences(tmp_path).unknown == ("zebra",)


@pytest.mark.parametrize(
    "damaged",
    ["", "{", "[]", '"archive"', "null", "[" * 100_000, '{"archive": "yes"}', '{"background": 1}', '{"timezone": 1}',
     '{"timezone": "Mars"}', '{"prices": []}', '{"prices": {"a": 1}}', '{"prices": {"a": {}}}', "\ud800"],
)  # fmt: skip
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, damaged: str) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(damaged.encode("utf-8", "surrogatepass"))
    with pytest.raises(Unreadable) as error:
        read_preferences(tmp_path)
    assert str(path) in (error.value.hint or "")
    assert path.read_bytes() == damaged.encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("damaged", ["", "{", "[]"])
def test_a_damaged_file_is_not_written_over(tmp_path: Path, damaged: str) -> None:
    path = put(tmp_path, damaged)
    with pytest.raises(Unreadable):
        change_preference(tmp_path, "archive", "off")
    assert path.read_text() == damaged


def test_prices_that_are_no_object_are_not_written_over(tmp_path: Path) -> None:
    put(tmp_path, {"prices": [1]})
    with pytest.raises(Unreadable):
        change_preference(tmp_path, "prices.a", PRICE)
    assert load_file(tmp_path) == {"prices": [1]}


def test_a_wrong_value_can_be_taken_out(tmp_path: Path) -> None:
    put(tmp_path, {"archive": "yes", "timezone": "UTC"})
    change_preference(tmp_path, "archive", None)
    assert read_preferences(tmp_path) == Preferences(timezone="UTC")


@given(st.dictionaries(st.sampled_from(["archive", "timezone", "prices", "background", "new"]), json_values))
def test_any_object_is_read_or_named_as_wrong(tmp_path_factory: pytest.TempPathFactory, value: dict[str, Any]) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / FILE_NAME).write_text(json.dumps(value))
    try:
        found = read_preferences(folder)
    except Unreadable:
        assert value.keys() & {"archive", "timezone", "prices", "background"}
        return
    assert set(found.unknown) <= set(value)


def test_a_change_is_read_back(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    change_preference(folder, "archive", "off")
    change_preference(folder, "background", "off")
    change_preference(folder, "timezone", "+05:30")
    change_preference(folder, "prices.claude-3.5-x", PRICE)
    found = read_preferences(folder)
    assert (found.archive, found.background, found.timezone) == (False, False, "+05:30")
    assert [price.model for price in found.prices] == ["claude-3.5-x"]
    for key in ("archive", "background", "timezone", "prices.claude-3.5-x"):
        change_preference(folder, key, None)
    assert read_preferences(folder) == Preferences()
    assert load_file(folder) == {}


def test_the_machines_own_zone_is_no_setting(tmp_path: Path) -> None:
    change_preference(tmp_path, "timezone", "UTC")
    change_preference(tmp_path, "timezone", "local")
    assert load_file(tmp_path) == {}


def test_taking_out_what_is_not_there_writes_nothing(tmp_path: Path) -> None:
    change_preference(tmp_path, "archive", None)
    change_preference(tmp_path, "prices.a", None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("nope", "on"), ("nope", None), ("", "on"), ("prices", PRICE), ("prices.", PRICE), ("prices.", None),
        ("archive", "yes"), ("archive", ""), ("background", "ON"), ("timezone", "Mars"), ("timezone", ""),
        ("prices.a", "3"), ("prices.a", "{"), ("prices.a", "[" * 100_000), ("prices.a", '{"input": 1}'),
        ("prices.a", '{"input": 1, "output": "much"}'), ("prices.a", '{"input": 1, "output": 2, "tax": 3}'),
    ],
)  # fmt: skip
def test_a_wrong_key_or_value_is_refused_with_a_hint(tmp_path: Path, key: str, value: str | None) -> None:
    with pytest.raises(UsageError) as error:
        change_preference(tmp_path, key, value)
    assert error.value.hint
    assert list(tmp_path.iterdir()) == []


def test_only_its_owner_may_read_what_is_written(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        change_preference(tmp_path / "new", "archive", "off")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "new" / FILE_NAME).stat().st_mode) == 0o600


def test_nothing_else_is_left_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / f".{FILE_NAME}.0f1e2d3c.tmp").write_text("of a process that was killed")
    change_preference(tmp_path, "archive", "off")
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_a_change_that_fails_leaves_things_as_they_were(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(Unreadable):
        change_preference(tmp_path, "archive", "off")
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    real = put(tmp_path / "real", {"background": False})
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / FILE_NAME).symlink_to(real)
    change_preference(tmp_path / "folder", "archive", "off")
    assert (tmp_path / "folder" / FILE_NAME).is_symlink()
    assert json.loads(real.read_text()) == {"background": False, "archive": False}


def test_a_fifo_is_no_reason_to_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE_NAME)
    with pytest.raises(Unreadable):
        read_preferences(tmp_path)


def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    keys = [f"prices.model-{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: change_preference(tmp_path, key, PRICE), keys))
    assert [f"prices.{model}" for model in sorted(load_file(tmp_path)["prices"])] == sorted(keys)


def test_changes_of_processes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from unspool.store.preferences import change_preference\n"
        f"for at in range(20): change_preference(Path(sys.argv[1]), f'prices.{{sys.argv[2]}}-{{at}}', {PRICE!r})"
    )
    started = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "abc"]
    assert [process.wait(timeout=60) for process in started] == [0, 0, 0]
    assert len(load_file(tmp_path)["prices"]) == 60


@pytest.mark.parametrize(
    ("environment", "platform", "folder"),
    [
        ({"UNSPOOL_HOME": "/u", "HOME": "/h", "XDG_DATA_HOME": "/x"}, "linux", "/u"),
        ({"HOME": "/h", "XDG_DATA_HOME": "/x"}, "linux", "/x/unspool"),
        ({"HOME": "/h", "XDG_DATA_HOME": "not/absolute"}, "linux", "/h/.local/share/unspool"),
        ({"HOME": "/h", "XDG_DATA_HOME": ""}, "linux", "/h/.local/share/unspool"),
        ({"HOME": "/h", "XDG_DATA_HOME": "/x"}, "darwin", "/h/Library/Application Support/unspool"),
        ({"HOME": "/h", "LOCALAPPDATA": "/l"}, "win32", "/l/unspool"),
        ({"HOME": "/h"}, "win32", "/h/AppData/Local/unspool"),
    ],
)
def test_the_data_folder_is_where_the_system_has_such_things(
    environment: dict[str, str], platform: str, folder: str
) -> None:
    assert data_folder(environment, platform) == Path(folder)


def test_limits_and_the_template_of_the_status_line_are_kept_in_sections(tmp_path: Path) -> None:
    for key, value in (
        ("limits.five_hour_cost", "35.5"),
        ("limits.five_hour_tokens", "2000000"),
        ("statusline.template", "{model} | {branch}"),
    ):
        change_preference(tmp_path, key, value)
    found = read_preferences(tmp_path)
    assert (found.limits, found.statusline) == ((35_500_000, 2_000_000), "{model} | {branch}")
    assert json.loads((tmp_path / FILE_NAME).read_bytes())["limits"] == {
        "five_hour_cost": 35.5,
        "five_hour_tokens": 2_000_000,
    }
    for key in ("limits.five_hour_cost", "limits.five_hour_tokens", "statusline.template"):
        change_preference(tmp_path, key, None)
    assert json.loads((tmp_path / FILE_NAME).read_bytes()) == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("limits.five_hour_cost", "much"),
        ("limits.five_hour_cost", "0"),
        ("limits.five_hour_cost", "nan"),
        ("limits.five_hour_tokens", "1.5"),
        ("statusline.template", "{nothing}"),
        ("limits.other", "1"),
    ],
)
def test_a_limit_or_template_that_is_none_is_refused(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(UsageError):
        change_preference(tmp_path, key, value)
    assert not (tmp_path / FILE_NAME).exists()
