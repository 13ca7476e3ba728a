"""What is copied for a shell is one word there, whatever it contains."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.display.shell import quote_for_paste, resume_command

HOSTILE = [
    "it's",
    "a b",
    "$(touch x)",
    "`id`",
    "a\nb",
    "\x1b[201~\nid\n",
    "-rf",
    "",
    "ä\u202e",
    "\\",
    "a'\tb\\'",
    "!x",
    "~",
    "*",
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize("text", HOSTILE)
def test_a_shell_reads_back_what_was_quoted(text: str) -> None:
    answer = subprocess.run(["bash", "-c", f"printf %s {quote_for_paste(text)}"], capture_output=True, check=True)
    assert answer.stdout.decode() == text


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    assert quote_for_paste(text).isprintable()


def test_a_session_is_resumed_from_its_folder_and_its_config_folder() -> None:
    assert resume_command("3f2a", None) == "claude --resume 3f2a"
    command = resume_command("3f2a", "/home/me/it's; rm -rf ~", "/srv/my claude")
    assert command == "cd '/home/me/it'\"'\"'s; rm -rf ~' && CLAUDE_CONFIG_DIR='/srv/my claude' claude --resume 3f2a"
    assert resume_command("--x", "-P") == "cd -- -P && claude --resume=--x"
