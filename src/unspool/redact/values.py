"""Checks of values behind names like `password` and `token`: is it a secret, or a word, a reference, a placeholder.

Rules
  1. A secret that is missed is worse than a word that is hidden; but code is full of `token = next_token`, and a text
     in which every second word is hidden is of no use.
  2. Any word may be a password (`is_strong`). Behind all other names only what looks random is a secret: people do not
     choose tokens.
  3. A reference (`$TOKEN`, `process.env.TOKEN`), a type, a placeholder or a marker is not a secret.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import cache
from itertools import pairwise

MARKER = re.compile(r"\[redacted:[a-z0-9-]{1,40}:[0-9a-f]{10}\]")

_ORDINARY_WORDS = """
    none null nil true false undefined string str bool boolean number integer int object any unknown void bytes text
    required optional default empty missing invalid valid value values changed unset hidden redacted self this type
    input field name user username password passwd passphrase secret token tokens apikey auth oauth bearer basic
    expired credentials read write delete create update yes no on off function async await return const let var
"""
_PLACEHOLDER_WORD = re.compile(
    r"(?i)^(?:your|my|insert|enter|put|example|sample|dummy|fake|placeholder|replace|todo|fixme|changeme)[-_ ]"
    r"|^(?:the|some|an?)[-_]"
)
_PLACEHOLDER = re.compile(
    r"(?i)^(?:x{3,}|\*{2,}|\.{3,}|-{3,}|_{3,}|#{3,}|\?{3,})|[<{]|^%|^\$|^@|^&|^\*|…|x{6,}|\*{3,}|\.\.\.$"
)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|::|->|\?\.)[A-Za-z_][A-Za-z0-9_]*)*[!?]?")
_LETTERS = re.compile(r"[A-Za-z_.-]+")
_PATH = re.compile(r"(?i)^(?:https?://|\.{0,2}/|~/|[a-z]:[\\/])")
_CONSTANT = re.compile(r"[A-Z0-9_]+")
_STRONG = re.compile(r"(?i)pass(?:word|wd|phrase|code|wort)|pwd|[_-]pass\b|secret")
_PASSWORD = re.compile(r"(?i)pass(?:word|wd|phrase|code|wort)|pwd|[_-]pass\b")
_COUNTED = re.compile(
    r"(?i)(?:continuation|next|prev(?:ious)?|page|paging|pagination|cursor|sync|resume|cancel(?:l?ation)?|max|min|num"
    r"|pad|eos|bos|unk|sep|cls|mask|stop|special|input|output|total|start|end|current|last|first|skip|scroll|delta|change"
    r"|watermark|image|prompt|completion|think|design|color|syntax|lexer|parser)[ _-]?(?:page|link|list)?[ _-]?tokens?$"
)
"""Names of tokens that are no secrets: those of lists in pages, of parsers and of language models."""
_RUNS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_SLUG_PART = re.compile(r"[a-z]{1,16}|[A-Z]{1,16}|[A-Z][a-z]{1,15}|[0-9]{1,4}|[a-zA-Z0-9]{1,4}|v?[0-9]{8}")
_SPLIT = re.compile(r"[-_.:/@ ]")
_HEX = re.compile(r"[0-9a-fA-F]{16,}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_COMMON_PAIRS = """
    ab ac ad ag ai al am an ap ar as at ay ba be bl bo bu ca ce ch ci ck cl co cr ct cu da de di do ds ea ec ed ee ef el
    em en ep er es et ev ex fa fe ff fi fo fr ge gi ha he hi ho ia ic id ie if ig il im in io ip ir is it iv ke la ld le
    li ll lo ls lt lu ly ma me mi mo mp na nc nd ne ng ni nn no ns nt nu oc od ol om on oo op or os ot ou ow pa pe pi pl
    po pp pr pt qu ra rd re rg ri rm rn ro rr rs rt ru ry sa sc se sh si so sp ss st su ta tc te th ti to tr ts tt tu ty
    uc ue ul um un up ur us ut va ve wa we xt
"""
"""Pairs of letters: 86 % of those in English text and code, a quarter of those in random text."""


def is_assigned(name: str, value: str, *, quoted: bool, spaced: bool, alone: bool, follows: str) -> bool:
    """Tell whether a value is a secret by the name before it.

    `spaced`: there are blanks around the sign between them. `alone`: there is nothing else on the line, as in YAML.
    `follows`: the character after the value.
    """
    value = value if quoted else value.rstrip(".,:;!?*_~")
    if not may_be_secret(value) or is_counted(name):
        return False
    strong = is_strong(name)
    if _is_place(name, value, strong=strong):
        return False
    if any(mark.isspace() for mark in value):
        return strong and _is_phrase(value)
    if value.isdigit():
        return strong and (quoted or not spaced) and len(value) >= 4
    if not _PASSWORD.search(name) and is_slug(value):
        return False
    if not quoted and follows in {"(", "[", "{"}:
        return False
    if is_random(value):
        return True
    if quoted:
        return strong or _is_mixed(value)
    # Any word alone on a line may be a password; a token is random, or the line is code.
    return _is_bare(name, value, strong=strong, spaced=spaced and not (alone and strong))


def is_member(key: str, value: str) -> bool:
    """Tell whether the value of a JSON member is a secret by its key."""
    if not may_be_secret(value) or is_counted(key) or "\n" in value or len(value) > 4096:
        return False
    strong = is_strong(key)
    if _is_place(key, value, strong=strong):
        return False
    if any(mark.isspace() for mark in value):
        return strong and len(value) <= 64 and _is_phrase(value)
    if not _PASSWORD.search(key) and is_slug(value):
        return False
    return (strong and len(value) >= 4) or (_is_mixed(value) and not value.isdigit())


def is_basic(value: str) -> bool:
    """Tell whether base64 encodes a name and a password."""
    try:
        plain = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (ValueError, binascii.Error):
        return False
    name, colon, secret = plain.partition(b":")
    return bool(colon and secret) and all(32 <= byte < 127 for byte in name[:64])


def is_bearer(value: str) -> bool:
    """Tell whether the text after `Bearer` is a token, and not a word."""
    return may_be_secret(value) and (is_random(value) or (_is_mixed(value) and not is_slug(value)))


def is_login(value: str) -> bool:
    """Tell whether the text in a password's place is one."""
    return may_be_secret(value) and not value.isdigit()


def is_told(value: str) -> bool:
    """Tell whether a value that a sentence calls a password is one, and not a word about it."""
    value = value.rstrip(".,:;!?")
    if not may_be_secret(value) or _PATH.match(value) or value.isdigit():
        return False
    odd = any(not mark.isalnum() and mark not in "-'’_./" for mark in value)
    return odd or is_random(value) or (_is_mixed(value) and not is_slug(value))


def is_strange(value: str) -> bool:
    """Tell whether a value looks random, where little else says that it is a secret."""
    return may_be_secret(value) and is_random(value)


def is_url_password(value: str) -> bool:
    """Tell whether the text in a password's place in a URL is one."""
    return MARKER.search(value) is None and not value.startswith(("$", "{", "<", "*", "%")) and "..." not in value


def is_salt(value: str) -> bool:
    """Tell whether a value of many marks is one that a generator of salts has drawn."""
    kinds = (str.isdigit, str.isupper, str.islower)
    return len(value) >= 40 and len(set(value)) > 20 and all(any(map(kind, value)) for kind in kinds)


def count_seed_words(words: list[str]) -> int:
    """Return how many of these words are the seed of a wallet: twelve to twenty-four, a multiple of three, or none."""
    # A sentence that follows them needs short words that no list of seeds has.
    ordinary = {"the", "and", "that", "with", "from", "for", "are", "was", "not", "you", "this", "then", "but"}
    number = next((at for at, word in enumerate(words) if word in ordinary), len(words)) // 3 * 3
    return number if number >= 12 else 0


def may_be_secret(value: str) -> bool:
    """Tell whether a value may be a secret at all: not a marker, a placeholder, a type."""
    rest = MARKER.sub("", value)  # a value that was redacted before is not redacted again
    if len(rest) < 4 or (rest != value and len(rest) < 8):
        return False
    if _PLACEHOLDER_WORD.search(rest) and not is_random(rest):
        return False
    return not _PLACEHOLDER.search(rest) and rest.lower().strip("_-.:") not in _ordinary_words() and len(set(rest)) > 1


def is_random(value: str) -> bool:
    """Tell whether a value looks as if a machine had drawn it: no words, digits and capitals anywhere."""
    if len(value) < 8:
        return False
    if _UUID.fullmatch(value) or _HEX.fullmatch(value):
        return not value.isdigit() and not value.isalpha()
    runs = _RUNS.findall(value)
    plain = sum(map(len, runs))
    # Other marks than those of base64 and of names in code: a sentence, a path, an expression.
    if not runs or plain < 0.7 * len(value) or value.isdigit() or is_slug(value):
        return False
    common, average = _share_of_common_pairs(value), plain / len(runs)
    # Measured on 5,753 names in code with digits or capitals: 3 % of them pass, of 16 random letters and digits 99 %.
    if len(value) >= 16:
        return common * min(average, 4.0) < 1.6 or common < 0.5
    return any(mark.isdigit() for mark in value) and common * average < 1.4


def _share_of_common_pairs(value: str) -> float:
    pairs = common = 0
    for left, right in pairwise(value):
        # Neither numbers nor `aB` say anything: both are usual in names, too.
        if (left.isdigit() and right.isdigit()) or (left.islower() and right.isupper()):
            continue
        if left.isalnum() and right.isalnum():
            pairs += 1
            common += (left + right).lower() in _common_pairs()
    return common / pairs if pairs else 1.0


@cache
def _common_pairs() -> frozenset[str]:
    return frozenset(_COMMON_PAIRS.split())


def is_slug(value: str) -> bool:
    """Tell whether a value is a name of words and numbers (`k8s-tls-2024`)."""
    parts = _SPLIT.split(value)
    return len(parts) > 1 and all(_SLUG_PART.fullmatch(part) for part in parts) and max(map(len, parts)) > 2


@cache
def is_strong(name: str) -> bool:
    """Tell whether a name is one of a password: then any word may be a secret."""
    return _STRONG.search(name) is not None


@cache
def is_counted(name: str) -> bool:
    """Tell whether a name is one of tokens that are no secrets."""
    return _COUNTED.search(name.strip("\"'-")) is not None


def _is_place(name: str, value: str, *, strong: bool) -> bool:
    """Tell whether a value is a path or an address."""
    if len(value) >= 40 and "." not in value and is_random(value):  # base64 may begin with a slash
        return False
    return bool(_PATH.match(value)) and (not strong or "pwd" in name.lower() or value.startswith("http"))


def _is_phrase(value: str) -> bool:
    """Tell whether several words may be a password, and are not a sentence about one."""
    return len(value.split()) <= 6 and not re.search(r"(?i)pass|secret|token|[.!?,:;]|\byour?\b|\bthe\b", value)


@cache
def _ordinary_words() -> frozenset[str]:
    return frozenset(_ORDINARY_WORDS.split())


def _is_bare(name: str, value: str, *, strong: bool, spaced: bool) -> bool:
    """Tell whether a value without quotes, which may be program code, is a secret."""
    constant = _CONSTANT.fullmatch(name.rpartition(".")[2].lstrip("-")) is not None
    if _LETTERS.fullmatch(value):
        if value.lower().replace("_", "").replace("-", "") in name.lower().replace("_", ""):
            return False
        words = any(word in value.lower() for word in ("pass", "token", "secret", "key", "pwd", "self.", "env"))
        return strong and not spaced and not words and (constant or (value.isalpha() and len(value) >= 6))
    if _IDENTIFIER.fullmatch(value) and ("." in value or "::" in value or "->" in value or spaced):
        password = _PASSWORD.search(name) is not None or (strong and not spaced)
        return (constant and not spaced) or (password and "." not in value and "_" not in value)
    return strong or _is_mixed(value)


def _is_mixed(value: str) -> bool:
    """Tell whether a value has enough letters and digits to be a token."""
    digits = sum(mark.isdigit() for mark in value)
    letters = sum(mark.isalpha() for mark in value)
    if len(value) < 8 or not letters:
        return False
    if digits:
        return True
    return len(value) >= 20 and value != value.lower() and value != value.upper() and "_" not in value
