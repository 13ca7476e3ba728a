"""Agents under the calls that started them."""

from __future__ import annotations

from pathlib import Path

import unspool
from unspool.export.outline import group_agents_by_call
from unspool.paths import project_key
from unspool.testing.build import assistant, session, tool_result, tool_use, user

ONE, TWO = (f"{digit * 8}-1111-4111-8111-111111111111" for digit in "12")
CWD = "/home/me/project"


def test_of_a_file_that_two_sessions_used_each_call_has_its_own_lines(tmp_path: Path) -> None:
    for id in (ONE, TWO):
        call = assistant(tool_use("Task", id="t", prompt=f"for {id}", subagent_type="x"))
        done = tool_result("ok", structured={"agentId": "a1", "status": "completed"})
        session(user("go"), call, done, id=id, cwd=CWD, version="2.0.76").save(tmp_path)
    lines = [session(user(f"for {id}"), assistant("done"), id=id, cwd=CWD, agent="a1").data for id in (ONE, TWO)]
    (tmp_path / "projects" / project_key(CWD) / "agent-a1.jsonl").write_bytes(b"".join(lines))
    for id in (ONE, TWO):
        (nested,) = group_agents_by_call(unspool.open(tmp_path).session(id))["t"]
        assert {entry.record.session_id for entry in nested.entries} == {id}
