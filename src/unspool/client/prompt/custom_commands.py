"""Custom commands: Markdown files in `.claude/commands`, a name and arguments in, a prompt out.

    <config>/commands/review.md          /review           the user's own, everywhere
    <root>/.claude/commands/db/up.md     /db:up, or /up    the project's, once the folder is trusted

Rules
  1. `$ARGUMENTS` is all that was typed after the name, `$1` … `$9` its words; a command that names none of them gets
     the arguments after its text.
  2. A command between backticks after `!` runs, and its output takes its place: only through whoever asks for
     permission (`run`). `@path` brings the file along, through whoever may read it (`read`).
  3. What arguments say is never taken for either: commands and files are found before arguments are put in, and only
     then their `$1` are.
  4. A file that cannot be read is a problem that is said, not an error.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from unspool.client.prompt.front_matter import parted
from unspool.client.prompt.instructions import mentioned
from unspool.errors import UnspoolError
from unspool.files.open import read_whole
from unspool.permissions.rules import separated

_LARGEST = 256 * 1024
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
_PLACE = re.compile(r"\$(ARGUMENTS|[1-9](?!\d))")
_RUN = re.compile(r"!`([^`\n]+)`")
_WORD = re.compile(r"\"((?:\\.|[^\"\\])*)\"|'([^']*)'|(\S+)")


class Custom(NamedTuple):
    """A custom command."""

    name: str
    source: str
    """user, project."""
    path: Path
    body: str
    description: str = ""
    hint: str = ""
    """What arguments it takes, in words."""
    allowed: tuple[str, ...] = ()
    """Rules that hold while it is worked on."""
    model: str | None = None


class Commands(NamedTuple):
    """All custom commands."""

    commands: dict[str, Custom]
    problems: tuple[str, ...] = ()


def custom_commands(config: Path, root: Path, *, trusted: bool) -> Commands:
    """Return the commands by name; the project's go before the user's."""
    places = [("user", config / "commands")]
    if trusted:
        places.append(("project", root / ".claude" / "commands"))
    found: dict[str, Custom] = {}
    problems: list[str] = []
    for source, folder in places:
        for path in sorted(folder.rglob("*.md")):
            custom = _read(path, folder, source, problems)
            if custom is not None:
                found[custom.name] = custom
    for custom in [*found.values()]:
        found.setdefault(custom.name.rpartition(":")[2], custom)
    return Commands(found, tuple(problems))


async def expanded(
    custom: Custom,
    arguments: str,
    run: Callable[[str], Awaitable[str]],
    read: Callable[[str], Awaitable[str | None]],
) -> str:
    """Return the prompt that a command stands for."""
    words = [next(group for group in match.groups() if group is not None) for match in _WORD.finditer(arguments)]
    pieces, end, body = [], 0, custom.body
    for match in _RUN.finditer(body):
        pieces += [_filled(body[end : match.start()], arguments, words), await run(_filled(match[1], arguments, words))]
        end = match.end()
    text = "".join([*pieces, _filled(body[end:], arguments, words)])
    if arguments.strip() and not _PLACE.search(body):
        text = f"{text.rstrip()}\n\nARGUMENTS: {arguments.strip()}"
    for name in mentioned(_RUN.sub(" ", body)):
        name = _filled(name, arguments, words)
        contents = await read(name)
        if contents is not None:
            text = f"{text.rstrip()}\n\nContents of {name}:\n\n{contents}"
    return text.strip()


def _filled(text: str, arguments: str, words: list[str]) -> str:
    """Put arguments in their places, once: what they say themselves stays as it is."""

    def value(match: re.Match[str]) -> str:
        if match[1] == "ARGUMENTS":
            return arguments.strip()
        number = int(match[1])
        return words[number - 1] if number <= len(words) else ""

    return _PLACE.sub(value, text)


def _read(path: Path, folder: Path, source: str, problems: list[str]) -> Custom | None:
    names = [*path.relative_to(folder).parts[:-1], path.stem]
    if not all(_NAME.fullmatch(name) for name in names):
        problems.append(f"no name for a command: `{path}`")
        return None
    try:
        real = path.resolve()
        if source == "project" and not real.is_relative_to(folder.resolve()):
            problems.append(f"the command `{path}` leads out of its folder")
            return None
        text = read_whole(real, _LARGEST).decode()
    except (UnspoolError, OSError, RuntimeError, UnicodeDecodeError):
        problems.append(f"cannot read the command `{path}`")
        return None
    front, body = parted(text)
    first = next((line.strip("# ") for line in body.splitlines() if line.strip()), "")
    return Custom(
        name=":".join(names),
        source=source,
        path=path,
        body=body,
        description=front.get("description", first[:100]),
        hint=front.get("argument-hint", ""),
        allowed=tuple(separated(front.get("allowed-tools", "").strip("[]"))),
        model=front.get("model"),
    )
