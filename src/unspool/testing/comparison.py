"""Where two requests to the Messages API differ."""

from unspool.edit.verify.request_diff import Json, Said, blocks_of, difference, said

__all__ = ["Json", "Said", "blocks_of", "difference", "said"]
