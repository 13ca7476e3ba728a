"""The databases of `docs/lake_roles.py`: numbers without a text for the team, each person's texts for that person."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb

from tests.collect.lake.lifecycle.erasing import ErasableLake, session_id

SCRIPT = Path(__file__).parents[4] / "docs" / "lake_roles.py"


def read_everything(path: Path) -> str:
    """Return all rows of a database as text."""
    with duckdb.connect(path, read_only=True) as database:
        names = database.execute("SHOW TABLES").fetchall()
        return str([database.execute(f'SELECT row::VARCHAR FROM "{name}" AS row').fetchall() for (name,) in names])


def test_each_role_has_what_it_needs_and_no_byte_more(erasable: ErasableLake, tmp_path: Path) -> None:
    erasable.people(is_chained=True)
    subprocess.run([sys.executable, str(SCRIPT), str(erasable.folder), str(tmp_path / "roles")], check=True)
    team = tmp_path / "roles" / "team.duckdb"
    with duckdb.connect(team, read_only=True) as database:
        ours = database.execute('SELECT "user", sum(responses), sum(cost_micros) FROM usage GROUP BY 1 ORDER BY 1')
        query = 'SELECT "user", count(*), sum(cost_micros) FROM org_responses GROUP BY 1 ORDER BY 1'
        assert ours.fetchall() == erasable.rows(query)
    ada, bob = (tmp_path / "roles" / "text" / f"user-{name}.duckdb" for name in ("ada", "bob"))
    for path, own, other in ((ada, "ada", "bob"), (bob, "bob", "ada")):
        rows = read_everything(path)
        assert f"planted-{own}-one" in rows
        assert f"planted-{other}" not in rows
        assert f"user-{other}" not in rows
    rows = read_everything(team)
    for text in ("planted", "secret", "plain", session_id(10), "branch"):
        assert text not in rows
    assert all(path.stat().st_mode & 0o077 == 0 for path in (team, ada, bob))
