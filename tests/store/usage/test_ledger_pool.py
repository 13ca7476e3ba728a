"""Responses that several processes count are those that one process counts, to the order of the rows."""

from __future__ import annotations

from pathlib import Path

from tests.money_trees import TREES
from unspool.read.source_tree import Kind, Skipped, scan
from unspool.store.usage.ledger import UsageQuery
from unspool.store.usage.ledger_files import FileLedger
from unspool.store.usage.ledger_pool import BilledFile, open_file_ledger
from unspool.testing.build import assistant, session, user

QUERIES = [
    UsageQuery(),
    UsageQuery(frozenset({"session", "agent", "project", "branch"}), exact=True),
    UsageQuery(frozenset({"file"})),
]


def billed_files(root: Path) -> list[BilledFile]:
    sources = scan(root).of(Kind.SESSION, Kind.AGENT)
    return [BilledFile(source.place, source.project, source.session_id, source.size) for source in sources]


def answers(ledger: FileLedger) -> object:
    return [ledger.sums(query) for query in QUERIES], ledger.explain(UsageQuery()), ledger.limits()


def test_two_processes_count_what_one_counts_on_every_tree(tmp_path: Path) -> None:
    for number, (name, make) in enumerate(TREES.items()):
        root = tmp_path / str(number)
        make(root)
        files = billed_files(root)
        alone, together = (answers(open_file_ledger(files, workers=workers)) for workers in (1, 2))
        assert together == alone, name


def test_a_file_that_cannot_be_read_is_reported_and_costs_no_other(tmp_path: Path) -> None:
    for id in ("1", "2", "3"):
        session(user("hi"), assistant("ho", usage={"output_tokens": 10})).save(tmp_path / id)
    files = [file for id in ("1", "2", "3") for file in billed_files(tmp_path / id)]
    Path(files[1].path).unlink()
    outcomes = []
    for workers in (1, 2):
        failed: list[Skipped] = []
        outcomes.append((answers(open_file_ledger(files, on_failed=failed.append, workers=workers)), failed))
    assert outcomes[0] == outcomes[1]
    assert [one.path for one in outcomes[1][1]] == [Path(files[1].path)]
