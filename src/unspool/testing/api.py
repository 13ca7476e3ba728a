"""A Messages API on this machine that answers from a script: `scripted`."""

from unspool.api.scripted import ScriptedApi as Api
from unspool.api.scripted import serve_script as scripted

__all__ = ["Api", "scripted"]
