"""How often processes were killed, at which steps, and what was compared after."""

from __future__ import annotations

from collections import Counter


class Tally:
    """Counts what happened in a run of the faults."""

    def __init__(self) -> None:
        self.steps: Counter[str] = Counter()
        """Kills by step."""
        self.compared: Counter[str] = Counter()
        """Rows and bytes that were compared with the model."""
        self.wrong = 0
        """Those that were lost, doubled or other than they should be."""

    @property
    def kills(self) -> int:
        """How many processes were killed."""
        return self.steps.total()

    def table(self) -> list[str]:
        """Return what happened, a line each."""
        rows = [*self.steps.items(), ("all kills", self.kills), *self.compared.items(), ("lost or doubled", self.wrong)]
        return [f"{name:<20}{number:>12,}" for name, number in rows]


TALLY = Tally()
