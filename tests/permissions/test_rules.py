"""What a rule matches, and what it does not."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.permissions.rules import PermissionRule, _matches_wildcard, host_of_url, parse_rule
from unspool.permissions.shell_parser import decode_ansi_c, parse_command

HERE, HOME = "/work/shop", "/home/me"


def rule(text: str, folder: str = "/work/shop") -> PermissionRule:
    made = parse_rule(text, "user", folder)
    assert made is not None
    return made


PATHS = """
Read(//etc/hosts)      | /etc/hosts             | both
Read(//etc/**)         | /etc/ssh/config        | both
Read(//etc/**)         | /etc                   | forbids
Read(//etc)            | /etc/ssh/config        | both
Read(~/notes/*.md)     | /home/me/notes/a.md    | both
Read(~/notes/*.md)     | /home/me/notes/b/a.md  | neither
Read(~)                | /home/me/x             | both
Edit(/src/**)          | /work/shop/src/a/b.py  | both
Edit(/src/**)          | /work/other/src/a.py   | neither
Edit(src/**)           | /work/shop/src/a.py    | both
Edit(src/**)           | /work/shop/lib/src/a   | forbids
Edit(./src/**)         | /work/shop/src/a.py    | both
Edit(src/*)            | /work/shop/src/a.py    | both
Edit(src/*)            | /work/shop/src/a/b.py  | forbids
Edit(src)              | /work/shop/src/a/b.py  | both
Read(*.env)            | /work/shop/a/b/x.env   | both
Read(*.env)            | /elsewhere/x.env       | forbids
Read(.env)             | /work/shop/.env        | both
Read(.env)             | /work/shop/.ENV        | forbids
Read(.env)             | /work/shop/.environment | neither
Read(**/*.key)         | /work/shop/a/b.key     | both
Read(**/*.key)         | /work/shop/b.key       | both
Read(a/**/z)           | /work/shop/a/z         | both
Read(a/**/z)           | /work/shop/a/b/c/z     | both
Read(a?c.py)           | /work/shop/abc.py      | both
Read(a[bc].py)         | /work/shop/ac.py       | both
Read(a[bc].py)         | /work/shop/ad.py       | neither
Read(a.c)              | /work/shop/abc         | neither
Read                   | /anything              | both
Read(//)               | /anything              | both
"""


@pytest.mark.parametrize("row", [row for row in PATHS.splitlines() if row])
def test_a_rule_is_about_these_paths(row: str) -> None:
    text, path, who = (cell.strip() for cell in row.split("|"))
    allows = rule(text).matches_path(path, here=HERE, home=HOME)
    forbids = rule(text).matches_path(path, here=HERE, home=HOME, forbids=True)
    assert (allows, forbids) == {"both": (True, True), "forbids": (False, True), "neither": (False, False)}[who]


def test_what_the_users_settings_forbid_from_their_folder_is_meant_where_they_work_too() -> None:
    made = rule("Read(/secrets/**)", "/home/me/.claude")
    for path, allows, forbids in (("/home/me/.claude/secrets/x", True, True), ("/work/shop/secrets/x", False, True)):
        assert made.matches_path(path, here=HERE, home=HOME) is allows
        assert made.matches_path(path, here=HERE, home=HOME, forbids=True) is forbids


def test_a_path_from_an_unknown_home_is_forbidden_and_never_allowed() -> None:
    assert not rule("Read(~/x)").matches_path("/home/me/x", here=HERE, home="")
    assert rule("Read(~/x)").matches_path("/home/me/x", here=HERE, home="", forbids=True)


COMMANDS = """
Bash                     | anything at all          | yes
Bash(*)                  | anything at all          | yes
Bash(:*)                 | anything at all          | yes
Bash(npm test)           | npm test                 | yes
Bash(npm test)           | npm  'test'              | yes
Bash(npm test)           | npm test x               | no
Bash(npm test)           | npm $x                   | no
Bash(npm test:*)         | npm test                 | yes
Bash(npm test:*)         | npm test x y             | yes
Bash(npm test:*)         | npm tests                | no
Bash(npm test *)         | npm test                 | yes
Bash(npm test *)         | npm test x               | yes
Bash(npm test *)         | npm tests                | no
Bash(npm test*)          | npm tests                | yes
Bash(git * main)         | git push origin main     | yes
Bash(git * main)         | git push main origin     | no
Bash(git * main)         | git main                 | no
Bash(* --version)        | node --version           | yes
Bash(echo "a b":*)       | echo 'a b' c             | yes
Bash(echo "a b":*)       | echo a b c               | no
Bash(git -c x=y log:*)   | git -c x=y log -3        | yes
Bash(git:*)              | git -c x=y log -3        | no
Bash(find . -delete)     | find . -delete           | yes
Bash(sed -i:*)           | sed -i s/a/b/ x          | yes
Bash(ls:*)               | /bin/ls                  | no
Bash(ls:*)               | $ls                      | no
Bash(FOO=1 ls:*)         | ls                       | no
"""


@pytest.mark.parametrize("row", [row for row in COMMANDS.splitlines() if row])
def test_a_rule_allows_these_commands(row: str) -> None:
    text, command, answer = (cell.strip() for cell in row.split("|"))
    (part,) = parse_command(command).commands
    assert rule(text).allows_command(part) is (answer == "yes")


@pytest.mark.parametrize(
    ("text", "words", "answer"),
    [
        ("Bash(git push:*)", "git push origin", True),
        ("Bash(git push:*)", "git -C x push", True),
        ("Bash(git push:*)", "git --no-pager -c a=b push", True),
        ("Bash(git push*)", "git -C x pushy", True),
        ("Bash(git push)", "git push origin", False),
        ("Bash(git push)", "GIT push", True),
        ("Bash(* --force)", "git push --force", True),
        ("Bash(rm:*)", "/usr/bin/rm", True),
        ("Bash(rm:*)", "rmdir", False),
        ("Bash(rm:*)", "", False),
        ("Bash", "", True),
    ],
)
def test_a_rule_forbids_these_words(text: str, words: str, answer: bool) -> None:
    assert rule(text).forbids_words(tuple(words.split())) is answer


def test_a_rule_about_servers_is_about_their_tools() -> None:
    for text, tool, allows, forbids in (
        ("mcp__a", "mcp__a__x", True, True),
        ("mcp__a__*", "mcp__a__x", True, True),
        ("mcp__a__x", "mcp__a__xy", False, False),
        ("mcp__a__get_*", "mcp__a__get_x", False, True),
        ("mcp__*", "mcp__b__x", False, True),
        ("Write", "Edit", False, False),
        ("Write(x)", "Edit", False, True),
        ("Edit", "NotebookEdit", True, True),
        ("Read", "Grep", True, True),
        ("Read", "Edit", False, False),
    ):
        assert rule(text).covers_tool(tool) is allows, text
        assert rule(text).covers_tool(tool, forbids=True) is forbids, text


def test_names_of_skills_may_have_words_after_them() -> None:
    assert rule("Skill(tidy:*)").matches_name("tidy up")
    assert not rule("Skill(tidy:*)").matches_name("tidying")


@pytest.mark.parametrize(
    "url",
    ["https://a.org\\@b.org", "https://u:p@a.org", "ftp://a.org", "https://a.org b", "//a.org", "https://[::1]/", ""],
)
def test_an_address_that_two_programs_may_read_differently_has_no_host(url: str) -> None:
    assert host_of_url(url) is None


@given(st.text("a*b ", max_size=12), st.text("ab ", max_size=40))
def test_stars_are_matched_as_a_regular_expression_would(inside: str, words: str) -> None:
    made = parse_rule(f"Bash({inside})")
    if made is None or made.specifier is None or "*" not in made.specifier or made.specifier.endswith(":*"):
        return
    expected = re.fullmatch(re.escape(made.specifier).replace(r"\*", ".*"), words)
    optional = made.specifier.endswith(" *") and made.specifier.count("*") == 1 and words == made.specifier[:-2]
    assert _matches_wildcard(made.specifier, words) is (expected is not None or optional)


def test_many_stars_take_no_longer() -> None:
    began = time.perf_counter()
    (part,) = parse_command("a" * 50_000 + " x").commands
    assert not rule(f"Bash({'*a' * 30}*y)").allows_command(part)
    assert time.perf_counter() - began < 5


def test_letters_written_as_numbers_are_read() -> None:
    assert decode_ansi_c(r"\x72\155\u0020\U00000078\n\'\\\cA\q") == "rm x\n'\\q"
    assert decode_ansi_c(r"\U99999999") == "\ufffd"
