import json
import os
import socket
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tests.client.tools.calling import call, context_in, decoded, problem_of, text_of
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import ToolOutcome
from unspool.format.tools.files import ReadImage, ReadNotebook, ReadPdf, ReadText
from unspool.testing.pictures import curve
from unspool.testing.strict import problems

PDF = b"%PDF-1.4\n1 0 obj<</Type/Pages/Kids[2 0 R]/Count 1>>endobj\n2 0 obj<</Type/Page>>endobj\n%%EOF\n"


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return context_in(tmp_path)


def read(context: ToolContext, name: str, data: bytes, **given: Any) -> ToolOutcome:
    path = context.workspace.root / name
    path.write_bytes(data)
    return call(context, "Read", file_path=str(path), **given)


def accepted(*content: dict[str, Any]) -> bool:
    """Tell whether the API takes a message with these blocks."""
    body = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": list(content)}]}
    return problems(body) == []


def test_a_text_has_numbers_and_is_told_of_as_the_program_does(context: ToolContext) -> None:
    outcome = read(context, "a.txt", b"one\r\ntwo\r\n")
    assert outcome.content == "     1→one\n     2→two\n     3→"
    result = decoded("Read", outcome)
    assert isinstance(result, ReadText)
    assert outcome.result == {
        "type": "text",
        "file": {
            "filePath": str(context.workspace.root / "a.txt"),
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
def test_texts_of_all_kinds_are_shown(context: ToolContext, data: bytes, shown: str) -> None:
    assert read(context, "a.txt", data).content == shown


def test_lines_can_be_asked_for(context: ToolContext) -> None:
    many = b"".join(b"line %d\n" % number for number in range(1, 2501))
    assert read(context, "a.txt", many, offset=2400, limit=2).content == "  2400→line 2400\n  2401→line 2401"
    assert read(context, "a.txt", many, offset=2500).content == "  2500→line 2500\n  2501→"
    assert read(context, "a.txt", many, offset=0, limit=1).content == "     1→line 1"
    assert read(context, "a.txt", many, offset="2", limit="1").content == "     2→line 2"
    words = text_of(read(context, "a.txt", many, offset=3000))
    assert "shorter than the provided offset (3000). The file has 2501 lines." in words


def test_an_empty_file_says_so(context: ToolContext) -> None:
    assert "the file exists but the contents are empty" in text_of(read(context, "a.txt", b""))


def test_what_is_too_much_is_refused_with_what_to_do(context: ToolContext) -> None:
    large = b"word here\n" * 40_000
    assert problem_of(read(context, "a.txt", large)).startswith(
        "File content (390.6KB) exceeds maximum allowed size (256KB). Please use offset and limit"
    )
    assert problem_of(read(context, "a.txt", large, offset=1)).startswith("File content (")
    assert read(context, "a.txt", large, offset=39_999, limit=1).content == " 39999→word here"


def test_a_line_without_end_does_not_fill_the_memory(context: ToolContext) -> None:
    assert "exceeds maximum allowed tokens (25000)" in problem_of(read(context, "a.txt", b"x" * (8 << 20), limit=1))
    assert read(context, "a.txt", b"x" * (8 << 20) + b"\nend", offset=2).content == "     2→end"


def test_a_path_may_be_relative_or_at_home_or_odd(context: ToolContext) -> None:
    (context.workspace.root / "sub").mkdir()
    (context.workspace.root / "sub" / "né [x] $(y).txt").write_text("a")
    (context.workspace.root.parent / "home.txt").write_text("b")
    assert call(context, "Read", file_path="sub/né [x] $(y).txt").content == "     1→a"
    assert call(context, "Read", file_path="~/home.txt").content == "     1→b"
    context.cwd = context.workspace.root / "sub"
    assert call(context, "Read", file_path="né [x] $(y).txt").content == "     1→a"


def test_what_is_not_there_says_so_and_what_is_like_it(context: ToolContext) -> None:
    (context.workspace.root / "a.txt").write_text("a")
    assert problem_of(call(context, "Read", file_path="b.txt")) == "File does not exist."
    assert problem_of(call(context, "Read", file_path="a.tx")) == "File does not exist. Did you mean a.txt?"
    assert problem_of(call(context, "Read", file_path="a.txt/b")) == "File does not exist."
    assert problem_of(call(context, "Read", file_path="a\0b")) == "Path contains null bytes"
    assert "empty" in problem_of(call(context, "Read", file_path=""))
    assert problem_of(call(context, "Read", file_path="x" * 300)).startswith("ENAMETOOLONG")


def test_folders_pipes_devices_and_sockets_are_not_waited_for(context: ToolContext) -> None:
    os.mkfifo(context.workspace.root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(context.workspace.root / "socket"))
    assert problem_of(call(context, "Read", file_path=".")) == "EISDIR: illegal operation on a directory, read"
    for name in ("pipe", "socket", "/dev/zero"):
        assert problem_of(call(context, "Read", file_path=name)).startswith("Not a regular file")


def test_binary_files_are_not_shown(context: ToolContext) -> None:
    words = "This tool cannot read binary files. The file appears to be a binary{} file."
    assert problem_of(read(context, "a.exe", b"MZ\0\1")).startswith(words.format(" .exe"))
    assert problem_of(read(context, "program", b"\x7fELF\0")).startswith(words.format(""))


def test_a_picture_is_a_block_that_the_api_takes(context: ToolContext) -> None:
    data = curve(30, 20)
    outcome = read(context, "a.png", data)
    assert isinstance(outcome.content, list)
    assert accepted(*outcome.content)
    result = decoded("Read", outcome)
    assert isinstance(result, ReadImage)
    assert result.file.base64 == b64encode(data).decode()
    assert (result.file.dimensions and result.file.dimensions.display_width) == 30


def test_a_picture_is_known_by_its_bytes(context: ToolContext) -> None:
    outcome = read(context, "a.jpg", curve(3, 2))
    assert isinstance(outcome.content, list)
    assert outcome.content[0]["source"]["media_type"] == "image/png"
    assert problem_of(read(context, "b.png", b"not a picture")).startswith("The file is not a picture")
    assert problem_of(read(context, "c.png", b"")) == "Empty image files cannot be processed."


def test_a_picture_that_the_api_would_refuse_is_refused(context: ToolContext) -> None:
    assert "too large" in problem_of(read(context, "a.png", curve(3, 2) + b"\0" * (4 << 20)))
    assert "8001 × 1 pixels" in problem_of(read(context, "a.png", curve(8001, 1)))


def test_a_pdf_follows_its_result_as_a_document(context: ToolContext) -> None:
    outcome = read(context, "a.pdf", PDF)
    path = context.workspace.root / "a.pdf"
    assert outcome.content == f"PDF file read: {path} ({len(PDF)} bytes)"
    assert isinstance(decoded("Read", outcome), ReadPdf)
    assert accepted(*outcome.extra)


def test_a_pdf_that_is_none_or_has_too_much_is_refused(context: ToolContext) -> None:
    assert problem_of(read(context, "a.pdf", b"")).startswith("PDF file is empty")
    assert problem_of(read(context, "a.pdf", b"hello")).startswith("The file is not a PDF")
    assert "too many pages (101 of 100)" in problem_of(read(context, "a.pdf", b"%PDF-1.4" + b"<</Type /Page>>" * 101))


def test_a_notebook_is_shown_by_its_cells(context: ToolContext) -> None:
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
    outcome = read(context, "a.ipynb", json.dumps({"cells": cells, "metadata": []}).encode())
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


def test_a_notebook_that_is_none_is_refused(context: ToolContext) -> None:
    assert problem_of(read(context, "a.ipynb", b"{oops")) == "Notebook is not valid JSON."
    assert problem_of(read(context, "a.ipynb", b"[" * 100_000)) == "Notebook is not valid JSON."
    assert problem_of(read(context, "a.ipynb", b"{}")).startswith("Notebook has no cells")


def test_a_file_that_becomes_a_link_after_it_was_judged_is_not_opened(context: ToolContext, tmp_path: Path) -> None:
    """A path without links is opened without following any: none of its folders, and not the file."""
    from unspool.client.tools.files.safe_io import read_file

    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (context.workspace.root / "folder").symlink_to(outside)
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        read_file(context.workspace.root / "folder" / "secret")
    (context.workspace.root / "file").symlink_to(outside / "secret")
    with pytest.raises(Exception, match="Not a regular file"):
        read_file(context.workspace.root / "file")
