"""Renders the differences between two plans as text (`plan_diff_text`) and JSON (`plan_diff_json`).

In: a diff of two plans. Out: the changes in the order of the new plan, in LTP text, with invisible
characters escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from callsheet.ir import (
    Plan,
    Step,
    plan_hash,
    word_of,
)
from callsheet.ir.diff import Change, PieceDiff, PlanDiff, StepDiff, TreeDiff, diff_plans
from callsheet.ir.diff.matching import renamings_of
from callsheet.views.columns import cut, escaped
from callsheet.views.diff_lines import Page, kinds_of, lines_of, spelled_side, spelled_step
from callsheet.views.mermaid import mermaid

_MOST_ID = 40


def plan_diff_text(
    diff: PlanDiff | TreeDiff, old_name: str, new_name: str, *, ansi: bool = False, columns: int = 100
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
    found = (lines for _, lines in differences(diff, ansi=ansi, columns=columns))
    return "\n".join([names, *chain.from_iterable(found), summary_line(diff)])


def differences(
    diff: PlanDiff | TreeDiff, *, ansi: bool = False, columns: int = 100
) -> Iterator[tuple[StepDiff | PieceDiff | None, tuple[str, ...]]]:
    """Yields what differs as lines, with its step or statement; None with what concerns the whole plan."""
    if isinstance(diff, TreeDiff):
        from callsheet.views.tree_diff import TreePage  # noqa: PLC0415 - for plans with blocks

        tree = TreePage(diff, ansi, columns)
        yield None, tuple(tree.head())
        yield from ((piece, tuple(tree.step(piece))) for piece in diff.steps)
    else:
        page = _StepsPage(diff, ansi, columns)
        yield None, tuple(page.head())
        yield from ((step, tuple(page.step(step))) for step in diff.steps)


def summary_line(diff: PlanDiff | TreeDiff) -> str:
    """Returns the number of steps by kind of difference: `1 added, 2 changed, 14 unchanged`."""
    counts = summary_of(diff)
    parts = [f"{count} {word}" for word, count in counts.items() if count]
    return ", ".join(parts) or "the steps are the same"


def summary_of(diff: PlanDiff | TreeDiff) -> dict[str, int]:
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


class _StepsPage(Page):
    """Renders the difference of two plans of version 1 as lines."""

    def __init__(self, diff: PlanDiff, ansi: bool, columns: int) -> None:
        super().__init__(diff, ansi, columns)
        self._diff = diff

    def head(self) -> Iterator[str]:
        yield from super().head()
        yield from self._renamings()

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
                yield self.coloured("=", f"= {was} renamed to {now}")
            else:
                spans = f"{was}–{_id(last.old)} renamed to {now}–{_id(last.new)}"
                yield self.coloured("=", f"= {spans}")

    def step(self, step: StepDiff) -> Iterator[str]:
        if step.old is None and step.new is not None:
            yield from self.whole("+", spelled_step(step.new), _group(step.new))
        elif step.new is None and step.old is not None:
            yield from self.whole("-", spelled_step(step.old), _group(step.old))
        elif step.new is not None and (step.changes or step.moved):
            sign = "~" if step.changes else ">"
            what = step.new.action
            head = word_of(what)
            text = f"{sign} {_id(step.new)}  {escaped(head)}"
            if step.moved:
                text += f"  moved: {self._place(step)}"
            yield self.coloured(sign, text)
            for change in step.changes:
                yield from self.change(change, indent="    ")

    def _place(self, step: StepDiff) -> str:
        def behind(plan: Plan, index: int | None) -> str:
            return f"after {_id(plan.steps[index - 1])}" if index else "at the beginning"

        now = behind(self._diff.new, step.new_index)
        return f"{now}, was {behind(self._diff.old, step.old_index)}"


def _group(step: Step) -> str:
    return "" if step.group is None else "@PARALLEL"


def _id(step: Step | None) -> str:
    return cut(" ".join(lines_of(step.id)), _MOST_ID) if step is not None else ""


def plan_diff_json(diff: PlanDiff | TreeDiff, old_name: str, new_name: str) -> dict[str, Any]:
    """Returns the difference as data: whether the plans are the same, counts, changes of the head, steps."""
    if isinstance(diff, TreeDiff):
        from callsheet.views.tree_diff import piece_diff_json, sides_of  # noqa: PLC0415 - for plans with blocks

        sides = sides_of(diff)
        steps = [piece_diff_json(step, sides) for step in diff.different()]
    else:
        steps = [_step(step, diff) for step in diff.different()]
    return {
        "same": diff.is_same,
        "old": _plan(diff.old, old_name),
        "new": _plan(diff.new, new_name),
        "summary": summary_of(diff),
        "head": [_change(change, diff) for change in diff.head],
        "steps": steps,
    }


def _plan(plan: Plan, name: str) -> dict[str, Any]:
    return {"plan": name, "plan_hash": plan_hash(plan), "steps": len(plan.steps)}


def _step(step: StepDiff, diff: PlanDiff) -> dict[str, Any]:
    out: dict[str, Any] = {"kinds": kinds_of(step)}
    if step.old is not None and step.old_index is not None:
        out["old"] = {"id": step.old.id, "number": step.old_index + 1}
        if step.is_removed:
            out["old"]["text"] = "\n".join(spelled_step(step.old))
    if step.new is not None and step.new_index is not None:
        out["new"] = {"id": step.new.id, "number": step.new_index + 1}
        if step.is_added:
            out["new"]["text"] = "\n".join(spelled_step(step.new))
    if step.changes:
        out["changes"] = [_change(change, diff) for change in step.changes]
    return out


def _change(change: Change, diff: PlanDiff | TreeDiff) -> dict[str, Any]:
    out: dict[str, Any] = {"part": str(change.part)}
    if change.name is not None:
        out["name"] = change.name
    for side, node, plan in (("old", change.old, diff.old), ("new", change.new, diff.new)):
        out[side] = "\n".join(spelled_side(change, node, plan)) or None
    return out


__all__ = ["differences", "plan_diff_json", "plan_diff_text"]


_MOST_STEPS = 120
"""The largest plan that is drawn: GitHub draws no larger ones that people could read."""
_MOST = 12_000
"""The most characters of a difference that are shown."""
_COLUMNS = 100


@dataclass(frozen=True, slots=True)
class Standing:
    """A version of a plan: what it is (None if its text is none), and what was found of it.

    `errors` are what is wrong or refused, `duties` what the proof leaves to the run; `proof` says whether it
    was proved, and against what, empty if no policy was named.
    """

    plan: Plan | None
    errors: tuple[str, ...] = ()
    duties: tuple[str, ...] = ()
    proof: str = ""


def review(name: str, old: Standing | None, new: Standing | None) -> str:
    """The section of a plan with this name; `old` is None for a new one, `new` for one that is gone.

    >>> print(review("a.ltp", Standing(Plan(())), None))
    ### `a.ltp` is deleted
    """
    title = f"### {_code(name)}"
    if new is None:
        return f"{title} is deleted"
    before = Plan(()) if old is None else old.plan
    parts = [f"{title} is new" if old is None else title]
    if new.plan is None:
        parts.append("The text is no plan.")
    elif before is not None:
        diff = diff_plans(before, new.plan)
        parts[0] += f": {summary_line(diff)}" if not diff.is_same else ": the same steps, in other words"
    parts += _proofs(old, new)
    if new.plan is not None and before is not None and old is not None:
        told = plan_diff_text(diff_plans(before, new.plan), "before", "after", columns=_COLUMNS)
        parts.append(_folded("Differences", _fence("diff", _cut(told))))
    if new.plan is not None:
        parts.append(_picture(new.plan))
    return "\n\n".join(parts)


def _proofs(old: Standing | None, new: Standing) -> list[str]:
    """What has become of the proof: the verdict, then what has come and what has gone."""
    before = Standing(None) if old is None else old
    lines: list[str] = []
    if new.proof:
        was = f" (before: {before.proof})" if before.proof and before.proof != new.proof else ""
        lines.append(f"**{new.proof}**{was}")
    _, gone = _apart(before.errors, new.errors)
    duties, less = _apart(before.duties, new.duties)
    lines += [f"- {'still' if error in before.errors else 'now'} {_line(error)}" for error in new.errors]
    lines += [f"- no longer {_line(error)}" for error in gone]
    lines += [f"- now checked when it runs: {_line(duty)}" for duty in duties]
    lines += [f"- no longer checked when it runs: {_line(duty)}" for duty in less]
    return ["\n".join(lines)] if lines else []


def _apart(old: Sequence[str], new: Sequence[str]) -> tuple[list[str], list[str]]:
    """What is only in the new, and only in the old."""
    return [each for each in new if each not in old], [each for each in old if each not in new]


def _picture(plan: Plan) -> str:
    if len(plan.steps) > _MOST_STEPS:
        return f"No picture: the plan has {len(plan.steps)} steps."
    return _folded("Picture", _fence("mermaid", mermaid(plan)))


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def _fence(language: str, text: str) -> str:
    """A fence that is longer than any in the text."""
    longest = max((len(found) for found in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _cut(text: str) -> str:
    if len(text) <= _MOST:
        return text
    return f"{text[:_MOST]}\n… and {len(text) - _MOST:,} characters more: callsheet plan diff"


def _line(text: str) -> str:
    """A text on one line, in which Markdown and HTML mean nothing."""
    return _code(" ".join(text.split()))


def _code(text: str) -> str:
    longest = max((len(found) for found in re.findall(r"`+", text)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{' '.join(text.split())}{pad}{ticks}"
