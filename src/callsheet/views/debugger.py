"""Renders the screen of `callsheet debug`, for a recorded run: steps with bars, an event, a pane, the keys.

In: a lineage, the confidence of its values, the times of its events; the selection; the size of a screen.
Out: lines, each with a style. No line is wider than the screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from callsheet.ir import JSON
from callsheet.machine import Ask, Awaited, CallModel, CallTool, Question, RunAgent
from callsheet.trace.blame import blame_of
from callsheet.trace.lineage.lineage import NONE, Lineage, Visit
from callsheet.trace.lineage.slices import reads_by
from callsheet.views.columns import cut, json_head, pad, printable, width
from callsheet.views.describe import Wording
from callsheet.views.lineage import described, node_line, place_in, words_of
from callsheet.views.report.visits import Times

KEYS = "q quit  ? keys  j/k step  h/l event  w why  v vars  d diff  / search  n next  e export  J/K scroll"
"""The keys in one line, which a narrow screen cuts: `?` shows `KEY_LINES`."""
KEY_LINES = (
    "q      quit; also Esc, Ctrl-C",
    "j k    next, previous step; also arrows",
    "l h    next, previous event; also arrows",
    "w      why: the lineage of the value",
    "v      the variables after the event",
    "d      differences from another run",
    "/ n    search; next match",
    "e      write a report, or LCTL",
    "J K    scroll this part",
)
_ACTION = 28
_LABEL = 10
_BAR = 20
_TOOK = 8
_LEAST_BAR_COLUMNS = 90
_VALUE = 4_000
_LEAST_PANE = 6


class Style(StrEnum):
    """The style of a line, which the caller converts to terminal attributes."""

    PLAIN = ""
    HEAD = "bold"
    SELECTED = "reverse"
    FAILED = "red"
    DIM = "dim"


class Line(NamedTuple):
    """A line of the screen."""

    text: str
    style: Style = Style.PLAIN


class FactConfidence(NamedTuple):
    """The confidence of a write: the id of its fact, a number from 0 to 1, and the reason for it."""

    fact: str
    value: float
    why: str


class Row(NamedTuple):
    """A visit of a step: its first and last event, its times in seconds, and its outcome.

    `mark` is `ok`, `ok!` (several attempts, items that failed, or a value that did not fit its cast), `skip`,
    `FAIL` or `…` (still running).
    """

    visit: int
    mark: str
    label: str
    action: str
    first: int
    last: int
    begun: float
    ended: float
    came: str
    is_cause: bool = False
    has_failures: bool = False
    """Whether it failed, or an item of it did."""


class Story(NamedTuple):
    """A run as the debugger shows it: a headline, its visits in order, and a line for each event."""

    head: str
    rows: tuple[Row, ...]
    events: tuple[str, ...]


class Selected(NamedTuple):
    """The selection: a row (from 0) and an event (from 1); the pane's title, lines and first visible line.

    `message` is shown above the keys.
    """

    row: int
    seq: int
    title: str = ""
    pane: tuple[str, ...] = ()
    top: int = 0
    message: str = ""


def rows_of(lineage: Lineage, confidences: Mapping[int, FactConfidence], times: Times) -> tuple[Row, ...]:
    """Returns the visits of a run as rows; `confidences` has the confidence of writes by number."""
    errors = {failure.visit: failure for failure in lineage.failures}
    words = words_of(lineage)
    blame = blame_of(lineage)
    cause = NONE
    if blame is not None and blame.suspects and blame.suspects[0].node.write != NONE:
        cause = lineage.writes[blame.suspects[0].node.write].visit
    rows: list[Row] = []
    for visit in lineage.visits:
        written = lineage.write_of.get(visit.id, NONE)
        failure = errors.get(visit.id)
        outcomes = [o.seq for key in lineage.keys_of(visit) if (o := lineage.outcomes.get(key)) is not None]
        ends = [visit.seq, *outcomes, *([] if failure is None else [failure.seq])]
        last = max(ends if written == NONE else [*ends, lineage.writes[written].seq])
        own_end = max(outcomes) if outcomes and not lineage.is_under_way(visit) else last
        rows.append(
            Row(
                visit.id,
                _mark(lineage, visit, written, has_failures=failure is not None),
                lineage.label(visit),
                described(lineage, visit, words),
                visit.seq,
                last,
                times.of(times.begun(visit.seq, _first_issued(lineage, visit))),
                times.of(own_end),
                _outcome_text(
                    lineage, visit, words, confidences.get(written), "" if failure is None else failure.error
                ),
                visit.id == cause,
                failure is not None,
            )
        )
    return tuple(rows)


def _first_issued(lineage: Lineage, visit: Visit) -> int:
    """Returns the event at which the first call of a visit was issued, or 0."""
    return min((lineage.left.get(key, 0) for key in lineage.keys_of(visit)), default=0)


def _mark(lineage: Lineage, visit: Visit, written: int, *, has_failures: bool) -> str:
    if visit.skipped:
        return "skip"
    if lineage.is_under_way(visit):
        return "…"
    if visit.id in lineage.failed:
        return "FAIL"
    is_odd = has_failures or (written != NONE and lineage.writes[written].is_odd)
    return "ok!" if is_odd or _attempts_of(lineage, visit) > 1 else "ok"


def _attempts_of(lineage: Lineage, visit: Visit) -> int:
    """Returns the highest number of attempts of any item of the visit."""
    numbers = [int(key.rsplit(".", 1)[1].partition("/")[0]) for key in lineage.keys_of(visit)]
    return max(numbers, default=0)


def _outcome_text(
    lineage: Lineage, visit: Visit, words: Wording, confidence: FactConfidence | None, error: str
) -> str:
    if visit.skipped:
        return visit.skipped
    parts: list[str] = []
    written = lineage.write_of.get(visit.id, NONE)
    if written != NONE:
        value = "" if confidence is None else f"{confidence.value:.2f}".replace("0.", ".", 1)
        fact = "" if confidence is None else f"  {confidence.fact} {value}"
        parts.append(f"{place_in(lineage.writes[written], (), words)}{fact}")
        if confidence is not None and confidence.why.endswith("assumed"):
            parts[-1] += " assumed"
    if error:
        parts.append(error)
    attempts = _attempts_of(lineage, visit)
    if attempts > 1:
        parts.append(f"{attempts} attempts")
    return ", ".join(parts)


def step_lines(lineage: Lineage, visit: Visit) -> list[str]:
    """Returns the arguments and outcomes of a visit's calls; for a visit without calls, what it read."""
    keys = lineage.last_keys(visit)
    lines: list[str] = []
    for key in keys[:_LEAST_PANE]:
        lines.append(key)
        lines += [
            f"  {name} = {_value_text(value)}" for name, value in _arguments_of(lineage.commands.get(key))
        ]
        outcome = lineage.outcomes.get(key)
        lines.append(
            "  no answer yet" if outcome is None else f"  → {outcome.type} {_value_text(outcome.value)}"
        )
    if len(keys) > _LEAST_PANE:
        lines.append(f"and {len(keys) - _LEAST_PANE} more calls")
    return lines or read_lines(lineage, visit)


def _arguments_of(command: Awaited | None) -> Iterator[tuple[str, JSON]]:
    """Yields the names and values of a call's arguments."""
    match command:
        case CallTool(args=args):
            yield from args.items()
        case CallModel(inputs=inputs, args=args) | RunAgent(inputs=inputs, args=args):
            yield from ((f"({number})", value) for number, value in enumerate(inputs, 1))
            yield from args.items()
        case Ask(asked=Question(prompt=prompt)):
            yield "prompt", prompt
        case _:
            return


def read_lines(lineage: Lineage, visit: Visit) -> list[str]:
    """Returns a line for each place that a visit read."""
    flows = [flow for flow in reads_by(lineage, visit) if flow.node.write != NONE]
    words = words_of(lineage)
    return [node_line(lineage, flow.node, words) for flow in flows] or ["nothing was read"]


def _value_text(value: object) -> str:
    return printable(json_head(value, _VALUE))[:_VALUE]


def row_at(story: Story, seq: int) -> int:
    """Returns the number of the row that began last at or before the event `seq`, or 0."""
    begun = [n for n, row in enumerate(story.rows) if row.first <= seq]
    return max(begun, key=lambda n: (story.rows[n].first, n), default=0)


def plain_lines(story: Story, columns: int) -> list[Line]:
    """Returns the headline and all rows, for output without a screen."""
    return [Line(story.head, Style.HEAD), *(_row_line(story, n, columns) for n in range(len(story.rows)))]


def screen_lines(story: Story, at: Selected, columns: int, height: int) -> list[Line]:
    """Returns the screen: headline, the rows around the selected one, event, pane, message, keys.

    There are at most `height` lines; below a height of 3, only the keys.
    """
    room = max(2, height - 4)
    for_rows = max(1, min(len(story.rows), room - min(_LEAST_PANE, room // 2)))
    if len(at.pane) - at.top > room - for_rows:
        for_rows = max(1, min(for_rows, room // 2))
    for_pane = room - for_rows
    first = max(0, min(at.row - for_rows // 2, len(story.rows) - for_rows))
    lines = [Line(cut(story.head, columns), Style.HEAD)]
    for n in range(first, min(first + for_rows, len(story.rows))):
        line = _row_line(story, n, columns)
        lines.append(Line(pad(line.text, columns), Style.SELECTED) if n == at.row else line)
    event = story.events[at.seq - 1] if 0 < at.seq <= len(story.events) else ""
    lines.append(Line(cut(f"── {event} ", columns), Style.DIM))
    pane = [f"{at.title}"] * bool(at.title) + list(at.pane[at.top :])
    lines += [Line(cut(text, columns)) for text in pane[:for_pane]]
    lines += [Line("")] * max(0, height - 2 - len(lines))
    lines.append(Line(cut(at.message, columns), Style.HEAD))
    lines.append(Line(cut(KEYS, columns), Style.DIM))
    return lines[:height] if height > 2 else lines[-1:]


def _row_line(story: Story, number: int, columns: int) -> Line:
    row = story.rows[number]
    label, action = cut(printable(row.label), _LABEL), cut(printable(row.action), _ACTION)
    text = f" {pad(row.mark, 4)} {pad(label, _LABEL)} {pad(action, _ACTION)}"
    if columns >= _LEAST_BAR_COLUMNS:
        text += f"  {_bar(story.rows, row)}"
    took = "" if row.mark == "skip" else _seconds(row.ended - row.begun)
    text += f" {took:>{_TOOK}}  {printable(row.came)}"
    if row.is_cause:
        text += "   <- likely cause"
    if width(text) > columns and row.is_cause:
        tail = "   <- likely cause"
        text = cut(text.removesuffix(tail), columns - len(tail)) + tail
    return Line(cut(text, columns), Style.FAILED if row.mark == "FAIL" else Style.PLAIN)


def _bar(rows: Sequence[Row], row: Row) -> str:
    begin, end = rows[0].begun, max(each.ended for each in rows)
    scale = _BAR / ((end - begin) or 1.0)
    first = min(_BAR - 1, int((row.begun - begin) * scale))
    last = max(first + 1, min(_BAR, round((row.ended - begin) * scale)))
    if row.mark == "skip":
        return "." * _BAR
    return "." * first + "=" * (last - first) + "." * (_BAR - last)


def _seconds(duration: float) -> str:
    return f"{duration * 1000:.0f} ms" if duration < 1 else f"{duration:.1f} s"
