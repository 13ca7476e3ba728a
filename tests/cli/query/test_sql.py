"""`unspool sql`, `export --parquet` and `--duckdb`, `unspool.register`: asked as people do."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyte
import pytest
from inline_snapshot import snapshot

from tests.cli.conftest import Ran, Run
from tests.pseudo_terminal import PseudoTerminal
from tests.real_files import corpus
from tests.store import dirty
from tests.store.dirty import ONE
from unspool.demo.write import write_demo
from unspool.store.columns.tables import public_tables
from unspool.testing.build import assistant, session, text, user

SUMS = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens",
    "web_searches", "cost_micros", "unpriced_tokens", "estimated_output_tokens", "estimated_cost_micros",
)  # fmt: skip
TOTALS = (
    f"SELECT count(*) AS responses, {', '.join(f'coalesce(sum({n}), 0)::BIGINT AS {n}' for n in SUMS)} FROM responses"
)


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """The made-up config folder."""
    write_demo(tmp_path / "demo")
    return tmp_path / "demo"


def asked(run: Run, query: str, *arguments: str | Path) -> Any:
    """Return the rows of a query."""
    code, out, err = run("sql", query, "--format", "json", *arguments)
    assert (code, err) == (0, "")
    return json.loads(out)


def agrees(run: Run, root: Path, *options: str) -> None:
    """Compare the sums of SQL with those of `unspool usage`, all in all and by day."""
    used = json.loads(run("usage", "--json", "--config-dir", root, "--tz", "UTC", *options).out)
    (found,) = asked(run, TOTALS, "--config-dir", root, *options)
    assert found == {name: used["totals"][name] for name in ("responses", *SUMS)}
    days = asked(run, "FROM daily", "--config-dir", root, *options)
    assert days == [{name: row[name] for name in day} for day, row in zip(days, used["rows"], strict=True)]


def test_a_query_is_answered_as_a_table(run: Run, demo: Path) -> None:
    query = "SELECT title, project, turns, cost_micros FROM sessions WHERE turns > 2 ORDER BY cost_micros DESC LIMIT 3"
    assert run("sql", query, "--config-dir", demo) == snapshot(
        Ran(
            code=0,
            out="""\
title                                                    project    turns  cost_micros
tide-cache                                               tidewatch      7       516001
How does `load` behave if a station's name is misspelt?  tidewatch      3        68730
Suggest the nearest station name                         tidewatch      3        55101
""",
            err="",
        )
    )


def test_as_json_csv_and_lines(run: Run, demo: Path) -> None:
    query = """SELECT name, count(*) AS calls, sum(error::INT) AS errors, NULL AS x FROM tool_calls
        GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 2"""
    assert run("sql", query, "--format", "json", "--config-dir", demo) == snapshot(
        Ran(
            code=0,
            out="""\
[
  {"name":"Edit","calls":19,"errors":0,"x":null},
  {"name":"Bash","calls":16,"errors":2,"x":null}
]
""",
            err="",
        )
    )
    assert run("sql", query, "--format", "ndjson", "--config-dir", demo) == snapshot(
        Ran(
            code=0,
            out="""\
{"name":"Edit","calls":19,"errors":0,"x":null}
{"name":"Bash","calls":16,"errors":2,"x":null}
""",
            err="",
        )
    )
    assert run("sql", query, "--format", "csv", "--config-dir", demo) == snapshot(
        Ran(
            code=0,
            out="""\
name,calls,errors,x
Edit,19,0,
Bash,16,2,
""",
            err="",
        )
    )
    assert run("sql", "SELECT 1 WHERE false", "--format", "json", "--config-dir", demo) == (0, "[]\n", "")
    assert run("sql", "SELECT 1 AS a WHERE false", "--format", "csv", "--config-dir", demo) == (0, "a\n", "")


def test_csv_is_read_back_as_it_was(run: Run, tmp_path: Path) -> None:
    root = dirty.write(tmp_path / "config")
    code, out, _ = run(
        "sql", "SELECT content, tool_uses FROM claude_conversations", "--format", "csv", "--config-dir", root
    )
    rows = asked(run, "SELECT content, tool_uses::VARCHAR AS tool_uses FROM claude_conversations", "--config-dir", root)
    assert code == 0
    assert list(csv.DictReader(io.StringIO(out))) == [{name: cell or "" for name, cell in row.items()} for row in rows]


def test_many_rows_stream_through_every_format(run: Run, demo: Path) -> None:
    query = "SELECT range AS n, repeat('x', 100) AS x FROM range(100000)"
    for form in ("json", "ndjson", "csv", "table"):
        code, out, err = run("sql", query, "--format", form, "--config-dir", demo)
        assert (code, err) == (0, "")
        assert len(out.splitlines()) == 100_000 + {"json": 2, "ndjson": 0, "csv": 1, "table": 1}[form]
        assert form != "json" or len(json.loads(out)) == 100_000


def test_parquet_goes_to_a_file_or_a_pipe(run: Run, demo: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.parquet"
    query = "SELECT * FROM messages"
    assert run("sql", query, "--format", "parquet", "-o", target, "--config-dir", demo) == (0, "", "")
    assert target.stat().st_mode & 0o777 == 0o600
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT count(*), sum(cost_micros) FROM '{target}'").fetchone()
    expected = asked(run, "SELECT count(*) AS n, sum(cost_micros) AS c FROM messages", "--config-dir", demo)
    assert [dict(zip(("n", "c"), found or (), strict=True))] == expected
    again = run("sql", query, "--format", "parquet", "-o", target, "--config-dir", demo)
    assert again == (5, "", f"unspool: `{target}` already exists\nhint: choose another name, or delete it first\n")


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (
            "SELEC 1",
            snapshot(
                Ran(
                    code=2,
                    out="",
                    err="""\
unspool: Parser Error: syntax error at or near "SELEC"

LINE 1: SELEC 1
        ^^^^^
""",
                )
            ),
        ),
        (
            "SELECT * FROM sesions",
            snapshot(
                Ran(
                    code=2,
                    out="",
                    err="""\
unspool: Catalog Error: Table with name sesions does not exist!
Did you mean "sessions"?

LINE 1: SELECT * FROM sesions
                      ^^^^^^^
""",
                )
            ),
        ),
        (
            "SELECT 1; SELECT 2",
            snapshot(
                Ran(
                    code=2,
                    out="",
                    err="""\
unspool: only one statement at a time
hint: a query reads: SELECT, DESCRIBE, SHOW, SUMMARIZE, EXPLAIN
""",
                )
            ),
        ),
        (
            "COPY sessions TO '/tmp/x'",
            snapshot(
                Ran(
                    code=2,
                    out="",
                    err="""\
unspool: not a read-only statement: COPY
hint: a query reads: SELECT, DESCRIBE, SHOW, SUMMARIZE, EXPLAIN
""",
                )
            ),
        ),
        (
            "SELECT * FROM read_text('/etc/passwd')",
            snapshot(
                Ran(
                    code=2,
                    out="",
                    err="""\
unspool: the table function `read_text` is not allowed here
hint: a query reads: SELECT, DESCRIBE, SHOW, SUMMARIZE, EXPLAIN
""",
                )
            ),
        ),
        (
            "SELECT CAST(name AS INT) FROM tool_calls",
            snapshot(
                Ran(
                    code=2,
                    out="",
                    err="""\
unspool: Conversion Error: Could not convert string 'Grep' to INT32 when casting from source column name

LINE 1: SELECT CAST(name AS INT) FROM tool_calls
               ^^^^^^^^^^^^^^^^^
""",
                )
            ),
        ),
        (
            "",
            snapshot(
                Ran(
                    code=2,
                    out="",
                    err="""\
unspool: no statement
hint: a query reads: SELECT, DESCRIBE, SHOW, SUMMARIZE, EXPLAIN
""",
                )
            ),
        ),
    ],
)
def test_a_wrong_or_refused_query_is_told_in_duckdbs_words(run: Run, demo: Path, query: str, told: object) -> None:
    assert run("sql", query, "--format", "json", "--config-dir", demo) == told


def test_a_query_that_takes_too_long_is_refused(run: Run, demo: Path) -> None:
    query = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range = 7"
    assert run("sql", query, "--timeout", "0.5", "--config-dir", demo) == snapshot(
        Ran(
            code=5,
            out="",
            err="""\
unspool: the query was stopped after 0.5 seconds
hint: allow more time with `--timeout SECONDS`, or any time with `--timeout 0`
""",
        )
    )


def test_nothing_in_a_transcript_reaches_the_terminal_raw(on_terminal: Callable[..., bytes], tmp_path: Path) -> None:
    session(user("\x1b]0;owned\x07 hello"), assistant(text("\x1b[2J\u202e"))).save(tmp_path / "config")
    for form in ("table", "csv", "json"):
        sent = on_terminal("sql", "SELECT text FROM messages", "--format", form, "--config-dir", tmp_path / "config")
        assert b"owned" in sent or b"hello" in sent
        assert b"\x1b]" not in sent
        assert b"\x1b[2J" not in sent
        assert "\u202e".encode() not in sent


def test_a_table_is_cut_to_the_width_of_the_terminal_and_of_nothing_else(
    run: Run, on_terminal: Callable[..., bytes], demo: Path
) -> None:
    query = "SELECT 'x' AS short, repeat('y', 500) AS long"
    sent = on_terminal("sql", query, "--config-dir", demo, COLUMNS="60").decode()
    assert max(len(line) for line in pyte_lines(sent)) <= 60
    assert "y" * 500 in run("sql", query, "--config-dir", demo).out


def pyte_lines(sent: str) -> list[str]:
    screen = pyte.Screen(200, 50)
    pyte.Stream(screen).feed(sent)
    return [line.rstrip() for line in screen.display if line.strip()]


def test_the_query_may_come_from_stdin(demo: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "unspool", "sql", "--format", "json", "--config-dir", str(demo)]
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    done = subprocess.run(command, env=environment, input=b"SELECT 1 AS one;\n", capture_output=True, check=False)
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, [{"one": 1}], b"")


def test_sums_are_those_of_usage(run: Run, demo: Path) -> None:
    run("config", "timezone", "UTC")
    agrees(run, demo)


def test_sums_are_those_of_usage_on_real_files_and_on_any_part_of_them(run: Run) -> None:
    root = corpus()
    run("config", "timezone", "UTC")
    agrees(run, root)
    for part in sorted(root.iterdir())[:6]:
        if part.is_dir():
            agrees(run, part)
    agrees(run, root)


def test_sums_are_those_of_usage_in_a_part_of_a_home_and_around_several(run: Run, tmp_path: Path) -> None:
    run("config", "timezone", "UTC")
    one, two = tmp_path / "all" / "one", tmp_path / "all" / "two"
    dirty.write(one)
    shutil.copytree(one, two)
    (two / "projects" / "-home-me-project" / f"{ONE}.jsonl").unlink()
    agrees(run, one)
    agrees(run, two)
    agrees(run, one / "projects" / "-home-me-project")
    agrees(run, one / "projects" / "-home-me-project" / f"{ONE}.jsonl")
    agrees(run, tmp_path / "all")
    agrees(run, one)
    (alone,) = asked(run, TOTALS, "--config-dir", one)
    (both,) = asked(run, TOTALS, "--config-dir", one, "--config-dir", two)
    assert both == alone  # the other folder has nothing but copies
    rows = asked(run, "SELECT count(*) AS n FROM sources", "--config-dir", one, "--config-dir", two)
    assert rows == asked(run, "SELECT count(*) AS n FROM sources", "--config-dir", tmp_path / "all")


def test_without_a_store_the_answer_is_the_same_and_nothing_is_left(run: Run, demo: Path, tmp_path: Path) -> None:
    assert asked(run, TOTALS, "--no-store", "--config-dir", demo) == asked(run, TOTALS, "--config-dir", demo)
    own = tmp_path / "home" / ".local" / "share" / "unspool"
    shutil.rmtree(own)
    agrees(run, demo, "--no-store")
    assert not (own / "columns").exists()
    assert not list((tmp_path / "home").rglob("*.parquet"))


def test_a_session_that_was_deleted_is_still_there(run: Run, demo: Path) -> None:
    before = asked(run, "SELECT count(*) AS n FROM messages", "--config-dir", demo)
    gone = next((demo / "projects").rglob("3fe*.jsonl"))
    gone.unlink()
    assert asked(run, "SELECT count(*) AS n FROM messages", "--config-dir", demo) == before
    assert asked(run, "SELECT session_id FROM sessions WHERE gone", "--config-dir", demo) == [{"session_id": gone.stem}]


def test_column_files_that_were_damaged_are_made_again(run: Run, demo: Path, tmp_path: Path) -> None:
    before = asked(run, TOTALS, "--config-dir", demo)
    own = tmp_path / "home" / ".local" / "share" / "unspool" / "columns"
    for path in own.rglob("answers.*.parquet"):
        path.write_bytes(bytes(len(path.read_bytes())))
    code, out, err = run("sql", TOTALS, "--format", "json", "--config-dir", demo)
    assert (code, json.loads(out)) == (0, before)
    assert err == snapshot("unspool: column files were damaged or missing; wrote them again\n")
    assert run("sql", TOTALS, "--format", "json", "--config-dir", demo).err == ""


def test_all_tables_are_exported_as_parquet(run: Run, demo: Path, tmp_path: Path) -> None:
    target = tmp_path / "tables"
    assert run("export", "--parquet", target, "--config-dir", demo) == (0, "", "")
    assert {path.stem for path in target.iterdir()} == public_tables().keys()
    with duckdb.connect() as connection:
        for table in public_tables().values():
            found = connection.execute(f"DESCRIBE FROM '{target / table.name}.parquet'").fetchall()
            assert tuple(row[0] for row in found) == table.names
        counts = {
            name: connection.execute(f"SELECT count(*) FROM '{target / name}.parquet'").fetchall()
            for name in public_tables()
        }
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in target.iterdir())
    union = " UNION ALL ".join(f"SELECT '{name}' AS t, count(*) AS n FROM {name}" for name in public_tables())
    assert {row["t"]: [(row["n"],)] for row in asked(run, union, "--config-dir", demo)} == counts
    assert run("export", "--parquet", target, "--config-dir", demo) == (
        5, "", f"unspool: `{target}` already exists\nhint: choose another name, or delete it first\n",
    )  # fmt: skip


def test_raw_lines_are_exported_if_they_are_asked_for(run: Run, tmp_path: Path) -> None:
    root = dirty.write(tmp_path / "config")
    for form, target in (("--parquet", tmp_path / "tables"), ("--duckdb", tmp_path / "all.duckdb")):
        assert run("export", form, target, "--raw", "--config-dir", root) == (0, "", "")
    with duckdb.connect(str(tmp_path / "all.duckdb"), read_only=True) as database:
        kept = database.execute(
            'SELECT path, raw FROM entries JOIN sources ON id = source_id ORDER BY path, "offset"'
        ).fetchall()
        comments = database.execute(
            "SELECT count(*) FROM duckdb_columns() WHERE comment IS NULL AND NOT internal"
        ).fetchall()
    with duckdb.connect() as connection:
        columns = f"FROM '{tmp_path}/tables/entries.parquet' JOIN '{tmp_path}/tables/sources.parquet' ON id = source_id"
        assert connection.execute(f'SELECT path, raw {columns} ORDER BY path, "offset"').fetchall() == kept
    assert comments == [(0,)]
    text = "".join(line for path, line in kept if path.endswith(f"{ONE}.jsonl"))
    data = (root / "projects" / "-home-me-project" / f"{ONE}.jsonl").read_text()
    bad = ("this is no JSON", "[1, 2, 3]", '{"type":"user","torn')
    assert text == "".join(line for line in data.splitlines() if line not in bad)


def test_what_does_not_go_together_is_told(run: Run, demo: Path) -> None:
    assert run("export", "--parquet", "a", "--duckdb", "b", "--config-dir", demo) == snapshot(
        Ran(
            code=2,
            out="",
            err="""\
unspool: --parquet and --duckdb cannot be used together
hint: remove one of them
""",
        )
    )
    assert run("export", "3fe", "--parquet", "a", "--config-dir", demo) == snapshot(
        Ran(
            code=2,
            out="",
            err="""\
unspool: --parquet and --duckdb export all sessions
hint: remove SESSION and the other formats
""",
        )
    )
    assert run("export", "3fe", "--md", "--raw", "--config-dir", demo) == snapshot(
        Ran(
            code=2,
            out="",
            err="""\
unspool: --raw needs --parquet or --duckdb
hint: remove --raw
""",
        )
    )


REGISTER = """
import duckdb, unspool
connection = duckdb.connect({database!r})
connection.execute("CREATE TABLE mine AS SELECT 1 AS a")
unspool.register(connection, {root!r})
print(connection.execute("SELECT count(*), sum(cost_micros)::BIGINT FROM responses").fetchone())
print(connection.execute("SELECT a FROM mine").fetchall(), connection.execute("SELECT count(*) FROM agents").fetchall())
unspool.register(connection, [{root!r}])
print(connection.execute("SELECT count(*) FROM sessions").fetchone())
"""


def test_a_connection_of_ones_own_gets_the_tables(run: Run, demo: Path, tmp_path: Path) -> None:
    database = str(tmp_path / "mine.db")
    environment = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    program = REGISTER.format(database=database, root=str(demo))
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    ((total),) = asked(run, TOTALS, "--config-dir", demo)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"({total['responses']}, {total['cost_micros']})\n[(1,)] [(10,)]\n(16,)\n"
    with duckdb.connect(database, read_only=True) as connection:
        assert connection.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("mine",)]


class Terminal(PseudoTerminal):
    """A terminal with `unspool sql` in it, and a person in front of it."""

    tells_cursor = True

    def __init__(self, home: Path, *arguments: str | Path) -> None:
        environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "PAGER": "cat",
        }
        super().__init__([sys.executable, "-m", "unspool", "sql", *map(str, arguments)], environment)


@pytest.fixture
def terminal(demo: Path, tmp_path: Path) -> Iterator[Terminal]:
    """A prompt over the made-up data."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    with Terminal(home, "--config-dir", demo, "--timeout", "2") as made:
        yield made


def test_a_prompt_takes_one_question_after_the_other(terminal: Terminal, tmp_path: Path) -> None:
    terminal.see("sql>")
    terminal.press("SELECT 40 + 2 AS\r")
    terminal.see("...>")
    terminal.press("answer;\r")
    terminal.see("42")
    terminal.press(".format json\r")
    terminal.press("SELECT 1 AS one;\r")
    terminal.see('{"one":1}')
    terminal.press("SELECT * FROM nowhere;\r")
    terminal.see("Table with name nowhere does not exist")
    terminal.press("SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range = 7;\r")
    terminal.see("stopped after 2 seconds")
    terminal.press("SELECT 'still' || ' here' AS x;\r")
    terminal.see("still here")
    terminal.press(".quit\r")
    assert terminal.process.wait(30) == 0
    history = tmp_path / "home" / ".local" / "share" / "unspool" / "sql_history"
    assert history.stat().st_mode & 0o777 == 0o600
    assert "nowhere" in history.read_text()


def test_a_prompt_completes_and_tells_of_tables(terminal: Terminal) -> None:
    terminal.see("sql>")
    terminal.press(".schema daily\r")
    terminal.see("estimated_cost_micros BIGINT")
    terminal.press("SELECT count(*) AS lines FROM claude_conv\t")
    terminal.see("FROM claude_conversations")
    terminal.press(";\r")
    terminal.see("lines\n")
    terminal.press(".nonsense\r")
    terminal.see("unknown command")
    terminal.press("\x04")
    assert terminal.process.wait(30) == 0


def test_keys_pressed_while_a_statement_runs_reach_the_next_prompt(terminal: Terminal) -> None:
    terminal.see("sql>")
    terminal.press("SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range = 7;\r")
    terminal.until(lambda: bool(terminal.settings()[3] & termios.ISIG), "the statement never began")
    terminal.press("\x04")
    terminal.see("stopped after 2 seconds")
    assert terminal.process.wait(30) == 0
    assert terminal.settings() == terminal.before


def test_the_name_of_the_data_folder_does_no_harm(run: Run, demo: Path, tmp_path: Path) -> None:
    for name in ("it's here", "a; DROP", "ü 漢"):
        code, out, err = run("sql", "SELECT 1 AS a", "--json", "--config-dir", demo, UNSPOOL_HOME=str(tmp_path / name))
        assert (code, json.loads(out)["items"], err) == (0, [{"a": 1}], "")
    code, out, err = run("sql", "SELECT 1", "--config-dir", demo, UNSPOOL_HOME=str(tmp_path / "a[b]*"))
    assert (code, out) == (5, "")
    assert "as a pattern" in err


def test_doctor_tells_how_large_the_column_files_are(run: Run, demo: Path, tmp_path: Path) -> None:
    assert json.loads(run("doctor", demo, "--json").out)["store"]["column_bytes"] == 0
    asked(run, "SELECT 1", "--config-dir", demo)
    own = tmp_path / "home" / ".local" / "share" / "unspool" / "columns"
    size = sum(path.stat().st_size for path in own.rglob("*") if path.is_file())
    assert json.loads(run("doctor", demo, "--json").out)["store"]["column_bytes"] == size
    assert "; SQL column files " in run("doctor", demo).out


def test_a_query_names_tables_and_not_their_files_which_hold_rows_of_other_folders(run: Run, tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    session(user("Mine"), assistant("Yes."), id=ONE).save(own)
    session(user("The secret of others"), assistant("No."), id=f"{ONE[:-1]}f").save(other)
    assert asked(run, "SELECT count(*) AS n FROM sessions", "--config-dir", other) == [{"n": 1}]
    assert asked(run, "SELECT count(*) AS n FROM sessions", "--config-dir", own) == [{"n": 1}]
    (path, *_) = (tmp_path / "home").rglob("messages*.parquet")
    # Of a schema and a table that do not exist, DuckDB makes the name of a file.
    parted = f'FROM "{path.with_suffix("")}".parquet'
    for query in (f"FROM '{path}'", f"FROM read_parquet('{path}')", parted):
        done = run("sql", query, "--config-dir", own)
        assert (done.code, done.out) == (2, ""), done
        assert "secret of others" not in done.err.lower()
