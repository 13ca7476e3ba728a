"""Agents of the demo: what one is asked to do in, the call that starts it and what it reports out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from unspool.paths import project_key
from unspool.testing.build import Json, text, tool_use
from unspool.testing.demo.desk import Call

if TYPE_CHECKING:
    from unspool.testing.demo.program import Program


class Order(msgspec.Struct, frozen=True):
    """What an agent is to do."""

    agent: str
    kind: str
    about: str
    prompt: str
    call: str | None = None
    """The id of the call that starts it; the program's own forks have none."""
    tool: str = "Agent"

    @property
    def source(self) -> str:
        """What its requests are for."""
        return f"agent:builtin:{self.kind}"

    @property
    def use(self) -> Json:
        """The call."""
        return tool_use(self.tool, id=self.call, description=self.about, prompt=self.prompt, subagent_type=self.kind)


def order(run: Program, kind: str, about: str, prompt: str) -> Order:
    """Ask for an agent; its id is as long as the version makes them."""
    call, number = run.writer.ids.tool(), run.writer.ids.uuid().replace("-", "")
    agent = f"a{number[:16]}" if run.since(2, 1, 70) else f"a{number[:6]}"
    if not run.since(2, 0, 60):
        agent = number[:8]
    return Order(agent, kind, about, prompt, call, "Agent" if run.since(2, 1, 63) else "Task")


def report(worker: Program, words: str) -> Call:
    """An agent comes back with its answer."""
    assert worker.order is not None
    done = worker.order
    usage = worker.usage
    parts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    structured = {
        "status": "completed",
        "prompt": done.prompt,
        "agentId": done.agent,
        "content": [text(words)],
        "totalDurationMs": worker.lasted,
        "totalTokens": sum(usage[part] for part in parts),
        "totalToolUseCount": len(worker.called),
        "usage": usage,
    }
    if worker.since(2, 1, 98):
        structured |= {
            "agentType": done.kind,
            "resolvedModel": worker.setting.model,
            "toolStats": _stats(worker.called),
        }
    resume = f"agentId: {done.agent} (for resuming to continue this agent's work if needed)"
    return Call(done.use, [text(words), text(resume)], structured)


def launched(worker: Program) -> Call:
    """An agent works on in the background."""
    assert worker.order is not None
    asked = worker.order
    words = f"The agent was started in the background.\nagentId: {asked.agent}"
    structured = {
        "isAsync": True,
        "status": "async_launched",
        "agentId": asked.agent,
        "description": asked.about,
        "resolvedModel": worker.setting.model,
        "prompt": asked.prompt,
        "outputFile": _output(worker),
        "canReadOutputFile": True,
        "canContinueAgent": True,
    }
    return Call(asked.use, [text(words)], structured, seconds=0.1)


def notify(run: Program, worker: Program, words: str) -> None:
    """What a background agent found is put to the model as if the user had said it."""
    assert worker.order is not None
    done = worker.order
    run.catch_up(worker)
    content = (
        f"<task-notification>\n<task-id>{done.agent}</task-id>\n<tool-use-id>{done.call}</tool-use-id>\n"
        f"<output-file>{_output(worker)}</output-file>\n<status>completed</status>\n"
        f'<summary>Agent "{done.about}" finished</summary>\n<result>{words}</result>\n'
        f"<usage><total_tokens>{worker.meter.context}</total_tokens></usage>\n</task-notification>"
    )
    run.note("queue-operation", operation="enqueue", timestamp=run.now, content=content)
    run.note("queue-operation", operation="dequeue", timestamp=run.now)
    run.prompt_id = run.writer.ids.uuid()
    origin = {"kind": "task-notification", "producer": "session-task", "runId": f"0demo-{done.agent[-8:]}"}
    marks = {"promptSource": "system", "turnOrigin": "task_notification", "queueSkipAttachments": True}
    run.say(content, permissionMode=run.setting.mode, origin=origin, **marks)


def _output(worker: Program) -> str:
    assert worker.order is not None
    return f"/tmp/claude-1000/{project_key(worker.desk.cwd)}/{worker.id}/tasks/{worker.order.agent}.output"


def _stats(called: list[str]) -> Json:
    kinds = {
        "readCount": {"Read"},
        "searchCount": {"Grep", "Glob"},
        "bashCount": {"Bash"},
        "editFileCount": {"Edit"},
    }
    known = {"Read", "Grep", "Glob", "Bash", "Edit"}
    counts = {name: sum(tool in tools for tool in called) for name, tools in kinds.items()}
    return {**counts, "linesAdded": 0, "linesRemoved": 0, "otherToolCount": sum(t not in known for t in called)}
