"""The git branch of a folder: read from `.git/HEAD`, without git."""

from __future__ import annotations

from pathlib import Path

_LARGEST = 4096


def branch(folder: Path) -> str:
    """Return the branch that is checked out; `HEAD` if none is, nothing outside of a repository."""
    for place in (folder, *folder.parents):
        words = _head(place / ".git")
        if words is not None:
            return words.removeprefix("ref: refs/heads/") if words.startswith("ref: refs/heads/") else "HEAD"
    return ""


def _head(git: Path) -> str | None:
    """Return what `HEAD` says; in a worktree `.git` is a file that names the folder."""
    try:
        if git.is_file():
            named = git.read_bytes()[:_LARGEST].decode(errors="replace").strip()
            if not named.startswith("gitdir: "):
                return None
            git = git.parent / named.removeprefix("gitdir: ")
        return (git / "HEAD").read_bytes()[:_LARGEST].decode(errors="replace").strip()
    except OSError:
        return None
