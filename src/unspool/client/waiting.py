"""Words that wait: typed while a turn runs, for its next step (steering) or for its end (follow-ups).

Rules
  1. Words are written down when they are typed (`enqueue`), and again when they are taken (`remove` in mid-turn,
     `dequeue` as the next prompt): killed in between, they are still there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from unspool.client import events
from unspool.client.transcript import Transcript


class Waiting:
    """The queues of one conversation."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._steering: deque[str] = deque()
        self._follow_ups: deque[str] = deque()

    def __len__(self) -> int:
        return len(self._steering) + len(self._follow_ups)

    def steer(self, text: str) -> None:
        """Keep words for the next step."""
        self._transcript.queued("enqueue", text)
        self._steering.append(text)

    def follow(self, text: str) -> None:
        """Keep words for when the turn has ended."""
        self._transcript.queued("enqueue", text)
        self._follow_ups.append(text)

    def absorbed(self, **fields: str) -> Iterator[events.AnyEvent]:
        """Take the words for this step into the turn."""
        while self._steering:
            text = self._steering.popleft()
            self._transcript.queued("remove")
            self._transcript.said(text, **fields)
            yield events.Absorbed(text=text)

    def next_prompt(self) -> str | None:
        """Take the words that are the next prompt, if any wait."""
        queue = self._steering or self._follow_ups
        if not queue:
            return None
        self._transcript.queued("dequeue")
        return queue.popleft()

    def take_back(self) -> list[str]:
        """Take all words back, to be typed again."""
        found = [*self._steering, *self._follow_ups]
        if found:
            self._transcript.queued("popAll")
        self._steering.clear()
        self._follow_ups.clear()
        return found
