"""Real sessions of many versions are gone on with: what is sent the API takes, and nothing is made worse."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from pathlib import Path

from tests.client.talk import Place, manuscript, opened, place
from tests.real_files import corpus
from unspool.client.config import SessionStart
from unspool.edit.rules import check
from unspool.edit.rules.violation import new_violations
from unspool.errors import NotFound

EVERY = 1 if os.environ.get("UNSPOOL_FAULTS") else 6


def test_sessions_of_all_versions_are_gone_on_with(tmp_path: Path) -> None:
    there = place(tmp_path)
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    files = sorted(corpus().rglob("*.jsonl"))
    for number, source in enumerate(files[::EVERY]):
        path = there.config / "projects" / "x" / f"{number:08x}-0000-4000-8000-000000000000.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)
        went = asyncio.run(gone_on(there, path))
        seen[went.partition(":")[0]] += 1
        if went.startswith("wrong"):
            wrong.append(f"{source}: {went}")
    assert wrong == []
    assert seen["fine"] > seen["not a conversation"] / 2 > 0


async def gone_on(there: Place, path: Path) -> str:
    before = manuscript(path)
    try:
        session = await opened(there, {"default": "Ok."}, SessionStart(resume=path))
    except NotFound:
        return "not a conversation"
    await session.say("And now?")
    await session.chat.close()
    if session.model.failures:
        return "no ids" if "Field required" in session.model.failures[0] else f"wrong: {session.model.failures[0]}"
    assert path.read_bytes().startswith(before.data)
    assert b"last-prompt" in b"".join(path.read_bytes().splitlines()[-2:])
    worse = new_violations(check.check_rules(manuscript(path)), check.check_rules(before))
    return f"wrong: {worse}" if worse else "fine"
