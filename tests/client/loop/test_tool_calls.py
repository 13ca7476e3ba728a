"""`client/loop/tool_calls.py`: what follows a call besides its result."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.client.talk import Allow, Echo, all_lines, fitted, of, opened, place, records, talk
from unspool.client import events
from unspool.client.protocols import PermissionAnswer, PermissionRequest, UserQuestion
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import ToolOutcome
from unspool.permissions import RuleDecision


class Doing(Echo):
    """Does something to the desk."""

    name = "Bash"
    is_concurrent = False

    def __init__(self, said: str = "done") -> None:
        super().__init__()
        self._said = said

    async def run(self, input: dict[str, Any], desk: ToolContext, call_id: str) -> ToolOutcome:
        for name, value in input.items():
            if name == "cwd":
                desk.cwd = desk.workspace.root / value
            elif name != "command":
                setattr(desk, name, value)
        return ToolOutcome(content=self._said, result={"stdout": self._said})


def does(**input: Any) -> list[Any]:
    return [{"content": [{"type": "tool_use", "name": "Bash", "input": input}]}, "Done."]


def test_a_todo_list_is_kept_and_told(tmp_path: Path) -> None:
    there = place(tmp_path)
    todos = [{"content": "Sow", "status": "pending", "activeForm": "Sowing"}]
    session, found = talk(there, does(todos=todos), "Go.", fittings=fitted([Doing()]))
    assert [event.todos for event in of(events.TodosChanged, found)] == [tuple(todos)]
    id = session.chat.session_id
    assert msgspec.json.decode((there.config / "todos" / f"{id}-agent-{id}.json").read_bytes()) == todos


def test_another_mode_is_told(tmp_path: Path) -> None:
    session, found = talk(place(tmp_path), [*does(mode="plan"), "Yes."], "Go.", "On.", fittings=fitted([Doing()]))
    assert [event.mode for event in of(events.ModeChanged, found)] == ["plan"]
    assert session.chat.mode == "plan"


def test_lines_say_where_the_shell_has_walked_to(tmp_path: Path) -> None:
    there = place(tmp_path)
    (there.work / "deep" / ".git").mkdir(parents=True)
    (there.work / "deep" / ".git" / "HEAD").write_text("ref: refs/heads/side\n")
    session, _ = talk(there, does(cwd="deep"), "Go.", fittings=fitted([Doing()]))
    root = str(there.work.resolve())
    places = [(line["cwd"], line["gitBranch"]) for line in all_lines(session.chat.path) if "uuid" in line]
    assert places == [(root, "")] * 3 + [(f"{root}/deep", "side")] * 2


@pytest.mark.parametrize(
    ("command", "said", "linked"),
    [("gh pr create --fill", "https://github.com/me/it/pull/7\n", True),
     ("git push && gh pr create", "Created https://git.example.com/me/it/pull/12", True),
     ("echo https://github.com/me/it/pull/7", "https://github.com/me/it/pull/7", False),
     ("gh pr create", "aborted", False)],
)  # fmt: skip
def test_a_pull_request_that_a_call_makes_is_noted(tmp_path: Path, command: str, said: str, linked: bool) -> None:
    session, _ = talk(place(tmp_path), does(command=command), "Go.", fittings=fitted([Doing(said)]))
    found = records(session.chat.path, "pr-link")
    assert bool(found) is linked
    if linked:
        assert found[0]["prRepository"] == "me/it"
        assert found[0]["prUrl"].endswith(f"/pull/{found[0]['prNumber']}")
        assert found[0]["sessionId"] == session.chat.session_id


class Watching:
    """A person who looks at what others are told of them."""

    def __init__(self, entry: Path) -> None:
        self._entry = entry
        self.seen: list[tuple[str, str]] = []

    def _look(self) -> None:
        told = msgspec.json.decode(next(self._entry.glob("*.json")).read_bytes())
        self.seen.append((told["status"], told.get("waitingFor", "")))

    async def ask_permission(self, wish: PermissionRequest, ruling: RuleDecision) -> PermissionAnswer:
        self._look()
        return PermissionAnswer(allowed=True)

    async def ask_questions(self, choices: tuple[UserQuestion, ...]) -> dict[str, str] | None:
        self._look()
        return None

    async def approve_plan(self, plan: str) -> PermissionAnswer:
        self._look()
        return PermissionAnswer(allowed=True)


def test_who_waits_for_a_person_says_so(tmp_path: Path) -> None:
    there = place(tmp_path)
    person = Watching(there.config / "sessions")

    async def go() -> None:
        session = await opened(there, does(), person=person, fittings=fitted([Doing()], Allow("ask")))
        await session.say("Go.")
        await session.chat.context.user.ask_questions(())
        await session.chat.context.user.approve_plan("a plan")
        await session.chat.close()

    asyncio.run(go())
    assert person.seen == [
        ("waiting", "permission prompt"), ("waiting", "input needed"), ("waiting", "permission prompt"),
    ]  # fmt: skip
