"""Previews what a report discloses: the number of values, and which are shortened, sealed or omitted.

In: a document. Out: counts, and the variables and arguments by name, largest first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from callsheet.views.columns import cut, pad, printable
from callsheet.views.report.document import Document
from callsheet.views.report.values import NO_VALUE, SEALED, Shown

_MOST = 40
_TEXT = 60
_NAME = 28
_PLAIN = ("intent", "timer", "limits", "time_up")


class Row(NamedTuple):
    """Something with a value: a variable, the arguments of a call, the body of an event.

    `how` is `shown`, `shortened`, `sealed` (in part or whole) or `left out`; `bytes` is the size of its JSON.
    """

    what: str
    name: str
    how: str
    bytes: int
    text: str


@dataclass(frozen=True, slots=True)
class Preview:
    """The values that a report discloses."""

    rows: tuple[Row, ...]
    values: int
    redacted: bool
    sealed: int
    shortened: int

    def line(self) -> str:
        """Returns the counts as a phrase."""
        if self.redacted:
            return f"{self.values:,} values left out"
        parts = [f"{self.values:,} values"]
        parts += [f"{self.shortened:,} shortened"] if self.shortened else []
        parts += [f"{self.sealed:,} with sealed parts"] if self.sealed else []
        return ", ".join(parts)

    def lines(self) -> Iterator[str]:
        """Yields the preview as text, largest values first, those of events last."""
        yield f"this report discloses: {self.line()}"
        for row in self.rows[:_MOST]:
            name = pad(cut(printable(row.name), _NAME), _NAME)
            yield f"  {row.how:9} {row.what:9} {name} {row.bytes:>10,} B  {row.text}".rstrip()
        if len(self.rows) > _MOST:
            yield f"  and {len(self.rows) - _MOST:,} more (--json has them all)"
        yield "names, the text of the plan and its literals, times, sizes and hashes are always included"

    def to_json(self) -> dict[str, Any]:
        """Returns the preview as JSON data."""
        return {
            "values": self.values,
            "redacted": self.redacted,
            "shortened": self.shortened,
            "sealed": self.sealed,
            "rows": [row._asdict() for row in self.rows],
        }


def preview_of(document: Document) -> Preview:
    """Lists the values in a document, each once, under the first name that has it."""
    notes = document.notes
    occurrences: dict[tuple[str, str, int], None] = {}
    for write in document.writes:
        occurrences["variable", f"${write.name}", write.value] = None
    for call in document.calls:
        if call.args >= 0:
            occurrences["arguments", f"@{call.tool}", call.args] = None
    for event in document.events:
        if event.type in _PLAIN:
            continue
        for number in (event.value, event.more):
            if number >= 0:
                occurrences["event", event.type, number] = None
    for pair in () if document.diff is None else document.diff["pairs"]:
        for side in filter(None, (pair["b"],)):
            occurrences["other run", side["label"], side["args"]] = None
            occurrences["other run", side["label"], side["value"]] = None
    seen = {NO_VALUE}
    rows: list[Row] = []
    for what, name, number in occurrences:
        if number not in seen:
            seen.add(number)
            rows.append(_row(what, name, document.values[number]))
    rows.sort(key=lambda row: (row.what == "event", -row.bytes))
    return Preview(tuple(rows), len(document.values), notes["redacted"], notes["sealed"], notes["shortened"])


def _row(what: str, name: str, shown: Shown) -> Row:
    if isinstance(shown, str):
        how = "sealed" if SEALED in shown else "shown"
        return Row(what, name, how, len(shown.encode()), cut(printable(shown[: 4 * _TEXT]), _TEXT))
    text, size = shown[0], shown[1]
    assert isinstance(size, int)
    if text is None:
        return Row(what, name, "left out", size, "")
    return Row(what, name, "shortened", size, cut(printable(str(text)[: 4 * _TEXT]), _TEXT))
