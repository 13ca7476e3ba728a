"""Units: what a system reads of them is what was meant."""

from __future__ import annotations

import os
import plistlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from unspool.collect.service_units import COLLECTOR, INGEST, Service, log_path, service_commands, unit_path, unit_text

COMMAND = ["/opt/a b/python", "-m", "unspool", "collect", "--to", "s3://b/$x%"]
STRANGE = [
    "--exclude",
    "a b",
    "100%",
    "%h %%",
    "$HOME",
    "${HOME}",
    "$$",
    'say "hi"',
    "it's",
    "back\\slash\\n",
    "two\nlines",
    "tab\there",
    "\x1b[31m",
    ";",
    "#",
    "",
    "é→",
    " ",
]
"""Words that a unit may not change."""
NIGHT = Path(__file__).parents[2] / "docs" / "systemd"

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")


def verify(folder: Path, *units: Path, level: str = "info") -> str:
    """Let systemd read units; return what it says."""
    runtime = folder / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(runtime), "SYSTEMD_LOG_LEVEL": level, "LC_ALL": "C.UTF-8"}
    command = ["systemd-analyze", "--user", "--man=no", "verify", *map(str, units)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def words_of(line: str) -> list[str]:
    """Return the words of a command line as systemd prints them: quoted, with escapes of C."""
    words = []
    for quoted, bare in re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', line):
        text = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), quoted or bare)
        text = re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), text)
        words.append(re.sub(r"\\(.)", lambda match: ESCAPES.get(match[1], match[1]), text))
    return words


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter in a folder with a strange name."""
    path = tmp_path / "a b%$c" / "python"
    path.parent.mkdir()
    path.symlink_to(sys.executable)
    return path


@needs_systemd
@pytest.mark.parametrize("service", [COLLECTOR, INGEST], ids=lambda service: service.name)
def test_systemd_accepts_the_units_and_reads_every_word(tmp_path: Path, python: Path, service: Service) -> None:
    path = tmp_path / f"{service.name}.service"
    path.write_bytes(unit_text([str(python), *STRANGE], {"UNSPOOL_HOME": "/a b/%h/$HOME\nx"}, "linux", service))
    assert verify(tmp_path, path) == ""
    read = verify(tmp_path, path, level="debug")
    line = next(line for line in read.splitlines() if "Command Line: " in line and "a b%" in line)
    program, *words = words_of(line.partition("Command Line: ")[2])
    assert program == str(python)
    # What is left to do when the command is started: `$$` becomes `$`.
    assert [word.replace("$$", "$") for word in words] == STRANGE
    assert all(word.count("$") % 2 == 0 for word in words)
    assert "Environment: UNSPOOL_HOME=/a b/%h/$HOME\nx\n" in read


@needs_systemd
def test_systemd_names_what_is_wrong_in_a_unit(tmp_path: Path) -> None:
    """The test above can fail."""
    path = tmp_path / "bad.service"
    path.write_text("[Service]\nExecStart=/bin/true\nRestart=bogus\nand this\n")
    said = verify(tmp_path, path)
    assert "bogus" in said
    assert "Missing '='" in said


@needs_systemd
def test_systemd_accepts_the_units_of_the_night(tmp_path: Path) -> None:
    units = [tmp_path / path.name for path in sorted(NIGHT.iterdir())]
    assert [unit.suffix for unit in units] == [".service", ".timer"]
    for unit in units:
        text = (NIGHT / unit.name).read_text().replace("%h/.local/bin/unspool", "/bin/true")
        unit.write_text(text)
    assert verify(tmp_path, *units) == ""


def test_a_property_list_says_what_to_run() -> None:
    found = plistlib.loads(unit_text([*COMMAND, *STRANGE[:-8]], {"UNSPOOL_HOME": "/home/me/<own>"}, "darwin"))
    assert found["ProgramArguments"] == [*COMMAND, *STRANGE[:-8]]
    assert found["EnvironmentVariables"] == {"UNSPOOL_HOME": "/home/me/<own>"}
    path = unit_path(Path("/Users/me"), "darwin", {})
    assert path == Path("/Users/me/Library/LaunchAgents/org.unspool.collect.plist")
    assert str(path) in service_commands(path, "darwin")[0]


def test_a_property_list_names_a_log_of_its_own_for_each_service() -> None:
    for service in (COLLECTOR, INGEST):
        found = plistlib.loads(unit_text(COMMAND, {}, "darwin", service, Path("/Users/me")))
        assert found["Label"] == service.label
        assert found["StandardErrorPath"] == found["StandardOutPath"] == f"/Users/me/Library/Logs/{service.name}.log"
        assert str(log_path(Path("/Users/me"), service)) == found["StandardErrorPath"]


def test_a_systemd_unit_says_what_to_run() -> None:
    text = unit_text(COMMAND, {"A": 'b"c', "B": "$d"}, "linux").decode()
    assert 'ExecStart="/opt/a b/python" "-m" "unspool" "collect" "--to" "s3://b/$$x%%"\n' in text
    assert 'Environment="A=b\\"c"\nEnvironment="B=$d"\n' in text
    assert unit_path(Path("/home/me"), "linux", {"XDG_CONFIG_HOME": "/c"}).parent == Path("/c/systemd/user")
    assert unit_path(Path("/home/me"), "linux", {}, INGEST).name == "unspool-ingest.service"


def test_no_word_ends_a_setting() -> None:
    text = unit_text(["/p", "a\nExecStart=/bin/evil", os.fsdecode(b"\xff")], {"A": "b\nUser=root"}, "linux").decode()
    assert [line for line in text.splitlines() if line.startswith(("ExecStart=", "User="))] == [
        'ExecStart="/p" "a\\x0aExecStart=/bin/evil" "\\xff"'
    ]


@pytest.mark.parametrize(
    ("words", "environment", "is_private"),
    [
        (["--to", "s3://b"], {}, True),
        (["--to", "file:///tmp/lake"], {}, False),
        (["--state", "/var/tmp/state.json"], {}, False),
        (["--to", "s3://b"], {"UNSPOOL_HOME": "/tmp"}, False),
        (["--to", "file:///tmpfiles/lake"], {}, True),
    ],
)
def test_a_unit_sees_the_temporary_folder_that_its_command_names(
    words: list[str], environment: dict[str, str], is_private: bool
) -> None:
    text = unit_text([*COMMAND, *words], environment, "linux").decode()
    assert ("PrivateTmp=true\n" in text) == is_private
