"""Every table is either private or known to hold no text."""

from __future__ import annotations

from unspool.collect.lake.tables import lake_tables, private_tables

WITHOUT_TEXT = {
    "responses", "answers", "sources", "quarantine", "compactions", "reports", "agent_owners", "stats_days",
}  # fmt: skip
"""Tables that more people may see than the sessions themselves. Whoever adds one here has looked at its columns."""


def test_tables_that_hold_what_people_wrote_are_all_named_private() -> None:
    assert {*private_tables(), *WITHOUT_TEXT} == set(lake_tables())
    assert not WITHOUT_TEXT & set(private_tables())
