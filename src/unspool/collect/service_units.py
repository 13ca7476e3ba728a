"""Writes the systemd user unit or launchd property list that starts the collector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

LABEL = "org.unspool.collect"
UNIT = "unspool-collect.service"


def unit_path(home: Path, platform: str, environment: Mapping[str, str]) -> Path:
    """Return the path where systemd or launchd looks for the unit of a user."""
    if platform == "darwin":
        return home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    config = environment.get("XDG_CONFIG_HOME")
    return (Path(config) if config else home / ".config") / "systemd" / "user" / UNIT


def unit_text(command: Sequence[str], environment: Mapping[str, str], platform: str) -> bytes:
    """Return the content of the unit that runs a command with these environment variables."""
    if platform == "darwin":
        return _launchd(command, environment)
    return _systemd(command, environment).encode()


def service_commands(path: Path, platform: str) -> tuple[str, str]:
    """Return the shell commands that enable the unit, now and at every login, and that disable it."""
    if platform == "darwin":
        return f"launchctl bootstrap gui/$(id -u) '{path}'", f"launchctl bootout gui/$(id -u)/{LABEL}"
    return f"systemctl --user enable --now {UNIT}", f"systemctl --user disable --now {UNIT}"


_TEMPORARY = ("/tmp/", "/var/tmp/")


def _systemd(command: Sequence[str], environment: Mapping[str, str]) -> str:
    words = [*command, *environment.values()]
    # A private `/tmp` would be another folder than the one that the command names.
    uses_temporary = any(f"{word.removeprefix('file://')}/".startswith(_TEMPORARY) for word in words)
    private = "" if uses_temporary else "PrivateTmp=true\n"
    variables = "".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in environment.items())
    return (
        "[Unit]\nDescription=Send Claude Code sessions to the team's object store\nAfter=network-online.target\n\n"
        f"[Service]\nExecStart={' '.join(map(_quoted, command))}\n{variables}"
        # Exit code 2 is a wrong command line: starting it again cannot help.
        "Restart=on-failure\nRestartSec=60\nRestartPreventExitStatus=2\nNice=10\nIOSchedulingClass=idle\n"
        f"NoNewPrivileges=true\n{private}\n"
        "[Install]\nWantedBy=default.target\n"
    )


def _quoted(word: str) -> str:
    # systemd expands `%` specifiers and `$` variables even between quotes.
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def _launchd(command: Sequence[str], environment: Mapping[str, str]) -> bytes:
    import plistlib

    return plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": list(command),
            "EnvironmentVariables": dict(environment),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 60,
            "ProcessType": "Background",
        }
    )
