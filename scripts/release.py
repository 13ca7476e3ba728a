"""Make a release: set the version, close the changelog section, build and try the wheel, commit and tag.

    make release VERSION=0.2.0
    make release VERSION=0.2.0 URL=https://example.org/unspool/blob/v0.2.0

The README becomes the long description of the package. An index cannot follow its relative links: with URL they lead
there, without it they become plain text. Pictures are left out without a URL. The wheel is tried with pip on every
Python that is found, and with pipx and uvx where they are installed.

Nothing is published: push the commit and the tag, then upload `dist/`. A step that fails leaves the files changed and
nothing committed; `git checkout .` takes them back.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from scripts import man_page

ROOT = Path(__file__).parents[1]
VERSIONS = {
    ROOT / "pyproject.toml": r'^version = "(.+)"$',
    ROOT / "src" / "unspool" / "__init__.py": r'^__version__ = "(.+)"$',
}
CHANGELOG = ROOT / "CHANGELOG.md"
README = ROOT / "README.md"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def main(version: str, url: str = "") -> None:
    """Make the release of a version."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(f"release: `{version}` is not a version like 0.2.0")
    if run("git", "status", "--porcelain"):
        sys.exit("release: there are changes that are not committed")
    if run("git", "tag", "--list", f"v{version}"):
        sys.exit(f"release: v{version} exists")
    for path, pattern in VERSIONS.items():
        set_version(path, pattern, version)
    close_changelog(version)
    man_page.main()
    wheel = build(url)
    for python in find_interpreters():
        try_with_pip(wheel, version, python)
    try_with_runners(wheel, version)
    run("git", "commit", "--quiet", "--all", "--message", f"Release {version}")
    run("git", "tag", "--annotate", f"v{version}", "--message", f"unspool {version}")
    print(f"v{version} is committed and tagged; dist/ has the wheel and the source distribution")


def set_version(path: Path, pattern: str, version: str) -> None:
    """Write the version into a file that names it once."""
    text = path.read_text("utf-8")
    found = re.findall(pattern, text, re.MULTILINE)
    if len(found) != 1:
        sys.exit(f"release: {path.relative_to(ROOT)} names the version {len(found)} times")
    path.write_text(re.sub(pattern, lambda line: line[0].replace(found[0], version), text, flags=re.MULTILINE), "utf-8")


def close_changelog(version: str) -> None:
    """Give the section of unreleased changes the version and today's date, and begin an empty one."""
    text = CHANGELOG.read_text("utf-8")
    section = re.search(r"^## Unreleased\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if not section or not section[1].strip():
        sys.exit("release: the changelog has no unreleased changes")
    heading = f"## Unreleased\n\n## {version} ({datetime.now(UTC):%Y-%m-%d})\n"
    CHANGELOG.write_text(text.replace("## Unreleased\n", heading, 1), "utf-8")


def build(url: str) -> Path:
    """Build wheel and source distribution into an empty `dist/`; return the wheel."""
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    text = README.read_text("utf-8")
    README.write_text(long_description(text, url), "utf-8")
    try:
        code = "from flit_core import buildapi as b; print(b.build_wheel('dist')); b.build_sdist('dist')"
        return dist / run(sys.executable, "-c", code).strip()
    finally:
        README.write_text(text, "utf-8")


def long_description(text: str, url: str) -> str:
    """Return the README without relative links and pictures: with a URL they lead there.

    >>> long_description("![A page](docs/a.png)\\n\\nSee [the guide](docs/guide.md#start).", "")
    'See the guide.'
    >>> long_description("See [the guide](docs/guide.md#start).", "https://example.org/")
    'See [the guide](https://example.org/docs/guide.md#start).'
    """
    relative = r"\((?!\w+:|#)([^)\s]+)\)"
    if url:
        return re.sub(rf"(\[[^\]]*\]){relative}", lambda link: f"{link[1]}({url.rstrip('/')}/{link[2]})", text)
    without_pictures = re.sub(rf"^!\[[^\]]*\]{relative}\n+", "", text, flags=re.MULTILINE)
    return re.sub(rf"\[([^\]]*)\]{relative}", r"\1", without_pictures)


def find_interpreters() -> list[str]:
    """Return every Python that the package supports and that is installed, this one first."""
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    for name in PYTHONS:
        if path := shutil.which(f"python{name}"):
            found.setdefault(name, path)
    return list(found.values())


def try_with_pip(wheel: Path, version: str, python: str) -> None:
    """Install the wheel with its pinned requirements in a new environment and run it outside the checkout."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run(python, "-m", "venv", str(place / "venv"))
        pip = (str(place / "venv/bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, "--require-hashes", "-r", str(ROOT / "requirements" / "base.txt"))
        run(*pip, "--no-deps", str(wheel))
        try_command([str(place / "venv/bin/unspool")], version, place)
        if not (place / "venv" / man_page.PATH.relative_to(ROOT / "data")).exists():
            sys.exit("release: the wheel has no man page")
    print(f"tried with pip on {run(python, '--version').strip()}")


def try_with_runners(wheel: Path, version: str) -> None:
    """Run the wheel with pipx and uvx, where they are installed, in folders that are removed afterwards."""
    for name, words in (("pipx", ["run", "--spec"]), ("uvx", ["--from"])):
        program = shutil.which(name)
        if program is None:
            print(f"{name} is not installed: not tried")
            continue
        with tempfile.TemporaryDirectory() as folder:
            try_command([program, *words, f"{wheel}[all]", "unspool"], version, Path(folder))
        print(f"tried with {name}")


def try_command(command: list[str], version: str, place: Path) -> None:
    """Run everyday commands on made-up sessions."""
    said = run(*command, "--version", cwd=place)
    if version not in said:
        sys.exit(f"release: the wheel says {said.strip()!r}")
    run(*command, "demo", "demo", cwd=place)
    for words in (["ls"], ["usage"], ["search", "tide"], ["sql", "SELECT count(*) FROM sessions"], ["doctor"]):
        run(*command, "--config-dir", "demo", *words, cwd=place, data=place / "data")


def run(*command: str, cwd: Path = ROOT, data: Path | None = None) -> str:
    """Run a command; return what it printed. End the release if it fails."""
    # Only unspool's own folder is another one: pipx and uvx find their settings and caches in the user's home.
    environment = {**os.environ, "UNSPOOL_HOME": str(data), "LC_ALL": "C.UTF-8"} if data else None
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"release: `{' '.join(command)}` failed\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main(*sys.argv[1:])
