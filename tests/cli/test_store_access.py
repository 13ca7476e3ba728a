"""How commands come to their data: from the store, from the files, and what they say when they cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from unspool.cli.store_access import LARGE_BYTES, EndingEarly, make_refresh
from unspool.demo import write_demo
from unspool.store import open_store
from unspool.testing.build import assistant, session, text, user

S1 = "10000000-0000-4000-8000-000000000001"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Return a config folder that takes a while to read."""
    steps = [user("hi"), *(assistant(text("x" * 1_000_000)) for _ in range(LARGE_BYTES // 1_000_000 + 1))]
    return (
        session(*steps, id=S1, cwd="/home/me/shop").save(tmp_path / ".claude" / "projects" / "-home-me-shop").parents[2]
    )


def test_a_large_folder_is_read_before_the_answer_if_nothing_may_go_on_behind_it(run: Run, large: Path) -> None:
    assert run("config", "background", "off").code == 0
    shown = run("usage", "--json", "--config-dir", large)
    assert json.loads(run("sync", "--json", "--config-dir", large).out)["files_changed"] == 0
    assert shown.out == run("usage", "--json", "--no-store", "--config-dir", large).out


def test_a_large_folder_that_was_never_read_is_answered_from_its_files(run: Run, large: Path) -> None:
    shown = run("usage", "--json", "--config-dir", large)
    assert (shown.code, shown.err) == (0, "")
    run("sync", "--config-dir", large)  # waits for the one that was started, or does it
    assert run("usage", "--json", "--no-sync", "--config-dir", large).out == shown.out


def test_a_server_that_ends_does_not_wait_for_its_first_refresh(large: Path, tmp_path: Path) -> None:
    folder, questions = tmp_path / "store", 0

    def is_ending() -> bool:
        nonlocal questions
        questions += 1
        return questions > 4

    folder.mkdir()
    with pytest.raises(EndingEarly):
        make_refresh((str(large),), folder, is_ending)()
    assert questions == 5
    # What the next refresh finds is whole, or nothing: it goes on from there.
    assert make_refresh((str(large),), folder)() == []
    database = open_store(folder)
    assert database.execute("SELECT count(*), sum(size) FROM sources").fetchone() == (
        1,
        sum(path.stat().st_size for path in large.rglob("*.jsonl")),
    )
    database.close()


def test_without_a_store_nothing_is_written(run: Run, large: Path, tmp_path: Path) -> None:
    assert run("ls", "--no-store", "--config-dir", large).code == 0
    assert [path.name for path in (tmp_path / "home").rglob("*")] == []


def test_a_store_that_cannot_be_written_is_named_and_the_files_answer(run: Run, large: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    shown = run("ls", "--config-dir", large, UNSPOOL_HOME=str(tmp_path / "file" / "store"))
    assert shown.code == 0
    assert "10000000" in shown.out
    assert "reading the files instead" in shown.err


@pytest.mark.parametrize(
    "command",
    [("ls",), ("usage",), ("search", "tide"), ("stats",), ("doctor",), ("watch", "--once", "--since", "3650d")],
)
def test_a_data_folder_that_cannot_be_opened_is_done_without(
    run_bound: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    write_demo(tmp_path / "claude")
    own = tmp_path / "home" / ".local" / "share" / "unspool"
    own.mkdir(parents=True)
    own.chmod(0)
    done = run_bound(*command, "--config-dir", tmp_path / "claude")
    own.chmod(0o700)
    assert (done.code, "Traceback" in done.err) == (0, False), done.err
    assert done.out
    if command[0] != "watch":
        assert "permission denied; reading the files instead" in done.err


def test_settings_that_cannot_be_read_are_an_error(run_bound: Run, tmp_path: Path) -> None:
    write_demo(tmp_path / "claude")
    own = tmp_path / "home" / ".local" / "share" / "unspool"
    own.mkdir(parents=True)
    (own / "settings.json").write_text('{"archive": false}')
    (own / "settings.json").chmod(0)
    done = run_bound("ls", "--config-dir", tmp_path / "claude")
    assert (done.code, done.out, done.err) == (
        4, "", f"unspool: cannot read `{own / 'settings.json'}`: permission denied\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    "command", [("show", ""), ("show", " "), ("stats", ""), ("export", "", "--md"), ("export", "", "--jsonl"),
                ("edit", "clone", ""), ("restore", "")]
)  # fmt: skip
def test_an_empty_name_of_a_session_is_a_usage_error(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    write_demo(tmp_path / "claude")
    done = run("--config-dir", tmp_path / "claude", *command)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[0] == "unspool: the name of the session is empty"
