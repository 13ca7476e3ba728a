"""AskUserQuestion: questions in, the person's answers out."""

from __future__ import annotations

from typing import Annotated

import msgspec

from unspool.client.protocols import Choice, Nobody
from unspool.client.tool_context import Desk
from unspool.client.tools.base import Asked, Json, Outcome, ToolFailed, aim, parse, schema

REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). "
)
STOP = "STOP what you are doing and wait for the user to tell you how to proceed."
TOLD = "To tell you how to proceed, the user said:\n"
REJECTED_RESULT = "User rejected tool use"
_UNUSED = frozenset({"answers", "annotations", "metadata"})


class Option(Asked, frozen=True, forbid_unknown_fields=False):
    """An answer on offer."""

    label: str
    description: str = ""


class Question(Asked, frozen=True, forbid_unknown_fields=False, rename="camel"):
    """A question."""

    question: str
    options: Annotated[list[Option], msgspec.Meta(min_length=2, max_length=4)]
    header: Annotated[str, msgspec.Meta(description="At most 12 characters")] = ""
    multi_select: bool = False


class AskUserQuestionInput(Asked, frozen=True):
    """The input of a call."""

    questions: Annotated[list[Question], msgspec.Meta(min_length=1, max_length=4)]


class AskUserQuestion:
    """Ask the person."""

    name = "AskUserQuestion"
    description = (
        "Ask the user to decide between some ways to go on. They may always answer in their own words. Not for what "
        "you can find out, and not to have a plan approved."
    )
    input_schema = schema(AskUserQuestionInput)
    is_concurrent = False

    def target(self, input: Json) -> str:
        """Return the first question."""
        given: object = input
        questions = given.get("questions") if isinstance(given, dict) else None
        return aim(questions[0], "question") if isinstance(questions, list) and questions else ""

    async def run(self, input: Json, desk: Desk, call_id: str) -> Outcome:
        """Ask."""
        if isinstance(input, dict):
            input = {name: value for name, value in input.items() if name not in _UNUSED}
        given = parse(self.name, input, AskUserQuestionInput)
        if isinstance(desk.person, Nobody):
            raise ToolFailed("Nobody is here to answer. Decide yourself, and say in the end what you assumed.")
        answers = await desk.person.choose(tuple(map(_choice, given.questions)))
        if answers is None:
            return Outcome(content=REJECTED + STOP, result=REJECTED_RESULT, is_error=True)
        said = ", ".join(f'"{question}"="{answer}"' for question, answer in answers.items())
        return Outcome(
            content=f"User has answered your questions: {said}. You can now continue with the user's answers in mind.",
            result={"questions": [_plain(question) for question in given.questions], "answers": answers},
        )


def _choice(question: Question) -> Choice:
    return Choice(
        question=question.question,
        header=question.header,
        options=tuple((option.label, option.description) for option in question.options),
        several=question.multi_select,
    )


def _plain(question: Question) -> Json:
    return {
        "question": question.question,
        "header": question.header,
        "options": [{"label": option.label, "description": option.description} for option in question.options],
        "multiSelect": question.multi_select,
    }
