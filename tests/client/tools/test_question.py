"""Questions, plans and errands: what a person says, and what the model is told of it."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.client.tools.calling import decoded
from tests.client.tools.commanding import context, made, said
from unspool.client.prompt.agent_definitions import AgentDefinition
from unspool.client.protocols import (
    NoUser,
    PermissionAnswer,
    PermissionRequest,
    UserInterface,
    UserQuestion,
)
from unspool.client.tool_context import AgentTask, ToolContext
from unspool.client.tool_result import ToolOutcome
from unspool.client.tools.plan import EnterPlanModeTool, ExitPlanModeTool
from unspool.client.tools.question import AskUserQuestionTool
from unspool.client.tools.task import TaskTool
from unspool.permissions import RuleDecision

ASK, ENTER, EXIT = AskUserQuestionTool(), EnterPlanModeTool(), ExitPlanModeTool()
QUESTIONS = [
    {
        "question": "Which tea?",
        "header": "Tea",
        "options": [{"label": "Green", "description": "mild"}, {"label": "Black", "description": "strong"}],
        "multiSelect": False,
    },
    {"question": "With?", "options": [{"label": "Milk"}, {"label": "Sugar"}], "multiSelect": True},
]


class Asked:
    """A person who has made up their mind."""

    def __init__(self, answers: dict[str, str] | None = None, permit: PermissionAnswer | None = None) -> None:
        self.answers = answers
        self.permitted = permit or PermissionAnswer(allowed=False)
        self.asked: list[Any] = []

    async def ask_permission(self, wish: PermissionRequest, ruling: RuleDecision) -> PermissionAnswer:
        raise AssertionError("a tool does not ask for permission")

    async def ask_questions(self, choices: tuple[UserQuestion, ...]) -> dict[str, str] | None:
        self.asked += choices
        return self.answers

    async def approve_plan(self, plan: str) -> PermissionAnswer:
        self.asked.append(plan)
        return self.permitted


def made_by(person: UserInterface, tool: Any, at: ToolContext, **input: Any) -> ToolOutcome:
    at.user = person
    return asyncio.run(made(tool, at, **input))


def test_answers_are_told_in_the_words_of_the_program(tmp_path: Path) -> None:
    person = Asked({"Which tea?": "Green", "With?": "Milk, Sugar"})
    outcome = made_by(person, ASK, context(tmp_path), questions=QUESTIONS, metadata={"source": "x"})
    assert outcome.content == (
        'User has answered your questions: "Which tea?"="Green", "With?"="Milk, Sugar". '
        "You can now continue with the user's answers in mind."
    )
    decoded("AskUserQuestion", outcome)
    assert outcome.result["answers"] == {"Which tea?": "Green", "With?": "Milk, Sugar"}
    assert outcome.result["questions"][0] == QUESTIONS[0]
    assert person.asked[0] == UserQuestion(
        question="Which tea?", header="Tea", options=(("Green", "mild"), ("Black", "strong")), several=False
    )
    assert person.asked[1].several
    assert ASK.target({"questions": QUESTIONS}) == "Which tea?"
    assert ASK.target({"questions": "x"}) == ASK.target({}) == ""


def test_a_person_who_does_not_answer_is_waited_for(tmp_path: Path) -> None:
    outcome = made_by(Asked(None), ASK, context(tmp_path), questions=QUESTIONS)
    assert said(outcome).startswith("The user doesn't want to proceed with this tool use.")
    assert outcome.result == "User rejected tool use"
    assert outcome.is_error


def test_where_nobody_is_the_model_decides(tmp_path: Path) -> None:
    outcome = made_by(NoUser(), ASK, context(tmp_path), questions=QUESTIONS)
    assert outcome.content == "Nobody is here to answer. Decide yourself, and say in the end what you assumed."


@pytest.mark.parametrize(
    "questions",
    [[], "Which?", [{"question": "Which?"}], [{"question": "Which?", "options": [{"label": "a"}]}], [*QUESTIONS * 3]],
)
def test_questions_that_are_none_are_not_asked(tmp_path: Path, questions: Any) -> None:
    person = Asked({})
    outcome = made_by(person, ASK, context(tmp_path), questions=questions)
    assert "InputValidationError: AskUserQuestion failed" in said(outcome)
    assert person.asked == []


def test_a_plan_is_written_approved_and_kept(tmp_path: Path) -> None:
    at = context(tmp_path)
    at.plan_file = tmp_path / "config" / "plans" / "calm-humming-kettle.md"
    entered = asyncio.run(made(ENTER, at))
    assert at.mode == "plan"
    assert str(at.plan_file) in said(entered)
    decoded("EnterPlanMode", entered)
    at.plan_file.parent.mkdir(parents=True)
    at.plan_file.write_text("# Tea\n\nBoil water.\n")

    person = Asked(permit=PermissionAnswer(allowed=True, mode="acceptEdits"))
    outcome = made_by(person, EXIT, at)
    assert person.asked == ["# Tea\n\nBoil water.\n"]
    assert outcome.content == (
        "User has approved your plan. You can now start coding. Start with updating your todo list if applicable\n\n"
        f"Your plan has been saved to: {at.plan_file}\nYou can refer back to it if needed during implementation.\n\n"
        "## Approved Plan:\n# Tea\n\nBoil water.\n"
    )
    assert outcome.result == {"plan": "# Tea\n\nBoil water.\n", "isAgent": False, "filePath": str(at.plan_file)}
    decoded("ExitPlanMode", outcome)
    assert at.mode == "acceptEdits"


def test_a_plan_that_is_handed_in_as_before_is_kept_in_the_file(tmp_path: Path) -> None:
    at = context(tmp_path)
    at.mode = "plan"
    made_by(Asked(permit=PermissionAnswer(allowed=True)), EXIT, at, plan="Boil water.", allowedPrompts=[])
    assert at.plan_file is not None
    assert at.plan_file.read_text() == "Boil water."
    assert stat.S_IMODE(at.plan_file.stat().st_mode) == 0o600
    assert at.mode == "default"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("More milk.", "To tell you how to proceed, the user said:\nMore milk."),
        ("", "STOP what you are doing and wait"),
    ],
)
def test_a_plan_that_is_not_good_keeps_plan_mode(tmp_path: Path, words: str, told: str) -> None:
    at = context(tmp_path)
    at.mode = "plan"
    outcome = made_by(Asked(permit=PermissionAnswer(allowed=False, words=words)), EXIT, at, plan="Boil water.")
    assert told in said(outcome)
    assert outcome.is_error
    assert at.mode == "plan"


def test_there_is_no_way_out_of_plan_mode_without_plan_or_person(tmp_path: Path) -> None:
    at = context(tmp_path)
    assert "You are not in plan mode." in said(asyncio.run(made(EXIT, at)))
    asyncio.run(made(ENTER, at))
    assert "No plan file found at" in said(made_by(Asked(permit=PermissionAnswer(allowed=True)), EXIT, at))
    assert "Nobody is here to approve" in said(made_by(NoUser(), EXIT, at, plan="x"))
    assert at.mode == "plan"


class Crew:
    """Who can be sent, and was."""

    def __init__(self) -> None:
        self.sent: list[tuple[AgentTask, str]] = []

    async def send(self, errand: AgentTask, call_id: str) -> ToolOutcome:
        self.sent.append((errand, call_id))
        return ToolOutcome(content="Done.")


def test_an_agent_is_sent_on_its_errand(tmp_path: Path) -> None:
    at, crew = context(tmp_path), Crew()
    at.run_subagent = crew.send
    tool = TaskTool([AgentDefinition("taster", "Tastes tea." + " Really." * 50, "You taste.")])
    outcome = asyncio.run(
        made(
            tool, at, description="Taste", prompt="Is it good?", subagent_type="taster", model="haiku",
            run_in_background=True, max_turns=3,
        )
    )  # fmt: skip
    assert outcome.content == "Done."
    assert crew.sent == [(AgentTask("taster", "Is it good?", "Taste", "haiku", True), "toolu_1")]
    line = next(line for line in tool.description.splitlines() if line.startswith("- taster: Tastes tea."))
    assert len(line) < 170
    assert tool.target({"description": "Taste"}) == "Taste"


def test_an_agent_that_is_not_there_is_not_sent(tmp_path: Path) -> None:
    at = context(tmp_path)
    at.run_subagent = Crew().send
    outcome = asyncio.run(made(TaskTool(), at, description="a", prompt="b", subagent_type="nope"))
    assert outcome.content == "Agent type 'nope' not found. Available agents: general-purpose, Explore, Plan"
    assert "`resume`" in said(asyncio.run(made(TaskTool(), at, description="a", prompt="b", resume="a1b2c3d")))


def test_where_no_agent_can_be_sent_it_is_said_so(tmp_path: Path) -> None:
    outcome = asyncio.run(made(TaskTool(), context(tmp_path), description="a", prompt="b"))
    assert outcome.content == "No agent can be sent from here. Do the work yourself."
