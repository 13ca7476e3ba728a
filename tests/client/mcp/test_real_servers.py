"""Servers of others, from the package indexes: run where they are installed.

They are looked for on `PATH`, and below `$UNSPOOL_MCP_SERVERS`, a folder with `node_modules` and a virtual environment
`py`:

    npm install @modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem
    python -m venv py && py/bin/pip install mcp-server-git mcp-server-time mcp-server-fetch
"""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from tests.client.conftest import Chat, Place
from tests.client.mcp.conftest import config, results, use

pytest.importorskip("mcp")
FOLDER = Path(os.environ.get("UNSPOOL_MCP_SERVERS", "."))
STREAM = ("-p", "go", "--output-format", "stream-json", "--allowedTools", "mcp__real")


def program(name: str) -> str:
    """Return the path of a server's program, or skip the test."""
    places = (FOLDER.resolve() / "node_modules" / ".bin", FOLDER.resolve() / "py" / "bin")
    found = next((str(place / name) for place in places if (place / name).exists()), None) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def test_server_filesystem_lists_reads_and_writes(chat: Chat, place: Place) -> None:
    server = {"command": program("mcp-server-filesystem"), "args": [str(place.work)]}
    calls = [
        use("mcp__real__write_file", path=str(place.work / "a.txt"), content="one\n"),
        use("mcp__real__read_text_file", path=str(place.work / "a.txt")),
        use("mcp__real__list_directory", path=str(place.work)),
        use("mcp__real__read_text_file", path="/etc/passwd"),
    ]
    ran = chat(*STREAM, "--mcp-config", config(real=server), script=[{"content": calls}, "Done."])
    _, read, listed, refused = map(json.dumps, results(ran.objects))
    assert ("one" in read, "a.txt" in listed, "outside allowed directories" in refused) == (True, True, True)
    assert (place.work / "a.txt").read_text() == "one\n"


def test_server_everything_offers_all_kinds(chat: Chat, place: Place) -> None:
    server = {"command": program("mcp-server-everything"), "args": ["stdio"]}
    calls = [use("mcp__real__echo", message="hello"), use("mcp__real__get-tiny-image"), use("ListMcpResourcesTool")]
    search = use("ToolSearch", query="select:mcp__real__echo,mcp__real__get-tiny-image")
    script = [{"content": [search]}, {"content": calls}, "Done."]
    ran = chat(*STREAM, "--mcp-config", config(real=server), script=script)
    assert ran.objects[0]["mcp_servers"] == [{"name": "real", "status": "connected"}]
    _, echoed, picture, resources = results(ran.objects)
    assert "hello" in json.dumps(echoed)
    assert "image" in [block["type"] for block in picture]
    assert "uri" in resources
    assert any(name.startswith("mcp__real__") for name in ran.objects[0]["slash_commands"])


def test_server_git_reads_a_repository(chat: Chat, place: Place) -> None:
    server = {"command": program("mcp-server-git"), "args": ["--repository", str(place.work)]}
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "init", "-q", str(place.work)], check=True)
    commit = ["git", "-C", str(place.work), *identity, "commit", "-q", "--allow-empty", "-m", "First words"]
    subprocess.run(commit, check=True)
    script = [{"content": [use("mcp__real__git_log", repo_path=str(place.work))]}, "Done."]
    (log,) = results(chat(*STREAM, "--mcp-config", config(real=server), script=script).objects)
    assert "First words" in json.dumps(log)


def test_server_time_tells_the_time(chat: Chat) -> None:
    server = {"command": program("mcp-server-time"), "args": ["--local-timezone", "UTC"]}
    script = [{"content": [use("mcp__real__get_current_time", timezone="Europe/Berlin")]}, "Done."]
    (told,) = results(chat(*STREAM, "--mcp-config", config(real=server), script=script).objects)
    assert "Europe/Berlin" in json.dumps(told)


def test_server_fetch_gets_a_page_of_loopback(chat: Chat, place: Place) -> None:
    server = {"command": program("mcp-server-fetch"), "args": ["--ignore-robots-txt", "--allow-private-ips"]}
    (place.root / "page").mkdir()
    (place.root / "page" / "index.html").write_text("<html><body><p>A page about milk.</p></body></html>")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(place.root / "page"))  # type: ignore[arg-type]

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{pages.server_port}/index.html"
        script = [{"content": [use("mcp__real__fetch", url=url, raw=True)]}, "Done."]
        (fetched,) = results(chat(*STREAM, "--mcp-config", config(real=server), script=script).objects)
        pages.shutdown()
    assert "A page about milk." in json.dumps(fetched)
