"""Error texts of the Messages API lead to the breakage and the command."""

from __future__ import annotations

import pytest

from tests.edit.broken_sessions import BROKEN, ID
from unspool.api.rules import find_problems
from unspool.edit.rules.api_errors import find_error_advice
from unspool.edit.rules.check import resume_context, resume_request
from unspool.edit.rules.recorded_messages import as_context, recorded_messages
from unspool.edit.session_text import parse_session_text

PASTED = {
    "messages.3: tool_use ids were found without tool_result blocks immediately after: toolu_01.": "missing-result",
    'API Error: 400 {"type":"error","error":{"type":"invalid_request_error","message":"messages.12: `tool_use` ids were'
    ' found without `tool_result` blocks immediately after: toolu_01A"}}': "missing-result",
    "messages.0.content.1: unexpected `tool_use_id` found in `tool_result` blocks: toolu_01": "orphan-result",
    "messages.2.content.1: each tool_use must have a single result. Found multiple": "orphan-result",
    "messages: `tool_use` ids must be unique": "doubled-call",
    "messages.5.content.0: Invalid `signature` in `thinking` block": "unsigned-thinking",
    "messages.1.content.0.thinking.signature: Field required": "unsigned-thinking",
    "messages.1.content.0.thinking: each thinking block must contain thinking": "unsigned-thinking",
    "messages: text content blocks must be non-empty": "empty-content",
    "messages.6: all messages must have non-empty content except for the optional final": "empty-content",
    "messages.4.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880": "refused-image",
    "one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels": "refused-image",
    "messages.0.content.0.image.source.base64.data: Could not process image": "refused-image",
    "`web_search` tool use with id `srvtoolu_1` was found without a corresponding": "unpaired-server-tool",
    'messages: first message must use the "user" role': "broken-parent",
}
OTHERS = {
    "prompt is too long: 213462 tokens > 200000 maximum": "unspool edit trim SESSION --to 60%",
    "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000": "unspool edit trim SESSION --to 60%",
    "Request exceeds the maximum size": "unspool edit trim SESSION --images --results",
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.": (
        "unspool edit fork SESSION --at -2"
    ),
}


@pytest.mark.parametrize("error", PASTED)
def test_an_error_text_leads_to_its_breakage(error: str) -> None:
    advice = find_error_advice(error)
    assert advice is not None
    assert (advice.breakage, advice.command) == (PASTED[error], "unspool edit repair SESSION")


@pytest.mark.parametrize("error", OTHERS)
def test_an_error_of_a_sound_session_leads_to_another_command(error: str) -> None:
    advice = find_error_advice(error)
    assert advice is not None
    assert (advice.breakage, advice.command) == (None, OTHERS[error])


@pytest.mark.parametrize("name", [name for name, broken in BROKEN.items() if broken.refused])
def test_whatever_the_api_says_of_a_broken_session_leads_to_a_repair(name: str) -> None:
    broken = BROKEN[name]
    recorded = as_context(recorded_messages(resume_context(parse_session_text(ID, broken.data)).lines))
    for problem in find_problems(resume_request(recorded)):
        advice = find_error_advice(problem.message)
        assert advice is not None, problem.message
        assert advice.command == "unspool edit repair SESSION"


@pytest.mark.parametrize("error", ["", "overloaded_error", "tool_use", "Your credit balance is too low", "\0"])
def test_an_unknown_text_is_not_guessed(error: str) -> None:
    assert find_error_advice(error) is None
