from __future__ import annotations

from pathlib import Path

from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from unspool.client.session.prompt_history import TypedPrompt, read_prompt_history
from unspool.client.ui.completion import ChatCompleter, can_complete


def texts(before: str, root: Path) -> list[str]:
    completer = ChatCompleter(lambda: {"help": "", "resume": "", "db:up": ""}, root)
    return [one.text for one in completer.get_completions(Document(before), CompleteEvent())]


def test_commands_are_completed_at_the_beginning_only(tmp_path: Path) -> None:
    assert texts("/", tmp_path) == ["/help", "/resume", "/db:up"]
    assert texts("/re", tmp_path) == ["/resume"]
    assert texts("see /re", tmp_path) == []
    assert not can_complete("see /re")


def test_files_are_completed_after_an_at_sign_near_ones_first(tmp_path: Path) -> None:
    for name in ("src/deep/module.py", "module.txt", ".git/module", "node_modules/module.js", "bad\x1bmodule"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert texts("look at @mod", tmp_path) == ["module.txt", "src/deep/module.py"]
    assert texts("me@mod", tmp_path) == []
    assert texts("@nothing", tmp_path / "missing") == []


def test_what_was_typed_in_this_folder_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    assert read_prompt_history(path, "/work") == []
    path.write_text(
        '{"display":"one","timestamp":1,"project":"/work"}\n{"display":"one","timestamp":2,"project":"/work"}\n'
        'broken\n{"display":"other","timestamp":3,"project":"/else"}\n{"display":"two","timestamp":4,"project":"/work"}'
    )
    assert read_prompt_history(path, "/work") == [TypedPrompt("one"), TypedPrompt("two")]
