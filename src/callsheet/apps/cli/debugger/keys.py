"""What the keys of the debugger do: from the current view to the next.

In: a run, where somebody looks, a key; for some keys a text that was typed. Out: where they look then.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from callsheet.apps.cli.debugger.opened import OpenedRun
from callsheet.diagnostics import CallsheetError
from callsheet.views.debugger import KEY_LINES, Selected

Ask = Callable[[str, str], "str | None"]
"""Asks for a text with a question and what stands there already; None where it was given up."""
_ARROWS = {
    f"\x1b{between}{letter}": key
    for between in "[O"
    for letter, key in (("A", "k"), ("B", "j"), ("C", "l"), ("D", "h"))
}
"""What terminals send for arrows, and the keys that they stand for."""
QUIT = frozenset({"q", "Q", "\x1b", "\x03", "\x04"})


class Debugger:
    """Where somebody looks in a run; `press` goes on from there."""

    def __init__(self, run: OpenedRun) -> None:
        self._run = run
        self._sought: list[tuple[int, str]] = []
        last = len(run.story.events)
        row = next((n for n, row in enumerate(run.rows()) if row.mark == "FAIL"), 0)
        self.at = Selected(row, run.rows()[row].last if run.rows() else last)
        self._show_step()

    def press(self, key: str, ask: Ask) -> bool:
        """Do what a key says; whether to go on."""
        key = _ARROWS.get(key, key)
        if key in QUIT:
            return False
        self.at = self.at._replace(message="")
        try:
            self._do(key, ask)
        except (CallsheetError, ValueError) as error:
            message = error.diagnostics[0].message if isinstance(error, CallsheetError) else str(error)
            self.at = self.at._replace(message=message)
        return True

    def _do(self, key: str, ask: Ask) -> None:
        match key:
            case "j" | "k":
                self._to_row(self.at.row + (1 if key == "j" else -1))
            case "h" | "l":
                self._to_event(self.at.seq + (1 if key == "l" else -1))
            case "J" | "K":
                top = self.at.top + (5 if key == "J" else -5)
                self.at = self.at._replace(top=max(0, min(top, len(self.at.pane) - 1)))
            case "w" | "v" | "?":
                self._show(key)
            case "d":
                other = ask("compare with run: ", "")
                if other:
                    self._pane("diff", self._run.diff(other))
            case "/":
                text = ask("search: ", "")
                if text:
                    self._sought = self._run.found(text)
                    self._to_next(f"{len(self._sought)} places" if self._sought else "nothing was found")
            case "n":
                self._to_next("nothing was looked for")
            case "e":
                path = ask("write to (.html, .yaml): ", f"{self._run.run_id}.html")
                if path:
                    self.at = self.at._replace(message=self._run.export(Path(path)))
            case _:
                self.at = self.at._replace(message="no such key; ? shows the keys")

    def _to_row(self, row: int) -> None:
        rows = self._run.rows()
        if rows:
            row = max(0, min(row, len(rows) - 1))
            self.at = self.at._replace(row=row, seq=rows[row].last)
            self._show_step()

    def _to_event(self, seq: int) -> None:
        seq = max(1, min(seq, len(self._run.story.events)))
        row = self._run.row_at(seq)
        was = self.at.row
        self.at = self.at._replace(seq=seq, row=row)
        if self.at.title.startswith("variables"):
            self._pane(f"variables after event {seq}", self._run.variables(seq))
        elif row != was:
            self._show_step()

    def _to_next(self, otherwise: str) -> None:
        """Go to the next place that was found; behind the last one to the first."""
        if not self._sought:
            self.at = self.at._replace(message=otherwise)
            return
        seq, text = next((hit for hit in self._sought if hit[0] > self.at.seq), self._sought[0])
        self._to_event(seq)
        self.at = self.at._replace(message=f"{text}   (event {seq}; {len(self._sought)} in all)")

    def _show(self, key: str) -> None:
        match key:
            case "w":
                if self._run.rows():
                    self._pane("why", self._run.why(self.at.row))
            case "v":
                self._pane(f"variables after event {self.at.seq}", self._run.variables(self.at.seq))
            case _:
                self._pane("keys", list(KEY_LINES))

    def _show_step(self) -> None:
        if self._run.rows():
            row = self._run.rows()[self.at.row]
            self._pane(f"{row.label} {row.action}", self._run.step(self.at.row))

    def _pane(self, title: str, lines: list[str]) -> None:
        self.at = self.at._replace(title=title, pane=tuple(lines), top=0)
