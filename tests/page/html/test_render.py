"""Pieces of HTML: nothing from a transcript is ever more than text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.page.scene import ID, built, viewed
from unspool.export.depth import Depth
from unspool.page.detail import read_detail
from unspool.page.find import find_text
from unspool.page.html.render import Renderer, preload_templates, session_links
from unspool.page.rows import walk_rows
from unspool.page.sections import split_into_batches
from unspool.page.view import PageView
from unspool.testing.build import (
    assistant,
    attachment,
    compaction,
    image,
    note,
    queued,
    session,
    system,
    thinking,
    tool_result,
    tool_use,
    user,
)

EVIL = "\"'><img src=x onerror=alert(1)><script>alert(2)</script><!--{{ 7*7 }}\x1b[31m\u202e&amp;"


class Watch(HTMLParser):
    """Notes what must never be in a page."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style", "iframe", "object", "embed", "base", "link", "meta"):
            self.bad.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name in ("style", "srcdoc") or "javascript:" in (value or ""):
                self.bad.append(f"{tag} {name}")
            if name == "src" and not (value or "").startswith(("/blob/", "/session/")):
                self.bad.append(f"{tag} src={value}")

    def handle_comment(self, data: str) -> None:
        self.bad.append(f"comment {data}")


def watched(html: str) -> str:
    watch = Watch()
    watch.feed(html)
    watch.close()
    assert watch.bad == []
    assert not {"\x1b", "\u202e"} & set(html)
    return html


def everything(view: PageView) -> str:
    """Return every piece of a page."""
    made = Renderer(session_links(view.id))
    parts = [
        made.page(view, Depth.ALL),
        made.agents(view.agents.read_tree()),
        made.matches(find_text(view, "alert"), EVIL),
    ]
    parts += [made.outline(view.outline(), range(5)), made.page(view, turns=range(1, 3))]
    for section in view.sections.read_turns(None, Depth.ALL):
        for row in walk_rows(section.rows):
            if row.kind not in ("fold", "inside"):
                found = read_detail(view, row.key)
                parts += [made.detail(found, tab) for tab in found.tabs]
    return "".join(parts)


def evil() -> list[Any]:
    value = {EVIL: EVIL, "list": [EVIL, {EVIL: [EVIL]}]}
    patch = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": [f"-{EVIL}", f"+{EVIL}"]}
    edit = {"filePath": EVIL, "oldString": EVIL, "newString": EVIL, "structuredPatch": [patch]}
    return [
        user(EVIL, image(media_type=EVIL), image("x", EVIL)),
        assistant(thinking(EVIL), EVIL, tool_use(EVIL, id="a", **value), model=EVIL),
        tool_result(EVIL, id="a", structured=value),
        assistant(tool_use("Edit", id="b", file_path=EVIL, old_string=EVIL, new_string=EVIL)),
        tool_result(EVIL, id="b", structured=edit),
        assistant(tool_use("Bash", id="c", command=EVIL, description=EVIL)),
        tool_result(f"Exit code 1\n{EVIL}", id="c", error=True),
        assistant(tool_use("Read", id="d", file_path=EVIL)),
        tool_result(
            EVIL, id="d", structured={"type": "text", "file": {"filePath": EVIL, "content": EVIL, "startLine": 1}}
        ),
        assistant(tool_use("Task", id="e", description=EVIL, prompt=EVIL, subagent_type=EVIL)),
        tool_result(EVIL, id="e", structured={"status": "completed", "agentId": EVIL, "content": []}),
        assistant(
            tool_use(
                "AskUserQuestion", id="f", questions=[{"question": EVIL, "header": EVIL, "options": [{"label": EVIL}]}]
            )
        ),
        tool_result(EVIL, id="f", structured={"questions": [], "answers": {EVIL: EVIL}}),
        assistant(tool_use("TodoWrite", id="g", todos=[{"content": EVIL, "status": EVIL}])),
        note("pr-link", prNumber=1, prUrl=f"javascript:alert(1)//{EVIL}", prRepository=EVIL),
        note("custom-title", customTitle=EVIL),
        note(EVIL, x=EVIL),
        attachment(EVIL, x=EVIL),
        attachment("file", filename=EVIL),
        attachment("hook_non_blocking_error", hookName=EVIL, stderr=EVIL),
        system(EVIL, EVIL),
        system("local_command", f"<local-command-stdout>{EVIL}</local-command-stdout>"),
        compaction(EVIL, trigger=EVIL),
        queued(EVIL),
    ]


def test_whatever_is_in_any_field_stays_text(tmp_path: Path) -> None:
    path = session(*evil(), id=ID, cwd=f"/home/{EVIL.replace('/', '')}", branch=EVIL, version="2.1.325").data
    place = tmp_path / "projects" / "p" / f"{ID}.jsonl"
    place.parent.mkdir(parents=True)
    place.write_bytes(path)
    import unspool

    html = watched(everything(PageView.read(unspool.open(tmp_path).session(ID))))
    assert html.count("&lt;script&gt;alert(2)&lt;/script&gt;") > 100
    assert "49" not in re.findall(r"\{\{[^}]*\}\}|\b49\b", html)


def test_one_of_everything_is_clean_html(tmp_path: Path) -> None:
    html = watched(everything(built(tmp_path)))
    assert 'style="' not in html
    assert "abandoned branch (1 prompt)" in html


def test_a_small_session_is_whole_and_a_long_one_is_loaded_as_one_reads(tmp_path: Path) -> None:
    exchange = [user("go"), *[assistant(tool_use("Bash", command="ls")), tool_result("x")] * 60]
    small = viewed(tmp_path / "small", *exchange)
    assert "data-empty" not in Renderer(session_links(ID)).page(small)
    view = viewed(tmp_path / "long", *exchange * 40)
    page = Renderer(session_links(ID)).page(view)
    assert page.count("data-empty") == len(split_into_batches(view.index)) - 2
    assert page.count('class="row') < 500
    first, last = split_into_batches(view.index)[0], split_into_batches(view.index)[-1]
    assert f'id="t-{first.first}"' in page
    assert f'id="t-{last.last}"' in page


def test_the_nodes_of_a_page_are_bounded(tmp_path: Path) -> None:
    turn = [user("go"), assistant("**a** `b`", tool_use("Bash", command="ls")), tool_result("x"), assistant("ok")]
    view = viewed(tmp_path, *turn * 2_000)
    page = Renderer(session_links(ID)).page(view)
    assert page.count("<") / 2 < 12_000


def test_without_javascript_one_reads_on_by_links(tmp_path: Path) -> None:
    view = viewed(tmp_path, *[user("go"), assistant("ok")] * 30)
    page = Renderer(session_links(ID)).page(view, turns=range(1, 11))
    assert "turns=11..20" in page
    assert page.count('class="row prompt') == 10


def test_a_growth_is_rows_with_their_places(tmp_path: Path) -> None:
    lines = [user("one"), assistant("two"), user("three"), assistant(tool_use("Bash", command="ls"))]
    made = session(*lines, id=ID)
    path = made.save(tmp_path)
    path.write_bytes(b"".join(made.lines[:2]))
    import unspool

    view = PageView.read(unspool.open(tmp_path).session(ID))
    path.write_bytes(made.data)
    event = Renderer(session_links(ID)).growth(view, view.grow())
    assert [(row["turn"], row["block"]) for row in event["rows"]] == [(2, "1-0"), (2, "1-0")]
    assert event["position"] == len(made.data)
    assert 'data-turn="2"' in event["rows"][0]["section"]
    assert "three" in event["outline"]
    watched("".join(row["html"] for row in event["rows"]))


@pytest.mark.parametrize("word", list(Depth))
def test_a_page_says_how_deep_it_is(tmp_path: Path, word: Depth) -> None:
    assert f'data-depth="{word.word}"' in Renderer(session_links(ID)).page(viewed(tmp_path, user("hi")), word)


def test_what_is_loaded_beforehand_is_all_there_is() -> None:
    preload_templates()


def test_addresses_are_quoted() -> None:
    made = session_links("a/../b?c")
    assert made.base == "/session/a%2F..%2Fb%3Fc"
    assert made.step("x/1.0&y") == made.base + "?step=x%2F1.0%26y"
