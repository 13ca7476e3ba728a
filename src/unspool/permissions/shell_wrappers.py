"""Find the commands that wrappers and shells run, and the options that make a program run another. Pure.

Rules
  1. A wrapper (`timeout 5 …`, `env A=1 …`, `nice …`) does nothing itself: only the command that it runs counts. A shell
     with `-c`, `eval`, `xargs` and `find -exec` run what stands in their words, which is parsed like a command.
  2. An option of a wrapper that is not in the table is a doubt, and so is a script that is not literal text.
  3. Some programs run another one, or write a file, if an option says so (`git -c`, `sort -o`, `rg --pre`). A
     permission rule covers such a word only if it names it. Abbreviated long options count, because the programs accept
     them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from unspool.permissions.shell_parser import SimpleCommand, Word, parse_command

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
SYSTEM_FOLDERS = ("/bin/", "/usr/bin/", "/usr/local/bin/")
_NEVER = r"(?!)"
"""A pattern that nothing matches."""


class _Wrapper(NamedTuple):
    """Which words of a wrapper are its own, and not those of the command that it runs."""

    flags: str = _NEVER
    value_options: frozenset[str] = frozenset()
    """Options that take the next word."""
    operands: int = 0
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
_COMMAND_TAKERS = frozenset(
    {"sudo", "doas", "su", "runuser", "pkexec", "ssh", "watch", "parallel", "strace", "ltrace", "gdb", "chroot",
     "unshare", "nsenter", "flock", "script", "busybox", "toybox", "docker", "podman", "kubectl", "npx", "find", "fd",
     "eval", "source", ".", "trap", "alias", "entr", "systemd-run", "at", "batch", "expect", "tmux", "screen", "rlwrap",
     "fakeroot", "bwrap", "firejail", "ionice", "taskset", "chrt", "unbuffer", "caffeinate", "coproc", "then", "do",
     "repeat", "noglob", "nocorrect", "-", "fish", "csh", "tcsh", "nu", "pwsh", *SHELLS, *_WRAPPERS}
)  # fmt: skip
"""Programs whose words may be a command: a deny rule is matched at each of their words."""

_GIT_RISKY_SUBCOMMANDS = re.compile(
    r"(config|filter-branch|difftool|mergetool|daemon|credential\S*|bisect run|submodule foreach)\b"
)
# By program: a pattern of words, and long options, that make it run another program or write a file.
_RISKY_OPTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
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
    "bat": (_NEVER, ("pager",)),
    "rsync": (r"-[A-Za-z]*e.*", ("rsh", "rsync-path")),
    "scp": (r"-[So].*", ()),
    "ssh": (r"-[oFE].*", ()),
    "zip": (r"-[A-Za-z]*T.*", ("unzip-command",)),
    "split": (_NEVER, ("filter",)),
    "go": (r"--?(exec|toolexec|vettool|overlay)\b.*", ()),
    "cargo": (_NEVER, ("config",)),
    "make": (r"SHELL=.*|MAKEFLAGS=.*|-E.*", ("eval",)),
    "npm": (_NEVER, ("script-shell", "node-options", "prefix")),
    "date": (r"-s.*", ("set",)),
    "tree": (r"-o.*", ()),
    "history": (r"-.*", ()),
    "printf": (r"-v.*", ()),
    "test": (r"-v|.*\[.*", ()),
    "[": (r"-v|.+\[.*", ()),
    "gcc": (r"-wrapper|-fplugin.*|-B.*|@.*", ()),
    "awk": (r"-[filE].*|.*(system|getline|[|>@]).*", ("file", "include", "load", "exec")),
}  # fmt: skip
_ALIASES = {"gawk": "awk", "mawk": "awk", "nawk": "awk", "g++": "gcc", "cc": "gcc", "clang": "gcc", "gmake": "make",
            "gsed": "sed", "pnpm": "npm", "gtar": "tar", "bsdtar": "tar", "batcat": "bat"}  # fmt: skip
_SED_ADDRESS = r"(?:\d+|\$|/[^/\n]*/)?(?:,(?:\d+|\$|\+\d+|/[^/\n]*/))?"
_SAFE_SED_SCRIPT = re.compile(
    rf"{_SED_ADDRESS}[pdq=]|{_SED_ADDRESS}s([/|#,:@])(?:\\.|(?!\1).)*\1(?:\\.|(?!\1).)*\1[gpiI0-9]*"
)


_UNKNOWN_WORD = Word("", "", has_expansion=True)


class NestedCommands(NamedTuple):
    """The commands that a command runs besides itself."""

    commands: tuple[SimpleCommand, ...] = ()
    doubts: tuple[str, ...] = ()
    is_wrapper: bool = False
    """Whether the outer command does nothing else."""


def may_take_command(command: SimpleCommand) -> bool:
    """Return whether the words of a command may be a command themselves."""
    return command.program_name in _COMMAND_TAKERS


def find_nested_commands(command: SimpleCommand) -> NestedCommands:
    """Return the commands that a command runs besides itself, as far as its words show."""
    program = command.program_name
    is_system_program = "/" not in command.program or command.program.startswith(SYSTEM_FOLDERS)
    if program in SHELLS:
        return _in_shell(command)
    if program == "eval":
        return _in_eval(command.words[1:])
    if program in ("source", ".") and not all(word.is_literal for word in command.words):
        return NestedCommands(doubts=("what the shell reads commands from is not known",))
    if program in ("find", "fd"):
        return _in_find(command.words)
    if program == "command" and len(command.words) > 1 and command.words[1].text in ("-v", "-V"):
        return NestedCommands()
    wrapper = _WRAPPERS.get(program)
    if wrapper is None:
        return NestedCommands()
    return _in_wrapper(command, wrapper)._replace(is_wrapper=is_system_program)


def find_risky_words(command: SimpleCommand) -> list[int]:
    """Return the positions of words that make a program run another one or write a file."""
    program = _ALIASES.get(command.program_name, command.program_name)
    if program == "sed":
        return _find_risky_sed_words(command.words)
    if program not in _RISKY_OPTIONS:
        return []
    pattern, long_options = _RISKY_OPTIONS[program]
    risky = re.compile(pattern, re.DOTALL)
    subcommand = _find_risky_git_subcommand(command.words) if program == "git" else []
    return subcommand + [
        at
        for at, word in enumerate(command.words[1:], 1)
        if risky.fullmatch(word.text) or _is_abbreviated(word.text, long_options) or _may_be_option(command.words, at)
    ]


def _find_risky_git_subcommand(words: tuple[Word, ...]) -> list[int]:
    """Return the position of a subcommand that runs a program, or changes what others run."""
    names = [(at, word.text) for at, word in enumerate(words) if at and not word.text.startswith("-")]
    match = _GIT_RISKY_SUBCOMMANDS.match(" ".join(text for _, text in names[:2]))
    return [names[1 if " " in match[1] else 0][0]] if match else []


def _is_abbreviated(text: str, options: tuple[str, ...]) -> bool:
    name = text.partition("=")[0]
    return name.startswith("--") and len(name) > 2 and any(option.startswith(name[2:]) for option in options)


def _may_be_option(words: tuple[Word, ...], at: int) -> bool:
    """Return whether a word could expand to an option. The value of a message option (`-m "$text"`) cannot."""
    word = words[at]
    if word.is_literal or words[at - 1].text in ("-m", "--message", "-F", "--body", "--title"):
        return False
    return word.has_braces or word.text[:1] in ("$", "`", "*", "?", "[", "")


def _in_shell(command: SimpleCommand) -> NestedCommands:
    """Parse the script of `sh -c`; a shell that reads its script from standard input is always a doubt."""
    words = command.words[1:]
    fed = tuple(nested for text in command.stdin_texts for nested in parse_command(text).commands)
    for at, word in enumerate(words):
        if not word.is_literal:
            return NestedCommands(doubts=("what the shell runs is not plain text",))
        if re.fullmatch(r"-[a-zA-Z]*c", word.text):
            script = words[at + 1] if at + 1 < len(words) else None
            if script is None or not script.is_literal:
                return NestedCommands(fed, ("what the shell runs is not plain text",))
            parsed = parse_command(script.text)
            return NestedCommands(parsed.commands, parsed.doubts, "/" not in command.program)
        if word.text in ("-o", "-O", "--rcfile", "--init-file") or word.text.startswith("+"):
            return NestedCommands(doubts=("a shell with options of its own",))
        if not word.text.startswith("-") or word.text in ("--version", "--help"):
            return NestedCommands()
    return NestedCommands(fed, ("a shell runs what it is fed with",))


def _in_eval(words: tuple[Word, ...]) -> NestedCommands:
    parsed = parse_command(" ".join(word.text for word in words))
    doubts = () if all(word.is_literal for word in words) else ("what `eval` runs is not plain text",)
    return NestedCommands(parsed.commands, (*parsed.doubts, *doubts), is_wrapper=True)


def _in_find(words: tuple[Word, ...]) -> NestedCommands:
    """Return the commands of `find -exec` or `fd -x`, each up to its `;` or `+`."""
    commands, at = [], 1
    while at < len(words):
        if re.fullmatch(r"-(exec|execdir|ok|okdir)|-[xX]|--exec|--exec-batch", words[at].text):
            end = next((i for i in range(at + 1, len(words)) if words[i].text in (";", "+")), len(words))
            inner = tuple(
                word._replace(has_expansion=word.has_expansion or "{" in word.text) for word in words[at + 1 : end]
            )
            # `fd -x` adds the file at the end by itself; `find` only where `{}` stands.
            added = () if words[0].text == "find" else (_UNKNOWN_WORD,)
            commands.append(SimpleCommand((*inner, *added), raw=_join_raw(inner)))
            at = end
        at += 1
    return NestedCommands(tuple(commands))


def _in_wrapper(command: SimpleCommand, wrapper: _Wrapper) -> NestedCommands:
    """Return the command of a wrapper: what follows its options, their values and its operands."""
    name, words = command.program_name, command.words
    assignments = []
    placeholder = None
    at = 1
    while at < len(words):
        word = words[at]
        if not word.is_literal:
            break
        if word.text == "--":
            at += 1
            break
        if word.text in wrapper.value_options:
            placeholder = words[at + 1].text if word.text == "-I" and at + 1 < len(words) else placeholder
            at += 2
        elif command.program.endswith("env") and (match := re.match(r"([A-Za-z_]\w*)=", word.text, re.ASCII)):
            assignments.append((match[1], word))
            at += 1
        elif word.text.startswith("-"):
            if not re.fullmatch(wrapper.flags, word.text):
                return NestedCommands(doubts=(f"`{name}` with `{word.text}`",))
            at += 1
        else:
            break
    inner = words[at + wrapper.operands :]
    if name == "xargs":  # it adds words of its own at the end, and in the place of a placeholder
        marked = (
            word._replace(has_expansion=True) if placeholder and placeholder in word.text else word for word in inner
        )
        inner = (*marked, _UNKNOWN_WORD)
    if not inner:  # `env A=1` prints the environment
        return NestedCommands(doubts=() if name in ("exec", "time", "command") else (f"`{name}` runs nothing",))
    nested = SimpleCommand(tuple(inner), tuple(assignments), (), command.stdin_texts, _join_raw(inner))
    return NestedCommands((nested,))


def _join_raw(words: tuple[Word, ...]) -> str:
    return " ".join(word.raw for word in words if word.raw)


def _find_risky_sed_words(words: tuple[Word, ...]) -> list[int]:
    """Return the words of `sed` that are neither a simple script nor a file: a script can write, and run programs."""
    risky, has_script = [], False
    for at, word in enumerate(words[1:], 1):
        before = words[at - 1].text
        if (
            word.text.startswith("-")
            and not has_script
            and not re.fullmatch(r"-[nEre]+|--quiet|--expression", word.text)
        ):
            risky.append(at)
        elif before in ("-e", "--expression", "-ne", "-Ee", "-nEe") or not (word.text.startswith("-") or has_script):
            has_script = True
            if not all(_SAFE_SED_SCRIPT.fullmatch(step.strip()) for step in word.text.split(";")) or word.has_expansion:
                risky.append(at)
        elif word.text.startswith("-") or not (word.is_literal or word.has_glob):
            risky.extend([at] if word.text not in ("-e", "-n") else [])
    return risky
