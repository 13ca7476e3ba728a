from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.client.tools.content.glob_patterns import IgnoreRules, InvalidPattern, compile_globs

names = st.text("ab.", min_size=1, max_size=4)
paths = st.lists(names, min_size=1, max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a.py", True),
        ("*.py", "sub/deep/a.py", True),
        ("*.py", "a.pyc", False),
        ("*.py", "A.PY", False),
        ("sub/*.py", "sub/a.py", True),
        ("sub/*.py", "sub/deep/a.py", False),
        ("sub/*.py", "other/sub/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", ".hidden/x/a.py", True),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("src/**", "src/x/y", True),
        ("src/**", "src", False),
        ("/a.py", "a.py", True),
        ("/a.py", "sub/a.py", False),
        ("*.{py,js}", "x/a.js", True),
        ("{a,b{c,d}}.py", "bd.py", True),
        ("?.py", "é.py", True),
        ("?.py", "ab.py", False),
        ("[a-c].py", "b.py", True),
        ("[!a-c].py", "b.py", False),
        ("[]x].py", "].py", True),
        ("[[]br].py", "[br].py", True),
        (r"\*.py", "*.py", True),
        (r"\*.py", "a.py", False),
        ("a+(b).py", "a+(b).py", True),
        ("a,b", "a,b", True),
        ("*", "line\nend", True),
    ],
)
def test_a_pattern_fits_what_it_means(pattern: str, path: str, expected: bool) -> None:
    assert compile_globs([pattern])(path) is expected


@pytest.mark.parametrize("pattern", ["[a-", "{a,b", "[z-a]"])
def test_what_is_no_pattern_says_so(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        compile_globs([pattern])


@given(paths)
def test_a_path_fits_itself_and_all_that_is_wide_enough(path: str) -> None:
    name = path.rpartition("/")[2]
    for pattern in (f"/{path}", f"**/{name}", "**", "*", f"{{{name},x}}"):
        assert compile_globs([pattern])(path)
    assert not compile_globs(["q", "q/**"])(path)


@given(st.text(max_size=12), st.text(max_size=12))
def test_any_text_is_a_pattern_or_says_it_is_none(pattern: str, path: str) -> None:
    with suppress(InvalidPattern):
        assert compile_globs([pattern])(path) in {True, False}


IGNORE = "\n".join(["# a comment", "*.log", "!keep.log", "build/", "/top.txt", "docs/*.pdf", "[oops", "", "a b.txt  "])


@pytest.mark.parametrize(
    ("path", "is_folder", "expected"),
    [
        ("x.log", False, True),
        ("sub/x.log", False, True),
        ("keep.log", False, False),
        ("build", True, True),
        ("build", False, False),
        ("sub/build", True, True),
        ("top.txt", False, True),
        ("sub/top.txt", False, False),
        ("docs/a.pdf", False, True),
        ("docs/deep/a.pdf", False, False),
        ("a b.txt", False, True),
        ("plain.txt", False, False),
    ],
)
def test_what_git_ignores_is_ignored(path: str, is_folder: bool, expected: bool) -> None:
    assert IgnoreRules().add_file("/top/", IGNORE).is_ignored(f"/top/{path}", is_folder=is_folder) is expected


def test_a_deeper_file_has_the_last_word() -> None:
    ignores = IgnoreRules().add_file("/top/", "*.log\n").add_file("/top/sub/", "!*.log\nmine\n")
    assert ignores.is_ignored("/top/x.log", is_folder=False)
    assert not ignores.is_ignored("/top/sub/x.log", is_folder=False)
    assert ignores.is_ignored("/top/sub/mine", is_folder=False)
