"""The tools that find sessions: `search_sessions`, which also lists them, and `recall_decisions`.

Rules
  1. A search asks the index, so that it takes a moment whatever the size of the history. Only `everything` scans files.
  2. `recall_decisions` takes a topic in plain words: if no text has all of them, texts that have some are ranked by how
     many, and the rarest counts most.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from unspool.display import amount, units
from unspool.errors import UnspoolError, UsageError
from unspool.format import local_time, milliseconds, parse_time_range
from unspool.graph import extract_text_passages
from unspool.home import Reader
from unspool.mcp_server.answer import BudgetedAnswer
from unspool.mcp_server.arguments import RecallArguments, SearchArguments
from unspool.mcp_server.history import History
from unspool.store import StoreAccess
from unspool.store.catalog import list_sessions, side_documents
from unspool.store.search import (
    MATCH_END,
    MATCH_START,
    SearchHit,
    SearchRequest,
    open_corpus,
    parse_filters,
    parse_terms,
    read_turn_texts,
)
from unspool.store.search import search_corpora as run_search
from unspool.store.usage import matches_project

_MAX_HITS: Final = 40
"""Of one answer."""
_MAX_LISTED: Final = 200
"""Sessions of one list."""
_DECISION_KINDS: Final = "plan,summary,answer,prompt,title"
_MAX_WORDS: Final = 6
_EXCERPT: Final = 700
"""Characters of a text around what was found."""
_PROMPT: Final = 200
_MAX_LINE: Final = 256 * 1024
"""Bytes of a line whose text is read; of a longer one the snippet is shown."""
_WORD: Final = re.compile(r"\w[\w.-]{0,60}")
_STOP_WORDS: Final = frozenset({
    "a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "because", "been", "before",
    "but", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in",
    "into", "is", "it", "its", "just", "made", "make", "me", "more", "my", "no", "not", "of", "on", "or", "our",
    "out", "should", "so", "some", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this",
    "to", "up", "us", "use", "used", "was", "we", "were", "what", "when", "where", "which", "who", "why", "will",
    "with", "would", "you", "your", "decide", "decided", "decision", "choose", "chose", "chosen", "last", "week",
    "time", "code",
})  # fmt: skip


def search_sessions(history: History, given: SearchArguments) -> str:
    """Answer with what was found, each hit with its session and turn; without a query with a list of sessions."""
    answer = history.begin_answer(given.token_budget)
    has_filter = bool(given.kinds or given.file or given.session or given.errors)
    if not given.query.strip() and not has_filter:
        _list_sessions(history, answer, given)
        return answer.finish()
    request = SearchRequest(
        words=given.query, kinds=given.kinds, target=given.file, project=given.project, session=given.session,
        since=given.since, until=given.until, errors=given.errors,
    )  # fmt: skip
    with history.site.open() as access:
        hits = _search(history, access, request, given.offset + _MAX_HITS + 1, everything=given.everything)
    shown = _add_hits(answer, history, hits[given.offset :][:_MAX_HITS])
    if not hits:
        answer.hint("Nothing found. All words must occur in one text: try fewer words, word*, or recall_decisions.")
        return answer.finish()
    if given.offset + shown < len(hits):
        arguments = {name: value for name, value in _asdict(given).items() if name != "offset"}
        answer.hint_call("More hits", "search_sessions", **arguments, offset=given.offset + shown)
    answer.hint('Read one with read_session {"session": ID, "turn": N}.')
    return answer.finish()


def recall_decisions(history: History, given: RecallArguments) -> str:
    """Answer with plans, summaries and answers around a topic, with the prompt before each."""
    answer = history.begin_answer(given.token_budget)
    words = _topic_words(given.topic)
    if not words:
        raise UsageError("the topic has no word to search for", hint="name what the decision is about")
    with history.site.open() as access:
        found = _recall(history, access, words, given)
        shown = 0
        for hit in found[given.offset :]:
            text = _describe_decision(access, answer, hit, _read_passage(access, answer, hit, words))
            most = max(answer.left // 2, 120) if shown else None
            if answer.left < 60 or not answer.add(
                f"{_describe_hit(history, answer, hit)}\n{text}", most=most or answer.left - 4
            ):
                break
            shown += 1
    if not found:
        answer.hint("No plan, summary or answer is about this. Try other words, or search_sessions.")
    elif given.offset + shown < len(found):
        rest = {"project": given.project, "since": given.since, "until": given.until}
        answer.hint_call("More", "recall_decisions", topic=given.topic, **rest, offset=given.offset + shown)
    if shown:
        answer.hint('Read the turn with read_session {"session": ID, "turn": N}.')
    return answer.finish()


# search


def _search(
    history: History, access: StoreAccess, request: SearchRequest, limit: int, *, everything: bool = False
) -> list[SearchHit]:
    terms = parse_terms(request)
    filters = parse_filters(request, access, history.site.now(), history.site.zone)
    # Without a store there is no index: then the files are scanned.
    indexed_only = not everything and access.database is not None
    # Without the turns of agents whose lines have no time: to find them takes half a second at 1 GB.
    corpora = [open_corpus(access)]
    # A piece of a private key is no secret by itself: a text is redacted before its snippet is cut.
    return run_search(corpora, terms, filters, limit=limit, indexed_only=indexed_only, clean=history.redact)


def _add_hits(answer: BudgetedAnswer, history: History, hits: Iterable[SearchHit]) -> int:
    shown = 0
    for hit in hits:
        if not answer.add(f"{_describe_hit(history, answer, hit)}\n  {_clean_snippet(answer, hit)}"):
            break
        shown += 1
    return shown


def _describe_hit(history: History, answer: BudgetedAnswer, hit: SearchHit) -> str:
    parts = [
        f"session {hit.session[:8]}" if hit.session else "no session",
        f"turn {hit.turn}" if hit.turn else "",
        hit.kind.replace("_", " ") + (f" of {hit.tool}" if hit.tool else ""),
        f"agent {hit.agent}" if hit.agent else "",
        answer.line(hit.project or "", 60),
        _format_time(history, hit.timestamp),
    ]
    if hit.session is None and hit.kind == "plan":
        parts[0] = f"plan {_file_stem(hit.file)}"
    return "- " + " · ".join(part for part in parts if part)


def _clean_snippet(answer: BudgetedAnswer, hit: SearchHit) -> str:
    # Without the marks of the match: inside a secret they would hide it from redaction.
    return answer.snippet(hit.snippet.replace(MATCH_START, "").replace(MATCH_END, ""), 260)


def _file_stem(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".md")


def _format_time(history: History, timestamp: str | None) -> str:
    moment = local_time(milliseconds(timestamp), history.site.zone)
    return f"{moment:%Y-%m-%d %H:%M}" if moment else ""


def _asdict(given: SearchArguments) -> dict[str, Any]:
    """Return the arguments that differ from what they are without being given."""
    usual = SearchArguments()
    values = {name: getattr(given, name) for name in given.__struct_fields__}
    return {name: value for name, value in values.items() if value != getattr(usual, name)}


# decisions


def _topic_words(topic: str) -> list[str]:
    """Return the words of a topic that say something, each once."""
    words = dict.fromkeys(word.strip(".-").lower() for word in _WORD.findall(topic))
    telling = [word for word in words if word not in _STOP_WORDS and len(word) > 1]
    return (telling or list(words))[:_MAX_WORDS]


class _RankedHit(NamedTuple):
    score: float
    hit: SearchHit


def _recall(history: History, access: StoreAccess, words: Sequence[str], given: RecallArguments) -> list[SearchHit]:
    """Return one hit for each turn, the best first."""

    def find(text: str, limit: int) -> list[SearchHit]:
        request = SearchRequest(
            words=text, kinds=_DECISION_KINDS, project=given.project, since=given.since, until=given.until
        )
        return _search(history, access, request, limit)

    scores: dict[object, _RankedHit] = {}

    def count(hits: Sequence[SearchHit], weight: float) -> None:
        counted = set()
        for place, hit in enumerate(hits):
            key = (hit.session, hit.turn) if hit.session else hit.file
            known = scores.get(key)
            gain = (weight if key not in counted else 0.0) + _KIND_WEIGHTS.get(hit.kind, 0.0) - place * 0.001
            counted.add(key)
            best = hit if known is None or _prefers(hit, known.hit) else known.hit
            scores[key] = _RankedHit((known.score if known else 0.0) + gain, best)

    count(find(" ".join(f"{word}*" for word in words), _MAX_HITS), 3.0 * len(words))
    if len(scores) < 5 and len(words) > 1:
        for word in words:
            hits = find(f"{word}*", _MAX_HITS)
            # A word that few texts have tells more than one that many have.
            count(hits, 2.0 if len(hits) < _MAX_HITS // 2 else 1.0)
    ranked = sorted(scores.values(), key=lambda ranked: -ranked.score)
    # A text that has one word of six is no answer where others have most of them.
    return [each.hit for each in ranked if each.score * 3 >= ranked[0].score]


_KIND_WEIGHTS: Final = {"plan": 0.6, "summary": 0.5, "answer": 0.4, "title": 0.1, "prompt": 0.1}


def _prefers(one: SearchHit, other: SearchHit) -> bool:
    return _KIND_WEIGHTS.get(one.kind, 0.0) > _KIND_WEIGHTS.get(other.kind, 0.0)


def _read_passage(access: StoreAccess, answer: BudgetedAnswer, hit: SearchHit, words: Sequence[str]) -> str:
    """Return the text of a hit around the words of a topic; the snippet if the text is not on disk any more."""
    # The line of a hit may have several texts: the one that has most of the words.
    texts = _read_plan(access, hit) if hit.kind == "plan" else _read_line(hit)
    whole = max(texts, key=lambda text: sum(word in text.lower() for word in words), default="")
    if not whole:
        return _clean_snippet(answer, hit)
    text = answer.prepare(whole)  # before it is cut
    lower = text.lower()
    places = [place for place in (lower.find(word) for word in words) if place >= 0]
    start = max(min(places, default=0) - _EXCERPT // 4, 0)
    piece = text[start : start + _EXCERPT]
    return f"{'…' if start else ''}{piece.strip()}{'…' if start + _EXCERPT < len(text) else ''}"


def _describe_decision(access: StoreAccess, answer: BudgetedAnswer, hit: SearchHit, text: str) -> str:
    """Return a text with the prompt before it; a prompt or a title with the answer to it, which has the decision."""
    if hit.session is None or not hit.turn or hit.agent or hit.kind == "plan":
        return text
    prompt, last = read_turn_texts(open_corpus(access), hit)
    if not prompt:
        return text
    if hit.kind == "answer":
        return f"prompt: {answer.line(prompt, _PROMPT)}\nanswer: {text}"
    is_prompt = hit.kind in ("prompt", "title") or len(text) < _PROMPT
    reply = f"\nanswer: {answer.prepare(last).strip()[:_EXCERPT]}" if last and is_prompt else ""
    return f"{text if hit.kind != 'title' else f'prompt: {answer.line(prompt, _PROMPT)}'}{reply}"


def _read_line(hit: SearchHit) -> list[str]:
    try:
        data = Reader().part(Path(hit.file), hit.offset, _MAX_LINE).partition(b"\n")[0]
        line = json.loads(data)
    except (UnspoolError, OSError, ValueError, RecursionError):
        return []
    if not isinstance(line, dict):
        return []
    return [passage.text for passage in extract_text_passages(line) if passage.kind == hit.kind]


def _read_plan(access: StoreAccess, hit: SearchHit) -> list[str]:
    if access.database is None:
        return []
    plan = side_documents.read_plan(access.database, access.roots, _file_stem(hit.file))
    return [plan["content"]] if plan else []


# lists


def _list_sessions(history: History, answer: BudgetedAnswer, given: SearchArguments) -> None:
    now, zone = history.site.now(), history.site.zone
    since, until = parse_time_range(given.since, given.until, now, zone)

    def is_wanted(row: dict[str, Any]) -> bool:
        if row.get("hidden") or not matches_project(given.project, row["project"], row["cwd"], row["project_key"]):
            return False
        if since is None and until is None:
            return True
        time = milliseconds(row["last"])
        return time is not None and (since is None or time >= since) and (until is None or time < until)

    count = 0

    def choose(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        nonlocal count
        wanted = sorted(filter(is_wanted, rows), key=lambda row: (row["last"] or "", row["id"]), reverse=True)
        count = len(wanted)
        return wanted[given.offset : given.offset + _MAX_LISTED]

    with history.site.open() as access:
        chosen = _read_rows(access, choose)
    shown = 0
    for row in chosen:
        parts = [
            f"- session {row['id'][:8]}",
            answer.line(row["title"] or "(no title)", 120),
            answer.line(row["project"] or "", 60),
            answer.line(row["branch"] or "", 60),
            _format_time(history, row["last"]),
            amount(row["turns"] or 0, "turn"),
            units.cost(row.get("cost_micros"), row.get("unpriced_tokens") or 0),
        ]
        if not answer.add(" · ".join(part for part in parts if part)):
            break
        shown += 1
    if not count:
        answer.hint("No sessions.")
        return
    answer.hint(f"{shown} of {amount(count, 'session')}, newest first.")
    if given.offset + shown < count:
        arguments = {name: value for name, value in _asdict(given).items() if name != "offset"}
        answer.hint_call("More", "search_sessions", **arguments, offset=given.offset + shown)


def _read_rows(
    access: StoreAccess, choose: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the sessions that are chosen; of all others only what is needed to choose is read."""
    if access.database is not None:
        return list_sessions(access.database, access.roots, access.ledger, choose, ("project", "cwd"))
    from unspool.export import counts  # only without a store

    rows = []
    for session in access.home.sessions():
        with suppress(UnspoolError):  # one that cannot be read costs no other
            rows.append({**counts.session_row(session), "project_key": session.source.project})
    return choose(rows)
