"""What the faults cost a collector by byte offsets and a state file: each of them shows in it."""

from __future__ import annotations

import pytest

from tests.faults.literal import FAULTS, outcome


def test_without_faults_nothing_is_lost_or_doubled() -> None:
    found = outcome("none")
    assert found.lines > 200
    assert found[1:] == (0, 0, 0)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in {"none", "requests are lost"}])
def test_a_fault_costs_lines(fault: str) -> None:
    found = outcome(fault)
    assert found.lost + found.doubled + found.broken > 0
