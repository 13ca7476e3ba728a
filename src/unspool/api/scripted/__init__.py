"""Plays a script as the Messages API: for tests, and for working without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.api.scripted.model import ScriptedModel
    from unspool.api.scripted.script import (
        CHUNK, Break, Demand, Failure, Json, Script, ScriptPart, ScriptStep, Words, convert_script, load_script,
        parse_script,
    )
    from unspool.api.scripted.server import ScriptedApi, serve_script

__all__ = [
    "CHUNK", "Break", "Demand", "Failure", "Json", "Script", "ScriptPart", "ScriptStep", "ScriptedApi",
    "ScriptedModel", "Words", "convert_script", "load_script", "parse_script", "serve_script",
]

__getattr__ = lazy_door(__name__, {
    "model": "ScriptedModel",
    "script":
        "CHUNK Break Demand Failure Json Script ScriptPart ScriptStep Words convert_script load_script "
        "parse_script",
    "server": "ScriptedApi serve_script",
})
