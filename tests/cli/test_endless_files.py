"""Sparse files of 100 GB and lines without an end: every command reads few bytes, and says what it did not read."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.fuzz.surfaces import ask_pages, environment
from unspool.demo import write_demo

GB = 1000**3
BOUND = 400_000_000
"""Bytes that one command may read: Python and its libraries are a part of them."""
ID = "aaaaaaaa-0000-4000-8000-000000000001"
SPARSE = "read only up to byte"

COMMANDS = [
    "usage", "usage --json", "usage --no-store", "ls", "ls --no-store", "search tide", "search tide --no-store",
    "search --regex t.de", "stats", "stats --json --no-store", "doctor", "doctor --json --no-store", "watch --once",
    "sync --json", "sync --deep", f"show {ID}", f"show {ID} --no-store", f"stats {ID}", f"export {ID} --md",
    f"export {ID} --html", f"export {ID} --json", f"export {ID} --messages", f"export {ID} --jsonl",
    f"doctor --session {ID}", f"edit clone {ID}", f"edit fork {ID} --at 1", f"edit trim {ID} --results --in-place",
    f"edit compress {ID} --keep-last 1 --no-model", f"restore {ID} --dry-run", "redact {path}", "redact --check {path}",
    "collect --to file://{out}/bucket --org o --user u", "sql 'SELECT count(*) FROM sessions'",
    "export --parquet {out}/parquet", "sync --rebuild",
]  # fmt: skip


def read_bytes() -> int:
    """Return how many bytes this process and the children it has waited for have read."""
    line = Path("/proc/self/io").read_text().partition("\n")[0]
    return int(line.removeprefix("rchar: "))


needs_counter = pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="bytes are counted by /proc/self/io")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "claude"
    write_demo(folder)
    return folder


def copy_session(config: Path) -> Path:
    """Copy the largest session under another id."""
    source = max((config / "projects").glob("*/*.jsonl"), key=lambda path: path.stat().st_size)
    path = source.with_name(f"{ID}.jsonl")
    shutil.copy(source, path)
    return path


def run_all(run: Run, config: Path, out: Path, check: Callable[[str, int, str, str], None]) -> None:
    path = next((config / "projects").glob(f"*/{ID}.jsonl"))
    for command in COMMANDS:
        words = shlex.split(command.replace("{path}", str(path)).replace("{out}", str(out)))
        before = read_bytes()
        done = run(*words, CLAUDE_CONFIG_DIR=str(config), UNSPOOL_HOME=str(out / "data"))
        assert read_bytes() - before < BOUND, f"{command} read {read_bytes() - before:,} bytes"
        assert "Traceback" not in done.err, f"{command}: {done.err}"
        check(command, done.code, done.out, done.err)


@needs_counter
def test_a_sparse_session_of_100_gb_costs_few_bytes_in_every_command_and_each_says_so(
    run: Run, config: Path, tmp_path: Path
) -> None:
    path = copy_session(config)
    size = path.stat().st_size
    os.truncate(path, 100 * GB)
    asked: dict[str, str] = {}

    def check(command: str, code: int, out: str, err: str) -> None:
        asked[command] = out
        assert code in (0, 1, 4), f"{command}: {err}"
        assert SPARSE in err or SPARSE in out, f"{command} does not say it: {err}"

    run_all(run, config, tmp_path, check)
    # The lines before the hole are all there.
    os.truncate(path, size)
    whole = json.loads(run("usage", "--json", "--no-store", CLAUDE_CONFIG_DIR=str(config)).out)
    assert json.loads(asked["usage --json"])["totals"] == whole["totals"]


SIDE_FILES = [
    "history.jsonl", "settings.json", "settings.local.json", "stats-cache.json", "todos/{id}-agent-{id}.json",
    "tasks/{id}/1.json", "plans/a-plan.md", "sessions/4242.json", "file-history/{id}/0123456789abcdef@v1",
    "projects/{project}/sessions-index.json", "projects/{project}/memory/MEMORY.md",
    "projects/{project}/{id}/custom-title.json", "projects/{project}/{id}/subagents/agent-a0000001.jsonl",
    "projects/{project}/{id}/subagents/agent-a0000001.meta.json", "projects/{project}/{id}/tool-results/toolu_1.txt",
    "projects/{project}/{id}/workflows/wf_1.json",
]  # fmt: skip


@needs_counter
def test_sparse_side_files_of_100_gb_cost_few_bytes_in_every_command_and_doctor_names_each(
    run: Run, config: Path, tmp_path: Path
) -> None:
    session = copy_session(config)
    paths = []
    for place in SIDE_FILES:
        path = config / place.replace("{id}", ID).replace("{project}", session.parent.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.truncate(100 * GB)
        paths.append(path)
    said: dict[str, str] = {}

    def check(command: str, code: int, out: str, err: str) -> None:
        said[command] = out
        assert code in (0, 1, 4, 5), f"{command}: {err}"

    run_all(run, config, tmp_path, check)
    for path in paths:
        assert path.name in said["doctor --json --no-store"], f"doctor does not name `{path}`"


@needs_counter
def test_no_page_reads_much_of_sparse_files(config: Path, tmp_path: Path) -> None:
    path = copy_session(config)
    os.truncate(path, 100 * GB)
    result = path.with_suffix("") / "tool-results" / "toolu_1.txt"
    result.parent.mkdir(parents=True)
    result.touch()
    os.truncate(result, 100 * GB)
    before = read_bytes()
    with environment(config, tmp_path / "data"):
        assert asyncio.run(ask_pages(config, tmp_path / "data", [ID])) == []
    assert read_bytes() - before < BOUND


@needs_counter
@pytest.mark.slow
def test_a_line_without_an_end_costs_bounded_bytes_in_every_command_and_few_where_the_store_answers(
    run: Run, config: Path, tmp_path: Path
) -> None:
    path = copy_session(config)
    size = path.stat().st_size
    with path.open("ab") as file:  # takes room on the disk, so that it is no hole
        os.posix_fallocate(file.fileno(), size, 6 * 1024**3)
    limit = 1024**3
    asked = {}
    for command in (
        "sync", "usage --json", "usage --json --no-store", "ls --json", "search tide", "search tide --no-store",
        f"show {ID}", f"export {ID} --md", "doctor", "watch --once", f"edit clone {ID}", f"redact --check {path}",
    ):  # fmt: skip
        before = read_bytes()
        done = run(*command.split(), CLAUDE_CONFIG_DIR=str(config), UNSPOOL_HOME=str(tmp_path / "data"))
        asked[command] = done.out
        most = BOUND if command in ("usage --json", "ls --json") else 2 * limit + BOUND
        assert read_bytes() - before < most, f"{command} read {read_bytes() - before:,} bytes"
        assert "Traceback" not in done.err
        assert done.code in (0, 1, 4), f"{command}: {done.err}"
    os.truncate(path, size)
    whole = json.loads(run("usage", "--json", "--no-store", CLAUDE_CONFIG_DIR=str(config)).out)["totals"]
    for command in ("usage --json", "usage --json --no-store"):
        assert json.loads(asked[command])["totals"] == whole
