import os
from pathlib import Path

import pytest

from tests.browser import chromium
from tests.browser.firefox import FIREFOX


def program(folder: Path, name: str, does: str = "exit 0") -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)
    return path


def test_a_browser_that_is_named_wins_over_one_on_the_path(tmp_path: Path) -> None:
    program(tmp_path, "chromium")
    named = program(tmp_path, "mine")
    assert chromium.find({"PATH": str(tmp_path), "UNSPOOL_CHROMIUM": str(named)}) == named
    assert chromium.find({"PATH": str(tmp_path), "UNSPOOL_CHROMIUM": str(tmp_path / "none")}) is None


@pytest.mark.parametrize("name", chromium.CHROMIUM.names)
def test_a_browser_is_found_under_each_name(name: str, tmp_path: Path) -> None:
    made = program(tmp_path, name)
    assert chromium.find({"PATH": str(tmp_path)}) == made


@pytest.mark.parametrize("browser", [chromium.CHROMIUM, FIREFOX], ids=["chromium", "firefox"])
@pytest.mark.parametrize("manager", chromium.MANAGERS)
def test_the_package_manager_there_is_installs_it(manager: str, browser: chromium.Program, tmp_path: Path) -> None:
    package = browser.packages[manager]
    made = tmp_path / package
    program(tmp_path, manager, f'echo "$@" >> {tmp_path}/asked; : > {made}; chmod 755 {made}')
    around = {"PATH": f"{tmp_path}:/usr/bin:/bin"} if manager == "apt-get" else {"PATH": f"{tmp_path}"}
    program(tmp_path, "chmod", 'exec /bin/chmod "$@"')
    assert chromium.install(around, root=True, program=browser) == ""
    assert package in (tmp_path / "asked").read_text().split()
    assert chromium.find({"PATH": str(tmp_path)}, browser) == made


def test_what_the_package_manager_says_last_is_told(tmp_path: Path) -> None:
    program(tmp_path, "apt-get", "echo no such package >&2; exit 100")
    problem = chromium.install({"PATH": str(tmp_path)}, root=True)
    assert problem == "`apt-get` could not install one: no such package"


def test_nobody_is_asked_for_a_password(tmp_path: Path) -> None:
    program(tmp_path, "apt-get", f"echo called > {tmp_path}/called")
    assert chromium.install({"PATH": str(tmp_path)}, root=False) == "`apt-get` needs root to install one"
    program(tmp_path, "sudo", "echo a password is required >&2; exit 1")
    assert chromium.install({"PATH": str(tmp_path)}, root=False) == "`apt-get` needs root to install one"
    assert not (tmp_path / "called").exists()


def test_without_a_package_manager_that_is_said(tmp_path: Path) -> None:
    assert chromium.install({"PATH": str(tmp_path)}, root=True) == "no package manager here is known to have one"


@pytest.mark.parametrize(("said", "code"), [("true", 1), ("", 0)])
def test_only_where_it_must_be_there_a_missing_browser_is_a_failure(
    said: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", said)
    monkeypatch.setenv("UNSPOOL_CHROMIUM", str(tmp_path / "none"))
    assert chromium.main() == code
    told = capsys.readouterr().err
    assert told.startswith("No Chromium: ")
    assert told.count("\n") == 1


def test_root_alone_goes_without_a_sandbox() -> None:
    assert ("--no-sandbox" in chromium.flags()) == (os.geteuid() == 0)
