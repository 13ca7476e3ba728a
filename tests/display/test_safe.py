"""What text may do to a terminal: nothing but be read. Proved by its characters and on an emulated screen."""

import json
import string
import time
import unicodedata
from collections.abc import Callable
from typing import Any

import pyte
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unspool.display.safe import clean, clean_json, clean_line

ATTACKS = {
    "window title, BEL": ("a\x1b]0;evil\x07b", "ab"),
    "window title, ESC backslash": ("a\x1b]2;evil\x1b\\b", "ab"),
    "window title, U+009C": ("a\x1b]2;evil\x9cb", "ab"),
    "window title of screen": ("a\x1bkevil\x1b\\b", "aevilb"),
    "clipboard": ("a\x1b]52;c;cm0gLXJmIH4=\x07b", "ab"),
    "hyperlink": ("\x1b]8;;https://evil.example\x1b\\bank\x1b]8;;\x1b\\", "bank"),
    "notification": ("a\x1b]9;evil\x07b", "ab"),
    "notification of urxvt": ("a\x1b]777;notify;evil;evil\x07b", "ab"),
    "file of iTerm2": ("a\x1b]1337;File=name=eA==;inline=1:eA==\x07b", "ab"),
    "palette of the Linux console": ("a\x1b]P0ff0000b", "aP0ff0000b"),
    "clear screen": ("a\x1b[2J\x1b[3J\x1b[Hb", "ab"),
    "colour": ("\x1b[1;38;5;196mred\x1b[0m", "red"),
    "colour with colons": ("\x1b[38:2::255:0:0mred\x1b[m", "red"),
    "invisible letters": ("a\x1b[8mhidden\x1b[28mb", "ahiddenb"),
    "cursor moves": ("a\x1b[A\x1b[10D\x1b[5;5H\x1b[1Gb", "ab"),
    "erase the line": ("a\x1b[1A\x1b[2Kb", "ab"),
    "insert and delete": ("a\x1b[4hb\x1b[3P\x1b[2L\x1b[M", "ab"),
    "repeat": ("a\x1b[99999999bb", "ab"),
    "scroll region": ("a\x1b[2;3rb", "ab"),
    "alternate screen": ("a\x1b[?1049hb\x1b[?1049l", "ab"),
    "mouse and paste modes": ("a\x1b[?1000;1006h\x1b[?2004lb", "ab"),
    "cursor shape": ("a\x1b[5 qb", "ab"),
    "soft reset": ("a\x1b[!pb", "ab"),
    "window size": ("a\x1b[8;1;1tb", "ab"),
    "report of the title": ("a\x1b[21tb", "ab"),
    "device attributes": ("a\x1b[c\x1b[>c\x1b[=c\x1bZb", "ab"),
    "device status": ("a\x1b[5n\x1b[6n\x1b[?6nb", "ab"),
    "colour report": ("a\x1b]11;?\x07b", "ab"),
    "sixel": ('a\x1bP0;1q"1;1;9;9#0~~\x1b\\b', "ab"),
    "setting report": ("a\x1bP$q\x22p\x1b\\b", "ab"),
    "terminal name report": ("a\x1bP+q544e\x1b\\b", "ab"),
    "image of kitty": ("a\x1b_Gf=100,a=T;" + "A" * 4096 + "\x1b\\b", "ab"),
    "start of string": ("a\x1bXevil\x1b\\b", "ab"),
    "privacy message": ("a\x1b^evil\x1b\\b", "ab"),
    "reset": ("a\x1bcb", "ab"),
    "save and restore": ("a\x1b7\x1b8b", "ab"),
    "reverse index": ("a\x1bMb", "ab"),
    "keypad": ("a\x1b=\x1b>b", "ab"),
    "line drawing": ("a\x1b(0\x1b)0\x1b*0b", "ab"),
    "screen of E": ("a\x1b#8b", "ab"),
    "encoding": ("a\x1b%@\x1b%G\x1b Fb", "ab"),
    "C1 CSI": ("a\x9b2J\x9b31mb", "ab"),
    "C1 OSC": ("a\x9d0;evil\x9cb\x9d52;c;eA==\x07", "ab"),
    "C1 DCS, SOS, PM, APC": ("a\x90q~\x9cb\x98x\x9c\x9ex\x9c\x9fx\x1b\\", "ab"),
    "C1 alone": ("a\x84\x85\x8d\x9cb", "a<U+0084><U+0085><U+008D><U+009C>b"),
    "backspace over": ("rm\x08\x08ls", "rm␈␈ls"),
    "CR over": ("rm -rf\rls", "rm -rf␍ls"),
    "CR and erase": ("rm -rf\r\x1b[Kls", "rm -rf␍ls"),
    "CRLF": ("a\r\nb\r\r\nc", "a\nb␍\nc"),
    "other C0": ("\x00\x07\x0b\x0c\x0e\x0f\x18\x1a\x7f", "␀␇␋␌␎␏␘␚␡"),
    "right-to-left override": ("a\u202egnp.exe", "a<U+202E>gnp.exe"),
    "isolates and marks": ("\u2066\u2069\u200e\u200f\u061c", "<U+2066><U+2069><U+200E><U+200F><U+061C>"),
    "line separators": ("a\u2028b\u2029c", "a<U+2028>b<U+2029>c"),
    "zero width": ("a\u200bb\u2060c\ufeffd\xad", "a<U+200B>b<U+2060>c<U+FEFF>d<U+00AD>"),
    "tag characters": ("a\U000e0041\U000e007f", "a<U+E0041><U+E007F>"),
    "interlinear": ("a\ufff9b\ufffac\ufffb", "a<U+FFF9>b<U+FFFA>c<U+FFFB>"),
    "lone surrogates": ("a\ud800\udfffb", "a<U+D800><U+DFFF>b"),
    "one inside another": ("\x1b\x1b[31m[31mred", "␛[31mred"),
    "one inside another, string": ("\x1b\x1b]0;a\x07]0;evil\x07b", "␛]0;evil␇b"),
    "C1 inside ESC": ("\x1b\x9b31m[31mred", "␛[31mred"),
    "string inside a string": ("\x1b]0;\x1b]0;evil\x07b", "0;b"),
    "passthrough of tmux": ("\x1bPtmux;\x1b\x1b]0;evil\x07\x1b\\b", "tmux;␛b"),
    "cut off after ESC": ("a\x1b", "a␛"),
    "cut off in CSI": ("a\x1b[3", "a␛[3"),
    "cut off in C1 CSI": ("a\x9b3", "a<U+009B>3"),
    "line end in CSI": ("a\x1b[3\n1mb", "a␛[3\n1mb"),
    "letter that ends no CSI": ("a\x1b[3é", "a␛[3é"),
    "cut off after an intermediate": ("a\x1b(", "a␛("),
    "string without end": ("a\x1b]0;read me", "a0;read me"),
    "C1 string without end": ("a\x9d0;read me", "a<U+009D>0;read me"),
    "string over two lines": ("\x1b]0;read\nme\x07", "0;read\nme␇"),
    "string cancelled": ("\x1bPq\x18read me\x1b\\", "q␘read me"),
}

PIECES = [
    *(attack for attack, _ in ATTACKS.values() if len(attack) < 100),
    *("\x1b", "\x1b[", "\x1b]", "\x1bP", "\x1b_", "\x1b(", "\x9b", "\x9d", "\x90", "\x9c", "\x07", "\x1b\\"),
    *("0;", "1;2", "?25", "m", "h", "J", "H", "\r", "\n", "\t", "\x08", " ", "a\t", "b", "é", "word "),
]
mixed = st.lists(st.sampled_from(PIECES) | st.text(string.ascii_letters, max_size=9), max_size=25).map("".join)
anything = st.text(st.characters()) | mixed | st.text(st.sampled_from("\x1b\x9b\x9d\x9c\x07[]\\;0m\r\n\t \u200b"))

SCRIPTS_NEED = set("\u200c\u200d\u180e")
"""Format characters that stay. So do those that are drawn, such as the Arabic number sign."""
DRAWN = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x13430, 0x13460)}

COLUMNS, LINES = 20, 400


def harmless(character: str) -> bool:
    match unicodedata.category(character):
        case "Cc" | "Cs" | "Zl" | "Zp":
            return character in "\n\t"
        case "Cf":
            return character in SCRIPTS_NEED or ord(character) in DRAWN
        case _:
            return True


# What comes out


@pytest.mark.parametrize(("attack", "shown"), ATTACKS.values(), ids=ATTACKS)
def test_an_attack_comes_out_as_what_a_reader_should_see(attack: str, shown: str) -> None:
    assert clean(attack) == shown


@given(anything)
def test_nothing_harmful_comes_out(text: str) -> None:
    assert all(map(harmless, clean(text)))


@given(anything)
def test_one_line_comes_out_as_one_line(text: str) -> None:
    line = clean_line(text)
    assert all(map(harmless, line))
    assert not set(line) & set("\n\t")
    assert len(line.splitlines()) <= 1


@given(anything)
def test_lines_end_only_at_a_line_end(text: str) -> None:
    assert clean(text).splitlines() == clean(text).removesuffix("\n").split("\n") or clean(text) == ""


@given(anything)
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    assert clean(clean(text)) == clean(text)
    assert clean_line(clean_line(text)) == clean_line(text)
    assert clean_json(clean_json(text)) == clean_json(text)


@given(mixed, mixed)
def test_two_cleaned_texts_make_a_clean_text(first: str, second: str) -> None:
    both = clean(first) + " " + clean(second)
    assert clean(both) == both


@given(anything)
def test_whatever_comes_out_can_be_encoded(text: str) -> None:
    for cleaned in (clean(text), clean_line(text), clean_json(text)):
        assert cleaned.encode().decode() == cleaned


@pytest.mark.parametrize("category", ["Cc", "Cf", "Cs", "Zl", "Zp"])
def test_every_character_without_ink_is_named_or_needed(category: str) -> None:
    for character in map(chr, range(0x110000)):
        if unicodedata.category(character) == category:
            assert (clean(character) == character) == harmless(character), ascii(character)


@pytest.mark.parametrize(
    ("first", "last"), [(0x2060, 0x206F), (0xFFF0, 0xFFFB), (0xE0000, 0xE00FF), (0xE01F0, 0xE0FFF)]
)
def test_what_unicode_keeps_for_invisible_characters_is_named(first: int, last: int) -> None:
    assert all(clean(chr(code)) == f"<U+{code:04X}>" for code in range(first, last + 1))


# What stays


@given(st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]) | st.just("\n")))
def test_text_that_can_be_seen_stays_as_it_is(text: str) -> None:
    assert clean(text) == text
    assert clean_line(text) == text.replace("\n", "␊")


@pytest.mark.parametrize(
    "text", ["👩\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "می\u200cخواهم", "क\u094d\u200dष", "e\u0301", "שלום"]
)
def test_joiners_selectors_and_marks_stay(text: str) -> None:
    assert clean(text) == clean_line(text) == text


def test_text_without_anything_to_change_is_not_copied() -> None:
    text = "one\n\ttwo é 漢"
    assert clean(text) is text


def test_a_tab_that_indents_stays_and_one_after_a_letter_gets_a_space() -> None:
    assert clean("\tif x:\n \t\tpass") == "\tif x:\n \t\tpass"
    assert clean("name\tsize\t\tdate") == "name \tsize \t\tdate"


def test_a_line_end_and_a_tab_are_seen_on_one_line() -> None:
    assert clean_line("a\nb\r\nc\td") == "a␊b␊c d"


@pytest.mark.parametrize("introducer", ["\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1bX"])
def test_a_string_of_more_than_8192_characters_is_shown(introducer: str) -> None:
    assert clean(introducer + "x" * 8192 + "\x07") == ""
    assert clean(introducer + "x" * 8193 + "\x07") == "x" * 8193 + "␇"


@given(st.sampled_from(["\x1b]", "\x1bP", "\x1b_", "\x1b[", "\x9d", "\x9b", "\x1b"]), st.integers(0, 3))
def test_a_sequence_without_end_hides_no_line_after_it(introducer: str, repeated: int) -> None:
    assert clean(introducer * repeated + "\nread me").endswith("\nread me")


# JSON

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | anything
values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(anything, inner), max_leaves=9)


@given(values, st.sampled_from([None, 0, 2, "\t"]))
@example("\\\u200b\\\\\x7f", None)
@example({"\x9b": "\U000e0041\ud83d", "\ud83d\U000e0041": "\ude00"}, 2)
def test_json_reads_back_the_same(value: Any, indent: int | str | None) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    # Written out again: two surrogates next to each other are one character as soon as JSON is read anywhere.
    assert json.dumps(json.loads(clean_json(text))) == json.dumps(json.loads(text))


@given(values, st.sampled_from([None, 2]))
def test_no_harmful_character_is_left_in_json(value: Any, indent: int | None) -> None:
    text = clean_json(json.dumps(value, ensure_ascii=False, indent=indent))
    assert all(map(harmless, text))
    assert "\t" not in text


def test_harmful_characters_in_json_become_escapes() -> None:
    assert clean_json('"\x7f\x9b\u202e\ud800\U000e0041é"') == r'"\u007f\u009b\u202e\ud800\udb40\udc41é"'


def test_line_ends_and_tabs_between_json_values_stay_blank() -> None:
    assert clean_json('{\r\n\t"a":\r1}') == '{\n\t"a": 1}'
    assert clean_json("[1,\t2]") == "[1, \t2]"


def test_escapes_in_json_stay_escapes() -> None:
    assert clean_json(r'"\u001b[2J"') == r'"\u001b[2J"'


# The screen


class Screen(pyte.Screen):
    """A tall screen that keeps what it would answer to the program."""

    def __init__(self) -> None:
        self.answers: list[str] = []
        super().__init__(COLUMNS, LINES)

    def draw(self, data: str) -> None:
        # pyte 0.8.2 drops the rest of a text after a ZWJ; one by one nothing is dropped.
        for character in data:
            super().draw(character)

    def write_process_input(self, data: str) -> None:
        self.answers.append(data)


class Recorder:
    """Stands before a screen and keeps the names of what the stream asked of it."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.asked: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.screen, name)

        def recorded(*values: Any, **named: Any) -> Any:
            self.asked.add(name)
            return method(*values, **named)

        return recorded if name in pyte.Stream.events else method


def shown(text: str) -> tuple[Screen, set[str]]:
    """The screen after the text, with line ends as a terminal driver sends them."""
    screen = Screen()
    recorder: Any = Recorder(screen)
    stream = pyte.Stream(recorder)
    stream.use_utf8 = False  # otherwise pyte ignores a change of character set
    stream.feed(text.replace("\n", "\r\n"))
    return screen, recorder.asked


def state(screen: Screen) -> dict[str, object]:
    """Everything a screen remembers but for the letters and the place of the cursor."""
    return {
        "title": screen.title,
        "icon": screen.icon_name,
        "modes": screen.mode,
        "margins": screen.margins,
        "charsets": (screen.charset, screen.g0_charset, screen.g1_charset),
        "attributes": (screen.cursor.attrs, screen.cursor.hidden),
        "tab stops": screen.tabstops,
        "saved": screen.savepoints,
        "size": (screen.columns, screen.lines),
        "answers": screen.answers,
    }


def laid_out(text: str) -> list[str]:
    """The rows of a screen on which the text was written by hand."""
    rows = [
        line[start : start + COLUMNS] for line in text.split("\n") for start in range(0, max(len(line), 1), COLUMNS)
    ]
    return [row.ljust(COLUMNS) for row in rows] + [" " * COLUMNS] * (LINES - len(rows))


def ink(text: str) -> str:
    return "".join(text.split())


def obeyed(text: str) -> bool:
    screen, asked = shown(text)
    return state(screen) != state(Screen()) or not asked <= {"draw", "linefeed", "carriage_return", "tab"}


def test_the_screen_of_these_tests_obeys_what_is_not_cleaned() -> None:
    for attack in (
        "\x1b]2;evil\x07",
        "\x1b[?25l",
        "\x1b[2;3r",
        "\x1b(0",
        "\x1b[31m",
        "\x1b[6n",
        "\x9b2J",
        "\x08",
    ):
        assert obeyed(attack)
        assert not obeyed(clean(attack))


@pytest.mark.parametrize("attack", [attack for attack, _ in ATTACKS.values()], ids=ATTACKS)
def test_an_attack_leaves_the_screen_as_a_fresh_one_with_the_text_on_it(attack: str) -> None:
    screen, _ = shown(clean(attack))
    assert screen.display == laid_out(clean(attack))
    assert not obeyed(clean(attack))


@settings(deadline=None)
@given(mixed)
def test_the_screen_shows_the_text_laid_out_and_remembers_nothing_else(text: str) -> None:
    safe = clean(text.replace("\t", " "))
    screen, _ = shown(safe)
    assert screen.display == laid_out(safe)
    assert not obeyed(safe)


@settings(deadline=None)
@given(mixed)
def test_every_letter_is_on_the_screen_in_its_order(text: str) -> None:
    screen, _ = shown(clean(text))
    assert ink("".join(screen.display)) == ink(clean(text))
    assert not obeyed(clean(text))


@settings(deadline=None)
@given(anything)
def test_no_text_makes_the_screen_obey(text: str) -> None:
    assert not obeyed(clean(text))
    assert not obeyed(clean_line(text))
    assert not obeyed(clean_json(text))


@pytest.mark.parametrize("before", range(COLUMNS - 3, COLUMNS + 3))
def test_a_tab_at_the_right_margin_covers_no_letter(before: int) -> None:
    text = "-" * before + "h\ti\td\td\te\tn"
    screen, _ = shown(clean(text))
    assert ink("".join(screen.display)) == ink(text)


# Time


@pytest.mark.parametrize("cleaned_by", [clean, clean_line, clean_json])
@pytest.mark.parametrize(
    "piece",
    [
        "\x1b]",
        "\x1b[",
        "\x1b",
        "\x1b ",
        "\x1b[1;",
        "\x9d",
        "\x9b",
        "\x1bPx",
        "\x1b]" + "x" * 9000,
        "\r",
        "\u200b",
        "a\t",
    ],
    ids=lambda piece: ascii(piece[:9]),
)
def test_time_grows_with_the_length_only(piece: str, cleaned_by: Callable[[str], str]) -> None:
    text = piece * (1_000_000 // len(piece))
    start = time.perf_counter()
    cleaned_by(text)
    assert time.perf_counter() - start < 3  # a twentieth of it is usual; trying each start to the end takes hours


@pytest.mark.parametrize("start", ["\x1b]", "\x1b[", "\x1b", "\x9b"])
@pytest.mark.parametrize("rest", ["1", " ", "x"])
def test_time_does_not_grow_with_how_far_a_sequence_reaches(start: str, rest: str) -> None:
    before = time.perf_counter()
    clean(start + rest * 1_000_000)
    assert time.perf_counter() - before < 3


def test_what_unicode_calls_printable_is_left_as_it_is_beside_anything_else() -> None:
    # With a letter before each: blocks of marks in a row are more than stand on any letter (rule 9).
    printable = "".join(f"x{character}" for character in map(chr, range(0x110000)) if character.isprintable())
    assert clean_line(printable) == printable
    assert clean_line("\0" + printable) == "␀" + printable
