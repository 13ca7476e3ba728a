"""Public tools for tests: sessions built line by line, images, a scripted and strict Messages API.

`api`, `build`, `comparison`, `pictures`, `script` and `strict` re-export what the package itself uses; their names are
stable. `faults` kills a command at a named step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unspool.testing import api, build, comparison, faults, pictures, script, strict

__all__ = ["api", "build", "comparison", "faults", "pictures", "script", "strict"]
