"""Folders of other agents for tests: copies of what the agents themselves wrote (`written_by/`)."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

WRITTEN = Path(__file__).parent / "written_by"
PROGRAMS = ("codex", "gemini", "opencode", "pi")


class ServerAnswers(NamedTuple):
    """What the scripted server said of all requests of a session (`written_by/README.md`)."""

    fresh: int
    cached: int
    output: int


SAID = {
    "codex": ServerAnswers(1_201 + 1_302 + 1_303 - 3_400, 3_400, 57 + 33 + 33),
    "gemini": ServerAnswers(2_001 + 2_102 + 2_103 - 5_500, 5_500, 36 + 19 + 19),
    "opencode": ServerAnswers(905 + 956 + 957 - 2_500, 2_500, 41 + 17 + 17),
    "pi": ServerAnswers(901 + 952 + 953 - 2_500, 2_500, 41 + 17 + 17),
}
CALLED = {"codex": "exec_command", "gemini": "list_directory", "opencode": "bash", "pi": "bash"}


def make_folder(program: str, place: Path) -> Path:
    """Copy the folder of an agent; that of OpenCode gets a database with the rows that it had."""
    folder = place / f"folder-of-{program}"
    if program != "opencode":
        shutil.copytree(WRITTEN / program, folder)
        return folder
    folder.mkdir()
    write_database(folder / "opencode.db", read_tables())
    return folder


def read_tables() -> list[dict[str, Any]]:
    """Return the tables of OpenCode's database, with their columns and rows."""
    tables: list[dict[str, Any]] = json.loads((WRITTEN / "opencode/rows.json").read_text())
    return tables


def write_database(path: Path, tables: list[dict[str, Any]]) -> None:
    """Write a database with tables and rows."""
    database = sqlite3.connect(path)
    for table in tables:
        names = [name for name, _ in table["columns"]]
        database.execute(f"CREATE TABLE {table['table']} ({', '.join(f'{n} {kind}' for n, kind in table['columns'])})")
        rows = [[row[name] for name in names] for row in table["rows"]]
        database.executemany(f"INSERT INTO {table['table']} VALUES ({', '.join('?' * len(names))})", rows)
    database.commit()
    database.close()


def session_files(program: str, folder: Path) -> list[Path]:
    """Return the files of sessions in a folder of an agent that keeps lines."""
    return sorted(path for path in folder.rglob("*.jsonl") if program != "opencode")
