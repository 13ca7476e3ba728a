"""A request lasts from the line that it answers to its own last line."""

from __future__ import annotations

from unspool.format import Entry, decode
from unspool.graph import RequestTime, find_request_times
from unspool.testing.build import assistant, session, text, thinking, tool_result, tool_use, user


def times(data: bytes) -> list[RequestTime]:
    entries = [item for line in data.splitlines(keepends=True) for item in decode(line) if isinstance(item, Entry)]
    return list(find_request_times(entries))


def test_a_request_begins_with_the_prompt_or_with_the_last_result_before_it() -> None:
    calls = assistant(tool_use("Bash", command="a"), tool_use("Bash", command="b"))
    steps = [user("go"), calls, tool_result("a"), tool_result("b"), assistant(thinking("so"), text("done"))]
    first, second = times(session(*steps, step=1.0).data)
    assert first.end - first.start == 2_000  # two lines after the prompt, a second each
    assert second.start - first.end == 2_000  # two results
    assert second.end - second.start == 2_000


def test_an_answer_to_nothing_lasts_no_time_before_its_first_line() -> None:
    (request,) = times(session(assistant("hello")).data)
    assert request.start == request.end


def test_an_error_of_the_api_is_no_request() -> None:
    data = session(user("go"), assistant("API Error", isApiErrorMessage=True)).data
    assert times(data) == []
