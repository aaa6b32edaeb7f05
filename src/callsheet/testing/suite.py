"""Runs files of cases: a verdict for each case, and the coverage of each plan by all of its cases.

In: paths of files of cases, the declarations of tools. Out: for each file how its cases went. A case whose
plan cannot run (it has errors, the policy refuses it) fails with that, unless it expects to be refused.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from callsheet.api.arguments import with_secrets
from callsheet.api.plan import Plan
from callsheet.api.policies import policy_of
from callsheet.api.proving import PolicyRefused
from callsheet.diagnostics import CallsheetError, did_you_mean
from callsheet.ports.tools import ToolSpec
from callsheet.testing.case import ENDING, Case, CaseFile
from callsheet.testing.coverage import Coverage, coverage_of
from callsheet.testing.rehearsal import Rehearsal, Rehearsals, Stage
from callsheet.testing.verdict import Difference, differences, refusal_differences
from callsheet.testing.walk import Mark, own_id


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How a case went: its differences, None of them if it passed. `seconds` are those of a clock."""

    case: Case
    differences: tuple[Difference, ...]
    seconds: float
    rehearsal: Rehearsal | None = None

    @property
    def passed(self) -> bool:
        """Whether all was as expected."""
        return not self.differences


@dataclass(slots=True)
class FileResult:
    """How the cases of a file went, and what they covered of its plan."""

    file: CaseFile
    plan: Plan
    results: list[CaseResult] = field(default_factory=list[CaseResult])

    @property
    def marks(self) -> frozenset[Mark]:
        """What all cases together have come by."""
        done = (result.rehearsal for result in self.results if result.rehearsal is not None)
        return frozenset(mark for rehearsal in done for mark in rehearsal.marks)

    @property
    def coverage(self) -> Coverage:
        """The coverage of the plan by all cases; raises CallsheetError as `plan_coverage` does."""
        return plan_coverage([self])

    def place(self, difference: Difference) -> str:
        """The place of a difference in the plan, as `FILE:LINE`; "" if it has none."""
        line = self.line(difference)
        return f"{self.file.plan}:{line}" if line else ""

    def line(self, difference: Difference) -> int:
        """The line of a difference in the plan; 0 if it has none."""
        own = own_id(difference.step)
        step = self.plan.ir.step(own) if own else None
        source = self.plan.source
        if step is None or step.span is None or source is None:
            return 0
        return source.position(step.span.start).line


def run_file(
    file: CaseFile,
    declared: Callable[[Plan], Sequence[ToolSpec]] = lambda _: (),
    *,
    only: str | None = None,
    tell: Callable[[CaseResult], None] = lambda _: None,
) -> FileResult:
    """Run the cases of a file, those whose name contains `only`; `tell` hears of each as it ends.

    Raises PlanError if the plan cannot be read, CallsheetError for tools or a policy that cannot be used.
    """
    plan = Plan.load(file.plan)
    done = FileResult(file, plan)
    stage = Stage(
        tools=file.tools,
        declared=declared(plan),
        policy=policy_of(file.policy),
        approve=file.approve,
    )
    has_rules = stage.policy is not None or bool(stage.approve)
    with ExitStack() as opened:
        stages: dict[int, Rehearsals] = {}
        for case in file.cases:
            if only is None or only in case.name:
                rules = None if has_rules else case.rules
                if id(rules) not in stages:
                    its = (
                        stage if rules is None else replace(stage, policy=rules.policy, approve=rules.approve)
                    )
                    stages[id(rules)] = opened.enter_context(Rehearsals(its))
                result = _run(stages[id(rules)], plan, case)
                done.results.append(result)
                tell(result)
    return done


def _run(rehearsals: Rehearsals, plan: Plan, case: Case) -> CaseResult:
    began = time.monotonic()
    try:
        inputs, secret = with_secrets(case.inputs, case.secrets)
        done = rehearsals.run(plan, inputs, case.fakes, case.replies, secret, case.now)
    except CallsheetError as error:
        errors = [one for one in error.diagnostics if one.is_error]
        if isinstance(error, PolicyRefused) and case.outcome == "refused":
            found = refusal_differences(case, "\n".join(f"{one.code}: {one.message}" for one in errors))
        else:
            found = tuple(
                Difference(
                    f"{one.code}: {one.message}" + (f"\nhelp: {one.help}" if one.help else ""), one.step or ""
                )
                for one in errors
            )
        return CaseResult(case, found, time.monotonic() - began)
    return CaseResult(case, differences(case, done), time.monotonic() - began, done)


def plan_coverage(files: Sequence[FileResult]) -> Coverage:
    """The coverage of a plan by the cases of all files that test it.

    Raises CallsheetError (TST001) for a point that cannot happen by the word of a file, but is not there,
    or that a case has come by.
    """
    plan = files[0].plan
    marks: set[Mark] = {mark for each in files for mark in each.marks}
    everything = coverage_of(plan, marks)
    points = {point.words: point for point in everything.points}
    for each in files:
        for words in each.file.cannot_happen:
            point = points.get(words)
            why = "is no point of the plan" if point is None else "has happened"
            if point is None or point.mark in marks:
                near = did_you_mean(words, points)
                text = f"cannot_happen of {each.file.path}: {words!r} {why}"
                help_ = f"did you mean {near[0]!r}?" if near and point is None else None
                raise CallsheetError.single("TST001", text, help=help_)
    return coverage_of(plan, marks, [words for each in files for words in each.file.cannot_happen])


_HIDDEN = (".", "__pycache__", "node_modules")


def case_files(path: Path) -> tuple[Path, ...]:
    """The files of cases at a path: the file, or all below the folder in order; none where none is."""
    if not path.is_dir():
        return (path,) if path.exists() else ()
    found: list[Path] = []
    for folder, folders, files in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(_HIDDEN)]
        found += [Path(folder, name) for name in files if name.endswith(ENDING)]
    return tuple(sorted(found))
