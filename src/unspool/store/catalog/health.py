"""What the store can say about itself, its archive, what will be deleted soon, and Claude Code's own statistics.

In: the folder of the store, a tree. Out: data.

Rules
  1. Nothing is made, mended or locked here. A store that is damaged is told of, not raised.
  2. What the archive has is asked of the archive alone: a damaged store does not hide it.
  3. Claude Code deletes sessions in the `projects` of a config folder, by the time their files last changed.
  4. Statistics are compared up to the last day they cover, by days of UTC. A session and all in it are of the day it
     began; tokens are of the day of their response.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from unspool.errors import Unreadable, UnspoolError
from unspool.files.open import read_whole
from unspool.format.side_files.settings import parse_settings
from unspool.read.scan import Kind, Source, Tree
from unspool.store.archive.archive import Archive
from unspool.store.database import ARCHIVE, STORE, telling
from unspool.store.sync.changes import WITHIN, unindexed, within
from unspool.store.usage.ledger import Ledger, Wanted

KEPT_DAYS: Final = 30
"""How long Claude Code keeps a session that has not changed, if its settings do not say."""

SOON: Final = timedelta(days=7)

_SETTINGS = ("settings.json", "settings.local.json")
"""Where the number of days may stand; the last that says it holds."""

_LIMIT = 4_000_000
_DAY = 86_400_000_000_000
"""Nanoseconds."""


class Condition(NamedTuple):
    """How a store is. What is not known is None."""

    folder: str
    sound: bool
    """Whether it can be used: whole, and of a version that this unspool knows. One that is not there yet is sound."""
    message: str | None
    hint: str | None
    version: int | None
    """Of the tables."""
    archive: bool
    """Whether the archive is on."""
    store_bytes: int
    archive_bytes: int
    """Of the files, with what is not yet merged into them."""
    column_bytes: int
    """Of the column files of `unspool sql`, which can be deleted."""
    raw_bytes: int | None
    """What the archive keeps."""
    archived_bytes: int | None
    """What that takes, compressed."""
    folders: int | None
    files: int | None
    gone_files: int | None
    generations: int | None
    """How often a file became another one: generations above the first."""
    passages: int | None
    """Texts in the index."""
    unindexed_bytes: int | None
    """What was read, and is not in the index yet."""


class Leaving(NamedTuple):
    """A session that Claude Code deletes soon."""

    session: str
    path: str
    when: datetime
    """From then on, the next time that it is started."""
    days: int
    archived: bool | None
    """Whether the archive has all of it; nothing if that is not known."""


class Kept(NamedTuple):
    """A session that only the archive has."""

    session: str
    path: str
    title: str | None
    bytes: int
    modified: datetime
    """When its file last changed."""


class Compared(msgspec.Struct, frozen=True):
    """A number of Claude Code's beside one of ours."""

    theirs: int | None
    ours: int
    difference: int | None
    """Ours without theirs."""


class DayCompared(msgspec.Struct, frozen=True):
    """A day that both know."""

    date: str
    messages: Compared
    sessions: Compared
    tool_calls: Compared
    tokens: dict[str, Compared]
    """Input and output by model, without the cache: as they count them."""


class StatsDifference(msgspec.Struct, frozen=True):
    """How `stats-cache.json` and the store differ."""

    path: str
    version: int | None
    last_computed_date: str | None
    messages: Compared
    sessions: Compared
    tool_calls: Compared
    models: dict[str, dict[str, Compared]]
    """Input, output, cache reads and cache writes of each model."""
    days: list[DayCompared]


def condition(folder: Path, *, archive: bool, complaint: UnspoolError | None = None) -> Condition:
    """Look a store over, every page of it. `complaint` is what was wrong when it was to be used."""
    told = [complaint] if complaint else []
    store: tuple[int | None, ...] = (None,) * 7
    sizes: tuple[int | None, ...] = (None,) * 2
    try:
        store = _counts(folder)
    except UnspoolError as error:
        told.append(error)
    try:
        sizes = _sizes(folder)
    except UnspoolError as error:
        told.append(error)
    version, folders, files, gone, generations, passages, unindexed = store
    return Condition(
        folder=str(folder),
        sound=not told,
        message=told[0].message if told else None,
        hint=told[0].hint if told else None,
        version=version,
        archive=archive,
        store_bytes=_bytes(folder / STORE),
        archive_bytes=_bytes(folder / ARCHIVE),
        column_bytes=sum(path.stat().st_size for path in (folder / "columns").rglob("*") if path.is_file()),
        raw_bytes=sizes[0],
        archived_bytes=sizes[1],
        folders=folders,
        files=files,
        gone_files=gone,
        generations=generations,
        passages=passages,
        unindexed_bytes=unindexed,
    )


def leaving(tree: Tree, folder: Path, now: datetime, *, ask: bool = True) -> list[Leaving]:
    """Return the sessions of a tree that Claude Code deletes soon, the first to go first.

    `ask` whether the archive in `folder` has them.
    """
    days: dict[Path, int] = {}
    found = []
    for source in tree.of(Kind.SESSION):
        config = _config(source.path)
        if config is None:
            continue
        if config not in days:
            days[config] = kept_days(config)
        when = source.modified + days[config] * _DAY
        if when <= (now + SOON).timestamp() * 1e9:  # what is kept for ages has no date that could be written
            found.append((_moment(when), days[config], source))
    has = _archived(folder, [source for _, _, source in found]) if ask else {}
    return sorted(
        (
            Leaving(source.session_id or source.path.stem, source.place, when, kept, has.get(source.place))
            for when, kept, source in found
        ),
        key=lambda one: (one.when, one.path),
    )


def kept_days(config: Path) -> int:
    """Return how many days Claude Code keeps the sessions of a config folder; 0 is until it is started again."""
    days = KEPT_DAYS
    for name in _SETTINGS:
        try:
            said = parse_settings(read_whole(config / name, _LIMIT)).cleanup_period_days
        except (UnspoolError, msgspec.DecodeError):  # not there, or not readable: the survey has said so
            continue
        if said is not None and said >= 0:
            days = said
    return days


def archive_only(tree: Tree, folder: Path, titles: Mapping[str, str]) -> list[Kept]:
    """Return the sessions that were in a tree and that only the archive has, the one changed last first."""
    there = {source.session_id or source.path.stem for source in tree.of(Kind.SESSION)}
    unread = tuple(f"{skipped.path}{os.sep}" for skipped in tree.skipped)  # what lies there has not gone
    query = f"""SELECT session_id, path, id, max(generation), modified FROM sources
        WHERE kind = '{Kind.SESSION.value}' AND {WITHIN} GROUP BY path ORDER BY modified DESC, path"""
    found: dict[str, Kept] = {}
    with _reading(folder, ARCHIVE) as database:
        if database is None:
            return []
        for id, path, source, _, modified in database.execute(query, within(tree.root)).fetchall():
            session = id or Path(path).stem
            if session in there or session in found or f"{path}{os.sep}".startswith(unread):
                continue
            (length,) = database.execute(_LENGTH, (source,)).fetchone()
            found[session] = Kept(session, path, titles.get(session), length, _moment(modified))
    return list(found.values())


def titles(database: sqlite3.Connection, root: Path) -> dict[str, str]:
    """Return what the sessions are called whose files have gone."""
    query = f"""SELECT sessions.session_id, title FROM sessions JOIN sources ON sources.id = sessions.source_id
        WHERE {WITHIN} AND gone IS NOT NULL"""
    return dict(database.execute(query, within(root)).fetchall())


def stats_difference(database: sqlite3.Connection, root: Path, ledger: Ledger) -> StatsDifference | None:
    """Compare the statistics of a config folder with what the store has of it; nothing if there are none."""
    path = str(root / "stats-cache.json")
    query = """SELECT source_id, version, last_computed_date, total_messages, total_sessions FROM stats
        JOIN sources ON sources.id = source_id WHERE path = ? AND gone IS NULL"""
    row = database.execute(query, (path,)).fetchone()
    if row is None:
        return None
    source, version, last, *totals = row
    begun = _begun(database, root, last)
    used = _used(ledger, last)
    days = {date: counts for date, *counts in database.execute(_DAYS, (source,))}
    sums = [sum(day[place] or 0 for day in days.values()) if days else None for place in range(3)]
    theirs = [*(said if said is not None else sums[place] for place, said in enumerate(totals)), sums[2]]
    ours = [sum(day[place] for day in begun.values()) for place in range(3)]
    messages, sessions, tool_calls = map(_compared, theirs, ours)
    models, compared = _models(database, source, used), _days(days, _day_models(database, source), begun, used)
    return StatsDifference(path, version, last, messages, sessions, tool_calls, models, compared)


_DAYS = "SELECT date, message_count, session_count, tool_call_count FROM stats_days WHERE source_id = ?"


def _begun(database: sqlite3.Connection, root: Path, last: str | None) -> dict[str, list[int]]:
    """Return messages, sessions and tool calls of the sessions that began on each day."""
    query = f"""SELECT date(started) AS day, sum(messages), count(*), sum(tool_calls)
        FROM sessions JOIN sources ON sources.id = sessions.source_id
        WHERE {WITHIN} AND day <= coalesce(:last, day) GROUP BY day"""
    return {day: counts for day, *counts in database.execute(query, {**within(root), "last": last})}


def _used(ledger: Ledger, last: str | None) -> dict[tuple[str, str], list[int]]:
    """Return input, output, cache reads and cache writes by day and model."""
    used: dict[tuple[str, str], list[int]] = {}
    for row in ledger.sums(Wanted()):
        if row.time is None or not row.model:
            continue
        day = (_EPOCH + timedelta(milliseconds=row.time)).date().isoformat()
        if last is not None and day > last:
            continue
        writes = row.cache_write_5m_tokens + row.cache_write_1h_tokens
        counts = (row.input_tokens, row.output_tokens, row.cache_read_tokens, writes)
        before = used.get((day, row.model), [0, 0, 0, 0])
        used[day, row.model] = [a + b for a, b in zip(before, counts, strict=True)]
    return used


def _models(
    database: sqlite3.Connection, source: int, used: dict[tuple[str, str], list[int]]
) -> dict[str, dict[str, Compared]]:
    query = """SELECT model, input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens
        FROM stats_models WHERE source_id = ?"""
    theirs = {model: counts for model, *counts in database.execute(query, (source,))}
    ours: dict[str, list[int]] = {}
    for (_, model), counts in used.items():
        ours[model] = [a + b for a, b in zip(ours.get(model, [0] * 4), counts, strict=True)]
    return {
        model: dict(zip(_TOKENS, map(_compared, theirs.get(model, [None] * 4), ours.get(model, [0] * 4)), strict=True))
        for model in sorted({*theirs, *ours})
    }


def _day_models(database: sqlite3.Connection, source: int) -> dict[tuple[str, str], int | None]:
    query = "SELECT date, model, tokens FROM stats_day_models WHERE source_id = ?"
    return {(date, model): tokens for date, model, tokens in database.execute(query, (source,))}


def _days(
    theirs: dict[str, list[int | None]],
    tokens: dict[tuple[str, str], int | None],
    begun: dict[str, list[int]],
    used: dict[tuple[str, str], list[int]],
) -> list[DayCompared]:
    compared = []
    for day in sorted({*theirs, *(day for day, _ in tokens)} & {*begun, *(day for day, _ in used)}):
        messages, sessions, calls = map(_compared, theirs.get(day, [None] * 3), begun.get(day, [0] * 3))
        models = {
            model: _compared(tokens.get((day, model)), sum(used.get((day, model), [0])[:2]))
            for model in sorted(model for date, model in {*tokens, *used} if date == day)
        }
        compared.append(DayCompared(day, messages, sessions, calls, models))
    return compared


def _compared(theirs: int | None, ours: int) -> Compared:
    return Compared(theirs, ours, None if theirs is None else ours - theirs)


_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LENGTH = "SELECT coalesce(sum(length), 0) FROM frames WHERE source_id = ?"


def _counts(folder: Path) -> tuple[int | None, ...]:
    """Return the version of the store; its folders, files, gone files and later generations; how its index is."""
    with _reading(folder, STORE) as database:
        if database is None:
            return None, 0, 0, 0, 0, 0, 0
        _check(database, folder / STORE, "makes it again from the files and the archive")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        (homes,) = database.execute("SELECT count(*) FROM homes").fetchone()
        query = "SELECT count(*), count(gone), coalesce(sum(generation - 1), 0) FROM sources"
        (passages,) = database.execute("SELECT count(*) FROM passages").fetchone()
        return (version, homes, *database.execute(query).fetchone(), passages, unindexed(database, Path("/")))


def _sizes(folder: Path) -> tuple[int | None, ...]:
    with _reading(folder, ARCHIVE) as database:
        if database is None:
            return 0, 0
        _check(database, folder / ARCHIVE, "saves what can still be read")
        return Archive(database).sizes()


def _check(database: sqlite3.Connection, path: Path, remedy: str) -> None:
    (words,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if words != "ok":
        raise Unreadable(f"`{path}` is damaged: {words.splitlines()[-1]}", hint=f"`unspool sync --rebuild` {remedy}")


@contextmanager
def _reading(folder: Path, name: str) -> Iterator[sqlite3.Connection | None]:
    """Open a database that is there; nothing if it is not."""
    path = folder.absolute() / name
    with telling(folder):
        if not path.exists():
            yield None
            return
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None)) as database:
            yield database


def _bytes(path: Path) -> int:
    """Return the size of a database, with what is not yet merged into it."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _config(path: Path) -> Path | None:
    """Return the config folder that a session lies in: `<config>/projects/<key>/<session>.jsonl`."""
    return path.parents[2] if len(path.parents) > 2 and path.parents[1].name == "projects" else None


def _archived(folder: Path, sources: list[Source]) -> dict[str, bool]:
    """Return which files the archive has, all of them, as they are now."""
    found = {source.place: False for source in sources}
    with _reading(folder, ARCHIVE) as database:
        if database is None:
            return found
        for source in sources:
            with suppress(UnicodeEncodeError):  # a name that is not text is not archived
                found[source.place] = _has(database, source)
    return found


def _has(archive: sqlite3.Connection, source: Source) -> bool:
    query = "SELECT id, modified FROM sources WHERE path = ? ORDER BY generation DESC LIMIT 1"
    row = archive.execute(query, (source.place,)).fetchone()
    if row is None or row[1] != source.modified:
        return False
    return bool(archive.execute(_LENGTH, (row[0],)).fetchone()[0] >= source.size)


def _moment(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC)
