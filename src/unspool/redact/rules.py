"""What secrets look like: patterns for them, with the check that a value must pass.

Patterns are for google-re2, which takes linear time whatever the text.

Rules
  1. A pattern is anchored by letters that mean something (`ghp_`, `-----BEGIN`, `password=`). Nothing is a secret only
     because it looks random: hashes, ids, images and signatures of thinking look so too.
  2. Patterns are for decoded strings. `suspect_pattern` is for raw JSON: where it finds nothing, there is nothing to
     decode. It finds every beginning that a pattern can have, also behind an escape.
  3. A change here is another rule set: `rules_version` says which.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from unspool.redact import values
from unspool.redact.token_formats import ESCAPE, RAW_LEFT, TOKENS

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
PUTTY_ROWS: Final = (
    rf"Private-Lines:[ \t]*[0-9]*{_ROW_END}(?:[A-Za-z0-9+/=]{{16,}}(?:{_ROW_END})?)+[A-Za-z0-9+/=]{{0,64}}"
)
"""The secret part of PuTTY's key, if its end is missing."""

NAME: Final = (
    r"(?:(?i:pass(?:word|wd|phrase|code|wort)|pwd|[_-]pass|secret|token|api[ _-]?key|(?:access|secret|auth|account|master|"
    r"encryption|signing|private|service|subscription|shared|admin|app|application|client|webhook|session|storage|server|"
    r"user|deploy|fastly|database|function|host|nonce|logged_in)[ _-]?key|credentials?"
    r"|[_-](?:pat|pw|salt))|[A-Z0-9]_KEY"
    r"|(?i:jsessionid|phpsessid|asp\.net_sessionid|connect\.sid|(?:gitlab|laravel|rails|user)_session))"
)
"""Names of secrets, at the end of a longer name."""
_NAMED = NAME + r"(?i:[_-]?(?:key|base|value|prod|dev|staging|live|old|new|[0-9]{1,2}))*"

# Terminal colours stand between a name and its value in copied output, as bytes or as escapes of any kind.
_COLOUR = r"(?:(?:\x1b|\\+u001[bB]|\\+x1b|\\+e|\\+033)\[[0-9;]*m)*"
_BLANK = r"(?:[ \t]|\\+t|\xc2\xa0)"
_QUOTE = r"""["'`\\\]*]*"""
_SEPARATOR = rf"""{_QUOTE}{_COLOUR}{_BLANK}*(?:=>|:=|===?|=|:|\\u003[dD]){_BLANK}*[*]*{_COLOUR}"""
_BARE = r"""[^\s"'\\`,;&<>(){}\[\]|$\x1b]"""
_REST = r"""[^\s"'\\`,;&<>(){}\[\]|\x1b]"""
ASSIGNMENT: Final = (
    rf"(?P<name>{_NAMED})(?P<separator>{_SEPARATOR})"
    rf"""(?:\\*"{_COLOUR}(?:(?P<phrase>[^"\\\n]{{4,64}})\\*"|(?P<double>[^"\\\s]{{4,}}))"""
    rf"""|\\*'{_COLOUR}(?:(?P<words>[^'\\\n]{{4,64}})\\*'|(?P<single>[^'\\\s]{{4,}}))"""
    rf"""|`(?P<code>[^`\\\s]{{4,}})`?|(?P<bare>{_BARE}{_REST}{{3,}}))"""
)
"""`password = "…"`, `DB_PASSWORD=…`, `'token': '…'`, `secret: …`, also with the quotes escaped."""

OPTION: Final = rf"""-(?P<name>{_NAMED})(?P<separator>[ \t]+)["']?{_COLOUR}(?P<bare>{_BARE}{_REST}{{3,}})"""
"""`--password …` on a command line."""

MEMBER: Final = rf"[A-Za-z0-9_.\s-]*(?:{_NAMED})"
"""The key of a JSON member whose value is a secret."""

BEFORE_EMAIL: Final = r"(?:(?:\\(?:u[0-9a-fA-F]{4}|[^u]))+|[^\\A-Za-z0-9._%+-])"
"""What may stand before an address in raw JSON: whole escapes, for the letter of `\\n` is no part of it, or any mark."""
EMAIL: Final = rf"(?:^|{BEFORE_EMAIL})[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{{2,24}}"
_FOLDERS = (
    r"/(?:home|Users)\\?/[A-Za-z0-9._-]+|(?i:[a-z]:(?:{0}|\\?/)users(?:{0}|\\?/))[A-Za-z0-9._-]+"
    r"|(?:^|[/\"])-(?:home|Users)-[A-Za-z0-9]+"
)
BACKSLASHES: Final = r"\\{1,8}"
RAW_BACKSLASHES: Final = r"(?:\\\\){1,8}"
HOME: Final = _FOLDERS.replace("{0}", BACKSLASHES)
"""The path of a home folder up to the user's name; also as the name of a project folder."""
RAW_HOME: Final = _FOLDERS.replace("{0}", RAW_BACKSLASHES)
"""The same in raw JSON, where a backslash is two: the second of `\\\\` is never taken for the beginning of an escape."""

_SECRET_WORDS = r"(?i:pass(?:word|wd|phrase|code)|passwort|secret|token|api[ _-]?key|access[ _-]?key|credentials?)"


_LEFT = rf"(?:\b|{ESCAPE})"


class GroupRule(NamedTuple):
    """A pattern of which a group is the secret, if a check agrees."""

    kind: str
    pattern: str
    hint: str
    """Pattern of raw text where such a secret may be."""
    check: Callable[[str], bool]
    words: tuple[bytes, ...] = ()
    """Lower-case texts of which every match has one: others are not searched."""


GROUP_RULES: Final = (
    GroupRule(  # a row of the file that the console offers, or of a table
        "aws-secret-key",
        r"A(?:KIA|SIA)[0-9A-Z]{16}[\"'`,;:|\s\\tn]{1,16}(?P<bare>[A-Za-z0-9+/]{40})(?:[^A-Za-z0-9+/=]|$)",
        "A(?:KIA|SIA)[0-9A-Z]", values.is_strange, (b"akia", b"asia"),
    ),
    GroupRule(
        "mailgun-key", r"(?i:mailgun|\bapi)[^\n]{0,80}?(?P<bare>key-[0-9a-f]{32}\b)", "key-[0-9a-f]{16}",
        values.is_login, (b"key-",),
    ),
    GroupRule(
        "url-password", r"[a-zA-Z]:(?:\\?/){2}[^\s/:@\"'\\<>]*:(?P<bare>[^\s/@\"'\\<>]+)@", r"/\\*/[^\s/@\"<>]+@",
        values.is_url_password, (b"@",),
    ),
    GroupRule(
        "url-password", r"[a-zA-Z]:(?:\\?/){2}(?P<bare>[A-Za-z0-9_-]{20,})@", r"/\\*/[^\s/@\"<>]+@",
        values.is_bearer, (b"@",),
    ),
    GroupRule(
        "url-signature",
        r"(?i:x-amz-signature|x-goog-signature|\bsignature|\bsig|hmac|x-amz-security-token)(?:=|%3D|\\u003d)"
        r"(?P<bare>[A-Za-z0-9%_~+/.-]{24,}={0,2})",
        r"(?i:signature|sig|hmac|security-token)(?:=|%3D|\\u003d)[A-Za-z0-9%_~+/.-]{24}",
        values.is_strange, (b"sig", b"hmac", b"security-token"),
    ),
    GroupRule(
        "bearer-token", rf"{_LEFT}(?i:bearer)\s+[\"'`]?(?P<bare>[A-Za-z0-9._~+/-]{{8,}}={{0,2}})",
        r"(?i:bearer)(?:\s|\\[nrt])+[\\\"'`]*[A-Za-z0-9+/._~-]{8}", values.is_bearer, (b"bearer",),
    ),
    GroupRule(
        "authorization",
        rf"(?i:authorization)[\"'\\]*{_BLANK}*[:=,]{_BLANK}*[\"'\\]*"
        r"(?i:(?:token|apikey|api-key|ssws|splunk|key|bot|oauth|sso-key|genie-?key|pat|nnauth|fly(?:v1)?|app|hmac|session) +)?"
        r"[\"'\\]*(?P<bare>[A-Za-z0-9._~+/:|-]{16,}={0,2})",
        rf"(?i:authorization)[\"'\\]*{_BLANK}*[:=,]{_BLANK}*[\"'\\]*[A-Za-z0-9]", values.is_bearer, (b"authorization",),
    ),
    GroupRule(
        "authorization", r"\b(?:Splunk|SSWS|FlyV1|GenieKey|sso-key) +(?P<bare>[A-Za-z0-9._~+/:-]{16,}={0,2})",
        "(?:Splunk|SSWS|FlyV1|GenieKey|sso-key) +[A-Za-z0-9]", values.is_strange,
        (b"splunk", b"ssws", b"flyv1", b"genie", b"sso-key"),
    ),
    GroupRule(
        "basic-auth", rf"{_LEFT}(?i:basic)\s+(?P<bare>[A-Za-z0-9+/]{{12,}}={{0,2}})",
        r"(?i:basic)(?:\s|\\[nrt])+[A-Za-z0-9+/]{12}", values.is_basic, (b"basic",),
    ),
    GroupRule(  # Docker's and npm's: name and password in base64
        "basic-auth", r"""(?i:\b_?auth)["'\\]*\s?[:=]\s?["'\\]*(?P<bare>[A-Za-z0-9+/]{8,}={0,2})""",
        r"""(?i:auth)["'\\]*\s?[:=]\s?["'\\]*[A-Za-z0-9+/]{4}""", values.is_basic, (b"auth",),
    ),
    GroupRule(  # .netrc
        "login", r"""(?i:\blogin\s+\S+\s+password)\s+(?P<bare>[^\s"'\\]{4,})""",
        r"(?i:password)(?:\s|\\[nrt])+[^\s]{4}", values.is_login, (b"login",),
    ),
    GroupRule(
        "login", rf"""{_LEFT}sshpass\s+-p\s*["']?(?P<bare>[^\s"'\\]{{4,}})""", "sshpass", values.is_login, (b"sshpass",)
    ),
    GroupRule(
        "login", r"""(?:^|\s)(?:-u|--user)[ =]\\*["']?[A-Za-z0-9._@-]+:(?P<bare>[^\s"'\\/]{4,})""",
        r"(?:\s|\\[nrt]|\")(?:-u|--user)[ =][\\\"']*[A-Za-z0-9._@-]+:[^\s]", values.is_login, (b"-u",),
    ),
    GroupRule(
        "login",
        rf"""{_LEFT}(?:mysql|mysqldump|mysqladmin|mysqlimport|mysqlshow|mariadb|mariadb-dump|mycli)\b[^\n|;&\\]{{0,160}}?"""
        r"""[ \t]-p\\*["']?(?P<bare>[^\s"'\\-][^\s"'\\]{2,})""",
        r"(?:mysql|mariadb|mycli)[a-z-]*[ \t]+[^ \t]", values.is_login, (b"mysql", b"mariadb", b"mycli"),
    ),
    GroupRule(
        "login",
        rf"""{_LEFT}(?:redis-cli\b[^\n|;&\\]{{0,100}}?[ \t]-a|sqlcmd\b[^\n|;&\\]{{0,100}}?[ \t]-P|ldap[a-z]+\b[^\n|;&\\]{{0,160}}?[ \t]-w"""
        r"""|(?:docker|podman|helm registry|az|oc|buildah|nerdctl) login\b[^\n|;&\\]{0,160}?[ \t]-p)[ \t]*\\*["']?(?P<bare>[^\s"'\\]{4,})""",
        "(?:redis-cli|sqlcmd|ldap[a-z]+|(?:docker|podman|registry|az|oc|buildah|nerdctl) login)[ \t]+[^ \t]", values.is_login,
        (b"redis-cli", b"sqlcmd", b"ldap", b"login"),
    ),
    GroupRule(  # openssl's and gpg's
        "login", r"""(?:-pass(?:in|out)?[ \t]+["']?|-k[ \t]+)pass:(?P<bare>[^\s"'\\]{4,})|\b[A-Za-z0-9._-]+%(?P<other>[^\s"'\\%]{4,})[ \t]+//""",
        r"[ \t][\"']?pass:[^\s]", values.is_login, (b"pass:",),
    ),
    GroupRule(
        "login", r"""\bhtpasswd[ \t]+(?:-[A-Za-z0-9]+[ \t]+)*-[A-Za-z]*b[A-Za-z]*[ \t]+\S+[ \t]+\S+[ \t]+["']?(?P<bare>[^\s"'\\]{4,})""",
        "htpasswd[ \t]+-", values.is_login, (b"htpasswd",),
    ),
    GroupRule(
        "login", r"""\b(?i:pass|pw)=\\*["']?(?P<bare>[^\s"'\\`,;&<>(){}\[\]|]{8,})""", r"""(?i:pass|pw)=\\*["']?[^\s"'\\]{8}""",
        values.is_strange, (b"pass=", b"pw="),
    ),
    GroupRule(  # .pgpass
        "login",
        r"[A-Za-z0-9.*_-]+:(?:[1-9][0-9]{3,4}|\*):[A-Za-z_*][A-Za-z0-9_.*-]*:[A-Za-z_*][A-Za-z0-9_.@*-]*:(?P<bare>[^\s\"'\\:]{4,})",
        r":(?:[1-9][0-9]{3,4}|\*):[A-Za-z_*][A-Za-z0-9_.*-]*:[A-Za-z_*][A-Za-z0-9_.@*-]*:[^\s\"'\\:]{4}", values.is_told,
    ),
    GroupRule(
        "secure-string",
        r"""(?i:ConvertTo-SecureString)(?:[ \t]+-(?i:String|AsPlainText|Force))*[ \t]+\\*["'](?P<bare>[^"'\\\n]{4,128})""",
        "(?i:ConvertTo-SecureString)", values.is_login, (b"securestring",),
    ),
    GroupRule(
        "secure-string",
        r"""(?i:NetworkCredential|PSCredential)[ \t]*\([ \t]*\\*["'][^"'\n]{0,64}\\*["'][ \t]*,[ \t]*\\*["'](?P<bare>[^"'\\\n]{4,128})""",
        "(?i:NetworkCredential|PSCredential)", values.is_login, (b"credential",),
    ),
    GroupRule(
        "element",
        rf"""<(?:[A-Za-z0-9_.-]+:)?[A-Za-z0-9_.-]*(?:{_NAMED})(?:[ \t][^<>\n]{{0,200}})?>\s*(?P<bare>[^\s<>"'{{}}]{{4,256}})\s*<\\?/""",
        f"<[A-Za-z0-9_.:-]*(?:{_NAMED})[ >]",
        values.is_login, (b"<",),
    ),
    GroupRule(
        "element",
        rf"""(?i:key|name)=\\*["'][A-Za-z0-9_.:-]*(?:{_NAMED})\\*["'][ \t]+(?i:value)=\\*["'](?P<bare>[^\s<>"'\\]{{4,}})""",
        rf"""(?:{_NAMED})\\*["'][ \t]+(?i:value)=""", values.is_told, (b"value=",),
    ),
    GroupRule(
        "call",
        rf"""(?i:define|setenv|putenv|setProperty|setItem|set_secret|->set|setHeader|addHeader|setRequestHeader|header|headers\.(?:set|append))[ \t]*\([ \t]*"""
        rf"""\\*["'][A-Za-z0-9_.-]*(?:{_NAMED})\\*["'][ \t]*,[ \t]*\\*["'](?P<bare>[^"'\\\n]{{4,128}})""",
        rf"""\([ \t]*\\*["'][A-Za-z0-9_.-]*(?:{_NAMED})\\*["'][ \t]*,[ \t]*\\*["']""", lambda value: values.is_told(value) or values.is_salt(value),
        (b"(",),
    ),
    GroupRule(
        "table",
        rf"""\|[ \t]*[*`_]*[A-Za-z0-9_. -]{{0,40}}?(?:{_NAMED})[*`_]*[ \t]*\|[ \t]*[*`"']*(?P<bare>[^\s|"'`*]{{6,}})[*`"']*[ \t]*\|""",
        rf"(?:{_NAMED})[*`_]*(?:[ \t]|\\t)*\|(?:[ \t]|\\t)*[*`\\\"']*[^\s|\"'`*]{{6}}", values.is_told, (b"|",),
    ),
    GroupRule(
        "sentence",
        rf"""{_SECRET_WORDS}(?:[ \t]+(?i:for|of|to|on|at)[ \t]+[^\n.,;:]{{1,40}}?)?[ \t]+(?i:is|was|ist|lautet|set to|be|now|will be|to)[ \t]*:?[ \t]+"""
        r"""(?i:now[ \t]+|still[ \t]+)?[*_]*(?:\\*["'`](?P<other>[^\s"'`\\]{4,})\\*["'`]|(?P<bare>[^\s"'`\\(){}\[\]<>|]{6,}))""",
        rf"{_SECRET_WORDS}[ \t]+(?i:for|of|to|on|at|is|was|ist|lautet|set|be|now|will)[ \t:]",
        values.is_told, (b"pass", b"secret", b"token", b"key", b"credential"),
    ),
    GroupRule(
        "private-key",
        r"""\\*["'](?:d|p|q|dp|dq|qi|k)\\*["']\s*:\s*\\*["'](?P<bare>[A-Za-z0-9_-]{20,})\\*["']""",
        r"""kty[\\"']""", values.is_strange, (b"kty",),
    ),
)  # fmt: skip
"""In this order: what an earlier rule has replaced is hidden from the later ones."""

COOKIES: Final = r"""(?i:(?:set-)?cookie2?["'\\]*[ \t]*[:=,]|[ \t](?:-b|--cookie)[ =])[ \t]*\\*["']?(?P<bare>[A-Za-z0-9_.%-]+=[^\r\n"'\\]{8,})"""
COOKIE: Final = r"""(?:^|;[ ]*)[A-Za-z0-9_.%-]+=(?P<bare>[^\s;,"'\\]{12,})"""

MNEMONIC: Final = (
    r"(?i:mnemonic|seed|seed[ _-]?(?:phrase|words)|(?:recovery|backup|secret|wallet)[ _-]?(?:phrase|words|seed))"
    r"[^A-Za-z0-9\n]{0,12}(?:(?i:is|are)[^A-Za-z0-9\n]{1,8})?(?P<bare>[a-z]{3,8}(?:[ ,]{1,2}[a-z]{3,8}){11,23})\b"
)
"""The words of a wallet's seed, if something says that they are."""

_HINTS: Final = (
    *(token.hint for token in TOKENS if not token.anchored or token.is_late),
    # A word of base64 or of prose has many of these beginnings inside it (`task-`, `disk-`).
    f"{RAW_LEFT}(?:{'|'.join(token.hint for token in TOKENS if token.anchored and not token.is_late)})",
    *(rule.hint for rule in GROUP_RULES),
    "PRIVATE KEY",
    "Private-Lines:",
    r"(?i:mnemonic|seed|phrase|words)[^A-Za-z0-9\n]{0,12}(?:(?i:is|are)[^A-Za-z0-9\n]{1,8})?(?:[a-z]{3,8}[ ,]{1,2}){4}",
    _NAMED + _SEPARATOR + rf"""(?:\\*["'[`]|{_BARE}{{4}})""",
    "-" + _NAMED + r"[ \t]+[^ \t=:]",
    r"(?i:cookie2?)[\"'\\]*[ \t]*[:=,][ \t\\\"']*[A-Za-z0-9_.%-]+=|[ \t](?:-b|--cookie)[ =][\\\"']*[A-Za-z0-9_.%-]+=",
)
_ESCAPED = r"\\u00[2-7]"
"""A letter that need not be escaped and is: the string must be decoded before it can be searched."""
INVISIBLE: Final = r"\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xa4]|\xef\xbb\xbf|\xc2\xad"
"""Characters of no width, in UTF-8."""
_HIDDEN = (
    rf"[A-Za-z0-9_-](?:{INVISIBLE}|\\u(?:200[b-fB-F]|202[a-eA-E]|206[0-4]|[fF][eE][fF][fF]|00[aA][dD]))+[A-Za-z0-9_-]"
)


@cache
def suspect_pattern(extra: tuple[str, ...] = ()) -> Any:
    """Return the pattern that finds places in raw bytes where a secret may be."""
    return compile_pattern("|".join(f"(?:{hint})" for hint in (*_HINTS, _ESCAPED, _HIDDEN, *extra)), captures=False)


@cache
def compile_pattern(pattern: str, *, captures: bool = True) -> Any:
    """Compile a pattern for bytes of UTF-8 text."""
    import re2  # here: most commands redact nothing

    return re2.compile(pattern.encode(), pattern_options(captures=captures))


def pattern_options(*, captures: bool) -> Any:
    """Return the options with which patterns are compiled."""
    import re2

    options = re2.Options()
    options.max_mem = 1 << 26
    options.log_errors = False
    # Byte by byte, although the text is UTF-8: every secret begins and ends beside an ASCII character.
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = not captures
    return options


@cache
def rules_version(extra: tuple[str, ...] = ()) -> str:
    """Return the version of the rule set: of these rules, and of those that the user added."""
    parts = [repr(part) for part in (TOKENS, _HINTS, KEY_CUT, KEY_REST, ASSIGNMENT, OPTION, MEMBER, COOKIES, COOKIE)]
    parts += [f"{rule.kind}={rule.pattern}" for rule in GROUP_RULES]
    parts += [repr(part) for part in (MNEMONIC, EMAIL, HOME, RAW_HOME, EDITION, extra)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


EDITION = 4
"""Raised with each change of the checks in `values.py`: the version of the rules depends on it."""
