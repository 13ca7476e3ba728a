"""A conversation in a terminal, for every test of the interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.client.conftest import Place
from tests.client.ui.rig import TRUST, Open, Typed, decline_trust


@pytest.fixture
def open_chat(place: Place) -> Open:
    """Return what opens a conversation with a script in a terminal."""

    @contextmanager
    def opened(
        script: object, *flags: str, size: tuple[int, int] = (100, 40), sees: str = "/help", **environment: str
    ) -> Iterator[Typed]:
        command = ("-m", "unspool", "chat", "--model", place.script(script), *flags)
        if sees != TRUST and not (place.root / "unspool").exists():
            decline_trust(place)
        with Typed(*command, cwd=place.work, environment={**place.environment, **environment}, size=size) as typed:
            typed.see(sees)
            yield typed

    return opened
