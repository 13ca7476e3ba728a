"""How a process begins and ends: fast, and with all said."""

from __future__ import annotations

import subprocess
import sys

RUN = "import sys; sys.argv = ['unspool', *{words!r}]; from unspool.__main__ import main; {before}; main()"


def run(*words: str, before: str = "pass") -> subprocess.CompletedProcess[str]:
    code = RUN.format(words=words, before=before)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_what_was_written_but_not_flushed_comes_out() -> None:
    done = run("--version", before="sys.stdout.write('before '); sys.stderr.write('beside')")
    assert (done.returncode, done.stdout[:7], done.stderr) == (0, "before ", "beside")


def test_who_wants_to_be_told_of_the_end_is_told() -> None:
    done = run("--version", before="import atexit; atexit.register(print, 'the end')")
    assert done.stdout.splitlines()[-1] == "the end"


def test_another_thread_may_finish_its_work() -> None:
    slow = "import threading as t; t.Thread(target=lambda: (t.main_thread().join(), print('finished'))).start()"
    done = run("--version", before=slow)
    assert done.stdout.splitlines()[-1] == "finished"


def test_the_exit_code_is_the_commands() -> None:
    assert run("nope").returncode == 2
