"""Every command and page, on folders in which any field of any line and any file may hold any JSON.

`make fuzz` looks for an hour; here are a few trees, and a proof that the search finds a planted fault.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzz.hostile_tree import write_hostile_tree
from tests.fuzz.surfaces import Failure, run_everything
from unspool.format import Json
from unspool.graph import search_text

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
