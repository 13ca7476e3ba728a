"""Settings files of clients as people write them, with comments and odd line ends: all is there again afterwards."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.errors import Refused
from unspool.mcp_server.client_settings import ClientFile, add_server, find_server, remove_server, server_entry

STRICT = ClientFile("strict", Path("x"))
COMMENTED = STRICT._replace(has_comments=True)
ENTRY = server_entry(["/bin/unspool", "mcp"])
BLANK = st.sampled_from(["", " ", "\n", "\r\n\t", "// note\n", "/* a\n b */", '\n// "x": {\n  ', " /**/ ", "//*/\r\n"])
VALUES = st.sampled_from(['1', '"//"', '"/* \\" */"', "{}", "[1, 2]", '{"a": {}}', "null", '"é,}"'])  # fmt: skip


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Settings with comments and commas wherever they may stand."""

    def members(names: list[str], inner: str | None = None) -> str:
        parts = [
            f"{draw(BLANK)}{json.dumps(name)}{draw(BLANK)}:{draw(BLANK)}"
            f"{inner if name == 'mcpServers' and inner is not None else draw(VALUES)}{draw(BLANK)}"
            for name in names
        ]
        return "{" + ",".join(parts) + (draw(st.sampled_from(["", ","])) if parts else "") + draw(BLANK) + "}"

    names = draw(st.lists(st.sampled_from(["a", "b", "mcpServers"]), unique=True, max_size=3))
    servers = members(draw(st.lists(st.sampled_from(["x", "y"]), unique=True, max_size=2)))
    mark = draw(st.sampled_from(["", "\ufeff"]))
    return f"{mark}{draw(BLANK)}{members(names, servers)}{draw(BLANK)}".encode()


@given(documents())
def test_whatever_stands_around_the_servers_is_there_with_ours_and_after_it(document: bytes) -> None:
    after = None
    with suppress(Refused):  # only where a comment stands in the braces that ours would be put in
        after = add_server(document, COMMENTED, ENTRY)
    if after is None:
        assert b"/" in document
        return
    assert find_server(after, COMMENTED) == ENTRY
    assert add_server(after, COMMENTED, ENTRY) == after
    assert remove_server(after, COMMENTED, document) == document


@pytest.mark.parametrize(
    "document",
    [
        b'\xef\xbb\xbf{\n  "a": 1\n}\n',
        b'{\r\n\t"a": 1,\r\n\t"mcpServers": {\r\n\t\t"x": {}\r\n\t}\r\n}\r\n',
        b'{ "mcpServers"\n:{ "x"\n\t:  {}} ,"z":[1,\n2]}',
        b'{"mcpServers": {"a":1}, "mcpServers": {}}',
        b'{"mcpServers": {"unspool": null}}',
        b"\r\n",
    ],
)
def test_every_client_has_back_what_it_had(document: bytes) -> None:
    for file in (STRICT, COMMENTED):
        after = add_server(document, file, ENTRY)
        assert after.count(b"\r\n") in (0, after.count(b"\n")) or b"\r\n" not in document
        assert remove_server(after, file, document) == document


def test_a_comment_that_was_written_since_stays() -> None:
    document = b'{\n  "mcpServers": {} // mine\n}\n'
    after = add_server(document, COMMENTED, ENTRY).replace(b"// mine", b"// mine, later")
    assert remove_server(after, COMMENTED, document) == document.replace(b"// mine", b"// mine, later")


@pytest.mark.parametrize(
    ("document", "file"),
    [
        (b'{\n  // mine\n  "a": 1\n}', STRICT),
        ('{"a": 1}'.encode("utf-16"), COMMENTED),
        (b'{"mcpServers": { /* none */ }}', COMMENTED),
        (b'{"a": 1 /* not closed }', COMMENTED),
        (b'{"a": "\xe9"}', STRICT),
        (b'{"a":' + b"[" * 50_000, STRICT),
    ],
)
def test_what_the_client_would_not_read_or_would_lose_a_comment_is_refused(document: bytes, file: ClientFile) -> None:
    with pytest.raises(Refused) as refused:
        add_server(document, file, ENTRY)
    assert refused.value.hint


@pytest.mark.parametrize("piece", [b"/*", b'"\\', b'\\"', b",", b"//\n", b"/", b'"'])
def test_a_settings_file_of_nothing_but_beginnings_takes_time_by_its_size(piece: bytes) -> None:
    begun = time.process_time()
    with pytest.raises(Refused):
        add_server(b'{"a": ' + piece * (400_000 // len(piece)), COMMENTED, ENTRY)
    assert time.process_time() - begun < 10
