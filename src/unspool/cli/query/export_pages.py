"""`unspool export --html --all` and `--project`: writes many sessions as a folder of pages with an index."""

from __future__ import annotations

from pathlib import Path

from unspool.cli import options, output, store_access
from unspool.cli.query.ls import SessionChooser, SessionFilter, read_session_rows
from unspool.errors import NothingFound
from unspool.export import Depth
from unspool.extras import require_extras
from unspool.read import Skipped


def export_pages(access: options.AccessOptions, project: str | None, folder: Path, depth: Depth, *, show: bool) -> None:
    """Write the sessions of a project, or all, to a folder; pages that are up to date stay as they are."""
    require_extras("web", feature="`unspool export --html`")
    from unspool.page.html import CollectedSession, write_collection

    wanted = SessionFilter(project, None, None, None, None, ())
    with store_access.open_folders(access) as opened:
        rows = read_session_rows(opened, SessionChooser(wanted, None, show_all=False), wanted)
        sessions = {str(session.own_path): session for session in opened.home.sessions()}
        collected = [
            CollectedSession(
                session=sessions[row["path"]],
                title=row["title"],
                project=row["project"],
                started=row["started"],
                last=row["last"],
                turns=row["turns"],
                cost_micros=row["cost_micros"],
                unpriced_tokens=row["unpriced_tokens"],
            )
            for row in rows
            if row["path"] in sessions
        ]
        if not collected:
            raise NothingFound("no sessions found")
        with output.progress_bar(len(collected), "writing pages") as advance:
            report = write_collection(
                collected, folder, depth=depth, prices=opened.preferences.prices, on_page=lambda: advance(1)
            )
        opened.skip(*(Skipped(path, reason) for path, reason in report.failed))
    output.print_line(f"wrote {report.written:,} pages, {report.unchanged:,} unchanged; open {report.index_page}")
    if show:
        import webbrowser

        webbrowser.open(report.index_page.absolute().as_uri())
