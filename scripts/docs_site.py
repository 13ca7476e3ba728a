"""Hooks of the documentation site: adds the pages that are outside `docs`, and turns their links around.

README, changelog and the like are at the top of the repository, where people look for them. The site has them as pages,
and links between them and `docs` lead to these pages. Links to other files of the repository become plain text: the
site does not contain them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "start.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
}
"""Pages outside `docs`, and their names on the site."""
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the decisions, which grow in number, in the navigation."""
    decisions = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))
    for section in config.nav or []:
        for name, pages in section.items():
            if name == "Background":
                pages[:] = [
                    {"Decisions": [f"decisions/{each}" for each in decisions]} if "Decisions" in page else page
                    for page in pages
                ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside `docs`."""
    from mkdocs.structure.files import File

    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Point the links of a page to the pages of the site."""
    source = page.file.src_uri
    outside = {name: key for key, name in PAGES.items()}
    place = ROOT / outside[source] if source in outside else ROOT / "docs" / source
    folder = Path(source).parent

    def replace(match: re.Match[str]) -> str:
        mark, words, link = match.groups()
        path, _, anchor = link.partition("#")
        if "://" in link or not path:
            return match[0]
        target = (place.parent / path).resolve()
        if target.parent == ROOT and target.name in PAGES:
            there = PAGES[target.name]
        elif target.is_relative_to(ROOT / "docs") and target.is_file():
            there = target.relative_to(ROOT / "docs").as_posix()
        else:
            return words
        up = "../" * len(folder.parts)
        return f"{mark}[{words}]({up}{there}{'#' + anchor if anchor else ''})"

    return _LINK.sub(replace, markdown)


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Load the script that the search needs from the site itself, not from unpkg.com."""
    up = "../" * page.url.count("/")
    return output.replace("https://unpkg.com/iframe-worker/shim", f"{up}assets/iframe-worker.js")


def on_post_template(output_content: str, **_: Any) -> str:
    """Do the same on the page for wrong addresses, which may be anywhere."""
    return output_content.replace("https://unpkg.com/iframe-worker/shim", "/assets/iframe-worker.js")
