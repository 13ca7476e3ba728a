"""The connection to a server that is started again beside it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.mcp.conftest import HERE
from unspool.client.mcp.connection import ServerConnection
from unspool.client.mcp.connection_end import ServerEnded, TransportContext
from unspool.client.mcp.server_config import ServerConfig

pytest.importorskip("mcp")


def start_server(note: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, str(HERE / "things_server.py"), "http", str(note)], stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    while b"running on" not in process.stderr.readline():
        assert process.poll() is None
    return process


def stop_server(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


async def add(connection: ServerConnection) -> object:
    result = await connection.call_tool("add", {"a": 1, "b": 2}, lambda progress: None)
    return result["structuredContent"]


def test_a_server_on_the_network_that_was_started_again_is_connected_to_again(tmp_path: Path) -> None:
    note = tmp_path / "port"
    first = start_server(note)
    url = f"http://127.0.0.1:{note.read_text()}/mcp"

    async def talk() -> None:
        server = ServerConfig(name="things", scope="user", transport="http", url=url)
        connection = ServerConnection(server, TransportContext({}, tmp_path))
        connection.start()
        await connection.wait_settled()
        assert await add(connection) == {"result": 3}
        stop_server(first)
        with pytest.raises(ServerEnded):
            await add(connection)
        second = start_server(note)
        assert [*await asyncio.gather(add(connection), add(connection))] == [{"result": 3}] * 2
        await connection.stop()
        assert connection.status == "disabled"
        stop_server(second)

    asyncio.run(talk())
