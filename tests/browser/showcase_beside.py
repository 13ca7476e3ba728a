"""What lies beside the main session of the showcase: agents, a second session, a fork, side files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from unspool.format.base import encode_json
from unspool.paths import project_key
from unspool.testing.build import Built, assistant, session, tool_result, tool_use, user, wait

CWD = "/home/me/shop"
ID = "5ca1ab1e-0000-4000-8000-000000000001"
OTHER = "5ca1ab1e-0000-4000-8000-000000000002"
HAIKU = "claude-haiku-4-5-20251001"
SLUG = "quiet-counting-owl"
SECRET = "sk-ant-api03-not-a-real-key-0123456789"

LONG_ANSWER = """\
## What was wrong

`total` was rounded to **whole coins** before tax. Now it keeps its cents:

```python
def total(items: list[Item]) -> Decimal:
    \"\"\"Add up a cart.\"\"\"
    return sum((item.price for item in items), Decimal()).quantize(CENT)
```

| file | before | after |
|---|---:|---:|
| `cart.py` | 42.0 | 41.60 |
| `orders.py` | 17.0 | 16.75 |

1. The test that failed passes.
2. Eleven others were not touched.

> Rounding belongs at the end, once.

See [the decimal module](https://docs.example.com/decimal) for `quantize`.
"""


class Order(NamedTuple):
    """An agent: what it is asked to do, and what it says."""

    agent: str
    call: str
    kind: str
    about: str
    prompt: str
    report: str


ORDERS = (
    Order(
        "a1000000000000001", "toolu_01agent000000000000000001", "Explore", "Search the code",
        "Where else is a total rounded?", "In `orders.py`, line 88.",
    ),
    Order(
        "a1000000000000002", "toolu_01agent000000000000000002", "general-purpose", "Search the tests",
        "Which tests know of the rounding?", "Two of 31 tests do.",
    ),
    Order(
        "a1000000000000003", "toolu_01agent000000000000000003", "Explore", "Search the documents",
        "What do the documents promise?", "They promise cents.",
    ),
)  # fmt: skip
NESTED = Order(
    "a1000000000000004", "toolu_01agent000000000000000004", "Explore", "Count the tests",
    "How many tests are there?", "There are 31 tests.",
)  # fmt: skip
START = "2026-03-02T10:05:00.000Z"


def write(config: Path) -> None:
    """Write all of it."""
    for order in ORDERS:
        _agent(order).save_agent(config, **_meta(order, depth=1))
    _agent(NESTED).save_agent(config, **_meta(NESTED, depth=2))
    second_session().save(config)
    _side_files(config)


def second_session() -> Built:
    """A short session in another project."""
    said = "1600 harbours.csv"
    return session(
        user("How many harbours are there?"),
        assistant("I'll count them.", tool_use("Bash", command="wc -l harbours.csv", description="Count")),
        wait(2),
        tool_result(said, structured={"stdout": said, "stderr": "", "interrupted": False}),
        assistant("1,600 harbours."),
        id=OTHER, cwd="/home/me/tides", branch="main", start="2026-03-01T08:00:00.000Z",
    )  # fmt: skip


def _agent(order: Order) -> Built:
    steps = [user(order.prompt)]
    if order is ORDERS[1]:
        use = tool_use(
            "Agent", id=NESTED.call, description=NESTED.about, prompt=NESTED.prompt, subagent_type=NESTED.kind
        )
        steps += [assistant("I'll have them counted.", use, model=HAIKU), wait(6), tool_result(NESTED.report)]
    else:
        search = tool_use("Grep", pattern=order.about)
        steps += [assistant(search, model=HAIKU), wait(2), tool_result("1 match")]
    steps.append(assistant(order.report, model=HAIKU))
    start = START if order is not NESTED else "2026-03-02T10:05:03.000Z"
    return session(*steps, id=ID, cwd=CWD, branch="cart-total", start=start, agent=order.agent)


def _meta(order: Order, *, depth: int) -> dict[str, object]:
    who = {"agentType": order.kind, "description": order.about, "toolUseId": order.call}
    return {**who, "spawnDepth": depth, "finished": True}


def _side_files(config: Path) -> None:
    memory = config / "projects" / project_key(CWD) / "memory"
    memory.mkdir(parents=True, exist_ok=True)
    (memory / "MEMORY.md").write_text("# Shop\n\n- Money is `Decimal`, never `float`.\n")
    for name in ("plans", "todos", f"tasks/{ID}", f"file-history/{ID}"):
        (config / name).mkdir(parents=True, exist_ok=True)
    (config / "plans" / f"{SLUG}.md").write_text(
        "# Cents everywhere\n\n## Phase 1\n\n- [x] Cart\n- [x] Orders\n- [ ] Invoices\n\n## Phase 2\n\n- [ ] Refunds\n"
    )
    todos = [
        {"content": "Keep the cents", "status": "completed", "activeForm": "Keeping the cents"},
        {"content": "Write the invoice test", "status": "in_progress", "activeForm": "Writing the invoice test"},
    ]
    (config / "todos" / f"{ID}-agent-{ID}.json").write_bytes(encode_json(todos))
    task = {"id": "1", "subject": "Check refunds", "description": "They round too", "status": "pending"}
    (config / "tasks" / ID / "1.json").write_bytes(encode_json({**task, "blocks": [], "blockedBy": []}))
    typed = [
        {"display": words, "pastedContents": {}, "timestamp": time, "project": CWD, "sessionId": ID}
        for words, time in (
            ("What about half a cent?", 1_772_445_840_000),
            ("Delete the old branch.", 1_772_446_500_000),
        )
    ]
    (config / "history.jsonl").write_bytes(b"".join(encode_json(line) + b"\n" for line in typed))
    settings = {"model": "opus", "env": {"ANTHROPIC_API_KEY": SECRET}, "permissions": {"allow": ["Bash(uv run:*)"]}}
    (config / "settings.json").write_bytes(encode_json(settings))


AGENT_REQUESTS = 8
AGENT_REQUEST_MICROS = 2_054
"""Each has 4 fresh tokens, 200 written, 12,000 read and 120 of output, for 1, 1.25, 0.1 and 5 dollars a million."""
