"""A session as Markdown."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

from inline_snapshot import snapshot

import unspool
from unspool.demo.write import write_demo
from unspool.export.markdown import render_markdown
from unspool.testing.build import (
    Step,
    assistant,
    compaction,
    queued,
    rewind,
    session,
    thinking,
    tool_result,
    tool_use,
    user,
)


def told(tmp_path: Path, *steps: Step) -> str:
    path = session(*steps).save(tmp_path / "c")
    (one,) = unspool.open(path).sessions()
    return render_markdown(one, UTC)


def test_a_session_reads_as_a_transcript(tmp_path: Path) -> None:
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-a", "+b"]}
    edit = {"filePath": "/home/me/project/a.py", "structuredPatch": [hunk]}
    assert told(
        tmp_path,
        user("Fix *it*.\n\nPlease."),
        assistant(thinking("hm"), thinking(""), "I'll look.", tool_use("Edit", file_path="/home/me/project/a.py")),
        tool_result("ok", structured=edit),
        queued("And hurry"),
        assistant(tool_use("Bash", command="make")),
        tool_result("Exit code 1\n```\nfence\n```", error=True),
        user("[Request interrupted by user]"),
        compaction("All was well."),
        assistant("Done.", tool_use("Bash", command="ls `pwd`")),
    ) == snapshot("""\
# Fix \\*it\\*. Please.

- session: `00000000-0000-4000-8000-000000000001`
- project: `/home/me/project`
- branch: `main`
- when: `2026-01-05 09:00`
- model: `claude-opus-4-5-20251101`
- version: `2.1.325`

## 1 · 2026-01-05 09:00

> Fix *it*.
>
> Please.

<details><summary>thinking, 2 characters</summary>

```text
hm
```

</details>

*thinking, withheld*

I'll look.

✓ **Edit** `a.py` (+1 -1, 1.0 s)

```diff
@@ -1,1 +1,1 @@
-a
+b
```

## 2 · 2026-01-05 09:00

*queued during the turn:*

> And hurry

✗ **Bash** `make` (1.0 s)

````text
Exit code 1
```
fence
```
````

*interrupted*

> [Request interrupted by user]

---

*compacted: auto, 160,000 tokens*

<details><summary>summary of what came before</summary>

> All was well.

</details>

Done.

… **Bash** `` ls `pwd` `` (no result)
""")


def test_a_branch_that_was_left_says_so(tmp_path: Path) -> None:
    page = told(tmp_path, user("a"), assistant("1"), user("b"), rewind(), user("c"))
    assert "## 2 · 2026-01-05 09:00 (on an abandoned branch)" in page
    assert "## 3 · 2026-01-05 09:00\n" in page


def test_a_result_cannot_end_its_fence(tmp_path: Path) -> None:
    page = told(tmp_path, user("a"), assistant(tool_use("Bash", command="x")), tool_result("`````\n# no", error=True))
    assert "``````text\n`````\n# no\n``````\n" in page


def test_a_long_error_is_cut(tmp_path: Path) -> None:
    page = told(tmp_path, user("a"), assistant(tool_use("Bash")), tool_result("x\n" * 300, error=True))
    assert "*… 100 more lines*" in page


def test_every_session_of_the_demo_can_be_read(tmp_path: Path) -> None:
    write_demo(tmp_path / "demo")
    for one in unspool.open(tmp_path / "demo").sessions():
        page = render_markdown(one, UTC)
        assert page.startswith("# ")
        for turn in one.turns:
            assert turn.text.splitlines()[0].strip() in page
        assert page.count("<details>") == page.count("</details>")


def test_an_agent_is_folded_under_its_call(tmp_path: Path) -> None:
    write_demo(tmp_path / "demo")
    page = render_markdown(unspool.open(tmp_path / "demo").session("e457"), UTC)
    assert page.index("agent aec636f7edf944781") < page.index("agent a7126834e412f41e7") < page.index("UTC+1 27")
