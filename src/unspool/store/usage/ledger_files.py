"""Usage straight from the files, without a store: a light pass over the lines that can carry usage.

In: a tree. Out: a `Ledger`. Used when there is no store yet, and when none is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC
from functools import cached_property
from typing import NamedTuple

from unspool.errors import UnspoolError
from unspool.format.timestamps import moment
from unspool.paths import project_name
from unspool.prices.cost import explain
from unspool.prices.line_counter import Tally
from unspool.prices.price_list import Price
from unspool.prices.responses import Counting, Dropped, Response
from unspool.prices.scan_bytes import take_text
from unspool.read.chunks import Limits, Lines, whole_lines
from unspool.store.usage.ledger import KEYS, Explained, Limit, Line, Sum, Wanted, fits_project, milliseconds
from unspool.store.usage.pricing import Pricing, together

_LIMITS = Limits(piece=4 * 1024 * 1024)
"""Most files are read at once."""


class Text(NamedTuple):
    """The lines of a file, wherever they come from."""

    file: str
    project: str | None
    """The key of its project."""
    lines: Iterable[Lines]


class FileLedger:
    """What was billed in some files."""

    def __init__(self, texts: Iterable[Text], overrides: Sequence[Price] = ()) -> None:
        self._texts = texts
        self._pricing = Pricing(overrides)

    def sums(self, wanted: Wanted) -> list[Sum]:
        """Return the responses wanted, those of a quarter of an hour as one where that is allowed."""
        chosen = self._read.counting.billed()
        if (wanted.project, wanted.since, wanted.until) != (None, None, None):
            chosen = (one for one in chosen if self._is_wanted(*one, wanted))
        if wanted.exact:
            return [self._row(*one) for one in chosen]
        told = [key for key in KEYS if key in wanted.keys]
        groups: dict[tuple[object, ...], tuple[str, list[Response]]] = {}
        for source, one in chosen:
            written = one.timestamp or ""
            time = moment(written)
            key: tuple[object, ...]
            if time is not None and time.tzinfo is UTC:
                key = (written[:_HOUR], time.minute // 15, one.model)  # the day, as it is written, decides on the price
            else:  # stands alone
                key = (written, one.model)
            if told:
                of = self._project(source, one) if "project" in told else None
                key += tuple(of if name == "project" else getattr(one, KEYS[name]) for name in told)
            if (group := groups.get(key)) is None:
                groups[key] = (source, [one])
            else:
                group[1].append(one)
        return [together(group, self._project(source, group[0]), self._pricing) for source, group in groups.values()]

    def limits(self) -> list[Limit]:
        """Return when limits were reached."""
        return self._read.limits

    def explain(self, wanted: Wanted) -> Explained:
        """Return which lines were counted, merged and dropped, and why."""
        explained = Explained([], [], [])
        for counted in self._read.counting.counted():
            best = counted.response
            if not self._is_wanted(counted.source, best, wanted):
                continue
            row = self._row(counted.source, best)
            why = "; ".join(explain(best, self._pricing.price(best)).reasons)
            explained.counted.append(Line(counted.source, best.offset, why, best.id, best, row.cost_micros))
            explained.merged.extend(
                Line(source, offset, _why_merged(source, counted.source), best.id) for source, offset in counted.merged
            )
        explained.dropped.extend(
            Line(file, dropped.offset, dropped.reason)
            for file, dropped in self._read.dropped
            if fits_project(wanted.project, self._read.projects.get(file))
            and _in_time(milliseconds(dropped.timestamp), wanted)
        )
        return explained

    def _row(self, source: str, one: Response) -> Sum:
        return together([one], self._project(source, one), self._pricing)

    def _project(self, source: str, one: Response) -> str | None:
        return project_name(one.cwd, self._read.projects[source])

    def _is_wanted(self, source: str, one: Response, wanted: Wanted) -> bool:
        if wanted.project is not None:
            key = self._read.projects[source]
            if not fits_project(wanted.project, self._project(source, one), one.cwd, key):
                return False
        if wanted.since is None and wanted.until is None:
            return True
        return _in_time(milliseconds(one.timestamp), wanted)

    @cached_property
    def _read(self) -> _Read:
        counting, projects = Counting[str](), dict[str, str | None]()
        dropped: list[tuple[str, Dropped]] = []
        for text in self._texts:
            projects[text.file] = text.project
            tally = Tally(counting, text.file, text.file)
            try:
                for lines in text.lines:
                    take_text(tally, *lines)
                    del lines  # it may be one of many megabytes: it is not held while the next one is read
            except UnspoolError:
                pass  # a file that cannot be read costs no other; `unspool doctor` names it
            tally.finish()
            if tally.dropped:
                dropped += [(text.file, one) for one in tally.dropped]
        limits = [Limit(milliseconds(one.timestamp), one.notice) for _, one in dropped if one.notice]
        return _Read(counting, dropped, limits, projects)


class _Read(NamedTuple):
    counting: Counting[str]
    dropped: list[tuple[str, Dropped]]
    limits: list[Limit]
    projects: dict[str, str | None]


def text_of_file(path: str, project: str | None) -> Text:
    """Return the lines of a file on disk."""
    return Text(path, project, whole_lines(path, _LIMITS))


_HOUR = len("2026-01-05T09:")


def _in_time(time: int | None, wanted: Wanted) -> bool:
    if wanted.since is None and wanted.until is None:
        return True
    return time is not None and (wanted.since or time) <= time and (wanted.until is None or time < wanted.until)


def _why_merged(source: str, counted: str) -> str:
    if source == counted:
        return "another line of the same response; the one with the most output counts"
    return "a copy of the response in another file"
