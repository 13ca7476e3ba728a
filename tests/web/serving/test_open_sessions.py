"""Sessions that pages look at, found in the store."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from unspool.cli import options, store_access
from unspool.errors import NotFound
from unspool.testing.build import assistant, session, user
from unspool.web.serving.open_sessions import OpenSessions
from unspool.web.serving.site import Site


def test_an_agent_has_a_page_before_the_store_knows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_HOME", str(tmp_path / "unspool"))
    path = session(user("go"), assistant("ok")).save(tmp_path / "claude")
    with store_access.open_folders(options.AccessOptions((str(tmp_path / "claude"),))) as synced:
        site = Site(synced.roots, synced.folder, synced.preferences, lambda: datetime.now(UTC), list)
    agent = path.with_suffix("") / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(session(user("look"), assistant("seen"), id=path.stem).data)
    with OpenSessions(site).open(path.stem, "a1") as view:
        assert [turn.prompt for turn in view.outline().turns] == ["look"]
    with pytest.raises(NotFound, match="no agent matches"), OpenSessions(site).open(path.stem, "a2"):
        pass


@pytest.mark.parametrize("grown", [False, True])
def test_of_two_copies_the_one_with_its_agents_is_opened_unless_the_other_went_on(
    grown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNSPOOL_HOME", str(tmp_path / "unspool"))
    path = session(user("go"), assistant("ok")).save(tmp_path / "claude")
    agent = path.with_suffix("") / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(session(user("look"), assistant("seen"), id=path.stem).data)
    copy = tmp_path / "claude" / "projects" / "-other" / path.name
    copy.parent.mkdir()
    copy.write_bytes(path.read_bytes())
    if grown:
        more = session(user("go"), assistant("ok"), user("go on"), assistant("done"), id=path.stem)
        copy.write_bytes(more.data)
    os.utime(copy, (path.stat().st_mtime + 60, path.stat().st_mtime + 60))
    with store_access.open_folders(options.AccessOptions((str(tmp_path / "claude"),))) as synced:
        site = Site(synced.roots, synced.folder, synced.preferences, lambda: datetime.now(UTC), list)
    with OpenSessions(site).open(path.stem) as view:
        assert view.source.path == (copy if grown else path)
        assert len(view.session.agent_sources) == (0 if grown else 1)
