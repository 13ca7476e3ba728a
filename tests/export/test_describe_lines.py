"""What is told of lines that are no part of the conversation."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.strategies import records, written
from unspool.export.depth import Depth
from unspool.export.describe_lines import describe_line
from unspool.format.codec import decode
from unspool.format.records import Entry
from unspool.testing.build import Step, attachment, note, progress, session, system

CASES = [
    (
        note("pr-link", prNumber=7, prUrl="https://x.test/7", prRepository="a/b"),
        "pull request",
        "#7 a/b https://x.test/7",
        2,
        False,
    ),
    (note("queue-operation", operation="dequeue"), "queue", "dequeue", 2, False),
    (note("brand-new"), "unknown", "record `brand-new`", 2, False),
    (note("mode", mode="plan"), "mode", "plan", 3, False),
    (note("relocated", relocatedCwd="/b"), "moved", "to /b", 2, False),
    (system("turn_duration", durationMs=61_000), "turn took", "1 min 1 s", 3, False),
    (system("turn_duration", durationMs=1e300), "turn took", "277777 h 47 min", 3, False),
    (system("informational", "hello"), "program", "hello", 2, False),
    (system("brand_new", "x"), "unknown", "system line `brand_new`: x", 2, False),
    (
        system("stop_hook_summary", hookCount=2, hookErrors=["no"]),
        "hook",
        "2 hooks at the end of the turn · no",
        2,
        True,
    ),
    (attachment("brand_new"), "unknown", "attachment `brand_new`", 2, False),
    (attachment("file", filename="/a"), "attached", "/a", 2, False),
    (attachment("date", date="2026"), "attached", "date", 3, False),
    (
        attachment("hook_blocking_error", hookName="Stop", blockingError={"blockingError": "no"}),
        "hook",
        "Stop said no: no",
        2,
        True,
    ),
    (attachment("hook_success", hookName="Stop"), "hook", "Stop", 3, False),
    (progress("hook_progress", hookName="Stop", command="x"), "hook", "Stop x", 2, False),
    (progress("bash_progress", elapsedTimeSeconds=3, totalLines=2), "progress", "3 s · 2 lines", 3, False),
    (progress("brand_new"), "unknown", "progress `brand_new`", 2, False),
]


@pytest.mark.parametrize(("step", "kind", "words", "depth", "failed"), CASES)
def test_a_line_is_told_in_a_few_words(step: Step, kind: str, words: str, depth: int, failed: bool) -> None:
    (entry,) = session(step).entries
    told = describe_line(entry)
    assert (told.kind, told.text, told.depth, told.failed) == (kind, words, depth, failed)


@given(records)
def test_every_line_says_something(record: dict[str, object]) -> None:
    for item in decode(written(record)):
        if isinstance(item, Entry) and record["type"] != "assistant":
            told = describe_line(item)
            assert told.kind
            assert told.depth in (Depth.STEPS, Depth.ALL)
