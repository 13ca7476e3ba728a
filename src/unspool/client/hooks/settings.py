"""Reads the hooks of Claude Code's settings: `{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [...]}]}}`.

Rules
  1. Hooks of all settings files run. Those of a folder run only if it is trusted: its files are not read otherwise.
  2. What is wrong with a hook is reported. Where it could have denied a call, it denies: a guard that was misspelt must
     not be missing in silence.
  3. A hook is a command, an HTTP request, a call of a tool of an MCP server, or a question to a model or an agent. The
     last two are possible only for events that Claude Code asks models about; `SessionStart` hooks are commands, as
     there.
  4. `disableAllHooks` acts in the user's own file. In that of a folder it switches off the folder's own hooks only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unspool.client.hooks.command_hook import CommandHook
from unspool.client.hooks.event_names import EVENTS, GUARD_EVENTS, JUDGED_EVENTS, why_absent
from unspool.client.hooks.registry import Hook, HookTiming, RegisteredHook, UnsupportedHook
from unspool.client.tool_result import Json

if TYPE_CHECKING:
    from unspool.client.hooks.condition import CallCondition
    from unspool.client.hooks.server_tool_hook import CallServerTool
    from unspool.client.protocols import Model

_MAX_NAME = 80
DEFAULT_TIMEOUT = 600.0
"""In seconds, as Claude Code 2.1.325 has it for commands."""
PROMPT_TIMEOUT = 30.0
"""In seconds, of the answer of a model, as Claude Code 2.1.327 has it."""
AGENT_TIMEOUT = 60.0
"""In seconds, of an agent, as Claude Code 2.1.327 has it."""


class HookSource(NamedTuple):
    """The settings of one file."""

    name: str
    """user, project, local, or flag."""
    document: Json


class HookServices(NamedTuple):
    """What hooks need to run."""

    environment: Mapping[str, str]
    root: Path
    model: Model | None = None
    """What answers the questions of hooks; None: nothing does."""
    model_name: str = ""
    """The model that is asked where neither the hook nor the environment names one."""
    interactive: bool = False
    """Whether a user is at a terminal."""
    call_server_tool: CallServerTool | None = None
    """Calls a tool of an MCP server; None: there are no servers."""


class LoadedHooks(NamedTuple):
    """The hooks of settings, and what is wrong with some."""

    hooks: tuple[RegisteredHook, ...] = ()
    problems: tuple[str, ...] = ()


def load_hooks(sources: Iterable[HookSource], services: HookServices) -> LoadedHooks:
    """Return the hooks of settings files."""
    listed = [*sources]
    if any(source.name in ("user", "flag") and source.document.get("disableAllHooks") is True for source in listed):
        return LoadedHooks()
    off = {source.name for source in listed if source.document.get("disableAllHooks") is True}
    hooks: list[RegisteredHook] = []
    problems: list[str] = []
    reader = _HookReader(services, _collect_limits(listed))
    for source in listed:
        if off and source.name in ("project", "local"):
            continue
        hooks += _parse_hooks(source, problems, reader)
    return LoadedHooks(tuple(hooks), tuple(problems))


def _parse_hooks(source: HookSource, problems: list[str], reader: _HookReader) -> Iterator[RegisteredHook]:
    value = source.document.get("hooks")
    if value is None:
        return
    if not isinstance(value, dict):
        problems.append(f"`hooks` of the {source.name} settings is not an object")
        return
    for event, groups in value.items():
        if event not in EVENTS:
            problems.append(f"hooks for `{event[:40]}` of the {source.name} settings do not act: {why_absent(event)}")
            continue
        for group in groups if isinstance(groups, list) else [groups]:
            matcher, members = _parse_group(group)
            for member in members:
                hook, problem = reader.parse(event, member)
                if problem is not None:
                    is_guard = event in GUARD_EVENTS and isinstance(hook, UnsupportedHook)
                    denies = ": it denies the calls that it matches" if is_guard else ""
                    problems.append(f"a `{event}` hook of the {source.name} settings: {problem}{denies}")
                fields = member if isinstance(member, dict) else {}
                condition = _parse_condition(event, fields.get("if"), source, reader.services, problems)
                on_failure = fields.get("onFailure")
                on_failure = on_failure if isinstance(on_failure, str) else None
                timing = reader.choose_timing(fields, hook)
                if timing != "waited" and event in GUARD_EVENTS:
                    words = (
                        f"a `{event}` hook of the {source.name} settings cannot deny: it is not waited for (`async`)"
                    )
                    problems.append(words)
                yield RegisteredHook(event, hook, matcher, on_failure, condition, timing, is_observed=True)


def _parse_condition(
    event: str, value: object, source: HookSource, services: HookServices, problems: list[str]
) -> CallCondition | None:
    if not value:
        return None  # start-up: most hooks have none
    from unspool.client.hooks.condition import parse_condition

    condition, problem = parse_condition(event, value, services.root, services.environment)
    if problem is not None:
        problems.append(f"a `{event}` hook of the {source.name} settings: {problem}")
    return condition


def _parse_group(group: Any) -> tuple[str, list[Any]]:
    """Return the matcher and the hooks of a group; one that is none has itself as a hook that cannot be called."""
    if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
        return "", [group]
    matcher = group.get("matcher")
    # A matcher that is no text matches everything: the hook may be meant to deny.
    return matcher if isinstance(matcher, str) else "", group["hooks"]


class HttpLimits(NamedTuple):
    """What settings say of all hooks that are HTTP requests."""

    urls: tuple[str, ...] | None = None
    """The patterns of the addresses that may be asked (`allowedHttpHookUrls`); None: all."""
    variables: frozenset[str] | None = None
    """The variables that headers may name (`httpHookAllowedEnvVars`); None: those that the hook lists."""


def _collect_limits(sources: Iterable[HookSource]) -> HttpLimits:
    """Return the limits of all settings together; a list that is none allows nothing."""
    urls, variables = HttpLimits(), HttpLimits()
    for source in sources:
        if (listed := source.document.get("allowedHttpHookUrls")) is not None:
            urls = HttpLimits((*(urls.urls or ()), *_texts(listed)))
        if (listed := source.document.get("httpHookAllowedEnvVars")) is not None:
            variables = HttpLimits(variables=frozenset((*(variables.variables or ()), *_texts(listed))))
    return HttpLimits(urls.urls, variables.variables)


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


class _HookReader(NamedTuple):
    """Makes hooks of what settings say."""

    services: HookServices
    limits: HttpLimits

    def parse(self, event: str, member: Any) -> tuple[Hook, str | None]:
        """Return a hook, and what is wrong with it."""
        made = self._make_hook(event, member)
        return (UnsupportedHook("hook", made), made) if isinstance(made, str) else (made, None)

    def choose_timing(self, member: Mapping[Any, Any], hook: Hook) -> HookTiming:
        """Return when the answer of a hook counts: only commands can run beside the turn, as in Claude Code."""
        if not isinstance(hook, CommandHook):
            return "waited"
        # Without a user at a terminal nobody can be woken: Claude Code 2.1.327 waits for such a hook with `-p`.
        if member.get("asyncRewake") is True:
            return "wakes" if self.services.interactive else "waited"
        return "beside" if member.get("async") is True else "waited"

    def _make_hook(self, event: str, member: Any) -> Hook | str:
        """Return a hook, or in words why it cannot be called."""
        services = self.services
        match member:
            case {"type": "command", "command": str(command), **rest} if command.strip():
                arguments, seconds = rest.get("args"), _parse_timeout(rest.get("timeout"), DEFAULT_TIMEOUT)
                if arguments is not None and len(_texts(arguments)) != len(
                    arguments if isinstance(arguments, list) else "?"
                ):
                    return "its `args` are not a list of texts"
                listed = None if arguments is None else _texts(arguments)
                return CommandHook(command, seconds, services.environment, services.root, listed)
            case {"type": "http", "url": str(url), **rest} if url.strip():
                return self._make_http(event, url.strip(), rest)
            case {"type": "prompt", "prompt": str(prompt), **rest} if prompt.strip():
                return self._make_prompt(event, prompt, rest)
            case {"type": "agent", "prompt": str(prompt), **rest} if prompt.strip():
                return self._make_agent(event, prompt, rest)
            case {"type": "mcp_tool", "server": str(server), "tool": str(tool), **rest} if server and tool:
                return self._make_server_tool(event, server, tool, rest)
            case {"type": "command" | "http" | "prompt" | "agent" | "mcp_tool" as kind}:
                missing = {"http": "url", "agent": "prompt", "mcp_tool": "server or no tool"}
                return f"it has no {missing.get(kind, kind)}"
            case {"type": str(kind)}:
                return f"hooks of the type `{kind[:40]}` are not supported"
            case _:
                return "it has no command"

    def _make_http(self, event: str, url: str, rest: Mapping[Any, Any]) -> Hook | str:
        if event == "SessionStart":
            return "a hook for the start of a session has to be a command"
        headers, listed = rest.get("headers") or {}, rest.get("allowedEnvVars") or []
        if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
            return "its `headers` are not texts"
        if not isinstance(listed, list):
            return "its `allowedEnvVars` are not a list"
        from unspool.client.hooks.http_hook import HttpHook

        names = frozenset(_texts(listed))
        allowed = names if self.limits.variables is None else names & self.limits.variables
        seconds = _parse_timeout(rest.get("timeout"), DEFAULT_TIMEOUT)
        return HttpHook(
            url, seconds, headers, self.services.environment, variables=allowed, allowed_urls=self.limits.urls
        )

    def _make_server_tool(self, event: str, server: str, tool: str, rest: Mapping[Any, Any]) -> Hook | str:
        if event == "SessionStart":
            return "a hook for the start of a session has to be a command"
        input = rest.get("input")
        if input is not None and not isinstance(input, dict):
            return "its `input` is not an object"
        if self.services.call_server_tool is None:
            return f"there is no MCP server `{server[:_MAX_NAME]}`"
        from unspool.client.hooks.server_tool_hook import ServerToolHook

        seconds = _parse_timeout(rest.get("timeout"), DEFAULT_TIMEOUT)
        return ServerToolHook(server, tool, input or {}, seconds, self.services.call_server_tool)

    def _make_agent(self, event: str, prompt: str, rest: Mapping[Any, Any]) -> Hook | str:
        if event not in JUDGED_EVENTS:
            return f"hooks of the type `agent` are not possible for `{event}`"
        from unspool.client.hooks.agent_hook import AgentHook
        from unspool.client.hooks.prompt_hook import choose_model

        model_name = choose_model(rest.get("model"), self.services.environment, self.services.model_name)
        return AgentHook(prompt, _parse_timeout(rest.get("timeout"), AGENT_TIMEOUT), model_name)

    def _make_prompt(self, event: str, prompt: str, rest: Mapping[Any, Any]) -> Hook | str:
        if event not in JUDGED_EVENTS:
            return f"hooks of the type `prompt` are not possible for `{event}`"
        if self.services.model is None:
            return "there is no model to ask"
        from unspool.client.hooks.prompt_hook import PromptHook, choose_model

        named = rest.get("model")
        model_name = choose_model(named, self.services.environment, self.services.model_name)
        seconds = _parse_timeout(rest.get("timeout"), PROMPT_TIMEOUT)
        keeps_turn = rest.get("continueOnBlock") is True
        return PromptHook(prompt, seconds, self.services.model, model_name, keeps_turn=keeps_turn)


def _parse_timeout(value: Any, usual: float) -> float:
    # In Python `True` is an integer; in JSON it is none.
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return float(value) if is_number else usual
