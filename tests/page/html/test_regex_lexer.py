"""Lexers that run faster find the tokens that Pygments finds, and a file name leads to the lexer that it chooses."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.lexers import find_lexer_class_for_filename, get_all_lexers, get_lexer_by_name

from unspool.page.html.highlight import _find_class, highlight_lines
from unspool.page.html.regex_lexer import faster_lexer

LANGUAGES = (
    "python", "javascript", "typescript", "go", "rust", "java", "c", "c++", "csharp", "css", "scss", "html", "markdown",
    "bash", "toml", "yaml", "json", "sql", "ruby", "php", "kotlin", "swift", "make", "diff", "ini", "lua", "perl", "r",
    "scala", "elixir", "haskell", "docker", "nginx", "xml", "vim", "dart", "zig", "powershell", "graphql", "protobuf",
)  # fmt: skip
FRAGMENTS = (
    'def f(x: int) -> str:\n    """Text."""\n    return rf"{x!r:>{4}} \\n" + b\'\\x00\'\n',
    "class A<T> extends B { #x = `a${b + `c`}`; async *m() { return /[/]\\/x/gi.test(y) } } // end\n",
    "match case lazy import from . import *\n", "@decorator\nasync with a as b: pass\n", "  \t  ", "\n\n", "\\",
    "/* comment\n over lines */", "# heading\n\n- item `code` **bold** [a](b)\n\n```python\nx = 1\n```\n",
    "fn main() -> Result<(), Box<dyn Error>> { let s: &'a str = r#\"raw\"#; println!(\"{}\", 0x1f_u8); }\n",
    "SELECT a, 'b''c' FROM \"t\" WHERE x >= 1.5e-3 -- no\n",
    "<div class='x'>&amp;<!-- c --><script>1<2</script></div>\n",
    "#include <stdio.h>\n#if 0\nx\n#endif\nint main(void) { return 'a' + 0b1; }\n", "$x = \"$y[0] {$z->a}\";\n?>",
    "if [[ -n \"${a:-b}\" ]]; then echo $((1+2)) <<EOF\n$x\nEOF\nfi\n", "a:\n  - &x {b: [1, ~]}\n  - *x\n",
    "é ünïcode 名前 = '🦊' İ K ſ", "\x00\x7f", "'", '"', "`", "'''", "0", "{", "}", "(", ")", "<", ">", "&", "=>", "…",
    "@@ -1,2 +1,3 @@\n-old\n+new\n", "{{ x }} {% if y %}{# z #}{% endif %}",
    "%w[a b] :sym => ->(x) { x } =begin\n=end\n",
)  # fmt: skip
texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=6), max_size=12).map("".join)


@pytest.mark.parametrize("language", LANGUAGES)
@given(text=texts)
def test_the_tokens_are_those_of_pygments(language: str, text: str) -> None:
    plain = get_lexer_by_name(language, ensurenl=False, stripnl=False)
    fast = faster_lexer(type(plain))(ensurenl=False, stripnl=False)
    assert list(fast.get_tokens_unprocessed(text)) == list(plain.get_tokens_unprocessed(text))
    assert list(fast.get_tokens(text)) == list(plain.get_tokens(text))


def test_most_languages_run_faster() -> None:
    plain = [type(get_lexer_by_name(language)) for language in LANGUAGES]
    assert sum(faster_lexer(lexer) is not lexer for lexer in plain) > len(plain) * 2 / 3


def test_a_whole_file_has_the_same_tokens() -> None:
    import unspool.page.html.regex_lexer as module

    text = Path(module.__file__).read_text("utf-8")
    plain = get_lexer_by_name("python", ensurenl=False, stripnl=False)
    fast = faster_lexer(type(plain))(ensurenl=False, stripnl=False)
    assert list(fast.get_tokens_unprocessed(text)) == list(plain.get_tokens_unprocessed(text))


def test_the_lexer_of_a_file_name_is_the_one_that_pygments_chooses() -> None:
    patterns = [pattern for _, _, patterns, _ in get_all_lexers(plugins=False) for pattern in patterns]
    names = {pattern.replace("*", "a.b").replace("[", "").replace("]", "") for pattern in patterns[::7]}
    names |= {"Makefile", "Makefile.am", "CMakeLists.txt", "a.py", ".py", "x", "x.", "a.PY", "a*b.py", "*.py", "[a].js"}
    for name in sorted(names):
        assert _find_class(name) is find_lexer_class_for_filename(name), name


def test_spans_are_closed_on_each_line_and_nothing_is_lost() -> None:
    lines = highlight_lines('x = """a\n\nb"""  # <c>\n', "a.py")
    texts = [html.unescape(re.sub("<[^>]*>", "", line)) for line in lines]
    assert texts == ['x = """a', "", 'b"""  # <c>']
    for line in lines:
        assert line.count("<span") == line.count("</span>")
        assert "></span>" not in line
