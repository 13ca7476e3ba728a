"""What was said last in a session that is gone on with: its file in, drawn text out."""

from __future__ import annotations

from collections.abc import Iterator

from unspool.client.front.drawing import Drawing
from unspool.export.outline import sections
from unspool.export.steps import Answer, Call, Mark, Prompt, Step, Story
from unspool.graph.aims import aim
from unspool.home import Session

TURNS = 2


def recalled(session: Session, drawing: Drawing) -> str:
    """Draw the last turns of the thread that is gone on with."""
    thread = [section for section in sections(session) if not section.left and section.turn is not None]
    story = Story(session.entries)
    earlier = len(thread) - TURNS
    head = drawing.text(f"… {earlier} earlier", "dim") + "\n" if earlier > 0 else ""
    steps = (step for section in thread[-TURNS:] for step in story.steps(section.entries))
    return head + "".join(_drawn(steps, drawing))


def _drawn(steps: Iterator[Step], drawing: Drawing) -> Iterator[str]:
    for step in steps:
        match step:
            case Prompt(text=text) if text.strip():
                yield drawing.prompt(text) + "\n"
            case Answer(text=text) if text.strip():
                yield drawing.answer(text, first=True) + "\n"
            case Call(call=call):
                yield drawing.call(call.name, aim(call.name, call.input, drawing.cwd), failed=call.failed) + "\n"
            case Mark(text=text):
                yield drawing.text(f"· {step.kind.value}", "dim") + "\n"
            case _:
                pass
