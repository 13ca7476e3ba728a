"""Whether a file still has the bytes it had when it was read, all of them: for `unspool sync --deep`.

Without the archive only sessions that have not grown since can be compared, by what they say.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from unspool.errors import UnspoolError
from unspool.graph.gathering import Gathering
from unspool.read.position import START
from unspool.store.archive import Archive
from unspool.store.gather import Task, batches
from unspool.store.rows import Known


def differs(known: Known, task: Task, archive: Archive) -> bool:
    """Tell whether the bytes before the offset have changed: by the archive, else by what they say."""
    try:
        if known.archived:
            return archive.differs(archive.find(known.path, known.generation), known.offset)
        *_, last = batches(replace(task, position=START, state=b"", archived=False))
        if last.position.offset != known.offset or not task.state:
            return False
        return _gathering(last.state) != _gathering(task.state)  # not the bytes: sets are written in any order
    except UnspoolError:  # gone or unreadable meanwhile: the next look will tell
        return False


_gathering = msgspec.msgpack.Decoder(Gathering).decode
