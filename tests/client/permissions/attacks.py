"""The attacks on the permission check, and a project with what they name."""

from __future__ import annotations

from pathlib import Path

SECRET = "PLANTED-SECRET"
SECRET_OF_PROJECT = "PLANTED-IN-PROJECT"
"""In a file that the project has itself: rules may deny to read it, the sandbox does not hide it."""
ALLOWED = tuple(f"Bash({name}:*)" for name in ("cat", "head", "git", "sed", "echo", "find", "cp", "shopt"))
DENIED = ("Read(//**/guarded/**)", "Edit(//**/guarded/**)", "Bash(rm:*)", "Bash(git push:*)", "Read(**/.env)")

SEEN = (
    "find . {{x},-exec,touch,pwned,\\;}", "sort {{x},-o,pwned} a", "rg x {{y},--pre=./evil.sh}",
    "cat {{x},../guarded/secret.txt}", 'echo "$\\\n(touch pwned)"', "cat <<EOF\n$\\\n(touch pwned)\nEOF",
    "cat <<EOF\nE\\\nOF\ntouch pwned\nEOF", "printf x%n PATH; ls", "echo x | uniq - pwned",
    "echo x | uniq - .git/config",
    "echo x | uniq - .git/hooks/pre-commit", "yarn --version", "cargo --version", "rustc --version",
    "cat -- -x/../../guarded/secret.txt", "cat -*", "strings @../guarded/secret.txt", "date -uf../guarded/secret.txt",
    "env x=1", "tree -Lo 1 pwned", "fish -c 'touch pwned'", "cp src/evil d",
)  # fmt: skip
"""Commands that once ran without a question, and wrote, ran or showed what nobody allowed."""

AGAINST_DENIALS = (
    "cat ../gua*/secret.txt", "cat */*/key.*", "cat ../*/key.*", "cat ~+/.e*", "cat .e*",
    "cat ../{x,guarded}/secret.txt", "cat link/secret.txt",
    "cat lin*/secret.txt", "cat $x", 'cat "$(echo ../guarded/secret.txt)"', "head -1 .[e]nv",
    "echo x > ../gua*/secret.txt", "echo x > link/secret.txt", "echo x > $x", "sed -i s/a/b/ ../guarded/secret.txt",
    "sed -i s/a/b/ ../g*/secret.txt", "sed -i s/a/b/ $x", "cp ../guarded/secret.txt a", "shopt -s dotglob; cat *",
    "git pus*", "git $(echo push)", "git pu{sh,}", "git {push,}", 'git "$x"', "git -C . pus?", "git `echo push`",
    "r{m,} a", "{rm,} a", "find . {{x},-exec,rm,f,\\;}", "find . $x", "r\\\nm a", 'echo "$\\\n(rm a)"',
    "cat <<EOF\nE\\\nOF\nrm a\nEOF", "/bin/r? a", "sudo r[m] a",
)  # fmt: skip
"""Commands that get around rules that deny (`DENIED`), where a person allowed the program or everything."""


def make_world(place: Path, project: str = "project") -> Path:
    """Make a project with what the attacks name, beside a folder that is nobody's business; return the project."""
    root = place / project
    for folder in ("src/guarded", ".git/hooks", ".claude", "d", "-x", "1"):
        (root / folder).mkdir(parents=True)
    (place / "guarded").mkdir()
    for path in (place / "guarded" / "secret.txt", place / "guarded" / "key.pem"):
        path.write_text(f"{SECRET}\n")
    for path in (root / ".env", root / "src" / "guarded" / "key.pem"):
        path.write_text(f"KEY={SECRET_OF_PROJECT}\n")
    for name in ("a", "b", "evil.sh", "src/a.py", "src/evil", "1/ls"):
        (root / name).write_text("touch pwned\n")
    for name in ("evil.sh", "1/ls"):
        (root / name).chmod(0o755)
    (root / ".yarnrc").write_text("yarn-path ./evil.sh\n")
    (root / "rust-toolchain.toml").write_text('[toolchain]\npath = "."\n')
    (root / "link").symlink_to(place / "guarded")
    (root / "-link").symlink_to(place / "guarded" / "secret.txt")
    (root / "src" / "linked").symlink_to(place / "guarded" / "secret.txt")
    (root / "d" / "evil").symlink_to(place / "pwned")
    return root


def read_tree(folder: Path, *without: str) -> dict[str, tuple[int, int, bytes]]:
    """Return the mode, the time and the bytes of every file below a folder, but for some folders in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not any(f"{name}/".startswith(f"{left_out}/") for left_out in without):
            status = path.lstat()
            data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found[name] = (status.st_mode, status.st_mtime_ns, data)
    return found


def read_attacks() -> dict[str, list[str]]:
    """Return the attacks by their class."""
    found: dict[str, list[str]] = {}
    _, *sections = Path(__file__).with_name("attacks.txt").read_text().split("\n== ")
    for section in sections:
        kind, *attacks = section.splitlines()
        found[kind] = [attack.encode().decode("unicode_escape") for attack in attacks if attack]
    return found
