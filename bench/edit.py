"""CPU and memory to edit a session of 20 MB (plan, verify, apply), against orjson over its lines and back."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import child, corpus
from bench.child import Measured, Task
from bench.table import Row

ROUNDS = 5
SIZE = 20_000_000
AGAINST = "orjson, every line decoded and encoded"
_PARAMETERS = corpus.Parameters(size=SIZE, sessions=1, projects=1, shares=(("2.1.160", 1.0),))


def rows() -> list[Row]:
    """Measure."""
    root = corpus.tree(_PARAMETERS, name="edit")
    (path,) = root.glob("projects/*/*.jsonl")
    sides: dict[Task, list[Measured]] = {there_and_back: [], trim: [], clone: []}
    for number in range(ROUNDS):
        for task, measured in sides.items():
            corpus.say(f"edit: round {number + 1} of {ROUNDS}, {task.__name__}")
            measured.append(child.run(task, str(path)))
    corpus.say("")
    bare = min(one.cpu for one in sides[there_and_back])
    found = []
    for name, task in (("trim --results of 20 MB", trim), ("clone of 20 MB", clone)):
        cpu = min(one.cpu for one in sides[task])
        found.append(Row(name=name, unit="s", ours=cpu, reference=bare, target=8, against=AGAINST))
        memory = min(one.memory for one in sides[task]) / 1e6
        size = path.stat().st_size / 1e6
        found.append(Row(name="  memory", unit="MB", ours=memory, reference=size, target=8, against="the file"))
    return found


def there_and_back(argument: str) -> Callable[[], dict[str, int]]:
    """Decode every line and encode it again."""
    import orjson

    data = Path(argument).read_bytes()

    def work() -> dict[str, int]:
        return {"bytes": sum(len(orjson.dumps(orjson.loads(line))) for line in data.splitlines())}

    return work


def trim(argument: str) -> Callable[[], dict[str, int]]:
    """Plan, verify and apply: results become stubs."""
    from unspool.edit.planning.plan import Trim

    return _edit(argument, Trim(results=True))


def clone(argument: str) -> Callable[[], dict[str, int]]:
    """Plan, verify and apply: a copy under new ids."""
    from unspool.edit.planning.plan import Clone

    return _edit(argument, Clone())


def _edit(argument: str, operation: object) -> Callable[[], dict[str, int]]:
    import unspool
    from unspool.edit.api import apply_edit, plan_edit

    folder = Path(tempfile.mkdtemp(prefix="unspool-bench-"))
    path = folder / "config" / "projects" / "-p" / Path(argument).name
    path.parent.mkdir(parents=True)
    shutil.copyfile(argument, path)
    session = unspool.open(folder / "config").session(path.stem)

    def work() -> dict[str, int]:
        edited = apply_edit(plan_edit(session, operation), folder=folder / "own")  # type: ignore[arg-type]
        size = edited.path.stat().st_size
        shutil.rmtree(folder)
        return {"bytes": size}

    return work
