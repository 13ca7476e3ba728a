"""One long line holds up nobody: what is rendered of a transcript takes time in proportion to its length."""

from __future__ import annotations

import subprocess
import sys

LENGTH = 1_000_000
SCRIPT = """
import sys
from unspool.display import clean, clean_line
from unspool.export.block_text import command_text, notification_summary, strip_tags
from unspool.export.remaining_values import ShownText
from unspool.page.html.ansi import render_ansi
from unspool.page.html.highlight import highlight_lines
from unspool.page.html.markdown import render_markdown

units = ["a", " ", "\\r", "a\\r", "\\x1b[", "\\x1b]", "\\x1b[1;", "\\x9b", "<", "</", "<task", "<task ", "<summary>"]
starts = ["<task", "<task ", "</agent-", "\\x1b[", "\\x1b]0;", "\\r", "<command-name>"]
texts = [unit * (LENGTH // len(unit)) for unit in (*units, "\\t", "a\\t")] + [start + "a" * LENGTH for start in starts]
texts += [text + "\\r" for text in texts] + [text + "\\n" for text in texts]
for text in texts:
    for render in (render_ansi, clean, clean_line, strip_tags, command_text, notification_summary):
        render(text)
    ShownText(text).has(text + "b")
for unit in ("_a_", "\\n- ", "&", "<", "](", "\\n| a", "*a"):
    render_markdown(unit * (LENGTH // len(unit)))
for name, unit in (("A.java", "\\n"), ("a.c", "\\n"), ("a.md", "\\n"), ("a.py", "\\n "), ("a.sql", "[")):
    highlight_lines("\\n".join([(unit * 3_900)[:3_900]] * 16), name)
print("done")
"""


def test_a_text_of_a_megabyte_is_rendered_whatever_is_repeated_in_it() -> None:
    # A pattern that is tried anew from each character takes hours for this, and seconds if it is not: no test of speed.
    command = [sys.executable, "-c", SCRIPT.replace("LENGTH", str(LENGTH))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
