"""Lists the JSON documents by name, and makes JSON Schemas and descriptions of their fields."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import msgspec

from unspool.cli.documents import base, comparisons, insights, lists, maintenance, sessions, trust

DOCUMENTS: Final = MappingProxyType(
    {
        "ls": lists.LsDocument,
        "show": sessions.ShowDocument,
        "show-file": sessions.ShowFileDocument,
        "stats": sessions.StatsDocument,
        "stats-session": sessions.StatsSessionDocument,
        "compare": comparisons.CompareDocument,
        "compare-messages": comparisons.CompareMessagesDocument,
        "compare-groups": comparisons.CompareGroupsDocument,
        "insights": insights.InsightsDocument,
        "usage": lists.UsageDocument,
        "usage-explain": lists.UsageExplanationDocument,
        "search": lists.SearchDocument,
        "sql": lists.SqlDocument,
        "watch": lists.WatchDocument,
        "watch-event": lists.WatchEvent,
        "export": sessions.ExportDocument,
        "export-otlp": lists.ExportOtlpDocument,
        "share": sessions.ShareDocument,
        "edit": sessions.EditDocument,
        "edit-plan": sessions.EditPlanDocument,
        "edit-redact": sessions.EditRedactDocument,
        "edit-redact-plan": sessions.EditRedactPlanDocument,
        "edit-undo": sessions.EditUndoDocument,
        "edit-log": sessions.EditLogDocument,
        "restore": sessions.RestoreDocument,
        "redact": maintenance.RedactDocument,
        "sync": maintenance.SyncDocument,
        "doctor": maintenance.DoctorDocument,
        "doctor-session": sessions.DoctorSessionDocument,
        "doctor-error": sessions.DoctorErrorDocument,
        "config": maintenance.ConfigDocument,
        "config-key": maintenance.ConfigKeyDocument,
        "hooks": maintenance.HooksDocument,
        "hooks-change": maintenance.HooksChangeDocument,
        "mcp": maintenance.McpDocument,
        "mcp-change": maintenance.McpChangeDocument,
        "statusline": maintenance.StatuslineDocument,
        "statusline-change": maintenance.StatuslineChangeDocument,
        "statusline-fields": maintenance.StatuslineFieldsDocument,
        "demo": maintenance.DemoDocument,
        "collect": maintenance.CollectDocument,
        "collect-status": maintenance.CollectStatusDocument,
        "collect-enrol": maintenance.CollectEnrolDocument,
        "collect-leave": maintenance.CollectLeaveDocument,
        "collect-rotate-key": trust.CollectRotateKeyDocument,
        "lake-init": maintenance.LakeInitDocument,
        "lake-ingest": maintenance.LakeIngestDocument,
        "lake-compact": maintenance.LakeCompactDocument,
        "lake-vacuum": maintenance.LakeVacuumDocument,
        "lake-forget": maintenance.LakeForgetDocument,
        "lake-verify": maintenance.LakeVerifyDocument,
        "lake-status": maintenance.LakeStatusDocument,
        "lake-migrate": maintenance.LakeMigrateDocument,
        "lake-users": maintenance.LakeUsersDocument,
        "lake-sink": maintenance.LakeSinkDocument,
        "lake-admin": trust.LakeAdminDocument,
        "lake-admin-accept": trust.LakeAdminAcceptDocument,
        "lake-admin-revoke": trust.LakeAdminRevokeDocument,
        "lake-admin-token": trust.LakeAdminTokenDocument,
        "lake-pseudonyms": maintenance.LakePseudonymsDocument,
    }
)
"""The documents, by the name in their `schema` field."""

_MODULES: Final = (base, comparisons, insights, lists, sessions, maintenance, trust)


def make_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a document."""
    (reference,), parts = msgspec.json.schema_components([DOCUMENTS[name]], ref_template="#/$defs/{name}")
    for part, schema in parts.items():
        # Only our tests refuse a field that is not described: a later version may add one.
        schema.pop("additionalProperties", None)
        described = descriptions()[part]
        for field, kind in schema["properties"].items():
            kind["description"] = described[field]
            if described[field].startswith("Deprecated"):
                kind["deprecated"] = True
    top = parts.pop(reference["$ref"].rpartition("/")[2])
    top["properties"]["schema"]["const"] = schema_name(name)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": schema_name(name)}
    return {**head, **top, **({"$defs": parts} if parts else {})}


def schema_name(name: str) -> str:
    """Return what a document has in its `schema` field."""
    return f"unspool/{name}/1"


@cache
def descriptions() -> dict[str, dict[str, str]]:
    """Return the sentence below each field, by class and by the field's name in JSON."""
    # Python does not keep the strings below attributes: they are read from the source.
    own: dict[str, dict[str, str]] = {}
    for module in _MODULES:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                own[node.name] = _own_descriptions(node)
    found = {}
    for name in own:
        struct = next(getattr(module, name) for module in _MODULES if hasattr(module, name))
        merged: dict[str, str] = {}
        for parent in reversed(struct.__mro__):
            merged |= own.get(parent.__name__, {})
        found[name] = {field.encode_name: merged[field.name] for field in msgspec.structs.fields(struct)}
    return found


def _own_descriptions(node: ast.ClassDef) -> dict[str, str]:
    found = {}
    for field, below in zip(node.body, node.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = text
            case _:
                pass
    return found
