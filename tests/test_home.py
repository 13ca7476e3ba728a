"""A folder or file opened: sessions by any name a person has for them, and nothing read before it is asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import unspool
from unspool.errors import NotFound, UsageError
from unspool.format.records import BadLine
from unspool.graph.agents import AgentClass
from unspool.home import Home
from unspool.paths import agent_file, project_key
from unspool.testing.build import Step, assistant, compaction, note, raw, rewind, session, tool_result, tool_use, user

ONE = "11111111-1111-4111-8111-111111111111"
TWO = "11112222-2222-4222-8222-222222222222"
THREE = "33333333-3333-4333-8333-333333333333"
CWD = "/home/me/project"
KEY = project_key(CWD)


def save(config: Path, id: str, *steps: Step, at: int = 1, cwd: str = CWD) -> Path:
    """Write a session that was changed last at this time."""
    path = session(*steps, id=id, cwd=cwd).save(config)
    os.utime(path, (at, at))
    return path


def save_agent(path: Path, id: str, *steps: Step, owner: str = ONE) -> Path:
    """Write the file of an agent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(session(*steps, id=owner, agent=id).data)
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config folder with three sessions."""
    config = tmp_path.resolve() / ".claude"
    save(config, ONE, user("build the house"), assistant("Done."), at=10)
    save(config, TWO, user("paint the house"), note("custom-title", customTitle="Paint"), at=30)
    save(config, THREE, user("dig"), at=20, cwd="/home/me/garden")
    return config


@pytest.fixture
def home(config: Path) -> Home:
    return unspool.open(config)


def ids(home: Home) -> list[str]:
    return [session.id for session in home.sessions()]


# Opening


def test_sessions_come_newest_first(home: Home) -> None:
    assert ids(home) == [TWO, THREE, ONE]


def test_a_config_folder_is_opened_by_its_path(config: Path) -> None:
    assert unspool.open(str(config)).root == config


def test_a_project_can_be_opened(config: Path) -> None:
    assert ids(unspool.open(config / "projects" / KEY)) == [TWO, ONE]


def test_any_tree_can_be_opened(config: Path) -> None:
    assert ids(unspool.open(config.parent)) == [TWO, THREE, ONE]


def test_a_file_can_be_opened(config: Path) -> None:
    home = unspool.open(config / "projects" / KEY / f"{ONE}.jsonl")
    assert ids(home) == [ONE]
    assert home.session(ONE).title == "build the house"


def test_without_a_path_the_environment_tells(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(config))
    assert unspool.open().root == config
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    monkeypatch.setenv("HOME", str(config.parent))
    assert unspool.open().root == config


def test_a_folder_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        unspool.open(tmp_path / "nowhere")


def test_an_empty_folder_has_no_sessions(tmp_path: Path) -> None:
    assert ids(unspool.open(tmp_path)) == []


# Finding a session


@pytest.mark.parametrize("name", [ONE, "11111", "11111111", f"{ONE[:-1]}"])
def test_a_session_is_found_by_the_beginning_of_its_id(home: Home, name: str) -> None:
    assert home.session(name).id == ONE


def test_a_session_is_found_by_its_path(home: Home, config: Path) -> None:
    path = config / "projects" / KEY / f"{ONE}.jsonl"
    assert home.session(str(path)).path == path


def test_a_session_is_found_by_its_path_from_here(home: Home, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(config / "projects" / KEY)
    assert home.session(f"{ONE}.jsonl").path == config / "projects" / KEY / f"{ONE}.jsonl"


def test_a_session_is_found_by_its_path_from_home(home: Home, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(config.parent))
    assert home.session(f"~/.claude/projects/{KEY}/{ONE}.jsonl").title == "build the house"


def test_a_file_outside_what_was_opened_is_a_session_too(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "loose.txt"
    path.write_bytes(session(user("hi")).data)
    found = home.session(str(path))
    assert (found.id, found.title, found.agents) == ("loose", "hi", [])


def test_a_file_of_an_agent_can_be_read_like_a_session(home: Home, config: Path) -> None:
    path = save_agent(agent_file(config, KEY, ONE, "a1"), "a1", user("look"), assistant("found"))
    found = home.session(str(path))
    assert (found.id, len(found.messages)) == ("agent-a1", 2)
    assert unspool.open(config).session(str(path)).path == path


@pytest.mark.parametrize("name", ["build the house", "Build The House", "build", "UILD THE"])
def test_a_session_is_found_by_its_title_or_part_of_it(home: Home, name: str) -> None:
    assert home.session(name).id == ONE


def test_an_exact_title_goes_before_a_part_of_one(config: Path) -> None:
    save(config, THREE, user("Paint it again"))
    assert unspool.open(config).session("paint").id == TWO


def test_a_long_title_in_any_script_is_looked_for(config: Path) -> None:
    save(config, THREE, user("家" * 200))
    assert unspool.open(config).session("家" * 200).id == THREE


@pytest.mark.parametrize("name", ["1111", "house", "h"])
def test_a_name_that_fits_several_is_refused(config: Path, name: str) -> None:
    save(config, TWO, user("paint the house"))
    with pytest.raises(UsageError, match="matches 2 sessions") as caught:
        unspool.open(config).session(name)
    assert caught.value.hint


@pytest.mark.parametrize("name", ["nobody knows", "~no-such-user-here/x", "a\0b", "/", "history.jsonl"])
def test_a_name_that_fits_none_is_not_found(home: Home, name: str) -> None:
    with pytest.raises(NotFound, match="no session matches"):
        home.session(name)


def test_a_file_that_holds_no_session_is_not_found(config: Path) -> None:
    path = config / "history.jsonl"
    path.write_bytes(b'{"display":"hi"}\n')
    with pytest.raises(NotFound, match="no session matches"):
        unspool.open(config).session(str(path))


# Agents


def test_a_session_has_the_agents_in_its_folder(config: Path) -> None:
    folder = agent_file(config, KEY, ONE, "a1").parent
    save_agent(folder / "agent-a1.jsonl", "a1", user("look"), assistant("found"))
    save_agent(folder / "workflows" / "wf_1" / "agent-a2.jsonl", "a2", user("step"))
    (folder / "agent-a1.meta.json").write_bytes(b'{"agentType":"Explore","toolUseId":"t1"}')
    save(config, ONE, user("hi"), assistant(tool_use("Agent", id="t1", prompt="hm")), tool_result())
    home = unspool.open(config)
    found = {agent.id: agent for agent in home.session(ONE).agents}
    assert found.keys() == {"a1", "a2"}
    assert (found["a1"].linked_by, found["a1"].type) == ("meta", "Explore")
    assert found["a2"].kind is AgentClass.WORKFLOW
    assert home.session(TWO).agents == []


def test_a_folder_of_the_person_s_that_is_called_workflows_says_nothing(tmp_path: Path) -> None:
    config = tmp_path.resolve() / "workflows" / ".claude"
    save(config, ONE, user("hi"))
    save_agent(agent_file(config, KEY, ONE, "a1"), "a1", user("look"))
    (agent,) = unspool.open(config).session(ONE).agents
    assert agent.kind is AgentClass.TASK


@pytest.mark.parametrize("content", [b"", b"[]", b"no json", b"\xff"])
def test_a_meta_file_that_cannot_be_read_is_none(config: Path, content: bytes) -> None:
    path = save_agent(agent_file(config, KEY, ONE, "a1"), "a1", user("look"))
    path.with_suffix(".meta.json").write_bytes(content)
    (agent,) = unspool.open(config).session(ONE).agents
    assert (agent.kind, agent.type) == (AgentClass.TASK, None)


def test_an_agent_beside_the_session_belongs_to_the_one_its_lines_name(config: Path) -> None:
    folder = config / "projects" / KEY
    save_agent(folder / "agent-1a2b3c4d.jsonl", "1a2b3c4d", user("look"), owner=TWO)
    save_agent(folder / "agent-5e6f7a8b.jsonl", "5e6f7a8b", raw(b"torn\n"), user("look"), owner=ONE)
    (folder / "agent-00000000.jsonl").write_bytes(b"")
    home = unspool.open(config)
    assert [agent.id for agent in home.session(TWO).agents] == ["1a2b3c4d"]
    assert [agent.id for agent in home.session(ONE).agents] == ["5e6f7a8b"]


def test_an_agent_in_another_project_belongs_to_nobody_here(config: Path) -> None:
    save_agent(config / "projects" / "-elsewhere" / "agent-1a2b3c4d.jsonl", "1a2b3c4d", user("look"), owner=ONE)
    assert unspool.open(config).session(ONE).agents == []


@pytest.mark.parametrize("name", ["a1", "agent-a1"])
@pytest.mark.parametrize("beside", [True, False])
def test_a_session_is_found_by_its_agent(config: Path, name: str, beside: bool) -> None:
    path = config / "projects" / KEY / "agent-a1.jsonl" if beside else agent_file(config, KEY, ONE, "a1")
    save_agent(path, "a1", user("look"))
    assert unspool.open(config).session(name).id == ONE


@pytest.mark.parametrize("name", ["a1", "gone", "go"])
@pytest.mark.parametrize("place", ["agent-a1.jsonl", "gone/subagents/agent-a1.jsonl"])
def test_of_a_session_whose_file_is_missing_its_agents_are_left(config: Path, name: str, place: str) -> None:
    path = save_agent(config / "projects" / KEY / place, "a1", user("look"), owner="gone")
    home = unspool.open(config)
    found = home.session(name)
    assert (found.id, found.path, found.is_missing) == ("gone", path, True)
    assert found.entries
    assert ids(home) == [TWO, THREE, ONE, "gone"]


# What a session holds


def test_a_session_answers_every_question(config: Path) -> None:
    save(
        config,
        ONE,
        user("a"),
        assistant("b", tool_use("Read")),
        tool_result(),
        assistant("c"),
        user("d"),
        rewind(),
        user("e"),
        raw(b"torn\n"),
        compaction("all"),
    )
    one = unspool.open(config).session(ONE)
    assert len(one.entries) == 9
    assert [type(item) for item in one.items if item not in one.entries] == [BadLine]
    assert [line.reason for line in one.bad_lines]
    assert (one.title, one.cwd, one.project) == ("a", CWD, "project")
    assert len(one.messages) == 7
    assert len(one.tool_calls) == 1
    assert [turn.text for turn in one.turns] == ["a", "d", "e"]
    assert len(one.threads) == 2
    assert one.thread is one.threads[1]
    assert one.agent_sources == ()


def test_a_session_can_be_asked_for_its_context(home: Home) -> None:
    assert [message.role for message in home.session(ONE).context()][:2] == ["user", "assistant"]


@pytest.mark.parametrize(
    ("cwd", "project"), [("/home/me/garden/", "garden"), ("C:\\Users\\me\\yard", "yard"), ("/", "-"), ("", "")]
)
def test_the_project_is_named_after_its_folder(tmp_path: Path, cwd: str, project: str) -> None:
    path = tmp_path.resolve() / "projects" / "-" / f"{ONE}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(session(user("hi"), id=ONE, cwd=cwd).data)
    assert unspool.open(tmp_path).session(ONE).project == (project or "-")


def test_an_empty_session_has_no_thread(config: Path) -> None:
    save(config, ONE)
    one = unspool.open(config).session(ONE)
    assert one.thread is None
    assert (one.title, one.cwd, one.project) == ("", None, KEY)


# Laziness


def test_nothing_is_read_before_it_is_asked_for(home: Home, config: Path) -> None:
    one = home.session(ONE)
    one.path.unlink()
    assert ids(home) == [TWO, THREE, ONE]
    assert one.id == home.session(ONE).id == ONE
    with pytest.raises(NotFound, match="file not found"):
        _ = one.title


def test_what_was_read_is_not_read_again(home: Home) -> None:
    one = home.session(ONE)
    assert one.title == "build the house"
    one.path.unlink()
    assert len(one.messages) == 2
    assert one.entries is one.entries
    assert one.messages is one.messages
    assert one.threads is one.threads


def test_the_owner_of_an_agent_is_asked_for_once(config: Path) -> None:
    path = save_agent(config / "projects" / KEY / "agent-a1.jsonl", "a1", user("look"))
    home = unspool.open(config)
    assert [source.path for source in home.session("a1").agent_sources] == [path]
    path.unlink()
    assert home.session(TWO).agent_sources == ()


def test_a_session_that_is_gone_does_not_hide_the_titles_of_others(home: Home) -> None:
    home.session(THREE).path.unlink()
    assert home.session("build the house").id == ONE
    with pytest.raises(NotFound, match="no session matches"):
        home.session("dig")


def test_a_file_that_two_sessions_used_is_an_agent_of_each(config: Path) -> None:
    lines = [session(user(f"for {id}"), id=id, agent="a1").data for id in (ONE, TWO)]
    for id in (ONE, TWO):
        session(user("hi"), id=id).save(config)
    (config / "projects" / KEY / "agent-a1.jsonl").write_bytes(b"".join(lines))
    home = unspool.open(config)
    prompts = [agent.prompt for id in (ONE, TWO) for agent in home.session(id).agents]
    assert prompts == [f"for {ONE}", f"for {TWO}"]


def test_an_agent_that_cannot_be_read_costs_no_other(config: Path) -> None:
    session(user("hi"), id=ONE).save(config)
    folder = config / "projects" / KEY
    (folder / "agent-a1.jsonl").write_bytes(session(user("look"), id=ONE, agent="a1").data)
    (folder / "agent-a2.jsonl").write_bytes(session(user("look"), id=ONE, agent="a2").data)
    home = unspool.open(config)
    (folder / "agent-a2.jsonl").unlink()
    assert [agent.id for agent in home.session(ONE).agents] == ["a1"]
