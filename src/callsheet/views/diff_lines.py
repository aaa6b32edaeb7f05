"""Changes of plans as lines: how changed parts are spelled, what differs between texts, signs and colours.

Plans of both versions are rendered with it. Invisible characters are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.ltp import format_step
from callsheet.frontends.values import format_condition, format_value
from callsheet.ir import (
    And,
    Call,
    Compare,
    DictExpr,
    Foreach,
    Goto,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    NotEmpty,
    OnFail,
    Or,
    Plan,
    Ref,
    Replan,
    Respond,
    Retry,
    Step,
    Template,
    Terminate,
)
from callsheet.ir.diff import Change, Node, Part, PieceDiff, PlanDiff, StepDiff, TreeDiff
from callsheet.views.columns import CUT, cut, escaped, width
from callsheet.views.describe import (
    describe_action,
    describe_condition,
    describe_failure,
    describe_guard,
    describe_step,
    describe_value,
)

_LONGEST_VALUE = 1_000


_MOST_MEMBERS = 8


def lines_of(text: str) -> tuple[str, ...]:
    """Returns the lines of a text, each escaped."""
    return tuple(escaped(line) for line in text.split("\n"))


def spelled_step(step: Step) -> tuple[str, ...]:
    """Returns the lines of a step with everything but comments and remarks."""
    bare = replace(step, comments=(), remark=None, title=None, depends_on=None)
    try:
        text = format_step(bare)
    except CallsheetError:
        text = describe_step(bare)
    if step.depends_on is not None:
        text += f"  after {', '.join(step.depends_on) or 'nothing'}"
    if step.title is not None:
        text += f"  ({step.title})"
    return lines_of(text)


def spelled_side(change: Change, node: Node, plan: Plan) -> tuple[str, ...]:
    """Returns the lines of one side of a change; none if that side is empty."""
    if change.part is Part.GROUP:
        return (_members(plan, node) if isinstance(node, int) else "alone",)
    if node is None:
        return ()
    if isinstance(node, str):
        return lines_of(_word(change.part, node))
    if isinstance(node, int):
        return (str(node),)
    if isinstance(node, tuple):
        return (escaped(", ".join(node)) or "nothing",)
    return lines_of(_spell(node))


def _word(part: Part, word: str) -> str:
    match part:
        case Part.TOOL:
            return f"@{word}"
        case Part.OUTPUT | Part.LOOP_VARIABLE:
            return f"${word}"
        case Part.CAST:
            return f":{word}"
        case Part.TARGET:
            return f"GOTO {word}"
        case _:
            return word


def _spell(node: Node) -> str:
    try:
        return _as_ltp(node)
    except CallsheetError:
        return _described(node)


def _as_ltp(node: Node) -> str:
    match node:
        case Literal() | Ref() | Template() | ListExpr() | DictExpr():
            return format_value(node)
        case Compare() | IsEmpty() | NotEmpty() | Not() | And() | Or():
            return format_condition(node)
        case Call() | Respond() | Terminate() | Goto() | Replan():
            return format_step(Step("S1", node)).removeprefix("S1: ")
        case Foreach(var=var, source=source):
            return f"${var} IN {format_value(source)}"
        case Retry(count=count, delay=delay, backoff=backoff):
            options = {"delay": delay, "backoff": backoff}
            parts = [f"{name}={value!r}" for name, value in options.items() if value is not None]
            return f"@RETRY({', '.join([str(count), *parts])})"
        case OnFail():
            return describe_failure(node) or "nothing"
        case tuple() | str() | int() | None:
            return str(node)


def _described(node: Node) -> str:
    match node:
        case Literal() | Ref() | Template() | ListExpr() | DictExpr():
            return describe_value(node, _LONGEST_VALUE)
        case Compare() | IsEmpty() | NotEmpty() | Not() | And() | Or():
            return describe_condition(node)
        case Call() | Respond() | Terminate() | Goto() | Replan():
            return describe_action(node)
        case Foreach():
            return describe_guard(Step("S1", Goto("S1"), foreach=node)).removeprefix("FOREACH ")
        case Retry() | OnFail() | tuple() | str() | int() | None:
            return str(node)


def _members(plan: Plan, group: int) -> str:
    ids = [escaped(step.id) for step in plan.steps if step.group == group]
    shown = ids if len(ids) <= _MOST_MEMBERS else [*ids[:_MOST_MEMBERS], CUT]
    return f"@PARALLEL {{ {' '.join(shown)} }}"


def label_of(change: Change) -> str:
    """Returns the label of a change: `url`, `argument 2`, `$limit`, `condition`."""
    match change.part, change.name:
        case Part.ARGUMENT, int(number):
            return f"argument {number}"
        case Part.VARIABLE, str(name):
            return cut(escaped(f"${name}"), 60)
        case Part.ARGUMENT, str(name):
            return cut(escaped(name), 60)
        case Part.ON_FAIL, _:
            return "ON_FAIL"
        case part, _:
            return str(part)


_CONTEXT = 2


_MOST_COMPARED = 1_000
"""For longer texts, only a common beginning and end are found."""


_LONG = 240


_KEPT = 60


_LONGEST_LINE = 4_000


def line_changes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields the differences of two texts as signs and lines, with up to two lines of context.

    >>> list(line_changes(["a", "b"], ["a", "c"]))
    [(' ', 'a'), ('-', 'b'), ('+', 'c')]
    """
    start = 0
    least = min(len(old), len(new))
    while start < least and old[start] == new[start]:
        start += 1
    end = 0
    while end < least - start and old[-1 - end] == new[-1 - end]:
        end += 1
    if start > _CONTEXT:
        yield " ", CUT
    yield from ((" ", shortened(line)) for line in old[max(start - _CONTEXT, 0) : start])
    yield from _between(old[start : len(old) - end], new[start : len(new) - end])
    yield from ((" ", shortened(line)) for line in old[len(old) - end :][:_CONTEXT])
    if end > _CONTEXT:
        yield " ", CUT


def _between(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, str]]:
    if max(len(old), len(new)) > _MOST_COMPARED:
        yield from _replaced(old, new)
        return
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for tag, i, to_i, j, to_j in matcher.get_opcodes():
        if tag != "equal":
            yield from _replaced(old[i:to_i], new[j:to_j])
            continue
        same = old[i:to_i]
        if len(same) <= 2 * _CONTEXT:
            yield from ((" ", shortened(line)) for line in same)
        else:
            yield from ((" ", shortened(line)) for line in same[:_CONTEXT])
            yield " ", CUT
            yield from ((" ", shortened(line)) for line in same[-_CONTEXT:])


def _replaced(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, str]]:
    if len(old) == len(new) == 1:
        was, now = focused(old[0], new[0])
        yield "-", was
        yield "+", now
        return
    yield from (("-", shortened(line)) for line in old)
    yield from (("+", shortened(line)) for line in new)


def focused(old: str, new: str) -> tuple[str, str]:
    """Returns two lines; if one is long, both are cut to the part that differs.

    >>> [len(side) for side in focused("x" * 900 + "a" + "y" * 900, "x" * 900 + "b" + "y" * 900)]
    [123, 123]
    """
    if max(len(old), len(new)) <= _LONG:
        return old, new
    before = max(_shared(old, new) - _KEPT, 0)
    least = min(len(old), len(new)) - before
    behind = _shared(old[::-1][:least], new[::-1][:least])
    after = max(min(behind, least) - _KEPT, 0)

    def cut_out(text: str) -> str:
        inside = text[before : len(text) - after]
        return (CUT if before else "") + shortened(inside) + (CUT if after else "")

    return cut_out(old), cut_out(new)


def _shared(old: str, new: str) -> int:
    """Returns the length of the common beginning."""
    for length, (was, now) in enumerate(zip(old, new, strict=False)):
        if was != now:
            return length
    return min(len(old), len(new))


def shortened(line: str) -> str:
    """Returns a line of bounded length; a cut line ends with its full length."""
    if len(line) <= _LONGEST_LINE:
        return line
    return f"{line[:_LONGEST_LINE]}{CUT} ({len(line):,} characters)"


_COLOURS = {"+": "32", "-": "31", "~": "33", ">": "36", "=": "36", " ": "2"}


_LEAST = 30


class Page:
    """Renders what differs as lines: `ansi` adds colours, long values are cut to `columns`."""

    def __init__(self, diff: PlanDiff | TreeDiff, ansi: bool, columns: int) -> None:
        self._plans = diff.old, diff.new
        self._head = diff.head
        self._ansi = ansi
        self._columns = max(columns, _LEAST)

    def head(self) -> Iterator[str]:
        """Yields the changes of the head."""
        for change in self._head:
            yield from self.change(change, indent="")

    def whole(self, sign: str, lines: Sequence[str], within: str) -> Iterator[str]:
        """Yields the lines of a step that is added or removed, with what it stands in."""
        first, *more = lines
        beside = f"  [in {within}]" if within else ""
        yield self.coloured(sign, f"{sign} {shortened(first)}{beside}")
        yield from (self.coloured(sign, f"{sign} {shortened(line)}") for line in more)

    def change(self, change: Change, indent: str) -> Iterator[str]:
        """Yields the lines for a change of the head, or of a step of version 1."""
        old, new = (
            spelled_side(change, node, plan)
            for node, plan in zip((change.old, change.new), self._plans, strict=True)
        )
        if old == new:
            new = (f"{new[0]}, another step with that id",)
        yield from self.changed(label_of(change), old, new, indent)

    def changed(self, label: str, old: Sequence[str], new: Sequence[str], indent: str) -> Iterator[str]:
        """Yields the lines for a part, of which each side is given as lines; none if it is absent there."""
        if len(old) <= 1 and len(new) <= 1:
            yield from self._short(label, old, new, indent)
            return
        yield f"{indent}{label}:"
        for sign, line in line_changes(old, new):
            yield self.coloured(sign, f"{indent}  {sign} {line}")

    def _short(self, label: str, old: Sequence[str], new: Sequence[str], indent: str) -> Iterator[str]:
        if not old or not new:
            sign, text = ("+", new[0]) if new else ("-", old[0])
            yield self.coloured(sign, f"{indent}{sign} {label}: {shortened(text)}")
            return
        was, now = focused(old[0], new[0])
        one = f"{indent}{label}: {was} → {now}"
        if width(one) <= self._columns:
            yield f"{indent}{label}: {self.coloured('-', was)} → {self.coloured('+', now)}"
            return
        yield f"{indent}{label}:"
        yield self.coloured("-", f"{indent}  - {was}")
        yield self.coloured("+", f"{indent}  + {now}")

    def coloured(self, sign: str, text: str) -> str:
        """Returns a line in the colour of its sign."""
        return f"\x1b[{_COLOURS[sign]}m{text}\x1b[0m" if self._ansi else text


def kinds_of(step: StepDiff | PieceDiff) -> list[str]:
    """Returns the words for what differs."""
    kinds = {
        "added": step.is_added,
        "removed": step.is_removed,
        "changed": bool(step.changes),
        "moved": step.moved,
        "renamed": step.is_renamed,
    }
    return [kind for kind, holds in kinds.items() if holds]
