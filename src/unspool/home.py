"""Reading and structure joined: a config folder, project, tree or file in; sessions out.

    import unspool

    home = unspool.open()                    # $CLAUDE_CONFIG_DIR or ~/.claude; also any folder or file
    for session in home.sessions():          # newest first; nothing is read until asked
        print(session.id, session.title, session.cwd)

    session = home.session("945090a1")       # the beginning of an id, a path, an agent's id or a title

Rules
  1. Nothing is read before it is asked for, and then once.
  2. A session is its own file and the files of its agents. Agents beside the session (until 2.0.76) belong to the
     session whose id their lines carry; one file may hold agents of two (204 of those looked at do).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from unspool.errors import NotFound, UnspoolError
from unspool.errors import Usage as WrongUse
from unspool.files.open import open_regular, pieces_of
from unspool.format.entry import BadLine, Entry, Item
from unspool.format.side_files import json
from unspool.graph.agents import Agent, AgentFile, agents
from unspool.graph.messages import Message, messages
from unspool.graph.session_facts_from_entries import Facts, facts
from unspool.graph.threads import Thread, threads
from unspool.graph.tool_calls import ToolCall, tool_calls
from unspool.graph.turns import Turn, turns
from unspool.paths import config_folder, existing, project_name
from unspool.read.chunks import read_at
from unspool.read.scan import Kind, Source, Tree, scan
from unspool.read.tail import items

if TYPE_CHECKING:  # a list of sessions needs neither prices nor context: they are loaded when asked for
    from unspool.graph.context.pairing import ContextMessage
    from unspool.prices.cost import Usage
    from unspool.prices.responses import Response


class Reader:
    """Reads files. Another may know where to look when a file has gone."""

    def items(self, path: Path) -> Iterator[Item]:
        """Yield everything in a file of lines."""
        return items(path)

    def pieces(self, path: Path) -> Iterator[bytes]:
        """Yield the bytes of a file."""
        return pieces_of(path)

    def whole(self, path: Path) -> bytes:
        """Return all bytes of a side file."""
        return b"".join(self.pieces(path))

    def part(self, path: Path, start: int, length: int) -> bytes:
        """Return the bytes of a file from a place on, so many or as many as there are."""
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
        """Where it was found."""
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
        """What could not be read."""
        return tuple(item for item in self.items if isinstance(item, BadLine))

    @cached_property
    def facts(self) -> Facts:
        """What the session is about."""
        return facts(self.entries)

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
        """The project's name: the last part of the folder it worked in, else the key of its place."""
        return project_name(self.cwd, self.source.project)

    @cached_property
    def messages(self) -> list[Message]:
        """Whole API messages."""
        return messages(self.entries)

    @cached_property
    def tool_calls(self) -> list[ToolCall]:
        """Each tool call with its result."""
        return tool_calls(self.entries)

    @cached_property
    def turns(self) -> list[Turn]:
        """A person's prompts and all that followed each."""
        return turns(self.entries)

    @cached_property
    def threads(self) -> list[Thread]:
        """All branches."""
        return threads(self.entries)

    @property
    def thread(self) -> Thread | None:
        """The branch a resumed session goes on from."""
        return next((thread for thread in self.threads if thread.active), None)

    def context(self, leaf: str | None = None) -> list[ContextMessage]:
        """Return what the API would be sent if the session were resumed now."""
        from unspool.graph.context.build import context

        return context(self.entries, leaf)

    @cached_property
    def agent_sources(self) -> tuple[Source, ...]:
        """The files of its agents."""
        return self._home.agents_of(self)

    @cached_property
    def agents(self) -> list[Agent]:
        """Sub-agents, linked to the calls that started them."""
        return agents(self.entries, self.agent_files)

    @cached_property
    def agent_files(self) -> list[AgentFile]:
        """The lines of its agents."""
        return [agent_file(source, self._home, self.id) for source in self.agent_sources]

    @cached_property
    def responses(self) -> list[Response]:
        """What was billed in this session and by its agents, each answer once."""
        from unspool.prices.from_entries import responses
        from unspool.prices.responses import unique

        paths = [self.path, *(source.path for source in self.agent_sources)]
        lines = [self.entries, *(file.entries for file in self.agent_files)]
        found = [
            (str(path), response)
            for path, entries in zip(paths, lines, strict=True)
            for response in responses(entries, str(path))
        ]
        return [counted.response for counted in unique(found)]

    @cached_property
    def usage(self) -> Usage:
        """Tokens and cost of the session and its agents."""
        from unspool.prices.cost import total

        return total(self.responses)


class Home:
    """A folder or file, and the sessions in it."""

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
        """Return the session a person means: the beginning of its id, its file, an agent's id, or its title."""
        sources = list(self.tree.of(Kind.SESSION))
        found = [source for source in sources if name in {source.place, source.path.stem}]
        found = found or [source for source in sources if (source.session_id or "").startswith(name)]
        found = found or self._by_agent(name)
        if not found and (file := _named_file(name)):
            return Session(file, self)
        chosen = [Session(source, self) for source in found] or self._by_title(name)
        if not chosen:
            raise NotFound(f"no such session: `{name}`", hint="`unspool ls` lists what there is")
        if len(chosen) > 1:
            some = ", ".join(f"`{session.id}`" for session in chosen[:3])
            raise WrongUse(f"`{name}` fits {len(chosen)} sessions: {some}", hint="give more of the id")
        return chosen[0]

    def agents_of(self, session: Session) -> tuple[Source, ...]:
        """Return the files of a session's agents: in its own folder, or beside it."""
        inside, beside = self._agents
        if not inside and not beside:
            return ()
        return (*inside.get(session.path.with_suffix(""), []), *beside.get((session.path.parent, session.id), []))

    @cached_property
    def _agents(self) -> tuple[dict[Path, list[Source]], dict[tuple[Path, str | None], list[Source]]]:
        """The agents' files by their session's folder; those beside a session by folder and session."""
        inside: dict[Path, list[Source]] = {}
        beside: dict[tuple[Path, str | None], list[Source]] = {}
        for source in self.tree.of(Kind.AGENT):
            folder = next((above.parent for above in source.path.parents if above.name == "subagents"), None)
            if folder:
                inside.setdefault(folder, []).append(source)
            else:
                for owner in _owners(source, self.reader):
                    beside.setdefault((source.path.parent, owner), []).append(source)
        return inside, beside

    @cached_property
    def metas(self) -> dict[Path, Source]:
        """The agents' meta files, by the path of the agent's own."""
        return {
            source.path.with_name(source.path.name.removesuffix(".meta.json") + ".jsonl"): source
            for source in self.tree.of(Kind.AGENT_META)
        }

    def _by_agent(self, name: str) -> list[Source]:
        named = [source for source in self.tree.of(Kind.AGENT) if name in (source.agent_id, source.path.stem)]
        owners = {
            id
            for source in named
            for id in ([source.session_id] if source.session_id else _owners(source, self.reader))
        }
        return [source for source in self.tree.of(Kind.SESSION) if source.session_id in owners]

    def _by_title(self, name: str) -> list[Session]:
        wanted = name.casefold()
        titled = [(session, _title(session).casefold()) for session in self.sessions() if session.source.size]
        exact = [session for session, title in titled if title == wanted]
        return exact or [session for session, title in titled if wanted in title]


def open(path: str | Path | None = None) -> Home:
    """Open a config folder, a project of it, any tree or a file; else `$CLAUDE_CONFIG_DIR`, else `~/.claude`."""
    return Home(scan(existing(config_folder(str(path) if path else None, os.environ))))


def agent_file(source: Source, home: Home, session_id: str | None = None) -> AgentFile:
    """Read an agent's file and what is said about it beside; of a file that several sessions used, one's own lines."""
    entries = tuple(item for item in home.reader.items(source.path) if isinstance(item, Entry))
    if session_id is not None and source.session_id is None:
        entries = tuple(entry for entry in entries if entry.record.session_id in (None, session_id))
    meta = home.metas.get(source.path)
    return AgentFile(
        id=source.agent_id or source.path.stem,
        entries=entries,
        meta=_meta(meta.path, home.reader) if meta else None,
        in_workflow=any(folder.match("subagents/workflows") for folder in source.path.parents),
    )


def _named_file(name: str) -> Source | None:
    """Return the file of lines that a path leads to."""
    try:
        path = existing(Path(name).expanduser())
    except (NotFound, RuntimeError):  # no such file, no such user
        return None
    return next(scan(path).of(Kind.SESSION, Kind.AGENT), None) if path.is_file() else None


def _title(session: Session) -> str:
    """Return a session's title, none if its file can no longer be read."""
    try:
        return session.title
    except UnspoolError:
        return ""


def _owners(source: Source, reader: Reader) -> list[str]:
    """Return the sessions an agent beside them belongs to: an id may be used again, in the same file."""
    try:
        ids = [item.record.session_id for item in reader.items(source.path) if isinstance(item, Entry)]
    except UnspoolError:  # a file that cannot be read is nobody's; it costs no other agent
        return []
    return list(dict.fromkeys(id for id in ids if id))


def _meta(path: Path, reader: Reader) -> json.AgentMeta | None:
    try:
        return json.parse_agent_meta(reader.whole(path))
    except (UnspoolError, msgspec.DecodeError):
        return None
