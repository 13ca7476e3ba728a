import hashlib
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from unspool.client.tools.content.file_text import read_excerpt

data = st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"\r", b"\xc3\xa9", b"\xff"]), max_size=40).map(b"".join)
cuts = st.lists(st.integers(0, 60), max_size=5)


def pieces(whole: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    return [whole[start:end] for start, end in pairwise(edges)]


@given(data, cuts, st.integers(1, 12), st.none() | st.integers(0, 12))
def test_where_the_bytes_are_cut_does_not_matter(whole: bytes, cuts: list[int], first: int, limit: int | None) -> None:
    found = read_excerpt(pieces(whole, cuts), first, limit)
    lines = whole.replace(b"\r\n", b"\n").split(b"\n")
    wanted = lines[first - 1 :] if limit is None else lines[first - 1 : first - 1 + limit]
    assert found.lines == [line.decode("utf-8", "replace") for line in wanted]
    assert (found.total, found.size) == (len(lines), len(whole))
    assert found.digest == hashlib.sha256(whole).digest()


@given(st.text(max_size=30), cuts)
def test_utf_16_is_known_by_its_mark(text: str, cuts: list[int]) -> None:
    whole = f"\ufeff{text}".encode("utf-16-le")
    first, *rest = pieces(whole, cuts)
    found = read_excerpt([first, *rest] if len(first) > 1 else [whole], 1, None)
    assert found.lines == f"\ufeff{text}".replace("\r\n", "\n").split("\n")
