"""Erases what was drawn also where the terminal has wrapped it anew, after its window became narrower.

prompt_toolkit assumes that the rows it drew stay where they are. Most terminals wrap lines again when their width
changes, so a row that no longer fits takes two; what was drawn is then taller than it was, and its first rows would
stay in the scrollback.

Rules
  1. Rows are erased one by one. If the first row is that of the window, tmux takes an erasure of all of them at once
     for the end of a screen, and saves it in the scrollback.
  2. Terminals that cut rows instead of wrapping them are named in `wraps_again`; for them nothing is assumed.
  3. tmux wraps a row by all that ever stood in it since it was erased as a whole, other terminals by what stands there
     (measured with tmux 3.3a).
"""

from __future__ import annotations

from collections.abc import Mapping

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout import Layout
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.output import Output
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import BaseStyle


def wraps_again(environment: Mapping[str, str]) -> bool:
    """Return whether a terminal wraps its lines again when its width changes."""
    terminal = environment.get("TERM", "")
    if environment.get("TMUX"):
        return True
    return not (environment.get("XTERM_VERSION") or terminal == "linux" or terminal.startswith("screen"))


class ReflowRenderer(Renderer):
    """A renderer that knows how tall its rows are after a resize."""

    def __init__(self, style: BaseStyle, output: Output, environment: Mapping[str, str]) -> None:
        self._used: dict[int, int] = {}
        """By row, how many of its cells have held something."""
        self._wraps_again = wraps_again(environment)
        self._keeps_cells = bool(environment.get("TMUX"))
        super().__init__(style, output)

    def reset(self, _scroll: bool = False, leave_alternate_screen: bool = True) -> None:
        """Forget what was drawn."""
        self._used = {}
        super().reset(_scroll, leave_alternate_screen)

    def render(self, app: Application[object], layout: Layout, is_done: bool = False) -> None:
        """Draw the rows anew; what was drawn for another width is erased first."""
        size, screen = self.output.get_size(), self._last_screen
        # Not only when the signal comes: a tick may draw before it. And not only after a resize: where rows become more
        # or fewer, all begin empty, so that none keeps cells of another one (rule 3).
        if screen is not None and (
            self._last_size != size
            or layout.container.preferred_height(size.columns, size.rows).preferred != screen.height
        ):
            self.erase(leave_alternate_screen=False)
            self.report_absolute_cursor_row(size.rows)
        super().render(app, layout, is_done)
        if (screen := self._last_screen) is not None:
            for row in range(screen.height):
                used = _count_cells(screen, row)
                self._used[row] = max(used, self._used.get(row, 0)) if self._keeps_cells else used

    def erase(self, leave_alternate_screen: bool = True) -> None:
        """Erase the rows, and leave the cursor where the first one began."""
        screen = self._last_screen
        if screen is None:
            return
        size, before = self.output.get_size(), self._last_size
        above = below = 0
        if self._wraps_again and before is not None and size.columns < before.columns:
            columns = max(size.columns, 1)
            heights = [(max(self._used.get(row, 0), 1) - 1) // columns for row in range(screen.height)]
            # The row of the cursor counts up to the cursor.
            above = sum(heights[: self._cursor_pos.y]) + self._cursor_pos.x // columns
            below = sum(heights[self._cursor_pos.y :])
        rows = screen.height + above + below
        self._cursor_pos = Point(x=self._cursor_pos.x, y=min(self._cursor_pos.y + above, size.rows - 1))
        self.output.write_raw("\r")
        self.output.cursor_up(self._cursor_pos.y)
        self.output.reset_attributes()
        # Saved and restored: at the last row of the window the cursor goes no further down, but it would go up.
        erased = "\x1b[B".join(["\x1b[2K"] * min(rows, size.rows))
        self.output.write_raw(f"\x1b7{erased}\x1b8")
        self.output.enable_autowrap()
        self.output.flush()
        self.reset(leave_alternate_screen=leave_alternate_screen)


def _count_cells(screen: Screen, row: int) -> int:
    """Return how many cells of a row are used, up to the last that is not blank."""
    cells = screen.data_buffer[row].items()
    return max((column + max(cell.width, 1) for column, cell in cells if cell.char.strip()), default=0)
