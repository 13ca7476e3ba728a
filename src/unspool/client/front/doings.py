"""Commands that need a terminal: what is done about each. A terminal and what stands after the command in."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from unspool.client.asked import Start
from unspool.client.front import commands, sessions
from unspool.client.front.picking import Option, Picking
from unspool.errors import NothingFound, Usage
from unspool.export import figures
from unspool.paths import absolute

if TYPE_CHECKING:
    from unspool.client.front.terminal import Terminal

Doing: TypeAlias = Callable[["Terminal", str], Awaitable[None]]


async def _help(terminal: Terminal, words: str) -> None:
    known = {**commands.TERMINAL, **commands.customs(terminal.chat)}
    width = max(map(len, known))
    lines = [f"/{name:<{width}}  {told}" for name, told in known.items()]
    keys = "!COMMAND runs a shell command · @FILE names a file · Alt-Enter or \\ and Enter: a new line"
    more = "Esc interrupts · Esc Esc goes back · shift-tab: the next mode · Ctrl-C twice or Ctrl-D leaves"
    terminal.surface.show(terminal.drawing().text("\n".join([*lines, "", keys, more])) + "\n")


async def _resume(terminal: Terminal, words: str) -> None:
    opening = terminal.opening
    if words:
        await terminal.go(Start(resume=sessions.named(words, opening.config, opening.cwd)))
        return
    found = [one for one in sessions.listed(opening.config, opening.cwd) if one.id != terminal.chat.session_id]
    if not found:
        raise NothingFound("there is no other session in this folder")
    now = datetime.now(UTC)
    options = [
        Option(
            one.title.split("\n")[0][:60],
            f"{figures.ago(datetime.fromtimestamp(one.modified / 1e9, UTC), now)}, {figures.amount(one.turns, 'turn')}",
        )
        for one in found
    ]
    picked = await terminal.surface.pick(Picking("Go on with which session?", options))
    if picked is not None:
        await terminal.go(Start(resume=found[picked.place].path))


async def _tree(terminal: Terminal, words: str) -> None:
    branches = terminal.chat.tree()
    if not branches:
        raise NothingFound("nothing was said yet")
    options = [Option(branch.text.split("\n")[0][:60], branch.detail) for branch in branches]
    picked = await terminal.surface.pick(Picking("Go on from which branch?", options))
    if picked is not None:
        await terminal.go(Start(resume=terminal.chat.path, leaf=branches[picked.place].leaf, force=True))


async def _fork(terminal: Terminal, words: str) -> None:
    _something(terminal)
    before = terminal.chat.session_id
    await terminal.go(Start(resume=terminal.chat.path, fork=True, force=True))
    terminal.surface.show(terminal.drawing().notice(f"a copy of {before}, which stays as it is") + "\n")


async def _rewind(terminal: Terminal, words: str) -> None:
    points = terminal.chat.points()
    if not points:
        raise NothingFound("there is no prompt to go back to")
    options = [Option(point.text.split("\n")[0][:60], _changed(len(point.files))) for point in points]
    at = len(options) - 1
    picked = await terminal.surface.pick(Picking("Go back to before which prompt?", options, at=at))
    if picked is None:
        return
    point = points[picked.place]
    ways = [("Conversation and files", True, True), ("The conversation only", True, False), ("Files only", False, True)]
    way = await terminal.surface.pick(Picking("What goes back?", [Option(words) for words, _, _ in ways]))
    if way is None:
        return
    _, conversation, files = ways[way.place]
    restored = terminal.chat.rewind(point.uuid, conversation=conversation, files=files)
    terminal.surface.show(terminal.drawing().notice(f"went back; {_changed(len(restored))} restored") + "\n")
    if conversation:
        terminal.surface.fill(point.text)


async def _clear(terminal: Terminal, words: str) -> None:
    await terminal.go(Start())


async def _model(terminal: Terminal, words: str) -> None:
    if not words:
        names = [*dict.fromkeys([terminal.chat.model, *commands.ALIASES])]
        picked = await terminal.surface.pick(Picking("Go on with which model?", [Option(name) for name in names]))
        if picked is None:
            return
        words = names[picked.place]
    terminal.chat.set_model(commands.model_name(words))
    terminal.surface.show(terminal.drawing().notice(f"goes on with {terminal.chat.model}") + "\n")


async def _export(terminal: Terminal, words: str) -> None:
    from unspool.export.markdown import markdown

    _something(terminal)
    session = sessions.read(terminal.chat.path)
    target = absolute(terminal.opening.cwd / Path(words or f"{terminal.chat.session_id}.md").expanduser())
    text = markdown(session)
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise Usage(f"`{target}` exists", hint="name a file that does not") from None
    with os.fdopen(descriptor, "w", errors="replace") as file:
        file.write(text)
    terminal.surface.show(terminal.drawing().notice(f"written: {target}") + "\n")


async def _rename(terminal: Terminal, words: str) -> None:
    if not words:
        raise Usage("a title is missing", hint="`/rename TITLE`")
    _something(terminal)
    terminal.chat.rename(words)
    terminal.surface.show(terminal.drawing().notice(f"the session is now `{words}`") + "\n")


async def _exit(terminal: Terminal, words: str) -> None:
    terminal.surface.leave()


def _changed(count: int) -> str:
    return figures.amount(count, "file") if count else "no files"


def _something(terminal: Terminal) -> None:
    if not terminal.chat.path.exists():
        raise NothingFound("nothing was said yet")


DOINGS: dict[str, Doing] = {
    "help": _help,
    "resume": _resume,
    "tree": _tree,
    "fork": _fork,
    "rewind": _rewind,
    "clear": _clear,
    "new": _clear,
    "model": _model,
    "export": _export,
    "rename": _rename,
    "exit": _exit,
    "quit": _exit,
}
