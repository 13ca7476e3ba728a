"""Opens a chat as the command line configures it: settings, permission rules, agents, commands and system prompt.

Rules
  1. Settings, agents and commands in the working folder are used only if the folder is trusted.
  2. Flags take precedence over the environment, and both over settings files.
  3. Whatever is wrong with any of it is reported, and the rest is used all the same.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from unspool.client.chat import Chat
from unspool.client.command_sandbox import CommandSandbox
from unspool.client.config import ChatRuntime, ChatSettings, SessionStart
from unspool.client.hooks.registry import HookRegistry, RegisteredHook
from unspool.client.hooks.settings import HookServices, HookSource, LoadedHooks, load_hooks
from unspool.client.loop.agent import Services
from unspool.client.loop.command_calls import CommandCalls
from unspool.client.mcp.approvals import ServerApprovals
from unspool.client.mcp.config_files import ConfigScope, McpConfiguration, McpFlags, PluginServers, find_servers
from unspool.client.mcp.servers import McpServers
from unspool.client.permissions.kept_rules import KeptRules
from unspool.client.permissions.policy import PermissionPolicy
from unspool.client.permissions.settings import SettingsSelection, load_settings, read_settings
from unspool.client.permissions.trust import TrustedFolders
from unspool.client.prompt.agent_definitions import AgentDefinition, load_agent_definitions
from unspool.client.prompt.custom_commands import CustomCommand, load_custom_commands
from unspool.client.prompt.definition_files import Definitions, Plugin
from unspool.client.prompt.instructions import MAX_TOTAL_CHARACTERS, InstructionScope
from unspool.client.prompt.output_styles import DEFAULT_STYLE, OutputStyle, choose_style, load_output_styles
from unspool.client.prompt.plugins import load_plugins, read_plugin_hooks, read_plugin_servers
from unspool.client.prompt.skills import load_skills
from unspool.client.prompt.system_prompt import SystemPrompt
from unspool.client.prompt.text.system_prompt_text import PromptEnvironment
from unspool.client.session.registration import git_branch
from unspool.client.tool import Tool
from unspool.client.tool_context import ToolContext, Workspace
from unspool.client.tool_result import Json
from unspool.client.tools.registry import built_in_tools, run_tool
from unspool.client.tools.skill import LoadSkill, SkillTool
from unspool.client.web_access import WebClient
from unspool.errors import MissingExtra, Refused, UsageError
from unspool.graph.context import context_window
from unspool.paths import data_folder
from unspool.permissions import decode_settings

if TYPE_CHECKING:
    from unspool.client.mcp.connection_end import SendControl
    from unspool.client.mcp.elicitation import FormUser
    from unspool.client.protocols import UserInterface
    from unspool.client.tools.structured_output import StructuredOutputTool


MODEL_ALIASES = {"opus": "claude-opus-5-5", "sonnet": "claude-sonnet-5-5", "haiku": "claude-haiku-5-5"}
_CALL = re.compile(r"([A-Za-z]\w*)(?:\((.*)\))?", re.DOTALL)
"""`Bash(git push)`, or a tool alone."""
DEFAULT_MODEL = "claude-opus-5-5"
_MAIN_INPUTS = {
    "Bash": "command",
    "WebFetch": "url",
    "Glob": "pattern",
    "Grep": "pattern",
    "NotebookEdit": "notebook_path",
    "WebSearch": "query",
    "Task": "subagent_type",
}
"""The field of a tool's input that a short form such as `Bash(git push)` gives; `file_path` for other tools."""


class OpenedChat(NamedTuple):
    """A chat with the permissions and custom commands that front ends need beside it."""

    chat: Chat
    permissions: PermissionPolicy
    custom_commands: dict[str, CustomCommand]
    """Commands from the user's config folder and from the working folder."""
    agents: tuple[str, ...] = ()
    """The kinds of subagents that can be started."""
    skills: dict[str, CustomCommand] = {}  # noqa: RUF012 - never changed
    plugins: tuple[Plugin, ...] = ()
    output_style: str = DEFAULT_STYLE
    output_styles: tuple[str, ...] = (DEFAULT_STYLE,)
    problems: tuple[str, ...] = ()
    """What is wrong with settings, commands, agents and instructions."""


class FolderContext(NamedTuple):
    """The part of a `ChatRuntime` that decides which permission rules apply."""

    config: Path
    cwd: Path
    environment: Mapping[str, str]


def is_trusted(settings: ChatSettings, runtime: ChatRuntime | FolderContext) -> bool:
    """Return whether the working folder is trusted, by a flag or by an earlier answer of the user."""
    return settings.trusted or trusted_folders(runtime).is_trusted(runtime.cwd)


def trusted_folders(runtime: ChatRuntime | FolderContext) -> TrustedFolders:
    """Return the list of trusted folders."""
    home = runtime.environment.get("HOME")
    return TrustedFolders(data_folder(runtime.environment), Path(home) if home else None)


def load_environment(config: Path, environment: Mapping[str, str], settings: ChatSettings) -> dict[str, str]:
    """Return the environment with the variables of the user's own settings, which take precedence."""
    # Only the user's own settings count here, whether or not the working folder is trusted.
    loaded = load_settings(config, config, trusted=False, selection=_selection(settings))
    return {**environment, **dict(loaded.environment)}


def _selection(settings: ChatSettings) -> SettingsSelection:
    return SettingsSelection(settings.setting_sources, settings.given_settings)


def _load_documents(settings: ChatSettings, runtime: ChatRuntime, *, trusted: bool) -> list[HookSource]:
    """Return the settings files that act, as JSON."""
    root = runtime.cwd.resolve()
    found, _ = read_settings(runtime.config, root, trusted=trusted, selection=_selection(settings))
    return [HookSource(file.source, decode_settings(data, file.path)) for file, data in found]


def _load_hooks(
    documents: list[HookSource],
    plugins: Sequence[Plugin],
    runtime: ChatRuntime,
    settings: ChatSettings,
    mcp: McpServers,
) -> LoadedHooks:
    sources: list[HookSource] = [*documents]
    problems: list[str] = []
    for plugin in plugins:
        hooks, wrong = read_plugin_hooks(plugin)
        sources.append(HookSource(f"plugin {plugin.name}", hooks))
        problems += wrong
    services = HookServices(
        runtime.environment,
        runtime.cwd.resolve(),
        runtime.model,
        settings.model,
        interactive=settings.interactive,
        call_server_tool=mcp.call_tool if mcp else None,
    )
    loaded = load_hooks(sources, services)
    return loaded._replace(problems=(*loaded.problems, *problems))


def explain_call(call: str, settings: ChatSettings, runtime: FolderContext) -> str:
    """Return in words what would become of a call such as `Bash(git push)` and why, part by part."""
    name, inside = _split_call(call)
    rules = load_permissions(settings, runtime, trusted=is_trusted(settings, runtime))
    context = ToolContext(
        Workspace(runtime.config, runtime.config, "", runtime.cwd.resolve(), settings.added), runtime.environment
    )
    context.mode = _apply_settings_files(settings, rules).mode or "default"
    return "\n".join(rules.explain(name, _parse_input(name, inside), context))


def _split_call(call: str) -> tuple[str, str]:
    """Return the tool of a call and what stands in its parentheses; a text of another form is a shell command."""
    found = _CALL.fullmatch(call.strip())
    return (found[1], found[2] or "") if found else ("Bash", call)


def _parse_input(tool: str, text: str) -> Json:
    """Return the tool input that a text means: a JSON object, or the value of the tool's main field."""
    if text.startswith("{"):
        try:
            return msgspec.json.decode(text, type=Json)
        except msgspec.DecodeError:
            if tool == "Bash":  # a group of commands: `{ rm x; }`
                return {"command": text}
            hint = "write a JSON object, or the target of the tool as in `Bash(git push)`"
            raise UsageError(f"invalid tool input: `{text}`", hint=hint) from None
    return {_MAIN_INPUTS.get(tool, "file_path"): text}


def resolve_model(name: str) -> str:
    """Return the full name of a model: `opus`, `sonnet` and `haiku` mean the newest of their kind."""
    base, bracket, rest = name.partition("[")
    return MODEL_ALIASES.get(base.lower(), base) + bracket + rest


def _agent_model(name: str, settings: ChatSettings) -> str:
    """Return the model of an agent; a server that is not Anthropic's has none of the short names."""
    return settings.model if settings.only_model and name.lower() in MODEL_ALIASES else resolve_model(name)


async def open_chat_from_settings(
    start: SessionStart,
    settings: ChatSettings,
    runtime: ChatRuntime,
    user: UserInterface | None,
    given_agents: Sequence[AgentDefinition] = (),
    *,
    send_control: SendControl | None = None,
    form_user: FormUser | None = None,
) -> OpenedChat:
    """Open a chat with the permissions, agents, hooks, commands and system prompt of its settings.

    `given_agents` are agents that a program defines; they go before those of files. `send_control` reaches the MCP
    servers of a program; `form_user` answers the questions of MCP servers.
    """
    root, trusted = runtime.cwd.resolve(), is_trusted(settings, runtime)
    rules = load_permissions(settings, runtime, trusted=trusted)
    settings = _apply_settings_files(settings, rules)
    documents = _load_documents(settings, runtime, trusted=trusted)
    values = [source.document for source in documents]
    plugins = load_plugins(runtime.config, values, settings.plugin_folders)
    folders = plugins.plugins
    agents = load_agent_definitions(runtime.config, root, trusted=trusted, plugins=folders)
    agents = agents._replace(by_name={**agents.by_name, **{agent.name: agent for agent in given_agents}})
    commands = load_custom_commands(runtime.config, root, trusted=trusted, plugins=folders)
    skills = _load_skills(settings, runtime, folders, trusted=trusted)
    styles = load_output_styles(runtime.config, root, trusted=trusted, plugins=folders)
    style, style_problems = choose_style(values, styles)
    system_prompt = _system_prompt(settings, runtime, style, trusted=trusted)
    servers = find_mcp_servers(settings, runtime, folders, trusted=trusted)
    mcp = _make_servers(servers, runtime, send_control, form_user)
    hooks = _load_hooks(documents, folders, runtime, settings, mcp)
    structured = _structured_output(settings)

    async def load_skill(skill: CustomCommand, arguments: str, context: ToolContext) -> str:
        return await CommandCalls(chat, rules, context).expand(skill, arguments)

    offered = (*built_in_tools(tuple(agents.by_name.values())), *_skill_tools(skills, rules, load_skill))
    tools = _select_tools(settings, rules, offered)
    services = Services(
        tools=tools if structured is None else (*tools, structured),
        permissions=rules,
        run_tool=run_tool,
        system_prompt=system_prompt.blocks,
        take_instructions=system_prompt.take_loaded,
        agents=agents.by_name,
        resolve_model_name=lambda name: _agent_model(name, settings),
        make_web_access=lambda model_name, add_usage: WebClient(
            runtime.model, model_name, runtime.environment, add_usage
        ),
        is_hidden=rules.make_hidden_filter(root, runtime.environment),
        sandbox=rules.sandbox,
        hooks=HookRegistry((*hooks.hooks, *_output_hooks(structured)), runtime.new_id),
        mcp=mcp,
        is_denied=rules.is_denied,
    )
    chat = await Chat.open(start, settings, runtime, user, services)
    defined = (plugins, hooks, agents, commands, skills, styles)
    problems = (
        *rules.settings.problems,
        *(problem for loaded in defined for problem in loaded.problems),
        *style_problems,
        *system_prompt.problems,
        *servers.problems,
    )
    services.mcp.start()
    typed = {name: skill for name, skill in skills.by_name.items() if skill.for_user}
    return OpenedChat(
        chat,
        rules,
        {**commands.by_name, **typed},
        tuple(agents.by_name),
        problems=problems,
        skills=skills.by_name,
        plugins=folders,
        output_style=style.name if style else DEFAULT_STYLE,
        output_styles=(DEFAULT_STYLE, *styles.by_name),
    )


def _load_skills(
    settings: ChatSettings, runtime: ChatRuntime, plugins: Sequence[Plugin], *, trusted: bool
) -> Definitions[CustomCommand]:
    """Return the skills of a chat: all, or those that a program has chosen."""
    found = load_skills(runtime.config, runtime.cwd.resolve(), trusted=trusted, plugins=plugins)
    wanted = settings.skills
    if wanted is None:
        return found
    return found._replace(by_name={name: skill for name, skill in found.by_name.items() if name in wanted})


def _skill_tools(skills: Definitions[CustomCommand], rules: PermissionPolicy, load: LoadSkill) -> tuple[Tool, ...]:
    """Return the tool for skills; nothing if the model has none."""
    listed = [skill for skill in skills.by_name.values() if skill.for_model]
    # A skill without rules of its own only tells the model something; Claude Code does not ask about it either.
    rules.allow_skills(skill.name for skill in listed if not skill.allowed)
    return (SkillTool(tuple(skills.by_name.values()), load),) if listed else ()


def find_mcp_servers(
    settings: ChatSettings, runtime: ChatRuntime, plugins: Sequence[Plugin] = (), *, trusted: bool
) -> McpConfiguration:
    """Return the MCP servers of a chat, and those of `.mcp.json` that its user has not been asked about."""
    root = runtime.cwd.resolve()
    found, _ = read_settings(runtime.config, root, trusted=trusted, selection=_selection(settings))
    scope = ConfigScope(runtime.config, root, runtime.environment, trusted, settings.setting_sources)
    flags = McpFlags(settings.mcp_configs, settings.strict_mcp)
    answers = [decode_settings(data, file.path) for file, data in found]
    read = [(plugin, *read_plugin_servers(plugin)) for plugin in plugins]
    brought = [PluginServers(plugin.name, plugin.root, servers) for plugin, servers, _ in read]
    configured = find_servers(scope, flags, answers, server_approvals(runtime).read(root), brought)
    wrong = [problem for _, _, problems in read for problem in problems]
    configured = configured._replace(problems=(*configured.problems, *wrong))
    if not configured.servers:
        return configured
    from unspool.extras import require_extras

    try:
        require_extras("mcp", feature="a chat with MCP servers")
    except MissingExtra as error:
        if settings.mcp_configs:
            raise
        # Servers of Claude Code's own files are no reason to refuse a chat.
        problem = f"MCP servers are not used: {error.message} ({error.hint})"
        return McpConfiguration(problems=(*configured.problems, problem))
    return configured


def server_approvals(runtime: ChatRuntime) -> ServerApprovals:
    """Return the answers about servers of `.mcp.json`."""
    return ServerApprovals(data_folder(runtime.environment))


def _make_servers(
    configured: McpConfiguration, runtime: ChatRuntime, send_control: SendControl | None, form_user: FormUser | None
) -> McpServers:
    if not configured.servers:
        return McpServers(configured)
    from unspool.client.mcp.connection_end import TransportContext

    context = TransportContext(runtime.environment, runtime.cwd.resolve(), send_control, form_user)
    return McpServers(configured, context)


def load_permissions(
    settings: ChatSettings, runtime: ChatRuntime | FolderContext, *, trusted: bool
) -> PermissionPolicy:
    """Return the permission rules that apply in a working folder."""
    root = runtime.cwd.resolve()
    loaded = load_settings(
        runtime.config,
        root,
        trusted=trusted,
        allowed=settings.allowed,
        disallowed=settings.disallowed,
        selection=_selection(settings),
    )
    # Claude Code's own key counts where no flag is given.
    mode = settings.sandbox or ("off" if loaded.sandbox is False else "on")
    sandbox = CommandSandbox(mode, runtime.environment, runtime.config)
    kept = KeptRules(data_folder(runtime.environment))
    return PermissionPolicy(loaded, root=root, trusted=trusted, sandbox=sandbox, kept=kept)


def _apply_settings_files(settings: ChatSettings, rules: PermissionPolicy) -> ChatSettings:
    """Return the settings with what settings files add to the flags."""
    loaded = rules.settings
    if settings.mode is not None and (why := loaded.mode_problem(settings.mode)):
        raise Refused(why)
    # A mode that a flag names and that is not allowed is refused; one in a settings file is just not used.
    mode = settings.mode or (loaded.mode if loaded.mode and not loaded.mode_problem(loaded.mode) else None)
    model = resolve_model(settings.model or loaded.model or DEFAULT_MODEL)
    fallback = resolve_model(settings.fallback_model) if settings.fallback_model else None
    added = (*settings.added, *map(Path, loaded.added))
    return msgspec.structs.replace(
        settings, mode=mode, model=model, keeps_model=not settings.model, added=added, fallback_model=fallback
    )


def _structured_output(settings: ChatSettings) -> StructuredOutputTool | None:
    if settings.output_schema is None:
        return None
    from unspool.client.tools.structured_output import StructuredOutputTool

    return StructuredOutputTool(settings.output_schema)


def _output_hooks(tool: StructuredOutputTool | None) -> list[RegisteredHook]:
    """Return the hook that reminds a model that ends its turn without the output that was asked for."""
    if tool is None:
        return []
    from unspool.client.hooks.output_reminder import OutputReminder

    return [RegisteredHook("Stop", OutputReminder(tool))]


def _select_tools(settings: ChatSettings, rules: PermissionPolicy, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    names = {"Skill", *(tool.name for tool in tools)}
    for name in settings.tools or ():
        if name not in names:
            raise UsageError(f"unknown tool `{name}`", hint=f"use one of: {', '.join(sorted(names))}")
    selected = tuple(tool for tool in tools if settings.tools is None or tool.name in settings.tools)
    # The model does not even see a tool that is denied as a whole.
    denied = rules.denied_tools(tool.name for tool in selected)
    return tuple(tool for tool in selected if tool.name not in denied)


def _system_prompt(
    settings: ChatSettings, runtime: ChatRuntime, style: OutputStyle | None, *, trusted: bool
) -> SystemPrompt:
    root, home = runtime.cwd.resolve(), runtime.environment.get("HOME")
    environment = PromptEnvironment(
        cwd=str(root),
        model=settings.model,
        platform=platform.system(),
        date=f"{runtime.now():%Y-%m-%d}",
        branch=git_branch(root),
        added=tuple(map(str, settings.added)),
    )
    # As many characters as the context window has tokens are a quarter of it, at four characters a token.
    limit = settings.window or context_window(settings.model) or MAX_TOTAL_CHARACTERS
    scope = InstructionScope(
        root, runtime.config, Path(home) if home else None, trusted, min(MAX_TOTAL_CHARACTERS, limit)
    )
    return SystemPrompt(
        scope, environment, replaced=settings.system_prompt, appended=settings.append_system_prompt or "", style=style
    )
