"""Loads custom slash commands (Markdown files in `.claude/commands`) and expands them to prompts.

    <config>/commands/review.md          /review           the user's own, everywhere
    <root>/.claude/commands/db/up.md     /db:up, or /up    the project's, once the folder is trusted
    <plugin>/commands/up.md              /plugin:up        a plugin's

Rules
  1. `$ARGUMENTS` is everything that was typed after the name, `$0` its first word, `$1` the second (also
     `$ARGUMENTS[1]`), and `$name` the word of a name that the file lists under `arguments`: as in Claude Code 2.1.325.
     A word that was not typed leaves its placeholder as it is; `\\$` is a plain `$`. A command in which nothing was
     replaced gets the arguments after its text.
  2. A shell command between backticks after `!` runs, and its output replaces it: only through `run`, which asks for
     permission. `@path` adds the file, through `read`, which checks that it may be read.
  3. Arguments are never taken for either: commands and files are found before arguments are put in, and only then
     their `$1` are.
  4. A file that cannot be read is reported, and is no error.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from unspool.client.prompt.definition_files import DEFINED_NAME, DefinitionFile, Definitions, Plugin, load_definitions
from unspool.client.prompt.text.markdown import find_mentions
from unspool.errors import Unreadable
from unspool.permissions import split_rules

_PLACEHOLDER = re.compile(
    r"(?P<escaped>(?<!\\)\\)?\$(?:ARGUMENTS\[(?P<index>\d{1,4})\]|(?P<number>\d{1,4})(?!\w)|(?P<all>ARGUMENTS)|(?P<name>[^\W\d]\w*)(?!\[))"
)
_SHELL_COMMAND = re.compile(r"!`([^`\n]+)`")
_WORD = re.compile(r"\"((?:\\.|[^\"\\])*)\"|'([^']*)'|(\S+)")


class CustomCommand(NamedTuple):
    """A custom slash command, or a skill."""

    name: str
    source: str
    """user, project, plugin."""
    path: Path
    body: str
    description: str = ""
    hint: str = ""
    """A description of its arguments."""
    allowed: tuple[str, ...] = ()
    """Permission rules that hold during its turn."""
    model: str | None = None
    arguments: tuple[str, ...] = ()
    """Names of its arguments, in their order."""
    plugin_root: Path | None = None
    skill_folder: Path | None = None
    """The folder of a skill; None: a command."""
    for_model: bool = False
    """Whether the model may use it."""
    for_user: bool = True
    """Whether it can be typed."""
    forks: bool = False
    """Whether a subagent does it, when the model uses it."""
    agent: str | None = None
    """The kind of that subagent."""

    @property
    def text(self) -> str:
        """The body, with the folders that it may name."""
        text = self.body
        for name, folder in (("CLAUDE_SKILL_DIR", self.skill_folder), ("CLAUDE_PLUGIN_ROOT", self.plugin_root)):
            text = text if folder is None else text.replace(f"${{{name}}}", str(folder))
        return text


def load_custom_commands(
    config: Path, root: Path, *, trusted: bool, plugins: Sequence[Plugin] = ()
) -> Definitions[CustomCommand]:
    """Load the commands by name; the project's go before the user's."""
    found = load_definitions(config, root, "commands", _read_command, trusted=trusted, plugins=plugins)
    # `/up` means `/db:up` where nothing else has that name.
    for command in [*found.by_name.values()]:
        found.by_name.setdefault(command.name.rpartition(":")[2], command)
    return found


async def expand_command(
    command: CustomCommand,
    arguments: str,
    run: Callable[[str], Awaitable[str]],
    read: Callable[[str], Awaitable[str | None]],
) -> str:
    """Return the prompt that a command expands to."""
    values = _Arguments(command, arguments)
    pieces, end, body = [], 0, command.text
    # Found in the body, before arguments are put in: an argument must not run a command.
    for match in _SHELL_COMMAND.finditer(body):
        pieces += [values.fill(body[end : match.start()]), await run(values.fill(match[1]))]
        end = match.end()
    text = "".join([*pieces, values.fill(body[end:])])
    if arguments.strip() and not values.were_used:
        text = f"{text.rstrip()}\n\nARGUMENTS: {arguments.strip()}"
    for name in find_mentions(_SHELL_COMMAND.sub(" ", body)):
        name = values.fill(name)
        contents = await read(name)
        if contents is not None:
            text = f"{text.rstrip()}\n\nContents of {name}:\n\n{contents}"
    if command.skill_folder is not None:  # as Claude Code 2.1.29 and 2.1.326 write it, with the line end
        return f"Base directory for this skill: {command.skill_folder}\n\n{text.strip()}\n"
    return text.strip()


def split_words(typed: str) -> list[str]:
    """Return what was typed after a command as words; what stands in quotes is one."""
    return [next(group for group in match.groups() if group is not None) for match in _WORD.finditer(typed)]


class _Arguments:
    """What was typed after a command, to be put in place of its placeholders."""

    def __init__(self, command: CustomCommand, typed: str) -> None:
        self._typed = typed.strip()
        self._words = split_words(typed)
        self._names = {name: number for number, name in enumerate(command.arguments)}
        self.were_used = False

    def fill(self, text: str) -> str:
        """Put arguments in place of placeholders; what looks like one in an argument stays as it is."""
        return _PLACEHOLDER.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        name = match["name"]
        if name is not None and name not in self._names:
            return match[0]
        if match["escaped"]:
            return match[0][1:]
        if match["all"]:
            value: str | None = self._typed
        else:
            number = self._names[name] if name is not None else int(match["index"] or match["number"])
            value = self._words[number] if number < len(self._words) else None
        if value is None:
            return match[0]
        self.were_used = True
        return value


def _read_command(file: DefinitionFile) -> CustomCommand:
    """Read the command that a file defines; `Unreadable` says what is wrong with it."""
    names = [*file.path.relative_to(file.folder).parts[:-1], file.path.stem]
    if not all(DEFINED_NAME.fullmatch(name) for name in names):
        raise Unreadable(f"invalid command name `{file.path}`")
    fields, body = file.read("command")
    first_line = next((line.strip("# ") for line in body.splitlines() if line.strip()), "")
    return CustomCommand(
        name=file.full_name(":".join(names)),
        source=file.source,
        path=file.path,
        body=body,
        description=fields.get("description", first_line[:100]),
        hint=fields.get("argument-hint", ""),
        allowed=tuple(split_rules(fields.get("allowed-tools", "").strip("[]"))),
        model=fields.get("model"),
        arguments=tuple(re.findall(r"[^\W\d]\w*", fields.get("arguments", ""))),
        plugin_root=file.plugin.root if file.plugin else None,
    )
