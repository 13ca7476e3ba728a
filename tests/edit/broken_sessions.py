"""Broken sessions: one small fixture for each breakage, and damage at random for sessions of any kind."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import msgspec

from unspool.testing.build import (
    Json,
    Step,
    assistant,
    compaction,
    image,
    note,
    progress,
    result_block,
    session,
    snapshot,
    text,
    thinking,
    tool_result,
    tool_use,
    user,
    wait,
)

ID = "00000000-0000-4000-8000-000000000001"
NOWHERE = "99999999-9999-4999-8999-999999999999"
END = (user("Go on."), assistant("Gone on."))


class BrokenSession(NamedTuple):
    """A session with one breakage."""

    kind: str
    """The breakage."""
    data: bytes
    refused: str | None
    """Words of the API's refusal of what is written; None where only the file is broken, and the API sees nothing."""


def png(width: int, height: int) -> str:
    """Return a picture as base64: its header alone says how large it is."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")
    return base64.b64encode(data).decode()


def made(*steps: Step, version: str = "2.1.325") -> list[Json]:
    """Return the lines of a session as objects, to be broken."""
    return [msgspec.json.decode(line) for line in session(*steps, version=version).lines]


def written(lines: list[Json]) -> bytes:
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def call_and_result(*, version: str = "2.1.325") -> list[Json]:
    """A prompt, a call, its result, an answer, and one more turn."""
    return made(
        user("List the files."),
        assistant("I look.", tool_use("Bash", id="toolu_1", command="ls")),
        tool_result("a.py", id="toolu_1"),
        assistant("One file."),
        *END,
        version=version,
    )


def parallel_calls() -> list[Json]:
    return made(
        user("Do two things."),
        assistant(tool_use("Bash", id="toolu_1", command="ls"), tool_use("Grep", id="toolu_2", pattern="x")),
        tool_result("a.py", id="toolu_1"),
        tool_result("none", id="toolu_2"),
        assistant("Both done."),
        *END,
    )


def orphan_result() -> bytes:
    """The call was deleted, its result was not."""
    lines = call_and_result()
    lines[3]["parentUuid"] = lines[1]["uuid"]
    del lines[3]["sourceToolAssistantUUID"]
    del lines[2]
    return written(lines)


def orphan_result_beside_words() -> bytes:
    return session(
        user("Hello."), assistant("Hi."), user(result_block("toolu_gone", "old"), text("And now?")), *END
    ).data


def second_result() -> bytes:
    lines = call_and_result()
    again = {**lines[3], "uuid": NOWHERE, "parentUuid": lines[3]["uuid"]}
    lines[4]["parentUuid"] = NOWHERE
    return written([*lines[:4], again, *lines[4:]])


def missing_result() -> bytes:
    """Claude Code was killed while a tool ran, and the session was continued."""
    lines = call_and_result()
    lines[4]["parentUuid"] = lines[2]["uuid"]
    return written([*lines[:3], *lines[4:]])


def missing_result_of_a_parallel_call() -> bytes:
    lines = parallel_calls()
    lines[5]["parentUuid"] = lines[4]["parentUuid"]
    return written([*lines[:4], *lines[5:]])


def missing_result_at_the_end() -> bytes:
    return written(call_and_result()[:3])


def late_result() -> bytes:
    """The result of a call was written after the next turn."""
    lines = call_and_result()
    late = {**lines[3], "parentUuid": lines[-1]["uuid"]}
    lines[4]["parentUuid"] = lines[2]["uuid"]
    return written([*lines[:3], *lines[4:], late])


def doubled_uuid() -> bytes:
    """The line of a result has the uuid of its call: readers see only one of them."""
    lines = call_and_result()
    lines[3]["uuid"] = lines[2]["uuid"]
    lines[4]["parentUuid"] = lines[2]["uuid"]
    return written(lines)


def repeated_lines() -> bytes:
    lines = call_and_result()
    return written([*lines, *lines[4:]])


def doubled_call_id() -> bytes:
    lines = made(
        user("One."),
        assistant(tool_use("Bash", id="toolu_1", command="ls")),
        tool_result("a.py", id="toolu_1"),
        assistant("Done."),
        user("Two."),
        assistant(tool_use("Bash", id="toolu_2", command="pwd")),
        tool_result("/tmp", id="toolu_2"),
        assistant("Done."),
    )
    lines[5]["message"]["content"][0]["id"] = "toolu_1"
    lines[6]["message"]["content"][0]["tool_use_id"] = "toolu_1"
    return written(lines)


def repeated_call() -> bytes:
    """History was appended again under new uuids."""
    lines = made(
        user("List the files."),
        assistant(tool_use("Bash", id="toolu_1", command="ls")),
        tool_result("a.py", id="toolu_1"),
        assistant(tool_use("Bash", id="toolu_2", command="ls")),
        tool_result("a.py", id="toolu_2"),
        *END,
    )
    lines[3] |= {"message": lines[1]["message"], "timestamp": lines[1]["timestamp"]}
    lines[4] |= {"message": lines[2]["message"], "timestamp": lines[2]["timestamp"]}
    return written(lines)


def missing_parent() -> bytes:
    """A line that others hang on was deleted; what came before it is no longer found."""
    lines = made(user("One."), assistant("First."), wait(60), user("Two."), wait(60), assistant("Second."), *END)
    return written([*lines[:2], *lines[3:]])


def circle_of_parents() -> bytes:
    lines = made(user("One."), wait(60), assistant("First."), wait(60), *END)
    lines[1]["parentUuid"] = lines[3]["uuid"]
    return written(lines)


def torn_line() -> bytes:
    """Two processes wrote at once: half of a result, and on the same line the next answer."""
    lines = [msgspec.json.encode(line) + b"\n" for line in call_and_result()]
    return b"".join([*lines[:3], lines[3][:150], *lines[4:]])


def glued_lines() -> bytes:
    lines = [msgspec.json.encode(line) + b"\n" for line in call_and_result()]
    return b"".join([*lines[:2], lines[2].rstrip(), *lines[3:]])


def zero_bytes() -> bytes:
    lines = [msgspec.json.encode(line) + b"\n" for line in call_and_result()]
    return b"".join([*lines[:4], b"\0" * 64 + lines[4], *lines[5:]])


def unfinished_last_line() -> bytes:
    return written(call_and_result()) + b'{"type":"user","mess'


def unsigned_thinking() -> bytes:
    return session(user("Think."), assistant(thinking("Hm.", signature=""), "Thought."), *END).data


def unsigned_thinking_of_a_call() -> bytes:
    return session(
        user("Think."),
        assistant(thinking("Hm.", signature=""), tool_use("Bash", id="toolu_1", command="ls")),
        tool_result("a.py", id="toolu_1"),
    ).data


def hollow_thinking() -> bytes:
    """The stream broke off before the text and the signature came."""
    lines = made(user("Think."), assistant(thinking("", signature=""), "Thought."), *END, version="2.0.76")
    del lines[1]["message"]["content"][0]["signature"]
    return written(lines)


def empty_prompt() -> bytes:
    lines = made(user("Hello."), assistant("Hi."), user("gone"), assistant("Yes?"), *END)
    lines[2]["message"]["content"] = []
    return written(lines)


def blank_text() -> bytes:
    return session(
        user("Hello."), assistant(text("\n\n"), "Hi."), user(text("  "), text("Well?")), assistant("Yes.")
    ).data


def large_image() -> bytes:
    return session(user("Look.", image(png(9000, 10))), assistant("Wide."), *END).data


def heavy_image() -> bytes:
    return session(user("Look.", image(png(10, 10) + "A" * 5_300_000)), assistant("Heavy."), *END).data


def large_image_in_a_result() -> bytes:
    return session(
        user("Look."),
        assistant(tool_use("Read", id="toolu_1", file_path="/a.png")),
        tool_result([{"type": "text", "text": "see"}, image(png(10, 8001))], id="toolu_1"),
        assistant("High."),
        *END,
    ).data


def many_images() -> bytes:
    return session(
        user("Look.", *(image(png(2100 if number % 5 == 0 else 100, 100)) for number in range(25))), *END
    ).data


def copied_file() -> bytes:
    return session(user("Hello."), assistant("Hi."), note("custom-title", customTitle="t"), *END, id=NOWHERE).data


def compaction_without_summary() -> bytes:
    lines = made(user("One."), assistant("First."), compaction("Summary."), assistant("Next."), *END)
    lines[4]["parentUuid"] = lines[2]["uuid"]
    return written([*lines[:3], *lines[4:]])


def compaction_without_preserved_lines() -> bytes:
    """A compaction names a line as preserved that is not in the file."""
    lines = made(
        user("One."),
        assistant("First."),
        user("Two."),
        assistant(tool_use("Bash", id="toolu_1", command="ls")),
        tool_result("a.py", id="toolu_1"),
        assistant("Second."),
        compaction("Summary.", keep=4),
        *END,
    )
    kept = next(line for line in lines if "compactMetadata" in line)["compactMetadata"]["preservedMessages"]
    kept["uuids"] = [*kept["uuids"], NOWHERE]
    return written(lines)


def dangling_notes() -> bytes:
    lines = made(
        user("One."),
        snapshot(),
        assistant("First."),
        *END,
        progress("bash_progress", tool="toolu_gone"),
        note("last-prompt", lastPrompt="Go on.", leafUuid=NOWHERE),
        note("content-replacement", replacements=[{"toolUseId": "toolu_gone", "kind": "tool-result"}]),
    )
    lines[1]["messageId"] = NOWHERE
    return written(lines)


def unpaired_server_tool() -> bytes:
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tides"}}
    return session(user("Search."), assistant(call, "Nothing."), *END).data


def far_title() -> bytes:
    long = [step for number in range(12) for step in (user(f"{number} " + "x" * 9000), assistant("y" * 9000))]
    return session(*long[:10], note("custom-title", customTitle="far"), *long[10:], *END).data


BROKEN: dict[str, BrokenSession] = {
    "an orphan result": BrokenSession("orphan-result", orphan_result(), "unexpected `tool_use_id`"),
    "an orphan result beside words": BrokenSession(
        "orphan-result", orphan_result_beside_words(), "unexpected `tool_use_id`"
    ),
    "a second result": BrokenSession("orphan-result", second_result(), "a single result"),
    "a missing result": BrokenSession("missing-result", missing_result(), "without `tool_result` blocks"),
    "a missing result of a parallel call": BrokenSession(
        "missing-result", missing_result_of_a_parallel_call(), "without `tool_result` blocks"
    ),
    "a missing result at the end": BrokenSession(
        "missing-result", missing_result_at_the_end(), "without `tool_result` blocks"
    ),
    "a late result": BrokenSession("broken-parent", late_result(), "without `tool_result` blocks"),
    "a doubled uuid": BrokenSession("doubled-line", doubled_uuid(), "unexpected `tool_use_id`"),
    "repeated lines": BrokenSession("doubled-line", repeated_lines(), None),
    "a doubled call id": BrokenSession("doubled-call", doubled_call_id(), "ids must be unique"),
    "a repeated call": BrokenSession("doubled-call", repeated_call(), "ids must be unique"),
    "a missing parent": BrokenSession("broken-parent", missing_parent(), "first message"),
    "a circle of parents": BrokenSession("broken-parent", circle_of_parents(), "first message"),
    "a torn line": BrokenSession("torn-line", torn_line(), "without `tool_result` blocks"),
    "glued lines": BrokenSession("torn-line", glued_lines(), None),
    "zero bytes": BrokenSession("torn-line", zero_bytes(), None),
    "an unfinished last line": BrokenSession("torn-line", unfinished_last_line(), None),
    "unsigned thinking": BrokenSession("unsigned-thinking", unsigned_thinking(), "signature"),
    "unsigned thinking of a call": BrokenSession("unsigned-thinking", unsigned_thinking_of_a_call(), "signature"),
    "hollow thinking": BrokenSession("unsigned-thinking", hollow_thinking(), "signature"),
    "an empty prompt": BrokenSession("empty-content", empty_prompt(), "non-empty content"),
    "a blank text": BrokenSession("empty-content", blank_text(), "non-whitespace"),
    "a large image": BrokenSession("refused-image", large_image(), "exceed max allowed size: 8000 pixels"),
    "a heavy image": BrokenSession("refused-image", heavy_image(), "image exceeds 5 MB maximum"),
    "a large image in a result": BrokenSession("refused-image", large_image_in_a_result(), "8000 pixels"),
    "many images": BrokenSession("refused-image", many_images(), "many-image requests: 2000 pixels"),
    "a copied file": BrokenSession("wrong-session", copied_file(), None),
    "a compaction without summary": BrokenSession(
        "unfinished-compaction", compaction_without_summary(), "first message"
    ),
    "a compaction without preserved lines": BrokenSession(
        "unfinished-compaction", compaction_without_preserved_lines(), None
    ),
    "dangling notes": BrokenSession("dangling-pointer", dangling_notes(), None),
    "an unpaired server tool": BrokenSession("unpaired-server-tool", unpaired_server_tool(), "without a corresponding"),
    "a far title": BrokenSession("far-title", far_title(), None),
}
"""The fixtures, by what a test calls them."""


def damage(data: bytes, random: Random, count: int) -> bytes:
    """Return the bytes of a session file with some damage done to them."""
    lines = data.splitlines(keepends=True)
    for _ in range(count):
        if lines:
            random.choice(_DAMAGES)(lines, random)
    return b"".join(lines)


def _at(lines: list[bytes], random: Random) -> int:
    return random.randrange(len(lines))


def _tear(lines: list[bytes], random: Random) -> None:
    at = _at(lines, random)
    lines[at] = lines[at][: random.randrange(len(lines[at]) + 1)]


def _drop(lines: list[bytes], random: Random) -> None:
    if len(lines) > 2:
        del lines[_at(lines, random)]


def _repeat(lines: list[bytes], random: Random) -> None:
    at = _at(lines, random)
    lines.insert(random.randrange(at, len(lines)) + 1, lines[at])


def _swap(lines: list[bytes], random: Random) -> None:
    one, other = _at(lines, random), _at(lines, random)
    lines[one], lines[other] = lines[other], lines[one]


def _pad(lines: list[bytes], random: Random) -> None:
    at = _at(lines, random)
    lines[at] = b"\0" * random.randrange(1, 9) + lines[at]


def _change(change: Callable[[Json, list[bytes], Random], None]) -> Callable[[list[bytes], Random], None]:
    """Return a damage that changes the object of a line; a line that has none stays."""

    def damage_line(lines: list[bytes], random: Random) -> None:
        at = _at(lines, random)
        try:
            value = msgspec.json.decode(lines[at])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        if isinstance(value, dict):
            change(value, lines, random)
            lines[at] = msgspec.json.encode(value) + b"\n"

    return damage_line


def _other_uuid(lines: list[bytes], random: Random) -> Any:
    for _ in range(5):
        try:
            value = msgspec.json.decode(lines[_at(lines, random)])
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if isinstance(value, dict) and value.get("uuid"):
            return value["uuid"]
    return NOWHERE


def _set_parent(line: Json, lines: list[bytes], random: Random) -> None:
    if "parentUuid" in line:
        line["parentUuid"] = random.choice([NOWHERE, line.get("uuid"), _other_uuid(lines, random)])


def _set_uuid(line: Json, lines: list[bytes], random: Random) -> None:
    if "uuid" in line:
        line["uuid"] = _other_uuid(lines, random)


def _set_session(line: Json, lines: list[bytes], random: Random) -> None:
    if "sessionId" in line:
        line["sessionId"] = NOWHERE


def _blocks(line: Json) -> list[Json]:
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _break_block(line: Json, lines: list[bytes], random: Random) -> None:
    for block in _blocks(line):
        match block.get("type"):
            case "thinking":
                block["signature"] = random.choice(["", None])
            case "text":
                block["text"] = random.choice(["", " \n"])
            case "tool_use":
                block["id"] = random.choice(["toolu_1", "toolu_lost"])
            case "tool_result":
                block["tool_use_id"] = random.choice(["toolu_1", "toolu_lost"])
            case "image":
                block["source"] = image(png(9000, 9))["source"]
            case _:
                pass


def _empty(line: Json, lines: list[bytes], random: Random) -> None:
    if isinstance(line.get("message"), dict):
        line["message"]["content"] = random.choice(["", [], " "])


def _break_compaction(line: Json, lines: list[bytes], random: Random) -> None:
    metadata = line.get("compactMetadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("preservedMessages"), dict):
        metadata["preservedMessages"]["uuids"] = [*metadata["preservedMessages"].get("uuids", []), NOWHERE]
    for name in ("leafUuid", "messageId", "logicalParentUuid", "sourceToolAssistantUUID"):
        if name in line:
            line[name] = NOWHERE
    line.pop("isCompactSummary", None)


_DAMAGES: list[Callable[[list[bytes], Random], None]] = [
    _tear,
    _drop,
    _repeat,
    _swap,
    _pad,
    _change(_set_parent),
    _change(_set_uuid),
    _change(_set_session),
    _change(_break_block),
    _change(_break_block),
    _change(_empty),
    _change(_break_compaction),
]
