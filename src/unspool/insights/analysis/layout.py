"""The sections of the insights as people see them: titles, columns, and values in words."""

from __future__ import annotations

from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from unspool.display import units

Form: TypeAlias = Literal["text", "count", "tokens", "money", "time"]


class InsightColumn(NamedTuple):
    """A column of a section."""

    field: str
    heading: str
    form: Form = "count"
    is_minor: bool = False
    """Whether a narrow screen leaves it out."""


class InsightLayout(NamedTuple):
    """How a section looks."""

    title: str
    words: str
    """What its figures are."""
    columns: tuple[InsightColumn, ...]
    value: Form | None = None
    """What the lines of a row are sorted by; None: by their time."""
    question: str | None = None
    """The section whose query has these figures, if it has another name; None: its own."""


_COST = InsightColumn("cost_micros", "cost", "money")
_TIME = InsightColumn("duration_ms", "time", "time")


def _make_layout() -> dict[str, InsightLayout]:
    column = InsightColumn
    return {
        "tools": InsightLayout(
            "Tools",
            "The cost of a response is divided among the calls that it makes. Time is from a call to its result, with "
            "the wait for approval. Failed calls include those that you rejected.",
            (column("tool", "tool", "text"), _COST, _TIME, column("calls", "calls"), column("failed", "failed"),
             column("unanswered", "no result", is_minor=True), column("longest_ms", "longest", "time", is_minor=True)),
            "time",
        ),
        "files": InsightLayout(
            "Files",
            "Files that tools name. What shell commands do to files is not known.",
            (column("path", "file", "text"), _COST, _TIME, column("reads", "reads"), column("changes", "changes"),
             column("not_done", "failed", is_minor=True), column("added", "added", is_minor=True),
             column("removed", "removed", is_minor=True)),
            "money",
        ),
        "projects": InsightLayout(
            "Projects",
            "All that was billed. Time is that of the turns: from a prompt to the last line before the next one.",
            (column("project", "project", "text"), _COST, column("turns_ms", "turns", "time"),
             column("responses", "requests"), column("sessions", "sessions")),
            "money",
        ),
        "failures": InsightLayout(
            "Kinds of failure",
            "Failed tool calls that are alike. Calls that you rejected are not among them.",
            (column("words", "failure", "text"), column("tool", "tool", "text"), column("failures", "failed"), _COST,
             _TIME, column("sessions", "sessions", is_minor=True)),
            question="failed_calls",
        ),
        "commands": InsightLayout(
            "Failing commands",
            "Shell commands that failed, word for word, and the time and cost of their failed runs.",
            (column("command", "command", "text"), column("failed", "failed"), column("runs", "runs"),
             column("failed_cost_micros", "cost", "money"), column("failed_ms", "time", "time")),
        ),
        "retries": InsightLayout(
            "Retries",
            "Calls whose last call with the same tool and input had failed.",
            (column("tool", "tool", "text"), column("retries", "retries"), column("succeeded", "succeeded"),
             column("failed_again", "failed again"), _COST, _TIME),
        ),
        "api_errors": InsightLayout(
            "Retries of requests",
            "Errors of the API that Claude Code wrote down before it sent a request again.",
            (column("session_id", "session", "text"), column("errors", "errors")),
        ),
        "repeated_reads": InsightLayout(
            "Repeated reads",
            "Files that were read again, with the same result, while the first result was still in the context. Tokens "
            "are estimated by the bytes; later requests carried them again.",
            (column("path", "file", "text"), column("reads", "repeated"), column("tokens", "tokens", "tokens"),
             column("carried_tokens", "carried", "tokens"), _COST),
            "tokens",
        ),
        "lost_caches": InsightLayout(
            "Lost caches",
            "Requests that sent again what the cache had held, and what that cost more than reading it.",
            (column("why", "reason", "text"), column("requests", "requests"),
             column("lost_tokens", "sent again", "tokens"), _COST),
            "money",
        ),
        "growth": InsightLayout(
            "What filled the context",
            "How much contexts grew from one request to the next, by what came in between; what was dropped is less "
            "than nothing.",
            (column("what", "content", "text"), column("tokens", "tokens", "tokens"), column("steps", "times"),
             column("largest", "largest", "tokens")),
            "tokens",
        ),
        "contexts": InsightLayout(
            "Fullest contexts",
            "Sessions by the longest prompt of their main conversation.",
            (column("session_id", "session", "text"), column("peak_tokens", "peak", "tokens"),
             column("last_tokens", "last", "tokens"), column("requests", "requests"), _COST),
            "tokens",
        ),
        "approvals": InsightLayout(
            "Waits for approval",
            "Calls of a second or longer that today's permission rules ask about, in turns whose permission mode asks. "
            "The wait is at most this long: most results do not say how long the tool ran.",
            (column("tool", "tool", "text"), column("waited_at_most_ms", "at most", "time"), column("calls", "calls"),
             column("approved", "approved"), column("rejected", "rejected")),
            "time",
            "approved",
        ),
        "waits": InsightLayout(
            "Waits for you",
            "From the end of a turn to your next prompt, from a question or a plan to your answer, and from a call to "
            "your rejection. Nothing says whether you were there.",
            (column("what", "wait", "text"), column("waited_ms", "waited", "time"), column("waits", "times"),
             column("median_ms", "median", "time"), column("longest_ms", "longest", "time")),
            "time",
        ),
    }  # fmt: skip


LAYOUT: Final = MappingProxyType(_make_layout())
_WAITS: Final = {"prompt": "a prompt", "question": "an answer", "plan": "a plan", "rejected": "a call you rejected"}
_GROWTH: Final = {
    "start": "system prompt, tools and first prompt",
    "answer": "answers",
    "prompt": "prompts",
    "dropped": "dropped",
}


def describe_row(section: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the words that stand for its kind."""
    if section == "growth":
        return {**row, "what": _GROWTH.get(row["kind"]) or f"results of {row['tool']}"}
    return {**row, "what": _WAITS.get(row["kind"], row["kind"])} if section == "waits" else row


def format_value(form: Form, value: Any) -> str:
    """Return a value in words; what is not known is a dash."""
    if value is None:
        return "-"
    match form:
        case "count":
            return f"{value:,}"
        case "tokens":
            return f"-{units.tokens(-value)}" if value < 0 else units.tokens(value)
        case "money":
            return units.dollars(value)
        case "time":
            return units.duration(timedelta(milliseconds=value))
        case _:
            return str(value)


def describe_saving(saved: dict[str, int]) -> str:
    """Return what a suggestion would have saved, in words.

    >>> describe_saving({"failed_calls": 3, "milliseconds": 90_000, "cost_micros": 20_000})
    '3 failed calls, 1m 30s, $0.02'
    """
    forms: dict[str, tuple[Form, str]] = {
        "failed_calls": ("count", "{} failed calls"),
        "approvals": ("count", "{} approvals"),
        "tokens": ("tokens", "{} tokens of each request"),
        "milliseconds": ("time", "{}"),
        "milliseconds_at_most": ("time", "at most {} of waiting"),
        "cost_micros": ("money", "{}"),
        "saved_micros_per_request": ("money", "{} for each request"),
        "rewrite_micros": ("money", "after {} once"),
        "requests_to_pay_back": ("count", "paid back after {} requests"),
    }
    return ", ".join(
        forms[name][1].format(format_value(forms[name][0], value)) for name, value in saved.items() if name in forms
    )


def describe_unknown(unknown: dict[str, int]) -> list[str]:
    """Return what cannot be known, in sentences."""
    words = {
        "untimed_calls": "{} have no times: their time is in no sum.",
        "calls_without_permission_mode": "{} of a second or longer are in turns that do not say the permission mode, "
        "as older versions wrote them: whether they waited for approval is not known.",
    }
    return [text.format(units.amount(unknown[name], "call")) for name, text in words.items() if unknown.get(name)]
