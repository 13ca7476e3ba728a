from hypothesis import given
from hypothesis import strategies as st

from unspool.client.tools.content.file_text import FileText, decode_text, number_lines

mixed = st.lists(st.sampled_from(["a", "b", "\r\n", "\n", "\r", "é", "“", '"', "'"]), max_size=40).map("".join)
pieces = st.lists(st.sampled_from(["a", "b", "\n", "é", '"']), min_size=1, max_size=4).map("".join)


@given(st.binary(max_size=60))
def test_any_bytes_come_out_as_they_went_in(data: bytes) -> None:
    assert decode_text(data).encode() == data


@given(st.text(max_size=30).map(lambda text: ("\ufeff" + text).encode("utf-16-le", "surrogatepass")))
def test_utf_16_comes_out_as_it_went_in(data: bytes) -> None:
    assert decode_text(data).encode() == data


@given(mixed, pieces, mixed)
def test_a_change_keeps_every_byte_outside_of_its_places(raw: str, old: str, new: str) -> None:
    text = FileText(raw)
    places = text.find(old)
    after = text.replace_ranges(places, new).raw
    kept = [raw[end:start] for (_, end), (start, _) in zip([(0, 0), *places], [*places, (len(raw), 0)], strict=True)]
    for piece in kept:
        at = after.find(piece)
        assert at >= 0
        after = after[at + len(piece) :]
    assert places or after == ""


@given(mixed, pieces)
def test_every_place_shows_what_was_looked_for(raw: str, old: str) -> None:
    straight = str.maketrans("“”", '""')
    for start, end in FileText(raw).find(old):
        assert raw[start:end].replace("\r\n", "\n").translate(straight) == old.translate(straight)
        assert raw[start - 1 : start + 1] != "\r\n"
        assert raw[end - 1 : end + 1] != "\r\n"


@given(st.lists(pieces.filter(lambda piece: "\n" not in piece), min_size=2, max_size=9), pieces)
def test_line_ends_of_a_file_stay(lines: list[str], new: str) -> None:
    text = FileText("\r\n".join(lines))
    changed = text.replace_ranges(text.find(lines[0])[:1], new)
    assert changed.raw.count("\r\n") == changed.raw.count("\n")
    assert text.with_content("x\ny\r\nz\n").raw == "x\r\ny\r\nz\r\n"


def test_what_is_no_text_is_shown_as_such_and_matches_nothing() -> None:
    text = decode_text(b"caf\xe9\nb\n")
    assert text.shown == "caf\ufffd\nb\n"
    assert text.find("caf\ufffd") == []
    assert text.replace_ranges(text.find("b"), "c").encode() == b"caf\xe9\nc\n"


def test_a_mark_stays() -> None:
    assert decode_text(b"\xef\xbb\xbfone\n").with_content("two\n").encode() == b"\xef\xbb\xbftwo\n"


def test_the_line_ends_of_a_change_are_those_of_its_place() -> None:
    text = FileText("a\r\nb\r\nc\nd\ne\nf\n")
    assert text.replace_ranges(text.find("a\nb"), "x\ny").raw == "x\r\ny\r\nc\nd\ne\nf\n"
    assert text.replace_ranges(text.find("d"), "x\ny").raw == "a\r\nb\r\nc\nx\ny\ne\nf\n"


def test_straight_quotes_find_curly_ones_where_there_is_nothing_else() -> None:
    text = FileText("say “hello” it’s")
    assert text.find('say "hello"') == [(0, 11)]
    assert FileText('"a" “a”').find('"a"') == [(0, 3)]


def test_lines_are_numbered_as_the_program_does() -> None:
    assert number_lines(["one", ""], 9) == "     9→one\n    10→"
