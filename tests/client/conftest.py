"""A folder to work in, and the command run in it with a script for a model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest


class Place(NamedTuple):
    """A home with a config folder, and the project that is worked in."""

    root: Path

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def config(self) -> Path:
        return self.root / "claude"

    @property
    def environment(self) -> dict[str, str]:
        """All that a run may see."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "LANG": "C.UTF-8",
            "CLAUDE_CONFIG_DIR": str(self.config),
            "UNSPOOL_HOME": str(self.root / "unspool"),
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def script(self, script: object) -> str:
        """Write a script; return the name of the model that says it."""
        path = self.root / "script.json"
        path.write_text(json.dumps(script))
        return f"script:{path}"

    def sessions(self) -> list[Path]:
        """The sessions there are, the oldest first."""
        found = self.config.glob("projects/*/*.jsonl")
        return sorted(found, key=lambda path: path.stat().st_mtime_ns)


class Ran(NamedTuple):
    """What a run did."""

    code: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def object(self) -> dict[str, Any]:
        (one,) = self.objects
        return one


Chat = Callable[..., Ran]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "work").mkdir()
    return Place(tmp_path)


@pytest.fixture
def chat(place: Place) -> Chat:
    """Return a function that runs `unspool chat` in the folder."""

    def run(*arguments: str | Path, script: object = None, input: str | None = None, **environment: str) -> Ran:
        model = ["--model", place.script(script)] if script is not None else []
        done = subprocess.run(
            [sys.executable, "-m", "unspool", "chat", *model, *map(str, arguments)],
            env={**place.environment, **environment},
            cwd=place.work,
            input=input or "",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run
