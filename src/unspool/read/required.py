"""Which fields a user or assistant line should have and lacks.

The list is that of the format's own description (user and assistant message fields). Genuine data breaks it: lines
of other vendors' servers have no `requestId`, the errors the program writes itself neither.
"""

from __future__ import annotations

import re

from unspool.format.entry import Entry
from unspool.format.message import Message
from unspool.format.records import Assistant, User


def missing_fields(entry: Entry) -> list[str]:
    """Return the names of required fields that a line does not have, or has as null where it may not."""
    match entry.record:
        case Assistant() as record:
            named: dict[str, object] = {"requestId": record.request_id}
            inside = _missing_in_answer(entry, record.message)
        case User() as record:
            named = {
                "isSidechain": record.is_sidechain,
                "userType": record.user_type,
                "cwd": record.cwd,
                "version": record.version,
            }
            inside = _missing_in_message(entry, record.message)
        case _:
            return []
    named |= {"uuid": record.uuid, "sessionId": record.session_id, "timestamp": record.timestamp}
    missing = [name for name, value in named.items() if value is None]
    if record.parent_uuid is None and _lacks(entry, "parentUuid"):
        missing.append("parentUuid")
    return missing + inside


def _missing_in_message(entry: Entry, message: Message) -> list[str]:
    if message == Message() and _lacks(entry, "message"):
        return ["message"]
    missing = [] if message.role is not None else ["message.role"]
    return missing if message.content or not _lacks(entry, "content") else [*missing, "message.content"]


def _missing_in_answer(entry: Entry, message: Message) -> list[str]:
    missing = _missing_in_message(entry, message)
    if missing == ["message"]:
        return missing
    required = {"message.model": message.model, "message.id": message.id, "message.usage": message.usage}
    missing += [name for name, value in required.items() if value is None]
    if message.stop_reason is None and _lacks(entry, "stop_reason"):
        missing.append("message.stop_reason")
    return missing


def _lacks(entry: Entry, key: str) -> bool:
    """Tell an absent key from a null. Inside a string the quotes would be escaped, so the text can be searched."""
    return re.search(rb'"%s"\s*:' % key.encode(), entry.raw) is None
