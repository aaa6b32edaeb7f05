"""`callsheet debug`: steps through a recorded run on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.inspection.gc_control import without_gc
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text
from callsheet.apps.cli.terminal import is_terminal

if TYPE_CHECKING:
    from rich.text import Text

    from callsheet.apps.cli.debugger.key_bindings import Debugger
    from callsheet.apps.cli.debugger.keyboard import Keyboard
    from callsheet.apps.cli.debugger.run_view import RunView
    from callsheet.views.debugger import Line

_COLUMNS = 120
_ENTER, _ESCAPE, _BACK = frozenset("\r\n"), "\x1b", frozenset({"\x7f", "\x08"})


@click.command()
@click.argument("run", metavar="RUN")
@journals.journal_path
@options.as_json
@without_gc
def debug(run: str, journal: Path | None, as_json: bool) -> int:
    """Step through the recorded RUN on a terminal. Nothing is executed.

    RUN is a run id, a unique prefix of one, or `last`. If standard output is not a terminal, the steps are
    printed.

    \b
    Keys:
      j, k (down, up)     next, previous step
      l, h (right, left)  next, previous event
      w                   lineage of the value of the step
      v                   variables after the event
      d                   differences from another run
      /, n                search, next match
      e                   export as a report (.html) or as LCTL (.yaml)
      q                   quit
    """
    from callsheet.apps.cli.debugger.key_bindings import Debugger  # noqa: PLC0415 - as above
    from callsheet.apps.cli.debugger.run_view import RunView  # noqa: PLC0415 - as above
    from callsheet.views.debugger import plain_lines  # noqa: PLC0415 - as above

    with journals.open_to_read(journal) as opened:
        info = opened.find_run(run)
        view = RunView(opened, info)
        with ignoring_broken_pipe():
            if as_json:
                print_json(_json(view))
            elif is_terminal(sys.stdout) and is_terminal(sys.stdin):
                _run_interactive(Debugger(view), view)
            else:
                for line in plain_lines(view.story, _COLUMNS):
                    print_text(line.text.rstrip())
    return Exit.OK


def _json(run: RunView) -> dict[str, object]:
    steps = [
        {
            "step": row.label,
            "mark": row.mark,
            "action": row.action,
            "first": row.first,
            "last": row.last,
            "begun": round(row.begun, 6),
            "ended": round(row.ended, 6),
            "came": row.came,
            "likely_cause": row.is_cause,
        }
        for row in run.rows()
    ]
    return {"run_id": run.run_id, "status": run.status, "events": len(run.story.events), "steps": steps}


def _run_interactive(debugger: Debugger, run: RunView) -> None:
    """Draw the run and handle keys until the user quits."""
    from rich.console import Console  # noqa: PLC0415 - only on a terminal

    from callsheet.apps.cli.debugger.keyboard import keyboard  # noqa: PLC0415 - as above
    from callsheet.views.debugger import screen_lines  # noqa: PLC0415 - as above

    console = Console(highlight=False)

    def render_screen(prompt: str | None = None) -> Text:
        lines = screen_lines(run.story, debugger.view, console.width, console.height)
        if prompt is not None:
            lines[-2] = lines[-2]._replace(text=prompt[-console.width + 1 :] + "▏")
        return _styled_text(lines)

    with (
        suppress(KeyboardInterrupt, EOFError),
        keyboard() as keys,
        console.screen(hide_cursor=True) as screen,
    ):

        def ask(question: str, initial: str) -> str | None:
            return _read_text(keys, initial, lambda text: screen.update(render_screen(question + text)))

        screen.update(render_screen())
        while debugger.press(keys.key(), ask):
            screen.update(render_screen())


def _read_text(keys: Keyboard, initial: str, show: Callable[[str], None]) -> str | None:
    """Read a text key by key; None if it is cancelled with Escape."""
    text = initial
    while True:
        show(text)
        key = keys.key()
        if key in _ENTER:
            return text.strip()
        if key == _ESCAPE:
            return None
        if key in _BACK:
            text = text[:-1]
        elif key.isprintable():
            text += key


def _styled_text(lines: list[Line]) -> Text:
    """The lines as rich text; texts of a run are not parsed as markup."""
    from rich.text import Text  # noqa: PLC0415 - only on a terminal

    styled = Text(no_wrap=True, overflow="crop", end="")
    for number, line in enumerate(lines):
        styled.append(("\n" if number else "") + line.text, style=str(line.style) or None)
    return styled
