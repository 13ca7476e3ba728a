"""Commands to paste into a shell: quoting that no path can break out of, and the command that resumes a session.

Rules
  1. Text with control characters is written as `$'…'` (bash, zsh, ksh, fish 4): a line feed or an escape sequence in a
     path could otherwise end the paste and run what follows.
  2. Other text is quoted as `shlex` does, for any POSIX shell.
"""

from __future__ import annotations

import shlex


def quote_for_paste(text: str) -> str:
    r"""Return text as one word of a shell command that is safe to paste.

    >>> print(quote_for_paste("/home/me/it's"))
    '/home/me/it'"'"'s'
    >>> print(quote_for_paste("a\n; rm -rf ~"))
    $'a\x0a; rm -rf ~'
    """
    return shlex.quote(text) if text.isprintable() else f"$'{''.join(map(_escape, text))}'"


def resume_command(session_id: str, cwd: str | None, config: str | None = None) -> str:
    """Return the command that resumes a session in Claude Code, from the folder it worked in.

    Claude Code finds a session only from its folder, and only in the config folder that it is told.

    >>> resume_command("3f2a", "/home/me/my shop")
    "cd '/home/me/my shop' && claude --resume 3f2a"
    """
    # Behind `--` a folder that is called `-P` is no option; others are easier to read without it.
    folder = f"cd {'-- ' if cwd.startswith('-') else ''}{quote_for_paste(cwd)} && " if cwd else ""
    environment = f"CLAUDE_CONFIG_DIR={quote_for_paste(config)} " if config else ""
    # With `=` an id that begins with a hyphen is no option.
    option = f"--resume={quote_for_paste(session_id)}" if session_id.startswith("-") else None
    return f"{folder}{environment}claude {option or f'--resume {quote_for_paste(session_id)}'}"


def _escape(character: str) -> str:
    if character.isprintable() and character not in "'\\":
        return character
    # As bytes: no shell but bash and zsh knows `\u`, and a lone surrogate is no character at all.
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "replace"))
