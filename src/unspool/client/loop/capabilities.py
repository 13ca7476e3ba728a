"""What an endpoint can do: what it refused in, what is done without out.

Any server that speaks `/v1/messages` may be asked. What one does not know it refuses by name, with status 400; then the
same is asked again without it.
"""

from __future__ import annotations

import msgspec

from unspool.client.events import Degraded
from unspool.errors import ApiFailed

_WORDS = {
    "betas": ("anthropic-beta", "beta header", "betas", "-2025-"),
    "caching": ("cache_control", "prompt caching", "prompt_caching"),
    "signatures": ("signature",),
    "thinking": ("thinking", "budget_tokens"),
    "system_blocks": ("system: input should be a valid string", "system must be a string"),
    "tools": ("tools are not supported", "does not support tools", "tool use is not supported"),
}
"""What a refusal names, by what can be done without; the first that fits counts."""

WITHOUT = {
    "caching": "nothing is cached",
    "signatures": "what was thought before is not sent again",
    "thinking": "the model does not think aloud",
    "betas": "no beta is asked for",
    "system_blocks": "the system prompt goes as one text",
    "tools": "the model has no tools",
}


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What may be sent."""

    caching: bool = True
    signatures: bool = True
    thinking: bool = True
    betas: bool = True
    system_blocks: bool = True
    tools: bool = True


def without(known: Capabilities, failed: ApiFailed) -> tuple[Capabilities, str] | None:
    """Return what is left when a refusal is believed, and its name; None if it names nothing that is sent."""
    if failed.status not in (400, 404, 422):
        return None
    said = failed.message.lower()
    for name, words in _WORDS.items():
        if getattr(known, name) and any(word in said for word in words):
            return msgspec.structs.replace(known, **{name: False}), name
    return None


class Learned:
    """What was learned of an endpoint; a conversation and its agents share it."""

    def __init__(self, can: Capabilities | None = None) -> None:
        self.can = can or Capabilities()

    def refused(self, failed: ApiFailed) -> Degraded | None:
        """Learn from a refusal; return what is done without from now on."""
        found = without(self.can, failed)
        if found is None:
            return None
        self.can, what = found
        return Degraded(what=f"{what}: {WITHOUT[what]}", why=failed.message)
