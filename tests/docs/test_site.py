"""The documentation site builds without a warning, and needs nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.page_blocks import ROOT

MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MKDOCS.exists(), reason="`make docs` installs what builds the site"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [str(MKDOCS), "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


def test_every_page_is_on_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    pages = {Path("index.html") if page.name == "README.html" else page for page in pages}
    assert {page for page in pages if not (site / page).exists()} == set()
    assert (site / "start.html").exists()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loads = re.compile(r'<(?:script|link|img|iframe)\b[^>]*?(?:src|href)="((?:https?:)?//[^"]*)"')
    found = {page.name: loads.findall(page.read_text()) for page in site.rglob("*.html")}
    assert {name: links for name, links in found.items() if links} == {}


def test_the_search_works_without_a_server(site: Path) -> None:
    assert "superseded-reads" in (site / "search" / "search_index.js").read_text()
