"""Very long steps are rendered in another process, which cannot hold up the server or take all memory."""

from __future__ import annotations

import os
import signal
import threading

import msgspec
import pytest

from bench import hostile
from tests.pseudo_terminal import until
from unspool.errors import TooLarge
from unspool.home import Home
from unspool.page import PageView, StepDetail, read_detail
from unspool.page.html import Renderer, session_links
from unspool.read import scan
from unspool.web.serving.render_process import RENDER_SECONDS, RenderProcess


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, StepDetail]:
    """The steps that take the longest: a result of one line, a diff, a file for a slow lexer, changing colours."""
    config = tmp_path_factory.mktemp("hostile")
    hostile.build(config)
    (session,) = Home(scan(config)).sessions()
    view = PageView.read(session)
    found = {}
    for section in view.sections.read_turns(None):
        for row in section.rows:
            if row.kind == "call":
                found[row.name + row.target] = read_detail(view, row.key, whole=True)
    assert len(found) == 4
    return found


def test_the_longest_steps_are_rendered_elsewhere_and_look_as_they_would_here(
    steps: dict[str, StepDetail], monkeypatch: pytest.MonkeyPatch
) -> None:
    process, pids = RenderProcess(), set()
    renderer = Renderer(session_links(hostile.ID))
    for name, detail in steps.items():
        html = process.render(hostile.ID, detail, "rendered")
        pids.add(process.pid)
        assert html is not None, name
        if not name.startswith("Read"):  # how much of it is coloured depends on the time that it takes
            assert html.decode() == renderer.detail(detail, "rendered"), name
    assert len(pids) == 1
    assert os.getpid() not in pids
    process.close()
    assert process.pid is None
    (one, *_) = steps.values()
    short = StepDetail(key=one.key, turn=one.turn, row=one.row)
    assert process.render(hostile.ID, short, "rendered") is None
    assert process.pid is None


def test_a_step_that_takes_too_long_ends_its_process_and_the_next_one_is_rendered(
    steps: dict[str, StepDetail],
) -> None:
    impatient, process = RenderProcess(0.001), RenderProcess()
    detail = next(one for name, one in steps.items() if name.startswith("Edit"))
    with pytest.raises(TooLarge, match="takes too long"):
        impatient.render(hostile.ID, detail, "rendered")
    assert impatient.pid is None
    assert process.render(hostile.ID, detail, "rendered")
    process.close()
    assert [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)] == []


def test_a_process_that_ended_while_it_had_no_work_is_started_again(steps: dict[str, StepDetail]) -> None:
    process = RenderProcess()
    (detail, *_) = steps.values()
    assert process.render(hostile.ID, detail, "rendered")
    earlier = process.pid
    assert earlier is not None
    os.kill(earlier, signal.SIGKILL)  # as the kernel does when memory runs out
    assert process.render(hostile.ID, detail, "rendered")
    assert process.pid != earlier
    process.close()


def stop_with_request(
    process: RenderProcess, detail: StepDetail, failures: list[str], seconds: float = RENDER_SECONDS
) -> threading.Thread:
    """Let a process stop, send it a step from a thread, and return that when it waits."""
    assert process.render(hostile.ID, detail, "rendered")
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    process._seconds = seconds  # not before: a start takes longer

    def render() -> None:
        try:
            process.render(hostile.ID, detail, "rendered")
        except TooLarge as error:
            failures.append(error.message)

    thread = threading.Thread(target=render, daemon=True)
    thread.start()
    until(process._lock.locked)
    return thread


def test_a_process_that_does_not_even_read_the_step_is_ended_at_the_deadline(steps: dict[str, StepDetail]) -> None:
    process, failures = RenderProcess(), list[str]()
    (detail, *_) = steps.values()
    assert len(msgspec.json.encode(detail)) > 500_000  # more than a pipe holds
    thread = stop_with_request(process, detail, failures, seconds=0.2)
    thread.join(60)
    assert failures == ["this step takes too long to show"]
    process.close()


def test_the_end_of_the_server_waits_for_no_step(steps: dict[str, StepDetail]) -> None:
    process, failures = RenderProcess(), list[str]()
    (detail, *_) = steps.values()
    thread = stop_with_request(process, detail, failures)
    process.close()
    thread.join(30)
    assert failures == ["the process that renders this step has ended"]
    with pytest.raises(TooLarge):  # requests that waited for their turn start it no more
        process.render(hostile.ID, detail, "rendered")
    assert process.pid is None


def test_a_step_with_a_number_of_any_size_is_rendered_elsewhere_too(steps: dict[str, StepDetail]) -> None:
    process = RenderProcess()
    (one, *_) = steps.values()
    huge = StepDetail(key=one.key, turn=one.turn, row=one.row, input={"number": 10**40, "text": "x" * 200_000})
    html = process.render(hostile.ID, huge, "input")
    assert html is not None
    assert html.decode() == Renderer(session_links(hostile.ID)).detail(huge, "input")
    process.close()


def test_what_cannot_be_sent_is_rendered_here(steps: dict[str, StepDetail]) -> None:
    process = RenderProcess()
    (one, *_) = steps.values()
    half = StepDetail(key=one.key, turn=one.turn, row=one.row, input={"text": "x" * 200_000 + "\ud800"})
    assert process.render(hostile.ID, half, "input") is None
    assert process.pid is None
