"""Plant a project for the differential fuzz: files, links and programs that an attack wants to find, beside secrets.

    home/                   HOME of the commands
    home/project/           the folder worked in
    home/guarded/, .ssh/    secrets that no command may read

Rules
  1. Files of the project have names that attacks need: options (`-ofile`), numbers (`3`), and what a shell makes of a
     word that a parser might read otherwise (`a!`, `[a]x`). Those are links to a secret, so that opening one shows.
  2. Programs of the project (`bin/`, which is first on `PATH`; `1/`; `evil.sh`) are seen when they are executed.
  3. git's settings are ordinary in a project that is trusted, and run a program in one that is not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

SECRET = "PLANTED-SECRET-7f3a9c"
"""What all secrets contain: no output may."""
_OTHERS = {str(Path(found).parent) for name in ("rg", "tree", "jq", "zsh") if (found := shutil.which(name)) is not None}
SYSTEM_PATH = os.pathsep.join(dict.fromkeys(("/usr/local/bin", "/usr/bin", "/bin", *sorted(_OTHERS))))
"""The system's own programs: a version manager that is first on `PATH` is no part of this."""
SHADOWED = ("echo", "true", "pwd", "test", "[", "printf", "time", "cd", "type", "command")
"""Programs that the project has its own of."""
TEXT_FILES = ("a", "b", "c.txt", "src/a.py", "src/b.py", "src/deep/notes.md", "d/x", ".env", "data.json", "un it", "é")
LINKS_OUT = ("link1", "a!", "b]", "[a]x", "]x", "!x", "src/linked", "d/e/far", "~/project/d/x", "3")
"""Links to a secret file. `link` itself, and `lib`, are links to the folder of the secrets."""
_EVIL = "#!/bin/sh\n: > pwned\n"


class PlantedProject(NamedTuple):
    """A planted project and what is around it."""

    place: Path
    home: Path
    root: Path
    trusted: bool

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the folders and files that no command may look at."""
        return tuple(str(self.home / name) for name in ("guarded", ".ssh", ".netrc"))

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the commands."""
        return {
            "HOME": str(self.home),
            "PATH": f"{self.root / 'bin'}:{SYSTEM_PATH}",
            "PWD": str(self.root),
            "OLDPWD": str(self.home / "guarded"),
            "LC_CTYPE": "C.UTF-8",  # not `LANG`, for which every program opens a dozen files
            "TMPDIR": str(self.place / "temporary"),
            "ANTHROPIC_API_KEY": SECRET,
            "GIT_CONFIG_NOSYSTEM": "1",
        }


def plant_project(place: Path, *, trusted: bool = True, home: str = "home", repository: bool = True) -> PlantedProject:
    """Write a project into an empty folder; `home` is the name of the home folder in it."""
    planted = PlantedProject(place, place / home, place / home / "project", trusted)
    for folder in ("guarded", ".ssh"):
        (planted.home / folder).mkdir(parents=True)
    for name in ("guarded/secret.txt", "guarded/key.pem", ".ssh/id_ed25519", ".netrc"):
        (planted.home / name).write_text(f"{SECRET}\n")
    (place / "temporary").mkdir()
    root = planted.root
    for folder in ("src/deep", "d/e", "~/project/d", "-x", "bin", "1"):
        (root / folder).mkdir(parents=True)
    for name in TEXT_FILES:
        (root / name).write_text('{"a": [1, 2], "b": "x"}\n' if name.endswith(".json") else "one a\ntwo b\n\nx\n")
    _plant_links(planted)
    _plant_names(root)
    for name in (*(f"bin/{shadowed}" for shadowed in SHADOWED), "1/ls", "1/cat", "evil.sh"):
        (root / name).write_text(_EVIL)
        (root / name).chmod(0o755)
    (root / "evil.py").write_text("open('pwned', 'w')\n")
    if repository:
        _plant_repository(planted)
    else:
        (root / ".git" / "hooks").mkdir(parents=True)
        (root / ".git" / "config").write_text("[core]\n")
    return planted


def _plant_links(planted: PlantedProject) -> None:
    root, secret = planted.root, planted.home / "guarded" / "secret.txt"
    for name in LINKS_OUT:
        (root / name).symlink_to(secret)
    for name in ("link", "lib", "d/out"):
        (root / name).symlink_to(planted.home / "guarded")
    (root / "inner").symlink_to("src/deep")
    # What bash makes of `x=~/…`, if it takes the word for an assignment.
    behind = root / "x=" / str(planted.home).lstrip("/")
    behind.parent.mkdir(parents=True)
    behind.symlink_to(planted.home / "guarded")


def _plant_names(root: Path) -> None:
    """Write lists that name secrets, for options that read the names of files from a file."""
    (root / "names").write_text("../guarded/secret.txt\n")
    (root / "names0").write_bytes(b"../guarded/secret.txt\0")
    (root / "sums").write_text(f"{'0' * 32}  ../guarded/secret.txt\n")
    (root / "sums1").write_text(f"{'0' * 40}  ../guarded/secret.txt\n")
    (root / "sums256").write_text(f"{'0' * 64}  ../guarded/secret.txt\n")
    (root / "options").write_text("-f ../guarded/secret.txt\n")
    for name in ("-opwned", "--output=pwned"):
        (root / "-x" / name).write_text("x\n")


def _plant_repository(planted: PlantedProject) -> None:
    environment = {"HOME": str(planted.home), "PATH": SYSTEM_PATH, "GIT_CONFIG_NOSYSTEM": "1"}
    run_git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "init.defaultBranch=main"]
    for arguments in (["init", "-q"], ["add", "a", "src"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*run_git, *arguments], cwd=planted.root, env=environment, check=True, capture_output=True)
    (planted.root / "a").write_text("one a\nchanged\n")
    if not planted.trusted:
        with (planted.root / ".git" / "config").open("a") as config:
            config.write("[core]\n\tfsmonitor = ./evil.sh\n\tpager = ./evil.sh\n[diff]\n\texternal = ./evil.sh\n")


def take_snapshot(planted: PlantedProject) -> Mapping[str, tuple[int, int, int]]:
    """Return what is there by path: kind and rights, size, time of change; without what git keeps of its own."""
    found = {}
    for folder, folders, files in os.walk(planted.home):
        for name in (*folders, *files):
            path = os.path.join(folder, name)  # noqa: PTH118 - hundreds of times a second
            status = os.lstat(path)
            is_file = name in files and not path.endswith("/.git/index")
            found[path] = (status.st_mode, *((status.st_size, status.st_mtime_ns) if is_file else (0, 0)))
    return found
