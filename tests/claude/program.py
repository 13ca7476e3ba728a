"""The real program: a version from npm, and runs of it that see nothing of this machine but its own folder.

Installed once, by exact version, into `.claude-code/` of the checkout or `$UNSPOOL_CLAUDE_CACHE`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

PACKAGE = "@anthropic-ai/claude-code"
CHECKOUT = Path(__file__).parents[2]
UNREACHABLE = (
    "ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ECONNRESET",
    "ENETUNREACH",
    "ETIMEDOUT",
    "E403",
    "E407",
    "E50",
)
TIMEOUT = 60
Said: TypeAlias = tuple[str, str | Callable[[str], str]]
"""Words to wait for, and the line to say then; or what makes it of the line that showed the words."""


class Place(NamedTuple):
    """A home with a config folder, and the project that is worked in."""

    root: Path
    work: Path
    variables: Mapping[str, str] = {}
    """More of the environment than every start has."""

    @property
    def config(self) -> Path:
        return self.root / "config"


class Program(NamedTuple):
    """One version of the program."""

    version: str
    command: tuple[str, ...]

    def popen(self, place: Place, url: str, *arguments: str) -> subprocess.Popen[str]:
        """Start it in a place, with an API to talk to."""
        return subprocess.Popen(
            [*self.command, "-p", *arguments],
            cwd=place.work,
            env=environment(place, url),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, place: Place, url: str, *arguments: str) -> dict[str, Any]:
        """Run it to its end and return the result it prints."""
        with self.popen(place, url, "--output-format", "json", *arguments) as process:
            try:
                printed, _ = process.communicate(timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        try:
            # What was wrong may stand in more lines; 2.1.290 tells news of billing first.
            result = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
        except (ValueError, StopIteration):
            raise AssertionError(f"{self.version} {arguments}: {printed}") from None
        assert isinstance(result, dict), printed
        return result

    def talk(self, place: Place, url: str, said: Sequence[Said], *arguments: str) -> None:
        """Run it with its input open: say each line when the output shows the words before it."""
        streams = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
        with self.popen(place, url, *streams, *arguments) as process:
            assert process.stdin
            assert process.stdout
            watch = threading.Timer(TIMEOUT, process.kill)
            watch.start()
            try:
                for words, line in said:
                    printed = next((printed for printed in process.stdout if words in printed), None) if words else ""
                    if printed is None:
                        raise AssertionError(f"{self.version} never printed `{words}`")
                    process.stdin.write((line if isinstance(line, str) else line(printed)) + "\n")
                    process.stdin.flush()
                process.communicate()
            finally:
                watch.cancel()
        assert process.returncode >= 0, f"{self.version} did not end within {TIMEOUT} s"


def newest() -> str:
    """Return the newest version on npm; skip the test if nobody can be asked."""
    return _npm("view", PACKAGE, "version").strip()


def all_of(versions: Sequence[str]) -> dict[str, Program]:
    """Return versions by name, `newest` among them; fewer than listed is a failure, not a skip."""
    last = newest()  # nobody can be asked: skipped
    try:
        return {version: installed(last if version == "newest" else version) for version in versions}
    except pytest.skip.Exception as why:
        pytest.fail(f"not all of {', '.join(versions)} could be asked: {why}")


def installed(version: str) -> Program:
    """Return a version of the program, from npm if it is not there yet; skip the test if it cannot be had."""
    folder = Path(os.environ.get("UNSPOOL_CLAUDE_CACHE") or CHECKOUT / ".claude-code").absolute() / version
    if not folder.exists():
        unfinished = folder.with_name(f"{version}.{os.getpid()}")
        unfinished.mkdir(parents=True)
        _npm(
            "install",
            "--prefix",
            str(unfinished),
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            f"{PACKAGE}@{version}",
        )
        unfinished.rename(folder)
    package = folder / "node_modules" / PACKAGE
    assert json.loads((package / "package.json").read_text())["version"] == version
    if (package / "cli.js").exists():
        return Program(version, (_found("node"), str(package / "cli.js")))
    (native,) = package.parent.glob(f"{package.name}-*/claude")  # since about 2.1.150; the name tells the platform
    return Program(version, (str(native),))


def _npm(*arguments: str) -> str:
    done = subprocess.run(
        [_found("npm"), *arguments, "--fetch-retries=1"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=600,
        check=False,
    )
    for code in UNREACHABLE:
        if done.returncode and f"code {code}" in done.stderr:
            pytest.skip(f"the npm registry cannot be reached: `npm {arguments[0]}` says {code}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def _found(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"no `{name}` here: the real program needs node and npm")
    return path


def environment(place: Place, url: str) -> dict[str, str]:
    """Return all the program may see: nothing of this machine's settings, keys or sessions."""
    return {
        "PATH": os.pathsep.join([str(Path(_found("node")).parent), "/usr/bin", "/bin"]),
        "HOME": str(place.root),
        "LANG": "C.UTF-8",
        "SHELL": "/bin/bash",
        "TERM": "xterm-256color",
        "TMPDIR": str(place.root),
        "CLAUDE_CONFIG_DIR": str(place.config),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        **place.variables,
    }
