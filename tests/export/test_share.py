"""What is shared is what was asked for, redacted, and the preview lists every replacement."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.strategies import json_values
from unspool.errors import NotFound, UsageError
from unspool.export import ShareContent, SharedCopy, ShareRequest, copy_for_sharing, read_jsonl, render_markdown
from unspool.export.share_lines import ShareTally, select_line
from unspool.home import open as open_home
from unspool.redact import RedactionOptions
from unspool.testing.build import (
    Step,
    assistant,
    image,
    note,
    session,
    text,
    thinking,
    tool_result,
    tool_use,
    user,
)

KEY = b"k" * 32
TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6"[:36]
OTHER = "ghp_" + "Zy9xW8vU7tS6rQ5pO4nM3lK2jI1hG0fE9dC8"[:36]
ALL = ShareContent(thinking=True, results=True, images=True)
OPTIONS = RedactionOptions(emails=True, homes=True)
STEPS: tuple[Step, ...] = (
    note("ai-title", aiTitle="Deploy the shop"),
    note("file-history-snapshot", snapshot={"trackedFileBackups": {"/secret/place": 1}}),
    user(f"Use the token {TOKEN} and tell ann@example.com."),
    assistant(thinking("THOUGHT of mine"), "I use it.", tool_use("Bash", id="t1", command=f"curl -H {TOKEN} /x")),
    tool_result([text(f"RESULT {OTHER}"), image()], id="t1", structured={"stdout": "STRUCTURED"}),
    assistant("Done with the first."),
    user("Second prompt, without anything."),
    assistant(tool_use("Bash", id="t2", command="true")),
    tool_result("RESULT two", id="t2"),
    assistant("Done with the second."),
)


@contextmanager
def shared(tmp_path: Path, *steps: Step, options: RedactionOptions = OPTIONS, **how: Any) -> Iterator[SharedCopy]:
    path = session(*(steps or STEPS), cwd="/home/ann/shop").save(tmp_path)
    original = next(open_home(path).sessions())
    with copy_for_sharing(original, ShareRequest(**how), KEY, options) as copy:
        yield copy


def all_text(copy: SharedCopy) -> str:
    return b"".join(read_jsonl(copy)).decode()


def test_by_default_prompts_answers_and_calls_leave_and_nothing_else(tmp_path: Path) -> None:
    with shared(tmp_path) as copy:
        words = all_text(copy)
        for kept in ("Use the token", "I use it.", "curl -H", "Second prompt", "Deploy the shop"):
            assert kept in words
        for gone in (TOKEN, OTHER, "THOUGHT", "RESULT", "STRUCTURED", "/secret/place", "ann@example.com", "/home/ann"):
            assert gone not in words
        assert copy.preview.shared == {"prompts": 2, "answers": 3, "tool calls": 2}
        assert copy.preview.left_out == {"thinking": 1, "results": 2, "images": 1, "other lines": 1}
        assert copy.preview.lines == len(words.splitlines())


def test_what_is_asked_for_leaves_too_and_is_redacted(tmp_path: Path) -> None:
    with shared(tmp_path, content=ALL) as copy:
        words = all_text(copy)
        for kept in ("THOUGHT", "RESULT", "STRUCTURED", '"type":"image"'):
            assert kept in words
        assert OTHER not in words
        assert copy.preview.shared["images"] == 1
        assert copy.preview.shared["results"] == 2


def test_every_replacement_is_listed_with_its_place_and_without_any_secret(tmp_path: Path) -> None:
    with shared(tmp_path, content=ALL) as copy:
        kinds = {one.kind: one for one in copy.preview.replacements}
        assert {"github-token", "email", "home"} <= {*kinds}
        tokens = [one for one in copy.preview.replacements if one.kind == "github-token"]
        assert sorted(one.count for one in tokens) == [1, 2]
        twice = max(tokens, key=lambda one: one.count)
        first, second = twice.places
        assert (first.turn, first.field) == (1, "message.content")
        assert (first.before, first.after[:9]) == ("Use the token ", " and tell")
        assert second.field.endswith(".input.command")
        listed = repr(copy.preview)
        for secret in (TOKEN, OTHER, "ann@example.com"):
            assert secret not in listed
        # All of them: the copy has as many markers as the preview lists.
        assert all_text(copy).count("[redacted:") == copy.preview.replaced


def test_one_replacement_can_be_left_undone_and_the_others_stay(tmp_path: Path) -> None:
    with shared(tmp_path, content=ALL) as copy:
        twice = next(one for one in copy.preview.replacements if one.kind == "github-token" and one.count == 2)
    with shared(tmp_path, content=ALL, keep=frozenset({twice.id})) as copy:
        words = all_text(copy)
        assert words.count(TOKEN) == 2
        assert OTHER not in words
        assert [one.id for one in copy.preview.replacements if one.kept] == [twice.id]


def test_a_range_of_turns_leaves_alone(tmp_path: Path) -> None:
    with shared(tmp_path, turns="2") as copy:
        words = all_text(copy)
        assert "Second prompt" in words
        assert "Use the token" not in words
        first = next(json.loads(line) for line in words.splitlines() if '"user"' in line)
        assert first["parentUuid"] is None
        assert len(copy.session.turns) == 1


@pytest.mark.parametrize(("turns", "error"), [("x", UsageError), ("9", NotFound)])
def test_turns_that_are_not_there_are_refused(turns: str, error: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(error), shared(tmp_path, turns=turns):
        pass


def test_what_is_shared_can_be_read_as_a_session(tmp_path: Path) -> None:
    with shared(tmp_path) as copy:
        assert copy.session.title == "Deploy the shop"
        assert len(copy.session.turns) == 2
        assert len(copy.session.threads) == 1
        markdown = render_markdown(copy.session)
        assert "Done with the second." in markdown


def test_agents_are_shared_unless_they_are_left_out(tmp_path: Path) -> None:
    made = session(
        user("Ask somebody."),
        assistant(tool_use("Task", id="t1", prompt="Look.", subagent_type="Explore", description="Look")),
        tool_result("RESULT of the agent", id="t1", structured={"agentId": "a1b2c3d", "content": "STRUCTURED"}),
        assistant("It looked."),
    )
    path = made.save(tmp_path)
    agent = path.with_suffix("") / "subagents" / "agent-a1b2c3d.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(session(user("Look."), assistant(f"I see {TOKEN}."), id=made.id, agent="a1b2c3d").data)
    original = open_home(tmp_path).session(made.id)
    with copy_for_sharing(original, ShareRequest(), KEY, OPTIONS) as copy:
        assert copy.preview.shared["agents"] == 1
        assert "I see [redacted:github-token:" in all_text(copy)
        assert "STRUCTURED" not in all_text(copy)
        assert [found.call.id for found in copy.session.agents if found.call] == ["t1"]
        places = next(one for one in copy.preview.replacements if one.kind == "github-token").places
        assert places[0].agent_id == "a1b2c3d"
    with copy_for_sharing(original, ShareRequest(ShareContent(agents=False)), KEY, OPTIONS) as copy:
        assert "I see" not in all_text(copy)
        assert copy.preview.left_out["agents"] == 1


def test_a_marker_that_was_there_before_is_no_replacement(tmp_path: Path) -> None:
    with shared(tmp_path, user("See [redacted:email:0123456789] and bob@example.com"), assistant("Yes.")) as copy:
        assert "0123456789" not in {one.id for one in copy.preview.replacements}


@given(json_values)
def test_no_line_raises_and_unknown_ones_stay(value: Any) -> None:
    for content in (ShareContent(), ALL):
        assert select_line(value, content, ShareTally()) is None or isinstance(value, dict)
        for line in (
            {"type": "user", "message": {"content": value}},
            {"type": "assistant", "message": {"content": [value, {"type": "tool_result", "content": value}]}},
            {"type": "user", "message": {"content": "a"}, "toolUseResult": value},
            {"type": "attachment", "attachment": {"type": "queued_command", "prompt": value}},
        ):
            select_line(line, content, ShareTally())
    assert select_line({"type": "tomorrow", "text": "x"}, ALL, ShareTally()) is None
