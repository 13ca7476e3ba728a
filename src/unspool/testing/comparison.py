"""Where two requests to the Messages API differ."""

from unspool.edit.verify import ComparedMessage as Said
from unspool.edit.verify import Json
from unspool.edit.verify import compared_messages as said
from unspool.edit.verify import content_blocks as blocks_of
from unspool.edit.verify import find_difference as difference

__all__ = ["Json", "Said", "blocks_of", "difference", "said"]
