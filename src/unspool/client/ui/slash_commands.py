"""Runs what was typed at the prompt: our own `/` commands, custom commands, and prompts with the files that they name.

It is the same with a terminal and without; commands that need a terminal are in `slash_actions.py`.

Rules
  1. A command of ours is run here and the model is not asked; its output is written to the session as Claude Code does.
  2. A command from `.claude/commands` is expanded and sent as a prompt: the typed line, and its expansion as its child.
  3. What is no command is a prompt, even if it begins with `/`: it may be a path or a pattern.
  4. Shell commands and files in a custom command are run and read under the same permission rules as the model's own
     calls: what needs permission is asked, and what is refused is named in the text instead.
  5. The `allowed-tools` and the `model` of a custom command apply until the turn has ended; so do those of a skill.
  6. A file that a prompt names is sent with it if it may be read without asking: piped input may name any file. So is a
     resource of an MCP server (`@server:uri`). A prompt of such a server is a command, `/mcp__server__prompt`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from unspool.client import events
from unspool.client.loop.agent_hooks import TypedCommand
from unspool.client.loop.command_calls import CommandCalls
from unspool.client.loop.inbox import Emit
from unspool.client.prompt.custom_commands import CustomCommand, split_words
from unspool.client.prompt.text.markdown import find_mentions
from unspool.client.session.pasted_texts import find_picture
from unspool.client.tool_result import InvalidToolCall, Json, ToolFailed
from unspool.client.ui import status_text
from unspool.client.ui.commands import overview
from unspool.client.ui.open_chat import OpenedChat, resolve_model
from unspool.errors import Refused, UnspoolError, UsageError
from unspool.files import read_start

_MAX_PICTURE_BYTES = 32 * 1024 * 1024
TERMINAL_COMMANDS = {
    "help": "list the commands",
    "resume": "resume another session of this folder",
    "tree": "list the branches of this session and switch to another one",
    "fork": "continue in a copy of this session",
    "rewind": "rewind to an earlier prompt: conversation, files or both",
    "compact": "summarize the conversation: /compact [what to keep]",
    "clear": "start a new session",
    "cost": "show the cost of this session",
    "context": "show how full the context is",
    "model": "switch to another model: /model [NAME]",
    "permissions": "list the permission rules and their sources: /permissions [WORDS]",
    "mcp": "show the MCP servers; /mcp login NAME, /mcp reconnect NAME, /mcp disable NAME",
    "sandbox": "show what commands can do without approval",
    "init": "let the model look at this project and write CLAUDE.md",
    "memory": "edit the instructions for the model (CLAUDE.md)",
    "agents": "list the kinds of subagents",
    "hooks": "list the hooks",
    "config": "change theme, keys and notifications: /config [KEY VALUE]",
    "theme": "change the colours: /theme [NAME]",
    "vim": "switch between vim keys and the usual ones",
    "status": "show version, session, model, server and settings",
    "statusline": "show or set the command of the status line: /statusline [COMMAND|off]",
    "export": "write the conversation to a file: /export [FILE]",
    "todos": "show the todo list",
    "tasks": "list what runs in the background, show its output, stop it: /tasks [stop] [ID]",
    "skills": "list the skills",
    "trust": "use the settings, agents and commands of this folder; /trust no: ignore them",
    "rename": "set the title of the session: /rename TITLE",
    "exit": "exit (also Ctrl-D)",
}
"""The commands of the terminal, with their descriptions."""
HEADLESS_COMMANDS = (
    "agents", "compact", "context", "cost", "hooks", "init", "mcp", "permissions", "sandbox", "skills", "status",
    "todos",
)  # fmt: skip
"""The commands that need no terminal."""
_COMMAND = re.compile(r"/([\w:.-]+)(?:\s|\Z)")
_LOCAL_COMMANDS: dict[str, Callable[[OpenedChat], str]] = {
    "cost": lambda opened: status_text.cost_text(opened.chat),
    "context": lambda opened: status_text.context_text(opened.chat),
    "todos": lambda opened: status_text.todos_text(opened.chat),
    "permissions": status_text.permissions_text,
    "mcp": lambda opened: status_text.servers_text(opened.chat),
    "sandbox": status_text.sandbox_text,
    "skills": lambda opened: skills_text(opened.skills),
    "agents": overview.agents_text,
    "hooks": overview.hooks_text,
    "status": overview.status_text,
}
"""The commands that only print something, with what they print."""

_INIT_PROMPT = """\
Look at this project and write a file CLAUDE.md in its root folder. Agents like you read it at the start of each
session.

Read first: README, the manifests and configuration of build and tests, continuous integration, the
most important modules, an existing CLAUDE.md, and rules for other agents (AGENTS.md, .cursorrules, .cursor/rules,
.github/copilot-instructions.md). If there is a CLAUDE.md already, improve it instead of replacing it.

Put into it, in at most 100 lines:
1. The commands that are needed most: build, lint, all tests, a single test, run.
2. How the code is organized, as far as it takes several files to understand it.
3. Conventions and traps that the code alone does not show.

Write only what you have seen in the files. No general advice, no list of all files, nothing that anybody would do
anyway.
$ARGUMENTS"""
_SETTINGS = {"user": "userSettings", "project": "projectSettings"}
"""What Claude Code calls the sources of commands."""
_BUILT_IN = {"init": CustomCommand("init", "built in", Path("init.md"), _INIT_PROMPT)}
"""Commands of ours that are expanded and sent as a prompt; one of the user with the same name goes before."""


def command_name(text: str) -> str:
    """Return the name of the command that a text begins with; empty if it is none."""
    found = _COMMAND.match(text)
    return found[1] if found else ""


def command_arguments(text: str) -> str:
    """Return what follows the name of a command."""
    return text.partition(" ")[2].strip()


def headless_commands(opened: OpenedChat) -> dict[str, str]:
    """Return the commands that need no terminal, with their descriptions."""
    return {**{name: TERMINAL_COMMANDS[name] for name in HEADLESS_COMMANDS}, **custom_commands(opened)}


def custom_commands(opened: OpenedChat) -> dict[str, str]:
    """Return the commands from `.claude/commands` and the prompts of MCP servers, with their descriptions."""
    prompts = opened.chat.services.mcp.prompts()
    return {
        **{name: f"{command.description} ({command.source})" for name, command in opened.custom_commands.items()},
        **{name: f"{prompt.description} (MCP)" for name, prompt in prompts.items()},
    }


def is_unknown_command(text: str, known: Iterable[str]) -> bool:
    """Return whether a text looks like a command that does not exist, and is not a path either."""
    name = command_name(text)
    return bool(name) and name not in known and not Path(f"/{name}").exists()


def run_local_command(opened: OpenedChat, text: str) -> str | None:
    """Run a command that only prints something and return its output; None if the text is no such command."""
    name = command_name(text)
    if name not in _LOCAL_COMMANDS:
        return None
    arguments = command_arguments(text)
    is_narrowed = name == "permissions"
    output = status_text.permissions_text(opened, arguments) if is_narrowed else _LOCAL_COMMANDS[name](opened)
    opened.chat.local_command(name, arguments, output)
    return output


async def run_turn(opened: OpenedChat, prompt: str | list[Json], emit: Emit) -> None:
    """Run a command of ours, a custom command, or a turn with the model, and emit its events."""
    try:
        await _run_prompt(opened, prompt, emit)
    finally:
        # Also after an interrupt or a failure: the rules of a command or a skill must not outlive its turn.
        opened.permissions.end_temporary_rules()


async def _run_prompt(opened: OpenedChat, prompt: str | list[Json], emit: Emit) -> None:
    if not isinstance(prompt, str):
        await opened.chat.turn(prompt, emit)
    elif (output := run_local_command(opened, prompt)) is not None:
        emit(_empty_turn(output))
    elif command_name(prompt) == "compact":
        await opened.chat.compact(emit, command_arguments(prompt))
        emit(_empty_turn(""))
    elif (command := {**_BUILT_IN, **opened.custom_commands}.get(command_name(prompt))) is not None:
        await _run_custom_command(opened, command, command_arguments(prompt), emit)
    elif (name := command_name(prompt)) in opened.chat.services.mcp.prompts():
        expansion = await _expand_server_prompt(opened, name, command_arguments(prompt))
        typed = TypedCommand(name, command_arguments(prompt), "mcp")
        await opened.chat.turn(_format_command_line(name, typed.arguments), emit, expansion, typed)
    else:
        mentioned = [*await _read_mentioned_files(opened, prompt), *await _read_mentioned_resources(opened, prompt)]
        await opened.chat.turn(prompt, emit, mentioned or None)


async def _run_custom_command(opened: OpenedChat, command: CustomCommand, arguments: str, emit: Emit) -> None:
    chat, model = opened.chat, opened.chat.model
    try:
        if command.model and command.model != "inherit":
            chat.set_model(resolve_model(command.model))
        text = await _calls(opened).expand(command, arguments)
        typed = TypedCommand(command.name, arguments, _SETTINGS.get(command.source, command.source))
        await chat.turn(_format_command_line(command.name, arguments), emit, [{"type": "text", "text": text}], typed)
    finally:
        if chat.model != model:
            chat.set_model(model)


async def _read_mentioned_files(opened: OpenedChat, prompt: str) -> list[Json]:
    """Return the files that a prompt names, in the words of a `Read` call."""
    blocks: list[Json] = []
    context = opened.chat.context
    for name in find_mentions(prompt):
        path = context.cwd / name
        input = {"file_path": str(path)}
        if path.is_file() and opened.permissions.judge("Read", input, context).behaviour == "allow":
            called = f"Called the Read tool with the following input: {msgspec.json.encode(input).decode()}"
            if find_picture(str(path), context.cwd) is not None and (picture := _read_picture(path)) is not None:
                blocks += [{"type": "text", "text": f"<system-reminder>\n{called}\n</system-reminder>"}, picture]
                continue
            content = await _calls(opened).read_file(name)
            for text in (called, f"Result of calling the Read tool:\n{content}"):
                blocks.append({"type": "text", "text": f"<system-reminder>\n{text}\n</system-reminder>"})
    return blocks


async def _read_mentioned_resources(opened: OpenedChat, prompt: str) -> list[Json]:
    """Return the resources of MCP servers that a prompt names: `@server:uri`."""
    servers, blocks = opened.chat.services.mcp, list[Json]()
    if not servers or "@" not in prompt:
        return blocks
    from unspool.client.mcp.resource_tools import read_resource

    known = {f"{server}:{resource.uri}": (server, resource.uri) for server, resource in servers.resources()}
    for server, uri in (known[name] for name in find_mentions(prompt) if name in known):
        context = opened.chat.context
        input = {"server": server, "uri": uri}
        if opened.permissions.judge("ReadMcpResourceTool", input, context).behaviour != "allow":
            continue
        try:
            text, _ = await read_resource(servers, server, uri, context)
        except ToolFailed as failed:
            text = f"(it could not be read: {failed})"
        element = f"<mcp-resource server={_quote(server)} uri={_quote(uri)}>\n{text}\n</mcp-resource>"
        blocks.append({"type": "text", "text": f"<system-reminder>\n{element}\n</system-reminder>"})
    return blocks


async def _expand_server_prompt(opened: OpenedChat, name: str, arguments: str) -> list[Json]:
    """Return the texts of a prompt of an MCP server; its arguments are words, or texts in quotes."""
    from unspool.client.mcp.connection_end import ServerEnded
    from unspool.client.mcp.results import bound_text, prompt_texts

    servers, words = opened.chat.services.mcp, split_words(arguments)
    prompt = servers.prompts()[name]
    missing = [argument for argument in prompt.required if argument not in prompt.arguments[: len(words)]]
    if missing:
        hint = f"type `/{name} {' '.join(map(str.upper, prompt.arguments))}`"
        raise UsageError(f"`/{name}` needs `{missing[0]}`", hint=hint)
    try:
        messages = await servers.get_prompt(name, words)
    except ServerEnded as error:
        raise Refused(str(error)) from None
    texts = prompt_texts(messages)
    if not texts:
        raise Refused(f"the MCP server returned no text for `/{name}`")
    environment = opened.chat.context.environment
    return [{"type": "text", "text": bound_text(text, environment)} for text in texts]


def _quote(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _format_command_line(name: str, arguments: str) -> str:
    """Return the text that Claude Code writes to the session when a command was typed."""
    tags = f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>"
    return f"{tags}\n<command-args>{arguments}</command-args>" if arguments else tags


def _calls(opened: OpenedChat) -> CommandCalls:
    return CommandCalls(opened.chat, opened.permissions, opened.chat.context)


def _read_picture(path: Path) -> Json | None:
    """Return a picture as a block; None if it is none that can be sent."""
    from unspool.client.tools.content.media import make_image_block

    try:
        return make_image_block(read_start(path, _MAX_PICTURE_BYTES)).block
    except (InvalidToolCall, UnspoolError):
        return None


def skills_text(skills: Mapping[str, CustomCommand]) -> str:
    """Return the list of skills: who can use each, and what it is for."""
    if not skills:
        return "There are no skills. Put one into `skills/NAME/SKILL.md` of the config folder or of `.claude`."
    lines = []
    for skill in skills.values():
        who = "" if skill.for_model and skill.for_user else (" (only you)" if skill.for_user else " (only the model)")
        lines.append(f"{skill.name} ({skill.source}){who}: {' '.join(skill.description.split())}")
    return "\n".join(lines)


def _empty_turn(text: str) -> events.TurnEnded:
    """Return the end of a turn in which the model was not asked."""
    empty = {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0}
    return events.TurnEnded(
        ending="end_turn", text=text, steps=0, usage=empty, models={}, cost_micros=0, duration_ms=0, api_ms=0
    )
