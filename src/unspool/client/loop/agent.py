"""Builds one agent with all its parts: the session's own agent, or a subagent.

Agent
  transcript       lines on disk, messages in memory
  context          what its tools share
  queue, input     events of the turn, text typed meanwhile
  compaction       keeps requests within the window
  loop             runs turns: model calls and tool calls
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from unspool.client import events
from unspool.client.command_sandbox import CommandSandbox
from unspool.client.compaction.token_window import TokenWindow
from unspool.client.config import ChatRuntime, ChatSettings, TurnLimits
from unspool.client.hooks.answers import AgentVerdict
from unspool.client.hooks.registry import HookRegistry
from unspool.client.loop.agent_hooks import AgentHooks
from unspool.client.loop.compaction_policy import CompactionPolicy
from unspool.client.loop.inbox import EventQueue, InputQueue
from unspool.client.loop.loop import AgentLoop
from unspool.client.loop.model_calls import ModelCalls
from unspool.client.loop.request import EndpointKnowledge, build_request
from unspool.client.loop.tool_calls import PermissionCheck, RunTool, ToolRunner, ToolSideEffects
from unspool.client.loop.usage_totals import TurnUsage, UsageSums
from unspool.client.mcp.servers import McpServers
from unspool.client.mcp.tool_references import replace_references
from unspool.client.prompt.agent_definitions import AgentDefinition, may_use_server_tool, select_tools
from unspool.client.session.file_backups import FileBackups
from unspool.client.session.transcript import Transcript, drop_thinking
from unspool.client.tool import Tool
from unspool.client.tool_context import AgentTask, ToolBackends, ToolContext, WebAccess
from unspool.client.tool_result import Json, ToolOutcome
from unspool.client.tools.registry import tool_definitions, with_former_names

if TYPE_CHECKING:
    from unspool.client.mcp.tool_search import OfferedTools
    from unspool.client.prompt.instructions import Instruction


class Services(NamedTuple):
    """What a chat is given from outside: tools, permissions, system prompt."""

    tools: tuple[Tool, ...]
    permissions: PermissionCheck
    run_tool: RunTool
    system_prompt: Callable[[ToolContext, str, str | None], list[Json]]
    """Returns the system prompt as blocks, for a context, a model, and the prompt of a subagent's definition."""
    take_instructions: Callable[[ToolContext], Sequence[Instruction]] = lambda context: ()
    """Returns the files of instructions that were loaded since the last call."""
    agents: Mapping[str, AgentDefinition] = {}
    """The kinds of subagents, by name."""
    resolve_model_name: Callable[[str], str] = str
    """Returns the model that a short name means."""
    make_web_access: Callable[[Callable[[], str], Callable[[str | None, Json], object]], WebAccess] | None = None
    """Called with a function that names the current model, and one that counts usage."""
    is_hidden: Callable[[Path], bool] = lambda path: False
    """Tells whether a rule denies reading a file: searches leave it out."""
    sandbox: CommandSandbox | None = None
    """The sandbox of commands; None: they run without one."""
    hooks: HookRegistry = HookRegistry()
    """The hooks that are called on events."""
    mcp: McpServers = McpServers()
    """The MCP servers of the session."""
    is_denied: Callable[[str], bool] = lambda tool: False
    """Tells whether a rule denies a tool as a whole: the model is not offered it."""
    make_window: Callable[[str, int | None], TokenWindow] = TokenWindow
    """Called with a model and the size of the context window that the user has set."""


class ChatDependencies(NamedTuple):
    """What all agents of one session share."""

    runtime: ChatRuntime
    settings: ChatSettings
    services: Services
    endpoint: EndpointKnowledge
    model: str
    """The model that the session was opened with."""
    transcript: Transcript
    """Of the session."""
    backups: FileBackups
    background_usage: list[UsageSums]
    """What background agents have used and no turn has counted yet."""
    run_subagent: Callable[[ChatAgent, AgentTask, str], Awaitable[ToolOutcome]]
    run_hook_agent: Callable[[ChatAgent, str, str, str], Awaitable[AgentVerdict]]
    """Called with an agent, instructions, a prompt and a model: has another agent judge an event of that one."""
    take_background_events: Callable[[], None]
    """Writes and emits what has happened in the background; for the session's own agent."""
    after_boundary: Callable[[], None]
    """Called when the session's own conversation was compacted."""


class MakeContext(Protocol):
    """Makes a tool context: `ToolContext` with its other arguments bound, or `for_subagent` of the parent's context."""

    def __call__(self, *, backends: ToolBackends) -> ToolContext:
        """Return a context that uses these backends."""


class ChatAgent:
    """One agent: the session's own, or a subagent."""

    def __init__(
        self,
        shared: ChatDependencies,
        transcript: Transcript,
        make_context: MakeContext,
        *,
        model: str,
        parent: ChatAgent | None = None,
        definition: AgentDefinition | None = None,
    ) -> None:
        runtime, services, settings = shared.runtime, shared.services, shared.settings
        self.shared = shared
        self.transcript = transcript
        self.model = model
        self.depth: int = parent.depth + 1 if parent else 0
        self.queue = EventQueue()
        self.input = InputQueue(transcript, self.queue.emit)
        subagent_limits = TurnLimits(
            steps=definition.max_steps if definition else None,
            tokens=settings.max_total_tokens,
            cost_micros=settings.max_cost_micros,
        )
        self.usage = TurnUsage(subagent_limits if parent else settings.limits, runtime.clock)
        self.tools: tuple[Tool, ...] = services.tools
        if parent and definition:
            self.tools = select_tools(definition, parent.tools)
        named = with_former_names(self.tools, [*services.agents.values()])
        self._tools_by_name = {tool.name: tool for tool in named}
        self._definition = definition
        self._mcp_tools = self._make_mcp_tools() if services.mcp else None
        self.context = make_context(backends=self._make_backends(parent))
        self.side_effects = ToolSideEffects(
            self.context, transcript, shared.transcript, shared.backups, self.queue.emit
        )
        self.hooks = AgentHooks(
            registry=services.hooks,
            context=self.context,
            transcript=transcript,
            session_file=shared.transcript.writer.path,
            queue=self.queue,
            agent_type=definition.name if definition else None,
            add_usage=self.usage.add,
            run_agent=partial(shared.run_hook_agent, self),
            take_instructions=lambda: services.take_instructions(self.context),
        )
        self.compaction = CompactionPolicy(
            window=services.make_window(model, settings.window),
            transcript=transcript,
            queue=self.queue,
            model=runtime.model,
            build_request=self._build_request,
            add_usage=self.usage.add,
            after_boundary=(lambda: None) if parent else shared.after_boundary,
            hooks=self.hooks,
        )
        self.tool_runner = ToolRunner(
            find_tool=self._find_tool,
            context=self.context,
            transcript=transcript,
            queue=self.queue,
            permissions=services.permissions,
            run_tool=services.run_tool,
            side_effects=self.side_effects,
            hooks=self.hooks,
            agent=definition.name if definition else None,
        )
        self.loop = AgentLoop(
            transcript=transcript,
            queue=self.queue,
            take_input=self.input.take_steering if parent else self._take_session_input,
            compaction=self.compaction,
            model_calls=ModelCalls(
                runtime=runtime,
                transcript=transcript,
                queue=self.queue,
                compaction=self.compaction,
                usage=self.usage,
                build_request=self._build_request,
                endpoint=shared.endpoint,
                has_fallback=lambda: self._fallback_model() is not None,
                fall_back=self._fall_back,
            ),
            tools=self.tool_runner,
            usage=self.usage,
            hooks=self.hooks,
        )

    def add_tool(self, tool: Tool) -> None:
        """Give this agent a tool of its own."""
        self.tools = (*self.tools, tool)
        self._tools_by_name[tool.name] = tool

    def set_model(self, model: str) -> None:
        """Continue with another model."""
        self.model = model
        self.compaction.window.change_model(model)

    def _fallback_model(self) -> str | None:
        model = self.shared.settings.fallback_model
        return None if model is None or model == self.model else model

    def _fall_back(self) -> events.FeatureDisabled | None:
        """Continue with the fallback model, if there is one that does not answer already."""
        model, earlier = self._fallback_model(), self.model
        if model is None:
            return None
        # Thinking of one model is not sent to another.
        conversation = self.transcript.conversation
        conversation.replace(drop_thinking(conversation.messages))
        self.set_model(model)
        return events.FeatureDisabled(what=f"`{earlier}` does not answer", why=f"`{model}` answers instead")

    def _make_backends(self, parent: ChatAgent | None) -> ToolBackends:
        services, web = self.shared.services, parent.context.web if parent else None
        if parent is None and services.make_web_access is not None:
            web = services.make_web_access(lambda: self.model, self.usage.add)
        return ToolBackends(
            web=web,
            run_subagent=lambda task, call_id: self.shared.run_subagent(self, task, call_id),
            back_up=self.shared.backups.back_up,
            is_hidden=services.is_hidden,
            report_progress=lambda call_id, data: self.queue.put(events.CallProgressed(id=call_id, data=data)),
            sandbox=services.sandbox,
        )

    def _take_session_input(self) -> None:
        self.shared.take_background_events()
        self.input.take_steering()

    def _make_mcp_tools(self) -> OfferedTools:
        # Imported here: a chat without MCP servers does not load it.
        from unspool.client.mcp.tool_search import OfferedTools

        services, definition = self.shared.services, self._definition
        return OfferedTools(
            services.mcp,
            is_allowed=lambda name: (
                not services.is_denied(name) and (definition is None or may_use_server_tool(definition, name))
            ),
            is_denied=services.is_denied,
            environment=self.shared.runtime.environment,
            window=lambda: self.compaction.window.size,
        )

    def _find_tool(self, name: str) -> Tool | None:
        found = self._tools_by_name.get(name)
        return self._mcp_tools.find(name) if found is None and self._mcp_tools is not None else found

    def all_tools(self) -> tuple[Tool, ...]:
        """Return the tools of the next request: built-in ones, and those of MCP servers."""
        more = self._mcp_tools.offered(self.transcript.conversation.messages) if self._mcp_tools is not None else ()
        return (*self.tools, *more)

    def _system_prompt(self, agent_prompt: str | None) -> list[Json]:
        services = self.shared.services
        # It names the model that the session was opened with, also after a change: so it stays in the cache.
        blocks = services.system_prompt(self.context, self.shared.model, agent_prompt)
        instructions = services.mcp.instructions() if services.mcp else ""
        return [*blocks, {"type": "text", "text": instructions}] if instructions else blocks

    def _build_request(self) -> tuple[Json, tuple[str, ...]]:
        """Return the next request, whatever its length, and its betas."""
        shared, prompt = self.shared, self._definition.prompt if self._definition else None
        return build_request(
            msgspec.structs.replace(shared.settings, model=self.model),
            shared.endpoint.features,
            self._system_prompt(prompt),
            tool_definitions(self.all_tools()),
            replace_references(self.transcript.conversation.messages),
        )
