"""What is known of programs that run others, or can be made to: a part of a command in, what it hides out. Pure.

Rules
  1. A wrapper (`timeout 5 …`, `env A=1 …`, `nice …`) does nothing itself: what it runs is what counts. A shell with
     `-c`, `eval`, `xargs` and `find -exec` run what stands in their words, which is taken apart like a command.
  2. An option of a wrapper that is not in the table is a doubt, and so is a script that is not plain text.
  3. Some programs run another one, or write a file, when an option says so (`git -c`, `sort -o`, `rg --pre`). These are
     risks: a rule covers one only if it names it. Abbreviated long options count, as the programs take them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from unspool.permissions.shell_parser import Part, Word, taken_apart

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"})
SYSTEM = ("/bin/", "/usr/bin/", "/usr/local/bin/")


class _Wrapper(NamedTuple):
    """How a program's own words are told from those of what it runs."""

    flags: str = r"(?!)"
    values: frozenset[str] = frozenset()
    """Options that take the next word."""
    words: int = 0
    """How many words come before the command."""


_WRAPPERS = {
    "timeout": _Wrapper(
        r"--preserve-status|--foreground|-v|--verbose|--(signal|kill-after)=.*",
        frozenset({"-s", "-k", "--signal", "--kill-after"}),
        1,
    ),
    "nice": _Wrapper(r"-n?-?\d+|--adjustment=.*", frozenset({"-n", "--adjustment"})),
    "nohup": _Wrapper(),
    "time": _Wrapper("-p"),
    "stdbuf": _Wrapper(r"-[ioe][0L\d]\w*", frozenset({"-i", "-o", "-e"})),
    "setsid": _Wrapper("-[wfc]|--wait|--fork"),
    "command": _Wrapper("-p"),
    "builtin": _Wrapper(),
    "exec": _Wrapper("-[cl]"),
    "env": _Wrapper("-i|-|-0", frozenset({"-u", "--unset"})),
    "xargs": _Wrapper(
        r"-[0rtx]+|-[nPLs]\d+|--null|--no-run-if-empty|--verbose|--max-(args|procs|lines)=\d+",
        frozenset({"-n", "-P", "-L", "-s", "-d", "-I", "-E"}),
    ),
}
_CARRIERS = frozenset(
    {"sudo", "doas", "su", "runuser", "pkexec", "ssh", "watch", "parallel", "strace", "ltrace", "gdb", "chroot",
     "unshare", "nsenter", "flock", "script", "busybox", "toybox", "docker", "podman", "kubectl", "npx", "find", "fd",
     "eval", "source", ".", "trap", "alias", "entr", "systemd-run", "at", "batch", "expect", "tmux", "screen", "rlwrap",
     "fakeroot", "bwrap",  "firejail", "ionice", "taskset", "chrt", "unbuffer", "caffeinate", "coproc", "then", "do",
     "repeat", "noglob", "nocorrect", "-", *SHELLS, *_WRAPPERS}
)  # fmt: skip
"""Programs whose words may be a command: what is forbidden is looked for at each of them."""

_NOTHING = r"(?!)"
_GIT_RUNS = re.compile(r"(config|filter-branch|difftool|mergetool|daemon|credential\S*|bisect run|submodule foreach)\b")
_RISKS: dict[str, tuple[str, tuple[str, ...]]] = {
    "git": (
        r"-c|-C|-O.*|-x|ext::.*",
        ("config-env", "exec-path", "exec", "upload-pack", "receive-pack", "ext-diff", "extcmd", "open-files-in-pager",
         "output", "textconv", "config", "template", "git-dir", "work-tree"),
    ),
    "sort": (r"-[A-Za-z]*[oT].*", ("output", "compress-program", "temporary-directory")),
    "rg": (r"-[a-zA-Z]*z.*", ("pre", "hostname-bin", "search-zip")),
    "tar": (r"-[A-Za-z]*[IF].*|[A-Za-z]*[IF][A-Za-z]*",
            ("to-command", "checkpoint-action", "use-compress-program", "rsh-command", "info-script",
             "new-volume-script", "rmt-command")),
    "find": (r"-(delete|fprint.*|fls)", ()),
    "fd": (r"-[xX].*", ("exec", "exec-batch")),
    "man": (r"-[HP].*", ("html", "pager", "browser")),
    "bat": (_NOTHING, ("pager",)),
    "rsync": (r"-[A-Za-z]*e.*", ("rsh", "rsync-path")),
    "scp": (r"-[So].*", ()),
    "ssh": (r"-[oFE].*", ()),
    "zip": (r"-[A-Za-z]*T.*", ("unzip-command",)),
    "split": (_NOTHING, ("filter",)),
    "go": (r"--?(exec|toolexec|vettool|overlay)\b.*", ()),
    "cargo": (_NOTHING, ("config",)),
    "make": (r"SHELL=.*|MAKEFLAGS=.*|-E.*", ("eval",)),
    "npm": (_NOTHING, ("script-shell", "node-options", "prefix")),
    "date": (r"-s.*", ("set",)),
    "tree": (r"-o.*", ()),
    "history": (r"-.*", ()),
    "printf": (r"-v.*", ()),
    "test": (r"-v|.*\[.*", ()),
    "[": (r"-v|.+\[.*", ()),
    "gcc": (r"-wrapper|-fplugin.*|-B.*|@.*", ()),
    "awk": (r"-[filE].*|.*(system|getline|[|>@]).*", ("file", "include", "load", "exec")),
}  # fmt: skip
_SAME = {"gawk": "awk", "mawk": "awk", "nawk": "awk", "g++": "gcc", "cc": "gcc", "clang": "gcc", "gmake": "make",
         "gsed": "sed", "pnpm": "npm", "gtar": "tar", "bsdtar": "tar", "batcat": "bat"}  # fmt: skip
_ADDRESS = r"(?:\d+|\$|/[^/\n]*/)?(?:,(?:\d+|\$|\+\d+|/[^/\n]*/))?"
_SED = re.compile(rf"{_ADDRESS}[pdq=]|{_ADDRESS}s([/|#,:@])(?:\\.|(?!\1).)*\1(?:\\.|(?!\1).)*\1[gpiI0-9]*")


class Inside(NamedTuple):
    """What a part runs besides itself."""

    parts: tuple[Part, ...] = ()
    doubts: tuple[str, ...] = ()
    is_wrapper: bool = False
    """Whether it does nothing else."""


def name(part: Part) -> str:
    """Return the program's name without the folder it lies in."""
    return part.program.rpartition("/")[2]


def is_carrier(part: Part) -> bool:
    """Tell whether the words of a part may be a command."""
    return name(part) in _CARRIERS


def inside(part: Part) -> Inside:
    """Return what a part runs besides itself, as far as its words tell."""
    program = name(part)
    is_known = "/" not in part.program or part.program.startswith(SYSTEM)
    if program in SHELLS:
        return _script(part)
    if program == "eval":
        return _evaluated(part.words[1:])
    if program in ("source", ".") and not all(word.is_plain for word in part.words):
        return Inside(doubts=("what the shell reads commands from is not known",))
    if program in ("find", "fd"):
        return _found(part.words)
    if program == "command" and len(part.words) > 1 and part.words[1].text in ("-v", "-V"):
        return Inside()
    wrapper = _WRAPPERS.get(program)
    if wrapper is None:
        return Inside()
    return _wrapped(part, wrapper)._replace(is_wrapper=is_known)


def risks(part: Part) -> list[int]:
    """Return the places of words that make a program do more than its name says."""
    program = _SAME.get(name(part), name(part))
    if program == "sed":
        return _sed(part.words)
    if program not in _RISKS:
        return []
    pattern, long = _RISKS[program]
    exact = re.compile(pattern, re.DOTALL)
    runs = _git_runs(part.words) if program == "git" else []
    return runs + [
        at
        for at, word in enumerate(part.words[1:], 1)
        if exact.fullmatch(word.text) or _is_abbreviated(word.text, long) or _may_be_option(part.words, at)
    ]


def _git_runs(words: tuple[Word, ...]) -> list[int]:
    """Return the place of a subcommand that runs what it is told to, or changes what others run."""
    names = [(at, word.text) for at, word in enumerate(words) if at and not word.text.startswith("-")]
    match = _GIT_RUNS.match(" ".join(text for _, text in names[:2]))
    return [names[1 if " " in match[1] else 0][0]] if match else []


def _is_abbreviated(text: str, options: tuple[str, ...]) -> bool:
    start = text.partition("=")[0]
    return start.startswith("--") and len(start) > 2 and any(option.startswith(start[2:]) for option in options)


def _may_be_option(words: tuple[Word, ...], at: int) -> bool:
    """Tell whether what comes in a word's place could be an option. A message is none."""
    word = words[at]
    if word.is_plain or words[at - 1].text in ("-m", "--message", "-F", "--body", "--title"):
        return False
    return word.has_braces or word.text[:1] in ("$", "`", "*", "?", "[", "")


def _script(part: Part) -> Inside:
    """Look into the script of `sh -c`; a shell that reads what it is fed with is nothing to be sure of."""
    words = part.words[1:]
    for at, word in enumerate(words):
        if not word.is_plain:
            return Inside(doubts=("what the shell runs is not plain text",))
        if re.fullmatch(r"-[a-zA-Z]*c", word.text):
            script = words[at + 1] if at + 1 < len(words) else None
            if script is None or not script.is_plain:
                return Inside(_fed(part).parts, ("what the shell runs is not plain text",))
            found = taken_apart(script.text)
            return Inside(found.parts, found.doubts, "/" not in part.program)
        if word.text in ("-o", "-O", "--rcfile", "--init-file") or word.text.startswith("+"):
            return Inside(doubts=("a shell with options of its own",))
        if not word.text.startswith("-"):
            return Inside()
        if word.text in ("--version", "--help"):
            return Inside()
    return Inside(_fed(part).parts, ("a shell runs what it is fed with",))


def _fed(part: Part) -> Inside:
    found = [taken_apart(script) for script in part.scripts]
    return Inside(tuple(inner for one in found for inner in one.parts))


def _evaluated(words: tuple[Word, ...]) -> Inside:
    found = taken_apart(" ".join(word.text for word in words))
    doubts = () if all(word.is_plain for word in words) else ("what `eval` runs is not plain text",)
    return Inside(found.parts, (*found.doubts, *doubts), is_wrapper=True)


def _found(words: tuple[Word, ...]) -> Inside:
    """Return the commands of `find -exec`, each up to its `;` or `+`."""
    parts, at = [], 1
    while at < len(words):
        if re.fullmatch(r"-(exec|execdir|ok|okdir)|-[xX]|--exec|--exec-batch", words[at].text):
            end = next((e for e in range(at + 1, len(words)) if words[e].text in (";", "+")), len(words))
            inner = tuple(
                word._replace(has_variable=word.has_variable or "{" in word.text) for word in words[at + 1 : end]
            )
            parts.append(Part((*inner, *(() if words[0].text == "find" else (_UNKNOWN,))), raw=_raw(inner)))
            at = end
        at += 1
    return Inside(tuple(parts))


_UNKNOWN = Word("", "", has_variable=True)


def _wrapped(part: Part, wrapper: _Wrapper) -> Inside:
    words, at, assigned = part.words, 1, []
    replaced = None
    while at < len(words):
        word = words[at]
        if not word.is_plain:
            break
        if word.text == "--":
            at += 1
            break
        if word.text in wrapper.values:
            replaced = words[at + 1].text if word.text == "-I" and at + 1 < len(words) else replaced
            at += 2
        elif part.program.endswith("env") and (match := re.match(r"([A-Za-z_]\w*)=", word.text, re.ASCII)):
            assigned.append((match[1], word))
            at += 1
        elif word.text.startswith("-"):
            if not re.fullmatch(wrapper.flags, word.text):
                return Inside(doubts=(f"`{name(part)}` with `{word.text}`",))
            at += 1
        else:
            break
    inner = words[at + wrapper.words :]
    if name(part) == "xargs":
        inner = (*(word._replace(has_variable=True) if replaced and replaced in word.text else word for word in inner),
                 _UNKNOWN)  # fmt: skip
    if not inner and not assigned:
        return Inside(doubts=() if name(part) in ("exec", "time", "command") else (f"`{name(part)}` runs nothing",))
    return Inside((Part(tuple(inner), tuple(assigned), (), part.scripts, _raw(inner)),))


def _raw(words: tuple[Word, ...]) -> str:
    return " ".join(word.raw for word in words if word.raw)


def _sed(words: tuple[Word, ...]) -> list[int]:
    """Return the words of `sed` that are neither a simple script nor a file: a script can write, and run programs."""
    found, has_script = [], False
    for at, word in enumerate(words[1:], 1):
        before = words[at - 1].text
        if (
            word.text.startswith("-")
            and not has_script
            and not re.fullmatch(r"-[nEre]+|--quiet|--expression", word.text)
        ):
            found.append(at)
        elif before in ("-e", "--expression", "-ne", "-Ee", "-nEe") or not (word.text.startswith("-") or has_script):
            has_script = True
            if not all(_SED.fullmatch(one.strip()) for one in word.text.split(";")) or word.has_variable:
                found.append(at)
        elif word.text.startswith("-") or not (word.is_plain or word.has_glob):
            found.extend([at] if word.text not in ("-e", "-n") else [])
    return found
