"""A real task in a scratch repository: read, edit, run the tests, commit. The script answers only if each request
contains the true result of the last call."""

from __future__ import annotations

import subprocess
from pathlib import Path

PROMPT = "add() is wrong, mend it and commit"
DONE = "add() adds again, and the tests pass."
IDENTITY = {
    "GIT_AUTHOR_NAME": "Tester",
    "GIT_AUTHOR_EMAIL": "tester@example.com",
    "GIT_COMMITTER_NAME": "Tester",
    "GIT_COMMITTER_EMAIL": "tester@example.com",
}
ALLOWED = "Edit,Bash(python3 -B -m unittest:*),Bash(git commit:*),Bash(git log:*)"


def repository(folder: Path) -> None:
    """Make a repository with a mistake in it and a test that finds it."""
    (folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "test_calc.py").write_text(
        "import unittest\n\nfrom calc import add\n\n\nclass Adding(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"
    )
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "Begin")


def script(folder: Path) -> list[object]:
    """Return what the model says, and what it wants to have been told."""
    path = str(folder / "calc.py")
    edit = {"file_path": path, "old_string": "return a - b", "new_string": "return a + b"}
    return [
        {"content": ["I run the tests.", _bash("python3 -B -m unittest -q")], "expect": {"text": PROMPT}},
        {
            "content": ["They fail. I **read** the code.", _use("Read", file_path=path)],
            "expect": {"result": ["AssertionError: -1 != 5", "FAILED (failures=1)"], "is_error": True},
        },
        {"content": [_use("Edit", **edit)], "expect": {"result": "return a - b"}},
        {
            "content": [_bash("python3 -B -m unittest -q")],
            "expect": {"result": "calc.py has been updated", "is_error": False},
        },
        {
            "content": [_bash("git commit -q -am 'Mend add' && git log --oneline -1")],
            "expect": {"result": "OK", "is_error": False},
        },
        {"content": DONE, "expect": {"result": "Mend add", "is_error": False}},
    ]


def is_done(folder: Path) -> bool:
    """Tell whether the task was done: committed, and nothing left over."""
    return (
        git(folder, "log", "-1", "--format=%s") == "Mend add"
        and "a + b" in git(folder, "show", "HEAD:calc.py")
        and git(folder, "status", "--porcelain", "--untracked-files=no") == ""
    )


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder.parent), **IDENTITY},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def _bash(command: str) -> dict[str, object]:
    return _use("Bash", command=command)


def _use(name: str, **input: object) -> dict[str, object]:
    return {"type": "tool_use", "name": name, "input": input}
