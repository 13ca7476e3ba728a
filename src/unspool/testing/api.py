"""A Messages API on this machine that answers from a script: `scripted`."""

from unspool.api.scripted.server import Api, scripted

__all__ = ["Api", "scripted"]
