from pathlib import Path

from tests.client.tools.calling import call, context_in, decoded, text_of
from unspool.client.tools.todo import TodoWriteTool
from unspool.format.tools.plans import TodoWriteResult


def todo(content: str, status: str) -> dict[str, str]:
    return {"content": content, "status": status, "activeForm": f"Doing {content}"}


def test_a_list_is_kept_until_all_is_done(tmp_path: Path) -> None:
    context = context_in(tmp_path)
    first = [todo("a", "pending"), todo("b", "in_progress")]
    outcome = call(context, "TodoWrite", todos=first)
    assert text_of(outcome).startswith("Todos have been modified successfully. Ensure that you continue")
    assert outcome.result == {"oldTodos": [], "newTodos": first}
    assert isinstance(decoded("TodoWrite", outcome), TodoWriteResult)
    assert context.todos == first
    done = [todo("a", "completed"), todo("b", "completed")]
    assert call(context, "TodoWrite", todos=done).result == {"oldTodos": first, "newTodos": done}
    assert context.todos == []


def test_a_call_is_aimed_at_what_is_being_done() -> None:
    tool = TodoWriteTool()
    assert tool.target({"todos": [todo("a", "pending"), todo("b", "in_progress")]}) == "Doing b"
    assert tool.target({"todos": [todo("a", "pending")]}) == "1 todos"
    assert tool.target({"todos": "odd"}) == ""
