"""`make pictures`: what README and docs show, taken in a real browser of made-up sessions, into `docs/pictures/`."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import sync_playwright

from tests.browser import chromium, showcase
from tests.browser.happening import happening
from tests.browser.smaller import smaller
from tests.browser.specimen import specimen
from tests.browser.visiting import visit, visit_session, visited
from tests.browser.watching import NARROW, WIDE, Size, Tab
from unspool.demo.write import write_demo

PLACE = Path(__file__).parents[2] / "docs" / "pictures"


class Shot(NamedTuple):
    """A picture: of which page, and what is done before it is taken."""

    name: str
    path: str
    size: Size = WIDE
    dark: bool = False
    keys: tuple[str, ...] = ()


SHOTS = (
    Shot("sessions", "/sessions"),
    Shot("board", "/", dark=True),
    Shot("session", f"/session/{showcase.ID}", keys=("J", *"jjjjjjj", "e", "j", "j", "Enter")),
    Shot("usage", "/usage"),
    Shot("search", "/search?q=total"),
    Shot("narrow", f"/session/{showcase.ID}", NARROW, dark=True),
)


def main() -> None:
    """Take every picture."""
    PLACE.mkdir(exist_ok=True)
    executable = chromium.find()
    assert executable is not None, "there is no Chromium"
    # Not a random name: every page shows the path of the config folder.
    place = Path(tempfile.gettempdir()) / "demo"
    place.mkdir()
    try:
        _take_pictures(executable, place)
    finally:
        shutil.rmtree(place)


def _take_pictures(executable: Path, place: Path) -> None:
    with sync_playwright() as playwright:
        config = place / "claude"
        write_demo(config)
        showcase.build(config)
        browser = playwright.chromium.launch(executable_path=executable, args=chromium.flags())
        with happening(config), visited(config, place / "home") as served:
            while "for the first time" in served.get("/sessions").text:
                pass
            for dark in (False, True):
                tab = Tab(browser, (900, 560), dark=dark)
                tab.page.set_content(specimen())
                name = f"design-{'dark' if dark else 'light'}.png"
                (PLACE / name).write_bytes(smaller(browser, tab.page.screenshot()))
                tab.close()
            for shot in SHOTS:
                tab = Tab(browser, shot.size, dark=shot.dark, script=True)
                is_session = shot.path.startswith("/session/")
                page = visit_session(tab, served, showcase.ID) if is_session else visit(tab, served, shot.path)
                for key in shot.keys:
                    page.keyboard.press(key)
                    # The board keeps a stream of events open: its network is never idle.
                    page.wait_for_load_state("load" if shot.path == "/" else "networkidle")
                if "Enter" in shot.keys:
                    page.wait_for_selector("#drawer .detail")
                    page.wait_for_load_state("networkidle")
                # The page may still bring an opened step into sight: it is scrolled back until it stays.
                page.wait_for_function("() => { const at = scrollY; scrollTo(0, 0); return at === 0; }")
                (PLACE / f"{shot.name}.png").write_bytes(smaller(browser, page.screenshot()))
                tab.close()
        browser.close()


if __name__ == "__main__":
    main()
