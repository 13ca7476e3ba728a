"""Sub-agents and their calls: the surest sign there is, one call for each, and a class for those without."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.graph.test_messages import as_json, sessions
from tests.real_files import corpus
from unspool.format.records import Entry
from unspool.format.side_files.json import AgentMeta
from unspool.graph.agents import AgentClass, AgentFile, AgentSigns, choose_calls, link_agents
from unspool.home import Home, Session
from unspool.read.source_tree import scan
from unspool.testing.build import Built, Json, Step, assistant, note, progress, session, tool_result, tool_use, user


def file(id: str, *steps: Step, meta: AgentMeta | None = None, in_workflow: bool = False) -> AgentFile:
    return AgentFile(id, session(*steps, agent=id).entries, meta, in_workflow)


def asked(prompt: str, id: str = "a1", meta: AgentMeta | None = None) -> AgentFile:
    """An agent that was asked something."""
    return file(id, user(prompt), assistant("found"), meta=meta)


def task(id: str, prompt: str, name: str = "Agent", **input: Any) -> Json:
    return tool_use(name, id=id, prompt=prompt, description="Look", subagent_type="Explore", **input)


def completed(agent: str) -> Json:
    return {"status": "completed", "agentId": agent, "content": [], "totalDurationMs": 1}


def linked(files: list[AgentFile], *steps: Step) -> list[tuple[str, str | None, str | None]]:
    """Return id, sign and call of each agent."""
    found = link_agents(session(*steps).entries, files)
    return [(agent.id, agent.linked_by, agent.call.id if agent.call else None) for agent in found]


# Signs


def test_a_meta_file_names_the_call() -> None:
    files = [asked("look", meta=AgentMeta(tool_use_id="t1"))]
    assert linked(files, assistant(task("t1", "another prompt"))) == [("a1", "meta", "t1")]


def test_a_meta_file_may_name_the_call_of_any_tool() -> None:
    files = [asked("look", meta=AgentMeta(tool_use_id="t1"))]
    assert linked(files, assistant(tool_use("Skill", id="t1"))) == [("a1", "meta", "t1")]


NOTICE = "<task-notification>\n<task-id>{}</task-id>\n<tool-use-id>{}</tool-use-id>\n<status>completed</status>"


def test_the_notification_of_its_end_names_agent_and_call() -> None:
    steps = [assistant(task("t1", "another prompt")), user(NOTICE.format("a1", "t1"))]
    assert linked([asked("look")], *steps) == [("a1", "progress", "t1")]
    assert linked([asked("look")], steps[0], user(NOTICE.format("a1", ""))) == [("a1", None, None)]


def forked(id: str = "a1", prompt: str = "look", after: str | None = "u1") -> AgentFile:
    """An agent that a person forked with `/fork`."""
    steps = [note("fork-context-ref", parentSessionId="s", parentLastUuid=after, contextLength=3), user(prompt)]
    return file(id, *steps, assistant("found"), meta=AgentMeta(agent_type="fork", is_fork=True))


def test_a_fork_without_a_call_is_linked_to_the_line_it_was_forked_after() -> None:
    (agent,) = link_agents(session(user("hi"), assistant(task("t1", "look"))).entries, [forked()])
    assert (agent.linked_by, agent.call, agent.forked_from, agent.type) == ("fork", None, "u1", "fork")
    assert agent.is_linked
    assert agent.kind is AgentClass.TASK


def test_a_fork_that_a_call_started_is_linked_to_the_call() -> None:
    started = msgspec.structs.replace(forked(), meta=AgentMeta(agent_type="fork", is_fork=True, tool_use_id="t1"))
    (agent,) = link_agents(session(assistant(task("t1", "x"))).entries, [started])
    assert (agent.linked_by, agent.forked_from) == ("meta", None)


@pytest.mark.parametrize("id", ["acompact-1", "aprompt_suggestion-1"])
def test_forks_that_claude_code_makes_for_itself_stay_apart(id: str) -> None:
    (agent,) = link_agents(session(user("hi")).entries, [forked(id)])
    assert (agent.kind, agent.is_linked) == (AgentClass.SPECIAL, False)


@pytest.mark.parametrize("name", ["Task", "Agent"])
@pytest.mark.parametrize("status", ["completed", "async_launched"])
def test_a_result_names_its_agent(name: str, status: str) -> None:
    steps = assistant(task("t1", "another prompt", name)), tool_result(structured={"status": status, "agentId": "a1"})
    assert linked([asked("look")], *steps) == [("a1", "result", "t1")]


def test_the_result_of_another_tool_names_no_agent() -> None:
    steps = assistant(tool_use("Bash", id="t1")), tool_result(structured={"agentId": "a1"})
    assert linked([asked("look")], *steps) == [("a1", None, None)]


def test_progress_names_the_call() -> None:
    steps = assistant(task("t1", "another prompt")), progress("agent_progress", agentId="a1", prompt="look")
    assert linked([asked("look")], *steps) == [("a1", "progress", "t1")]


def test_the_exact_prompt_tells_the_call() -> None:
    steps = assistant(task("t0", "look there"), task("t1", "look\n"), tool_use("Bash", id="t2", prompt="look"))
    assert linked([asked(" look")], steps) == [("a1", "prompt", "t1")]


def test_the_surest_sign_counts() -> None:
    steps = (
        assistant(task("by-meta", "a"), task("by-result", "b"), task("by-progress", "c"), task("by-prompt", "look")),
        progress("agent_progress", tool="by-progress", agentId="a1"),
        tool_result(id="by-result", structured=completed("a1")),
    )
    signs = ["by-meta", "by-result", "by-progress", "by-prompt"]
    metas = [AgentMeta(tool_use_id="by-meta"), None, None, None]
    for at, sign in enumerate(signs):
        left_out = set(signs[:at])
        main = [entry for entry in session(*steps).entries if not any(_says(entry, one) for one in left_out)]
        (agent,) = link_agents(main, [asked("look", meta=metas[at])])
        assert (agent.linked_by, agent.call.id if agent.call else None) == (sign.removeprefix("by-"), sign)


def test_a_sign_that_leads_nowhere_is_passed_over() -> None:
    files = [asked("look", meta=AgentMeta(tool_use_id="gone"))]
    steps = progress("agent_progress", tool="gone", agentId="a1"), assistant(task("t1", "look"))
    assert linked(files, *steps) == [("a1", "prompt", "t1")]


def test_progress_of_another_kind_says_nothing_of_agents() -> None:
    steps = assistant(task("t1", "a")), progress("bash_progress", output="a1"), progress("agent_progress")
    assert linked([asked("look")], *steps) == [("a1", None, None)]


def test_of_two_results_that_name_one_agent_the_first_counts() -> None:
    steps = (
        assistant(task("t1", "look")),
        tool_result(structured=completed("a1")),
        assistant(task("t2", "go on", resume="a1")),
        tool_result(structured=completed("a1")),
    )
    assert linked([asked("look")], *steps) == [("a1", "result", "t1")]


def test_a_teammate_s_result_names_it() -> None:
    structured = {"status": "teammate_spawned", "teammate_id": "ann@team", "agent_id": "ann@team"}
    steps = assistant(task("t1", "look")), tool_result(structured=structured)
    assert linked([asked("hm", "ann@team")], *steps) == [("ann@team", "result", "t1")]


def test_a_result_without_a_struct_names_nobody() -> None:
    steps = assistant(task("t1", "a")), tool_result("no", error=True, structured="User rejected tool use")
    assert linked([asked("look")], *steps) == [("a1", None, None)]


# Prompts


def test_two_agents_with_one_prompt_get_different_calls() -> None:
    files = [asked("look", "a1"), asked("look", "a2"), asked("look", "a3")]
    steps = assistant(task("t1", "look"), task("t2", "look"))
    assert linked(files, steps) == [("a1", "prompt", "t1"), ("a2", "prompt", "t2"), ("a3", None, None)]


def test_a_call_with_a_surer_sign_is_not_given_away_by_its_prompt() -> None:
    files = [asked("look", "a1"), asked("look", "a2")]
    steps = assistant(task("t1", "look"), task("t2", "look")), tool_result(id="t1", structured=completed("a2"))
    assert linked(files, *steps) == [("a1", "prompt", "t2"), ("a2", "result", "t1")]


@pytest.mark.parametrize("words", ["", "  \n"])
def test_no_words_are_no_sign(words: str) -> None:
    assert linked([asked(words)], assistant(task("t1", ""), tool_use("Agent", id="t2"))) == [("a1", None, None)]


def test_an_input_of_another_shape_is_no_prompt() -> None:
    assert linked([asked("look")], assistant(tool_use("Agent", id="t1", prompt=["look"]))) == [("a1", None, None)]


# Agents of agents


@pytest.mark.parametrize("sign", ["meta", "result", "progress", "prompt"])
def test_an_agent_may_be_started_by_another(sign: str) -> None:
    more: list[Step] = []
    if sign == "progress":
        more.append(progress("agent_progress", agentId="a2"))
    if sign == "result":
        more.append(tool_result(structured=completed("a2")))
    outer = file("a1", user("look"), assistant(task("t2", "closer" if sign == "prompt" else "hm")), *more)
    inner = asked("closer", "a2", AgentMeta(tool_use_id="t2") if sign == "meta" else None)
    found = linked([outer, inner], assistant(task("t1", "look")))
    assert found == [("a1", "prompt", "t1"), ("a2", sign, "t2")]


def test_a_copy_of_a_call_in_a_fork_does_not_hide_its_result() -> None:
    main = session(user("hi"), assistant(task("t1", "hm")), tool_result(structured=completed("a1"))).entries
    fork = file("acompact-1", user("hi"), assistant(task("t1", "hm")), user("summarise"))
    agent, special = link_agents(main, [asked("look"), fork])
    assert (agent.linked_by, agent.call.result_entry if agent.call else None) == ("result", main[2])
    assert special.kind is AgentClass.SPECIAL


def test_a_result_that_only_a_copy_has_counts_too() -> None:
    fork = file("acompact-1", assistant(task("t1", "hm")), tool_result(structured=completed("a1")))
    agent, _ = link_agents(session(assistant(task("t1", "hm"))).entries, [asked("look"), fork])
    assert agent.linked_by == "result"


# What is known of an agent


def test_type_and_description_come_from_the_meta_file_first() -> None:
    meta = AgentMeta(tool_use_id="t1", agent_type="Plan", description="Plan it")
    (agent,) = link_agents(session(assistant(task("t1", "look"))).entries, [asked("look", meta=meta)])
    assert (agent.type, agent.description, agent.prompt) == ("Plan", "Plan it", "look")


@pytest.mark.parametrize("structured", [None, completed("a1")])
def test_type_and_description_come_from_the_call_else(structured: Json | None) -> None:
    main = session(assistant(task("t1", "look")), tool_result(structured=structured)).entries
    (agent,) = link_agents(main, [asked("look")])
    assert (agent.type, agent.description) == ("Explore", "Look")


def test_without_a_call_or_a_meta_file_they_are_unknown() -> None:
    (agent,) = link_agents([], [asked("look")])
    assert (agent.type, agent.description, agent.call) == (None, None, None)
    assert agent.linkable


def test_a_call_of_another_tool_tells_no_type() -> None:
    main = session(assistant(tool_use("Bash", id="t1", subagent_type="Explore"))).entries
    (agent,) = link_agents(main, [asked("look", meta=AgentMeta(tool_use_id="t1"))])
    assert agent.type is None


# Classes


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (asked("look"), AgentClass.TASK),
        (asked("Warmup"), AgentClass.WARMUP),
        (file("a1", user("Warmup")), AgentClass.WARMUP),
        (file("a1", user("look"), user("Warmup")), AgentClass.TASK),
        (asked("hm", "acompact-1f2e3d"), AgentClass.SPECIAL),
        (asked("hm", "aprompt_suggestion-d883a2"), AgentClass.SPECIAL),
        (asked("hm", "aside_question-d883a2"), AgentClass.SPECIAL),
        (file("a1", user("hm"), in_workflow=True), AgentClass.WORKFLOW),
        (file("a1", user("hm", teamName="team")), AgentClass.TEAMMATE),
        (asked('<teammate-message teammate_id="team-lead">\nYou are bob.'), AgentClass.TEAMMATE),
        (file("a1", assistant("hm")), AgentClass.ORPHAN),
        (file("a1"), AgentClass.ORPHAN),
    ],
)
def test_an_agent_without_a_call_has_a_class(found: AgentFile, expected: AgentClass) -> None:
    (agent,) = link_agents([], [found])
    assert agent.kind is expected
    assert agent.linkable is (expected is AgentClass.TASK)


@pytest.mark.parametrize("id", ["acompact-1", "a1"])
def test_only_a_task_is_looked_for_by_its_prompt(id: str) -> None:
    found = file(id, user("look"), in_workflow=id == "a1")
    assert linked([found], assistant(task("t1", "look"))) == [(id, None, None)]


def test_an_agent_with_a_call_is_a_task_whatever_it_looks_like() -> None:
    orphan = file("a1", assistant("hm"), meta=AgentMeta(tool_use_id="t1"))
    (agent,) = link_agents(session(assistant(task("t1", "look"))).entries, [orphan])
    assert agent.kind is AgentClass.TASK
    assert agent.prompt == ""


def test_without_files_there_are_no_agents() -> None:
    assert link_agents(session(assistant(task("t1", "look"))).entries, []) == []


# Any session


@given(sessions, st.lists(sessions, max_size=3))
def test_by_prompt_no_call_starts_two_agents(main: Built, files: list[Built]) -> None:
    given = [AgentFile(f"a{number}", made.entries) for number, made in enumerate(files)]
    found = link_agents(main.entries, given)
    assert [agent.id for agent in found] == [one.id for one in given]
    by_prompt = Counter(agent.call.id for agent in found if agent.call and agent.linked_by == "prompt")
    assert all(count == 1 for count in by_prompt.values())
    surer = {agent.call.id for agent in found if agent.call and agent.linked_by != "prompt"}
    assert surer.isdisjoint(by_prompt)


# Real files


def test_agents_of_real_sessions_are_linked() -> None:
    home = Home(scan(corpus()))
    could, did, kinds = 0, 0, Counter[str]()
    for one in home.sessions():
        plain = plain_signs(one)
        for agent, source in zip(one.agents, one.agent_sources, strict=True):
            kinds[agent.kind.value] += 1
            if agent.kind is AgentClass.TASK and plain.get(agent.id, agent.prompt.strip()) in plain.values():
                could += 1
                did += agent.call is not None
            assert source.agent_id in (agent.id, None)
    assert could > 0
    assert did / could >= 0.98, f"{did} of {could} linked; {dict(kinds)}"


def plain_signs(one: Session) -> dict[str, str]:
    """Return the calls of a session's files by the agents and prompts they name, as a plain reader finds them."""
    signs: dict[str, str] = {}
    for path in (one.path, *(source.path for source in one.agent_sources)):
        for line in map(as_json, path.read_bytes().split(b"\n")):
            message, result = line.get("message"), line.get("toolUseResult")
            content = message.get("content") if isinstance(message, dict) else None
            for block in content if isinstance(content, list) else []:
                match block:
                    case {"type": "tool_use", "name": "Task" | "Agent", "input": {"prompt": str(prompt)}}:
                        signs[f"prompt {prompt.strip()}"] = prompt.strip()
                    case {"type": "tool_result"} if isinstance(result, dict) and isinstance(result.get("agentId"), str):
                        signs[result["agentId"]] = result["agentId"]
                    case _:
                        pass
            match line:
                case {"type": "progress", "data": {"agentId": str(agent)}, "parentToolUseID": str()}:
                    signs[agent] = agent
                case _:
                    pass
    for source in one.agent_sources:
        meta = source.path.with_suffix(".meta.json")
        if meta.is_file() and as_json(meta.read_bytes()).get("toolUseId"):
            signs[source.agent_id or ""] = source.agent_id or ""
    return signs


def _says(entry: Entry, id: str) -> bool:
    """Tell whether a line is the result or progress of a call."""
    return entry.record.__class__.__name__ in ("User", "Progress") and id.encode() in entry.line


def test_a_call_that_is_certain_is_not_given_to_another_agent_with_the_same_prompt() -> None:
    signs = [
        AgentSigns("a1", prompt="look"),
        AgentSigns("a2", call="t1", prompt="look"),
        AgentSigns("a3", "gone", "look"),
    ]
    found = choose_calls(signs, {"t1", "t2", "t3"}, [("result", {"a3": "t3"})], {"look": ["t1", "t2", "t3"]})
    assert found == {"a1": ("t2", "prompt"), "a2": ("t1", "meta"), "a3": ("t3", "result")}
    assert choose_calls(signs[:1], {"t1"}, (), {"look": ["t1"]}, taken=["t1"]) == {}
