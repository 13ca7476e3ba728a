"""Random bytes, read as text, cleaned, and shown on an emulated screen.

UNSPOOL_FUZZ_EXAMPLES=100000 in the environment makes it look longer.
"""

import json
import os

import pyte
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.display.safe import clean, clean_json, clean_line, has_no_width

longer = settings(max_examples=int(os.environ.get("UNSPOOL_FUZZ_EXAMPLES", "200")), deadline=None)

special = st.sampled_from(
    [
        *(bytes([code]) for code in (*range(0x20), *range(0x7F, 0xA0))),
        *(chr(code).encode() for code in (*range(0x80, 0xA0), 0xAD, 0x61C, *range(0x200B, 0x2030), 0xFEFF, 0xE0041)),
        *(
            b"\x1b[",
            b"\x1b]0;",
            b"\x1b]52;c;",
            b"\x1bP",
            b"\x1b_",
            b"\x1b^",
            b"\x1bX",
            b"\x1b(",
            b"\x1b#",
            b"\x1b\\",
        ),
        *(b"[", b"]", b"\\", b";", b"?", b"0", b"2J", b"1049h", b"31m", b"6n", b"c", b" ", b"\t", b"\r\n"),
        *(b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xff", b"\xf4\x90\x80\x80"),
        # Floods of what has no width: marks, joiners, variation selectors, Hangul vowels.
        *(flood.encode() * 40 for flood in ("\u0301", "\u200d", "\ufe0f", "\u1160", "\u20dd", "\U000e0101", "\u3164")),
    ]
)
data = st.lists(special | st.binary(max_size=6), max_size=60).map(b"".join)
texts = data.map(lambda raw: raw.decode("latin-1")) | data.map(lambda raw: raw.decode(errors="surrogateescape"))

HARMFUL = {
    *map(chr, (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), 0xAD, 0x61C, 0x200B, 0x200E, 0x200F)),
    *map(chr, (*range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF, *range(0xFFF9, 0xFFFC))),
    *map(chr, (*range(0xD800, 0xE000), *range(0xE0000, 0xE0080))),
}


@longer
@given(texts)
def test_no_bytes_come_out_harmful(text: str) -> None:
    assert not set(clean(text)) & HARMFUL
    assert not set(clean_line(text)) & (HARMFUL | {"\n", "\t"})
    assert not set(clean_json(text)) & HARMFUL


@longer
@given(texts | data.map(lambda raw: raw.decode(errors="replace")))
def test_no_more_than_thirty_characters_share_a_cell(text: str) -> None:
    for safe in (clean(text), clean_line(text), clean_json(text)):
        run = 0
        for character in safe:
            run = run + 1 if has_no_width(character) else 0
            assert run <= 30


@longer
@given(texts)
def test_no_bytes_come_out_different_the_second_time(text: str) -> None:
    for cleaned_by in (clean, clean_line, clean_json):
        once = cleaned_by(text)
        assert cleaned_by(once) == once
        assert once.encode().decode() == once


@longer
@given(texts, texts)
def test_no_bytes_come_out_of_json_as_others(key: str, text: str) -> None:
    line = json.dumps({key: [text]}, ensure_ascii=False)
    assert json.dumps(json.loads(clean_json(line))) == json.dumps(json.loads(line))


@longer
@given(texts)
def test_no_bytes_change_more_of_a_screen_than_its_letters(text: str) -> None:
    for safe in (clean(text), clean_line(text), clean_json(text)):
        assert remembered(safe) == remembered("")


class Screen(pyte.Screen):
    """A screen that keeps what it would answer to the program."""

    def __init__(self) -> None:
        self.answers: list[str] = []
        super().__init__(40, 12)

    def write_process_input(self, data: str) -> None:
        self.answers.append(data)


def remembered(text: str) -> tuple[object, ...]:
    screen = Screen()
    stream = pyte.Stream(screen)
    stream.use_utf8 = False  # otherwise pyte ignores a change of character set
    stream.feed(text.replace("\n", "\r\n"))
    return (
        (screen.title, screen.icon_name, screen.mode, screen.margins, screen.tabstops, screen.savepoints),
        (screen.charset, screen.g0_charset, screen.g1_charset, screen.columns, screen.lines),
        (screen.cursor.attrs, screen.cursor.hidden, screen.answers),
    )
