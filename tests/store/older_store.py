"""Makes stores of versions before this one, for tests of what brings them to this one."""

from __future__ import annotations

import sqlite3


def remove_command_turns(database: sqlite3.Connection) -> None:
    """Make a store of version 5: without what `command_turns.sql` and `windows.sql` add."""
    database.execute("DROP INDEX answers_by_time")
    database.execute("DROP TABLE largest_windows")
    database.execute("ALTER TABLE sessions DROP COLUMN command_turns")
    for column in ("is_fork", "name", "model", "parent_agent_id", "stopped_by_user"):
        database.execute(f"ALTER TABLE agent_meta DROP COLUMN {column}")
    database.execute("PRAGMA user_version = 5")
