import json
import os
import socket
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tests.client.tools.calling import call, decoded, desk_in, problem_of, text_of
from unspool.client.tool_context import Desk
from unspool.client.tools.base import Outcome
from unspool.format.tools.files import ReadImage, ReadNotebook, ReadPdf, ReadText
from unspool.testing.pictures import curve
from unspool.testing.strict import problems

PDF = b"%PDF-1.4\n1 0 obj<</Type/Pages/Kids[2 0 R]/Count 1>>endobj\n2 0 obj<</Type/Page>>endobj\n%%EOF\n"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return desk_in(tmp_path)


def read(desk: Desk, name: str, data: bytes, **given: Any) -> Outcome:
    path = desk.place.root / name
    path.write_bytes(data)
    return call(desk, "Read", file_path=str(path), **given)


def accepted(*content: dict[str, Any]) -> bool:
    """Tell whether the API takes a message with these blocks."""
    body = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": list(content)}]}
    return problems(body) == []


def test_a_text_has_numbers_and_is_told_of_as_the_program_does(desk: Desk) -> None:
    outcome = read(desk, "a.txt", b"one\r\ntwo\r\n")
    assert outcome.content == "     1→one\n     2→two\n     3→"
    result = decoded("Read", outcome)
    assert isinstance(result, ReadText)
    assert outcome.result == {
        "type": "text",
        "file": {
            "filePath": str(desk.place.root / "a.txt"),
            "content": "one\ntwo\n",
            "numLines": 3,
            "startLine": 1,
            "totalLines": 3,
        },
    }


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\xef\xbb\xbfa", "     1→\ufeffa"),
        (b"caf\xe9", "     1→caf\ufffd"),
        ("\ufeffhej\r\nd\xe5".encode("utf-16-be"), "     1→\ufeffhej\n     2→d\xe5"),
        (b"a\rb\r", "     1→a\rb\r"),
        (b"a\x0cb\xe2\x80\xa8c", "     1→a\x0cb\u2028c"),
        (b"\n", "     1→\n     2→"),
    ],
)
def test_texts_of_all_kinds_are_shown(desk: Desk, data: bytes, shown: str) -> None:
    assert read(desk, "a.txt", data).content == shown


def test_lines_can_be_asked_for(desk: Desk) -> None:
    many = b"".join(b"line %d\n" % number for number in range(1, 2501))
    assert read(desk, "a.txt", many, offset=2400, limit=2).content == "  2400→line 2400\n  2401→line 2401"
    assert read(desk, "a.txt", many, offset=2500).content == "  2500→line 2500\n  2501→"
    assert read(desk, "a.txt", many, offset=0, limit=1).content == "     1→line 1"
    assert read(desk, "a.txt", many, offset="2", limit="1").content == "     2→line 2"
    words = text_of(read(desk, "a.txt", many, offset=3000))
    assert "shorter than the provided offset (3000). The file has 2501 lines." in words


def test_an_empty_file_says_so(desk: Desk) -> None:
    assert "the file exists but the contents are empty" in text_of(read(desk, "a.txt", b""))


def test_what_is_too_much_is_refused_with_what_to_do(desk: Desk) -> None:
    large = b"word here\n" * 40_000
    assert problem_of(read(desk, "a.txt", large)).startswith(
        "File content (390.6KB) exceeds maximum allowed size (256KB). Please use offset and limit"
    )
    assert problem_of(read(desk, "a.txt", large, offset=1)).startswith("File content (")
    assert read(desk, "a.txt", large, offset=39_999, limit=1).content == " 39999→word here"


def test_a_line_without_end_does_not_fill_the_memory(desk: Desk) -> None:
    assert "exceeds maximum allowed tokens (25000)" in problem_of(read(desk, "a.txt", b"x" * (8 << 20), limit=1))
    assert read(desk, "a.txt", b"x" * (8 << 20) + b"\nend", offset=2).content == "     2→end"


def test_a_path_may_be_relative_or_at_home_or_odd(desk: Desk) -> None:
    (desk.place.root / "sub").mkdir()
    (desk.place.root / "sub" / "né [x] $(y).txt").write_text("a")
    (desk.place.root.parent / "home.txt").write_text("b")
    assert call(desk, "Read", file_path="sub/né [x] $(y).txt").content == "     1→a"
    assert call(desk, "Read", file_path="~/home.txt").content == "     1→b"
    desk.cwd = desk.place.root / "sub"
    assert call(desk, "Read", file_path="né [x] $(y).txt").content == "     1→a"


def test_what_is_not_there_says_so_and_what_is_like_it(desk: Desk) -> None:
    (desk.place.root / "a.txt").write_text("a")
    assert problem_of(call(desk, "Read", file_path="b.txt")) == "File does not exist."
    assert problem_of(call(desk, "Read", file_path="a.tx")) == "File does not exist. Did you mean a.txt?"
    assert problem_of(call(desk, "Read", file_path="a.txt/b")) == "File does not exist."
    assert problem_of(call(desk, "Read", file_path="a\0b")) == "Path contains null bytes"
    assert "empty" in problem_of(call(desk, "Read", file_path=""))
    assert problem_of(call(desk, "Read", file_path="x" * 300)).startswith("ENAMETOOLONG")


def test_folders_pipes_devices_and_sockets_are_not_waited_for(desk: Desk) -> None:
    os.mkfifo(desk.place.root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(desk.place.root / "socket"))
    assert problem_of(call(desk, "Read", file_path=".")) == "EISDIR: illegal operation on a directory, read"
    for name in ("pipe", "socket", "/dev/zero"):
        assert problem_of(call(desk, "Read", file_path=name)).startswith("Not a regular file")


def test_binary_files_are_not_shown(desk: Desk) -> None:
    words = "This tool cannot read binary files. The file appears to be a binary{} file."
    assert problem_of(read(desk, "a.exe", b"MZ\0\1")).startswith(words.format(" .exe"))
    assert problem_of(read(desk, "program", b"\x7fELF\0")).startswith(words.format(""))


def test_a_picture_is_a_block_that_the_api_takes(desk: Desk) -> None:
    data = curve(30, 20)
    outcome = read(desk, "a.png", data)
    assert isinstance(outcome.content, list)
    assert accepted(*outcome.content)
    result = decoded("Read", outcome)
    assert isinstance(result, ReadImage)
    assert result.file.base64 == b64encode(data).decode()
    assert (result.file.dimensions and result.file.dimensions.display_width) == 30


def test_a_picture_is_known_by_its_bytes(desk: Desk) -> None:
    outcome = read(desk, "a.jpg", curve(3, 2))
    assert isinstance(outcome.content, list)
    assert outcome.content[0]["source"]["media_type"] == "image/png"
    assert problem_of(read(desk, "b.png", b"not a picture")).startswith("The file is not a picture")
    assert problem_of(read(desk, "c.png", b"")) == "Empty image files cannot be processed."


def test_a_picture_that_the_api_would_refuse_is_refused(desk: Desk) -> None:
    assert "too large" in problem_of(read(desk, "a.png", curve(3, 2) + b"\0" * (4 << 20)))
    assert "8001 × 1 pixels" in problem_of(read(desk, "a.png", curve(8001, 1)))


def test_a_pdf_follows_its_result_as_a_document(desk: Desk) -> None:
    outcome = read(desk, "a.pdf", PDF)
    path = desk.place.root / "a.pdf"
    assert outcome.content == f"PDF file read: {path} ({len(PDF)} bytes)"
    assert isinstance(decoded("Read", outcome), ReadPdf)
    assert accepted(*outcome.extra)


def test_a_pdf_that_is_none_or_has_too_much_is_refused(desk: Desk) -> None:
    assert problem_of(read(desk, "a.pdf", b"")).startswith("PDF file is empty")
    assert problem_of(read(desk, "a.pdf", b"hello")).startswith("The file is not a PDF")
    assert "too many pages (101 of 100)" in problem_of(read(desk, "a.pdf", b"%PDF-1.4" + b"<</Type /Page>>" * 101))


def test_a_notebook_is_shown_by_its_cells(desk: Desk) -> None:
    picture = b64encode(curve(3, 2)).decode()
    outputs = [
        {"output_type": "stream", "text": ["1\n", "2\n"]},
        {"output_type": "execute_result", "data": {"text/plain": ["42"], "image/png": f"{picture}\n"}},
        {"output_type": "error", "ename": "E", "evalue": "bad", "traceback": ["t1"]},
        {"output_type": "display_data", "data": {"image/png": "bm90IGEgcGljdHVyZQ=="}},
        "odd",
    ]
    cells = [
        {"cell_type": "markdown", "id": "m1", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "id": "c1", "execution_count": 3, "source": "print(1)", "outputs": outputs},
        {"cell_type": "code", "source": "big", "outputs": [{"output_type": "stream", "text": "y" * 20_000}]},
        "no cell",
        {},
    ]
    outcome = read(desk, "a.ipynb", json.dumps({"cells": cells, "metadata": []}).encode())
    assert isinstance(outcome.content, list)
    assert [block["type"] for block in outcome.content] == ["text", "image", "text"]
    assert outcome.content[0]["text"] == (
        '<cell id="m1"><cell_type>markdown</cell_type># Title\ntext</cell id="m1">\n'
        '<cell id="c1">print(1)</cell id="c1">\n\n1\n2\n\n\n42'
    )
    assert outcome.content[2]["text"].startswith("\nE: bad\nt1\n\n[image/png: a picture that cannot be shown]\n")
    assert "jq '.cells[2].outputs'" in outcome.content[2]["text"]
    assert accepted(*outcome.content)
    assert isinstance(decoded("Read", outcome), ReadNotebook)


def test_a_notebook_that_is_none_is_refused(desk: Desk) -> None:
    assert problem_of(read(desk, "a.ipynb", b"{oops")) == "Notebook is not valid JSON."
    assert problem_of(read(desk, "a.ipynb", b"[" * 100_000)) == "Notebook is not valid JSON."
    assert problem_of(read(desk, "a.ipynb", b"{}")).startswith("Notebook has no cells")


def test_a_file_that_becomes_a_link_after_it_was_judged_is_not_opened(desk: Desk, tmp_path: Path) -> None:
    """A path without links is opened without following any: none of its folders, and not the file."""
    from unspool.client.tools.files import text_file as disk

    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (desk.place.root / "folder").symlink_to(outside)
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        disk.load(desk.place.root / "folder" / "secret")
    (desk.place.root / "file").symlink_to(outside / "secret")
    with pytest.raises(Exception, match="Not a regular file"):
        disk.load(desk.place.root / "file")
