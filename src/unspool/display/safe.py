r"""Makes text from transcripts safe to print on a terminal.

The author of any prompt, file or web page that a session read has written into the transcript. Printed as
it is, such text can retitle the window, fill the clipboard, clear the screen or cover what was printed
before. All of it passes through one of these functions on its way to a terminal:

    clean(text)       several lines: a message, a tool result, a diff
    clean_line(text)  one line: a title, a path, a cell of a table
    clean_json(text)  JSON in, JSON of equal meaning out

Rules:

1. The only control characters that come out of `clean` are `\n` and `\t`; out of `clean_line`, none.
2. An escape sequence is removed only if it is complete: `ESC [` or U+009B up to its final character; a
   string (OSC, DCS, SOS, PM, APC) up to its terminator; `ESC` and the one or more characters it takes.
3. What is not complete hides nothing. A string without a terminator, with a control character inside
   (a line end is one) or longer than 8192 characters is not a string: `ESC ]` goes, the text stays.
4. Every other control or invisible character is shown, not dropped: `ESC` as `␛`, and what has no picture
   as `<U+200B>`. A lone surrogate is one of them, so that printing as UTF-8 cannot fail.
5. A tab follows a blank, a tab or a line start. At the right margin a tab moves some terminals back onto the
   last column, where `h\ti\td\te` shows only the `e`; with a space before it, it can only cover that space.
6. Cleaning twice changes nothing more: nothing that comes out is the start of anything taken out.
7. Time grows with the length of the text: no sequence is tried over characters another one was tried over.
8. Most text is harmless, which is found without the patterns: they are compiled when something is not.
9. At most 30 characters without a width follow each other, as in Unicode's stream-safe text: thousands of marks
   on one letter cover the lines around it, and take no room in the cell of a table. The others are counted.

What stays: ZWJ, ZWNJ, variation selectors, combining marks, Hangul fillers and right-to-left letters, because
scripts and emoji need them. None moves the cursor back or erases anything. They can still be blank, join the
character printed before them, or be a cell wider than a table computed. Markup such as `[link=…]`
is plain text here: a printer that reads markup must be told not to.
"""

import re
from collections.abc import Callable
from functools import cache

_UNSAFE = (
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"
    # Default_Ignorable_Code_Point of Unicode without what scripts and emoji need, and what reorders a line.
    r"\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
)

# 8192, because one piece of an image in the kitty protocol is 4096 characters and its keys. No control
# character inside: a terminal ends or cancels the string there, and rule 7 rests on it.
_STRING = r"[^\x00-\x1f\x7f-\x9f]{0,8192}+(?:[\x07\x9c]|\x1b\\)"
_PARAMETERS = r"[0-?]*+[ -/]*+[@-~]"
# Each alternative starts with a single character, which lets `re` skip quickly to the next candidate.
_SEQUENCE = (
    rf"\x1b\[{_PARAMETERS}|\x9b{_PARAMETERS}"
    rf"|\x1b[PX\]^_]{_STRING}|\x90{_STRING}|\x98{_STRING}|\x9d{_STRING}|\x9e{_STRING}|\x9f{_STRING}"
    r"|\x1b[ -/]++[0-~]|\x1b[0-Z\\-~]"
)
_MAX_MARKS = 30
# Marks are neither word characters nor blanks for `re`, but Hangul vowels, finals and fillers are. Box drawing is found
# by this too; the category tells them apart.
_MAY_BE_MARKS = r"(?:[^\w\s\x00-\u02ff]|[\u115f-\u11ff\u3164\ud7b0-\ud7ff\uffa0]){31,}"
_TAB_AFTER_LETTER = r"\t(?<=[^ \t\n]\t)"


def clean(text: str) -> str:
    """Make text of several lines safe: a terminal shows it and obeys nothing in it."""
    return _space_before_tab(_limit_marks(_show(text), _count_marks))


def clean_line(text: str) -> str:
    """Make text safe and put it on one line: a line end becomes `␊`, a tab a space."""
    return _limit_marks(_show(text), _count_marks).replace("\n", "␊").replace("\t", " ")


def clean_json(text: str) -> str:
    """Make JSON safe without changing its meaning: `\\uXXXX` for what a terminal would obey or not show.

    In valid JSON such characters occur only inside strings; raw line ends and tabs only outside of them.
    """
    if not _is_harmless(text.replace("\n", "")):
        text = text.replace("\r\n", "\n").replace("\r", " ")
        text = text.translate({ord(character): _escaped(character) for character in set(text)})
    return _space_before_tab(_limit_marks(text, _escape_all))


def _limit_marks(text: str, shorten: Callable[[str], str]) -> str:
    """Replace what is more than 30 characters without a width in a row (rule 9)."""
    if text.isascii():
        return text

    def replace(found: re.Match[str]) -> str:
        kept, run = [], ""
        for character in found[0]:
            if has_no_width(character):
                run += character
                continue
            kept += [_shorten_run(run, shorten), character]
            run = ""
        return "".join([*kept, _shorten_run(run, shorten)])

    return _marks().sub(replace, text)


def _shorten_run(run: str, shorten: Callable[[str], str]) -> str:
    return run if len(run) <= _MAX_MARKS else run[:_MAX_MARKS] + shorten(run[_MAX_MARKS:])


def has_no_width(character: str) -> bool:
    """Tell whether a terminal puts a character into the cell of the one before."""
    import unicodedata  # few texts have such characters

    return (
        unicodedata.category(character) in ("Mn", "Me", "Cf")
        or "\u1160" <= character <= "\u11ff"
        or "\ud7b0" <= character <= "\ud7ff"
        or character in "\u115f\u3164\uffa0"
    )


def _count_marks(run: str) -> str:
    return f"<{len(run):,} marks>"


def _escape_all(run: str) -> str:
    return "".join(map(_escape, run))


@cache
def _marks() -> re.Pattern[str]:
    return re.compile(_MAY_BE_MARKS)


def _is_harmless(text: str) -> bool:
    """Tell whether a terminal shows all of a text and obeys nothing in it."""
    # What Unicode calls printable is harmless. That check is fast and needs no pattern (rule 8).
    return text.isprintable() or not _unsafe().search(text)


@cache
def _unsafe() -> re.Pattern[str]:
    return re.compile(_UNSAFE)


@cache
def _sequence() -> re.Pattern[str]:
    return re.compile(_SEQUENCE)


def _show(text: str) -> str:
    if _is_harmless(text):
        return text
    # What removal brings together is no danger: no control character survives the next step.
    text = _sequence().sub("", text).replace("\r\n", "\n")
    # A table of all characters, safe ones too: `translate` is slowest for those it does not find.
    return text.translate({ord(character): _shown(character) for character in set(text)})


def _shown(character: str) -> str:
    if not _unsafe().match(character):
        return character
    if character < " ":
        return chr(0x2400 + ord(character))
    return "␡" if character == "\x7f" else f"<U+{ord(character):04X}>"


def _escaped(character: str) -> str:
    return _escape(character) if _unsafe().match(character) else character


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def _space_before_tab(text: str) -> str:
    return re.sub(_TAB_AFTER_LETTER, " \t", text) if "\t" in text else text
