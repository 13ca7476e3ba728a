"""Make a release: set the version, close the changelog section, build and try the wheel, commit and tag.

    make release VERSION=0.2.0

Nothing is published: push the commit and the tag, then upload `dist/`. A step that fails leaves the files changed and
nothing committed; `git checkout .` takes them back.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import venv
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = {
    ROOT / "pyproject.toml": r'^version = "(.+)"$',
    ROOT / "src" / "unspool" / "__init__.py": r'^__version__ = "(.+)"$',
}
CHANGELOG = ROOT / "CHANGELOG.md"


def main(version: str) -> None:
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
    try_wheel(build(), version)
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


def build() -> Path:
    """Build wheel and source distribution into an empty `dist/`; return the wheel."""
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    code = "from flit_core import buildapi as b; print(b.build_wheel('dist')); b.build_sdist('dist')"
    return dist / run(sys.executable, "-c", code).strip()


def try_wheel(wheel: Path, version: str) -> None:
    """Install the wheel with its pinned requirements in a new environment and run it outside the checkout."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place / "venv", with_pip=True)
        python, unspool = place / "venv/bin/python", place / "venv/bin/unspool"
        pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, "--require-hashes", "-r", str(ROOT / "requirements" / "base.txt"))
        run(*pip, "--no-deps", str(wheel))
        said = run(str(unspool), "--version", cwd=place)
        if version not in said:
            sys.exit(f"release: the wheel says {said.strip()!r}")
        run(str(unspool), "demo", "demo", cwd=place)
        for command in (["ls"], ["usage"], ["search", "tide"], ["sql", "SELECT count(*) FROM sessions"], ["doctor"]):
            run(str(unspool), "--config-dir", "demo", *command, cwd=place, home=place)


def run(*command: str, cwd: Path = ROOT, home: Path | None = None) -> str:
    """Run a command; return what it printed. End the release if it fails."""
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"} if home else None
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"release: `{' '.join(command)}` failed\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main(*sys.argv[1:])
