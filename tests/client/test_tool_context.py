from pathlib import Path

from unspool.client.tool_context import KnownFiles


def test_a_file_is_current_while_it_is_as_it_was_seen() -> None:
    seen = KnownFiles()
    path = Path("/a")
    assert not seen.is_current(path, b"x")
    seen.record(path, b"x", 1)
    assert seen.is_current(path, b"x")
    assert not seen.is_current(path, b"y")
    look = seen.version(path)
    assert look is not None
    assert (look.size, look.whole) == (1, True)
    seen.record(Path("/b"), b"", 2, whole=False)
    seen.record(path, b"z", 3)
    assert seen.paths() == [path, Path("/b")]
