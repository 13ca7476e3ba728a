"""Plans an edit: an operation and a session in, a plan and the new session's bytes out.

    prepared = prepare_edit(text, Trim(results=True), ids)
    prepared.plan.data              # the content of the new file
    prepared.plan.context_tokens    # before and after

Nothing is read or written; new ids and the time come in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from unspool.edit.planning import plan as plans
from unspool.edit.planning import token_estimate
from unspool.edit.planning.draft import EditDraft, FinishedEdit
from unspool.edit.planning.ids import IdMap, map_ids
from unspool.edit.planning.plan import BeforeAfter, EditIds, EditPlan, Operation, Payback
from unspool.edit.planning.session_view import SessionView, view_session
from unspool.edit.planning.trim import plan_trim, trim_steps
from unspool.edit.rules.check import ResumeContext, resume_context
from unspool.edit.session_text import SessionText, parse_session_text
from unspool.errors import Refused
from unspool.format import Assistant, Entry, User
from unspool.graph.context import ContextMessage

if TYPE_CHECKING:
    from unspool.edit.planning.repair import RepairedSession
    from unspool.prices import Price


class PreparedEdit(NamedTuple):
    """A plan, and the sessions and contexts before and after that it was made from."""

    plan: EditPlan
    source: SessionText
    result: SessionText
    before: ResumeContext
    """What the source would send when it is resumed from the same line."""
    after: ResumeContext
    """What the result would send when it is resumed."""


class _Outcome(NamedTuple):
    finished: FinishedEdit
    result: SessionText
    context: ResumeContext


def prepare_edit(
    text: SessionText,
    operation: Operation,
    ids: EditIds,
    complete_ids: Callable[[IdMap], IdMap] = lambda id_map: id_map,
) -> PreparedEdit:
    """Return what an operation would do to a session; `complete_ids` adds the paths and agents of the new session."""
    planner = _Planner(text, operation, ids, complete_ids)
    context = planner.context
    if isinstance(operation, plans.TrimTo):
        outcome = planner.trim_to(operation)
    elif isinstance(operation, plans.Repair):
        outcome = planner.finish_repair()
    elif isinstance(operation, plans.Redact):
        outcome = planner.finish_redaction(operation)
    else:
        draft = planner.draft()
        outcome = planner.finish(draft)
        if isinstance(operation, plans.Fork):
            context = resume_context(text, draft.new_leaf)
    if (
        isinstance(operation, plans.Trim)
        and operation.turns is not None
        and outcome.context.leaf != outcome.finished.leaf
    ):
        raise Refused(
            "the last turns cannot be removed: another branch starts before them",
            hint="copy the session up to a turn with `unspool edit fork SESSION --at TURN`",
        )
    return PreparedEdit(planner.build_plan(outcome), text, outcome.result, context, outcome.context)


class _Planner:
    """Plans one operation on one session."""

    def __init__(
        self, text: SessionText, operation: Operation, ids: EditIds, complete_ids: Callable[[IdMap], IdMap]
    ) -> None:
        self._text, self._operation, self._ids = text, operation, ids
        self._in_place = ids.session == text.id
        self.context = resume_context(text)
        messages = self.context.messages
        self._sizes = token_estimate.measure_messages(messages)
        self._scale = token_estimate.fit_token_scale(messages, self._sizes, _compacted_at(self.context.lines))
        self._id_map: IdMap | None = None
        self._repaired: RepairedSession | None = None
        if isinstance(operation, plans.Repair):
            from unspool.edit.planning.repair import repair_session  # start-up: no other operation needs it

            self._repaired = repair_session(text, ids, in_place=self._in_place)
        if not self._in_place or isinstance(operation, plans.Move):
            edited = self._repaired.text if self._repaired else text  # lines that a repair has added need ids, too
            uuids = {uuid: None for entry in edited.entries if (uuid := entry.record.uuid)}
            self._id_map = complete_ids(map_ids(text.id, ids.session, ids.seed, uuids))

    @cached_property
    def _view(self) -> SessionView:
        """The session as the operations see it; a clone or a move needs none."""
        return view_session(self._text, self.context.lines)

    def _new_draft(self) -> EditDraft:
        return EditDraft(self._text, self.context.leaf, in_place=self._in_place)

    def draft(self) -> EditDraft:
        """Record the steps of the operation."""
        draft = self._new_draft()
        match self._operation:
            case plans.Fork(at=point):
                # Imported here and below, because a trim at the command line should not load the other operations.
                from unspool.edit.planning.fork import plan_fork

                plan_fork(draft, point)
            case plans.Trim() as options:
                plan_trim(draft, self._view, options)
                if draft.is_empty:
                    raise Refused("nothing to trim with these options", hint="try other options with `--plan`")
            case plans.Compress() as options:
                from unspool.edit.planning import compress

                view = self._view
                old, kept = compress.split_turns(view, options.keep_last)
                if options.words is None:
                    summary = compress.summarise_without_model(view, old, calls=options.keep_calls)
                else:
                    summary = compress.complete_model_summary(view, old, options.words, calls=options.keep_calls)
                compress.plan_compression(draft, view, old, kept, summary=summary, ids=self._ids)
            case _:
                pass
        return draft

    def finish_repair(self) -> _Outcome:
        """Return the repaired session, in a copy under its new ids."""
        assert self._repaired is not None
        text, changes, removed, kept_ancestors = self._repaired
        draft = EditDraft(text, resume_context(text).leaf, in_place=self._in_place)
        finished = draft.finish(self._id_map)._replace(changes=changes, removed=removed, kept_ancestors=kept_ancestors)
        result = parse_session_text(self._ids.session, finished.data)
        return _Outcome(finished, result, resume_context(result))

    def finish_redaction(self, operation: plans.Redact) -> _Outcome:
        """Return the session without the texts that are to go."""
        from unspool.edit.planning.redaction import redact_session_text

        finished = redact_session_text(self._text, operation.removal)
        result = parse_session_text(self._ids.session, finished.data)
        return _Outcome(finished, result, resume_context(result))

    def finish(self, draft: EditDraft) -> _Outcome:
        """Apply the steps, and read the result. A trimmed copy gets its new context size as usage."""
        if isinstance(self._operation, plans.Trim | plans.TrimTo) and not self._in_place:
            token_estimate.write_context_size(draft, self.context.messages, self._sizes, self._scale)
        finished = draft.finish(self._id_map)
        result = parse_session_text(self._ids.session, finished.data)
        return _Outcome(finished, result, resume_context(result))

    def trim_to(self, target: plans.TrimTo) -> _Outcome:
        """Try one trim after another until the context is small enough."""
        before = self._scale.tokens(self._sizes)
        goal = target.tokens if target.tokens is not None else round(before * (target.percent or 0) / 100)
        if not before:
            raise Refused("nothing to trim: the context is empty")
        if before <= goal:
            raise Refused(f"the context already has only about {before:,} tokens; {goal:,} were requested")
        least = before
        for step in trim_steps(self._view):
            draft = self._new_draft()
            plan_trim(draft, self._view, msgspec.structs.replace(step, outside=target.outside))
            if draft.is_empty:
                continue
            outcome = self.finish(draft)
            reached = self._scale.tokens(token_estimate.measure_messages(outcome.context.messages))
            least = min(least, reached)
            if reached <= goal:
                return outcome
        raise Refused(
            f"the context cannot be trimmed to {goal:,} tokens; the minimum is {least:,}",
            hint="summarize older turns with `unspool edit compress SESSION`",
        )

    def build_plan(self, outcome: _Outcome) -> EditPlan:
        """Return the plan of what was done to get an outcome."""
        finished, scale = outcome.finished, self._scale
        sizes = token_estimate.measure_messages(outcome.context.messages)
        return EditPlan(
            operation=plans.OPERATION_NAMES[type(self._operation)],
            source=self._text.id,
            session=self._ids.session,
            data=finished.data,
            changes=finished.changes,
            lines=BeforeAfter(len(self._text.entries), finished.lines),
            file_bytes=BeforeAfter(len(self._text.data), len(finished.data)),
            context_tokens=BeforeAfter(scale.tokens(self._sizes), scale.tokens(sizes)),
            removed=finished.removed,
            payback=self._estimate_payback(sizes),
            id_map=self._id_map,
            kept_ancestors=finished.kept_ancestors,
            leaf=finished.leaf,
            kept_in_context=finished.kept_in_context,
        )

    def _estimate_payback(self, sizes: list[token_estimate.ContentSize]) -> Payback | None:
        # A repair is made so that there is a next request at all, whatever it costs.
        if self._sizes == sizes or self._repaired is not None:
            return None
        messages = self.context.messages
        responses = [message for message in messages if message.role == "assistant"]
        prompts = sum(1 for message in messages if message.role == "user" and message.blocks[0].kind == "text")
        per_turn = len(responses) / max(1, prompts)
        return token_estimate.estimate_payback(self._sizes, sizes, self._scale, _find_price(responses), per_turn)


def _compacted_at(lines: Sequence[Entry]) -> int:
    """Return the offset that a context begins at: requests before its compaction had another content."""
    records = ((entry.record, entry.offset) for entry in lines)
    return next((offset for record, offset in records if isinstance(record, User) and record.is_compact_summary), 0)


def _find_price(responses: Sequence[ContextMessage]) -> Price | None:
    """Return the price of the model that answered last."""
    from unspool.prices import find_price  # start-up: read only where the context changes

    for message in reversed(responses):
        for block in message.blocks:
            if block.entry is not None and isinstance(block.entry.record, Assistant):
                return find_price(block.entry.record.message.model)
    return None
