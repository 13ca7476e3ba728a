"""A conversation thinned out: what stays, whatever it was."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings

from tests.client.talks import PICTURE, assistant, body, call, result, talks, text, user
from tests.profiles import examples
from unspool.client.compaction.prune import MessageOutline, prune_fully, prune_stepwise
from unspool.edit.planning.shrink import STUB_PREFIX
from unspool.testing.strict import count_tokens, problems

Json = dict[str, Any]


def _blocks(messages: list[Json], *kinds: str) -> list[Json]:
    return [block for message in messages for block in message["content"] if block["type"] in kinds]


@given(talks())
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_rung_is_a_request_that_the_api_takes_and_never_a_larger_one(talk: list[Json]) -> None:
    before = count_tokens(body(talk))
    for thinned in prune_stepwise(talk):
        assert problems(body(thinned)) == []
        after = count_tokens(body(thinned))
        assert after <= before
        before = after


@given(talks())
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_words_stay_and_so_does_what_is_not_answered_yet(talk: list[Json]) -> None:
    outline = MessageOutline(talk)
    for thinned in prune_stepwise(talk):
        said = [block["text"] for block in _blocks(thinned, "text") if not block["text"].startswith(STUB_PREFIX)]
        assert said == [block["text"] for block in _blocks(talk, "text")]
        assert thinned[len(thinned) - len(talk[outline.open_from :]) :] == talk[outline.open_from :]


@given(talks())
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_newest_turn_is_whole_on_all_rungs_but_the_last(talk: list[Json]) -> None:
    newest = talk[MessageOutline(talk).newest_from :]
    found = [*prune_stepwise(talk)]
    for thinned in found[:-1]:
        assert thinned[len(thinned) - len(newest) :] == newest
    for thinned in found[-1:]:
        thoughts = _blocks(newest, "thinking")
        assert not thoughts or _blocks(thinned, "thinking")[-len(thoughts) :] == thoughts


@given(talks())
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_thinning_twice_is_thinning_once(talk: list[Json]) -> None:
    found = [talk, *prune_stepwise(talk)]
    assert [*prune_stepwise(found[-1])] == []
    assert prune_fully(talk) == found[-1]


def test_a_file_that_was_read_again_goes_first_and_says_what_it_was() -> None:
    talk = [
        user("Look."),
        assistant(call("a")), user(result("a", "old " * 500)),
        assistant(call("b")), user(result("b", "new " * 500)),
        assistant("Done."), user("Go on."),
    ]  # fmt: skip
    first, *_ = prune_stepwise(talk)
    assert first[2]["content"][0]["content"] == (
        "[trimmed by unspool: result of Read /a.py, 2,002 bytes; the file was read again or changed later; "
        "call it again if it is needed]"
    )
    assert first[4] is talk[4]


def test_a_read_is_not_superseded_by_one_that_failed() -> None:
    talk = [
        user("Look."),
        assistant(call("a")), user(result("a", "old " * 50)),
        assistant(call("b", "Edit", file_path="/a.py")), user(result("b", "no such text", is_error=True)),
        assistant("Done."), user("Go on."),
    ]  # fmt: skip
    assert all(thinned[2] is talk[2] for thinned in prune_stepwise(talk) if len(thinned) == len(talk))


def test_of_one_long_turn_the_older_results_go_and_the_newest_stay() -> None:
    steps = [
        message
        for number in range(9)
        for message in (assistant(call(f"t{number}", "Bash", command="make")), user(result(f"t{number}", "x" * 3000)))
    ]
    talk = [user("Work."), *steps]
    *_, last = prune_stepwise(talk)
    stubs = [str(block["content"]).startswith(STUB_PREFIX) for block in _blocks(last, "tool_result")]
    assert stubs == [True] * 6 + [False] * 3
    assert problems(body(last)) == []


def test_pictures_and_large_inputs_of_old_turns_go() -> None:
    talk = [
        user(PICTURE, "What is this?"),
        assistant(call("a", "Write", file_path="/a", content="y" * 5000)), user(result("a", "ok")),
        assistant("Done."), user("Go on."),
    ]  # fmt: skip
    found = [*prune_stepwise(talk)]
    assert any(_blocks(thinned, "image") == [] for thinned in found)
    assert any("y" * 100 not in str(thinned) and _blocks(thinned, "tool_use") for thinned in found)
    assert found[-1] == [user(text(found[-1][0]["content"][0]["text"]), "What is this?"), *talk[3:]]


def test_a_file_that_was_read_for_an_old_prompt_goes_and_the_prompt_stays() -> None:
    reminder = "<system-reminder>\nResult of calling the Read tool:\n" + "z" * 5000 + "\n</system-reminder>"
    talk = [user("Look at @a.", reminder), assistant("Yes."), user("Go on.", reminder)]
    *_, last = prune_stepwise(talk)
    assert last[0]["content"][0] == text("Look at @a.")
    assert "zzz" not in last[0]["content"][1]["text"]
    assert last[0]["content"][1]["text"].startswith("<system-reminder>\n[trimmed by unspool: a reminder, 5,0")
    assert last[2] is talk[2]
    assert [*prune_stepwise(last)] == []
