"""Every command and page: on folders in which any field of any line and any file may hold any JSON, with files of
unspool's own that are damaged, and on files that are swapped while they are read.

`make fuzz` looks for an hour; here are a few trees, and a proof that the search finds a planted fault.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzz.hostile_tree import write_hostile_tree
from tests.fuzz.own_files import FilledFolder, run_damaged, write_user_files
from tests.fuzz.surfaces import Failure, run_everything, session_ids
from tests.fuzz.swaps import swap_files
from unspool.demo import write_demo
from unspool.format import Json
from unspool.graph import search_text
from unspool.store.archive import archive

TREES = int(os.environ.get("UNSPOOL_FUZZ_TREES", "4"))


def failures(folder: Path, seed: int, *, slow: bool) -> list[Failure]:
    write_hostile_tree(folder / "claude", seed)
    return list(run_everything(folder / "claude", folder / "data", slow=slow))


@pytest.mark.parametrize("seed", range(TREES))
def test_no_json_anywhere_ends_a_command_or_a_page_in_a_traceback(tmp_path: Path, seed: int) -> None:
    assert failures(tmp_path, seed, slow=False) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1012))
def test_no_json_anywhere_ends_a_command_that_starts_processes_in_a_traceback(tmp_path: Path, seed: int) -> None:
    assert failures(tmp_path, seed, slow=True) == []


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> FilledFolder:
    """A config folder and the data folder that commands have made of it."""
    folder = FilledFolder(tmp_path_factory.mktemp("filled"))
    write_demo(folder.config)
    assert list(run_everything(folder.config, folder.data, slow=True, sessions=2, rebuild=False)) == []
    write_user_files(folder.data, session_ids(folder.config)[:2])
    folder.keep()
    return folder


def own_file_failures(filled: FilledFolder, seed: int, only: str | None = None) -> list[Failure]:
    filled.put_back()
    return list(run_damaged(filled, seed, slow=False, sessions=1, only=only))


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(100, 140))])
def test_no_damage_to_a_file_of_unspool_ends_a_command_or_a_page_in_a_traceback(
    filled: FilledFolder, seed: int
) -> None:
    assert own_file_failures(filled, seed) == []


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_no_file_that_is_swapped_while_it_is_read_ends_a_command_or_a_page_in_a_traceback(
    filled: FilledFolder, seed: int
) -> None:
    filled.put_back()
    with swap_files(filled.config, seed):
        assert list(run_everything(filled.config, filled.data, slow=False, sessions=2, may_refuse=True)) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the fault is in threads too
def test_the_search_finds_a_planted_fault_in_the_reading_of_own_files(
    filled: FilledFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if nobody had thought of a frame that cannot be unpacked.
    monkeypatch.setattr(archive, "frame_errors", lambda: ())
    # Of the damages to an archive one in ten or so is to a frame.
    assert any(own_file_failures(filled, seed, "archive.db") for seed in range(60))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the fault is in threads too
def test_the_search_finds_a_planted_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = search_text._message

    def extract(line: Json, role: str, kind: str) -> list[search_text.Passage]:
        # As it was in version 0.1: a list or an object cannot be looked up in a set.
        content = (line.get("message") or {}).get("content")
        {block.get("type") for block in (content if isinstance(content, list) else ()) if isinstance(block, dict)}
        return original(line, role, kind)

    monkeypatch.setattr(search_text, "_message", extract)
    assert any(failures(tmp_path / str(seed), seed, slow=False) for seed in range(4))
