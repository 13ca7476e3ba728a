"""Real session files, if there are any: every byte of every one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

from tests.real_files import corpus
from unspool.format.base import Unknown
from unspool.format.records import Entry
from unspool.read.data_report import survey
from unspool.read.source_tree import LINE_KINDS, Kind, scan
from unspool.read.tail import pieces


def test_every_byte_is_accounted_for() -> None:
    root = corpus()
    report = survey(scan(root))
    files = [path for path in root.rglob("*.jsonl") if path.is_file()]
    assert report.files == len(files) > 0
    assert report.accounted_bytes == report.bytes == sum(path.stat().st_size for path in files)
    assert report.lines == sum(report.records.values()) + len(report.bad_lines)


def test_the_items_of_every_file_are_its_bytes() -> None:
    for source in scan(corpus()).of(*LINE_KINDS):
        data, at = source.path.read_bytes(), 0
        for piece in pieces(source.path, final=True):
            for item in piece.items:
                assert item.offset == at
                if isinstance(item, Entry):
                    assert item.line == data[at : at + item.length]
                at += item.length
        assert at == len(data)


def test_types_are_counted_as_a_plain_reader_would() -> None:
    tree = scan(corpus())
    expected: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for source in tree.of(Kind.SESSION, Kind.AGENT, Kind.JOURNAL):
        for line in source.path.read_bytes().splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                continue  # torn, or two documents: what a plain reader loses
            if isinstance(value, dict) and isinstance(value.get("type"), str):
                expected[value["type"]] += 1
        for piece in pieces(source.path, final=True):
            for item in piece.items:
                if isinstance(item, Entry):
                    record = item.record
                    kind = record.type if isinstance(record, Unknown) else type(record).__struct_config__.tag
                    seen[str(kind)] += 1
    missing = expected - seen
    assert not missing


def test_export_gives_back_the_bytes() -> None:
    for source in list(scan(corpus()).of(*LINE_KINDS))[::40]:
        command = [sys.executable, "-m", "unspool", "export", str(source.path), "--jsonl"]
        done = subprocess.run(command, capture_output=True, check=True, timeout=60)
        assert done.stdout == source.path.read_bytes()
