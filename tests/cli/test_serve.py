"""`unspool serve`: what of its secrets others can see, and where a token comes from."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving import Served, serving
from unspool.testing.build import session, user

SECRET = "a-token-of-at-least-thirty-two-characters"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    session(user("hello")).save(tmp_path / "claude")
    return tmp_path / "claude"


def run(config: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unspool", "serve", "--config-dir", str(config), *options]
    around = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=around)


def arguments(pid: int) -> str:
    """Return what every user of the machine can see of a process."""
    return subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=True
    ).stdout


def bearer(served: Served, token: str) -> int:
    return served.get("/palette.json", cookie="", page_key="", Authorization=f"Bearer {token}").status


@pytest.mark.parametrize("value", [[], [SECRET], ["short"]])
def test_a_token_in_the_arguments_is_refused_with_what_to_do(config: Path, value: list[str]) -> None:
    done = run(config, "--no-browser", "--token", *value)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--token-file" in done.stderr
    assert "UNSPOOL_TOKEN" in done.stderr
    assert SECRET not in done.stderr


def test_a_token_file_is_made_for_the_user_alone_and_used_again(config: Path, tmp_path: Path) -> None:
    file = tmp_path / "token"
    with serving(config, "--token-file", str(file), home=tmp_path / "home") as served:
        token = file.read_text().strip()
        assert len(token) == 43
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert bearer(served, token) == 200
        assert bearer(served, token[:-1]) == 401
        assert token not in arguments(served.pid)
    with serving(config, "--token-file", str(file), home=tmp_path / "home") as served:
        assert bearer(served, token) == 200


def test_a_token_of_the_environment_is_used_and_not_inherited(config: Path, tmp_path: Path) -> None:
    around = {**os.environ, "UNSPOOL_TOKEN": SECRET}
    with serving(config, home=tmp_path / "home", environment=around) as served:
        assert bearer(served, SECRET) == 200
        assert SECRET not in arguments(served.pid)


@pytest.mark.parametrize("held", ["short", "", "ü" * 40, "two words " * 9, "x" * 5000])
def test_a_token_that_is_too_short_or_no_word_is_refused(config: Path, tmp_path: Path, held: str) -> None:
    file = tmp_path / "token"
    file.write_text(held)
    file.chmod(0o600)
    done = run(config, "--token-file", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) <= 2


def test_a_token_that_others_can_read_is_refused(config: Path, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(SECRET)
    file.chmod(0o644)
    done = run(config, "--token-file", str(file))
    assert (done.returncode, done.stdout) == (5, "")
    assert "chmod 600" in done.stderr
    done = run(config, "--token-file", str(tmp_path))
    assert (done.returncode, done.stdout) == (4, "")


def browser_script(folder: Path) -> dict[str, str]:
    """Return the environment of a user whose browser notes what it is started with, and what is there."""
    script = folder / "browser"
    noted = shlex.quote(str(folder / "noted"))
    script.write_text(
        "#!/bin/sh\n"
        f'file=${{1#file://}}\n{{ echo "$@"; ls -l "$file"; cat "$file"; env | grep UNSPOOL_TOKEN; }} > {noted}.new\n'
        f"mv {noted}.new {noted}\n"
    )
    script.chmod(0o700)
    return {**os.environ, "DISPLAY": ":0", "BROWSER": f"{script} %s", "UNSPOOL_TOKEN": SECRET}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="macOS opens files by itself")
def test_the_browser_is_started_with_a_file_that_only_the_user_can_read(config: Path, tmp_path: Path) -> None:
    around = browser_script(tmp_path)
    with serving(config, home=tmp_path / "home", environment=around, browser=True) as served:
        served.get("/")  # answered once the browser was started
        line, listed, page = (tmp_path / "noted").read_text().split("\n", 2)
        file = Path(line.removeprefix("file://"))
        key = served.link.partition("key=")[2]
        assert line.startswith("file://")
        assert key not in line
        assert listed.startswith("-rw------- ")
        assert key in page
        assert SECRET not in page
        assert file.exists()
        served.enter()
        assert not file.exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="macOS opens files by itself")
def test_the_file_is_gone_when_the_server_has_ended_and_nobody_opened_it(config: Path, tmp_path: Path) -> None:
    with serving(config, home=tmp_path / "home", environment=browser_script(tmp_path), browser=True) as served:
        served.get("/", cookie="")
        assert list((tmp_path / "home").glob("open-*.html"))
    assert not list((tmp_path / "home").glob("open-*.html"))
