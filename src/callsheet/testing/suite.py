"""Runs files of cases: a verdict for each case, and the coverage of each plan by all of its cases.

In: paths of files of cases, the declarations of tools. Out: for each file how its cases went, with the
differences from what is expected. A case whose plan cannot run (it has errors, the policy refuses it) fails
with that, unless it expects to be refused.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from callsheet.api.arguments import with_secrets
from callsheet.api.plan import Plan
from callsheet.api.policies import policy_of
from callsheet.api.proving import PolicyRefused
from callsheet.diagnostics import CallsheetError, did_you_mean
from callsheet.ir import JSON
from callsheet.policy.model import Policy
from callsheet.ports.tools import ToolSpec
from callsheet.testing.case import ENDING, UNSAID, Case, CaseFile, Rules
from callsheet.testing.coverage import Coverage, Mark, coverage_of, own_id
from callsheet.testing.differences import Difference, differing, differing_calls, shown
from callsheet.testing.rehearsal import Rehearsal, Rehearsals, Stage


def differences(case: Case, rehearsal: Rehearsal) -> tuple[Difference, ...]:
    """Everything in which a rehearsal is not what its case expects."""
    return tuple(_differences(case, rehearsal))


def refusal_differences(case: Case, why: str) -> tuple[Difference, ...]:
    """What a case expects of a plan that the policy has refused before it ran, and that is not so."""
    found: list[Difference] = []
    if case.error is not None and case.error not in why:
        found.append(Difference(f"error: expected {case.error!r} in it, was {shown(why)}"))
    expected = {
        "answer": case.answer is not UNSAID,
        "message": case.message is not None,
        "variables": bool(case.variables),
        "failed steps": bool(case.failed_steps),
    }
    found += [
        Difference(f"{what}: expected, but the policy has refused the plan before it ran")
        for what, is_expected in expected.items()
        if is_expected
    ]
    found += differing_calls(case.calls or (), (), case.order)
    found += [Difference(f"nobody was asked {reply.to!r}") for reply in case.replies]
    return tuple(found)


def _differences(case: Case, done: Rehearsal) -> Iterator[Difference]:
    result = done.result
    yield from (Difference(text, step) for step, text in done.problems)
    if done.status != case.outcome:
        why = result.error or ("" if result.status == "done" else result.response)
        told = f": {shown(why)}" if why else ""
        yield Difference(f"outcome: expected {case.outcome}, was {done.status}{told}", result.ended_at or "")
    if case.error is not None and case.error not in (result.error or ""):
        yield Difference(
            f"error: expected {case.error!r} in it, was {shown(result.error)}", result.ended_at or ""
        )
    if case.answer is not UNSAID:
        if result.answer is None and isinstance(case.answer, str):
            given: JSON = result.response
        else:
            given = done.answer
        lines = [*differing(case.answer, given, "answer")]
        if lines:
            yield Difference("\n".join(lines), result.ended_at or "")
    if case.message is not None and case.message not in result.response:
        text = f"message: expected {case.message!r} in it, was {shown(result.response)}"
        yield Difference(text, result.ended_at or "")
    if case.calls is not None:
        yield from differing_calls(case.calls, done.calls, case.order)
    for name, value in case.variables.items():
        if name not in result.variables:
            yield Difference(f"${name}: expected {shown(value)}, was not set")
        else:
            yield from map(Difference, differing(value, result.variables[name], f"${name}"))
    if case.failed_steps is not None and case.failed_steps != result.failed_steps:
        expected, were = ", ".join(case.failed_steps), ", ".join(result.failed_steps)
        yield Difference(f"failed steps: expected {expected or 'none'}, were {were or 'none'}")
    if case.seconds is not None and done.seconds > case.seconds:
        yield Difference(f"time: expected at most {case.seconds:g} s, took {done.seconds:g} s")
    for reply in done.unused:
        yield Difference(f"nobody was asked {reply.to!r}")


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How a case went: its differences, None of them if it passed. `seconds` are those of a clock.

    `policy` names the policy that it was under, if any.
    """

    case: Case
    differences: tuple[Difference, ...]
    seconds: float
    rehearsal: Rehearsal | None = None
    policy: str | None = None

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
    policy: Policy | None = None,
    default: Policy | None = None,
) -> FileResult:
    """Run the cases of a file, those whose name contains `only`; `tell` hears of each as it ends.

    A case is under `policy`, else under that of its file, of the run that it was recorded of, or `default`.
    Raises PlanError if the plan cannot be read, CallsheetError for tools or a policy that cannot be used.
    """
    plan = Plan.load(file.plan)
    done = FileResult(file, plan)
    stage = Stage(tools=file.tools, declared=declared(plan))
    chosen = policy or policy_of(file.policy)
    has_rules = file.policy is not None or bool(file.approve)
    with ExitStack() as opened:
        stages: dict[int, Rehearsals] = {}
        for case in file.cases:
            if only is None or only in case.name:
                rules = None if has_rules else case.rules
                recorded = rules or Rules(None, tuple(file.approve))
                its = replace(stage, policy=chosen or recorded.policy or default, approve=recorded.approve)
                if id(rules) not in stages:
                    stages[id(rules)] = opened.enter_context(Rehearsals(its))
                under = policy_of(its.policy)
                result = _run(stages[id(rules)], plan, case)
                result = replace(result, policy=None if under is None else under.name)
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
