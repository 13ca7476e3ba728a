"""Definitions of agents: found, overridden, broken, out of bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.client.prompt.agent_definitions import (
    BUILT_IN_AGENTS,
    AgentDefinition,
    load_agent_definitions,
    select_tools,
)
from unspool.client.tools.plan import ExitPlanModeTool
from unspool.client.tools.question import AskUserQuestionTool
from unspool.client.tools.shell.bash import BashTool
from unspool.client.tools.task import TaskTool
from unspool.client.tools.web import WebFetchTool

TOOLS = (BashTool(), WebFetchTool(), TaskTool(), AskUserQuestionTool(), ExitPlanModeTool())


def define(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / "agents" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def reviewer(words: str, **more: str) -> str:
    fields = "".join(f"{name}: {value}\n" for name, value in more.items())
    return f"---\nname: reviewer\ndescription: {words}\n{fields}---\nYou review.\n"


def test_those_built_in_are_always_there(tmp_path: Path) -> None:
    found = load_agent_definitions(tmp_path / "nowhere", tmp_path / "neither", trusted=True)
    assert [*found.by_name] == ["general-purpose", "Explore", "Plan"] == [agent.name for agent in BUILT_IN_AGENTS]
    assert found.problems == ()


def test_a_definition_says_all_there_is_to_know(tmp_path: Path) -> None:
    path = define(tmp_path / "config", "any", reviewer("Reads.", tools="Bash, Read", model="haiku"))
    found = load_agent_definitions(tmp_path / "config", tmp_path, trusted=False).by_name["reviewer"]
    assert found == AgentDefinition("reviewer", "Reads.", "You review.", "user", path, ("Bash", "Read"), (), "haiku")


def test_the_project_goes_before_the_user_if_it_is_trusted(tmp_path: Path) -> None:
    define(tmp_path / "config", "a", reviewer("Mine.", model="inherit"))
    define(tmp_path / "work" / ".claude", "b", reviewer("Theirs."))
    define(tmp_path / "work" / ".claude", "c/d", "---\nname: Explore\ndescription: Other\n---\nx")
    trusted = load_agent_definitions(tmp_path / "config", tmp_path / "work", trusted=True).by_name
    assert (trusted["reviewer"].description, trusted["Explore"].source) == ("Theirs.", "project")
    other = load_agent_definitions(tmp_path / "config", tmp_path / "work", trusted=False).by_name
    assert (other["reviewer"].description, other["Explore"].source) == ("Mine.", "built in")
    assert other["reviewer"].model is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("You review.", "has no `name`"),
        ("---\nname: a b\ndescription: c\n---\nd", "invalid agent name `a b`"),
        ("---\nname: ../a\ndescription: c\n---\nd", "invalid agent name"),
        ("---\nname: a\n---\nb", "has no `description`"),
        ("---\nname: a\ndescription: b\n---\n", "has no instructions"),
        (b"---\nname: a\ndescription: \xff\n---\nb", "cannot read the agent"),
        (b"x" * 300_000, "cannot read the agent"),
    ],
)
def test_a_broken_definition_is_said_and_costs_no_other(tmp_path: Path, text: str | bytes, words: str) -> None:
    define(tmp_path, "broken", text)
    define(tmp_path, "good", reviewer("Reads."))
    found = load_agent_definitions(tmp_path, tmp_path / "work", trusted=False)
    assert "reviewer" in found.by_name
    (problem,) = found.problems
    assert words in problem


def test_a_definition_of_a_project_does_not_lead_out_of_it(tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text(reviewer("Secret."))
    link = tmp_path / "work" / ".claude" / "agents" / "link.md"
    link.parent.mkdir(parents=True)
    link.symlink_to(secret)
    found = load_agent_definitions(tmp_path / "config", tmp_path / "work", trusted=True)
    assert "reviewer" not in found.by_name
    assert found.problems == (f"the agent `{link}` points outside its folder",)


def test_an_agent_has_the_tools_it_names_and_none_that_ask_a_person() -> None:
    def names(**more: tuple[str, ...]) -> list[str]:
        return [tool.name for tool in select_tools(AgentDefinition("a", "b", "c", **more), TOOLS)]  # type: ignore[arg-type]

    assert names() == ["Bash", "WebFetch", "Task"]
    assert names(tools=("*",)) == ["Bash", "WebFetch", "Task"]
    assert names(tools=("WebFetch", "AskUserQuestion", "Unknown")) == ["WebFetch"]
    assert names(disallowed=("Bash",)) == ["WebFetch", "Task"]
