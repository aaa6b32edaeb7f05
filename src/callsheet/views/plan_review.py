"""A change of a plan for those who review it, as Markdown: what its proof becomes, the difference, a picture.

In: the two versions, or one if the plan is new or gone, and what is proved of each. Out: a section of a
comment on a pull request. Names and texts cannot end the fences that they stand in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from callsheet.ir import Plan
from callsheet.ir.diff import diff_plans
from callsheet.views.mermaid import mermaid
from callsheet.views.plan_diff import plan_diff_text, summary_line

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
