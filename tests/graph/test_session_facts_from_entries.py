"""What a list shows of a session: title, place, time, counts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.graph.test_messages import again, sessions
from unspool.graph.messages import group_messages
from unspool.graph.session_facts import SessionFacts
from unspool.graph.session_facts_from_entries import collect_facts
from unspool.graph.tool_calls import find_tool_calls
from unspool.graph.turns import find_prompts
from unspool.testing.build import (
    Built,
    Json,
    Step,
    assistant,
    compaction,
    document,
    image,
    note,
    queued,
    session,
    system,
    tool_result,
    tool_use,
    user,
)


def known(*steps: Step, **envelope: Any) -> SessionFacts:
    return collect_facts(session(*steps, **envelope).entries)


def at(time: str) -> Step:
    return user("hi", timestamp=f"2026-01-05T{time}")


def test_nothing_is_known_of_an_empty_file() -> None:
    assert collect_facts([]) == SessionFacts(hidden="empty")


# Titles

CUSTOM = note("custom-title", customTitle="a person's")
MODEL = note("ai-title", aiTitle="a model's")
PROMPT = user("first\n  prompt", uuid="here")
OWN = note("summary", summary="a summary", leafUuid="here")
OTHER = note("summary", summary="of another session", leafUuid="elsewhere")


@pytest.mark.parametrize(
    ("steps", "title", "titled_by"),
    [
        ((CUSTOM, OWN, PROMPT, MODEL), "a person's", "person"),
        ((OWN, PROMPT, MODEL), "a model's", "model"),
        ((OWN, PROMPT, OTHER), "a summary", "summary"),
        ((OTHER, PROMPT), "first prompt", "prompt"),
        ((OTHER, assistant("hi")), "", "nobody"),
        ((PROMPT, note("custom-title", customTitle=""), note("ai-title", aiTitle=None)), "first prompt", "prompt"),
    ],
)
def test_a_title_is_given_by_the_one_who_knows_best(steps: tuple[Step, ...], title: str, titled_by: str) -> None:
    found = known(*steps)
    assert (found.title, found.titled_by) == (title, titled_by)


@pytest.mark.parametrize(
    ("kind", "field"), [("custom-title", "customTitle"), ("ai-title", "aiTitle"), ("summary", "summary")]
)
def test_of_several_titles_the_last_counts(kind: str, field: str) -> None:
    old, new = ({field: title, "leafUuid": "here"} for title in ("old", "new"))
    assert known(PROMPT, note(kind, **old), note(kind, **new)).title == "new"


def test_the_first_prompt_is_the_first_with_words() -> None:
    steps = user("<command-name>/clear</command-name>"), user(image()), user(" look "), user("there")
    assert known(*steps).first_prompt == "look"


def test_a_queued_prompt_may_be_the_first() -> None:
    assert known(queued("look"), user("there")).title == "look"


def test_a_long_prompt_makes_a_short_title() -> None:
    found = known(user("word " * 100))
    assert len(found.title) == 200
    assert len(found.first_prompt) == 499


# Place


def test_the_project_is_the_first_folder_and_the_branch_the_last() -> None:
    found = known(
        system("informational", "hm", cwd="/before"),
        user("hi", cwd=None, gitBranch="main"),
        user("hi", cwd="/a", gitBranch="work"),
        assistant("hi", cwd="/b", gitBranch=""),
    )
    assert (found.cwd, found.branch) == ("/a", "work")


def test_versions_stand_in_the_order_they_were_seen() -> None:
    found = known(user("a", version="2.1.9"), user("b", version="2.1.10"), user("c", version="2.1.9"))
    assert found.versions == ("2.1.9", "2.1.10")


def test_the_slug_is_the_last_one_given() -> None:
    assert known(user("a", slug="calm-fox"), user("b", slug="wild-fox"), user("c")).slug == "wild-fox"


def test_models_are_those_that_answered_most_first() -> None:
    found = known(
        assistant("a", model="haiku"),
        assistant("b", "c", model="opus"),
        assistant("no", model="<synthetic>"),
        assistant("d", model=""),
    )
    assert found.models == ("opus", "haiku")


# Time


def test_times_are_the_smallest_and_the_largest() -> None:
    found = known(at("09:01:00Z"), at("09:00:00Z"), at("09:03:00Z"), at("09:02:00Z"))
    assert (found.started, found.last) == ("2026-01-05T09:00:00Z", "2026-01-05T09:03:00Z")
    assert found.wall == found.active == 180


def test_active_time_leaves_out_long_pauses() -> None:
    found = known(at("09:00:00Z"), at("09:05:00Z"), at("09:10:01Z"), at("09:11:01Z"))
    assert found.wall == 11 * 60 + 1
    assert found.active == 6 * 60


@pytest.mark.parametrize("time", ["soon", "2026-01-32", "2026-01-05T25:00:00Z", "zzz"])
def test_what_is_no_moment_has_no_say(time: str) -> None:
    found = known(at("09:00:00Z"), user("hi", timestamp=time), at("09:01:00Z"))
    assert (found.started, found.last) == ("2026-01-05T09:00:00Z", "2026-01-05T09:01:00Z")
    assert found.wall == 60


def test_times_of_other_zones_are_compared_as_moments() -> None:
    found = known(at("10:00:00+02:00"), at("09:00:00Z"))
    assert found.started == "2026-01-05T10:00:00+02:00"
    assert found.wall == 3600


def test_a_file_without_times_has_none() -> None:
    found = known(note("ai-title", aiTitle="a"), user("hi", timestamp=None))
    assert (found.started, found.last, found.wall, found.active) == (None, None, 0.0, 0.0)


# Counts


def test_messages_and_calls_count_once_however_often_written() -> None:
    found = known(
        user("hi"),
        assistant("a", tool_use("Read", id="t")),
        tool_result(),
        again(1, uuid="new-1"),
        again(2, uuid="new-2"),
    )
    assert (found.turns, found.messages, found.tool_calls) == (1, 3, 1)


def test_errors_are_failed_calls_and_errors_of_the_api() -> None:
    found = known(
        assistant(tool_use("Bash", id="a"), tool_use("Bash", id="b"), tool_use("Bash", id="c")),
        tool_result("no", id="a", error=True),
        tool_result("no", id="a", error=True),
        tool_result("yes", id="b"),
        tool_result("no", id="c", error=True),
        assistant("API Error: 529", model="<synthetic>", isApiErrorMessage=True),
    )
    assert found.errors == 3
    assert found.models == ("claude-opus-4-5-20251101",)


def test_pictures_and_documents_of_prompts_are_counted() -> None:
    assert known(user("see", image(), image()), user(document("JVBERi0="))).images == 3


def test_compactions_are_counted() -> None:
    assert known(user("a"), compaction("b"), user("c"), compaction("d")).compactions == 2


def test_a_pull_request_is_named_once() -> None:
    link: Json = {"prUrl": "https://example.org/pull/1", "prNumber": 1}
    found = known(note("pr-link", **link), note("pr-link", **link), note("pr-link", prUrl=""))
    assert found.pull_requests == ("https://example.org/pull/1",)


# Any session


@given(sessions)
def test_counts_are_those_of_what_is_counted(made: Built) -> None:
    entries = made.entries
    found = collect_facts(entries)
    assert found.turns == len(find_prompts(entries))
    assert found.messages == len(group_messages(entries))
    assert found.tool_calls == len(find_tool_calls(entries))
    assert "<synthetic>" not in found.models
    assert 0 <= found.active <= found.wall


@given(st.permutations([f"09:{minute:02}:00Z" for minute in (0, 1, 4, 20, 21)]))
def test_the_order_of_lines_does_not_change_the_times(times: list[str]) -> None:
    found = known(*map(at, times))
    assert (found.started, found.last) == ("2026-01-05T09:00:00Z", "2026-01-05T09:21:00Z")
    assert (found.wall, found.active) == (21 * 60, 5 * 60)
