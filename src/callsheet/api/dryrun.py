"""Dry runs: predicts what a plan would do, without calling anything.

In: a plan, tool facts, input variables and assumed results. Out: a `DryRun`. No tool, model, server or
journal is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from callsheet.api.findings import Findings
from callsheet.api.proving import Proof
from callsheet.diagnostics import CallsheetError, Source, meant
from callsheet.diagnostics.wrong_type import wanted, wanted_list, wrong
from callsheet.ir import JSON
from callsheet.ir import Plan as Steps
from callsheet.ir.tree import all_statements
from callsheet.machine import ToolFacts, compile_plan
from callsheet.machine.forecasting import Forecast, Knowledge, StepForecast, Totals, foresee, totals_of
from callsheet.machine.forecasting.partial_values import nobody_asked
from callsheet.machine.questions import approval_rules, needs_approval
from callsheet.policy.calls import CODES, Duty
from callsheet.ports.models.operations import expected_use
from callsheet.ports.transforms import work_out
from callsheet.views.dry_run import PolicyVerdict, Remark, RemarkKind

if TYPE_CHECKING:
    from callsheet.api.worlds import Worlds

NeedsApproval: TypeAlias = "Callable[[str], bool] | Iterable[str]"
"""What needs a person's approval: names of tools and steps, or a predicate on a tool's canonical name."""
AsksFirst: TypeAlias = "Callable[[str, str], bool]"
"""Whether the calls of a tool by a step need an approval, by their canonical name and its id."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a plan would do: `forecast` step by step, `totals` in sum.

    `price` is the price of a million prompt tokens, None if unknown. `findings` are the warnings and hints
    of the checks; `proof` is set if the plan was checked against a policy. `str()` gives the text that
    `callsheet dry-run` prints.
    """

    forecast: Forecast
    totals: Totals
    price: float | None = None
    findings: Findings = field(default_factory=Findings)
    proof: Proof | None = None
    cases: Callable[[], Worlds] | None = field(default=None, repr=False, compare=False)

    def worlds(self) -> Worlds:
        """What is changed with each condition true and false; empty for plans without blocks."""
        from callsheet.api.worlds import Worlds  # noqa: PLC0415 - as in `dry_run_of`

        return Worlds() if self.cases is None else self.cases()

    def under(self, proof: Proof) -> DryRun:
        """This dry run with the proof, and the calls marked for which the policy requires approval."""
        asked = set(_verdict_of(proof).asked)
        steps = tuple(
            replace(step, needs_approval=True) if step.step.id in asked else step
            for step in self.forecast.steps
        )
        forecast = replace(self.forecast, steps=steps)
        return replace(self, forecast=forecast, totals=totals_of(forecast), proof=proof)

    @property
    def calls(self) -> tuple[StepForecast, ...]:
        """The steps that make calls, or may, in the order of the forecast."""
        return tuple(self.forecast.calls())

    def to_json(self) -> dict[str, Any]:
        """The dry run as JSON data, in the shape that `callsheet.views.dry_run_data.dry_run_json` tells."""
        from callsheet.views.dry_run_data import dry_run_json  # noqa: PLC0415 - one of two

        return dry_run_json(self.forecast, self.totals, self.price, self._verdict())

    def to_text(self, columns: int = 100) -> str:
        """The dry run as text, in lines of about `columns` characters."""
        from callsheet.views.dry_run import dry_run_text  # noqa: PLC0415 - one of two

        return dry_run_text(self.forecast, self.totals, self.price, columns, self._verdict())

    def _verdict(self) -> PolicyVerdict | None:
        return None if self.proof is None else _verdict_of(self.proof)

    def __str__(self) -> str:
        return self.to_text()


_DUTIES: Mapping[Duty, str] = {
    Duty.SSRF_GUARD: "only public addresses and audiences are reached",
    Duty.SANDBOX: "the code runs without a network",
    Duty.FILES: "the code sees no secret, and of the workspace only what it declares",
    Duty.STORE_LABEL: "the labels of stored data are kept for later runs",
    Duty.VERIFY_AGAIN: "what is not known yet is checked against the policy then",
}
"""The duties that the runtime takes care of, in words."""


def _verdict_of(proof: Proof) -> PolicyVerdict:
    """A proof's refusals, approvals and obligations by step, for display."""
    tree = proof.plan.tree
    places = proof.plan.steps if tree is None else all_statements(tree)
    steps: dict[str, list[Remark]] = {one.id: [] for one in places}
    plan: list[Remark] = []
    for doubt in proof.doubts:
        if doubt.is_error:
            steps.get(doubt.step or "", plan).append(Remark(RemarkKind.REFUSES, doubt.message, doubt.code))
    for violation in proof.verdict.violations:
        remark = Remark(
            RemarkKind.REFUSES, violation.message, CODES[violation.rule], " → ".join(violation.flow)
        )
        steps.get(violation.step or "", plan).append(remark)
    for kind, step, detail, *_ in proof.obligations:
        if kind is Duty.APPROVE:
            steps[step].append(Remark(RemarkKind.NEEDS_APPROVAL, detail))
        else:
            steps[step].append(
                Remark(RemarkKind.ENFORCES, _DUTIES[kind] + (f" ({detail})" if detail else ""))
            )
    by_step = {step: tuple(dict.fromkeys(remarks)) for step, remarks in steps.items() if remarks}
    return PolicyVerdict(proof.policy.name, not proof.ok, by_step, tuple(plan))


def dry_run_of(
    plan: Steps,
    facts: Mapping[str, ToolFacts],
    inputs: Mapping[str, JSON],
    assumed: Mapping[str, JSON],
    asks: AsksFirst = nobody_asked,
    price: float | None = None,
    findings: Findings | None = None,
    source: Source | None = None,
) -> DryRun:
    """The dry run of a plan that has passed the checks.

    With the `source` of a Python plan, its conditions are told in its own words.

    Raises CallsheetError: RUN040 for a result assumed of a step that does not exist or calls nothing, and
    whatever `compile_plan` raises.
    """
    check_assumed(plan, assumed)
    compile_plan(plan, facts)
    knowledge = Knowledge(
        facts=facts,
        assumed=assumed,
        compute=work_out,
        ask_model=expected_use,
        needs_approval=asks,
        has_secrets=False,
    )
    forecast = foresee(plan, inputs, knowledge)

    def cases() -> Worlds:
        from callsheet.api.worlds import worlds_of  # noqa: PLC0415 - only where asked for

        return worlds_of(plan, lambda one: foresee(one, inputs, knowledge), facts, source)

    return DryRun(forecast, totals_of(forecast), price, findings or Findings(), cases=cases)


def either(rules: Iterable[str], more: NeedsApproval) -> AsksFirst:
    """Whether calls of a tool by a step need approval, by the run's own rules or by further ones."""
    by_rule, by_more = _predicate(rules), _predicate(more)
    return lambda tool, step: by_rule(tool, step) or by_more(tool, step)


def check_assumed(plan: Steps, assumed: Iterable[str]) -> None:
    """Raise CallsheetError (RUN040) if a result is assumed for a step that is missing or calls nothing."""
    calls = {step.id: step.call is not None for step in plan.steps}
    for step_id in assumed:
        if step_id not in calls:
            help_ = meant(step_id, calls, "`callsheet graph` shows the ids of a plan")
            message = f"there is no step {step_id[:60]} whose result could be assumed"
            raise CallsheetError.single("RUN040", message, help=help_)
        if not calls[step_id]:
            message = f"step {step_id} calls nothing, so it has no result to assume"
            raise CallsheetError.single(
                "RUN040", message, help="assume the result of a step that calls a tool"
            )


def _predicate(given: NeedsApproval) -> AsksFirst:
    if callable(given):
        return lambda tool, step: given(tool)
    expected = "a list of names, or a function that says it of a name"
    if isinstance(given, str):
        raise wrong("needs_approval", given, expected)
    names = approval_rules(
        wanted("needs_approval", name, str, expected)
        for name in wanted_list("needs_approval", given, "names")
    )
    return lambda tool, step: needs_approval(names, tool, step)
