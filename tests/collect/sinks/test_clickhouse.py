"""The lock of a database of ClickHouse, and its HTTP interface as a real server speaks it.

`engine` is the current engine (chDB) behind an interface of the tests' own. `old_server` is Debian's server 18.16 with
its own interface. Its dialect lacks types that the tables need: of a sink it can only run the bookkeeping and the lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import msgspec
import pytest

from tests.collect.sinks.databases import USER
from unspool.collect.sinks import SinkAddress, parse_address
from unspool.collect.sinks.clickhouse import (
    LEASE,
    ClickHouseLock,
    ClickHouseTarget,
    SinkOwner,
    current_owner,
    open_clickhouse,
)
from unspool.collect.sinks.clickhouse_http import ClickHouseClient, ClickHouseError
from unspool.errors import Refused, SinkFailed

ENDED = SinkOwner("another boot", "", 1, None)


class Server:
    """A server, and a database of it that is there for one test."""

    def __init__(self, port: int, password: str) -> None:
        self.password, self.environment = password, {"CLICKHOUSE_USER": USER, "CLICKHOUSE_PASSWORD": password}
        self.address: SinkAddress = parse_address(f"clickhouse+http://127.0.0.1:{port}", "locks", self.environment)
        self.client = ClickHouseClient(self.address, password)
        self.client.execute("DROP DATABASE IF EXISTS locks")
        self.client.execute("CREATE DATABASE locks")

    def lock(self) -> ClickHouseLock:
        """Take the lock."""
        return ClickHouseLock(self.client, self.address)

    def write_owner(self, number: int, owner: SinkOwner, seconds_ago: float) -> None:
        """Write who holds a lock, as if that had been some time ago."""
        self.client.execute(f"CREATE TABLE locks.sink_lock_{number} (owner String, is_released UInt8,"
                            " at DateTime DEFAULT now()) ENGINE = MergeTree ORDER BY at")  # fmt: skip
        text = msgspec.json.encode(owner).decode().replace("'", "")
        self.client.execute(
            f"INSERT INTO locks.sink_lock_{number} SELECT '{text}', 0, now() - toIntervalSecond({seconds_ago:.0f})"
        )


@pytest.fixture(params=["engine", "old_server"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Return one of both."""
    found = Server(*request.getfixturevalue(request.param))
    yield found
    found.client.close()


def test_one_of_two_sinks_has_the_lock(server: Server) -> None:
    first = server.lock()
    with pytest.raises(Refused, match="another sink is writing to `locks` at"):
        server.lock()
    first.release()
    second = server.lock()
    assert second.number == first.number + 1
    with pytest.raises(Refused, match="it has the lock now"):
        first.check()
    second.check()


def test_a_lock_says_who_holds_it_from_the_beginning(server: Server) -> None:
    lock = server.lock()
    ((owner, is_released, seconds),) = server.client.rows(
        f"SELECT owner, is_released, dateDiff('second', at, now()) FROM locks.sink_lock_{lock.number}"
    )
    assert msgspec.json.decode(owner, type=SinkOwner) == current_owner()
    assert (is_released, int(seconds) < 60) == (0, True)


def test_a_sink_that_was_silent_for_too_long_has_lost_its_lock(server: Server) -> None:
    server.write_owner(7, ENDED, LEASE - 100)
    with pytest.raises(Refused, match="another sink"):
        server.lock()
    server.client.execute("DROP TABLE locks.sink_lock_7")
    server.write_owner(8, ENDED, LEASE + 100)
    assert server.lock().number == 9


def test_a_sink_of_this_machine_that_has_ended_has_lost_its_lock_at_once(server: Server) -> None:
    # The process with the number 1 began at another time.
    server.write_owner(3, msgspec.structs.replace(current_owner(), pid=1, ticks="1"), 0)
    assert server.lock().number == 4


def test_a_row_is_inserted_and_read_as_it_is(server: Server) -> None:
    rows = [
        {"text": 'a\t"b"\\n\n\0é😀\'; --', "number": 2**63 - 1, "list": ["x", ""]},
        {"text": "", "number": 0, "list": []},
    ]
    server.client.execute("CREATE TABLE locks.t (text String, number Int64, list Array(String)) ENGINE = Memory")
    server.client.insert("locks.t", ["text", "number", "list"], rows)
    found = server.client.rows("SELECT text, number, list FROM locks.t ORDER BY number DESC")
    assert [(text, int(number), names) for text, number, names in found] == [tuple(row.values()) for row in rows]


def test_an_error_of_the_server_is_one_line_with_its_code(server: Server) -> None:
    with pytest.raises(ClickHouseError, match=r"^cannot write to `locks` at `[^`]*`: [^\n]*") as caught:
        server.client.execute("DROP TABLE locks.missing")
    assert (caught.value.code, caught.value.is_final) == (60, True)
    assert "e.what()" not in caught.value.message
    with pytest.raises(ClickHouseError):
        server.client.insert("locks.missing", ["a"], [{"a": 1}])


def test_a_wrong_password_is_refused_with_a_hint(server: Server) -> None:
    client = ClickHouseClient(server.address, "mistaken")
    with pytest.raises(SinkFailed, match=USER) as caught:
        client.rows("SELECT 1")
    assert "mistaken" not in caught.value.message
    assert "CLICKHOUSE_PASSWORD" in str(caught.value.hint)
    client.close()


def test_the_newest_entry_of_a_file_is_valid(server: Server) -> None:
    entry = {"table_name": "responses", "path": "a", "load": 1, "row_count": 5, "counts": 1, "position": 1}
    with open_clickhouse(server.address, server.environment, lambda _: None) as target:
        assert isinstance(target, ClickHouseTarget)
        assert (target.files("responses"), target.filled()) == (set(), {})
        entries = [entry, {**entry, "path": "b", "load": 2}, {**entry, "counts": 0, "position": 3}]
        server.client.insert("locks.sink_files", list(entry), entries)
        assert target.files("responses") == {"b"}
        server.client.insert("locks.sink_files", list(entry), [{**entry, "load": 4, "position": 5}])
        assert target.files("responses") == {"a", "b"}
        assert target.files("answers") == set()


def test_a_server_that_is_gone_is_an_error_that_may_pass(server: Server) -> None:
    nobody = server.address._replace(port=1, url="clickhouse+http://127.0.0.1:1")
    with ExitStack() as stack, pytest.raises(SinkFailed, match="no answer from") as caught:
        stack.enter_context(open_clickhouse(nobody, server.environment, lambda _: None))
    assert not caught.value.is_final
