"""Runs the shell commands and reads the files that custom commands and skills name, under the permission rules.

Rules
  1. The same rules, hooks and questions hold as for the model's own calls. What is refused is named in the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from unspool.client.loop.tool_calls import (
    RequestedCall,
    keep_answered_rule,
    make_permission_request,
    set_sandbox_level,
)
from unspool.client.prompt.custom_commands import CustomCommand, expand_command
from unspool.client.protocols import PermissionRequest
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import Json
from unspool.client.tools.registry import check_input, run_tool

if TYPE_CHECKING:
    from unspool.client.chat import Chat
    from unspool.client.permissions.policy import PermissionPolicy


class CommandCalls(NamedTuple):
    """Makes the calls of commands for one agent of a chat."""

    chat: Chat
    permissions: PermissionPolicy
    context: ToolContext

    async def expand(self, command: CustomCommand, arguments: str) -> str:
        """Return the text of a command or a skill. Its rules act from now on, until the turn ends."""
        self.permissions.allow_temporarily(command.allowed)
        return await expand_command(command, arguments, self.run_shell, self.read_file)

    async def run_shell(self, command: str) -> str:
        """Return the output of a shell command."""
        return await self._call("Bash", {"command": command})

    async def read_file(self, name: str) -> str | None:
        """Return the text of a file; None if there is none."""
        path = self.context.cwd / name
        return await self._call("Read", {"file_path": str(path)}) if path.is_file() else None

    async def _call(self, name: str, input: Json) -> str:
        """Return the output of a tool call, or in parentheses why it was not made."""
        chat, context = self.chat, self.context
        tool = next((tool for tool in chat.services.tools if tool.name == name), None)
        if tool is None:
            return f"({name} does not exist)"
        call = RequestedCall(f"command_{chat.runtime.new_id()}", name, input, tool)
        hooked = await chat.agent.hooks.before_call(name, input, call.id)
        if hooked.permission == "deny" or hooked.stops is not None:
            return f"({tool.target(input)}: not allowed, {hooked.reason or hooked.stops})"
        if hooked.updated_input is not None:
            input = hooked.updated_input
            call = call._replace(input=input)
        decision = self.permissions.judge(name, input, context)
        is_allowed, level = decision.behaviour == "allow", decision.sandbox
        if decision.behaviour == "ask":
            request = make_permission_request(call, tool, context, self.permissions)
            if isinstance(request, PermissionRequest):
                async with context.question_lock:
                    answer = await context.user.ask_permission(request, decision)
                is_allowed, level = answer.allowed, "edit" if answer.sandboxed else None
                if is_allowed:
                    keep_answered_rule(answer, self.permissions)
                if is_allowed and answer.input is not None and answer.input != input:
                    # Whoever answers may change the call, but not into one that a rule denies.
                    input = answer.input
                    if check_input(tool, input) is not None:
                        return f"({name}: not run, its input was changed into one that is not valid)"
                    decision = self.permissions.judge(name, input, context)
                    is_allowed = decision.behaviour != "deny"
        if not is_allowed:
            return f"({tool.target(input)}: not allowed, {decision.why})"
        set_sandbox_level(context, call.id, level)
        outcome = await run_tool(tool, input, context, call.id)
        if isinstance(outcome.content, str):
            return outcome.content
        return "\n".join(str(block.get("text", "")) for block in outcome.content)
