"""Where a path leads: what a model wrote in, the real path out. Rules are judged on it, and tools open it.

Rules
  1. Whoever judges a path and whoever opens it ask here, so that both mean the same file.
  2. No link is left in what comes out; the file need not be there.
"""

from __future__ import annotations

from pathlib import Path

from unspool.client.desk import Desk
from unspool.client.tools.tool import BadCall

_WILD = frozenset("*?[{\\")


def resolved(path: str, desk: Desk) -> Path:
    """Return the real path: `~` is the home folder, and what is relative begins where the shell is."""
    if not path:
        raise BadCall("The path is empty; give an absolute path.")
    if "\0" in path:
        raise BadCall("Path contains null bytes")
    home = desk.environment.get("HOME")
    if home and (path == "~" or path.startswith("~/")):
        path = home + path[1:]
    try:
        return (desk.cwd / path).resolve()
    except (OSError, RuntimeError):
        raise BadCall(f"Path cannot be resolved: {path}") from None


def searched(path: str | None, pattern: str, desk: Desk) -> tuple[Path, str]:
    """Return the folder that a pattern of names is looked for in, and the pattern for what is in it."""
    if ".." in pattern.split("/"):
        raise BadCall("The pattern must not contain `..`; give the folder as `path`.")
    if not pattern.startswith("/"):
        return resolved(path or str(desk.cwd), desk), pattern or "**"
    parts = pattern.split("/")
    wild = next((at for at, part in enumerate(parts) if _WILD & set(part)), len(parts) - 1)
    return resolved("/".join(parts[:wild]) or "/", desk), "/" + "/".join(parts[wild:])


def missing(path: Path, desk: Desk) -> BadCall:
    """Return what to say of a file that is not there."""
    text = "File does not exist."
    if desk.cwd != desk.place.root:
        text += f" Current working directory: {desk.cwd}"
    try:
        like = [name for name in sorted(path.parent.iterdir()) if name.stem == path.stem and name != path]
    except OSError:
        like = []
    return BadCall(f"{text} Did you mean {like[0].name}?" if like else text)


def is_inside(path: Path, desk: Desk) -> bool:
    """Tell whether a real path lies in a folder the session works in."""
    folders = (desk.place.root, *desk.place.added)
    return any(path.is_relative_to(folder.resolve()) for folder in folders)
