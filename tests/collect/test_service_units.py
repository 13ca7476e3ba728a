"""Units: what a system reads of them is what was meant."""

from __future__ import annotations

import plistlib
from pathlib import Path

import pytest

from unspool.collect.service_units import service_commands, unit_path, unit_text

COMMAND = ["/opt/a b/python", "-m", "unspool", "collect", "--to", "s3://b/$x%"]


def test_a_property_list_says_what_to_run() -> None:
    found = plistlib.loads(unit_text(COMMAND, {"UNSPOOL_HOME": "/home/me/<own>"}, "darwin"))
    assert found["ProgramArguments"] == COMMAND
    assert found["EnvironmentVariables"] == {"UNSPOOL_HOME": "/home/me/<own>"}
    path = unit_path(Path("/Users/me"), "darwin", {})
    assert path == Path("/Users/me/Library/LaunchAgents/org.unspool.collect.plist")
    assert str(path) in service_commands(path, "darwin")[0]


def test_a_systemd_unit_says_what_to_run() -> None:
    text = unit_text(COMMAND, {"A": 'b"c'}, "linux").decode()
    assert 'ExecStart="/opt/a b/python" "-m" "unspool" "collect" "--to" "s3://b/$$x%%"\n' in text
    assert 'Environment="A=b\\"c"\n' in text
    assert unit_path(Path("/home/me"), "linux", {"XDG_CONFIG_HOME": "/c"}).parent == Path("/c/systemd/user")


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
