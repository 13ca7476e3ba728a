"""Databases for roles, from a lake: `python lake_roles.py LAKE FOLDER`.

    FOLDER/team.duckdb         numbers only: no text, no names of projects, files or sessions
    FOLDER/text/USER.duckdb    what one person wrote and was answered, for that person

DuckDB has no users, and a view protects nothing from somebody who can read the files of the lake. So each role gets a
file of its own, with tables, and access to nothing else. Run it after each ingest, for example every hour.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import quote

import duckdb
from deltalake import DeltaTable

# A response counts once in an organisation, also if its file was copied to another machine.
NUMBERS = {
    "usage": """SELECT org, "user", day, model, count(*) AS responses, sum(input_tokens) AS input_tokens,
        sum(output_tokens) AS output_tokens, sum(cost_micros) AS cost_micros
        FROM (FROM responses QUALIFY row_number() OVER (PARTITION BY org, response_id ORDER BY output_tokens DESC,
            is_sidechain, input_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens DESC,
            time NULLS LAST, device, source_id) = 1)
        GROUP BY ALL""",
    # A tool of an MCP server has a name that somebody chose: they count together.
    "tools": """SELECT org, day, CASE WHEN name LIKE 'mcp\\_\\_%' ESCAPE '\\' THEN 'mcp' ELSE name END AS tool,
        count(*) AS calls, sum(error::INT) AS failed FROM tool_calls GROUP BY ALL""",
}
TEXTS = ("messages", "blocks", "turns", "tool_calls", "history", "sessions")


def main() -> None:
    """Write the databases."""
    lake, folder = sys.argv[1], Path(sys.argv[2])
    source = duckdb.connect()
    for name in {"responses", *TEXTS}:
        open_table(source, lake, name)
    write_database(source, folder / "team.duckdb", NUMBERS)
    # A lake has one user for each device; one that was forgotten has none.
    users = source.execute('SELECT DISTINCT "user" FROM sessions WHERE "user" != \'\'').fetchall()
    for (user,) in users:
        literal = user.replace("'", "''")
        own = {name: f"SELECT * FROM {name} WHERE \"user\" = '{literal}'" for name in TEXTS}
        write_database(source, folder / "text" / f"{quote(user, safe='')}.duckdb", own)


def open_table(source: duckdb.DuckDBPyConnection, lake: str, name: str) -> None:
    """Create a view of a table, over the files that its log names."""
    files = DeltaTable(f"{lake}/{name}").file_uris()
    if files:
        source.read_parquet(files, hive_partitioning=True, union_by_name=True).create_view(name)
    else:
        columns = DeltaTable(f"{lake}/{name}").schema().fields
        empty = ", ".join(f'NULL AS "{column.name}"' for column in columns)
        source.execute(f"CREATE VIEW {name} AS SELECT {empty} WHERE false")


def write_database(source: duckdb.DuckDBPyConnection, path: Path, queries: dict[str, str]) -> None:
    """Write the results of queries as tables of a new database, which only its owner may read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.unlink(missing_ok=True)
    source.execute(f"ATTACH '{str(beside).replace(chr(39), chr(39) * 2)}' AS role")
    for name, query in queries.items():
        source.execute(f'CREATE TABLE role."{name}" AS {query}')
    source.execute("DETACH role")
    beside.chmod(0o600)
    beside.replace(path)


if __name__ == "__main__":
    main()
