"""Whatever a sandboxed command does, it writes, reads and reaches no more than its policy says."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from unspool.sandbox import (
    Mechanism,
    RestrictedChild,
    find_mechanism,
    landlock,
    make_limits,
    make_policy,
    make_sandbox_environment,
    prepare_sandbox,
    seccomp,
    start_restricted,
)

pytestmark = pytest.mark.skipif(find_mechanism() is None, reason="no sandbox works on this machine")


def mechanisms() -> list[Mechanism]:
    """Return the sandboxes that can be tried here."""
    found: list[Mechanism] = []
    if find_mechanism() == "bubblewrap":
        found.append("bubblewrap")
    if landlock.abi_version() >= 3 and seccomp.is_available():
        found.append("landlock")
    return found


class Run(NamedTuple):
    """How a command ended, and what it said on both of its outputs."""

    returncode: int
    output: str


class World(NamedTuple):
    """A home folder with secrets, and a project in it."""

    home: Path
    project: Path
    temporary: Path
    mechanism: Mechanism

    def run(self, command: str, *, edits: bool = False) -> Run:
        """Run a command in the sandbox."""
        with tempfile.TemporaryFile() as output:
            code = asyncio.run(self._run(command, output.fileno(), edits=edits))
            output.seek(0)
            return Run(code, output.read().decode(errors="replace"))

    async def _run(self, command: str, output: int, *, edits: bool) -> int:
        config = self.home / ".claude"
        policy = make_policy(
            home=str(self.home),
            own=(config, self.home / "own"),
            results=config / "projects" / "p" / "s",
            temporary=self.temporary,
            project=(self.project,),
            edits=edits,
        )
        prepared = prepare_sandbox(self.mechanism, policy, str(self.project))
        given = {"HOME": str(self.home), "PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": "sk-secret", "MY_TOKEN": "t"}
        environment = make_sandbox_environment(given, self.temporary)
        words = [*prepared.prefix, "/bin/bash", "-c", make_limits("/bin/bash") + command]
        child: RestrictedChild | asyncio.subprocess.Process
        try:
            if prepared.restrict_thread is not None:
                child = start_restricted(
                    words, prepared.restrict_thread, cwd=self.project, environment=environment, output=output
                )
            else:
                child = await asyncio.create_subprocess_exec(
                    *words,
                    cwd=self.project,
                    env=environment,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=prepared.descriptors,
                )
        finally:
            prepared.close()
        return await asyncio.wait_for(child.wait(), 60)


@pytest.fixture(params=mechanisms())
def world(tmp_path: Path, request: pytest.FixtureRequest) -> World:
    home = tmp_path / "home"
    project, temporary = home / "work" / "project", tmp_path / "private"
    for folder in (project / "src", home / ".ssh", home / ".aws", home / "other", home / "own", temporary):
        folder.mkdir(parents=True)
    results = home / ".claude" / "projects" / "p" / "s"
    results.mkdir(parents=True)
    (results / "long.txt").write_text("a long result\n")
    for path in (
        home / ".ssh/id",
        home / ".aws/credentials",
        home / ".claude/settings.json",
        home / "own/store",
        home / ".netrc",
    ):
        path.write_text("SECRET\n")
    (project / "a").write_text("words\n")
    (home / "other" / "b").write_text("theirs\n")
    (project / "link").symlink_to(home / ".ssh")
    return World(home, project, temporary, request.param)


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return the mode, the time and the bytes of every file below a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, data)
    return found


WRITES = [
    "touch pwned",
    "echo x > pwned",
    "echo x >> a",
    "rm a",
    "mv a b",
    "ln a b",
    "ln -s a b",
    "mkdir d",
    "truncate -s 0 a",
    "chmod 777 a",
    "chmod 000 ../../.ssh/id",
    "chown 0:0 a",
    "cp a ../b",
    "touch ~/pwned",
    "echo x > ~/.bashrc",
    "rm -rf ~/.ssh",
    "echo x > /tmp/unspool-pwned",
    "echo x > /var/tmp/unspool-pwned",
    "mkfifo f",
    "dd if=/dev/zero of=a count=1",
    "tee a < /dev/null",
    "python3 -c \"open('a', 'w')\"",
    "python3 -c \"import os; os.truncate('a', 0)\"",
    "python3 -c \"import os; os.rename('a', 'b')\"",
    "python3 -c \"import os; os.link('a', '../b')\"",
    "sed -i s/w/x/ a",
    "sort -o a a",
    "find . -delete",
    "git init",
    "setfattr -n user.x -v y a",
    "python3 -c \"import os; os.setxattr('a', 'user.x', b'y')\"",
    "exec 3<> a; echo x >&3",
    "touch a",
    "touch -c -d 2001-01-01 a",
    "python3 -c \"import os; os.utime('a', (1, 1))\"",
    "chattr +d a",
    "chattr +i a",
    "mknod x c 1 3",
    "cat a > /proc/self/cwd/pwned",
]


@pytest.mark.parametrize("command", WRITES)
def test_a_command_that_only_reads_writes_nothing(world: World, command: str) -> None:
    before = tree(world.home)
    world.run(command)
    assert tree(world.home) == before
    assert not Path("/tmp/unspool-pwned").exists()
    assert not Path("/var/tmp/unspool-pwned").exists()


def test_a_command_that_edits_writes_in_the_project_and_nowhere_else(world: World) -> None:
    run = world.run("echo x > new && mkdir d && mv a d/a && cp new d/new && touch d/new && cat d/a", edits=True)
    assert run == (0, "words\n")
    before = {name: value for name, value in tree(world.home).items() if not name.startswith("work/")}
    for command in (
        "touch ../pwned",
        "cp new ~/pwned",
        "mv new ~/pwned",
        "ln new ~/pwned",
        "rm -rf ~/other",
        "echo x > link/id",
    ):
        world.run(command, edits=True)
    assert {name: value for name, value in tree(world.home).items() if not name.startswith("work/")} == before


@pytest.mark.parametrize(
    "command",
    [
        "cat ~/.ssh/id",
        "cat link/id",
        "cat ~/.aws/credentials",
        "cat ~/.claude/settings.json",
        "cat ~/own/store",
        "cat ~/.netrc",
        "cat ../../.ssh/*",
        "grep -r SECRET ~",
        "find ~ -type f -exec cat {} +",
        "tar cf - ~ | strings",
        "ln ~/.ssh/id x; cat x",
        "python3 -c \"print(open('../../.ssh/id').read())\"",
        "cat /proc/self/root$HOME/.ssh/id",
        "cd ~/.ssh && cat id",
        "cp ~/.ssh/id $TMPDIR/x; cat $TMPDIR/x",
    ],
)
@pytest.mark.parametrize("edits", [False, True], ids=["read", "edit"])
def test_no_secret_is_read(world: World, command: str, edits: bool) -> None:
    run = world.run(command, edits=edits)
    assert "SECRET" not in run.output


def test_the_environment_has_no_keys(world: World) -> None:
    shown = world.run("env; cat /proc/self/environ | tr '\\0' '\\n'").output
    assert "sk-secret" not in shown
    assert "MY_TOKEN" not in shown
    assert f"HOME={world.home}" in shown


@pytest.fixture
def port() -> Iterator[int]:
    """Listen on a port; a connection is a failure."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        yield server.getsockname()[1]
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize(
    "command",
    [
        "exec 3<>/dev/tcp/127.0.0.1/{port}",
        "python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}))\"",
        "curl -s http://127.0.0.1:{port}/",
        "python3 -c \"import socket; socket.socket(socket.AF_INET6).connect(('::ffff:127.0.0.1', {port}))\"",
    ],
)
def test_there_is_no_network(world: World, command: str, port: int) -> None:
    assert world.run(command.format(port=port)).returncode != 0


def test_no_socket_of_another_process_is_reached(world: World) -> None:
    path = world.home / "agent.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        run = world.run(f"python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{path}')\"")
        assert run.returncode != 0
        assert "PermissionError" in run.output


def test_other_processes_are_out_of_reach(world: World) -> None:
    if world.mechanism == "landlock" and landlock.abi_version() < 6:
        pytest.skip("Landlock restricts signals from version 6 on")
    with subprocess.Popen(["/bin/sleep", "60"]) as other:
        try:
            assert world.run(f"kill -9 {other.pid}").returncode != 0
            assert other.poll() is None
        finally:
            other.kill()


def test_the_machine_is_left_as_it_is(world: World) -> None:
    before = time.time() - time.monotonic()
    for command in ("date -s 2001-01-01", "hostname evil", "python3 -c 'import time; time.clock_settime(0, 1)'"):
        assert world.run(command).returncode != 0, command
    assert abs(time.time() - time.monotonic() - before) < 60
    assert socket.gethostname() != "evil"


def test_nothing_of_other_processes_is_read_or_changed(world: World) -> None:
    with subprocess.Popen(["/bin/sleep", "60"], env={"MY_KEY": "PLANTED"}) as other:
        limits = resource.prlimit(other.pid, resource.RLIMIT_NOFILE)
        try:
            for command in (
                f"cat /proc/{other.pid}/environ",
                f"prlimit --pid {other.pid} --nofile=10",
                f"renice -n 19 {other.pid}",
                f"taskset -p 1 {other.pid}",
                f"cat /proc/{other.pid}/mem | head -c 1",
            ):
                run = world.run(command)
                assert "PLANTED" not in run.output
                assert run.returncode != 0 or "mem" in command, command
            assert resource.prlimit(other.pid, resource.RLIMIT_NOFILE) == limits
            assert os.getpriority(os.PRIO_PROCESS, other.pid) == os.getpriority(os.PRIO_PROCESS, 0)
        finally:
            other.kill()


def test_everyday_commands_work(world: World) -> None:
    (world.project / "many").write_text("".join(f"{number}\n" for number in range(1000)))
    commands = {
        "cat a": "words\n",
        "ls | sort -r | head -1": "src\n",
        "sort -n many | tail -1": "999\n",
        "grep -c 9 many": "271\n",
        "find . -name a -type f": "./a\n",
        "echo x > /dev/null; echo $?": "0\n",
        "seq 3 | wc -l": "3\n",
        "sed -n 2p many": "1\n",
        "cd src && pwd": f"{world.project / 'src'}\n",
        "cat ~/other/b": "theirs\n",
        "cat ~/.claude/projects/p/s/long.txt": "a long result\n",
        "echo y > $TMPDIR/y && cat $TMPDIR/y": "y\n",
        "(sleep 0.01 & wait); echo done": "done\n",
        "nice -n 5 cat a": "words\n",
        "timeout 5 cat a": "words\n",
        "ulimit -n 100 && ulimit -n": "100\n",
    }
    for command, output in commands.items():
        run = world.run(command)
        assert run == (0, output), command


def test_memory_files_and_processes_are_limited(world: World) -> None:
    shown = world.run("ulimit -c; ulimit -f; ulimit -u; ulimit -v; ulimit -f unlimited").output.splitlines()
    core, *limits = shown[:4]
    assert core == "0"
    assert all(limit.isdigit() for limit in limits)
    if os.geteuid() != 0 or world.mechanism == "bubblewrap":  # root may raise its own limits
        assert "cannot modify limit" in shown[4]
    assert "MemoryError" in world.run("python3 -c 'bytearray(1 << 36)'").output


def test_where_there_are_namespaces_a_command_that_edits_can_connect_to_itself(world: World) -> None:
    program = (
        "import socket; server = socket.create_server(('127.0.0.1', 0)); "
        "socket.create_connection(server.getsockname()); print('connected')"
    )
    connects = world.run(f'python3 -c "{program}"', edits=True).output == "connected\n"
    assert connects == (world.mechanism == "bubblewrap")


def test_the_program_itself_keeps_its_rights(world: World, tmp_path: Path) -> None:
    assert world.run("echo x > a").returncode != 0
    (world.project / "a").write_text("mine")
    (world.project / "a").chmod(0o600)
    socket.socket().close()


def test_a_program_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    async def start() -> None:
        start_restricted(["/bin/nothing"], lambda: None, cwd=tmp_path, environment={}, output=1)

    with pytest.raises(FileNotFoundError):
        asyncio.run(start())


def test_a_thread_that_cannot_be_restricted_starts_nothing(tmp_path: Path) -> None:
    def refuse() -> None:
        raise landlock.LandlockFailed(1, "no ruleset")

    async def start() -> None:
        words = ["/bin/touch", str(tmp_path / "made")]
        start_restricted(words, refuse, cwd=tmp_path, environment={}, output=1)

    with pytest.raises(landlock.LandlockFailed):
        asyncio.run(start())
    assert not (tmp_path / "made").exists()
