"""Prepares a session for sharing: copies what may leave, redacted, and lists every replacement.

Rules
  1. What leaves is decided line by line (`share_lines.py`), then redacted (`redact`). Every format is made from that
     copy, so that nothing else can be in it.
  2. A replacement is named by its marker: the same text has the same one everywhere. One that the user keeps is not
     replaced anywhere; whatever cannot be redacted is not shared.
  3. Lines that are left out leave no gap: the next line follows the last one that is shared.
  4. The surroundings of a replacement are shown from the copy, so that no other secret is in them.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from unspool.display import amount
from unspool.errors import NothingFound, UsageError, turn_not_found
from unspool.export.outline import find_agent_turns, number_sections, parse_turn_range
from unspool.export.share_lines import ShareContent, ShareTally, select_line
from unspool.format import Entry, Item, encode_json
from unspool.home import Home, Reader, Session
from unspool.read import LineChunk, scan
from unspool.redact import RedactionOptions, Redactor, redact_line

FORMATS: Final = ("html", "md", "jsonl")
MAX_PLACES: Final = 50
"""Places of one replacement that are listed; how many there are is said."""
_AROUND: Final = 40
"""Characters that are shown before and after a replacement."""
_MARKER: Final = re.compile(r"\[redacted:([a-z0-9-]{1,40}):([0-9a-f]{10})\]")
_MAX_DEPTH: Final = 200
_ROOT: Final = Path("/shared")
"""Where the files of a copy seem to be."""


class ReplacedPlace(msgspec.Struct, frozen=True):
    """Where a text was replaced."""

    turn: int | None
    agent_id: str | None
    line: int
    """The number of the line in the shared file of the session, or of the agent."""
    field: str
    """The path in the line: `message.content[0].text`."""
    before: str
    after: str
    """What stands around it, with everything else that was replaced."""


class Replacement(msgspec.Struct):
    """A text that is replaced, wherever it stands."""

    id: str
    """The hash in its marker."""
    kind: str
    count: int = 0
    places: list[ReplacedPlace] = []
    """The first of them."""
    kept: bool = False
    """Whether the user wants it to stay."""


class SharePreview(msgspec.Struct):
    """What a shared file will contain."""

    session_id: str
    title: str
    turns: str | None
    content: ShareContent
    shared: dict[str, int]
    """How many prompts, answers, tool calls, results, images and agents leave."""
    left_out: dict[str, int]
    lines: int
    size: int
    """Bytes of the lines."""
    replacements: list[Replacement]

    @property
    def leaves(self) -> list[str]:
        """What leaves, in words: `3 prompts`."""
        return [_amount(name, count) for name, count in self.shared.items() if count]

    @property
    def stays(self) -> list[str]:
        """What stays, in words."""
        return [_amount(name, count) for name, count in self.left_out.items() if count]

    @property
    def replaced(self) -> int:
        """How many texts are replaced."""
        return sum(one.count for one in self.replacements if not one.kept)


def _amount(name: str, count: int) -> str:
    return (
        amount(count, "block of thinking", "blocks of thinking")
        if name == "thinking"
        else amount(count, name[:-1], name)
    )


class ShareRequest(msgspec.Struct, frozen=True):
    """What to share of a session."""

    content: ShareContent = ShareContent()
    turns: str | None = None
    """`3`, `2..5`, `4..`, `-1`; None is all of them."""
    keep: frozenset[str] = frozenset()
    """Replacements that are not made."""


class SharedCopy(NamedTuple):
    """The copy of a session that may leave, and what is in it."""

    session: Session
    """The copy."""
    files: list[Path]
    """Its files: the session's own, then those of its agents."""
    preview: SharePreview


class _CopyReader(Reader):
    """Reads the copy under names that say nothing about this machine: pages show where a line stands."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def items(self, path: Path) -> Iterator[Item]:
        return super().items(self._place(path))

    def pieces(self, path: Path) -> Iterator[bytes]:
        return super().pieces(self._place(path))

    def chunks(self, path: Path) -> Iterator[LineChunk]:
        return super().chunks(self._place(path))

    def part(self, path: Path, start: int, length: int) -> bytes:
        return super().part(self._place(path), start, length)

    def _place(self, path: Path) -> Path:
        return self._folder / path.relative_to(_ROOT)


class _CopiedFile(NamedTuple):
    agent_id: str | None
    lines: list[tuple[int | None, Any]]
    """The number of the turn, and the line, decoded and selected."""
    meta: dict[str, Any]


@contextmanager
def copy_for_sharing(
    session: Session, request: ShareRequest, key: bytes, options: RedactionOptions
) -> Iterator[SharedCopy]:
    """Give a redacted copy of a session, in a folder that is removed at the end."""
    tally = ShareTally()
    copied = _select_files(session, request, tally)
    if not any(line.get("type") in ("user", "assistant") for _, line in copied[0].lines):
        raise NothingFound(
            "there is nothing to share in these turns", hint="include more turns, or more of their content"
        )
    replacements: dict[str, Replacement] = {}
    # Twice if something is kept: the preview also lists what would have been replaced.
    everything = Redactor(key, options)
    redacted = [list(_redact(everything, file, replacements)) for file in copied]
    if request.keep:
        for id in request.keep & replacements.keys():
            replacements[id].kept = True
        redacted = [list(_redact(Redactor(key, options, request.keep), file, {})) for file in copied]
    with tempfile.TemporaryDirectory(prefix="unspool-share-") as folder:
        files = _write_files(Path(folder), session.id, copied, redacted, Redactor(key, options, request.keep))
        yield SharedCopy(
            _open_copy(Path(folder)),
            files,
            SharePreview(
                session_id=session.id,
                title=Redactor(key, options, request.keep).redact_name(session.title or ""),
                turns=request.turns,
                content=request.content,
                shared={**tally.shared, **({"agents": len(copied) - 1} if len(copied) > 1 else {})},
                left_out={name: count for name, count in tally.left_out.items() if count},
                lines=sum(map(len, redacted)),
                size=sum(len(line) + 1 for lines in redacted for line in lines),
                replacements=sorted(replacements.values(), key=lambda one: (one.kind, -one.count, one.id)),
            ),
        )


def read_jsonl(copy: SharedCopy) -> Iterator[bytes]:
    """Yield the copy as one file of lines: the session's, then those of each agent."""
    for path in copy.files:
        yield path.read_bytes()


def _select_files(session: Session, request: ShareRequest, tally: ShareTally) -> list[_CopiedFile]:
    sections = number_sections(session)
    numbers = {entry.offset: section.number for section in sections for entry in section.entries}
    turns = _parse_turns(request.turns, len(session.turns))
    main = _select_entries(session.entries, request.content, tally, numbers, turns)
    files = [_CopiedFile(None, main, {})]
    if not request.content.agents:
        if session.agent_files:
            tally.left_out["agents"] += len(session.agent_files)
        return files
    turn_of = find_agent_turns(session) if turns is not None else {}
    for agent, file in zip(session.agents, session.agent_files, strict=True):
        if turns is not None and turn_of.get(agent.id) not in turns:
            continue
        lines = _select_entries(file.entries, request.content, tally, {}, None)
        call = agent.call.id if agent.call else None
        meta = {"agentType": agent.type, "description": agent.description, "toolUseId": call}
        files.append(_CopiedFile(agent.id, lines, {name: value for name, value in meta.items() if value}))
    return files


def _parse_turns(text: str | None, count: int) -> range | None:
    if not text:
        return None
    numbers = parse_turn_range(text, count)
    if numbers is None:
        raise UsageError(f"not turns: `{text}`", hint="use for example `3`, `-1`, `2..5` or `4..`")
    if not numbers:
        raise turn_not_found(text, amount(count, "turn"))
    return numbers


def _select_entries(
    entries: Collection[Entry],
    content: ShareContent,
    tally: ShareTally,
    numbers: Mapping[int, int],
    turns: range | None,
) -> list[tuple[int | None, Any]]:
    """Return what may be shared of some lines; each follows the last one before it that is shared."""
    parents: dict[str, str | None] = {}
    kept: dict[str, dict[str, Any]] = {}
    lines: list[tuple[int | None, Any]] = []
    for entry in entries:
        line = _decode(entry)
        number = numbers.get(entry.offset)
        is_title = isinstance(line, dict) and line.get("type") in ("ai-title", "custom-title")
        if (turns is not None and number not in turns and not is_title) or (
            not content.agents and isinstance(line, dict) and line.get("isSidechain") is True
        ):
            chosen = None
        else:
            chosen = select_line(line, content, tally)
        uuid, parent = (line.get("uuid"), line.get("parentUuid")) if isinstance(line, dict) else (None, None)
        if isinstance(uuid, str):
            parents[uuid] = parent if isinstance(parent, str) else None
        if chosen is not None:
            lines.append((number, chosen))
            if isinstance(uuid, str):
                kept[uuid] = chosen
    for uuid, line in kept.items():
        if line.get("parentUuid") is not None:
            line["parentUuid"] = _nearest(parents.get(uuid), parents, kept)
    return lines


def _nearest(uuid: str | None, parents: Mapping[str, str | None], kept: Mapping[str, Any]) -> str | None:
    """Return the nearest line before one that is shared."""
    seen: set[str] = set()  # damaged files may form a circle
    while uuid is not None and uuid not in kept and uuid not in seen:
        seen.add(uuid)
        uuid = parents.get(uuid)
    return uuid if uuid in kept else None


def _decode(entry: Entry) -> Any:
    try:
        return msgspec.json.decode(entry.raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _redact(redactor: Redactor, file: _CopiedFile, found: dict[str, Replacement]) -> Iterator[bytes]:
    """Yield the lines of a file after redaction, and note what was replaced."""
    for number, (turn, line) in enumerate(file.lines, 1):
        data = encode_json(line)
        redacted = redact_line(redactor, data)
        text = redacted.text.encode("utf-8", "replace")
        if redacted.hits:
            already = {match[2] for match in _MARKER.finditer(data.decode("utf-8", "replace"))}
            for field, string in _strings(_decode_text(text)):
                for match in _MARKER.finditer(string):
                    if match[2] not in already:
                        replacement = found.setdefault(match[2], Replacement(match[2], match[1], places=[]))
                        replacement.count += 1
                        if len(replacement.places) < MAX_PLACES:
                            # Short names for other replacements, so that none is cut in the middle.
                            before = _MARKER.sub(r"[\1]", string[: match.start()])[-_AROUND:]
                            after = _MARKER.sub(r"[\1]", string[match.end() :][: 4 * _AROUND])[:_AROUND]
                            replacement.places.append(ReplacedPlace(turn, file.agent_id, number, field, before, after))
        yield text


def _decode_text(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data.decode("utf-8", "replace")


def _strings(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield every string of a JSON value, keys too, with its path."""
    if isinstance(value, str):
        yield path, value
    elif depth > _MAX_DEPTH:
        return
    elif isinstance(value, dict):
        for key, item in value.items():
            yield path, key
            yield from _strings(item, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _strings(item, f"{path}[{index}]", depth + 1)


def _open_copy(folder: Path) -> Session:
    tree = scan(folder)
    sources = [source._replace(place=str(_ROOT / source.path.relative_to(folder))) for source in tree.sources]
    return next(Home(tree._replace(root=_ROOT, sources=tuple(sources)), _CopyReader(folder)).sessions())


def _write_files(
    folder: Path, session_id: str, copied: list[_CopiedFile], redacted: list[list[bytes]], redactor: Redactor
) -> list[Path]:
    project = folder / "projects" / "shared"
    agents = project / session_id / "subagents"
    agents.mkdir(parents=True)
    files = []
    for file, lines in zip(copied, redacted, strict=True):
        path = project / f"{session_id}.jsonl" if file.agent_id is None else agents / f"agent-{file.agent_id}.jsonl"
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        if file.meta:
            text = redact_line(redactor, encode_json(file.meta)).text
            path.with_suffix(".meta.json").write_text(text, "utf-8", "replace")
        files.append(path)
    return files
