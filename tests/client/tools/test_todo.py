from pathlib import Path

from tests.client.tools.calling import call, decoded, desk_in, text_of
from unspool.client.tools.todo import TodoWrite
from unspool.format.tools.plans import TodoWriteResult


def todo(content: str, status: str) -> dict[str, str]:
    return {"content": content, "status": status, "activeForm": f"Doing {content}"}


def test_a_list_is_kept_until_all_is_done(tmp_path: Path) -> None:
    desk = desk_in(tmp_path)
    first = [todo("a", "pending"), todo("b", "in_progress")]
    outcome = call(desk, "TodoWrite", todos=first)
    assert text_of(outcome).startswith("Todos have been modified successfully. Ensure that you continue")
    assert outcome.result == {"oldTodos": [], "newTodos": first}
    assert isinstance(decoded("TodoWrite", outcome), TodoWriteResult)
    assert desk.todos == first
    done = [todo("a", "completed"), todo("b", "completed")]
    assert call(desk, "TodoWrite", todos=done).result == {"oldTodos": first, "newTodos": done}
    assert desk.todos == []


def test_a_call_is_aimed_at_what_is_being_done() -> None:
    tool = TodoWrite()
    assert tool.target({"todos": [todo("a", "pending"), todo("b", "in_progress")]}) == "Doing b"
    assert tool.target({"todos": [todo("a", "pending")]}) == "1 todos"
    assert tool.target({"todos": "odd"}) == ""
