"""Checks the store and its archive for `unspool doctor`: their condition, sessions that are deleted soon, statistics.

Rules
  1. Nothing is made, mended or locked here. A store that is damaged is reported, not raised.
  2. What the archive has is read from the archive alone: a damaged store does not hide it.
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
from typing import Any, Final, NamedTuple

import msgspec

from unspool.errors import NotFound, Unreadable, UnspoolError, cannot_read
from unspool.files import read_whole
from unspool.format import local_time
from unspool.format.side_files import parse_settings
from unspool.read import Kind, Source, Tree
from unspool.store.archive.archive import Archive
from unspool.store.database import ARCHIVE, IN_FOLDER, STORE, Roots, folder_parameters, translate_errors
from unspool.store.sync.changes import count_unindexed_bytes
from unspool.store.usage.ledger import Ledger, UsageQuery

DEFAULT_RETENTION_DAYS: Final = 30
"""How long Claude Code keeps a session that has not changed, if its settings do not say."""

SOON: Final = timedelta(days=7)

_SETTINGS = ("settings.json", "settings.local.json")
"""Where the number of days may stand; the last that says it holds."""

_MAX_SETTINGS_BYTES = 4_000_000
_DAY = 86_400_000_000_000
"""Nanoseconds."""


class StoreCondition(NamedTuple):
    """The condition of a store. What is not known is None."""

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


class ExpiringSession(NamedTuple):
    """A session that Claude Code deletes soon."""

    session: str
    path: str
    when: datetime
    """From then on, the next time that it is started."""
    days: int
    archived: bool | None
    """Whether the archive has all of it; None if that is not known."""


class ArchivedSession(NamedTuple):
    """A session that only the archive has."""

    session: str
    path: str
    title: str | None
    bytes: int
    modified: datetime
    """When its file last changed."""


class Comparison(msgspec.Struct, frozen=True):
    """A number of Claude Code's beside ours."""

    theirs: int | None
    ours: int
    difference: int | None
    """Ours without theirs."""


class DayComparison(msgspec.Struct, frozen=True):
    """A day that both know."""

    date: str
    messages: Comparison
    sessions: Comparison
    tool_calls: Comparison
    tokens: dict[str, Comparison]
    """Input and output by model, without the cache: as they count them."""


class StatsDifference(msgspec.Struct, frozen=True):
    """How `stats-cache.json` and the store differ."""

    path: str
    version: int | None
    last_computed_date: str | None
    messages: Comparison
    sessions: Comparison
    tool_calls: Comparison
    models: dict[str, dict[str, Comparison]]
    """Input, output, cache reads and cache writes of each model."""
    days: list[DayComparison]


def check_store(folder: Path, *, archive: bool, complaint: UnspoolError | None = None) -> StoreCondition:
    """Check a store, every page of it. `complaint` is what was wrong when it was to be used."""
    errors = [complaint] if complaint else []
    counts: dict[str, Any] = dict.fromkeys((*_STORE_COUNTS, *_ARCHIVE_SIZES))
    for read in (_read_store_counts, _read_archive_sizes):
        try:
            counts |= read(folder)
        except UnspoolError as error:
            errors.append(error)
    can_open = os.access(folder, os.X_OK)
    return StoreCondition(
        folder=str(folder),
        sound=not errors,
        message=errors[0].message if errors else None,
        hint=errors[0].hint if errors else None,
        archive=archive,
        store_bytes=_file_bytes(folder / STORE) if can_open else 0,
        archive_bytes=_file_bytes(folder / ARCHIVE) if can_open else 0,
        column_bytes=_tree_bytes(folder / "columns") if can_open else 0,
        **counts,
    )


def find_expiring_sessions(
    tree: Tree, folder: Path, now: datetime, *, ask_archive: bool = True
) -> list[ExpiringSession]:
    """Return the sessions of a tree that Claude Code deletes soon, the first to go first.

    With `ask_archive`, the archive in `folder` is asked whether it has them.
    """
    days: dict[Path, int] = {}
    expiring = []
    for source in tree.of(Kind.SESSION):
        config = _config_folder(source.path)
        if config is None:
            continue
        if config not in days:
            days[config] = read_retention_days(config)
        when = source.modified + days[config] * _DAY
        if when <= (now + SOON).timestamp() * 1e9:  # what is kept for ages has no date that could be written
            expiring.append((_moment(when), days[config], source))
    is_archived = _find_archived(folder, [source for _, _, source in expiring]) if ask_archive else {}
    sessions = [
        ExpiringSession(source.session_id or source.path.stem, source.place, when, kept, is_archived.get(source.place))
        for when, kept, source in expiring
    ]
    return sorted(sessions, key=lambda session: (session.when, session.path))


def read_retention_days(config: Path) -> int:
    """Return how many days Claude Code keeps the sessions of a config folder; 0 is until it is started again."""
    days = DEFAULT_RETENTION_DAYS
    for name in _SETTINGS:
        try:
            chosen = parse_settings(read_whole(config / name, _MAX_SETTINGS_BYTES)).cleanup_period_days
        except (
            UnspoolError,
            msgspec.DecodeError,
        ):  # not there, or not readable: another part of `unspool doctor` reports it
            continue
        if chosen is not None and chosen >= 0:
            days = chosen
    return days


def find_archived_only(tree: Tree, folder: Path, titles: Mapping[str, str]) -> list[ArchivedSession]:
    """Return the sessions that were in a tree and that only the archive has, the one changed last first."""
    there = {source.session_id or source.path.stem for source in tree.of(Kind.SESSION)}
    unread = tuple(f"{skipped.path}{os.sep}" for skipped in tree.skipped)  # what lies there has not gone
    query = f"""SELECT session_id, path, max(generation), modified FROM sources
        WHERE kind = '{Kind.SESSION.value}' AND {IN_FOLDER} GROUP BY path ORDER BY modified DESC, path"""
    archived: dict[str, ArchivedSession] = {}
    with _open_existing(folder, ARCHIVE) as database:
        if database is None:
            return []
        archive = Archive(database)
        for id, path, _, modified in database.execute(query, folder_parameters(tree.roots)).fetchall():
            session = id or Path(path).stem
            if session in there or session in archived or f"{path}{os.sep}".startswith(unread):
                continue
            length = archive.length(archive.find(path))
            archived[session] = ArchivedSession(session, path, titles.get(session), length, _moment(modified))
    return list(archived.values())


def read_gone_titles(database: sqlite3.Connection, roots: Roots) -> dict[str, str]:
    """Return the titles of the sessions whose files have gone."""
    query = f"""SELECT sessions.session_id, title FROM sessions JOIN sources ON sources.id = sessions.source_id
        WHERE {IN_FOLDER} AND gone IS NOT NULL"""
    return dict(database.execute(query, folder_parameters(roots)).fetchall())


def compare_stats(database: sqlite3.Connection, root: Path, ledger: Ledger) -> StatsDifference | None:
    """Compare the statistics of a config folder with what the store has of it; None if there are none."""
    path = str(root / "stats-cache.json")
    query = """SELECT source_id, version, last_computed_date, total_messages, total_sessions FROM stats
        JOIN sources ON sources.id = source_id WHERE path = ? AND gone IS NULL"""
    row = database.execute(query, (path,)).fetchone()
    if row is None:
        return None
    source, version, last, *totals = row
    begun = _count_begun(database, root, last)
    used = _count_tokens(ledger, last)
    # The file covers complete days only (Claude Code 2.1.29): a total it does not have is the sum of its days.
    days = {date: counts for date, *counts in database.execute(_DAYS, (source,))}
    sums = [sum(day[place] or 0 for day in days.values()) if days else None for place in range(3)]
    theirs = [*(total if total is not None else sums[place] for place, total in enumerate(totals)), sums[2]]
    ours = [sum(day[place] for day in begun.values()) for place in range(3)]
    messages, sessions, tool_calls = map(_compare, theirs, ours)
    models = _compare_models(database, source, used)
    query = "SELECT date, model, tokens FROM stats_day_models WHERE source_id = ?"
    tokens = {(date, model): count for date, model, count in database.execute(query, (source,))}
    compared = _compare_days(days, tokens, begun, used)
    return StatsDifference(path, version, last, messages, sessions, tool_calls, models, compared)


_DAYS = "SELECT date, message_count, session_count, tool_call_count FROM stats_days WHERE source_id = ?"


def _count_begun(database: sqlite3.Connection, root: Path, last: str | None) -> dict[str, list[int]]:
    """Return messages, sessions and tool calls of the sessions that began on each day."""
    query = f"""SELECT date(started) AS day, sum(messages), count(*), sum(tool_calls)
        FROM sessions JOIN sources ON sources.id = sessions.source_id
        WHERE {IN_FOLDER} AND day <= coalesce(:last, day) GROUP BY day"""
    return {day: counts for day, *counts in database.execute(query, {**folder_parameters(root), "last": last})}


def _count_tokens(ledger: Ledger, last: str | None) -> dict[tuple[str, str], list[int]]:
    """Return input, output, cache reads and cache writes by day and model."""
    used: dict[tuple[str, str], list[int]] = {}
    for row in ledger.sums(UsageQuery()):
        moment = local_time(row.time, UTC)
        if moment is None or not row.model:
            continue
        day = moment.date().isoformat()
        if last is not None and day > last:
            continue
        bill = row.bill
        writes = bill.cache_write_5m_tokens + bill.cache_write_1h_tokens
        counts = (bill.input_tokens, bill.output_tokens, bill.cache_read_tokens, writes)
        before = used.get((day, row.model), [0, 0, 0, 0])
        used[day, row.model] = [a + b for a, b in zip(before, counts, strict=True)]
    return used


def _compare_models(
    database: sqlite3.Connection, source: int, used: dict[tuple[str, str], list[int]]
) -> dict[str, dict[str, Comparison]]:
    query = """SELECT model, input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens
        FROM stats_models WHERE source_id = ?"""
    theirs = {model: counts for model, *counts in database.execute(query, (source,))}
    ours: dict[str, list[int]] = {}
    for (_, model), counts in used.items():
        ours[model] = [a + b for a, b in zip(ours.get(model, [0] * 4), counts, strict=True)]
    return {
        model: dict(zip(_TOKENS, map(_compare, theirs.get(model, [None] * 4), ours.get(model, [0] * 4)), strict=True))
        for model in sorted({*theirs, *ours})
    }


def _compare_days(
    theirs: dict[str, list[int | None]],
    tokens: dict[tuple[str, str], int | None],
    begun: dict[str, list[int]],
    used: dict[tuple[str, str], list[int]],
) -> list[DayComparison]:
    compared = []
    for day in sorted({*theirs, *(day for day, _ in tokens)} & {*begun, *(day for day, _ in used)}):
        messages, sessions, calls = map(_compare, theirs.get(day, [None] * 3), begun.get(day, [0] * 3))
        # Claude Code 2.1.29 adds up every line, not every response once: its token counts may be larger than ours.
        models = {
            model: _compare(tokens.get((day, model)), sum(used.get((day, model), [0])[:2]))
            for model in sorted(model for date, model in {*tokens, *used} if date == day)
        }
        compared.append(DayComparison(day, messages, sessions, calls, models))
    return compared


def _compare(theirs: int | None, ours: int) -> Comparison:
    return Comparison(theirs, ours, None if theirs is None else ours - theirs)


_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


_STORE_COUNTS = ("version", "folders", "files", "gone_files", "generations", "passages", "unindexed_bytes")
_ARCHIVE_SIZES = ("raw_bytes", "archived_bytes")


def _read_store_counts(folder: Path) -> dict[str, int | None]:
    with _open_existing(folder, STORE) as database:
        if database is None:
            return dict.fromkeys(_STORE_COUNTS[1:], 0)
        _check_pages(database, folder / STORE, "rebuilds it from the files and the archive")
        query = """SELECT (SELECT count(*) FROM homes), count(*), count(gone), coalesce(sum(generation - 1), 0),
            (SELECT count(*) FROM passages) FROM sources"""
        (version,) = database.execute("PRAGMA user_version").fetchone()
        counts = database.execute(query).fetchone()
        unindexed = count_unindexed_bytes(database, Path("/"))
        return dict(zip(_STORE_COUNTS, (version, *counts, unindexed), strict=True))


def _read_archive_sizes(folder: Path) -> dict[str, int | None]:
    with _open_existing(folder, ARCHIVE) as database:
        if database is None:
            return dict.fromkeys(_ARCHIVE_SIZES, 0)
        _check_pages(database, folder / ARCHIVE, "recovers what is readable")
        return dict(zip(_ARCHIVE_SIZES, Archive(database).sizes(), strict=True))


def _check_pages(database: sqlite3.Connection, path: Path, remedy: str) -> None:
    (words,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if words != "ok":
        raise Unreadable(f"`{path}` is damaged: {words.splitlines()[-1]}", hint=f"`unspool sync --rebuild` {remedy}")


@contextmanager
def _open_existing(folder: Path, name: str) -> Iterator[sqlite3.Connection | None]:
    """Open a database if there is one; yield None if not."""
    path = folder.absolute() / name
    with translate_errors(folder):
        if folder.exists() and not os.access(folder, os.X_OK):
            raise cannot_read(folder, "permission denied")
        if not path.exists():
            yield None
            return
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None)) as database:
            yield database


def _tree_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _file_bytes(path: Path) -> int:
    """Return the size of a database, with what is not yet merged into it."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _config_folder(path: Path) -> Path | None:
    """Return the config folder that a session lies in: `<config>/projects/<key>/<session>.jsonl`."""
    return path.parents[2] if len(path.parents) > 2 and path.parents[1].name == "projects" else None


def _find_archived(folder: Path, sources: list[Source]) -> dict[str, bool]:
    """Return which files the archive has, all of them, as they are now."""
    archived = {source.place: False for source in sources}
    with _open_existing(folder, ARCHIVE) as database:
        if database is None:
            return archived
        archive = Archive(database)
        for source in sources:
            with suppress(UnicodeEncodeError, NotFound):  # a name that is not text is not archived
                file = archive.find(source.place)
                # With another time it is another state of the file, whatever its length.
                is_current = file.modified == source.modified
                archived[source.place] = is_current and archive.length(file) >= source.size
    return archived


def _moment(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC)
