"""Runs the agent of a hook: it looks at what there is, and says whether an event may go ahead.

Rules
  1. It has the tools of the agent that it judges, without those that change files, start agents or ask the user. It has
     no tools of MCP servers.
  2. Nobody is asked: a call that no rule allows is refused (`dontAsk`, as in Claude Code 2.1.327).
  3. Its calls are guarded by the `PreToolUse` hooks of the chat: what it reads may have talked it into a call that they
     deny. Hooks that are agents themselves are left out, as they would call each other without an end.
  4. What it left running ends with it.
  5. Claude Code leaves no file of it, so none is left here. What it used counts for the agent that it judges.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from unspool.client import events
from unspool.client.background_tasks import BackgroundTasks
from unspool.client.config import ChatSettings
from unspool.client.hooks.agent_hook import AgentHook
from unspool.client.hooks.answers import AgentVerdict
from unspool.client.hooks.registry import HookRegistry
from unspool.client.loop.agent import ChatAgent
from unspool.client.loop.loop import TurnPrompt
from unspool.client.mcp.servers import McpServers
from unspool.client.prompt.agent_definitions import AgentDefinition
from unspool.client.session.transcript import MessageList, Transcript
from unspool.client.session.writer import SessionWriter
from unspool.client.tool_result import Json
from unspool.client.tools.structured_output import StructuredOutputTool
from unspool.format.tools import AGENT_TOOLS, EDIT_TOOLS

MAX_REQUESTS = 50
_LEFT_OUT = (*sorted(EDIT_TOOLS | AGENT_TOOLS), "TodoWrite", "Skill", "StructuredOutput", "TaskOutput", "TaskStop")
_VERDICT: Json = {
    "type": "object",
    "properties": {
        "ok": {"type": "boolean", "description": "Whether the event may go ahead"},
        "reason": {"type": "string", "description": "Why, or why not"},
    },
    "required": ["ok"],
    "additionalProperties": False,
}


async def run_hook_agent(parent: ChatAgent, instructions: str, prompt: str, model: str) -> AgentVerdict:
    """Have an agent judge what a prompt asks, and return its verdict."""
    import tempfile  # loads `random` and `shutil`, which a chat without such hooks does not need

    tool = StructuredOutputTool(_VERDICT)
    failures: list[str] = []

    def listen(event: events.AnyEvent) -> None:
        if isinstance(event, events.TurnFailed):
            failures.append(event.message)

    with tempfile.TemporaryDirectory(prefix="unspool-") as folder:
        agent = _make_agent(parent, AgentDefinition("hook", "", instructions, disallowed=_LEFT_OUT), model, folder)
        agent.add_tool(tool)
        agent.context.mode = "dontAsk"
        # Not those of the session: the model would be told of the end of a command that it did not start.
        agent.context.tasks = BackgroundTasks()
        content = [{"type": "text", "text": prompt}]
        turn = TurnPrompt(content, lambda: (prompt, agent.transcript.write_prompt(prompt)))
        try:
            ended = await agent.loop.run_turn(turn, listen)
        finally:
            await agent.context.tasks.stop()
            parent.usage.totals.include(agent.usage.totals)
    output = tool.take_output()
    if output is None:
        return AgentVerdict(failure=f"the agent failed: {failures[0]}" if failures else _describe_end(ended.ending))
    return AgentVerdict(output["ok"] is True, str(output.get("reason") or ""))


def _describe_end(ending: events.Ending) -> str:
    if ending == "max_steps":
        return f"the agent gave no verdict within {MAX_REQUESTS} requests"
    return "the agent gave no verdict"


def _make_agent(parent: ChatAgent, definition: AgentDefinition, model: str, folder: str) -> ChatAgent:
    shared = parent.shared
    runtime = shared.runtime
    services = shared.services._replace(hooks=_select_guards(shared.services.hooks, runtime.new_id), mcp=McpServers())
    settings: ChatSettings = msgspec.structs.replace(shared.settings, output_schema=None)
    id = f"a{runtime.new_id().replace('-', '')[:16]}"
    envelope = msgspec.structs.replace(parent.transcript.writer.envelope, is_sidechain=True, agent_id=id)
    writer = SessionWriter(Path(folder) / f"agent-{id}.jsonl", envelope, runtime.now, runtime.new_id)
    return ChatAgent(
        shared._replace(services=services, settings=settings),
        Transcript(writer, MessageList(), runtime.new_id),
        parent.context.for_subagent,
        model=model,
        parent=parent,
        definition=definition._replace(max_steps=MAX_REQUESTS),
    )


def _select_guards(hooks: HookRegistry, new_id: Callable[[], str]) -> HookRegistry:
    """Return the hooks that may deny a call of the agent."""
    return HookRegistry(
        (
            registered
            for registered in hooks.list_all()
            if registered.event == "PreToolUse"
            and registered.timing == "waited"
            and not isinstance(registered.hook, AgentHook)
        ),
        new_id,
    )
