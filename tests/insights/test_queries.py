"""The queries of the insights, on tables that were made up: each call and each cent counts once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from random import Random
from typing import Any

import duckdb
import pytest

from unspool.insights import SECTIONS, InsightScope, build_query
from unspool.store.columns import public_tables

ALL = InsightScope()


@cache
def make_tables() -> duckdb.DuckDBPyConnection:
    """Return tables as SQL sees them."""
    connection = duckdb.connect(config={"threads": 1})
    for table in public_tables().values():
        columns = ", ".join(f'"{column.name}" {column.type}' for column in table.columns)
        connection.execute(f"CREATE TABLE {table.name} ({columns})")
    return connection


@contextmanager
def empty_tables() -> Iterator[duckdb.DuckDBPyConnection]:
    """Give tables that are empty, and are again afterwards."""
    connection = make_tables()
    connection.begin()
    try:
        yield connection
    finally:
        connection.rollback()


def insert(connection: duckdb.DuckDBPyConnection, table: str, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))


def ask(connection: duckdb.DuckDBPyConnection, name: str, scope: InsightScope = ALL) -> list[dict[str, Any]]:
    found = connection.execute(build_query(name, scope))
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def test_every_section_is_one_statement_that_runs() -> None:
    with empty_tables() as connection:
        for name in SECTIONS:
            rows = ask(connection, name, InsightScope(0, 1, "project", "session"))
            assert rows == [] or name == "totals"


@pytest.mark.parametrize(
    "text", ["'", "''", "$since$", "$calls$", "\\", "\0", "a' OR 1 = 1 --", "\n-- calls\n", "\ud800"]
)
def test_what_a_user_types_is_a_literal(text: str) -> None:
    """A text that ended the literal would be an error, or choose what it does not name."""
    with empty_tables() as connection:
        insert(connection, "sessions", [{"session_id": "s", "source_id": 1, "project": "shop"}])
        insert(connection, "responses", [{"session_id": "s", "source_id": 1, "cost_micros": 1}])
        query = build_query("totals", InsightScope(project=text, session=text)).encode("utf-8", "replace").decode()
        assert connection.execute(query).fetchone()[0] == 0  # type: ignore[index]
        (named,) = ask(connection, "totals", InsightScope(project="SHOP/"))
        assert named["responses"] == 1


@pytest.mark.parametrize("seed", range(4))
def test_each_call_counts_once_and_costs_add_up(seed: int) -> None:
    """Files 1 and 2 are copies of each other, so that each call is in both; the responses count in file 1."""
    chance = Random(seed)
    costs = {f"m{number}": chance.randrange(1000) for number in range(20)}
    made = [
        (f"m{chance.randrange(20)}", chance.choice(["Read", "Bash", "Edit"]), chance.random() < 0.3)
        for _ in range(chance.randrange(60))
    ]
    with empty_tables() as connection:
        sources = [{"id": source, "path": f"/projects/a/{source}.jsonl", "generation": 1} for source in (1, 2)]
        insert(connection, "sources", sources)
        insert(connection, "sessions", [{"session_id": f"s{one}", "source_id": one, "project": "a"} for one in (1, 2)])
        calls = [
            {"source_id": source, "session_id": f"s{source}", "tool_use_id": f"t{number}", "name": name,
             "uuid": f"u{number}", "message_id": response, "error": error, "offset": number, "duration_ms": number}
            for source in (1, 2) for number, (response, name, error) in enumerate(made)
        ]  # fmt: skip
        insert(connection, "tool_calls", calls)
        billed = [
            {"source_id": 1, "response_id": response, "session_id": "s1", "cost_micros": cost}
            for response, cost in costs.items()
        ]
        insert(connection, "responses", billed)
        tools = ask(connection, "tools")
        assert sum(tool["calls"] for tool in tools) == len(made)
        assert sum(tool["failed"] for tool in tools) == sum(error for *_, error in made)
        assert sum(tool["duration_ms"] for tool in tools) == sum(range(len(made)))
        assert sum(tool["cost_micros"] for tool in tools) == sum(costs[one] for one in {one for one, *_ in made})
        (totals,) = ask(connection, "totals")
        assert (totals["cost_micros"], totals["calls"]) == (sum(costs.values()), len(made))
        assert ask(connection, "tools", InsightScope(session="s2")) == []


@pytest.mark.parametrize("seed", range(4))
def test_of_places_that_weigh_the_same_the_first_are_named(seed: int) -> None:
    calls = [
        {"source_id": source, "session_id": "s", "tool_use_id": f"t{source} {number}", "name": "Read",
         "uuid": f"u{source} {number}", "offset": number, "duration_ms": 7}
        for source in (1, 2) for number in range(30)
    ]  # fmt: skip
    Random(seed).shuffle(calls)
    with empty_tables() as connection:
        insert(connection, "sources", [{"id": one, "path": f"/{one}.jsonl", "generation": 1} for one in (1, 2)])
        insert(connection, "sessions", [{"session_id": "s", "source_id": 1}])
        insert(connection, "tool_calls", calls)
        (tool,) = ask(connection, "tools")
        assert [(place["source_id"], place["offset"]) for place in tool["places"]] == [(1, at) for at in range(5)]


@pytest.mark.parametrize("seed", range(4))
def test_what_filled_a_context_adds_up_to_its_last_prompt(seed: int) -> None:
    chance = Random(seed)
    requests: list[dict[str, Any]] = [
        {"source_id": 1, "generation": 1, "response_id": f"m{number}", "session_id": "s", "offset": number,
         "input_tokens": 0, "cache_read_tokens": chance.randrange(60_000), "cache_write_5m_tokens": chance.randrange(9),
         "cache_write_1h_tokens": 0, "output_tokens": chance.randrange(900), "is_sidechain": False, "retold": False}
        for number in range(1 + chance.randrange(40))
    ]  # fmt: skip
    with empty_tables() as connection:
        insert(connection, "sources", [{"id": 1, "path": "/a.jsonl", "generation": 1}])
        insert(connection, "responses", requests)
        grown = sum(row["tokens"] for row in ask(connection, "growth"))
        assert grown == requests[-1]["cache_read_tokens"] + requests[-1]["cache_write_5m_tokens"]
