"""`docs/architecture.md` says which files a line passes through, in which order. Here a line is sent through them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.figures import FIVE_LINES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
TRACER = """
import sys, threading
source, out, program = sys.argv[1:4]
del sys.argv[1:4]
seen, importing = {}, 0

def on_event(frame, event, _):
    global importing
    if frame.f_code.co_name == "<module>":
        importing += (event == "call") - (event == "return")
    elif event == "call" and not importing and frame.f_code.co_filename.startswith(source):
        seen.setdefault(frame.f_code.co_filename[len(source) + 1:], None)

def start():
    threading.setprofile(on_event)
    sys.setprofile(on_event)

exec(program)
sys.setprofile(None)
open(out, "w").write("\\n".join(seen))
"""
"""Runs a program and writes which files' functions were called first, second, …; not those that an import runs."""
COMMAND = """
from unspool.cli.main import unspool
start()
unspool.main(prog_name="unspool", standalone_mode=False)
"""


def documented() -> dict[str, list[str]]:
    """Return the files that the page names for each way, in order."""
    rows = re.findall(r"^\| \*\*(\w+)\*\*.*?\| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return {name: re.findall(r"`([\w/]+\.py)`", files) for name, files in rows}


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("usage", ["usage"]),
        ("search", ["search", "tide"]),
        ("SQL", ["sql", "SELECT text FROM messages"]),
        ("page", ["export", "5e551075", "--html", "-o", "page.html"]),
    ],
)
def test_a_line_passes_through_the_files_that_the_page_names(way: str, words: list[str], tmp_path: Path) -> None:
    assert in_order(documented()[way], traced(words, tmp_path))


def test_a_line_passes_into_a_lake_as_the_page_says(tmp_path: Path) -> None:
    segments, lake = f"file://{tmp_path}/segments", str(tmp_path / "lake")
    (tmp_path / "segments").mkdir()
    sent = traced(["collect", "--to", segments, "--org", "acme", "--user", "me"], tmp_path)
    traced(["lake", "init", lake], tmp_path)
    read = traced(["lake", "ingest", "--from", segments, "--to", lake], tmp_path)
    files = documented()["lake"]
    border = files.index("cli/team/lake.py")
    assert in_order(files[:border], sent)
    assert in_order(files[border:], read)


def traced(words: list[str], place: Path) -> list[str]:
    """Return the files whose functions a command calls, in the order of their first calls."""
    session = place / "config/projects/-work/5e551075-0000-4000-8000-000000000000.jsonl"
    session.parent.mkdir(parents=True, exist_ok=True)
    session.write_text(FIVE_LINES)
    environment = {"HOME": str(place), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    environment |= {"CLAUDE_CONFIG_DIR": str(place / "config"), "PYTHONPATH": str(ROOT / "src")}
    source, out = str(ROOT / "src" / "unspool"), str(place / "trace")
    command = [sys.executable, "-c", TRACER, source, out, COMMAND, *words]
    run = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return Path(out).read_text().split("\n")


def in_order(files: list[str], trace: list[str]) -> bool:
    """Tell whether all files are in a trace, in their order; say which is not."""
    assert files
    assert [file for file in files if file not in trace] == []
    places = [trace.index(file) for file in files]
    assert [files[at] for at in range(1, len(files)) if places[at] < places[at - 1]] == []
    return True
