"""The branch of a working folder, read without git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.client.session.registration import git_branch
from unspool.statusline.line import read_branch


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "feature/one")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    return folder


def test_the_branch_is_that_of_git_in_the_folder_and_below_it(tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop")
    (shop / "a" / "b").mkdir(parents=True)
    assert read_branch(str(shop)) == read_branch(str(shop / "a" / "b")) == "feature/one"


def test_a_worktree_has_its_own_branch(tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop")
    git(shop, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    assert read_branch(str(tmp_path / "tree")) == "other"


def test_a_link_to_the_git_folder_may_be_relative(tmp_path: Path) -> None:
    repository(tmp_path / "shop")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ".git").write_text("gitdir: ../shop/.git\n")
    assert read_branch(str(tmp_path / "tree")) == "feature/one"


def test_without_a_branch_it_is_the_commit(tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop")
    git(shop, "checkout", "-q", "--detach")
    assert read_branch(str(shop)) == git(shop, "rev-parse", "--short=7", "HEAD")


def test_outside_of_git_there_is_none(tmp_path: Path) -> None:
    assert read_branch(str(tmp_path / "not there")) is None


def test_a_pipe_in_the_place_of_head_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git" / "HEAD")
    assert read_branch(str(tmp_path)) is None


@given(st.text())
def test_no_control_character_comes_out_of_a_head(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "head"
    (folder / ".git").mkdir(parents=True, exist_ok=True)
    for head in (text, f"ref: refs/heads/{text}"):
        (folder / ".git" / "HEAD").write_bytes(head.encode(errors="surrogatepass"))
        branch = read_branch(str(folder))
        assert branch is None or not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in branch)


def test_a_chat_writes_the_branch_that_the_status_line_shows(tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop")
    assert git_branch(shop) == read_branch(str(shop)) == "feature/one"
    git(shop, "checkout", "-q", "--detach")
    assert git_branch(shop) == "HEAD"  # as Claude Code writes it
    assert git_branch(tmp_path) == ""
