"""What secrets look like: patterns for them, and checks of values behind names like `password`.

Patterns are for google-re2, which takes linear time whatever the text.

Rules
  1. A pattern is anchored by letters that mean something (`ghp_`, `-----BEGIN`, `password=`). Nothing is a secret only
     because it looks random: hashes, ids, images and signatures of thinking look so too.
  2. Patterns are for decoded strings. `suspect_pattern` is for raw JSON: where it finds nothing, there is nothing to
     decode. It finds every beginning that a pattern can have, also behind an escape.
  3. A change here is another rule set: `rules_version` says which.
  4. A secret that is missed is worse than a word that is hidden; but code is full of `token = next_token`, and a text
     in which every second word is hidden is of no use.
  5. A reference (`$TOKEN`, `process.env.TOKEN`), a type, a placeholder or a marker is not a secret.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from functools import cache
from typing import Any, Final

from unspool.redact.token_formats import TOKENS

_KEY = r"(?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
_ROW_END = r"[^A-Za-z0-9+/=]{1,24}(?:[0-9]{1,6}[^A-Za-z0-9+/=]{1,8})?"
KEY_BEGIN: Final = "-----BEGIN " + _KEY
KEY_END: Final = "-----END " + _KEY
KEY_ROW: Final = r"""[A-Za-z0-9+/=]{24,}|^[ \t]*(?:[\n\r]|\\+[nr])[^"']"""
"""What distinguishes a key from text about one: a long row, or that the line ends right after the mark."""
KEY_CUT: Final = (
    KEY_BEGIN
    + rf"(?:{_ROW_END})?(?:(?:Proc-Type|DEK-Info|Comment|Version)[^\n]{{0,80}}\n\s*)*"
    + rf"(?:[A-Za-z0-9+/=]{{16,}}(?:{_ROW_END})?)+[A-Za-z0-9+/=]{{0,64}}"
)
"""A private key whose end is missing: its rows, with what an editor or a diff puts before them."""
KEY_REST: Final = rf"(?:[A-Za-z0-9+/=]{{16,}}{_ROW_END})+(?:[A-Za-z0-9+/=]{{1,64}}{_ROW_END})?{KEY_END}"
"""A private key whose beginning is missing."""

NAME: Final = (
    r"(?i:pass(?:word|wd|phrase|code|wort)|pwd|[_-]pass|secret|token|api[ _-]?key|(?:access|secret|auth|account|master|"
    r"encryption|signing|private|license|service)[ _-]?key|credentials?)"
    r"(?i:[_-]?(?:key|base|value|prod|dev|staging|live|old|new|[0-9]{1,2}))*"
)
"""Names of secrets, at the end of a longer name."""

STRONG: Final = r"(?i:pass(?:word|wd|phrase|code|wort)|pwd|[_-]pass\b|secret)"
"""Names of what is always a secret: any word may be a password."""

# Terminal colours stand between a name and its value in copied output, as bytes or as escapes of any kind.
_COLOUR = r"(?:(?:\x1b|\\+u001[bB]|\\+x1b|\\+e|\\+033)\[[0-9;]*m)*"
_SEPARATOR = rf"""["'`\\\]]*{_COLOUR}[ \t]*(?:=>|:=|===?|=|:)[ \t]*{_COLOUR}"""
_BARE = r"""[^\s"'\\`,;&<>(){}\[\]|$\x1b]"""
ASSIGNMENT: Final = (
    rf"(?P<name>{NAME})(?P<separator>{_SEPARATOR})"
    rf"""(?:\\*"{_COLOUR}(?:(?P<phrase>[^"\\\n]{{4,64}})\\*"|(?P<double>[^"\\\s]{{4,}}))"""
    rf"""|\\*'{_COLOUR}(?:(?P<words>[^'\\\n]{{4,64}})\\*'|(?P<single>[^'\\\s]{{4,}}))|(?P<bare>{_BARE}{{4,}}))"""
)
"""`password = "…"`, `DB_PASSWORD=…`, `'token': '…'`, `secret: …`, also with the quotes escaped."""

OPTION: Final = rf"""-(?P<name>{NAME})(?P<separator>[ \t]+)["']?{_COLOUR}(?P<bare>{_BARE}{{4,}})"""
"""`--password …` on a command line."""

MEMBER: Final = rf"[A-Za-z0-9_.\s-]*{NAME}"
"""The key of a JSON member whose value is a secret."""

BEARER: Final = r"(?i:\bbearer)\s+(?P<bare>[A-Za-z0-9._~+/-]{8,}={0,2})"
BASIC: Final = r"(?i:\bbasic)\s+(?P<bare>[A-Za-z0-9+/]{8,}={0,2})"
AUTH: Final = r"""(?i:\b_?auth)["'\\]*\s?[:=]\s?["'\\]*(?P<bare>[A-Za-z0-9+/]{8,}={0,2})"""
"""Docker's and npm's: name and password in base64."""
LOGIN: Final = (
    r"""(?i:\blogin\s+\S+\s+password)\s+(?P<bare>[^\s"'\\]{4,})|\bsshpass\s+-p\s*["']?(?P<other>[^\s"'\\]{4,})"""
    r"""|\s(?:-u|--user)[ =]["']?[A-Za-z0-9._@-]+:(?P<key>[^\s"'\\/]{4,})"""
)
"""`.netrc`, `sshpass -p …`, `curl -u name:…`."""
USERINFO: Final = r"[a-zA-Z]:(?:\\?/){2}[^\s/:@\"'\\<>]*:(?P<bare>[^\s/@\"'\\<>]+)@"
TOKEN_URL: Final = r"[a-zA-Z]:(?:\\?/){2}(?P<bare>[A-Za-z0-9_-]{20,})@"

EMAIL: Final = r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,24}"
HOME: Final = (
    r"(?:/(?:home|Users)/|(?i:[a-z]:(?:\\{1,4}|/)users(?:\\{1,4}|/)))(?P<bare>[A-Za-z0-9._-]+)"
    r"|(?:^|[/\"])-(?:home|Users)-(?P<key>[A-Za-z0-9]+)"
)

_HINTS: Final = (
    *(token.hint for token in TOKENS),
    "PRIVATE KEY",
    NAME + _SEPARATOR + rf"""(?:\\*["'[]|{_BARE}{{4}})""",
    "-" + NAME + r"[ \t]+[^ \t=:]",
    r"(?i:bearer|basic)(?:\s|\\[nrt])+[A-Za-z0-9+/]{8}",
    r"""(?i:auth)["'\\]*\s?[:=]\s?["'\\]*[A-Za-z0-9+/]{4}""",
    r"/\\*/[^\s/@\"<>]+@",
    r"(?i:password)(?:\s|\\[nrt])+[^\s]{4}|sshpass|(?:\s|\\[nrt])(?:-u|--user)[ =][\\\"']*[A-Za-z0-9._@-]+:[^\s]",
)
_ESCAPED = r"\\u00[2-7]"
"""A letter that need not be escaped and is: the string must be decoded before it can be searched."""


@cache
def suspect_pattern(extra: tuple[str, ...] = ()) -> Any:
    """Return the pattern that finds places in raw bytes where a secret may be."""
    return compile_pattern("|".join(f"(?:{hint})" for hint in (*_HINTS, _ESCAPED, *extra)), captures=False)


@cache
def compile_pattern(pattern: str, *, captures: bool = True) -> Any:
    """Compile a pattern for bytes of UTF-8 text."""
    import re2  # here: most commands redact nothing

    options = re2.Options()
    options.max_mem = 1 << 26
    options.log_errors = False
    # Byte by byte, although the text is UTF-8: every secret begins and ends beside an ASCII character.
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = not captures
    return re2.compile(pattern.encode(), options)


@cache
def rules_version(extra: tuple[str, ...] = ()) -> str:
    """Return the version of the rule set: of these rules, and of those that the user added."""
    parts = [repr(part) for part in (TOKENS, _HINTS, KEY_CUT, KEY_REST, ASSIGNMENT, OPTION, MEMBER, BEARER, BASIC)]
    parts += [repr(part) for part in (AUTH, LOGIN, USERINFO, TOKEN_URL, EMAIL, HOME, EDITION, extra)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


EDITION = 3
"""Raised with each change of the checks in this module: the version of the rules depends on it."""

MARKER = re.compile(r"\[redacted:[a-z0-9-]{1,40}:[0-9a-f]{10}\]")

_ORDINARY_WORDS = """
    none null nil true false undefined string str bool boolean number integer int object any unknown void bytes text
    required optional default empty missing invalid valid value values changed unset hidden redacted self this type
    input field name user username password passwd passphrase secret token tokens apikey auth oauth bearer basic
    expired credentials read write delete create update yes no on off function async await return const let var
"""
_PLACEHOLDER = re.compile(
    r"(?i)^(?:your|my|insert|enter|put|example|sample|dummy|fake|placeholder|replace|todo|fixme)[-_ ]"
    r"|^(?:the|some|an?)[-_]"
    r"|^(?:x{3,}|\*{2,}|\.{3,}|-{3,}|_{3,}|#{3,}|\?{3,})|[<{]|^%|^\$|^@|^&|^\*|…|x{6,}|\*{3,}"
)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|::|->|\?\.)[A-Za-z_][A-Za-z0-9_]*)*[!?]?")
_LETTERS = re.compile(r"[A-Za-z_.-]+")
_PATH = re.compile(r"(?i)^(?:https?://|\.{0,2}/|~/|[a-z]:[\\/])")
_CONSTANT = re.compile(r"[A-Z0-9_]+")


def is_assigned(name: str, value: str, *, quoted: bool, spaced: bool, alone: bool, follows: str) -> bool:
    """Tell whether a value is a secret by the name before it.

    `spaced`: there are blanks around the sign between them. `alone`: there is nothing else on the line, as in YAML.
    `follows`: the character after the value.
    """
    value = value if quoted else value.rstrip(".,:;!?")
    if not may_be_secret(value):
        return False
    strong = is_strong(name)
    if _PATH.match(value) and (not strong or "pwd" in name.lower() or value.startswith("http")):
        return False
    if any(mark.isspace() for mark in value):
        return strong and _is_phrase(value)
    if value.isdigit():
        return strong and (quoted or not spaced) and len(value) >= 4
    if quoted:
        return strong or _is_mixed(value)
    return follows not in {"(", "[", "{"} and _is_bare(name, value, strong=strong, spaced=spaced and not alone)


def is_member(key: str, value: str) -> bool:
    """Tell whether the value of a JSON member is a secret by its key."""
    if not may_be_secret(value) or "\n" in value or len(value) > 4096:
        return False
    strong = is_strong(key)
    if _PATH.match(value) and (not strong or "pwd" in key.lower() or value.startswith("http")):
        return False
    if any(mark.isspace() for mark in value):
        return strong and len(value) <= 64 and _is_phrase(value)
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
    return _is_mixed(value)


def is_login(value: str) -> bool:
    """Tell whether the text in a password's place is one."""
    return may_be_secret(value) and not value.isdigit()


def may_be_secret(value: str) -> bool:
    """Tell whether a value may be a secret at all: not a marker, a placeholder, a type."""
    rest = MARKER.sub("", value)  # a value that was redacted before is not redacted again
    if len(rest) < 4 or (rest != value and len(rest) < 8):
        return False
    return not _PLACEHOLDER.search(rest) and rest.lower().strip("_-.:") not in _ordinary_words() and len(set(rest)) > 1


def _is_phrase(value: str) -> bool:
    """Tell whether several words may be a password, and are not a sentence about one."""
    return len(value.split()) <= 6 and not re.search(r"(?i)pass|secret|token|[.!?,:;]|\byour?\b|\bthe\b", value)


@cache
def _ordinary_words() -> frozenset[str]:
    return frozenset(_ORDINARY_WORDS.split())


@cache
def is_strong(name: str) -> bool:
    """Tell whether a name is one of a password: then any word may be a secret."""
    return compile_pattern(STRONG).search(name.encode("utf-8", "replace")) is not None


def _is_bare(name: str, value: str, *, strong: bool, spaced: bool) -> bool:
    """Tell whether a value without quotes, which may be program code, is a secret."""
    constant = _CONSTANT.fullmatch(name.rpartition(".")[2].lstrip("-")) is not None
    if _LETTERS.fullmatch(value):
        if value.lower().replace("_", "").replace("-", "") in name.lower().replace("_", ""):
            return False
        words = any(word in value.lower() for word in ("pass", "token", "secret", "key", "pwd", "self.", "env"))
        return strong and not spaced and not words and (constant or (value.isalpha() and len(value) >= 6))
    if _IDENTIFIER.fullmatch(value) and ("." in value or "::" in value or "->" in value or spaced):
        return (constant and not spaced) or (strong and "." not in value and "_" not in value)
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
