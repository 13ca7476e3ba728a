"""Optional libraries: which extra installs which one, and the command that installs an extra where unspool runs.

Rules
  1. A feature whose library is missing raises `MissingExtra`: one sentence, one exit code, one hint.
  2. The hint is a command that works for this installation: a checkout, `uv tool`, `uvx`, `pipx` or pip. It names the
     extras that are installed too, because `uv tool install` replaces the whole environment.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from unspool.errors import MissingExtra

_LIBRARIES = {
    "web": ("starlette", "jinja2", "uvicorn", "anyio", "watchfiles", "nh3", "markdown_it", "pygments"),
    "chat": ("httpx2", "prompt_toolkit", "rich"),
    "sql": ("duckdb", "arro3", "prompt_toolkit"),
    "mcp": ("mcp",),
    "team": ("obstore", "deltalake", "cryptography"),
    "otlp": ("httpx2", "opentelemetry.proto"),
    "postgres": ("psycopg",),
}
"""The modules that each extra installs, as they are imported."""


def optional_libraries() -> frozenset[str]:
    """Return the modules that only an extra installs."""
    return frozenset(library for libraries in _LIBRARIES.values() for library in libraries)


def extra_of(library: str) -> str | None:
    """Return the extra that installs a module; None if no extra does."""
    parts = library.split(".")
    # `opentelemetry` has packages of several distributions, so the longer name is looked for too.
    names = {parts[0], ".".join(parts[:2])}
    return next((extra for extra, libraries in _LIBRARIES.items() if not names.isdisjoint(libraries)), None)


def missing_extra(*extras: str, feature: str | None = None) -> MissingExtra:
    """Return the error that a feature raises if its extras are not installed."""
    return MissingExtra(extras, install_hint(extras), feature)


def require_extras(*extras: str, feature: str | None = None) -> None:
    """Raise `MissingExtra` if a library of one of these extras is not installed."""
    missing = [extra for extra in extras if not _is_installed(extra)]
    if missing:
        raise missing_extra(*missing, feature=feature)


def install_hint(extras: Iterable[str]) -> str:
    """Return the sentence that says how to install extras here."""
    command = install_command(extras)
    return f"{'run' if command.startswith('uvx ') else 'install'} it with `{command}`"


def install_command(extras: Iterable[str]) -> str:
    """Return the shell command that adds extras to this installation of unspool."""
    wanted = {*extras}
    names = ",".join(extra for extra in _LIBRARIES if extra in wanted or _is_installed(extra))
    origin = _read_direct_url()
    editable, requirement = _requirement(names, origin)
    prefix = Path(sys.prefix)
    if (prefix / "uv-receipt.toml").exists():
        return _join(["uv", "tool", "install", "--force", *editable, requirement])
    if (prefix / "pipx_metadata.json").exists():
        return _join(["pipx", "runpip", prefix.name, "install", *editable, requirement])
    if _is_uv_cache(prefix):
        return _join(["uvx", "--from", requirement, "unspool"])
    return _join([*_pip(prefix), *editable, requirement])


def _is_installed(extra: str) -> bool:
    from importlib.util import find_spec

    def is_found(library: str) -> bool:
        try:
            return find_spec(library) is not None
        except (ImportError, ValueError):
            return False

    return all(map(is_found, _LIBRARIES[extra]))


def _requirement(names: str, origin: dict[str, Any]) -> tuple[list[str], str]:
    """Return `-e` for an editable checkout, and what to install: a path, a URL or a name for the package index."""
    url = origin.get("url")
    if not isinstance(url, str):
        return [], f"unspool[{names}]"
    details = origin.get("dir_info")
    if isinstance(details, dict) and details.get("editable") and url.startswith("file://"):
        return ["-e"], f"{_file_path(url)}[{names}]"
    source = origin.get("vcs_info")
    if isinstance(source, dict):
        url = f"{source.get('vcs', 'git')}+{url}@{source.get('commit_id', 'HEAD')}"
    elif url.startswith("file://") and not Path(_file_path(url)).exists():
        return [], f"unspool[{names}]"  # a wheel that was deleted after the installation
    return [], f"unspool[{names}] @ {url}"


def _read_direct_url() -> dict[str, Any]:
    """Return where unspool was installed from (PEP 610); empty for a package index."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        origin = json.loads(distribution("unspool").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        return {}
    return origin if isinstance(origin, dict) else {}


def _file_path(url: str) -> str:
    from urllib.parse import unquote, urlsplit

    return unquote(urlsplit(url).path)


def _is_uv_cache(prefix: Path) -> bool:
    """Return whether unspool runs in an environment that `uvx` made for one command."""
    return any(part.startswith(("archive-v", "environments-v")) for part in prefix.parts)


def _pip(prefix: Path) -> list[str]:
    """Return the start of the command that installs into this environment."""
    import shutil
    from importlib.util import find_spec

    if find_spec("pip") is None:  # as in environments that uv makes
        return ["uv", "pip", "install", "--python", sys.executable]
    on_path = shutil.which("pip")
    if on_path and Path(on_path).parent == prefix / "bin":
        return ["pip", "install"]
    return [sys.executable, "-m", "pip", "install"]


def _join(words: list[str]) -> str:
    import shlex

    return shlex.join(words)
