"""The size of the terminal: what variables say, what the terminal says, what is usual."""

from __future__ import annotations

import shutil

import pytest

from unspool.cli.output import terminal_size


@pytest.mark.parametrize("columns", ["", "0", "70", "many", "-4", "9" * 5000])
@pytest.mark.parametrize("lines", ["", "0", "12"])
def test_the_size_is_the_one_that_the_standard_library_finds(
    columns: str, lines: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LINES", lines)
    assert terminal_size((100, 24)) == shutil.get_terminal_size((100, 24))
