"""Whether a file still has the bytes it had when it was read, all of them: for `unspool sync --deep`."""

from __future__ import annotations

from msgspec.structs import replace

from unspool.errors import UnspoolError
from unspool.read.tail import START
from unspool.store.archive import Archive
from unspool.store.gather import Task, batches
from unspool.store.rows import Known


def differs(known: Known, task: Task, archive: Archive) -> bool:
    """Tell whether the bytes before the offset have changed: by the archive, else by what they say."""
    try:
        if known.archived:
            return archive.differs(archive.find(known.path, known.generation), known.offset)
        states = [batch.state for batch in batches(replace(task, position=START, state=b"", archived=False))]
        return states[-1] != task.state
    except UnspoolError:  # gone or unreadable meanwhile: the next look will tell
        return False
