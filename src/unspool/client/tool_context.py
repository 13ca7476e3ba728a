"""Defines the state and the callbacks that the tools of one agent share.

A subagent gets a context of its own, derived from that of its parent (`for_subagent`): it shares the workspace, the
background tasks and the user, and has read no file yet.

Rules
  1. A file that was not read, or has changed since, is not written (`KnownFiles`).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from unspool.client.background_tasks import BackgroundTasks
from unspool.client.protocols import NoUser, UserInterface
from unspool.client.tool_result import Json, ToolOutcome

if TYPE_CHECKING:
    from unspool.api import FetchedPage
    from unspool.client.command_sandbox import CommandSandbox, SandboxLevel


class KnownFiles:
    """The files whose content the model knows, by their real paths."""

    def __init__(self, earlier_texts: Callable[[], Mapping[Path, str]] = dict) -> None:
        self._digests: dict[Path, bytes] = {}
        """The SHA-256 of each file as it was when it was read."""
        # Called at the first write, not at start: to find the texts means to parse all tool results of the session.
        self._load_earlier: Callable[[], Mapping[Path, str]] | None = earlier_texts
        self._earlier: Mapping[Path, str] = {}

    def earlier_text(self, path: Path) -> str | None:
        """Return the text that a file had when it was read before the session was resumed."""
        if self._load_earlier is not None:
            self._earlier, self._load_earlier = self._load_earlier(), None
        return self._earlier.get(path)

    def record(self, path: Path, data: bytes) -> None:
        """Remember the bytes that a file holds now."""
        self.record_digest(path, hashlib.sha256(data).digest())

    def record_digest(self, path: Path, digest: bytes) -> None:
        """Remember the SHA-256 of the bytes that a file holds now."""
        self._digests[path] = digest

    def has_read(self, path: Path) -> bool:
        """Tell whether a file was read, not counting what was read before a resume."""
        return path in self._digests

    def is_current(self, path: Path, data: bytes) -> bool:
        """Tell whether a file still holds what was read."""
        return self._digests.get(path) == hashlib.sha256(data).digest()

    def paths(self) -> list[Path]:
        """Return the files in the order in which they were first read, without those of before a resume."""
        return list(self._digests)


class Workspace(NamedTuple):
    """The folders of a session: where it is stored and where it works."""

    config: Path
    """The config folder."""
    project: Path
    """The project's folder inside it, which holds the session file."""
    session_id: str
    root: Path
    """The folder the session was started in."""
    added: tuple[Path, ...] = ()
    """Other folders that its tools may work in."""

    @property
    def side_folder(self) -> Path:
        """The folder beside the session file: subagents, long tool results."""
        return self.project / self.session_id


class AgentTask(NamedTuple):
    """The work that a subagent is started for."""

    kind: str
    prompt: str
    description: str
    model: str | None = None
    background: bool = False


class WebAccess(Protocol):
    """Fetches pages, searches the web, and asks a model about what it found."""

    longest: int
    """The most characters of a page that a model can be asked about."""

    async def fetch(self, url: str) -> FetchedPage:
        """Return a page of the public web; an `UnspoolError` says why there is none."""

    async def ask(self, prompt: str) -> str:
        """Ask a small model; `ApiFailed` if it does not answer."""

    async def search(self, query: str, sites: Json, notice: Callable[[Json], None]) -> list[Json] | None:
        """Search with the server's own tool and return content blocks; None where the endpoint has no search.

        `sites` are the search's `allowed_domains` or `blocked_domains`; `notice` gets the data of progress lines.
        """


class ToolBackends(NamedTuple):
    """The parts of the client that tools call; each default does nothing."""

    web: WebAccess | None = None
    run_subagent: Callable[[AgentTask, str], Awaitable[ToolOutcome]] | None = None
    """Called with a task and the id of the tool call."""
    back_up: Callable[[Path], None] = lambda path: None
    """Called before a file is changed or created: the session keeps a backup."""
    is_hidden: Callable[[Path], bool] = lambda path: False
    """Tells whether a rule denies reading a file, by its real path: searches leave it out."""
    report_progress: Callable[[str, Json], None] = lambda call_id, data: None
    """Called with a call's id and the data of a progress line."""
    sandbox: CommandSandbox | None = None
    """The sandbox of commands that nobody approved; None: there is none."""


class ToolContext:
    """The state that tools may read and change."""

    def __init__(
        self,
        workspace: Workspace,
        environment: Mapping[str, str],
        user: UserInterface | None = None,
        *,
        mode: str = "default",
        todos: Sequence[Json] = (),
        known_files: KnownFiles | None = None,
        backends: ToolBackends = ToolBackends(),  # noqa: B008 immutable
    ) -> None:
        self.workspace = workspace
        self.environment = environment
        self.user: UserInterface = user or NoUser()
        self.question_lock = asyncio.Lock()
        """Held while the user is asked: one question at a time, also if several agents have some."""
        self.cwd = workspace.root
        """The shell's current folder; `cd` moves it within the folders that the session may work in."""
        self.mode = mode
        self.known_files = known_files or KnownFiles()
        self.tasks = BackgroundTasks()
        self.is_subagent = False
        self.todos: list[Json] = [*todos]
        self.plan_file: Path | None = None
        """The file that holds the plan, in plan mode."""
        self.web, self.run_subagent = backends.web, backends.run_subagent
        self.back_up, self.is_hidden, self.report_progress = (
            backends.back_up,
            backends.is_hidden,
            backends.report_progress,
        )
        self.sandbox = backends.sandbox
        self.sandbox_levels: dict[str, SandboxLevel] = {}
        """Which calls run in a sandbox, by their ids."""

    def for_subagent(self, backends: ToolBackends) -> ToolContext:
        """Return the context of a subagent."""
        context = ToolContext(self.workspace, self.environment, self.user, mode=self.mode, backends=backends)
        context.question_lock, context.cwd, context.tasks = self.question_lock, self.cwd, self.tasks
        context.is_subagent = True
        return context
