"""Lazy doors: a package offers names without importing the modules that define them.

A command loads only what it uses, and `import unspool` loads nothing. A door lists its names for type checkers (under
`TYPE_CHECKING`), in `__all__`, and here, by the module that defines them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_door(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's `__getattr__`, which imports a module when one of its names is first used.

    `modules` has, by module, the names that the package offers from it, separated by spaces.
    """

    def get_name(name: str) -> Any:
        for module, names in modules.items():
            if name in names.split():
                value = getattr(import_module(f"{package}.{module}"), name)
                # The next access finds it without this function: imports inside functions run again and again.
                setattr(sys.modules[package], name, value)
                return value
        raise AttributeError(f"module `{package}` has no attribute `{name}`")

    return get_name
