"""Opens a config folder, project, tree or file and gives its sessions as `Home` and `Session` objects.

    import unspool

    home = unspool.open()                    # $CLAUDE_CONFIG_DIR or ~/.claude; also any folder or file
    for session in home.sessions():          # newest first; nothing is read before it is used
        print(session.id, session.title, session.cwd)

    session = home.session("945090a1")       # the beginning of an id, a path, an agent's id or a title

Rules
  1. Nothing is read before it is used, and then once.
  2. A session is its own file and the files of its agents. Agents beside the session (until 2.0.76) belong to the
     session whose id their lines carry; one file may hold agents of two (204 of those examined do).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from unspool.errors import NotFound, UnspoolError, UsageError
from unspool.files import open_regular, read_pieces
from unspool.format import BadLine, Entry, Item
from unspool.format.side_files import json
from unspool.graph import (
    Agent,
    AgentFile,
    SessionFacts,
    Thread,
    ToolCall,
    Turn,
    WholeMessage,
    collect_facts,
    find_threads,
    find_tool_calls,
    group_messages,
    link_agents,
    split_turns,
)
from unspool.paths import config_folder, project_name, resolve_existing
from unspool.read import Kind, Source, Tree, read_at, read_items, scan

if TYPE_CHECKING:  # start-up: a list of sessions needs neither prices nor context, so they are imported where used
    from unspool.graph.context import ContextMessage
    from unspool.prices import Response, UsageTotals


class Reader:
    """Reads the files of sessions; the store has a subclass that falls back to its archive."""

    def items(self, path: Path) -> Iterator[Item]:
        """Yield everything in a file of lines."""
        return read_items(path)

    def pieces(self, path: Path) -> Iterator[bytes]:
        """Yield the bytes of a file."""
        return read_pieces(path)

    def whole(self, path: Path) -> bytes:
        """Return all bytes of a side file."""
        return b"".join(self.pieces(path))

    def part(self, path: Path, start: int, length: int) -> bytes:
        """Return up to `length` bytes of a file from an offset on."""
        with open_regular(path) as file:
            return read_at(file, start, length, path)


class Session:
    """One session: its file and those of its agents."""

    def __init__(self, source: Source, home: Home) -> None:
        self.source = source
        self._home = home

    @property
    def id(self) -> str:
        """The session's id: the name of its file."""
        return self.source.session_id or self.source.path.stem

    @property
    def path(self) -> Path:
        """The session's file."""
        return self.source.path

    @property
    def home(self) -> Home:
        """The home it was found in."""
        return self._home

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """Everything in the file: entries, bad lines, blanks."""
        return tuple(self._home.reader.items(self.path))

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Every line with its record, in file order."""
        return tuple(item for item in self.items if isinstance(item, Entry))

    @property
    def bad_lines(self) -> tuple[BadLine, ...]:
        """The lines that could not be decoded."""
        return tuple(item for item in self.items if isinstance(item, BadLine))

    @cached_property
    def facts(self) -> SessionFacts:
        """The facts that a list shows: title, times, counts."""
        return collect_facts(self.entries)

    @property
    def title(self) -> str:
        """The title: a person's, a model's, or the first prompt."""
        return self.facts.title

    @property
    def cwd(self) -> str | None:
        """The folder it worked in."""
        return self.facts.cwd

    @property
    def project(self) -> str | None:
        """The project's name: the last part of the folder it worked in, else the name of its project folder."""
        return project_name(self.cwd, self.source.project)

    @cached_property
    def messages(self) -> list[WholeMessage]:
        """Whole API messages."""
        return group_messages(self.entries)

    @cached_property
    def tool_calls(self) -> list[ToolCall]:
        """Each tool call with its result."""
        return find_tool_calls(self.entries)

    @cached_property
    def turns(self) -> list[Turn]:
        """The prompts of a person, each with the lines after it."""
        return split_turns(self.entries)

    @cached_property
    def threads(self) -> list[Thread]:
        """All branches, oldest leaf first."""
        return find_threads(self.entries)

    @property
    def thread(self) -> Thread | None:
        """The branch a resumed session continues from."""
        return next((thread for thread in self.threads if thread.active), None)

    def context(self, leaf: str | None = None) -> list[ContextMessage]:
        """Return what the API would be sent if the session were resumed now."""
        from unspool.graph.context import build_context

        return build_context(self.entries, leaf)

    @cached_property
    def agent_sources(self) -> tuple[Source, ...]:
        """The files of its agents."""
        return self._home.agents_of(self)

    @cached_property
    def agents(self) -> list[Agent]:
        """Sub-agents, linked to the calls that started them."""
        return link_agents(self.entries, self.agent_files)

    @cached_property
    def agent_files(self) -> list[AgentFile]:
        """The lines of its agents."""
        return [read_agent_file(source, self._home, self.id) for source in self.agent_sources]

    @cached_property
    def responses(self) -> list[Response]:
        """The billed responses of the session and its agents, each once."""
        from unspool.prices import count_once, responses_of_entries

        paths = [self.path, *(source.path for source in self.agent_sources)]
        lines = [self.entries, *(file.entries for file in self.agent_files)]
        responses = [
            (str(path), response)
            for path, entries in zip(paths, lines, strict=True)
            for response in responses_of_entries(entries, str(path))
        ]
        return [counted.response for counted in count_once(responses)]

    @cached_property
    def usage(self) -> UsageTotals:
        """Tokens and cost of the session and its agents."""
        from unspool.prices import total_usage

        return total_usage(self.responses)


class Home:
    """A folder or file that was opened, and its sessions."""

    def __init__(self, tree: Tree, reader: Reader | None = None) -> None:
        self.tree = tree
        self.reader = reader or Reader()

    @property
    def root(self) -> Path:
        """What was opened."""
        return self.tree.root

    def sessions(self) -> Iterator[Session]:
        """Yield the sessions, the one changed last first."""
        for source in sorted(self.tree.of(Kind.SESSION), key=lambda source: source.modified, reverse=True):
            yield Session(source, self)

    def session(self, name: str) -> Session:
        """Return the session with this name: the beginning of its id, its file, an agent's id, or its title."""
        sources = list(self.tree.of(Kind.SESSION))
        # From the cheapest to the dearest: agents' files may have to be read, and a title needs every session's file.
        matches = (
            [source for source in sources if name in {source.place, source.path.stem}]
            or [source for source in sources if (source.session_id or "").startswith(name)]
            or self._find_by_agent(name)
        )
        if not matches and (file := _find_named_file(name)):
            return Session(file, self)
        sessions = [Session(source, self) for source in matches] or self._find_by_title(name)
        if not sessions:
            raise NotFound(f"no such session: `{name}`", hint="`unspool ls` lists what there is")
        if len(sessions) > 1:
            some = ", ".join(f"`{session.id}`" for session in sessions[:3])
            raise UsageError(f"`{name}` fits {len(sessions)} sessions: {some}", hint="give more of the id")
        return sessions[0]

    def agents_of(self, session: Session) -> tuple[Source, ...]:
        """Return the files of a session's agents: in its own folder, or beside it."""
        inside, beside = self._agents
        return (*inside.get(session.path.with_suffix(""), []), *beside.get((session.path.parent, session.id), []))

    @cached_property
    def _agents(self) -> tuple[dict[Path, list[Source]], dict[tuple[Path, str | None], list[Source]]]:
        """The files of agents by the folder of their session; those beside a session by folder and session id."""
        inside: dict[Path, list[Source]] = {}
        beside: dict[tuple[Path, str | None], list[Source]] = {}
        for source in self.tree.of(Kind.AGENT):
            folder = next((above.parent for above in source.path.parents if above.name == "subagents"), None)
            if folder:
                inside.setdefault(folder, []).append(source)
            else:  # until 2.0.76 agents lay beside the session, and only their lines tell whose they are
                for owner in _find_owners(source, self.reader):
                    beside.setdefault((source.path.parent, owner), []).append(source)
        return inside, beside

    @cached_property
    def metas(self) -> dict[Path, Source]:
        """The meta files of agents, by the path of the agent's own file."""
        return {
            source.path.with_name(source.path.name.removesuffix(".meta.json") + ".jsonl"): source
            for source in self.tree.of(Kind.AGENT_META)
        }

    def _find_by_agent(self, name: str) -> list[Source]:
        named = [source for source in self.tree.of(Kind.AGENT) if name in (source.agent_id, source.path.stem)]
        owners = {
            id
            for source in named
            for id in ([source.session_id] if source.session_id else _find_owners(source, self.reader))
        }
        return [source for source in self.tree.of(Kind.SESSION) if source.session_id in owners]

    def _find_by_title(self, name: str) -> list[Session]:
        text = name.casefold()
        titled = [(session, _read_title(session).casefold()) for session in self.sessions() if session.source.size]
        exact = [session for session, title in titled if title == text]
        return exact or [session for session, title in titled if text in title]


def open(path: str | Path | None = None) -> Home:
    """Open a config folder, a project of it, any tree or a file; else `$CLAUDE_CONFIG_DIR`, else `~/.claude`."""
    return Home(scan(resolve_existing(config_folder(str(path) if path else None, os.environ))))


def read_agent_file(source: Source, home: Home, session_id: str | None = None) -> AgentFile:
    """Read the file of an agent and its meta file; of a file that several sessions used, only the lines of one."""
    entries = tuple(item for item in home.reader.items(source.path) if isinstance(item, Entry))
    if session_id is not None and source.session_id is None:
        entries = tuple(entry for entry in entries if entry.record.session_id in (None, session_id))
    meta = home.metas.get(source.path)
    return AgentFile(
        id=source.agent_id or source.path.stem,
        entries=entries,
        meta=_read_meta(meta.path, home.reader) if meta else None,
        in_workflow=any(folder.match("subagents/workflows") for folder in source.path.parents),
    )


def _find_named_file(name: str) -> Source | None:
    """Return the session or agent file at a path."""
    try:
        path = resolve_existing(Path(name).expanduser())
    except (NotFound, RuntimeError):  # no such file, no such user
        return None
    return next(scan(path).of(Kind.SESSION, Kind.AGENT), None) if path.is_file() else None


def _read_title(session: Session) -> str:
    """Return the title of a session; empty if its file can no longer be read."""
    try:
        return session.title
    except UnspoolError:
        return ""


def _find_owners(source: Source, reader: Reader) -> list[str]:
    """Return the ids of the sessions that an agent's file belongs to: an id may be used again, in the same file."""
    try:
        ids = [item.record.session_id for item in reader.items(source.path) if isinstance(item, Entry)]
    except UnspoolError:  # an unreadable file belongs to no session and must not hide the other agents
        return []
    return list(dict.fromkeys(id for id in ids if id))


def _read_meta(path: Path, reader: Reader) -> json.AgentMeta | None:
    try:
        return json.parse_object(reader.whole(path), json.AgentMeta)
    except (UnspoolError, msgspec.DecodeError):
        return None
