"""What commands print on terminals of 60, 80 and 120 columns, compared with files in `widths/`.

`UNSPOOL_WRITE_WIDTHS=1 pytest tests/cli/test_widths.py` writes the files again; then read the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Run

FOLDER = Path(__file__).parent / "widths"
COMMANDS = {
    "ls": ("ls", "--all"),
    "usage": ("usage", "--tz", "UTC"),
    "usage-breakdown": ("usage", "monthly", "--breakdown", "--tz", "UTC"),
    "usage-session": ("usage", "session", "--tz", "UTC"),
    "usage-blocks": ("usage", "blocks", "--tz", "UTC"),
    "search": ("search", "nearest name"),
    "show": ("show", "3fe"),
    "stats": ("stats", "3fe"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_output_fits_the_terminal_and_is_the_known_one(name: str, run: Run, tmp_path: Path) -> None:
    run("demo", tmp_path / "demo", "--now", "2026-01-15T12:00Z")  # so long ago that all dates are printed in full
    for columns in (60, 80, 120):
        done = run(*COMMANDS[name], "--config-dir", tmp_path / "demo", COLUMNS=str(columns), TZ="UTC")
        assert done.code == 0, done.err
        text = done.out.replace(str(tmp_path), "/tmp/widths")
        file = FOLDER / f"{name}-{columns}.txt"
        if os.environ.get("UNSPOOL_WRITE_WIDTHS"):
            FOLDER.mkdir(exist_ok=True)
            file.write_text(text)
        assert text == file.read_text()
