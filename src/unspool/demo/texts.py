"""The long texts of the demo: source files, plans, summaries."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice

TABLE = '''"""Print the tides of a station as a table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta

from tidewatch.harmonics import Station, load, predict

STEP = timedelta(minutes=6)
HEADER = f"{'time':<18}{'height':>8}  kind"


def table(name: str, day: date, days: int = 7) -> list[str]:
    """Return one line for each high and low water."""
    rows = [HEADER]
    for offset in range(days):
        station = load(name)
        start = datetime.combine(day + timedelta(days=offset), time())
        for moment, height, kind in turning_points(station, start):
            rows.append(f"{moment:%a %d %b %H:%M}  {height:>7.2f}  {kind}")
    return rows


def turning_points(station: Station, start: datetime) -> Iterator[tuple[datetime, float, str]]:
    """Yield where the water turns during a day."""
    moments = [start + STEP * number for number in range(241)]
    heights = [predict(station, moment) for moment in moments]
    for before, here, after, moment in zip(heights, heights[1:], heights[2:], moments[1:]):
        if before < here >= after:
            yield moment, here, "high"
        elif before > here <= after:
            yield moment, here, "low"
'''

HARMONICS = '''"""Tides from harmonic constants."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files

EPOCH = datetime(2000, 1, 1)


@dataclass(frozen=True)
class Constituent:
    name: str
    amplitude: float
    phase: float
    speed: float  # degrees per hour


@dataclass(frozen=True)
class Station:
    name: str
    datum: float
    constituents: tuple[Constituent, ...]


def load(name: str) -> Station:
    """Read the constants of a station; the file has a row for each of 4,200 stations."""
    with files("tidewatch").joinpath("constants.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["station"] == name]
    if not rows:
        raise LookupError(f"no such station: {name}")
    parts = tuple(
        Constituent(row["constituent"], float(row["amplitude"]), float(row["phase"]), float(row["speed"]))
        for row in rows
    )
    return Station(name, float(rows[0]["datum"]), parts)


def predict(station: Station, moment: datetime) -> float:
    """Return the height of the water in metres over the datum."""
    hours = (moment - EPOCH).total_seconds() / 3600
    waves = (p.amplitude * math.cos(math.radians(p.speed * hours - p.phase)) for p in station.constituents)
    return station.datum + sum(waves)
'''

TESTS = """from datetime import date

import pytest

from tidewatch import table as module
from tidewatch.table import HEADER, table


def test_a_week_has_four_tides_a_day() -> None:
    rows = table("Example Harbour", date(2026, 11, 9))
    assert rows[0] == HEADER
    assert 26 <= len(rows) - 1 <= 28


def test_the_station_is_read_for_each_day(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(module, "load", lambda name: calls.append(name) or FLAT)
    table("Example Harbour", date(2026, 11, 9), days=3)
    assert len(calls) == 3
"""

CACHE = '''"""Stations, read once."""

from __future__ import annotations

from functools import lru_cache

from tidewatch.harmonics import Station, load


@lru_cache(maxsize=64)
def station(name: str) -> Station:
    """Return a station; the same one again is not read again."""
    return load(name)
'''

README = """# tidewatch

Tide tables for small harbours, from harmonic constants.

    tidewatch table "Example Harbour" --days 7

Heights are in metres over the chart datum. Times are local.
"""

TIDE_FILES = {
    "README.md": README,
    "pyproject.toml": '[project]\nname = "tidewatch"\nversion = "0.4.0"\nrequires-python = ">=3.12"\n',
    "src/tidewatch/__init__.py": '"""Tide tables."""\n',
    "src/tidewatch/harmonics.py": HARMONICS,
    "src/tidewatch/table.py": TABLE,
    "tests/test_table.py": TESTS,
}

OFFLINE_PLAN = """# Offline mode

Tables must come out without a network, for a boat that has none.

## Phase 1: constants on board

- [x] Ship `constants.csv` with the package
- [x] Read each station once
- [ ] Say how old the constants are

## Phase 2: corrections

- [ ] Fetch gauge corrections when there is a network
- [ ] Keep them for a week, then fade them out
- [ ] A test with a clock that can be turned

## Phase 3: tell the user

- [ ] `tidewatch status` says what is stale
"""

MEMORY = """# Memory

- Heights are metres over chart datum, never over mean sea level. See [stations](stations.md).
- Run the tests with `uv run pytest -q`; the slow ones need `-m slow`.
- Rows are plain strings: the printing is in `cli.py`.
"""

STATIONS = """# Stations

Example Harbour has the longest record and is used in all tests.
Sample Sound lies behind a sluice: its curve is not a sum of waves, so do not test against it.
"""

SUMMARY = """What was asked: make the tide table fast, then prepare an offline mode.

What was done: `load` was called once a day of the table; it now runs once, through `cache.station`. The test
that expected the old behaviour was turned around. README mentions the cache. A plan for the offline mode was
approved; its first two tasks are done.

What is next: say how old the constants are.
"""

BIRD_VIEW = """from vogel.models import Sighting

PAGE = 40


def newest(limit: int = PAGE) -> list[Sighting]:
    return Sighting.select().order_by(Sighting.seen_at.desc()).limit(limit)


def count_by_species(day: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for sighting in Sighting.select().where(Sighting.day == day):
        counts[sighting.species] = counts.get(sighting.species, 0) + sighting.number
    return counts
"""

BIRD_FILES = {
    "README.md": "# Vogelzähler\n\nWho sits at the feeder, and how often: Amsel, Meise, Grünfink …\n",
    "vogel/views.py": BIRD_VIEW,
    "vogel/templates/heute.html": "<h1>Heute</h1>\n<ul>{% for a in arten %}<li>{{ a }}</li>{% endfor %}</ul>\n",
    "static/style.css": "body { font-family: sans-serif; }\nh1 { color: #243; }\n",
}

LEDGER_FILES = {
    "README.md": "# ledger\n\nDouble-entry books in plain text.\n",
    "ledger/parse.py": (
        "from decimal import Decimal\n\n\n"
        "def amount(text: str) -> Decimal:\n"
        '    """Return an amount; thousands may be grouped."""\n'
        '    return Decimal(text.replace(",", ""))\n'
    ),
    "ledger/balance.py": (
        "from collections import defaultdict\nfrom decimal import Decimal\n\n\n"
        "def balances(entries: list[tuple[str, Decimal]]) -> dict[str, Decimal]:\n"
        "    totals: dict[str, Decimal] = defaultdict(Decimal)\n"
        "    for account, value in entries:\n"
        "        totals[account] += value\n"
        "    return dict(totals)\n"
    ),
}


def benchmark_log(lines: int) -> str:
    """Return the output of a long benchmark with so many lines."""
    return "\n".join(islice(_timings(), lines)) + "\n"


def pdf(words: str) -> bytes:
    """Return a minimal PDF with one line of text."""
    body = f"BT /F1 12 Tf 20 60 Td ({words}) Tj ET"
    return (
        "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        "2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
        "3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]/Contents 4 0 R"
        "/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj\n"
        f"4 0 obj<</Length {len(body)}>>stream\n{body}\nendstream endobj\n"
        "trailer<</Root 1 0 R>>\n%%EOF\n"
    ).encode()


def _timings() -> Iterator[str]:
    harbours = cycle(("Example Harbour", "Sample Sound", "Null Point", "Test Haven", "Placeholder Pier"))
    for number, harbour in enumerate(harbours, 1):
        yield f"{number:>5}  {harbour:<18}{(number * 37) % 91 + 12:>5} ms  {(number * 13) % 7 + 24} rows"
