"""An operation and a session in, a plan out. Nothing is read or written; new ids and the time come in.

prepared = plan(manuscript, Trim(results=True), ids)
prepared.plan.data              # the new file
prepared.plan.context_tokens    # before and after
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from unspool.edit import compress
from unspool.edit import compress as compressing
from unspool.edit.draft import Draft, Finished
from unspool.edit.fork import fork
from unspool.edit.ids import Identity, identity
from unspool.edit.plan import Pair, Payback, Plan
from unspool.edit.rules.check import Checked, Outlook, check, outlook
from unspool.edit.session_view import Manuscript, View, read, view
from unspool.edit.stubs import Origin
from unspool.edit.token_estimate import Scale, Size, gauge, payback, scale, sizes
from unspool.edit.trim import Trim, rungs, trim
from unspool.errors import Refused
from unspool.format.records import Assistant, User
from unspool.graph.context.pairing import ContextMessage
from unspool.prices.price_list import Price, price


class Clone(msgspec.Struct, frozen=True):
    """The session as it is, under new ids."""


class Fork(msgspec.Struct, frozen=True):
    """The session up to a turn or line."""

    at: str


class Move(msgspec.Struct, frozen=True):
    """The session in another project's folder."""

    to: str


class TrimTo(msgspec.Struct, frozen=True):
    """As much trimmed as it takes: to a number of tokens, or a share of those there are."""

    tokens: int | None = None
    percent: float | None = None
    outside: bool = False


class Compress(msgspec.Struct, frozen=True):
    """Older turns as a summary."""

    keep_last: int = 2
    keep_calls: bool = False
    words: str | None = None
    """What a model made of them; None: no model is asked."""


Operation: TypeAlias = Clone | Fork | Move | Trim | TrimTo | Compress
NAMES: dict[type, str] = {
    Clone: "clone", Fork: "fork", Move: "move", Trim: "trim", TrimTo: "trim", Compress: "compress",
}  # fmt: skip


class Ids(NamedTuple):
    """What is new about a new session."""

    session: str
    """Its id; that of the source: in place."""
    seed: bytes
    boundary: str
    summary: str
    now: str
    """The time, as lines have it."""


class Prepared(NamedTuple):
    """A plan, and what was looked at to make it."""

    plan: Plan
    source: Manuscript
    result: Manuscript
    seen: Outlook
    """How the source is gone on with, from the same line."""
    checked: Checked
    """What the rules say of the result."""

    @property
    def before(self) -> list[ContextMessage]:
        """What the source would send."""
        return self.seen.messages


def plan(
    manuscript: Manuscript, operation: Operation, ids: Ids, adapt: Callable[[Identity], Identity] = lambda i: i
) -> Prepared:
    """Return what an operation would do to a session; `adapt` knows the paths that go with the new ids."""
    seen = outlook(manuscript)
    before = seen.messages
    measured = sizes(before)
    measure = scale(before, measured, _compacted_at(before))
    new = None
    if ids.session != manuscript.id or isinstance(operation, Move):
        uuids = dict.fromkeys(entry.record.uuid for entry in manuscript.entries if entry.record.uuid)
        new = adapt(identity(manuscript.id, ids.session, ids.seed, uuids))
    made = _Making(manuscript, operation, ids, new, seen)
    made.measure = measure
    if isinstance(operation, TrimTo):
        finished, result, checked = made.climbed(operation, measure.tokens(measured), measure)
    else:
        finished, result, checked = made.done(made.draft(operation))
    if isinstance(operation, Trim) and operation.turns is not None and checked.leaf != finished.leaf:
        raise Refused(
            "the last turns cannot go while another branch hangs on what came before them",
            hint="`unspool edit fork --at TURN` takes the session up to some point",
        )
    after = sizes(checked.messages)
    made_plan = _plan(made, finished, (measured, after), measure, _payback(before, measured, after, measure))
    if isinstance(operation, Fork):
        seen = outlook(manuscript, made.point)
    return Prepared(made_plan, manuscript, result, seen, checked)


class _Making:
    """A plan in the making."""

    def __init__(
        self, manuscript: Manuscript, operation: Operation, ids: Ids, new: Identity | None, known: Outlook
    ) -> None:
        self.manuscript, self.operation, self.ids, self.new, self.known = manuscript, operation, ids, new, known
        self.in_place = ids.session == manuscript.id
        self.measure = Scale()
        self.point: str | None = None
        self._seen: View | None = None

    @property
    def seen(self) -> View:
        """What edits look at."""
        self._seen = self._seen or view(self.manuscript, self.known.lines)
        return self._seen

    def draft(self, operation: Operation) -> Draft:
        """Note the steps of an operation."""
        draft = Draft(self.manuscript, self.known.leaf, keeps_usage=self.in_place)
        match operation:
            case Fork(at=at):
                fork(draft, at)
                self.point = draft.leaf
            case Trim() as wish:
                trim(draft, self.seen, wish, Origin(self.manuscript.id, self.in_place))
                if draft.is_empty:
                    raise Refused(
                        "there is nothing to trim that way", hint="`--plan` with other options shows what goes"
                    )
            case Compress() as wish:
                self._compress(draft, wish)
            case _:
                pass
        return draft

    def _compress(self, draft: Draft, wish: Compress) -> None:
        chosen = compressing.parts(self.seen, wish.keep_last)
        if wish.words is None:
            words = compress.without_model(self.seen, chosen.old, calls=wish.keep_calls)
        else:
            words = compress.with_model(self.seen, chosen.old, wish.words, calls=wish.keep_calls)
        fresh = compressing.Fresh(self.ids.boundary, self.ids.summary, self.ids.now)
        compressing.compress(draft, self.seen, chosen, words, fresh)

    def done(self, draft: Draft) -> tuple[Finished, Manuscript, Checked]:
        """Do the steps, and read what came of them. A trimmed copy says how large it is now."""
        if isinstance(self.operation, Trim | TrimTo) and not self.in_place:
            gauge(draft, self.known.messages, self.measure)
        finished = draft.finish(self.new)
        result = read(self.ids.session, finished.data)
        return finished, result, check(result)

    def climbed(self, wish: TrimTo, before: int, measure: Scale) -> tuple[Finished, Manuscript, Checked]:
        """Take one rung after another until the context is small enough."""
        goal = wish.tokens if wish.tokens is not None else round(before * (wish.percent or 0) / 100)
        if not before:
            raise Refused("the context is empty: there is nothing to trim")
        if before <= goal:
            raise Refused(f"the context has about {before:,} tokens already, {goal:,} were asked for")
        least = before
        for rung in rungs(self.seen):
            draft = Draft(self.manuscript, self.known.leaf, keeps_usage=self.in_place)
            step = msgspec.structs.replace(rung, outside=wish.outside)
            trim(draft, self.seen, step, Origin(self.manuscript.id, self.in_place))
            if draft.is_empty:
                continue
            made = self.done(draft)
            reached = measure.tokens(sizes(made[2].messages))
            least = min(least, reached)
            if reached <= goal:
                return made
        raise Refused(
            f"the context cannot be trimmed to {goal:,} tokens; {least:,} is the least",
            hint="`unspool edit compress` makes a summary of older turns",
        )


def _plan(
    made: _Making, finished: Finished, measured: tuple[list[Size], list[Size]], measure: Scale, cost: Payback | None
) -> Plan:
    source = made.manuscript
    return Plan(
        operation=NAMES[type(made.operation)],
        source=source.id,
        session=made.ids.session,
        data=finished.data,
        changes=finished.changes,
        lines=Pair(len(source.entries), finished.lines),
        file_bytes=Pair(len(source.data), len(finished.data)),
        context_tokens=Pair(measure.tokens(measured[0]), measure.tokens(measured[1])),
        removed=finished.removed,
        payback=cost,
        identity=made.new,
        moved=finished.moved,
        leaf=finished.leaf,
    )


def _payback(
    before: Sequence[ContextMessage], measured: list[Size], after: list[Size], measure: Scale
) -> Payback | None:
    if measured == after:
        return None
    answers = [message for message in before if message.role == "assistant"]
    prompts = max(1, sum(1 for message in before if message.role == "user" and message.blocks[0].kind == "text"))
    return payback(measured, after, measure, _price(answers), len(answers) / prompts)


def _compacted_at(messages: Sequence[ContextMessage]) -> int:
    """Return where a context begins: requests before its compaction were of another one."""
    for message in messages:
        for block in message.blocks:
            record = block.entry.record if block.entry else None
            if block.entry is not None and isinstance(record, User) and record.is_compact_summary:
                return block.entry.offset
    return 0


def _price(answers: Sequence[ContextMessage]) -> Price | None:
    for message in reversed(answers):
        for block in message.blocks:
            if block.entry is not None and isinstance(block.entry.record, Assistant):
                return price(block.entry.record.message.model)
    return None
