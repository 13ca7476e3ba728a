"""URLs of databases: a password in one is refused, and never repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.conftest import Program
from unspool.collect.lake.tables import lake_tables, private_tables
from unspool.collect.sinks import choose_tables, parse_address
from unspool.errors import Refused, UnspoolError, UsageError

SECRET = "hunter2"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ada:{SECRET}@db/team",
        f"postgres://ada:{SECRET}@db/team",
        f"postgresql://db/team?user=ada&password={SECRET}",
        f"postgresql://db/team?sslpassword={SECRET}",
        f"postgresql://ada:{SECRET}/x@db/team",
        f"postgresql://ada:{SECRET}#x@db/team",
        f"postgresql://ada:12{SECRET}?x@db/team",
        "postgresql://ada:12#hunter2@db/team",
        f"clickhouse://ada:{SECRET}@db",
        f"clickhouse+http://ada:{SECRET}@db:8123",
        f"clickhouse://db?password={SECRET}",
        f"mysql://ada:{SECRET}@db",
        f"clickhouse+ftp://ada:{SECRET}@db",
        f"host=db password={SECRET}",
    ],
)
def test_a_password_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UnspoolError) as caught:
        parse_address(url, "unspool", {})
    assert SECRET not in f"{caught.value.message} {caught.value.hint}"
    if url.startswith(("postgres", "clickhouse:", "clickhouse+http")):
        assert isinstance(caught.value, Refused)
        assert "--env-file" in str(caught.value.hint)


def test_the_command_says_how_to_give_the_password(tmp_path: Path) -> None:
    done = Program(tmp_path).run("lake", "sink", "--lake", "none", "--to", f"postgresql://ada:{SECRET}@db/team")
    assert (done.code, done.out) == (5, "")
    assert done.err == (
        "unspool: a password in the URL is visible to others\n"
        "hint: remove it and use `PGPASSWORD`, `~/.pgpass` or `--env-file`\n"
    )


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://db.example/team", "postgresql://db.example/team?sslmode=require"),
        (
            "postgres://ada@db.example/team?connect_timeout=3",
            "postgresql://ada@db.example/team?connect_timeout=3&sslmode=require",
        ),
        ("postgresql://db.example/team?sslmode=verify-full", "postgresql://db.example/team?sslmode=verify-full"),
        ("postgresql://localhost/team", "postgresql://localhost/team"),
        ("postgresql:///team?host=/run/postgresql", "postgresql:///team?host=/run/postgresql"),
        ("clickhouse://ada@db.example", "clickhouse://db.example"),
    ],
)
def test_another_machine_is_asked_for_an_encrypted_connection(url: str, shown: str) -> None:
    assert parse_address(url, "unspool", {}).url == shown


def test_clickhouse_has_its_own_ports_and_reads_the_user_from_the_environment() -> None:
    secure = parse_address("clickhouse://db", "team", {"CLICKHOUSE_USER": "ada"})
    assert (secure.port, secure.is_encrypted, secure.user, secure.schema) == (8443, True, "ada", "team")
    plain = parse_address("clickhouse+http://bob@db:99", "team", {"CLICKHOUSE_USER": "ada"})
    assert (plain.port, plain.is_encrypted, plain.user) == (99, False, "bob")


@pytest.mark.parametrize("schema", ["", "Team", "a-b", 'a"b', "1a", "a" * 64])
def test_a_schema_has_a_plain_name(schema: str) -> None:
    with pytest.raises(UsageError, match="not a schema name"):
        parse_address("clickhouse://db", schema, {})


def test_tables_with_text_are_copied_only_if_that_is_said() -> None:
    assert set(choose_tables([], with_text=False)) == lake_tables().keys() - set(private_tables())
    assert choose_tables([], with_text=True) == list(lake_tables())
    assert choose_tables(["sources", "responses"], with_text=False) == ["responses", "sources"]
    with pytest.raises(Refused, match="the table `messages` has text"):
        choose_tables(["responses", "messages"], with_text=False)
    with pytest.raises(UsageError, match="no such table: `bills`"):
        choose_tables(["bills"], with_text=True)
