"""Recognises the folders of other agents, finds their sessions, and gives the folder to read in place of one.

| agent      | folder                      | sessions                                                    |
|------------|-----------------------------|-------------------------------------------------------------|
| Codex CLI  | `~/.codex`                  | `sessions/YYYY/MM/DD/rollout-*.jsonl`, `archived_sessions/` |
| Gemini CLI | `~/.gemini`                 | `tmp/<project>/chats/session-*.jsonl`, `session-*.json`     |
| OpenCode   | `~/.local/share/opencode`   | `opencode*.db`, `storage/session/<project>/*.json`          |
| pi         | `~/.pi`, `~/.pi/agent`      | `sessions/--<folder>--/<time>_<id>.jsonl`                   |

Rules
  1. A folder with a folder `projects` in it is Claude Code's (`is_config_folder`), and is looked at no further. A part
     of an agent's folder, and one of its files, are recognised as well.
  2. Links are not followed. Nothing is opened: names decide, and of a file alone the name of its folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from unspool.errors import Refused
from unspool.paths import is_config_folder

if TYPE_CHECKING:
    from unspool.read import Skipped

FOLDER: Final = "other-agents"
"""The folder in unspool's data folder that the translated sessions are in."""
PROGRAMS: Final = ("codex", "gemini", "opencode", "pi")
PROGRAM_NAMES: Final = {"codex": "Codex CLI", "gemini": "Gemini CLI", "opencode": "OpenCode", "pi": "pi"}

_TRANSLATED = re.compile(rf"[/\\]{FOLDER}[/\\]({'|'.join(PROGRAMS)})-[0-9a-f]{{16}}(?:[/\\]|\Z)")
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_ROLLOUT = re.compile(r"rollout-.*\.jsonl(?:\.zst)?")
_CHAT = re.compile(r"session-.*\.jsonl?")
_PI_FILE = re.compile(r"\d{4}-\d\d-\d\dT[\d-]+Z?_.*\.jsonl")
_PI_FOLDER = re.compile(r"--.*--")
_DIGITS = re.compile(r"\d{2,4}")
_DATABASE = re.compile(r"opencode(?:-.*)?\.db")
_ID = re.compile(rf"{_UUID}(?=\.jsonl)")
_MAX_FILES = 200_000


class OtherAgentFile(NamedTuple):
    """A file of sessions."""

    path: Path
    session_id: str
    """As the file's name says it; empty if it does not."""


class AgentFolder(NamedTuple):
    """A folder or file of another agent."""

    program: str
    root: Path


def find_program(path: Path | str) -> str | None:
    """Return the agent whose session a translated file is; None if Claude Code wrote it."""
    match = _TRANSLATED.search(str(path))
    return match[1] if match else None


def recognise(root: Path) -> AgentFolder | None:
    """Return the agent that a folder or file belongs to; None if it is Claude Code's or nobody's."""
    if is_config_folder(root):  # most are: they cost one look
        return None
    names = _list(root)
    if names is None:
        program = _recognise_file(root)
        return AgentFolder(program, root) if program else None
    if find_program(root):
        return None
    program = next((program for program in PROGRAMS if _holds(program, root, names)), None)
    return AgentFolder(program, root) if program else None


def translate_folder(root: Path, data_folder: Path) -> tuple[Path, list[Skipped]]:
    """Return the folder with the sessions of a folder or file, and what could not be read of it.

    That of another agent is brought up to date first; any other folder is returned as it is.
    """
    folder = recognise(root)
    if folder is None:
        return root, []
    from unspool.other_agents.mirror import Mirror  # start-up: most folders are Claude Code's

    mirror = Mirror(folder, data_folder)
    mirror.update()
    return mirror.root, mirror.skipped


def refuse_other_agents(path: Path, action: str) -> None:
    """Raise an error if a session or folder is another agent's: only Claude Code's can be changed or resumed."""
    program = find_program(path)
    if program is None and (folder := recognise(path)):
        program = folder.program
    if program:
        message = f"`{action}` works on Claude Code's sessions only; this is one of {PROGRAM_NAMES[program]}"
        raise Refused(message, hint=f"the sessions of {PROGRAM_NAMES[program]} can be read, and not changed or resumed")


def _recognise_file(path: Path) -> str | None:
    if path.is_symlink() or not path.is_file():
        return None
    if _ROLLOUT.fullmatch(path.name):
        return "codex"
    if _CHAT.fullmatch(path.name) and path.parent.name == "chats":
        return "gemini"
    if _DATABASE.fullmatch(path.name):
        return "opencode"
    is_pi = _PI_FILE.fullmatch(path.name) and (_PI_FOLDER.fullmatch(path.parent.name) or ".pi" in path.parts)
    return "pi" if is_pi else None


def _holds(program: str, root: Path, names: frozenset[str]) -> bool:
    if program == "opencode":
        return any(map(_DATABASE.fullmatch, names)) or ("storage" in names and (root / "storage/session").is_dir())
    return next(find_files(AgentFolder(program, root)), None) is not None


def find_files(folder: AgentFolder, unreadable: list[tuple[Path, str]] | None = None) -> Iterator[OtherAgentFile]:
    """Yield the session files of a folder. What cannot be listed is added to `unreadable`, with the reason."""
    program, root = folder
    if _list(root) is None:
        yield OtherAgentFile(root, _id_of(root.name))
        return
    walks = {
        "codex": ((("sessions",), _DIGITS, 3, _ROLLOUT), (("archived_sessions",), None, 0, _ROLLOUT),
                  ((), _DIGITS, 3, _ROLLOUT)),
        "gemini": ((("tmp",), re.compile(r".+"), 1, None), ((), re.compile(r".+"), 1, None), ((), None, 0, _CHAT)),
        "pi": ((("agent", "sessions"), _PI_FOLDER, 1, _PI_FILE), (("sessions",), _PI_FOLDER, 1, _PI_FILE),
               ((), _PI_FOLDER, 1, _PI_FILE)),
    }  # fmt: skip
    found = 0
    for inner, folders, depth, files in walks[program]:
        for path in _walk(root.joinpath(*inner), folders, depth, files, unreadable):
            yield OtherAgentFile(path, _id_of(path.name))
            found += 1
            if found >= _MAX_FILES:
                if unreadable is not None:
                    unreadable.append((root, f"only its first {_MAX_FILES:,} files are read"))
                return
        if found and not inner:
            return


def _walk(
    base: Path,
    folders: re.Pattern[str] | None,
    depth: int,
    files: re.Pattern[str] | None,
    unreadable: list[tuple[Path, str]] | None,
) -> Iterator[Path]:
    """Yield the files below a folder; without a pattern for files, those of Gemini CLI in folders `chats`."""
    pending = [(base, depth)]
    while pending:
        path, left = pending.pop()
        try:
            with os.scandir(path) as listing:
                children = sorted(listing, key=lambda child: child.name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            if unreadable is not None:
                unreadable.append((path, (error.strerror or "cannot be listed").lower()))
            continue
        if path == base and base.is_symlink():
            continue
        for child in children:
            is_folder = child.is_dir(follow_symlinks=False)
            if files is not None and not is_folder and files.fullmatch(child.name):
                if child.is_symlink():
                    if unreadable is not None:
                        unreadable.append((Path(child.path), "symbolic link, not followed"))
                else:
                    yield Path(child.path)
            elif is_folder and left and folders is not None and folders.fullmatch(child.name):
                pending.append((Path(child.path), left - 1))
            elif is_folder and files is None and child.name == "chats":
                yield from _walk(Path(child.path), None, 0, _CHAT, unreadable)


def _list(path: Path) -> frozenset[str] | None:
    """Return the names in a folder; None if it is none, or cannot be listed."""
    try:
        return frozenset(os.listdir(path))  # noqa: PTH208  names are enough, and a `Path` of each takes longer
    except OSError:
        return None


def _id_of(name: str) -> str:
    match = _ID.search(name)
    return match[0] if match else ""
