"""Lines of real files, labelled by hand: prompts are found, and nothing else is taken for one."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tests.real_files import corpus
from unspool.format.records import Entry, System, User
from unspool.graph.turns import classify_user_record, find_prompts
from unspool.read.tail import read_items

LABELS = Path(__file__).parent / "labels.tsv"
PROMPTS = {"human", "queued"}


def test_the_labels_are_whole() -> None:
    places = [(path, offset) for path, found in labels().items() for offset in found]
    assert len(places) == len(LABELS.read_text().splitlines()) - 1 >= 300


def test_every_labelled_line_is_what_its_label_says() -> None:
    wrong: list[str] = []
    judged = 0
    root = corpus()
    for path, expected in labels().items():
        entries = {item.offset: item for item in read_items(root / path) if isinstance(item, Entry)}
        typed = {entry.offset: kind.value for entry, kind, _ in find_prompts(list(entries.values()))}
        for offset, label in expected.items():
            record = entries[offset].record
            if isinstance(record, System):
                continue  # a local command of newer versions: no user line
            judged += 1
            said = classify_user_record(record).value if isinstance(record, User) else typed.get(offset, label)
            wrong += [f"{path}:{offset}: {label}, not {said}"] if said != label else []
            wrong += [f"{path}:{offset}: {label} as a prompt"] if (label in PROMPTS) != (offset in typed) else []
    assert wrong == []
    assert judged >= 300


def labels() -> dict[str, dict[int, str]]:
    """Return the label of each place, by file."""
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for line in LABELS.read_text(encoding="utf-8").splitlines()[1:]:
        path, offset, label = line.split("\t")
        found[path][int(offset)] = label
    return found
