from __future__ import annotations

from tests.client.conftest import Chat, Place
from tests.client.ui import task
from tests.client.ui.rig import Typed
from unspool.edit.rules import check
from unspool.edit.session_text import parse_session_text


def test_a_task_is_done_without_a_terminal(chat: Chat, place: Place) -> None:
    task.repository(place.work)
    flags = ("--allowedTools", task.ALLOWED, "--output-format", "json")
    done = chat("-p", task.PROMPT, *flags, script=task.script(place.work), **task.IDENTITY)
    assert done.err == ""
    assert (done.code, done.object["result"], done.object["num_turns"]) == (0, task.DONE, 6)
    assert done.object["permission_denials"] == []
    assert task.is_done(place.work)
    (path,) = place.sessions()
    assert check.check_rules(parse_session_text(path.stem, path.read_bytes())) == []


def test_the_same_task_is_done_in_a_terminal(place: Place) -> None:
    task.repository(place.work)
    model = place.script(task.script(place.work))
    environment = {**place.environment, **task.IDENTITY}
    with Typed("-m", "unspool", "chat", "--model", model, cwd=place.work, environment=environment) as terminal:
        terminal.answer("n", "Do you trust this folder?")
        terminal.see("/help")
        terminal.say(task.PROMPT)
        terminal.see("python3 -B -m unittest -q")
        terminal.answer("s", "Allow this? Bash(python3")  # from now on in this session
        terminal.see("AssertionError: -1 != 5")
        terminal.see("2 -     return a - b", "2 +     return a + b")
        terminal.answer("y", "Allow this? Edit(calc.py)")
        terminal.see("git commit -q -am 'Mend add'")
        terminal.answer("y", "Allow this? Bash(git commit")
        terminal.see(task.DONE)
        assert terminal.leave() == 0
    assert task.is_done(place.work)
    (path,) = place.sessions()
    assert check.check_rules(parse_session_text(path.stem, path.read_bytes())) == []
