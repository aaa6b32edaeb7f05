"""Renders the differences between two plans for a terminal, in the order of the new plan.

A step has a sign: `+` added, `-` removed, `~` changed, `>` moved, `=` renamed. Each changed part of a step
is below it, with its old and its new content.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from callsheet.ir import Call, Plan, Step
from callsheet.ir.diff import Change, PlanDiff, StepDiff
from callsheet.ir.diff.matching import renamings_of
from callsheet.views.columns import cut, escaped, width
from callsheet.views.describe import describe_action
from callsheet.views.plan_diff.lines import focused, line_changes, shortened
from callsheet.views.plan_diff.spelling import label_of, lines_of, spelled_side, spelled_step

_COLOURS = {"+": "32", "-": "31", "~": "33", ">": "36", "=": "36", " ": "2"}
_LEAST = 30
_MOST_ID = 40


def plan_diff_text(
    diff: PlanDiff, old_name: str, new_name: str, *, ansi: bool = False, columns: int = 100
) -> str:
    """Returns the difference as text; values are cut to about `columns` columns, `ansi` adds colours.

    `old_name` and `new_name` are the names of the plans in the first line.

    >>> from callsheet.ir import Literal, Respond
    >>> from callsheet.ir.diff import diff_plans
    >>> old, new = (Plan((Step("S1", Respond((Literal(text),))),)) for text in "ab")
    >>> print(plan_diff_text(diff_plans(old, new), "old", "new"))
    old → new
    ~ S1  @RESPOND
        argument 1: "a" → "b"
    1 changed
    """
    names = f"{escaped(old_name)} → {escaped(new_name)}"
    if diff.is_same:
        return f"{names}\nsame plan, {_steps(len(diff.new.steps))}"
    page = _Page(diff, ansi, max(columns, _LEAST))
    return "\n".join([names, *page.lines(), summary_line(diff)])


def summary_line(diff: PlanDiff) -> str:
    """Returns the number of steps by kind of difference: `1 added, 2 changed, 14 unchanged`."""
    counts = summary_of(diff)
    parts = [f"{count} {word}" for word, count in counts.items() if count]
    return ", ".join(parts) or "the steps are the same"


def summary_of(diff: PlanDiff) -> dict[str, int]:
    """Returns the number of steps by kind of difference; a step may count in several kinds."""
    steps = diff.steps
    return {
        "added": sum(s.is_added for s in steps),
        "removed": sum(s.is_removed for s in steps),
        "changed": sum(bool(s.changes) for s in steps),
        "moved": sum(s.moved for s in steps),
        "renamed": sum(s.is_renamed for s in steps),
        "unchanged": sum(s.is_same for s in steps),
    }


def _steps(count: int) -> str:
    return f"{count} step{'s' if count != 1 else ''}"


class _Page:
    """Renders one difference as lines."""

    def __init__(self, diff: PlanDiff, ansi: bool, columns: int) -> None:
        self._diff = diff
        self._ansi = ansi
        self._columns = columns

    def lines(self) -> Iterator[str]:
        for change in self._diff.head:
            yield from self._change(change, indent="")
        yield from self._renamings()
        for step in self._diff.steps:
            yield from self._step(step)

    # ------------------------------------------------------------ steps

    def _renamings(self) -> Iterator[str]:
        """Yields the renamings; the other lines use the new ids. A run of shifted ids is one line."""
        pairs = {
            s.old_index: s
            for s in sorted(self._diff.steps, key=lambda s: -1 if s.old_index is None else s.old_index)
            if s.old_index is not None and s.new_index is not None
        }
        rows = ((i, s.new_index or 0, s.old.id, s.new.id) for i, s in pairs.items() if s.old and s.new)
        for run in renamings_of(rows):
            first, last = pairs[run[0]], pairs[run[-1]]
            was, now = _id(first.old), _id(first.new)
            if len(run) == 1:
                yield self._coloured("=", f"= {was} renamed to {now}")
            else:
                spans = f"{was}–{_id(last.old)} renamed to {now}–{_id(last.new)}"
                yield self._coloured("=", f"= {spans}")

    def _step(self, step: StepDiff) -> Iterator[str]:
        if step.old is None and step.new is not None:
            yield from self._whole_step("+", step.new)
        elif step.new is None and step.old is not None:
            yield from self._whole_step("-", step.old)
        elif step.new is not None and (step.changes or step.moved):
            sign = "~" if step.changes else ">"
            what = step.new.action
            head = f"@{what.tool}" if isinstance(what, Call) else describe_action(what).split(" ", 1)[0]
            text = f"{sign} {_id(step.new)}  {escaped(head)}"
            if step.moved:
                text += f"  moved: {self._place(step)}"
            yield self._coloured(sign, text)
            for change in step.changes:
                yield from self._change(change, indent="    ")

    def _whole_step(self, sign: str, step: Step) -> Iterator[str]:
        first, *more = spelled_step(step)
        beside = "  [in @PARALLEL]" if step.group is not None else ""
        yield self._coloured(sign, f"{sign} {shortened(first)}{beside}")
        yield from (self._coloured(sign, f"{sign} {shortened(line)}") for line in more)

    def _place(self, step: StepDiff) -> str:
        def behind(plan: Plan, index: int | None) -> str:
            return f"after {_id(plan.steps[index - 1])}" if index else "at the beginning"

        now = behind(self._diff.new, step.new_index)
        return f"{now}, was {behind(self._diff.old, step.old_index)}"

    # ------------------------------------------------------------ parts

    def _change(self, change: Change, indent: str) -> Iterator[str]:
        label = label_of(change)
        old = spelled_side(change, change.old, self._diff.old)
        new = spelled_side(change, change.new, self._diff.new)
        if old == new:
            new = (f"{new[0]}, another step with that id",)
        if len(old) <= 1 and len(new) <= 1:
            yield from self._short(label, old, new, indent)
            return
        yield f"{indent}{label}:"
        for sign, line in line_changes(old, new):
            yield self._coloured(sign, f"{indent}  {sign} {line}")

    def _short(self, label: str, old: Sequence[str], new: Sequence[str], indent: str) -> Iterator[str]:
        if not old or not new:
            sign, text = ("+", new[0]) if new else ("-", old[0])
            yield self._coloured(sign, f"{indent}{sign} {label}: {shortened(text)}")
            return
        was, now = focused(old[0], new[0])
        one = f"{indent}{label}: {was} → {now}"
        if width(one) <= self._columns:
            yield f"{indent}{label}: {self._coloured('-', was)} → {self._coloured('+', now)}"
            return
        yield f"{indent}{label}:"
        yield self._coloured("-", f"{indent}  - {was}")
        yield self._coloured("+", f"{indent}  + {now}")

    def _coloured(self, sign: str, text: str) -> str:
        return f"\x1b[{_COLOURS[sign]}m{text}\x1b[0m" if self._ansi else text


def _id(step: Step | None) -> str:
    return cut(" ".join(lines_of(step.id)), _MOST_ID) if step is not None else ""
