"""Which key does what in the terminal: a screen in, key bindings out.

Enter                 send; a line that ends with `\\` goes on
Alt-Enter, Ctrl-J     a new line; what is pasted keeps its lines
Esc, Ctrl-C           end what runs; Ctrl-C clears what was typed, and twice leaves
Esc Esc               go back to an earlier prompt
shift-tab             the next permission mode
Ctrl-D                leave
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    from unspool.client.front.screen import Screen


def bindings(screen: Screen) -> KeyBindings:
    """Return what the keys do."""
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()
    asking = Condition(lambda: screen.is_asking)
    idle = Condition(lambda: not screen.is_asking and not screen.is_working)

    @keys.add("enter", filter=~asking)
    def _(event: KeyPressEvent) -> None:
        screen.enter()

    @keys.add("escape", "enter", filter=~asking)
    @keys.add("c-j", filter=~asking)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("escape", filter=~asking)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.complete_state:
            event.current_buffer.cancel_completion()
        else:
            screen.escape()

    @keys.add("escape", "escape", filter=idle)
    def _(event: KeyPressEvent) -> None:
        screen.rewind()

    @keys.add("s-tab", filter=~asking)
    def _(event: KeyPressEvent) -> None:
        screen.next_mode()

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        screen.stop()

    _answering(keys, screen)
    return keys


def _answering(keys: KeyBindings, screen: Screen) -> None:
    """Let keys answer a question, and do nothing else while there is one."""
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.keys import Keys

    asking = Condition(lambda: screen.is_asking)
    names = {"up": "up", "down": "down", "c-p": "up", "c-n": "down", "enter": "enter", "escape": "escape", " ": "space"}

    @keys.add(Keys.Any, filter=asking, eager=True)
    def _(event: KeyPressEvent) -> None:
        screen.pressed(event.data)

    for key, name in names.items():

        @keys.add(key, filter=asking, eager=True)
        def _(event: KeyPressEvent, name: str = name) -> None:
            screen.pressed(name)
