"""Trees of session files in which it is not plain which session pays for a response."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from unspool.demo import Step, assistant, session, user, write_demo

S = [f"{digit}0000000-0000-4000-8000-00000000000{digit}" for digit in range(10)]
OPUS, HAIKU, UNPRICED = "claude-opus-4-5-20251101", "claude-haiku-4-5", "glm-4.7"
PROJECT, OTHER = "projects/-home-me-project", "projects/-home-me-other"
CASES = Path(__file__).parent / "conformance" / "cases"

Tree = Callable[[Path], None]
"""Writes a config folder."""


def answers(count: int, model: str = OPUS) -> list[Step]:
    """Return a prompt and some answers."""
    return [user("go on"), *(assistant(f"answer {number}", model=model) for number in range(count))]


def save(config: Path, place: str, data: bytes) -> Path:
    """Write a file."""
    path = config / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def built(number: int, *steps: Step, **options: Any) -> bytes:
    """Return the bytes of a session, or of one of its agents."""
    return session(*steps, id=S[number], **options).data


def without_ids(data: bytes) -> bytes:
    """Return lines that do not say which session they are of."""
    lines = [json.loads(line) for line in data.splitlines()]
    return b"".join(json.dumps({**line, "sessionId": None}).encode() + b"\n" for line in lines)


def demo(config: Path) -> None:
    """The folder that `unspool demo` writes."""
    write_demo(config)


def plain(config: Path) -> None:
    """Two sessions with their own names."""
    for number in (1, 2):
        save(config, f"{PROJECT}/{S[number]}.jsonl", built(number, *answers(number)))


def renamed(config: Path) -> None:
    """A file whose name is not the id on its lines, and its agents in the folder of the old name."""
    save(config, f"{PROJECT}/before the move.jsonl", built(1, *answers(3)))
    save(config, f"{PROJECT}/{S[1]}/subagents/agent-a1.jsonl", built(1, *answers(2, HAIKU), agent="a1"))
    save(config, f"{PROJECT}/{S[2]}.jsonl", built(2, *answers(1)))


def renamed_after_another(config: Path) -> None:
    """Two files that have each other's names."""
    save(config, f"{PROJECT}/{S[1]}.jsonl", built(2, *answers(3)))
    save(config, f"{PROJECT}/{S[2]}.jsonl", built(1, *answers(1)))


def copied(config: Path) -> None:
    """A session and its copy under another name; the copy went on."""
    data = built(1, *answers(3))
    save(config, f"{PROJECT}/{S[1]}.jsonl", data)
    save(config, f"{PROJECT}/copy.jsonl", data + built(1, *answers(1, HAIKU), start="2026-01-06T09:00:00.000Z"))


def forked(config: Path) -> None:
    """Forks that repeat the lines of a session, with the new id and with the old one."""
    first = built(1, *answers(4))
    save(config, f"{PROJECT}/{S[1]}.jsonl", first)
    save(config, f"{PROJECT}/{S[2]}.jsonl", first.replace(S[1].encode(), S[2].encode()) + built(2, *answers(2, HAIKU)))
    save(config, f"{PROJECT}/{S[3]}.jsonl", first + built(3, *answers(1)))


def resumed_in_a_chain(config: Path) -> None:
    """Each session repeats all lines of the one before."""
    data = b""
    for number in range(1, 6):
        data += built(number, *answers(2), start=f"2026-01-0{number}T09:00:00.000Z")
        save(config, f"{PROJECT}/{S[number]}.jsonl", data)


def same_id_in_two_projects(config: Path) -> None:
    """A session in two projects, with its agents; each file has something of its own."""
    shared = built(1, *answers(3))
    for project, day in ((PROJECT, 6), (OTHER, 7)):
        more = built(1, *answers(day), start=f"2026-01-0{day}T09:00:00.000Z")
        agent = built(1, *answers(day, HAIKU), agent=f"a{day}")
        save(config, f"{project}/{S[1]}.jsonl", shared + more)
        save(config, f"{project}/{S[1]}/subagents/agent-a{day}.jsonl", agent)


def agents_in_folders(config: Path) -> None:
    """Agents in the session's folder, one of them with the id of another session on its lines."""
    save(config, f"{PROJECT}/{S[1]}.jsonl", built(1, *answers(1)))
    save(config, f"{PROJECT}/{S[2]}.jsonl", built(2, *answers(1)))
    save(config, f"{PROJECT}/{S[1]}/subagents/agent-a1.jsonl", built(1, *answers(2), agent="a1"))
    save(config, f"{PROJECT}/{S[1]}/subagents/workflows/wf_1/agent-a2.jsonl", built(2, *answers(3), agent="a2"))


def agents_beside(config: Path) -> None:
    """Agents beside their sessions: of one session, of two, of none, and of one in another project."""
    save(config, f"{PROJECT}/{S[1]}.jsonl", built(1, *answers(1)))
    save(config, f"{OTHER}/{S[2]}.jsonl", built(2, *answers(1)))
    both = built(1, *answers(2), agent="a1") + built(2, *answers(1), agent="a1")
    save(config, f"{PROJECT}/agent-a1.jsonl", both)
    save(config, f"{PROJECT}/agent-a2.jsonl", without_ids(built(3, *answers(2), agent="a2")))
    save(config, f"{PROJECT}/agent-a3.jsonl", without_ids(built(4, *answers(1), agent="a3")) + both)


def agents_alone(config: Path) -> None:
    """Agents whose session has no file: two in a folder, one beside, one of two such sessions."""
    for agent in ("a1", "a2"):
        save(config, f"{PROJECT}/{S[1]}/subagents/agent-{agent}.jsonl", built(1, *answers(2), agent=agent))
    save(config, f"{OTHER}/agent-a3.jsonl", built(2, *answers(1), agent="a3"))
    both = built(3, *answers(1), agent="a4") + built(4, *answers(2, UNPRICED), agent="a4")
    save(config, f"{OTHER}/agent-a4.jsonl", both)
    save(config, f"{PROJECT}/{S[5]}/subagents/agent-a5.jsonl", built(5, user("nothing was billed"), agent="a5"))


def unpriced(config: Path) -> None:
    """No response has a price."""
    save(config, f"{PROJECT}/{S[1]}.jsonl", built(1, *answers(2, UNPRICED)))
    save(config, f"{PROJECT}/{S[2]}.jsonl", built(2, user("nothing was billed")))


def partly_unpriced(config: Path) -> None:
    """Some responses have a price, in one session and across sessions."""
    save(config, f"{PROJECT}/{S[1]}.jsonl", built(1, *answers(2, UNPRICED), *answers(1)))
    save(config, f"{PROJECT}/{S[2]}.jsonl", built(2, *answers(2, UNPRICED)))
    save(config, f"{PROJECT}/{S[3]}.jsonl", built(3, *answers(1)))


def nothing_billed(config: Path) -> None:
    """A session without answers."""
    save(config, f"{PROJECT}/{S[1]}.jsonl", built(1, user("hello")))


def hostile_ids(config: Path) -> None:
    """Ids that are no ids."""
    for number, id in enumerate(
        ["../../etc/passwd", "", "a/b", "'; DROP TABLE answers; --", "x" * 300, "\u202e\x1b[31m"]
    ):
        lines = [json.loads(line) for line in built(number, *answers(number + 1), agent=f"a{number}").splitlines()]
        data = b"".join(json.dumps({**line, "sessionId": id}).encode() + b"\n" for line in lines)
        save(config, f"{PROJECT}/agent-a{number}.jsonl", data)
        save(config, f"{OTHER}/{S[number]}.jsonl", data.replace(b"msg_", b"other_"))


def wrong_types(config: Path) -> None:
    """Fields of other types than they should have, and lines that are torn."""
    lines = [json.loads(line) for line in built(1, *answers(4)).splitlines()]
    values: list[Any] = [["x"], {"a": 1}, 7, True, None]
    data = b"".join(
        json.dumps({**line, "sessionId": value}).encode() + b"\n" for line, value in zip(lines, values, strict=True)
    )
    save(config, f"{PROJECT}/{S[1]}.jsonl", data)
    save(config, f"{PROJECT}/agent-a1.jsonl", data.replace(b"msg_", b"agent_"))
    save(config, f"{PROJECT}/{S[2]}.jsonl", built(2, *answers(3))[:-40])


def several_folders(config: Path) -> None:
    """Config folders in one folder, with a session in both."""
    for name, number in (("work/.claude", 2), ("home/.claude", 3)):
        forked(config / name)
        save(config / name, f"{OTHER}/{S[number]}.jsonl", built(number, *answers(number, HAIKU)))


def loose_files(config: Path) -> None:
    """Session files in no config folder."""
    save(config, "a.jsonl", built(1, *answers(2)))
    save(config, "deep/er/b.jsonl", built(1, *answers(3), start="2026-01-06T09:00:00.000Z"))
    save(config, "deep/agent-a1.jsonl", built(1, *answers(1, HAIKU), agent="a1"))


def unreadable_session(config: Path) -> None:
    """A session that cannot be read, and its agents that can."""
    plain(config)
    save(config, f"{PROJECT}/{S[1]}/subagents/agent-a1.jsonl", built(1, *answers(2, HAIKU), agent="a1"))
    (config / PROJECT / f"{S[1]}.jsonl").chmod(0)


def unreadable_agent(config: Path) -> None:
    """An agent that cannot be read, in the folder and beside the session."""
    agents_in_folders(config)
    save(config, f"{PROJECT}/agent-a9.jsonl", built(1, *answers(1), agent="a9")).chmod(0)
    (config / PROJECT / S[1] / "subagents" / "agent-a1.jsonl").chmod(0)


def unreadable_folder(config: Path) -> None:
    """A project that cannot be read, with a copy of a session in another one."""
    same_id_in_two_projects(config)
    (config / OTHER).chmod(0)


TREES: dict[str, Tree] = {
    "demo": demo,
    **{
        tree.__name__.replace("_", " "): tree
        for tree in (
            plain, renamed, renamed_after_another, copied, forked, resumed_in_a_chain, same_id_in_two_projects,
            agents_in_folders, agents_beside, agents_alone, unpriced, partly_unpriced, nothing_billed, hostile_ids,
            wrong_types, several_folders, loose_files, unreadable_session, unreadable_agent, unreadable_folder,
        )
    },
}  # fmt: skip
"""By name."""


def conformance_cases() -> Iterator[tuple[str, Path]]:
    """Yield the name and the config folder of each case of the conformance set."""
    for case in sorted(CASES.iterdir()):
        yield case.name, case / "config"
