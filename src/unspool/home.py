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
  3. Each billed response belongs to one session of a home (`prices/bill.py`), so the usage of all sessions
     adds up to that of the home. A file that was opened alone has all responses on its lines.
  4. A session whose own file is missing, and that has agents, is the first of its agents' files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from unspool.errors import AmbiguousSession, NotFound, UnspoolError, empty_session_name, session_not_found
from unspool.files import open_regular, read_at, read_pieces
from unspool.format import Assistant, BadLine, Entry, Item
from unspool.format.side_files import json
from unspool.graph import (
    Thread,
    ToolCall,
    Turn,
    WholeMessage,
    find_threads,
    find_tool_calls,
    group_messages,
    split_turns,
)
from unspool.other_agents import translate_folder
from unspool.paths import config_folder, data_folder, project_name, resolve_existing
from unspool.read import Kind, LineChunk, Skipped, Source, Tree, read_items, read_line_chunks, scan

# Start-up: a list of sessions needs neither prices nor context, and an edit neither facts nor, mostly, agents. They are
# imported where they are used.
if TYPE_CHECKING:
    from unspool.graph import Agent, AgentFile, SessionFacts
    from unspool.graph.context import ContextMessage
    from unspool.prices import Response, SessionFinder, UsageTotals


class Reader:
    """Reads the files of sessions; the store has a subclass that falls back to its archive."""

    def items(self, path: Path) -> Iterator[Item]:
        """Yield everything in a file of lines."""
        return read_items(path)

    def pieces(self, path: Path) -> Iterator[bytes]:
        """Yield the bytes of a file."""
        return read_pieces(path)

    def chunks(self, path: Path) -> Iterator[LineChunk]:
        """Yield the whole lines of a file, many at a time."""
        return read_line_chunks(str(path))

    def whole(self, path: Path) -> bytes:
        """Return all bytes of a side file."""
        return b"".join(self.pieces(path))

    def part(self, path: Path, start: int, length: int) -> bytes:
        """Return up to `length` bytes of a file from an offset on."""
        with open_regular(path) as file:
            return read_at(file, start, length, path)


class Session:
    """One session: its file and those of its agents."""

    def __init__(self, source: Source, home: Home, own_path: Path | None = None) -> None:
        """Take the session's file; if that is missing, an agent's file and `own_path`, where the session's would be."""
        self.source = source
        self._home = home
        self._own_path = own_path

    def __repr__(self) -> str:
        return f"<Session {self.id}>"

    @property
    def id(self) -> str:
        """The session's id: the name of its file."""
        return self.source.session_id or self.source.path.stem

    @property
    def path(self) -> Path:
        """The session's file."""
        return self.source.path

    @property
    def is_missing(self) -> bool:
        """Whether its own file is missing, so that the first of its agents' files stands for it."""
        return self._own_path is not None

    @property
    def own_path(self) -> Path:
        """The path of its own file, whether that is there or not."""
        return self._own_path or self.path

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
        from unspool.graph import collect_facts

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
        from unspool.graph import link_agents

        return link_agents(self.entries, self.agent_files)

    @cached_property
    def agent_files(self) -> list[AgentFile]:
        """The lines of its agents."""
        return [read_agent_file(source, self._home, self.id) for source in self.agent_sources]

    @cached_property
    def responses(self) -> list[Response]:
        """The billed responses that the session pays for, with those of its agents.

        Forks and resumed sessions repeat responses: each is in one session of the home, and all files are read to know
        which. The session of a file that was opened alone has all that are on its lines, each once.
        """
        paid = self._home.responses_of(self)
        return self._own_responses() if paid is None else paid

    def _own_responses(self) -> list[Response]:
        """Return the responses on the lines of the session and its agents, each once, whoever pays for them."""
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
        """Tokens and cost of `responses`: the usage of all sessions of a home adds up to that of the home."""
        from unspool.prices import total_usage

        return total_usage(self.responses)


class Home:
    """A folder or file that was opened, and its sessions."""

    def __init__(self, tree: Tree, reader: Reader | None = None) -> None:
        self.tree = tree
        self.reader = reader or Reader()
        self._known_owners: dict[str, list[str]] = {}
        self._skipped: dict[Path, Skipped] = {}

    def skip(self, skipped: Skipped) -> None:
        """Note a file that could not be read."""
        self._skipped.setdefault(skipped.path, skipped)

    @property
    def skipped(self) -> list[Skipped]:
        """The folders that could not be listed, and the files of agents that could not be read so far."""
        return sorted({one.path: one for one in (*self.tree.skipped, *self._skipped.values())}.values())

    @property
    def root(self) -> Path:
        """What was opened."""
        return self.tree.root

    def sessions(self) -> Iterator[Session]:
        """Yield the sessions, the one changed last first; then those whose own file is missing."""
        for source in sorted(self.tree.of(Kind.SESSION), key=lambda source: source.modified, reverse=True):
            yield Session(source, self)
        yield from self._missing_sessions

    def session(self, name: str) -> Session:
        """Return the session with this name: the beginning of its id, its file, an agent's id, or its title.

        Of several files with one session's id, the one that was changed last is meant.
        """
        if not name.strip():
            raise empty_session_name()
        sources = list(self.tree.of(Kind.SESSION))
        # The cheapest first: agents' files may have to be read, and a title needs every session's file.
        matches = [source for source in sources if name in {source.place, source.path.stem}] or [
            source for source in sources if (source.session_id or "").startswith(name)
        ]
        missing = [session for session in self._missing_sessions if session.id == name] if not matches else []
        sessions = [Session(source, self) for source in matches] or missing or self._find_by_agent(name)
        if not sessions and (file := _find_named_file(name)):
            return Session(file, self)
        missing = [session for session in self._missing_sessions if session.id.startswith(name)] if not sessions else []
        sessions = sessions or missing or self._find_by_title(name)
        if not sessions:
            raise session_not_found(name)
        if len({session.id for session in sessions}) > 1:
            raise AmbiguousSession(name, sessions)
        # A file that is only in the archive comes after those that are there.
        return max(sessions, key=lambda session: (session.path.exists(), session.source.modified))

    def responses_of(self, session: Session) -> list[Response] | None:
        """Return the responses that a session pays for; None if it is not one of the home's sessions."""
        if session.source.kind is Kind.AGENT and not session.is_missing:
            return None
        if session.source.place not in self._places:
            return None
        return self._paid.get(str(session.own_path), [])

    def find_paying_file(self, file: str, session_id: str) -> str:
        """Return the path of the own file of the session that pays for what is in a file: two files may have one id."""
        return self._finder.find(file, session_id)

    def agents_of(self, session: Session) -> tuple[Source, ...]:
        """Return the files of a session's agents: in its own folder, or beside it."""
        inside, beside = self._agents
        own = session.own_path
        files = (*inside.get(own.with_suffix(""), []), *beside.get((own.parent, session.id), []))
        return tuple(file for file in files if file.path != session.path)

    def agent_owners(self) -> Iterator[tuple[Source, str]]:
        """Yield each agent's file with each session that it belongs to."""
        for source in self.tree.of(Kind.AGENT):
            owners = [source.session_id] if source.session_id else self._owners(source)
            for owner in owners:
                yield source, owner

    @cached_property
    def _places(self) -> frozenset[str]:
        return frozenset(source.place for source in self.tree.of(Kind.SESSION, Kind.AGENT))

    @cached_property
    def _finder(self) -> SessionFinder:
        return self._make_finder()

    def _make_finder(self) -> SessionFinder:
        from unspool.prices import SessionFinder

        return SessionFinder((source.place, source.session_id or source.path.stem) for source in self._own_files)

    @cached_property
    def _own_files(self) -> list[Source]:
        """The files of sessions, in the order of their paths."""
        return sorted(self.tree.of(Kind.SESSION), key=lambda source: source.place)

    @cached_property
    def _missing_sessions(self) -> list[Session]:
        """The sessions of which there are only agents."""
        finder, sources = self._make_finder(), {source.place: source for source in self.tree.of(Kind.AGENT)}
        for source, owner in self.agent_owners():
            finder.find(source.place, owner)
        return [
            Session(sources[files[0]]._replace(session_id=id), self, Path(own))
            for own, (id, files) in finder.missing.items()
        ]

    @cached_property
    def _paid(self) -> dict[str, list[Response]]:
        """The responses of all files, each once, by the path of the own file of the session that pays."""
        from unspool.prices import LineCounter, ResponseCounter, attribute_responses, count_text

        counter = ResponseCounter[str]()
        sources = {source.place: source for source in self.tree.of(Kind.SESSION, Kind.AGENT)}
        for place, source in sources.items():
            tally = LineCounter(counter, place, place)
            try:
                for chunk in self.reader.chunks(source.path):
                    count_text(tally, *chunk)
            except UnspoolError:
                pass  # a file that cannot be read costs no other
            tally.finish()
        finder = self._make_finder()
        paid: dict[str, list[Response]] = {}
        for place, response in counter.responses():
            (attributed,) = attribute_responses([response], place, sources[place].session_id)
            paid.setdefault(finder.find(place, attributed.session_id or ""), []).append(attributed)
        return paid

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
                for owner in self._owners(source):
                    beside.setdefault((source.path.parent, owner), []).append(source)
        return inside, beside

    @cached_property
    def metas(self) -> dict[Path, Source]:
        """The meta files of agents, by the path of the agent's own file."""
        return {
            source.path.with_name(source.path.name.removesuffix(".meta.json") + ".jsonl"): source
            for source in self.tree.of(Kind.AGENT_META)
        }

    def _find_by_agent(self, name: str) -> list[Session]:
        named = [source for source in self.tree.of(Kind.AGENT) if name in (source.agent_id, source.path.stem)]
        owners = {id for source in named for id in ([source.session_id] if source.session_id else self._owners(source))}
        found = [Session(source, self) for source in self.tree.of(Kind.SESSION) if source.session_id in owners]
        return found or [session for session in self._missing_sessions if session.id in owners]

    def _owners(self, source: Source) -> list[str]:
        """Return the sessions that an agent's file beside them belongs to; the file is read once."""
        if source.place not in self._known_owners:
            self._known_owners[source.place] = _find_owners(source, self.reader)
        return self._known_owners[source.place]

    def _find_by_title(self, name: str) -> list[Session]:
        text = name.casefold()
        sessions = (session for session in self.sessions() if session.source.size and not session.is_missing)
        titled = [(session, _read_title(session).casefold()) for session in sessions]
        exact = [session for session, title in titled if title == text]
        return exact or [session for session, title in titled if text in title]


def open(path: str | Path | None = None) -> Home:
    """Open a config folder, a project of it, any tree or a file; else `$CLAUDE_CONFIG_DIR`, else `~/.claude`."""
    root, skipped = translate_folder(
        resolve_existing(config_folder(str(path) if path else None, os.environ)), data_folder(os.environ)
    )
    home = Home(scan(root))
    for one in skipped:
        home.skip(one)
    return home


def read_agent_file(source: Source, home: Home, session_id: str | None = None) -> AgentFile:
    """Read the file of an agent and its meta file; of a file that several sessions used, only the lines of one."""
    from unspool.graph import AgentFile

    try:
        entries = tuple(item for item in home.reader.items(source.path) if isinstance(item, Entry))
    except UnspoolError as error:  # the session and its other agents can be read without it
        home.skip(Skipped(source.path, error.reason))
        entries = ()
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
    """Return the ids of the sessions that an agent's file belongs to: an id may be used again, in the same file.

    A billed line without an id belongs to the session with the name of the file (`prices/bill.py`, rule 6).
    """
    try:
        ids = [
            item.record.session_id or (source.path.stem if isinstance(item.record, Assistant) else None)
            for item in reader.items(source.path)
            if isinstance(item, Entry)
        ]
    except UnspoolError:  # an unreadable file belongs to no session and must not hide the other agents
        return []
    return list(dict.fromkeys(id for id in ids if id))


def _read_meta(path: Path, reader: Reader) -> json.AgentMeta | None:
    try:
        return json.parse_object(reader.whole(path), json.AgentMeta)
    except (UnspoolError, msgspec.DecodeError):
        return None
