"""Manifests of earlier versions: what cannot be read is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collect.machine import folder_place
from unspool.collect.manifest import decode_manifest, read_manifests
from unspool.errors import Unreadable


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    place = folder_place(tmp_path)
    for words in (b"", b"[]", b"\xff", b'{"unspool":"segment","org":"a","user":"a","device":"a","written":""}'):
        with pytest.raises(Unreadable, match=r"(invalid|unsupported) manifest"):
            decode_manifest(words, "m")
    place.put_new("manifests/acme/d1.json", b"{}")
    with pytest.raises(Unreadable, match=r"manifests/acme/d1\.json"):
        list(read_manifests(place))
    damaged: list[tuple[str, str]] = []
    assert list(read_manifests(place, damaged)) == []
    assert [name for name, _ in damaged] == ["manifests/acme/d1.json"]
