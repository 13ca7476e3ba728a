"""The documents are right where no command is: links lead somewhere, questions have answers, lists are complete."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from http.client import IncompleteRead
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.store.asking import Columns, answer
from unspool.cli.main import _COMMANDS
from unspool.demo.write import write_demo
from unspool.store.sql.client import SqlEngine
from unspool.testing.api import scripted

ROOT = Path(__file__).parents[2]
ALL = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


def blocks(document: Path, language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder in which `unspool` is the command."""
    command = tmp_path / "bin" / "unspool"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m unspool "$@"\n')
    command.chmod(0o755)
    (tmp_path / "home").mkdir()
    return tmp_path


def run(command: list[str], place: Path) -> tuple[int, str]:
    """Run a command and return its exit code and what it said on stderr."""
    path, home, config = f"{place / 'bin'}:{os.environ['PATH']}", str(place / "home"), str(place / "demo")
    environment = {"PATH": path, "HOME": home, "CLAUDE_CONFIG_DIR": config}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlEngine]:
    """What answers SQL over the made-up data."""
    place = tmp_path_factory.mktemp("sql")
    write_demo(place / "demo")
    columns = Columns(place / "own", place / "demo")
    columns.refresh()
    with columns.engine() as made:
        yield made


QUESTIONS = re.findall(
    r"^### ([^\n]*)\n\n```sql\n(.*?)^```", (ROOT / "docs" / "sql.md").read_text(), re.DOTALL | re.MULTILINE
)


def test_there_are_twenty_questions() -> None:
    assert len(QUESTIONS) >= 20


@pytest.mark.parametrize(("question", "query"), QUESTIONS, ids=[question for question, _ in QUESTIONS])
def test_every_question_is_answered(engine: SqlEngine, question: str, query: str) -> None:
    _, rows = answer(engine, query)
    assert rows, question


@pytest.mark.parametrize("document", ALL, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
        if "://" not in link:
            assert (document.parent / link).exists(), link


SCRIPTS = blocks(ROOT / "docs" / "testing.md", "json")


@pytest.mark.parametrize("script", SCRIPTS, ids=range(len(SCRIPTS)))
def test_every_script_can_be_played(script: str) -> None:
    message = {"role": "user", "content": "Read the notes"}
    body = {"model": "claude-opus-5-5", "max_tokens": 100, "stream": True, "messages": [message]}
    with scripted(json.loads(script), variables={"work": "/work"}) as api:
        request = Request(
            f"{api.url}/v1/messages", json.dumps(body).encode(), {"x-api-key": "k", "anthropic-version": "1"}
        )
        with contextlib.suppress(HTTPError, IncompleteRead), urlopen(request, timeout=20) as answer:
            answer.read()
    assert len(api.requests) == 1
    assert api.failures == []


def test_every_command_has_a_place_in_the_reference() -> None:
    reference = (ROOT / "docs" / "cli.md").read_text()
    for name in _COMMANDS:
        assert f"## unspool {name}" in reference


def test_every_module_has_a_place_in_the_architecture() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    for path in sorted((ROOT / "src" / "unspool").rglob("*.py")):
        if path.name.startswith("__") or path.name.endswith("_tools.py"):
            continue
        parent = path.parent.name
        assert path.name in page or f"{parent}/" in page, path
