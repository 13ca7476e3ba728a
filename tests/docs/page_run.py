"""Runs the commands of a page in one shell, in a home folder that has nothing else."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from tests.docs.page_blocks import HOME, ROOT, PageCommand, read_blocks

_TIMEOUT = 300


class CommandResult(msgspec.Struct):
    """What became of a command of a page."""

    command: PageCommand
    code: int
    output: list[str]


class PageResult(msgspec.Struct):
    """What became of a page."""

    commands: list[CommandResult]
    not_run: list[str]
    """The reasons of the blocks that were not run."""
    seconds: float


def run_page(text: str, home: Path) -> PageResult:
    """Run the blocks of a page; `home` becomes the home folder and is where the shell starts."""
    blocks = read_blocks(text)
    programs = [block for block in blocks if block.language == "python" and not block.reason]
    commands: list[PageCommand] = []
    for block in blocks:
        if block.reason is not None:
            continue
        if block.language == "console":
            commands += block.commands
        elif block is programs[-1]:
            program = "\n".join(each.body for each in programs)
            commands.append(
                PageCommand(f"python - <<'END_OF_PROGRAM' >/dev/null\n{program}\nEND_OF_PROGRAM", [], block.line)
            )
    begun = time.monotonic()
    results = _run_commands(commands, home)
    reasons = [block.reason for block in blocks if block.reason is not None]
    return PageResult(results, reasons, time.monotonic() - begun)


def _run_commands(commands: list[PageCommand], home: Path) -> list[CommandResult]:
    mark = f"end-of-command-{secrets.token_hex(8)}"
    script = "".join(f"{command.text}\nprintf '\\n{mark} %d\\n' $?\n" for command in commands)
    done = subprocess.run(
        [shutil.which("bash") or "bash", "--noprofile", "--norc", "-c", script],
        env={
            "HOME": str(home),
            "PATH": f"{ROOT / '.venv' / 'bin'}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "xterm",
        },
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_TIMEOUT,
        check=False,
    )
    text = done.stdout.decode(errors="replace").replace(str(home), HOME)
    results: list[CommandResult] = []
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith(mark):
            # The mark has a line end before it; empty lines at the end of an output do not matter.
            while lines and not lines[-1]:
                lines.pop()
            results.append(CommandResult(commands[len(results)], int(line.split()[1]), lines))
            lines = []
        else:
            lines.append(line)
    if len(results) < len(commands):
        raise RuntimeError(f"the shell ended at `{commands[len(results)].text}`: {lines}")
    return results
