"""The AskUserQuestion tool: asks the user to choose between answers."""

from __future__ import annotations

from typing import Annotated

import msgspec

from unspool.client.protocols import NoUser, UserQuestion
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import Json, ToolFailed, ToolOutcome
from unspool.client.tools.base import BuiltInTool, ToolArguments, first_text

REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). "
)
STOP = "STOP what you are doing and wait for the user to tell you how to proceed."
USER_SAID = "To tell you how to proceed, the user said:\n"
REJECTED_RESULT = "User rejected tool use"


# The docstrings of the structs inside the arguments are descriptions in the schema that the model gets.
class AnswerOption(ToolArguments, frozen=True, forbid_unknown_fields=False):
    """An answer on offer."""

    label: str
    description: str = ""


class QuestionArguments(ToolArguments, frozen=True, forbid_unknown_fields=False, rename="camel"):
    """A question."""

    question: str
    options: Annotated[list[AnswerOption], msgspec.Meta(min_length=2, max_length=4)]
    header: Annotated[str, msgspec.Meta(description="At most 12 characters")] = ""
    multi_select: bool = False


class AskUserQuestionArguments(ToolArguments, frozen=True):
    """Up to four questions."""

    questions: Annotated[list[QuestionArguments], msgspec.Meta(min_length=1, max_length=4)]


class AskUserQuestionTool(BuiltInTool[AskUserQuestionArguments]):
    """Ask the user."""

    name = "AskUserQuestion"
    description = (
        "Ask the user to choose between options. They may always answer in their own words. Not for what "
        "you can find out, and not to have a plan approved."
    )
    arguments = AskUserQuestionArguments
    ignored_fields = frozenset({"answers", "annotations", "metadata"})

    def target(self, input: Json) -> str:
        """Return the first question."""
        fields: object = input
        questions = fields.get("questions") if isinstance(fields, dict) else None
        return first_text(questions[0], "question") if isinstance(questions, list) and questions else ""

    async def execute(self, arguments: AskUserQuestionArguments, context: ToolContext, call_id: str) -> ToolOutcome:
        """Ask, and return the answers."""
        if isinstance(context.user, NoUser):
            raise ToolFailed("Nobody is here to answer. Decide yourself, and say in the end what you assumed.")
        questions = tuple(
            UserQuestion(
                question=item.question,
                header=item.header,
                options=tuple((option.label, option.description) for option in item.options),
                several=item.multi_select,
            )
            for item in arguments.questions
        )
        answers = await context.user.ask_questions(questions)
        if answers is None:
            return ToolOutcome(content=REJECTED + STOP, result=REJECTED_RESULT, is_error=True)
        text = ", ".join(f'"{question}"="{answer}"' for question, answer in answers.items())
        return ToolOutcome(
            content=f"User has answered your questions: {text}. You can now continue with the user's answers in mind.",
            result={"questions": [_question_json(item) for item in arguments.questions], "answers": answers},
        )


def _question_json(question: QuestionArguments) -> Json:
    return {
        "question": question.question,
        "header": question.header,
        "options": msgspec.to_builtins(question.options),
        "multiSelect": question.multi_select,
    }
