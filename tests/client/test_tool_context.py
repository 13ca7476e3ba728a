from pathlib import Path

from unspool.client.tool_context import KnownFiles


def test_a_file_is_current_while_it_is_as_it_was_seen() -> None:
    seen = KnownFiles()
    path = Path("/a")
    assert not seen.is_current(path, b"x")
    seen.record(path, b"x")
    assert seen.is_current(path, b"x")
    assert not seen.is_current(path, b"y")
    assert seen.has_read(path)
    assert not seen.has_read(Path("/b"))
    seen.record(Path("/b"), b"")
    seen.record(path, b"z")
    assert seen.paths() == [path, Path("/b")]
