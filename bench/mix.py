"""What a tree is made of: sizes of lines, shares of types and of bytes, beside those counted in real files."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

PERCENTILES = (0.5, 0.9, 0.99, 0.999)
REAL_PERCENTILES = (1_100, 6_600, 52_000, 160_000)
"""Over 610,673 lines of 7,232 real files (docs/format.md), as are the shares below."""
REAL_BYTES = {
    "toolUseResult": 38.0,
    "  originalFile": 13.5,
    "  file.content": 10.0,
    "user message": 30.0,
    "assistant": 19.0,
    "  signature": 2.0,
    "progress": 9.0,
    "images": 6.0,
}
REAL_TYPES = {
    "assistant": 45.8,
    "user": 29.6,
    "progress": 18.5,
    "file-history-snapshot": 2.0,
    "queue-operation": 1.5,
    "system": 1.0,
    "summary": 0.5,
    "attachment": 0.4,
}

_IMAGE = re.compile(rb'"(?:data|base64)":"([A-Za-z0-9+/=]{2000,})"')


class Mix(msgspec.Struct):
    """Counts over a tree."""

    sizes: list[int] = msgspec.field(default_factory=list)
    types: Counter[str] = msgspec.field(default_factory=Counter)
    type_bytes: Counter[str] = msgspec.field(default_factory=Counter)
    parts: Counter[str] = msgspec.field(default_factory=Counter)
    files: int = 0
    empty: int = 0
    wide: int = 0
    """Lines with characters outside ASCII."""

    @property
    def bytes(self) -> int:
        """All bytes."""
        return sum(self.sizes)

    def percentile(self, share: float) -> int:
        """The size that this share of the lines does not exceed."""
        return sorted(self.sizes)[int(len(self.sizes) * share)]


def measure(root: Path) -> Mix:
    """Count over all session files below a folder."""
    mix = Mix()
    for path in sorted((root / "projects").rglob("*.jsonl")):
        data = path.read_bytes()
        mix.files += 1
        mix.empty += not data
        for line in data.splitlines(keepends=True):
            _count(mix, line, msgspec.json.decode(line))
    return mix


def _count(mix: Mix, line: bytes, record: dict[str, Any]) -> None:
    kind, size = str(record["type"]), len(line)
    mix.sizes.append(size)
    mix.types[kind] += 1
    mix.type_bytes[kind] += size
    mix.wide += not line.isascii()
    mix.parts["images"] += sum(map(len, _IMAGE.findall(line)))
    match record:
        case {"type": "user", "message": message}:
            mix.parts["user message"] += _length(message)
            result = record.get("toolUseResult")
            mix.parts["toolUseResult"] += _length(result)
            if isinstance(result, dict):
                mix.parts["  originalFile"] += _length(result.get("originalFile"))
                mix.parts["  file.content"] += _length(result.get("file", {}).get("content"))
        case {"type": "assistant", "message": {"content": [{"signature": signature}]}}:
            mix.parts["assistant"] += size
            mix.parts["  signature"] += _length(signature)
        case {"type": "assistant" | "progress" as name}:
            mix.parts[name] += size


def _length(value: Any) -> int:
    return len(msgspec.json.encode(value)) if value is not None else 0


def describe(mix: Mix) -> list[str]:
    """Return the mix in words."""
    total, lines = mix.bytes, len(mix.sizes)
    out = [
        f"{total / 1e6:,.1f} MB in {mix.files:,} files ({mix.empty} empty), {lines:,} lines, "
        f"{mix.wide / lines:.0%} of them not ASCII",
        f"{'size of a line':26}{'here':>10}{'real':>10}",
    ]
    for share, real in zip(PERCENTILES, REAL_PERCENTILES, strict=True):
        out.append(f"  p{share * 100:<23g}{mix.percentile(share):>10,}{real:>10,}")
    out.append(f"  {'largest':24}{max(mix.sizes):>10,}{3_500_000:>10,}")
    out.append(f"{'share of lines, of bytes':26}{'here':>10}{'real':>10}{'bytes':>10}")
    for kind, count in mix.types.most_common():
        real_share = f"{REAL_TYPES[kind]:.1f} %" if kind in REAL_TYPES else ""
        bytes_share = mix.type_bytes[kind] / total
        out.append(f"  {kind:24}{count / lines * 100:>8.1f} %{real_share:>10}{bytes_share * 100:>8.1f} %")
    out.append(f"{'share of bytes':26}{'here':>10}{'real':>10}")
    for name, share in REAL_BYTES.items():
        out.append(f"  {name:24}{mix.parts[name] / total * 100:>8.1f} %{share:>8.1f} %")
    return out
