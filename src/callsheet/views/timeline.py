"""Renders a timeline as bars of text, to show which calls ran concurrently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from callsheet.views.columns import cut, pad, printable, width

_LEAST_BAR = 10
_MOST_LABEL = 12
_TEXT = 30
_BAR, _EARLY = "█", "▒"


class Span(NamedTuple):
    """A call from `start` to `end`, in seconds; `turn` is when its step began, `start` or later."""

    label: str
    text: str
    start: float
    turn: float
    end: float


def timeline(spans: Sequence[Span], columns: int = 100) -> str:
    """Returns a line for each span, in about `columns` columns; the part before `turn` is drawn lighter.

    >>> print(timeline([Span("S1", "@A", 0, 0, 2), Span("S2", "@B", 0, 2, 4)], 40))
    S1  @A  ██████████████               2 s
    S2  @B  ▒▒▒▒▒▒▒▒▒▒▒▒▒▒█████████████  4 s
    """
    if not spans:
        return "(nothing was called)"
    begin, end = min(span.start for span in spans), max(span.end for span in spans)
    labels = [cut(printable(span.label), _MOST_LABEL) for span in spans]
    texts = [cut(printable(span.text), _TEXT) for span in spans]
    took = [_seconds(span.end - span.start) for span in spans]
    widths = [max(map(width, column)) for column in (labels, texts, took)]
    room = max(_LEAST_BAR, columns - sum(widths) - 6)
    scale = room / ((end - begin) or 1.0)

    def at(moment: float) -> int:
        return round((moment - begin) * scale)

    lines: list[str] = []
    for span, label, text, seconds in zip(spans, labels, texts, took, strict=True):
        first, last = min(at(span.start), room - 1), max(at(span.end), at(span.start) + 1)
        turn = min(max(at(span.turn), first), last)
        bar = f"{' ' * first}{_EARLY * (turn - first)}{_BAR * (last - turn)}"
        lines.append(f"{pad(label, widths[0])}  {pad(text, widths[1])}  {pad(bar, room)}  {seconds}")
    return "\n".join(lines)


def _seconds(duration: float) -> str:
    return f"{duration * 1000:.0f} ms" if duration < 1 else f"{duration:.3g} s"
