"""Every field that genuine files have is declared.

`facts/fields.tsv` lists them with the version each was first seen in. In its first column `ublock.` and `ablock.`
are blocks of user and assistant lines, `attachment/x` and `progress/x` lines of that kind, `….att` and `….data`
what they carry, `a.b` the object under key `b` of an `a` line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from unspool.format import base, blocks, meta_records, records
from unspool.format.attachments import KnownAttachment
from unspool.format.blocks import KnownBlock
from unspool.format.records import KnownProgress, KnownRecord

FACTS = Path(__file__).parent / "facts" / "fields.tsv"


def tagged(union: object) -> dict[str, type[Any]]:
    return {struct.__struct_config__.tag: struct for struct in get_args(union)}


LINES, BLOCKS, ATTACHMENTS, PROGRESS = map(tagged, (KnownRecord, KnownBlock, KnownAttachment, KnownProgress))
PARTS: dict[str, type[Any]] = {
    "user.message": blocks.Message,
    "assistant.message": blocks.Message,
    "assistant.usage": base.Usage,
    "usage.cache_creation": base.CacheCreation,
    "usage.server_tool_use": base.ServerToolUsage,
    "usage.output_tokens_details": base.OutputDetails,
    "compactMetadata": records.CompactMetadata,
    "user.origin": records.PromptAuthor,
    "user.thinkingMetadata": records.ThinkingMetadata,
    "user.turnPosition": records.TurnPosition,
    "user.permissionDecision": records.PermissionDecision,
    "system.commandRun": records.CommandRun,
    "system.microcompactMetadata": records.MicrocompactMetadata,
    "file-history-snapshot.snapshot": meta_records.FileHistory,
    "file-history-delta.backup": meta_records.Backup,
}


def struct_for(record: str) -> type[Any]:
    if record in PARTS:
        return PARTS[record]
    if record.endswith(".att"):
        return ATTACHMENTS[record.removeprefix("attachment/").removesuffix(".att")]
    if record.endswith(".data"):
        return PROGRESS[record.removeprefix("progress/").removesuffix(".data")]
    if record.startswith(("ablock.", "ublock.")):
        return BLOCKS[record.partition(".")[2]]
    return LINES[record.partition("/")[0]]


def declared(struct: type[Any]) -> set[str]:
    names = {field.encode_name for field in msgspec.structs.fields(struct)}
    tag_field = struct.__struct_config__.tag_field
    return names | {tag_field} if tag_field else names


def test_no_genuine_field_is_undeclared() -> None:
    rows = [line.split("\t") for line in FACTS.read_text().splitlines()[1:]]
    assert len(rows) > 900
    undeclared = [(record, field) for record, field, _ in rows if field not in declared(struct_for(record))]
    assert undeclared == []


def test_the_subtypes_that_were_seen_are_known() -> None:
    rows = {line.split("\t")[0] for line in FACTS.read_text().splitlines()}
    seen = {row.removeprefix("system/") for row in rows if row.startswith("system/")} - {"None"}
    assert seen <= records.SYSTEM_SUBTYPES


@pytest.mark.parametrize("structs", [LINES, BLOCKS, ATTACHMENTS, PROGRESS])
def test_nothing_is_required(structs: dict[str, type[Any]]) -> None:
    for tag, struct in structs.items():
        assert msgspec.json.decode(f'{{"type":"{tag}"}}', type=struct) == struct()
