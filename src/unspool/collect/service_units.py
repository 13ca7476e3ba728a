"""Writes the systemd user units or launchd property lists that start the collector and the ingest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Service(NamedTuple):
    """A command that the system keeps running."""

    name: str
    """Of the systemd unit, without suffix."""
    label: str
    """Of the launchd job."""
    description: str


COLLECTOR = Service("unspool-collect", "org.unspool.collect", "Send Claude Code sessions to the team's object store")
INGEST = Service(
    "unspool-ingest", "org.unspool.ingest", "Read collected Claude Code sessions into the tables of a lake"
)


def unit_path(home: Path, platform: str, environment: Mapping[str, str], service: Service = COLLECTOR) -> Path:
    """Return the path where systemd or launchd looks for the unit of a user."""
    if platform == "darwin":
        return home / "Library" / "LaunchAgents" / f"{service.label}.plist"
    config = environment.get("XDG_CONFIG_HOME")
    return (Path(config) if config else home / ".config") / "systemd" / "user" / f"{service.name}.service"


def log_path(home: Path, service: Service = COLLECTOR) -> Path:
    """Return the file that launchd writes the output of a service to; systemd has its journal."""
    return home / "Library" / "Logs" / f"{service.name}.log"


def unit_text(
    command: Sequence[str],
    environment: Mapping[str, str],
    platform: str,
    service: Service = COLLECTOR,
    home: Path | None = None,
) -> bytes:
    """Return the content of the unit that runs a command with these environment variables."""
    if platform == "darwin":
        return _launchd(command, environment, service, home or Path.home())
    return _systemd(command, environment, service).encode()


def service_commands(path: Path, platform: str, service: Service = COLLECTOR) -> tuple[str, str]:
    """Return the shell commands that enable the unit, now and at every login, and that disable it."""
    if platform == "darwin":
        return f"launchctl bootstrap gui/$(id -u) '{path}'", f"launchctl bootout gui/$(id -u)/{service.label}"
    unit = f"{service.name}.service"
    return f"systemctl --user enable --now {unit}", f"systemctl --user disable --now {unit}"


_TEMPORARY = ("/tmp/", "/var/tmp/")


def _systemd(command: Sequence[str], environment: Mapping[str, str], service: Service) -> str:
    words = [*command, *environment.values()]
    # A private `/tmp` would be another folder than the one that the command names.
    uses_temporary = any(f"{word.removeprefix('file://')}/".startswith(_TEMPORARY) for word in words)
    private = "" if uses_temporary else "PrivateTmp=true\n"
    variables = "".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in environment.items())
    # systemd takes the path of the program as it is: `$$` there would be two characters.
    program, *arguments = command
    line = " ".join([_quoted(program), *(_quoted(word).replace("$", "$$") for word in arguments)])
    return (
        f"[Unit]\nDescription={service.description}\nAfter=network-online.target\n\n"
        f"[Service]\nExecStart={line}\n{variables}"
        # Exit code 2 is a wrong command line: starting it again cannot help.
        "Restart=on-failure\nRestartSec=60\nRestartPreventExitStatus=2\nNice=10\nIOSchedulingClass=idle\n"
        f"NoNewPrivileges=true\n{private}\n"
        "[Install]\nWantedBy=default.target\n"
    )


def _quoted(word: str) -> str:
    """Quote a word for a unit, but for `$`, which is special on command lines and not in variables."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{"".join(map(_escape_control, escaped))}"'


def _escape_control(character: str) -> str:
    # A line end would end the setting, even between quotes. A byte that is not UTF-8 is a surrogate in Python.
    if character >= " " and character != "\x7f" and not "\ud800" <= character <= "\udfff":
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def _launchd(command: Sequence[str], environment: Mapping[str, str], service: Service, home: Path) -> bytes:
    import plistlib

    log = str(log_path(home, service))
    return plistlib.dumps(
        {
            "Label": service.label,
            "ProgramArguments": list(command),
            "EnvironmentVariables": dict(environment),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 60,
            "ProcessType": "Background",
            "StandardOutPath": log,
            "StandardErrorPath": log,
        }
    )
