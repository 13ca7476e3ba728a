"""Usage straight from the files, without a store: a light pass over the lines that can carry usage.

In: a tree. Out: a `Ledger`. Used when there is no store yet, and when none is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from unspool.errors import UnspoolError
from unspool.paths import project_name
from unspool.prices.answers import Dropped
from unspool.prices.cost import explain
from unspool.prices.responses import Counted, Counting
from unspool.prices.table import Price
from unspool.prices.tally import Tally
from unspool.read.tail import whole_lines
from unspool.store.billed import Explained, Limit, Line, Sum, Wanted, fits_project, milliseconds
from unspool.store.pricing import Pricing, summed


class Text(NamedTuple):
    """The lines of a file, wherever they come from."""

    file: str
    project: str | None
    """The key of its project."""
    lines: Iterable[tuple[int, bytes]]
    """Whole lines in pieces, each with where it begins."""


class FileLedger:
    """What was billed in some files."""

    def __init__(self, texts: Iterable[Text], overrides: Sequence[Price] = ()) -> None:
        self._texts = texts
        self._pricing = Pricing(overrides)

    def sums(self, wanted: Wanted) -> list[Sum]:
        """Return the responses wanted, each by itself."""
        return [
            row
            for counted in self._read.counted
            if (row := self._row(counted, wanted)) is not None and _in_time(row.time, wanted)
        ]

    def limits(self) -> list[Limit]:
        """Return when limits were reached."""
        return self._read.limits

    def explain(self, wanted: Wanted) -> Explained:
        """Return which lines were counted, merged and dropped, and why."""
        explained = Explained([], [], [])
        for counted in self._read.counted:
            row = self._row(counted, wanted)
            if row is None or not _in_time(row.time, wanted):
                continue
            best = counted.response
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

    def _row(self, counted: Counted[str], wanted: Wanted) -> Sum | None:
        response, key = counted.response, self._read.projects[counted.source]
        project = project_name(response.cwd, key)
        if not fits_project(wanted.project, project, response.cwd, key):
            return None
        return summed(response, project, self._pricing)

    @cached_property
    def _read(self) -> _Read:
        counting, projects = Counting[str](), dict[str, str | None]()
        dropped: list[tuple[str, Dropped]] = []
        for text in self._texts:
            projects[text.file] = text.project
            tally = Tally(counting, text.file, text.file)
            with suppress(UnspoolError):  # a file that cannot be read costs no other; `unspool doctor` names it
                for offset, lines in text.lines:
                    tally.take_text(lines, offset)
            dropped += [(text.file, one) for one in tally.dropped]
        limits = [Limit(milliseconds(one.timestamp), one.notice) for _, one in dropped if one.notice]
        return _Read(list(counting.counted()), dropped, limits, projects)


class _Read(NamedTuple):
    counted: list[Counted[str]]
    dropped: list[tuple[str, Dropped]]
    limits: list[Limit]
    projects: dict[str, str | None]


def text_of_file(path: Path, project: str | None) -> Text:
    """Return the lines of a file on disk."""
    return Text(str(path), project, whole_lines(path))


def _in_time(time: int | None, wanted: Wanted) -> bool:
    if wanted.since is None and wanted.until is None:
        return True
    return time is not None and (wanted.since or time) <= time and (wanted.until is None or time < wanted.until)


def _why_merged(source: str, counted: str) -> str:
    if source == counted:
        return "another line of the same response; the one with the most output counts"
    return "a copy of the response in another file"
