"""The review of a session: its changes as one diff per file, with the prompts behind them, and as a patch.

Rules
  1. A page has some files, and of each file some lines; what is left out has a link. The patch of a session stops at a
     limit too, and says so.
  2. Every hunk leads to the steps and to the turns that made it.
  3. The history of a file shows what each session did to it, from the sessions that indexing knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from unspool.errors import NotFound, UnspoolError, UsageError
from unspool.format import milliseconds
from unspool.page import PageView
from unspool.page.analysis import (
    OUTSIDE,
    FileReview,
    NetHunk,
    RecordedChange,
    format_patch,
    is_exact,
    relative_path,
)
from unspool.page.html import DiffRows
from unspool.page.readers import find_changed_files, read_reviews
from unspool.store.catalog import find_changed_paths, read_file_history
from unspool.web.serving.responses import (
    Json,
    check_choice,
    link,
    page_routes,
    parse_number,
    respond,
    session_link,
    wants_json,
)
from unspool.web.serving.services import services_of

_PAGE_FILES: Final = 10
_FILE_LINES: Final = 600
"""Of one file on a page with several."""
_ONE_FILE_LINES: Final = 4_000
"""Of a file by itself."""
_MAX_LISTED: Final = 2_000
_MAX_PATCH_FILES: Final = 500
_MAX_CONTEXT: Final = 100_000
_HISTORY_SESSIONS: Final = 5
_VIEWS: Final = ("unified", "split")


def show_review(request: Request) -> Response:
    """Show what a session changed, file by file."""
    query = request.query_params
    only, offset = query.get("file"), parse_number(query, "offset", 0, example=_PAGE_FILES)
    context = min(parse_number(query, "context", 3), _MAX_CONTEXT)
    first = parse_number(query, "line", 0, example=_ONE_FILE_LINES)
    with services_of(request).open_sessions.open(_id(request), query.get("agent") or None) as view:
        found = find_changed_files(view)
        chosen = [file for file in found.files if only in (None, file.path)]
        if only is not None and not chosen:
            raise NotFound(f"this session changed no file that matches `{only}`", hint="open the review without `file`")
        reviews = read_reviews(view, chosen if only else chosen[offset : offset + _PAGE_FILES], context)
        most = _FILE_LINES if only is None else _ONE_FILE_LINES
        cwd, head = view.index.facts.cwd, view.outline().head
        files = [_file_data(view, review, cwd, first if only else 0, most) for review in reviews]
        data: Json = {
            "session": view.id,
            "agent": view.agent_id,
            "title": head.title or view.id,
            "cwd": cwd,
            "offset": offset,
            "file": only,
            "context": context,
            "total": len(found.files),
            "agents_left_out": found.agents_left_out,
            "all_files": [
                {"path": file.path, "name": relative_path(file.path, cwd), "changes": len(file.places)}
                for file in found.files[:_MAX_LISTED]
            ],
            "files": files,
            "next_offset": offset + len(reviews) if not only and offset + len(reviews) < len(found.files) else None,
        }
    if wants_json(request):
        return respond(request, "review.html", data)
    return respond(request, "review.html", data, view=_page_view(request, data, reviews))


def download_patch(request: Request) -> Response:
    """Return what a session changed as a patch that `git apply` takes."""
    query = request.query_params
    only = query.get("file")
    with services_of(request).open_sessions.open(_id(request), query.get("agent") or None) as view:
        files = [file for file in find_changed_files(view).files if only in (None, file.path)]
        if not files:
            raise NotFound("there is no change to write as a patch", hint="open the review of the session")
        reviews = read_reviews(view, files[:_MAX_PATCH_FILES], 3)
        text = format_patch(reviews, view.index.facts.cwd)
        if len(reviews) < len(files):
            text = f"# {len(files) - len(reviews):,} files are left out: write them one by one\n{text}"
        name = f"{view.id[:8]}.patch"
    # Lone surrogates of a transcript cannot be written as UTF-8.
    return Response(
        text.encode("utf-8", "replace"),
        media_type="text/x-diff; charset=utf-8",
        headers={"content-disposition": f'attachment; filename="{quote(name, safe="")}"'},
    )


def show_file_history(request: Request) -> Response:
    """Show who changed a file and when, with diffs and prompts; a part of a path leads to the files that have it."""
    query = request.query_params
    path, offset = query.get("path", ""), parse_number(query, "offset", 0, example=_HISTORY_SESSIONS)
    data: Json = {"path": path, "offset": offset, "total": 0, "sessions": [], "paths": []}
    looks: list[Json] = []
    if path:
        with services_of(request).site.open() as access:
            if access.database is None:
                raise UsageError(
                    "file history needs the store",
                    hint="make the data folder writable, and start `unspool serve` again",
                )
            rows = read_file_history(access.database, access.roots, path)
            if not rows:
                found = find_changed_paths(access.database, access.roots, path)
                data["paths"] = [{"path": name, "sources": count} for name, count in found]
        data["total"] = len(rows)
        for row in rows[offset : offset + _HISTORY_SESSIONS]:
            files, reviews = _read_history(request, row.session, path)
            data["sessions"].append({**row._asdict(), "files": files})
            pairs = zip(files, reviews, strict=True)
            looks.append({**row._asdict(), "look": [_file_view(request, row.session, *pair) for pair in pairs]})
    following = offset + _HISTORY_SESSIONS
    view = {
        "sessions": looks,
        "when": [services_of(request).site.format_time(milliseconds(row["last"])) for row in looks],
        "next": link("/files", {"path": path}, offset=following) if following < data["total"] else None,
        "previous": link("/files", {"path": path}, offset=max(0, offset - _HISTORY_SESSIONS)) if offset else None,
        **_choices(request, "/files", {"path": path}),
    }
    return respond(request, "files.html", data, view=view)


def _read_history(request: Request, id: str, path: str) -> tuple[list[Json], list[FileReview]]:
    """Return what a session did to a file; nothing if the session cannot be opened."""
    try:
        with services_of(request).open_sessions.open(id) as view:
            files = [file for file in find_changed_files(view).files if file.path == path]
            reviews = read_reviews(view, files, 3)
            return [_file_data(view, one, view.index.facts.cwd, 0, _FILE_LINES) for one in reviews], reviews
    except UnspoolError:
        return [], []


# reading


def _file_data(view: PageView, review: FileReview, cwd: str | None, first: int, most: int) -> Json:
    hunks, left = _cut_hunks(review.hunks, first, most)
    return {
        "path": review.path,
        "name": relative_path(review.path, cwd),
        "is_new": review.is_new,
        "is_net": review.is_net,
        "is_exact": is_exact(review),
        "notes": list(review.notes),
        "added": review.added,
        "removed": review.removed,
        "changes": [_change_data(view, change) for change in review.changes],
        "hunks": [
            {"header": hunk.header, "changes": [each for each in hunk.changes if each != OUTSIDE],
             "outside": OUTSIDE in hunk.changes, "lines": [line[:4] for line in hunk.lines]}
            for hunk in hunks
        ],
        "first_line": first,
        "lines_left": left,
    }  # fmt: skip


def _change_data(view: PageView, change: RecordedChange) -> Json:
    turn = change.turn
    known = turn is not None and not view.agent_id
    return {
        "step": change.key,
        "time": change.time,
        "turn": turn,
        "agent": change.agent or view.agent_id,
        "prompt": view.index.turns[turn].prompt[:300] if turn is not None else "",
        "is_abandoned": known and turn is not None and view.index.is_abandoned(turn),
        "is_modified": change.is_modified,
    }


def _cut_hunks(hunks: Sequence[NetHunk], first: int, most: int) -> tuple[list[NetHunk], int]:
    """Return the lines of hunks from one on, at most so many, and how many are left after them."""
    shown: list[NetHunk] = []
    skipped, left = first, most
    total = sum(len(hunk.lines) for hunk in hunks)
    for hunk in hunks:
        lines = hunk.lines[skipped : skipped + left]
        skipped = max(0, skipped - len(hunk.lines))
        if lines:
            shown.append(hunk if len(lines) == len(hunk.lines) else replace(hunk, lines=lines))
            left -= len(lines)
        if left <= 0:
            break
    return shown, max(0, total - first - most)


# how it looks


def _page_view(request: Request, data: Json, reviews: Sequence[FileReview]) -> Json:
    base = f"/session/{quote(data['session'], safe='')}/review"
    kept = {name: value for name, value in request.query_params.items() if value and name in ("view", "wrap", "agent")}
    return {
        "base": base,
        "files": [
            _file_view(request, data["session"], file, review)
            for file, review in zip(data["files"], reviews, strict=True)
        ],
        "patch": link(f"{base}.patch", agent=data["agent"], file=data["file"]),
        "next": link(base, kept, offset=data["next_offset"]) if data["next_offset"] else None,
        "previous": link(base, kept, offset=max(0, data["offset"] - _PAGE_FILES)) if data["offset"] else None,
        "whole": link(base, kept) if data["file"] else None,
        "others": [(file, link(base, kept, file=file["path"])) for file in data["all_files"]],
        **_choices(request, base, {name: data[name] for name in ("file", "agent", "offset") if data[name]}),
    }


def _choices(request: Request, base: str, kept: Json) -> Json:
    """Return the links that change how diffs look."""
    query = request.query_params
    form = check_choice(query.get("view") or "unified", _VIEWS, "view")
    wrap = bool(query.get("wrap"))
    more = {**kept, "wrap": 1 if wrap else None, "context": query.get("context")}
    return {
        "form": form,
        "is_wrapped": wrap,
        "forms": [
            ("Unified", link(base, more, view=None), form == "unified"),
            ("Side by side", link(base, more, view="split"), form == "split"),
        ],
        "wrap": link(base, {**more, "view": query.get("view")}, wrap=None if wrap else 1),
    }


def _file_view(request: Request, id: str, file: Json, review: FileReview) -> Json:
    query = request.query_params
    form = check_choice(query.get("view") or "unified", _VIEWS, "view")
    base = f"/session/{quote(id, safe='')}/review"
    kept = {name: value for name, value in query.items() if value and name in ("view", "wrap", "agent")}
    rows = DiffRows(review)
    hunks, _ = _cut_hunks(review.hunks, file["first_line"], sum(len(hunk["lines"]) for hunk in file["hunks"]))
    wider = min(parse_number(query, "context", 3), _MAX_CONTEXT)
    reached = file["first_line"] + sum(len(hunk["lines"]) for hunk in file["hunks"])
    return {
        **file,
        "hunks": [
            {**data, **_hunk_rows(rows, hunk, form), "because": list(_reasons(id, file, data["changes"]))}
            for data, hunk in zip(file["hunks"], hunks, strict=True)
        ],
        "href": link(base, kept, file=file["path"]),
        "history": link("/files", {"path": file["path"]}),
        "patch": link(f"{base}.patch", file=file["path"], agent=query.get("agent")),
        "expand": link(base, kept, file=file["path"], context=wider + 20) if file["is_net"] and file["hunks"] else None,
        "expand_all": link(base, kept, file=file["path"], context=_MAX_CONTEXT) if file["is_net"] else None,
        "more": link(base, kept, file=file["path"], line=reached, context=query.get("context"))
        if file["lines_left"]
        else None,
    }


def _hunk_rows(rows: DiffRows, hunk: NetHunk, form: str) -> Json:
    """Return the rows of a hunk and their form. One that only adds or removes has no other side."""
    if form == "split" and len({line.sign for line in hunk.lines}) > 1:
        return {"form": "split", "rows": rows.side_by_side(hunk)}
    return {"form": "unified", "rows": rows.unified(hunk)}


def _reasons(id: str, file: Json, changes: Sequence[int]) -> Iterator[Json]:
    """Yield the turns behind a hunk, each once, with the steps that made it."""
    by_turn: dict[tuple[Any, Any], list[Json]] = {}
    for number in changes:
        change = file["changes"][number]
        by_turn.setdefault((change["turn"], change["agent"]), []).append(change)
    for (turn, agent), those in by_turn.items():
        of_agent = {"agent": agent} if agent and those[0]["step"].count("/") == 0 else {}
        yield {
            "turn": turn,
            "agent": agent,
            "prompt": those[0]["prompt"],
            "is_abandoned": those[0]["is_abandoned"],
            "href": session_link(id, turn=turn, **of_agent) if turn else session_link(id, step=those[0]["step"]),
            "steps": [session_link(id, step=change["step"]) for change in those[:8]],
        }


def _id(request: Request) -> str:
    return str(request.path_params["id"])


routes = [
    Route("/session/{id}/review.patch", download_patch),
    *page_routes("/session/{id}/review", show_review),
    *page_routes("/files", show_file_history),
]
