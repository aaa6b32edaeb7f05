"""The key bindings of the debugger: each key changes the current view.

Input: a run, the current view, a key, and for some keys a typed text. Output: the next view.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from callsheet.apps.cli.debugger.run_view import RunView
from callsheet.diagnostics import CallsheetError
from callsheet.views.debugger import KEY_LINES, Selected

Ask = Callable[[str, str], "str | None"]
"""Takes a question and an initial text, returns the typed text, or None if it was cancelled."""
_ARROWS = {
    f"\x1b{between}{letter}": key
    for between in "[O"
    for letter, key in (("A", "k"), ("B", "j"), ("C", "l"), ("D", "h"))
}
"""The escape sequences of arrow keys, and the keys that they are equivalent to."""
QUIT = frozenset({"q", "Q", "\x1b", "\x03", "\x04"})


class Debugger:
    """The state of the debugger; `press` handles a key."""

    def __init__(self, run: RunView) -> None:
        self._run = run
        self._matches: list[tuple[int, str]] = []
        last = len(run.story.events)
        rows = run.rows()
        row = next((n for n, row in enumerate(rows) if row.has_failures), 0)
        self.view = Selected(row, rows[row].last if rows else last)
        self._show_step()

    def press(self, key: str, ask: Ask) -> bool:
        """Handle a key. Returns False if the debugger is to quit."""
        key = _ARROWS.get(key, key)
        if key in QUIT:
            return False
        self.view = self.view._replace(message="")
        try:
            self._handle(key, ask)
        except (CallsheetError, ValueError) as error:
            message = error.diagnostics[0].message if isinstance(error, CallsheetError) else str(error)
            self.view = self.view._replace(message=message)
        return True

    def _handle(self, key: str, ask: Ask) -> None:
        match key:
            case "j" | "k":
                self._to_row(self.view.row + (1 if key == "j" else -1))
            case "h" | "l":
                self._to_event(self.view.seq + (1 if key == "l" else -1))
            case "J" | "K":
                top = self.view.top + (5 if key == "J" else -5)
                self.view = self.view._replace(top=max(0, min(top, len(self.view.pane) - 1)))
            case "w" | "v" | "?":
                self._show(key)
            case "d":
                other = ask("compare with run: ", "")
                if other:
                    self._pane("diff", self._run.diff(other))
            case "/":
                text = ask("search: ", "")
                if text:
                    self._matches = self._run.search(text)
                    self._to_next(f"{len(self._matches)} matches" if self._matches else "no match")
            case "n":
                self._to_next("no search yet")
            case "e":
                path = ask("write to (.html, .yaml): ", f"{self._run.run_id}.html")
                if path:
                    self.view = self.view._replace(message=self._run.export(Path(path)))
            case _:
                self.view = self.view._replace(message="unknown key; ? shows the keys")

    def _to_row(self, row: int) -> None:
        rows = self._run.rows()
        if rows:
            row = max(0, min(row, len(rows) - 1))
            self.view = self.view._replace(row=row, seq=rows[row].last)
            self._show_step()

    def _to_event(self, seq: int) -> None:
        seq = max(1, min(seq, len(self._run.story.events)))
        row = self._run.row_at(seq)
        was = self.view.row
        self.view = self.view._replace(seq=seq, row=row)
        if self.view.title.startswith("variables"):
            self._pane(f"variables after event {seq}", self._run.variables(seq))
        elif row != was:
            self._show_step()

    def _to_next(self, otherwise: str) -> None:
        """Go to the next match; after the last one, to the first."""
        if not self._matches:
            self.view = self.view._replace(message=otherwise)
            return
        seq, text = next((hit for hit in self._matches if hit[0] > self.view.seq), self._matches[0])
        self._to_event(seq)
        self.view = self.view._replace(message=f"{text}   (event {seq}; {len(self._matches)} matches)")

    def _show(self, key: str) -> None:
        match key:
            case "w":
                if self._run.rows():
                    self._pane("why", self._run.why(self.view.row))
            case "v":
                self._pane(f"variables after event {self.view.seq}", self._run.variables(self.view.seq))
            case _:
                self._pane("keys", list(KEY_LINES))

    def _show_step(self) -> None:
        if self._run.rows():
            row = self._run.rows()[self.view.row]
            self._pane(f"{row.label} {row.action}", self._run.step(self.view.row))

    def _pane(self, title: str, lines: list[str]) -> None:
        self.view = self.view._replace(title=title, pane=tuple(lines), top=0)
