"""How much longer the Bash tool of a chat takes for a command in a sandbox: each mechanism against no sandbox.

The command is `true`, so what is measured is what it takes to start and end it. All sides take turns in random order,
in one process with all that a chat has loaded: what else the machine does hits them alike. The rows compare medians of
200 calls; the target is the most milliseconds that a sandbox may add.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import corpus
from bench.table import Row

if TYPE_CHECKING:
    from unspool.sandbox import Mechanism

ROUNDS = 200
_WARM_UP = 5
_PLAIN = "plain"
_TARGETS: dict[Mechanism, float] = {"landlock": 3, "bubblewrap": 8}


def rows() -> list[Row]:
    """Measure each mechanism that works here."""
    from unspool.sandbox import find_mechanism, landlock, seccomp

    found: list[Mechanism] = []
    if landlock.abi_version() >= 3 and seccomp.is_available():
        found.append("landlock")
    if find_mechanism() == "bubblewrap":
        found.append("bubblewrap")
    folder = Path(tempfile.mkdtemp(prefix="unspool-bench-")).resolve()
    try:
        walls, cpus = asyncio.run(_measure(folder, found))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    plain, plain_cpu = statistics.median(walls[_PLAIN]), statistics.mean(cpus[_PLAIN])
    return [
        Row(
            name=f"Bash tool: what {mechanism} adds",
            unit="ms",
            ours=(statistics.median(walls[mechanism]) - plain) * 1000,
            reference=plain * 1000,
            against="the same command without a sandbox",
            target=_TARGETS[mechanism],
            of_ratio=False,
            details={
                "wall_ms": round(statistics.median(walls[mechanism]) * 1000, 2),
                "added_cpu_ms": round((statistics.mean(cpus[mechanism]) - plain_cpu) * 1000, 2),
                "calls": ROUNDS,
            },
        )
        for mechanism in found
    ]


async def _measure(folder: Path, mechanisms: list[Mechanism]) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the seconds and the CPU seconds of each call, by side."""
    import unspool.client.ui.open_chat
    import unspool.client.ui.terminal  # noqa: F401 - what a chat has loaded makes a `fork` slower
    from unspool.client.command_sandbox import CommandSandbox
    from unspool.client.tool_context import ToolBackends, ToolContext, Workspace
    from unspool.client.tools.shell.bash import BashArguments, BashTool

    config, root = folder / "config", folder / "project"
    root.mkdir()
    environment = {**os.environ, "HOME": str(Path.home())}
    tool, arguments = BashTool(), BashArguments(command="true")
    workspace = Workspace(config, config / "projects" / "p", "s", root)
    contexts = {_PLAIN: ToolContext(workspace, environment)}
    for mechanism in mechanisms:
        sandbox = CommandSandbox("on", environment, config, mechanism)
        contexts[mechanism] = ToolContext(workspace, environment, backends=ToolBackends(sandbox=sandbox))
    walls: dict[str, list[float]] = {side: [] for side in contexts}
    cpus: dict[str, list[float]] = {side: [] for side in contexts}
    for number in range(-_WARM_UP, ROUNDS):
        corpus.say(f"sandbox: round {number + 1} of {ROUNDS}")
        for side in random.sample([*contexts], len(contexts)):
            if side != _PLAIN:
                contexts[side].sandbox_levels["call"] = "read"
            start, cpu = time.perf_counter(), _cpu()
            outcome = await tool.execute(arguments, contexts[side], "call")
            wall, used = time.perf_counter() - start, _cpu() - cpu
            if outcome.is_error:
                raise SystemExit(f"{side}: {outcome.content}")
            if number >= 0:
                walls[side].append(wall)
                cpus[side].append(used)
    corpus.say("")
    return walls, cpus


def _cpu() -> float:
    """Return the user and system seconds of this process and its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
