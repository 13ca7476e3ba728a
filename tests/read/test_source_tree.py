"""What a tree holds, whatever its layout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unspool.read.source_tree import Kind, Tree, scan

S1 = "11111111-1111-4111-8111-111111111111"
S2 = "22222222-2222-4222-8222-222222222222"


def grow(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}\n")
    return root


def kinds(tree: Tree) -> dict[str, str]:
    return {str(source.path.relative_to(tree.root)): source.kind.value for source in tree.sources}


CONFIG = {
    f"projects/-a-b/{S1}.jsonl": "session",
    f"projects/-a-b/{S1}/subagents/agent-a73dda21296a5887d.jsonl": "agent",
    f"projects/-a-b/{S1}/subagents/agent-a73dda21296a5887d.meta.json": "agent-meta",
    f"projects/-a-b/{S1}/subagents/agent-aprompt_suggestion-d883a2.jsonl": "agent",
    f"projects/-a-b/{S1}/subagents/agent-acompact-1f2e3d.jsonl": "agent",
    f"projects/-a-b/{S1}/subagents/workflows/wf_1/agent-a1.jsonl": "agent",
    f"projects/-a-b/{S1}/subagents/workflows/wf_1/agent-a1.meta.json": "agent-meta",
    f"projects/-a-b/{S1}/subagents/workflows/wf_1/journal.jsonl": "journal",
    f"projects/-a-b/{S1}/workflows/wf_1.json": "workflow",
    f"projects/-a-b/{S1}/tool-results/toolu_1.txt": "tool-result",
    f"projects/-a-b/{S1}/tool-results/data.jsonl": "tool-result",
    f"projects/-a-b/{S1}/custom-title.json": "title",
    "projects/-a-b/agent-1a2b3c4d.jsonl": "agent",
    "projects/-a-b/sessions-index.json": "index",
    "projects/-a-b/memory/MEMORY.md": "memory",
    "projects/-a-b/memory/more/topic.md": "memory",
    f"projects/C--Users-me/{S2}.jsonl": "session",
    "history.jsonl": "history",
    "stats-cache.json": "stats",
    "settings.json": "settings",
    "settings.local.json": "settings",
    f"todos/{S1}-agent-{S1}.json": "todos",
    f"tasks/{S1}/1.json": "task",
    "plans/calm-singing-fox.md": "plan",
    "sessions/4711.json": "registry",
    f"file-history/{S1}/0123456789abcdef@v1": "file-backup",
}
NOT_OURS = [
    "plugins/cache/x.jsonl",
    "shell-snapshots/snap.jsonl",
    "debug/log.jsonl",
    "sessions/4711.abcdef.key",
    f"tasks/{S1}/.lock",
    "tasks/loose.json",
    "todos/readme.txt",
    "plans/notes.txt",
    "file-history/loose",
    ".claude.json",
    "CLAUDE.md",
]


def test_a_config_folder_is_known_by_what_it_holds(tmp_path: Path) -> None:
    grow(tmp_path, *CONFIG, *NOT_OURS)
    assert kinds(scan(tmp_path)) == CONFIG


def test_a_config_folder_is_found_anywhere_in_a_tree(tmp_path: Path) -> None:
    grow(tmp_path / "deep" / "home" / ".claude", *CONFIG, *NOT_OURS)
    found = {name.removeprefix("deep/home/.claude/"): kind for name, kind in kinds(scan(tmp_path)).items()}
    assert found == CONFIG


def test_one_project_of_it_will_do(tmp_path: Path) -> None:
    grow(tmp_path, *CONFIG)
    tree = scan(tmp_path / "projects" / "-a-b")
    inside = "projects/-a-b/"
    assert kinds(tree) == {n.removeprefix(inside): k for n, k in CONFIG.items() if n.startswith(inside)}
    assert {source.project for source in tree.sources} == {"-a-b"}


def test_one_session_folder_will_do(tmp_path: Path) -> None:
    grow(tmp_path, *CONFIG)
    tree = scan(tmp_path / "projects" / "-a-b" / S1)
    assert {source.session_id for source in tree.sources} == {S1}
    assert Kind.TOOL_RESULT in {source.kind for source in tree.sources}


def test_one_file_will_do(tmp_path: Path) -> None:
    grow(tmp_path, "any.name", "history.jsonl")
    assert [source.kind for source in scan(tmp_path / "any.name").sources] == [Kind.SESSION]
    assert [source.kind for source in scan(tmp_path / "history.jsonl").sources] == [Kind.HISTORY]


def test_a_loose_tree_is_searched_whole(tmp_path: Path) -> None:
    grow(tmp_path, "a/b/session1.jsonl", f"x/{S1}/subagents/agent-a1.jsonl", "cache/y.jsonl", "-p/agent-a2.jsonl")
    assert kinds(scan(tmp_path)) == {
        "a/b/session1.jsonl": "session",
        f"x/{S1}/subagents/agent-a1.jsonl": "agent",
        "cache/y.jsonl": "session",
        "-p/agent-a2.jsonl": "agent",
    }


def test_places_say_whose_a_file_is(tmp_path: Path) -> None:
    tree = scan(grow(tmp_path, *CONFIG))
    agents = {source.agent_id: source for source in tree.of(Kind.AGENT)}
    assert agents["a73dda21296a5887d"].session_id == S1
    assert agents["aprompt_suggestion-d883a2"].project == "-a-b"
    assert agents["1a2b3c4d"].session_id is None
    (first, second) = tree.of(Kind.SESSION)
    assert (first.session_id, first.project, second.session_id, second.project) == (S1, "-a-b", S2, "C--Users-me")


def test_an_empty_file_is_a_session_too(tmp_path: Path) -> None:
    (tmp_path / f"{S1}.jsonl").touch()
    (source,) = scan(tmp_path).sources
    assert source.size == 0


def test_an_agent_file_with_a_strange_name_has_no_id(tmp_path: Path) -> None:
    (source,) = scan(grow(tmp_path, "agent-;rm -rf.jsonl")).sources
    assert (source.kind, source.agent_id) == (Kind.AGENT, None)


def test_links_are_not_followed_and_those_that_leave_are_named(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    grow(root, "a/s.jsonl")
    grow(outside, "secret.jsonl", "words.txt")
    (root / "inside").symlink_to(root / "a")
    (root / "loop").symlink_to(root)
    (root / "away").symlink_to(outside)
    (root / "away.jsonl").symlink_to(outside / "secret.jsonl")
    (root / "words").symlink_to(outside / "words.txt")
    (root / "round").symlink_to(root / "round")
    tree = scan(root)
    assert kinds(tree) == {"a/s.jsonl": "session"}
    assert {(skipped.path.name, skipped.reason) for skipped in tree.skipped} == {
        ("away", "symbolic link out of the folder"),
        ("away.jsonl", "symbolic link out of the folder"),
        ("round", "broken symbolic link"),
    }


def test_links_in_a_config_folder_matter_only_where_something_is_read(tmp_path: Path) -> None:
    root, outside = tmp_path / ".claude", tmp_path / "dotfiles"
    grow(root, "projects/-home-me/s.jsonl")
    grow(outside, "CLAUDE.md", "skills/x.md", "todos/t.json", "agents.jsonl")
    for name in ("CLAUDE.md", "skills", "todos"):
        (root / name).symlink_to(outside / name)
    (root / "gone.md").symlink_to(outside / "gone.md")
    (root / "projects" / "-home-me" / "notes.md").symlink_to(outside / "gone.md")
    (root / "projects" / "-home-me" / "gone.jsonl").symlink_to(outside / "gone.jsonl")
    (root / "projects" / "-home-you").symlink_to(outside)
    assert [(skipped.path.name, skipped.reason) for skipped in scan(root).skipped] == [
        ("gone.jsonl", "broken symbolic link"),
        ("-home-you", "symbolic link out of the folder"),
        ("todos", "symbolic link out of the folder"),
    ]


def test_only_regular_files_are_taken(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    tree = scan(tmp_path)
    assert tree.sources == ()
    assert [skipped.reason for skipped in tree.skipped] == ["not a regular file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_may_not_be_read_costs_nothing_else(tmp_path: Path) -> None:
    grow(tmp_path, "a.jsonl", "closed/b.jsonl")
    (tmp_path / "closed").chmod(0)
    tree = scan(tmp_path)
    (tmp_path / "closed").chmod(0o700)
    assert kinds(tree) == {"a.jsonl": "session"}
    assert [skipped.reason for skipped in tree.skipped] == ["permission denied"]


def test_names_that_are_no_text_are_read_all_the_same(tmp_path: Path) -> None:
    name = os.fsdecode(b"bad-\xff.jsonl")
    grow(tmp_path, name)
    assert [source.path.name for source in scan(tmp_path).sources] == [name]
