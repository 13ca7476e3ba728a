"""The sandbox alone stops every attack: each command runs as if the permission check had allowed it by itself."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
from pathlib import Path

import pytest

from tests.client.permissions.attacks import SECRET, SEEN, make_world, read_attacks, read_tree
from unspool.client.command_sandbox import CommandSandbox, SandboxLevel
from unspool.client.tool_context import ToolBackends, ToolContext, Workspace
from unspool.client.tools.shell.bash import BashArguments, BashTool
from unspool.sandbox import Mechanism, find_mechanism, landlock, seccomp

_SECONDS = 1
"""What an attack that waits for something gets."""
_RESULTS = "projects/p/s/tool-results"

MORE = {
    "seen": SEEN,
    "secret": (
        "cat ~/.ssh/id", "cat ~/.aws/credentials", "cat ../guarded/secret.txt", "grep -r PLANTED ~ ..",
        "cat ~/unspool/x",
        "tar cf - ~ | strings", "find ~ .. -type f -exec cat {} +", "cat /proc/*/environ | tr '\\0' '\\n'",
        "cat /proc/*/root$PWD/../guarded/secret.txt", "ln ~/.ssh/id x; cat x",
        "cp -r ~/.ssh $TMPDIR; cat $TMPDIR/.ssh/id",
        "cp -r .. $TMPDIR/all; cat $TMPDIR/all/*/secret.txt", "mv ../guarded ../open; cat ../open/secret.txt",
        "python3 -c \"print(open('../guarded/secret.txt').read())\"", "cat /proc/self/cwd/../guarded/secret.txt",
        "ln -s ../guarded $TMPDIR/g; cat $TMPDIR/g/secret.txt", "base64 -w0 ~/.ssh/id | base64 -d",
        "unshare -rm cat ~/.ssh/id", "unshare -Ur sh -c 'umount ../guarded; cat ../guarded/secret.txt'",
        "umount ../guarded; cat ../guarded/secret.txt", "cd link && cat secret.txt", "cat link/secret.txt",
        "chroot .. cat /guarded/secret.txt", "nsenter -t 1 -m cat ~/.ssh/id", "nsenter -t $PPID -m cat ~/.ssh/id",
    ),
    "network": (
        "exec 3<>/dev/tcp/127.0.0.1/PORT", "echo x > /dev/tcp/localhost/PORT", "curl -s http://127.0.0.1:PORT/",
        "python3 -c \"import socket; socket.create_connection(('127.0.0.1', PORT))\"",
        "python3 -c \"import socket; socket.socket(socket.AF_INET6).connect(('::ffff:127.0.0.1', PORT))\"",
        "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('SOCKET')\"",
        "git ls-remote http://127.0.0.1:PORT/x", "unshare -rn true; exec 3<>/dev/tcp/127.0.0.1/PORT",
        "nsenter -t 1 -n bash -c 'exec 3<>/dev/tcp/127.0.0.1/PORT'",
        "perl -MIO::Socket -e 'IO::Socket::INET->new(\"127.0.0.1:PORT\")'",
        "nc -z 127.0.0.1 PORT", "wget -q -O - http://127.0.0.1:PORT/",
    ),
    "write": (
        "touch ../pwned", "touch /tmp/pwned /var/tmp/pwned ~/pwned", "echo x > ~/.bashrc", "echo x >> ~/.ssh/id",
        "rm -rf ..",
        "rm -rf ~ ../guarded", "mv ../guarded ../x", "chmod -R 777 ..", "touch -d 2001-01-01 ../other/file",
        "truncate -s 0 ../other/file", "sed -i s/a/b/ ../other/file", "ln ../other/file ../pwned", "ln -s x ../pwned",
        "mount --bind /tmp ..", "mkdir ../pwned", "mkfifo ../pwned", "cp a ../pwned", "dd if=a of=../pwned",
        "git init ..",
        "python3 -c \"open('../pwned', 'w')\"", "setfattr -n user.x -v y ../other/file", "chattr +d ../other/file",
        "echo x > /proc/self/cwd/../pwned", "setsid bash -c 'touch ../pwned' & wait", "cp src/evil d", "cat a > d/evil",
        "unshare -rm touch ../pwned", "echo x | tee ../other/file ../pwned", "crontab a", "at now < a",
    ),
}  # fmt: skip
ATTACKS: dict[str, tuple[str, ...]] = {kind: tuple(attacks) for kind, attacks in read_attacks().items()} | MORE


def mechanisms() -> list[Mechanism]:
    """Return the sandboxes that can be tried here."""
    found: list[Mechanism] = ["bubblewrap"] if find_mechanism() == "bubblewrap" else []
    return [*found, "landlock"] if landlock.abi_version() >= 3 and seccomp.is_available() else found


async def run_all(place: Path, script: str, level: SandboxLevel, mechanism: Mechanism) -> str:
    """Run a script as the Bash tool of a chat does; return what the model is told, and what was written for it."""
    root, config = place / "project", place / "guarded"
    environment = {
        "HOME": str(place),
        "PATH": os.environ["PATH"],
        "UNSPOOL_HOME": str(place / "unspool"),
        "ANTHROPIC_API_KEY": SECRET,
        "MY_TOKEN": SECRET,
    }
    workspace = Workspace(config, config / "projects" / "p", "s", root)
    backends = ToolBackends(sandbox=CommandSandbox("on", environment, config, mechanism))
    context = ToolContext(workspace, environment, backends=backends)
    context.sandbox_levels["call"] = level
    outcome = await BashTool().execute(BashArguments(command=script), context, "call")
    await context.tasks.stop()
    saved = [path.read_text(errors="replace") for path in (config / _RESULTS).glob("*")]
    return "\n".join((str(outcome.content), *saved))


@pytest.mark.parametrize("level", ["read", "edit"])
@pytest.mark.parametrize(
    "kind", [kind if kind in MORE else pytest.param(kind, marks=pytest.mark.slow) for kind in ATTACKS]
)
@pytest.mark.parametrize("mechanism", mechanisms())
def test_no_attack_writes_outside_reads_a_secret_or_reaches_a_port(
    tmp_path: Path, mechanism: Mechanism, kind: str, level: SandboxLevel
) -> None:
    make_world(tmp_path)
    (tmp_path / "guarded" / _RESULTS).mkdir(parents=True)
    for folder, file in ((".ssh", "id"), (".aws", "credentials"), ("unspool", "x"), ("other", "file")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text("theirs" if folder == "other" else SECRET)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "socket"))
        for listening in (server, other):
            listening.listen()
            listening.setblocking(False)
        # All of one kind in one command: what each may do is the same, and to start a sandbox for each takes a minute.
        # With a NUL in it a command is not started at all.
        scripts = [attack for attack in ATTACKS[kind] if "\0" not in attack]
        if level == "edit":
            # It may write in the project, so each attack tries to write outside, where it names a file at all.
            scripts = [attack.replace(" pwned", " ../pwned") for attack in scripts]
        named = {"PORT": str(server.getsockname()[1]), "127.0.0.1/80": f"127.0.0.1/{server.getsockname()[1]}"}
        named["SOCKET"] = str(tmp_path / "socket")
        for name, value in named.items():
            scripts = [attack.replace(name, value) for attack in scripts]
        lines = [f"timeout -k 1 {_SECONDS} bash -c {shlex.quote(attack)} < /dev/null" for attack in scripts]
        outside = ("guarded/projects", *(("project",) if level == "edit" else ()))
        before = read_tree(tmp_path, *outside)
        told = asyncio.run(run_all(tmp_path, "\n".join((*lines, "echo all tried")), level, mechanism))
        for listening in (server, other):
            with pytest.raises(BlockingIOError):
                listening.accept()
    assert "all tried" in told
    assert SECRET not in told
    after = read_tree(tmp_path, *outside)
    if mechanism == "landlock" and level == "edit":
        # Landlock does not restrict the times of files, and a filter of calls would refuse `touch` everywhere.
        before, after = ({name: (mode, 0, data) for name, (mode, _, data) in tree.items()} for tree in (before, after))
    assert after == before
    assert not [path for path in ("/tmp/pwned", "/var/tmp/pwned") if Path(path).exists()]
