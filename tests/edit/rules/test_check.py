"""Every rule by name: a session that keeps it, and one that breaks it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.edit.sessions import manuscript, open_loop, work
from unspool.edit.rules.check import check_agent, check_rules, check_side_files
from unspool.edit.rules.violation import RULES, Violation, new_violations
from unspool.edit.session_text import parse_session_text
from unspool.testing.build import (
    assistant,
    compaction,
    note,
    raw,
    result_block,
    session,
    snapshot,
    thinking,
    tool_result,
    tool_use,
    user,
)

ID = "00000000-0000-4000-8000-000000000001"
HELLO = (user("Hello."), assistant("Hello to you."))


def rules(data: bytes, id: str = ID) -> set[str]:
    return {violation.rule for violation in check_rules(parse_session_text(id, data))}


@pytest.mark.parametrize("version", ["2.0.76", "2.1.29", "2.1.325"])
def test_a_sound_session_breaks_no_rule(version: str) -> None:
    assert check_rules(manuscript(work(version))) == []
    assert check_rules(manuscript(open_loop(version))) == []


@pytest.mark.parametrize("keep", [0, 2])
def test_a_compacted_session_breaks_no_rule(keep: int) -> None:
    built = session(*HELLO, compaction("We said hello.", keep=keep), *HELLO)
    assert check_rules(manuscript(built)) == []


BROKEN: dict[str, Callable[[], bytes]] = {
    "F1": lambda: session(*HELLO).data + b'{"type":"user"',
    "G1": lambda: session(*HELLO, user("Again.", uuid="x"), user("And again.", uuid="x")).data,
    "G2": lambda: session(*HELLO, user("Where from?", parentUuid="nowhere")).data,
    "G3": lambda: session(note("summary", summary="nothing else", leafUuid="x")).data,
    "G4": lambda: (
        session(
            user("Two."), assistant(tool_use("Read", id="toolu_1")), user("No."), user(result_block("toolu_1", "late"))
        ).data
    ),
    "G5": lambda: session(
        *HELLO, note("custom-title", customTitle="far away"), *(user("x" * 40_000) for _ in range(4))
    ).data.replace(b'{"parentUuid":null', b'{"parentUuid":null,"pad":"' + b"y" * 70_000 + b'"', 1),
    "G6": lambda: (
        session(
            *HELLO, compaction("Short.", preservedMessages={"anchorUuid": "x", "uuids": ["gone"], "allUuids": ["gone"]})
        ).data
    ),
    "A1": lambda: session(assistant("I begin.")).data,
    "A3": lambda: (
        session(
            user("One."),
            assistant({"type": "tool_use", "id": "toolu_1", "name": "Read", "input": "text"}),
            tool_result("x"),
        ).data
    ),
    "A4": lambda: (
        session(user("One."), assistant(thinking("Unsigned.", signature=""), "Two.", model="claude-opus-4-5")).data
    ),
    "A7": lambda: (
        session(
            user("One."),
            assistant({"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}, "Two."),
        ).data
    ),
    "C1": lambda: session(*HELLO).data.replace(b'"usage":', b'"usedage":'),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_what_breaks_a_rule_is_named_by_it(rule: str) -> None:
    assert rule in rules(BROKEN[rule]())


def test_the_name_of_the_file_is_the_session() -> None:
    assert "G1" in rules(session(*HELLO).data, "22222222-2222-4222-8222-222222222222")


def test_the_id_of_a_call_is_used_once_in_a_conversation() -> None:
    call = tool_use("Bash", id="toolu_1", command="ls")
    again = session(
        user("One."), assistant(call), tool_result("a"), assistant(call), tool_result("b"), assistant("Ok.")
    )
    (found,) = [one for one in check_rules(manuscript(again)) if one.rule.startswith("A")]
    assert (found.rule, found.message) == ("A2", "`tool_use` ids must be unique")
    assert again.data[found.offset :].count(b'"name":"Bash"') == 1


def test_a_circle_and_a_second_root_are_found() -> None:
    circle = session(user("One.", uuid="a", parentUuid="b"), user("Two.", uuid="b", parentUuid="a")).data
    assert any("form a cycle" in violation.message for violation in check_rules(parse_session_text(ID, circle)))
    roots = session(*HELLO, user("Anew.", parentUuid=None)).data
    assert [violation.subject for violation in check_rules(parse_session_text(ID, roots))] == ["root 2"]


def test_a_violation_says_where_it_is() -> None:
    built = session(*HELLO, raw(b"not json\n"), user("Where from?", parentUuid="nowhere"))
    found = {violation.rule: violation for violation in check_rules(parse_session_text(ID, built.data), "a.jsonl")}
    assert found["F1"].offset == built.data.index(b"not json")
    assert found["G2"].offset == built.data.index(b"not json") + len(b"not json\n")
    assert found["G2"].file == "a.jsonl"


def test_side_files_that_lines_speak_of_must_be_there() -> None:
    path = f"/x/projects/p/{ID}/tool-results/toolu_1.txt"
    built = session(
        user("One."),
        assistant(tool_use("Bash", id="toolu_1", command="ls")),
        tool_result("long", id="toolu_1", structured={"stdout": "", "persistedOutputPath": path}),
        snapshot(**{"a.py": {"backupFileName": "abc@v1", "version": 1}}),
    )
    text = manuscript(built)
    assert check_side_files(text, project="-home-me", results={"toolu_1.txt"}, backups={"abc@v1"}) == []
    missing = check_side_files(text, project="home_me", results=(), backups=())
    assert {violation.rule for violation in missing} == {"S1", "S2"}
    assert len(missing) == 3


def test_an_agent_belongs_to_its_session() -> None:
    agent = session(user("Do."), assistant("Done."), agent="a1", id="33333333-3333-4333-8333-333333333333")
    (found,) = check_agent(session(*HELLO).id, manuscript(agent), "agent-a1.jsonl")
    assert (found.rule, found.file) == ("S1", "agent-a1.jsonl")


def test_what_a_source_had_is_not_added() -> None:
    old = Violation("G2", 5, "missing parent", "a")
    assert new_violations([old._replace(offset=9)], [old]) == []
    assert new_violations([old, old], [old]) == [old]
    assert new_violations([old._replace(subject="b")], [old], lambda subject: "a") == []


def test_every_rule_has_words() -> None:
    assert {*BROKEN, "A2", "S1", "S2"} == set(RULES)
