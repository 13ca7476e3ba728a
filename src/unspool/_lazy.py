"""Lazy doors: a package re-exports names without importing the modules that define them.

A command loads only what it uses; `import unspool` loads nothing. A door lists its names once for type checkers
(under `TYPE_CHECKING`) and once here, by the module that defines them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_door(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module-level `__getattr__` that imports a name's module, relative to the package, when it is first used."""

    def __getattr__(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module `{package}` has no attribute `{name}`")
        return getattr(import_module(f"{package}.{names[name]}"), name)

    return __getattr__
