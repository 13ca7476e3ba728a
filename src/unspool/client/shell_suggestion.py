"""Which rule would allow a part of a command from now on: the part in, rules out. Pure."""

from __future__ import annotations

import re

from unspool.client.parts import Part
from unspool.client.programs import is_carrier, risks

_WITH_SUBCOMMANDS = frozenset(
    {"git", "npm", "pnpm", "yarn", "bun", "cargo", "go", "docker", "kubectl", "gh", "pip", "pip3", "uv", "make",
     "poetry", "brew", "apt", "apt-get", "systemctl", "terraform", "dotnet", "mvn", "gradle", "rake", "bundle", "just"}
)  # fmt: skip
_NOT_AT_LARGE = frozenset(
    {"python", "python3", "node", "perl", "ruby", "php", "lua", "awk", "sed", "rm", "rmdir", "dd", "mv", "cp", "chmod",
     "chown", "curl", "wget", "kill", "pkill", "killall", "tee", "ln", "truncate", "nc", "scp", "rsync", "tar"}
)  # fmt: skip
"""Programs for which `NAME:*` would allow too much to be offered."""
_SUBCOMMAND = re.compile(r"[a-z][\w:.-]*")


def suggested(part: Part) -> tuple[str, ...]:
    """Return a rule for the program, with its subcommand; for one that can do anything, none."""
    words = [word.text for word in part.words if word.is_plain]
    if len(words) < 1 or is_carrier(part) or risks(part) or part.assigned or part.redirects:
        return ()
    program = words[0]
    if program in _NOT_AT_LARGE or not re.fullmatch(r"[\w./+-]+", program):
        return ()
    named = [program]
    if program in _WITH_SUBCOMMANDS:
        more = 2 if words[1:2] == ["run"] else 1
        named += [word for word in words[1 : 1 + more] if _SUBCOMMAND.fullmatch(word)]
        if len(named) == 1 and len(words) > 1:
            return ()
    return (f"Bash({' '.join(named)}:*)",)
