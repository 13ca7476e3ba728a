"""`unspool chat`: parses the flags of a chat and starts it in a terminal or headless.

Rules
  1. Nothing that only a terminal needs is imported without one.
  2. Flags have the names and the meaning that they have in Claude Code, so that scripts and SDKs work with both.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from unspool.cli import options
from unspool.cli.main import print_error
from unspool.display import clean, clean_line
from unspool.errors import UsageError
from unspool.paths import config_folder

if TYPE_CHECKING:
    from unspool.client import ChatOptions, ChatSettings, Model, SessionStart

MODES = ("default", "acceptEdits", "plan", "bypassPermissions", "dontAsk")
_SOURCES = ("user", "project", "local")
_SETTINGS_KEYS = frozenset(
    {"permissions", "model", "env", "hooks", "disableAllHooks", "sandbox", "sandbox.enabled",
     "sandbox.autoAllowBashIfSandboxed", "outputStyle", "enabledPlugins", "enabledMcpjsonServers",
     "disabledMcpjsonServers", "enableAllProjectMcpServers"}
)  # fmt: skip
"""The keys of settings that act in a chat; others of a settings file are Claude Code's."""
_LISTS = ("--allowedTools", "--allowed-tools", "--disallowedTools", "--disallowed-tools")


class Variadic(click.Command):
    """A command whose list options take several words, as Claude Code's do: `--allowedTools Read Edit`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat a list option before each further word of its list."""
        from unspool.format.tools import INPUT_TYPES

        repeated: list[str] = []
        for place, word in enumerate(args):
            option = next((args[at] for at in range(place - 1, -1, -1) if args[at].startswith("-")), "")
            # Any other word is the prompt: `--allowedTools Read Edit "fix the test"`.
            is_rule = word.partition("(")[0] in INPUT_TYPES or word.startswith("mcp__")
            is_config = option == "--mcp-config" and (word.lstrip().startswith("{") or word.endswith(".json"))
            if ((option in _LISTS and is_rule) or is_config) and args[place - 1] != option:
                repeated.append(option)
            repeated.append(word)
        return super().parse_args(ctx, repeated)


_REFUSED = {
    "--task-budget": "task budgets are not supported",
    "--thinking-display": "thinking is always shown in full",
    "--resume-drops-turn": "use `--resume-session-at`",
}
_REFUSED_FLAGS = {
    "--session-mirror": "session stores are not supported",
}
"""Options of Claude Code that programs pass, with why they are refused."""


def _refuse(ctx: click.Context, option: click.Parameter, value: object) -> None:
    if value:
        name = option.opts[0]
        raise UsageError(f"`{name}` is not supported", hint={**_REFUSED, **_REFUSED_FLAGS}[name])


def refused_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that are refused by name: without them the parser would only say that there is no such option."""
    for name in (*_REFUSED, *_REFUSED_FLAGS):
        is_flag = name in _REFUSED_FLAGS
        command = click.option(
            name, hidden=True, expose_value=False, callback=_refuse, is_flag=is_flag, multiple=not is_flag
        )(command)
    return command


@click.command(cls=Variadic)
@click.argument("prompt", required=False)
@click.option("-p", "--print", "headless", is_flag=True, help="Print the answer and exit; needs no terminal")
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "stream-json"]),
    default="text",
    help="With -p: output format",
)
@click.option(
    "--input-format", type=click.Choice(["text", "stream-json"]), default="text", help="With -p: input format on stdin"
)
@click.option(
    "--include-partial-messages", "partial", is_flag=True, help="With stream-json: also write partial messages"
)
@click.option(
    "--include-hook-events", "hook_events", is_flag=True, help="With stream-json: also write the calls of all hooks"
)
@click.option(
    "--replay-user-messages", "replay", is_flag=True, help="With stream-json: repeat the user messages from stdin"
)
@click.option("--verbose", is_flag=True, help="Accepted for compatibility with Claude Code; no effect")
@click.option("-c", "--continue", "continue_newest", is_flag=True, help="Resume the newest session of this folder")
@click.option(
    "-r",
    "--resume",
    is_flag=False,
    flag_value="",
    metavar="[SESSION]",
    help="Resume a session: an id, a title or a file; without a value, choose from a list",
)
@click.option("--fork-session", "fork", is_flag=True, help="Resume a copy; the original stays unchanged")
@click.option("--resume-session-at", "leaf", metavar="UUID", help="Resume from the line with this uuid")
@click.option("--force", is_flag=True, help="Resume even if another process seems to use the session")
@click.option("--session-id", metavar="UUID", help="Id of the new session")
@click.option("--model", metavar="NAME", help="Model name, or opus, sonnet, haiku; script:FILE for a scripted model")
@click.option(
    "--endpoint",
    metavar="SERVER",
    help="Where the model runs: ollama, vllm, litellm, llama.cpp, openrouter, openai or a URL",
)
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Value of `${NAME}` in a script")
@click.option(
    "--allowedTools",
    "--allowed-tools",
    "allowed",
    multiple=True,
    metavar="RULES",
    help="Permission rules to allow without asking",
)
@click.option(
    "--disallowedTools",
    "--disallowed-tools",
    "disallowed",
    multiple=True,
    metavar="RULES",
    help="Permission rules to deny",
)
@click.option("--tools", metavar="NAMES", help="Tools to offer the model. Default: all")
@click.option("--permission-mode", type=click.Choice(MODES), help="What to do without asking")
@click.option(
    "--dangerously-skip-permissions", "skips", is_flag=True, help="Same as `--permission-mode bypassPermissions`"
)
@click.option(
    "--permission-prompt-tool", "asks", metavar="stdio", help="With stream-json: send permission requests to the client"
)
@click.option("--max-turns", type=click.IntRange(1), metavar="N", help="Maximum number of requests per turn")
@click.option(
    "--max-cost",
    "--max-budget-usd",
    type=options.FiniteRange(0),
    metavar="USD",
    help="Maximum cost per turn, in US dollars",
)
@click.option("--max-tokens", type=click.IntRange(1), metavar="N", help="Maximum number of tokens per turn")
@click.option("--max-seconds", type=options.FiniteRange(0), metavar="S", help="Maximum duration of a turn, in seconds")
@click.option(
    "--context-window",
    type=click.IntRange(1000),
    metavar="N",
    help="Context window in tokens. Default: that of the model",
)
@click.option(
    "--max-thinking-tokens",
    "thinking",
    type=click.IntRange(0),
    metavar="N",
    help="Token budget for thinking; 0 turns it off",
)
@click.option("--system-prompt", metavar="TEXT", help="Replace the system prompt")
@click.option("--append-system-prompt", metavar="TEXT", help="Append to the system prompt")
@click.option("--system-prompt-file", metavar="FILE", help="Replace the system prompt by the text of a file")
@click.option("--append-system-prompt-file", metavar="FILE", help="Append the text of a file to the system prompt")
@click.option("--settings", "given_settings", metavar="FILE|JSON", help="More settings: a file or a JSON object")
@click.option(
    "--setting-sources",
    metavar="NAMES",
    help="Settings files to use: user, project, local; empty for none. Default: all",
)
@click.option("--agents", "given_agents", metavar="JSON", help="More agents, as a JSON object by name")
@click.option(
    "--effort",
    type=click.Choice(["low", "medium", "high", "xhigh", "max"]),
    help="How hard the model works on an answer",
)
@click.option("--thinking", "thinking_mode", type=click.Choice(["adaptive", "enabled", "disabled"]), help="Thinking")
@click.option("--fallback-model", metavar="NAME", help="Model to continue with if the first one is overloaded")
@click.option("--betas", metavar="NAMES", help="Beta features of the API to ask for")
@click.option("--json-schema", metavar="JSON", help="With -p: JSON Schema of the answer (`structured_output`)")
@click.option(
    "--mcp-config", "mcp_configs", multiple=True, metavar="FILE|JSON", help="MCP servers: a file or JSON; repeatable"
)
@click.option("--strict-mcp-config", "strict_mcp", is_flag=True, help="Use only the servers of --mcp-config")
@refused_options
@click.option("--add-dir", "added", multiple=True, metavar="DIR", help="Additional folder to work in; repeatable")
@click.option(
    "--plugin-dir", "plugin_folders", multiple=True, metavar="DIR", help="Folder of a plugin to use; repeatable"
)
@click.option("--trust", is_flag=True, help="Trust this folder: use its settings, agents and commands")
@click.option(
    "--sandbox",
    type=click.Choice(["on", "off", "require"]),
    help="Which commands run in a sandbox: those without approval (on), none (off) or all (require)",
)
@click.option("--probe", is_flag=True, help="Print what the endpoint supports, and exit")
@click.option(
    "--explain", metavar="CALL", help="Print the permission decision for a call like `Bash(git push)`, and exit"
)
@options.one_folder_option
def chat(**flags: Any) -> None:
    """Chat with a model in a session that Claude Code can resume.

    Without -p, the chat runs in this terminal and starts with PROMPT. With -p, piped input comes before PROMPT. It can
    also resume sessions of Claude Code.

    \b
    $ unspool chat
    $ unspool chat -p "What does this project do?"
    $ git diff | unspool chat -p "Review this." --output-format json
    $ unspool chat --continue

    Set the key in ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, and another endpoint in ANTHROPIC_BASE_URL. `--endpoint`
    names other servers; each has its own key. Exit codes: 0 done, 1 a limit was reached, 2 usage or no key, 3 session
    not found, 4 not writable, 5 refused, 6 API error, 130 interrupted.
    """
    import asyncio  # start-up: it costs five times what Python itself does, also for `--help`

    ctx = click.get_current_context()
    ctx.exit(asyncio.run(_run(flags)))


async def _run(flags: dict[str, Any]) -> int:
    from unspool.client import ChatRuntime, start
    from unspool.client.ui import DEFAULT_MODEL, open_chat, resolve_model

    values = options.parse_assignments(flags["assignments"])
    chat_options = _parse_options(flags)
    environment = open_chat.load_environment(chat_options.config, os.environ, chat_options.settings)
    if flags["explain"]:  # before a model is opened: it needs neither a key nor a connection
        context = open_chat.FolderContext(chat_options.config, chat_options.cwd, environment)
        click.echo(clean(open_chat.explain_call(flags["explain"], chat_options.settings, context)))
        return 0
    opening = start.open_model(flags["model"] or "", environment, values, flags["endpoint"], quick=flags["probe"])
    async with opening as model:
        if flags["endpoint"]:
            chat_options = await start.choose_model(chat_options, model)
            environment = start.without_key(environment, model)
        runtime = ChatRuntime(model, chat_options.config, chat_options.cwd, environment)
        if flags["probe"]:
            return await _probe(model, resolve_model(chat_options.settings.model or DEFAULT_MODEL))
        if _is_headless(flags):
            return await start.run_headless(chat_options, runtime, print_error)
        return await start.run_in_terminal(chat_options, runtime)


async def _probe(model: Model, name: str) -> int:
    from unspool.client.ui import endpoint_probe

    for line in endpoint_probe.describe_endpoint(model, name):
        click.echo(clean_line(line))
    findings = []
    async for finding in endpoint_probe.probe_endpoint(model, name):
        click.echo(f"{finding.feature:<32}{clean_line(finding.outcome)}")
        findings.append(finding)
    for line in await endpoint_probe.find_advice(model, name, findings):
        click.echo(clean_line(line))
    return 0 if findings[0].works else 6


def _parse_options(flags: dict[str, Any]) -> ChatOptions:
    from unspool.client import ChatOptions

    streams_in = flags["input_format"] == "stream-json"
    if streams_in and flags["output_format"] != "stream-json":
        raise UsageError("--input-format stream-json needs --output-format stream-json")
    if flags["asks"] not in (None, "stdio"):
        raise UsageError(
            f"unknown permission prompt tool `{flags['asks']}`", hint="use `--permission-prompt-tool stdio`"
        )
    config, cwd = config_folder(flags["config_dir"], os.environ), Path.cwd()
    options.refuse_other_agents(config)
    return ChatOptions(
        start=_parse_start(flags, config, cwd),
        settings=_parse_settings(flags),
        config=config,
        cwd=cwd,
        prompt=_read_prompt(flags, streams_in=streams_in),
        output=flags["output_format"],
        streams_in=streams_in,
        partial=flags["partial"],
        hook_events=flags["hook_events"],
        replay=flags["replay"],
        asks=flags["asks"] is not None,
        agents=_parse_object(flags["given_agents"], "--agents"),
    )


def _parse_settings(flags: dict[str, Any]) -> ChatSettings:
    from unspool.client import ChatSettings
    from unspool.permissions import split_rules

    added = tuple(Path(name).expanduser() for name in flags["added"])
    for folder in added:
        if not folder.is_dir():
            raise UsageError(f"folder not found: `{folder}`", hint="pass an existing folder to `--add-dir`")
    cost = flags["max_cost"]
    return ChatSettings(
        model=_model_name(flags["model"], is_own_server=flags["endpoint"] is not None),
        mode="bypassPermissions" if flags["skips"] else flags["permission_mode"],
        max_steps=flags["max_turns"],
        max_total_tokens=flags["max_tokens"],
        max_cost_micros=None if cost is None else round(cost * 1_000_000),
        max_seconds=flags["max_seconds"],
        system_prompt=_prompt_text(flags, "system_prompt"),
        append_system_prompt=_prompt_text(flags, "append_system_prompt"),
        allowed=tuple(rule for rules in flags["allowed"] for rule in split_rules(rules)),
        disallowed=tuple(rule for rules in flags["disallowed"] for rule in split_rules(rules)),
        added=tuple(folder.resolve() for folder in added),
        window=flags["context_window"],
        thinking=0 if flags["thinking_mode"] == "disabled" else flags["thinking"],
        effort=flags["effort"],
        betas=_parse_names(flags["betas"]),
        fallback_model=flags["fallback_model"],
        output_schema=_parse_object(flags["json_schema"], "--json-schema"),
        setting_sources=_parse_sources(flags["setting_sources"]),
        plugin_folders=tuple(Path(name).expanduser().absolute() for name in flags["plugin_folders"]),
        given_settings=_read_settings(flags["given_settings"]),
        trusted=flags["trust"],
        sandbox=flags["sandbox"],
        tools=_parse_tool_names(flags["tools"]),
        mcp_configs=flags["mcp_configs"],
        strict_mcp=flags["strict_mcp"],
        interactive=not _is_headless(flags),
    )


def _prompt_text(flags: dict[str, Any], name: str) -> str | None:
    """Return a prompt that is given as text or as a file."""
    file: str | None = flags[f"{name}_file"]
    if file is None:
        return cast("str | None", flags[name])
    if flags[name] is not None:
        option = "--" + name.replace("_", "-")
        raise UsageError(f"{option} and {option}-file cannot be used together")
    return _read_text(file)


def _read_text(name: str) -> str:
    try:
        return Path(name).expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError, RuntimeError) as error:
        raise UsageError(f"cannot read `{name}`: {str(error).lower()}") from None


def _parse_object(text: str | None, option: str) -> dict[str, Any] | None:
    """Return the JSON object that an option gives."""
    if text is None:
        return None
    import msgspec

    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise UsageError(f"{option} is not a JSON object", hint=f'write `{option} \'{{"name": "value"}}\'`') from None


def _parse_names(text: str | None) -> tuple[str, ...]:
    return tuple(name for name in (text or "").replace(",", " ").split() if name)


def _parse_sources(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = _parse_names(text)
    for name in names:
        if name not in _SOURCES:
            raise UsageError(f"unknown settings source `{name}`", hint=f"use one of: {', '.join(_SOURCES)}")
    return names


def _read_settings(given: str | None) -> bytes | None:
    """Return the settings that the command line gives, as JSON; what would not act is refused by name."""
    if given is None:
        return None
    text = given if given.strip().startswith("{") else _read_text(given)
    settings = _parse_object(text, "--settings") or {}
    sandbox = settings.get("sandbox")
    inner = sandbox if isinstance(sandbox, dict) else {}
    keys = [*settings, *(f"sandbox.{key}" for key in inner)]
    for key in keys:
        if key not in _SETTINGS_KEYS:
            raise UsageError(
                f"`{key}` in --settings is not supported", hint=f"use: {', '.join(sorted(_SETTINGS_KEYS))}"
            )
    if inner.get("autoAllowBashIfSandboxed") is False:
        raise UsageError("`sandbox.autoAllowBashIfSandboxed` cannot be false", hint="use `--sandbox off`")
    return text.encode()


def _model_name(flag: str | None, *, is_own_server: bool) -> str:
    """Return the model that the flag or the environment names; the environment's is for Anthropic's API only."""
    # A script answers for any model: what it is asked for stays that of the environment.
    name = flag if flag and not flag.startswith("script:") else None
    return name or ("" if is_own_server else os.environ.get("ANTHROPIC_MODEL")) or ""


def _parse_tool_names(names: str | None) -> tuple[str, ...] | None:
    if names is None or names == "default":
        return None
    return tuple(name for name in names.replace(",", " ").split() if name)


def _parse_start(flags: dict[str, Any], config: Path, cwd: Path) -> SessionStart:
    from unspool.client import SessionStart

    resume, continue_newest = flags["resume"], flags["continue_newest"]
    if resume is not None and continue_newest:
        raise UsageError("--resume and --continue cannot be used together")
    if (flags["fork"] or flags["leaf"]) and resume is None and not continue_newest:
        raise UsageError("--fork-session needs --resume or --continue", hint="add `--resume SESSION` or `--continue`")
    if resume == "" and _is_headless(flags):
        raise UsageError(
            "--resume needs a session when stdin is not a terminal", hint="list sessions with `unspool ls`"
        )
    path: Path | None = None
    if resume or continue_newest:
        from unspool.client.ui import find_session  # start-up: it loads the reader of sessions

        if resume:
            path = find_session.find_session_file(resume, config, cwd)
            options.refuse_other_agents(path)
        else:
            path = find_session.find_newest_session(config, cwd)
    return SessionStart(
        session_id=flags["session_id"], resume=path, leaf=flags["leaf"], fork=flags["fork"], force=flags["force"]
    )


def _is_headless(flags: dict[str, Any]) -> bool:
    """Tell whether the chat runs without a user at a terminal: a flag says so, or there is no terminal."""
    is_chosen = flags["headless"] or flags["input_format"] == "stream-json" or flags["output_format"] != "text"
    return bool(is_chosen) or not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty())


def _read_prompt(flags: dict[str, Any], *, streams_in: bool) -> str | None:
    """Return the first prompt: what is piped in, followed by the argument."""
    argument: str | None = flags["prompt"]
    if flags["resume"] == "" and not _is_headless(flags):
        return "/resume"  # lists the sessions to choose from
    # With stream-json the prompts are lines of stdin, which the run reads itself.
    if streams_in or not _is_headless(flags) or flags["probe"] or flags["explain"]:
        return argument
    piped = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read().decode(errors="replace")
    prompt = "\n".join(part for part in (piped.rstrip("\n"), argument or "") if part.strip())
    if not prompt:
        raise UsageError("missing argument PROMPT", hint="pass a prompt with `unspool chat -p PROMPT`, or pipe one in")
    return prompt
