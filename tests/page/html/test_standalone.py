"""One file that stands alone."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode, b64encode, b85decode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import unspool
from tests.page.html.test_render import Watch, evil
from tests.page.scene import ID, built, viewed
from tests.real_files import corpus
from unspool.export.depth import Depth
from unspool.page.html.line_numbers import drop_line_numbers
from unspool.page.html.standalone import render_standalone
from unspool.page.readers import find_changed_files
from unspool.testing.build import assistant, session, tool_result, tool_use, user

_PACK = re.compile(r'<script type="application/octet-stream" id="pack-([^"]*)">([^<]*)</script>')


def packs(html: str) -> dict[str, Any]:
    found = _PACK.findall(html)
    return {name: json.loads(gzip.decompress(b85decode(text.replace(",", "<")))) for name, text in found}


def main_script(html: str, name: str = "script") -> str:
    """Return the script of a file, which is compressed, or the styles of what it opens."""
    (packed,) = re.findall(rf'id="packed-{name}">([^<]*)<', html)
    return gzip.decompress(b64decode(packed)).decode()


def test_everything_is_inside_and_nothing_is_fetched(tmp_path: Path) -> None:
    html = "".join(render_standalone(built(tmp_path).session))
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"', html) == ['href="https://github.com/me/project/pull/7"']
    assert not re.search(r"url\(|@import|fetch\(['\"]http", html + main_script(html))
    assert html.count("<script") == html.count("</script>")
    inside = packs(html)
    assert {"agents", "agent-a1", "agent-a2", "agent-a3"} < inside.keys()
    steps = {key: step for pack in inside.values() for key, step in pack.get("steps", {}).items()}
    rows = set(re.findall(r'<(?:article|details) class="row [^"]*" id="s-([^"]*)"', html))
    assert {key for key in rows if not key.endswith(("-fold", "-inside"))} <= steps.keys()
    assert len(re.findall(r'id="blob-[0-9a-f]{64}" data-mime="image/png"', html)) == 1


def test_the_policy_names_the_script_and_the_style_by_their_hashes(tmp_path: Path) -> None:
    html = "".join(render_standalone(built(tmp_path).session))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    script, style = (
        re.search(rf"<{tag}[^>]*>(.*?)</{tag[:6]}", html, re.DOTALL) for tag in ('script type="module"', "style")
    )
    assert policy
    assert script
    assert style
    for text in (script[1], main_script(html), style[1], main_script(html, "style")):
        assert b64encode(sha256(text.encode()).digest()).decode() in policy[1].replace("&#39;", "'")
    assert policy[1].startswith("default-src &#39;none&#39;;")


def test_it_can_be_read_without_javascript(tmp_path: Path) -> None:
    html = "".join(render_standalone(built(tmp_path).session))
    plain = re.sub(r"<script.*?</script>|<style.*?</style>", "", html, flags=re.DOTALL)
    for words in (
        "Please fix **the bug**",
        "I will look at it.",
        "make test",
        "exit 1 · 3 lines",
        "abandoned branch (1 prompt)",
    ):
        assert words in plain


def test_only_the_chosen_turns_are_in_it(tmp_path: Path) -> None:
    html = "".join(render_standalone(built(tmp_path).session, turns=range(5, 7)))
    assert re.findall(r'id="t-(\d+)"', html) == ["5", "6"]
    assert "make test" not in html
    assert all("make test" not in json.dumps(pack) for name, pack in packs(html).items() if name.startswith("block-"))


def test_the_review_says_of_each_file_what_changed_by_which_turns(tmp_path: Path) -> None:
    view = built(tmp_path)
    review = packs("".join(render_standalone(view.session)))["review"]
    files = find_changed_files(view).files
    assert [len(review["files"]), review["left"]] == [len(files), 0]
    for file in review["files"]:
        for hunk in file["hunks"]:
            assert hunk["by"]
            assert all(str(turn) in review["prompts"] for turn, *_ in hunk["by"] if turn)
            assert ("html" in hunk) != ("step" in hunk)
    for key in (hunk["step"] for file in review["files"] for hunk in file["hunks"] if "step" in hunk):
        holder = f"agent-{key.rpartition('/')[0]}" if "/" in key else "block-0-0"
        assert 'class="patch"' in packs("".join(render_standalone(view.session)))[holder]["steps"][key]["html"]


def test_the_review_of_some_turns_holds_nothing_of_the_others(tmp_path: Path) -> None:
    steps = []
    for number in (1, 2):
        steps += [user(f"Write {number}"), assistant(tool_use("Write", id=f"w{number}", file_path=f"/p/{number}.txt"))]
        structured = {
            "type": "create",
            "filePath": f"/p/{number}.txt",
            "content": f"text {number}\n",
            "structuredPatch": [],
        }
        steps += [tool_result("created", id=f"w{number}", structured=structured)]
    one = viewed(tmp_path, *steps).session
    review = packs("".join(render_standalone(one, turns=range(2, 3))))["review"]
    assert [file["name"] for file in review["files"]] == ["p/2.txt"]
    assert "text 1" not in json.dumps(review)
    assert "Write 1" not in json.dumps(review)


@given(st.lists(st.tuples(st.integers(0, 30) | st.none(), st.integers(0, 30) | st.none()), max_size=30))
def test_line_numbers_that_are_left_out_can_be_told_from_those_above(numbers: list[tuple[int | None, ...]]) -> None:
    def row(pair: tuple[int | None, ...]) -> str:
        return "".join(f"<i>{'' if number is None else number}</i>" for number in pair) + "text"

    html = "".join(map(row, numbers))
    last, written = [0, 0], ""
    for row_text in drop_line_numbers(html).split("text")[:-1]:
        for column, cell in enumerate(re.findall(r"<u/>|<i>(?:\d*)</i>", row_text)):
            number = str(last[column] + 1) if cell == "<u/>" else cell[3:-4]
            last[column] = int(number) if number else last[column]
            written += f"<i>{number}</i>"
        written += "text"
    assert written == html


def test_the_records_themselves_are_in_it_at_the_greatest_depth(tmp_path: Path) -> None:
    one = built(tmp_path).session
    for depth, has in ((Depth.STEPS, False), (Depth.ALL, True)):
        steps = packs("".join(render_standalone(one, depth=depth)))["block-0-0"]["steps"]
        assert any("record" in raw for step in steps.values() for raw in step["raw"]) is has


def test_nothing_in_a_transcript_gets_out_of_its_place(tmp_path: Path) -> None:
    place = tmp_path / "projects" / "p" / f"{ID}.jsonl"
    place.parent.mkdir(parents=True)
    place.write_bytes(session(*evil(), id=ID).data)
    html = "".join(render_standalone(unspool.open(tmp_path).session(ID), depth=Depth.ALL))
    outside = _PACK.sub("", html)
    assert outside.count("<script") == outside.count("</script>")
    # Three are ours: the styles and the script that are compressed, and the script that starts them.
    assert len(re.findall(r"<script", outside)) == len(re.findall(r'id="blob-', outside)) + 3
    watch = Watch()
    watch.feed(re.sub(r"<(script|style)\b.*?</\1>|<meta [^>]*>", "", outside, flags=re.DOTALL))
    watch.close()
    assert watch.bad == []


def test_a_file_of_774_kb_makes_one_of_no_more_than_250() -> None:
    (path,) = [path for path in corpus().rglob("fe5e1c67-*.jsonl") if path.stat().st_size == 774_477][
        :1
    ] or pytest.skip("that file is not in this corpus")
    (one,) = unspool.open(path).sessions()
    assert len("".join(render_standalone(one)).encode()) <= 250_000
