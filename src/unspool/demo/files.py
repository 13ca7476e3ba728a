"""Writes the project files of the demo and keeps their versions.

Paths inside the lines are those of a user who does not exist; `File.place` is relative to the demo's folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from unspool.demo.program import SimulatedAgent, SimulatedProgram
from unspool.demo.session_builder import Json
from unspool.demo.tool_calls import SimulatedCall, ToolSimulator
from unspool.format import encode_json
from unspool.paths import project_key

HOME = "/home/robin"
CONFIG = f"{HOME}/.claude"
_SHOWN_CHARACTERS = 30_000
"""Characters of a long output that stay in the line."""


class File(NamedTuple):
    """A file of the demo."""

    place: str
    data: bytes
    time: str


class Project(NamedTuple):
    """A working folder and its sessions."""

    tools: ToolSimulator
    sessions: list[SimulatedProgram]

    @property
    def place(self) -> str:
        """The project's folder in the config folder."""
        return f"projects/{project_key(self.tools.cwd)}"


def files(project: Project) -> Iterator[File]:
    """Yield the files of a project's sessions."""
    for run in project.sessions:
        yield File(f"{project.place}/{run.id}.jsonl", b"".join(run.writer.lines), last_time(run))
        for agent in _all_agents(run):
            yield from _agent_files(project, agent)
        yield from _session_side_files(project, run)


def last_time(run: SimulatedProgram) -> str:
    """Return the time of a session's last line that has one."""
    times = [line["timestamp"] for line in rows(run) if "timestamp" in line]
    return str(times[-1]) if times else run.start


def rows(run: SimulatedProgram) -> list[Json]:
    """Return the lines of a session, without those that are not one whole object."""
    decoded = []
    for line in run.writer.lines:
        try:
            decoded.append(msgspec.json.decode(line, type=Json))
        except msgspec.DecodeError:
            continue
    return decoded


def keep_output(run: SimulatedProgram, name: str, call: SimulatedCall) -> SimulatedCall:
    """Move the output of a command to a file of its own, as Claude Code does when it is long."""
    output = str(call.result)
    run.outputs[name] = output
    path = f"{CONFIG}/projects/{project_key(run.tools.cwd)}/{run.id}/tool-results/{name}"
    size = len(output.encode())
    words = (
        f"<persisted-output>\nOutput too large ({size / 1024:.1f}KB). Full output saved to: {path}\n\n"
        f"Preview (first 2KB):\n{output[:2000]}\n...\n</persisted-output>"
    )
    # 2.1.29 kept all of it in the line as well, and the path only in the text.
    kept = call.structured
    if run.is_at_least(2, 1, 100):
        kept = {**kept, "stdout": output[:_SHOWN_CHARACTERS], "persistedOutputPath": path, "persistedOutputSize": size}
    return msgspec.structs.replace(call, result=words, structured=kept)


def _all_agents(run: SimulatedProgram) -> Iterator[SimulatedAgent]:
    for agent in run.agents:
        yield agent
        yield from _all_agents(agent)


def _agent_files(project: Project, agent: SimulatedAgent) -> Iterator[File]:
    # Before 2.1.2 the files of agents were beside those of sessions.
    is_beside = not agent.is_at_least(2, 1, 2)
    folder = project.place if is_beside else f"{project.place}/{agent.id}/subagents"
    place, time = f"{folder}/agent-{agent.task.agent}", last_time(agent)
    yield File(f"{place}.jsonl", b"".join(agent.writer.lines), time)
    # Meta files exist since 2.1.70.
    if agent.is_at_least(2, 1, 70):
        yield File(f"{place}.meta.json", encode_json(_meta(agent)), time)


def _meta(agent: SimulatedAgent) -> Json:
    depth, spawner = 1, agent.spawner
    while spawner.spawner is not None:
        depth, spawner = depth + 1, spawner.spawner
    meta: Json = {"agentType": agent.task.kind}
    if agent.is_at_least(2, 1, 290):
        meta |= {"isBuiltIn": True, "launchedWithDefaults": True}
    meta |= {"description": agent.task.about, "toolUseId": agent.task.call, "spawnDepth": depth}
    if agent.is_at_least(2, 1, 290):
        meta |= {"requestShape": "background", "requestNonInteractive": True}
        meta |= {"pickedEffortModel": agent.setting.model, "finished": True}
    return meta


def _session_side_files(project: Project, run: SimulatedProgram) -> Iterator[File]:
    """Yield the side files of a session."""
    time = last_time(run)
    for backup in run.backups.kept:
        if backup.text is not None:
            yield File(f"file-history/{run.id}/{backup.name}", backup.text.encode(), backup.time)
    for name, output in run.outputs.items():
        yield File(f"{project.place}/{run.id}/tool-results/{name}", output.encode(), time)
    for task in run.tasks:
        yield File(f"tasks/{run.id}/{task['id']}.json", msgspec.json.format(encode_json(task), indent=2), time)
    if run.tasks:
        yield File(f"tasks/{run.id}/.lock", b"", time)
    if "custom-title" in run.titles and run.is_at_least(2, 1, 325):
        yield File(f"{project.place}/{run.id}/custom-title.json", encode_json(run.titles["custom-title"]), time)
