"""A session's page over a real socket: nothing but sessions can be asked for, and what happens is told once."""

from __future__ import annotations

import http.client
import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.serving import Served, serving
from unspool.testing.build import Built, assistant, session, tool_use, user

ID = "10000000-0000-4000-8000-000000000001"
OTHER = "10000000-0000-4000-8000-000000000002"
LINKED = "10000000-0000-4000-8000-00000000000b"
SECRET = "the secret of another folder"


def bomb() -> bytes:
    """Return a picture that says it has 60,000 by 60,000 points, and would take 10 GB to show."""
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(100_000)))
        + chunk(b"IEND", b"")
    )


def picture(data: bytes, mime: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": b64encode(data).decode()}}


def built(*steps: Any, id: str = ID) -> Built:
    return session(*steps, id=id)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("place")
    config = place / "claude"
    built(
        user("Look at these", picture(bomb(), "image/png"), picture(b"<script>alert(1)</script>", "text/html")),
        assistant("I see.", tool_use("Bash", command="ls")),
    ).save(config)
    path = built(user("Nothing special"), assistant("No."), id=OTHER).save(config)
    outside = place / "outside.jsonl"
    outside.write_bytes(built(user(SECRET), assistant(SECRET), id=LINKED).data)
    (path.parent / f"{LINKED}.jsonl").symlink_to(outside)
    (path.parent / OTHER / "subagents").mkdir(parents=True)
    (path.parent / OTHER / "subagents" / "agent-abc1234.jsonl").symlink_to(outside)
    return config


@pytest.fixture(scope="module")
def served(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(config, home=tmp_path_factory.mktemp("home")) as one:
        one.enter()
        yield one


ELSEWHERE = [
    "..", "../..", "../../../../etc/passwd", "/etc/passwd", "~", ".", "*", "%", "\0", "100", f"{ID}x", "a" * 5000,
]  # fmt: skip
PARTS = ["", "/rows?block=1-0", "/outline?turns=1..2", "/detail?step=0.0", "/chart", "/agents", "/find?words=x"]


@pytest.mark.parametrize("id", [*ELSEWHERE, LINKED])
def test_only_the_whole_id_of_a_session_leads_anywhere(served: Served, config: Path, id: str) -> None:
    for part in PARTS:
        answer = served.get(f"/session/{quote(id, safe='')}{part}")
        assert answer.status in {400, 404}, part
        assert SECRET not in answer.text
        assert "root:" not in answer.text
    assert served.get(f"/blob/{quote(id, safe='')}/{'0' * 64}").status == 404


def test_the_beginning_of_several_ids_leads_to_their_list_and_nowhere_else(served: Served) -> None:
    several = served.get(f"/session/{ID[:-1]}")
    assert (several.status, several.headers["Location"]) == (302, f"/sessions?q={ID[:-1]}&hidden=1")
    for part in PARTS[1:]:
        assert served.get(f"/session/{ID[:-1]}{part}").status in {400, 404}


def test_a_path_is_no_id(served: Served, config: Path) -> None:
    path = next(config.rglob(f"{OTHER}.jsonl"))
    for id in (str(path), f"../-home-me-project/{OTHER}", f"{OTHER}.jsonl"):
        assert served.get(f"/session/{quote(id, safe='')}").status == 404
    assert served.get(f"/session/{OTHER}").status == 200


@pytest.mark.parametrize("agent", ["abc1234", "../x", "/etc/passwd", "..", "\0", "agent-abc1234"])
def test_an_agent_is_one_of_the_session_and_never_a_link(served: Served, agent: str) -> None:
    for part in ("", ".json", "/rows", "/outline", "/chart"):
        answer = served.get(f"/session/{OTHER}{part}?agent={quote(agent, safe='')}")
        assert answer.status == 404
        assert SECRET not in answer.text


@pytest.mark.parametrize("digest", ["0" * 64, "x", "../../etc/passwd", "%2e%2e", "\0", "é" * 64])
def test_a_picture_is_one_of_the_session(served: Served, digest: str) -> None:
    assert served.get(f"/blob/{ID}/{quote(digest, safe='')}").status == 404


def test_a_link_out_of_the_folder_is_on_no_page(served: Served) -> None:
    pages = ("/sessions", f"/session/{OTHER}", f"/session/{OTHER}/agents", "/search?q=secret")
    for path in (*pages, "/palette.json?q=secret"):
        assert SECRET not in served.get(path).text


def test_a_bomb_is_served_as_the_few_bytes_it_is_and_what_is_no_picture_not_at_all(served: Served) -> None:
    rows = served.get(f"/session/{ID}.json").json["sections"][0]["rows"]
    (shown,) = [one for row in rows for one in row["pictures"]]
    answer = served.get(f"/blob/{ID}/{shown['digest']}")
    assert (answer.status, answer.body) == (200, bomb())
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert served.get(f"/session/{OTHER}").status == 200


ESCAPES = [
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "COPY (SELECT 1) TO '{out}'",
    "EXPORT DATABASE '{out}'",
    "ATTACH '{out}' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "PRAGMA enable_profiling",
    "SELECT 1; DROP TABLE sessions",
    "CREATE TABLE x AS SELECT 1",
    "SELECT getenv('HOME')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM read_csv('http://127.0.0.1:1/x')",
]


@pytest.mark.parametrize("query", ESCAPES)
def test_the_console_reads_tables_and_nothing_else(served: Served, tmp_path: Path, query: str) -> None:
    out = tmp_path / "out"
    answer = served.get(f"/sql.json?q={quote(query.format(out=out))}")
    said = answer.json
    assert answer.status in {200, 400, 403}
    assert said.get("error")
    assert "root:" not in answer.text
    assert not out.exists()


@contextmanager
def following(served: Served, id: str, position: str, *, again: bool = False) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(served.host, served.port, timeout=30)
    headers = {**served.own_headers, **({"Last-Event-ID": position} if again else {})}
    connection.request("GET", f"/session/{id}/events?from={'0' if again else position}", headers=headers)
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def heard(stream: http.client.HTTPResponse) -> tuple[str, dict[str, Any]]:
    """Return the next event: its id and what it tells."""
    id = ""
    while line := stream.readline().decode():
        if line.startswith("id: "):
            id = line[4:].strip()
        elif line.startswith("data: "):
            return id, json.loads(line[6:])
    raise AssertionError("the stream has ended")


def told(stream: http.client.HTTPResponse, words: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the rows that are told until one has these words, and the position then."""
    rows: list[dict[str, Any]] = []
    while True:
        position, growth = heard(stream)
        rows += growth["rows"]
        if any(words in row["html"] for row in rows):
            return position, rows


def test_who_was_away_is_told_what_they_missed_and_nothing_twice(tmp_path: Path) -> None:
    steps = [user("One"), assistant("First."), user("Two"), assistant("Second."), user("Three"), assistant("Third.")]
    before, middle, after = (built(*steps[:count]).data for count in (2, 4, 6))
    path = built(*steps[:2]).save(tmp_path / "claude")
    with serving(tmp_path / "claude", home=tmp_path / "home") as served, path.open("ab", buffering=0) as file:
        served.enter()
        position = str(served.get(f"/session/{ID}.json").json["position"])
        assert position == str(len(before))
        with following(served, ID, position) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            file.write(middle[len(before) :])
            left, _ = told(stream, "Second.")
        file.write(after[len(middle) :])
        with following(served, ID, left, again=True) as stream:
            end, missed = told(stream, "Third.")
        assert end == str(len(after))
        assert not any("First." in row["html"] for row in missed)
        with following(served, ID, position) as stream:  # a page that slept all the while
            _, everything = told(stream, "Third.")
    keys = [row["key"] for row in everything]
    assert list(dict.fromkeys(keys)) == sorted(set(keys), key=lambda key: int(key.partition(".")[0]))
