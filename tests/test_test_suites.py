"""The suites of `.ci/run` leave no test file out, and run none twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from scripts.test_suites import LONGEST, find_suites

ROOT = Path(__file__).parent.parent


def test_every_test_file_is_in_exactly_one_suite() -> None:
    counts = Counter(
        file
        for suite in find_suites(ROOT / "tests")
        for path in suite.paths
        for file in ([ROOT / path] if path.endswith(".py") else (ROOT / path).rglob("test_*.py"))
    )
    assert counts == dict.fromkeys((ROOT / "tests").rglob("test_*.py"), 1)


def test_suites_that_are_named_exist() -> None:
    assert {*LONGEST} <= {suite.name for suite in find_suites(ROOT / "tests")}


def test_a_new_folder_is_a_suite(tmp_path: Path) -> None:
    (tmp_path / "new" / "inner").mkdir(parents=True)
    (tmp_path / "new" / "inner" / "test_it.py").touch()
    assert [suite.paths for suite in find_suites(tmp_path)] == [("tests/new",)]
