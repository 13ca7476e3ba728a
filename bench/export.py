"""CPU of `unspool export --html` of one session, against `--json` of the same session."""

from __future__ import annotations

from bench import corpus
from bench.table import Row
from bench.usage import Spent, around, best, empty_folder, spent, unspool

ROUNDS = 5
SIZE = 3_800_000
_PARAMETERS = corpus.Parameters(size=SIZE, sessions=1, projects=1, shares=(("2.1.160", 1.0),))


def rows() -> list[Row]:
    """Measure."""
    tree = corpus.tree(_PARAMETERS, name="html")
    (session,) = tree.glob("projects/*/*.jsonl")
    sides: dict[str, list[Spent]] = {"--json": [], "--html": []}
    with empty_folder() as data:
        environment = around(tree, data)
        for number in range(ROUNDS):
            for form, side in sides.items():
                corpus.say(f"export {form}: round {number + 1} of {ROUNDS}")
                side.append(spent(unspool("export", str(session), form), environment))
    corpus.say("")
    ours, reference = sides["--html"], sides["--json"]
    walls = [min(one.wall for one in side) for side in (ours, reference)]
    memory = [max(one.memory for one in side) / 1e6 for side in (ours, reference)]
    name, against = f"export --html of {session.stat().st_size / 1e6:.1f} MB", "export --json"
    return [
        Row(name=name, unit="s", ours=best(ours), reference=best(reference), against=against, target=4),
        Row(name="  wall time", unit="s", ours=walls[0], reference=walls[1], against=against),
        Row(name="  peak memory", unit="MB", ours=memory[0], reference=memory[1], against=against),
    ]
