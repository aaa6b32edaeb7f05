"""A dry run: what a plan would do on the tools that are here, told without touching anything.

In: a plan, a registry, given variables and assumed results. Out: a `DryRun`, or PlanError for a
plan that would not be run. No tool, model, server or journal is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from callsheet.api.findings import Findings
from callsheet.api.proving import Proof
from callsheet.diagnostics import CallsheetError, did_you_mean
from callsheet.diagnostics.wanted import wanted, wanted_list, wrong
from callsheet.ir import JSON, Call, canonical_tool_name
from callsheet.ir import Plan as Steps
from callsheet.machine import ToolFacts, compile_plan
from callsheet.machine.approvals import covers
from callsheet.machine.foresight import Forecast, Knowledge, StepForecast, Totals, foresee, totals_of
from callsheet.policy.calls import Duty
from callsheet.policy.codes import CODES
from callsheet.ports.models.expected import expected_use
from callsheet.ports.transforms import work_out
from callsheet.views.dry_run.held import Held, Said, Saying

NeedsApproval: TypeAlias = "Callable[[str], bool] | Iterable[str]"
"""Which tools a person is asked about before they are called: their names, or a function of the
canonical name."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a plan would do. `forecast` tells it step by step, `totals` adds it up.

    `price` is that of a million prompt tokens, None where nobody has said it; `findings` are the
    warnings and hints of the checks, `proof` is there where the plan was held against a policy. The text of
    a dry run is what `callsheet dry-run` prints.
    """

    forecast: Forecast
    totals: Totals
    price: float | None = None
    findings: Findings = field(default_factory=Findings)
    proof: Proof | None = None

    def under(self, proof: Proof) -> DryRun:
        """The dry run of a plan that was held against a policy, which may ask before more of its calls."""
        asked = set(_held(proof).asked)
        steps = tuple(
            replace(step, needs_approval=True) if step.step.id in asked else step
            for step in self.forecast.steps
        )
        forecast = replace(self.forecast, steps=steps)
        return replace(self, forecast=forecast, totals=totals_of(forecast), proof=proof)

    @property
    def calls(self) -> tuple[StepForecast, ...]:
        """The steps that call something, or may, in the order of the forecast."""
        return tuple(self.forecast.calls())

    def to_json(self) -> dict[str, Any]:
        """The dry run as JSON data; its shape is documented in `docs/cli.md`."""
        from callsheet.views.dry_run import dry_run_json  # noqa: PLC0415 - one of two

        return dry_run_json(self.forecast, self.totals, self.price, self._held())

    def to_text(self, columns: int = 100) -> str:
        """The dry run for people, in lines of about so many columns."""
        from callsheet.views.dry_run import dry_run_text  # noqa: PLC0415 - one of two

        return dry_run_text(self.forecast, self.totals, self.price, columns, self._held())

    def _held(self) -> Held | None:
        return None if self.proof is None else _held(self.proof)

    def __str__(self) -> str:
        return self.to_text()


_DUTIES: Mapping[Duty, str] = {
    Duty.SSRF_GUARD: "only public addresses and audiences are reached",
    Duty.SANDBOX: "the code runs without a network",
    Duty.STORE_LABEL: "later runs know the label of what is left",
    Duty.VERIFY_AGAIN: "what is not known yet is held against the policy then",
}
"""What the runtime sees to, in words."""


def _held(proof: Proof) -> Held:
    """What a proof says, by step in the order of the plan."""
    steps: dict[str, list[Said]] = {step.id: [] for step in proof.plan.steps}
    plan: list[Said] = []
    for doubt in proof.doubts:
        if doubt.is_error:
            steps.get(doubt.step or "", plan).append(Said(Saying.REFUSES, doubt.message, doubt.code))
    for found in proof.verdict.violations:
        said = Said(Saying.REFUSES, found.message, CODES[found.rule], " → ".join(found.flow))
        steps.get(found.step or "", plan).append(said)
    for kind, step, detail, *_ in proof.obligations:
        if kind is Duty.APPROVE:
            steps[step].append(Said(Saying.ASKS, detail))
        else:
            steps[step].append(Said(Saying.SEES_TO, _DUTIES[kind] + (f" ({detail})" if detail else "")))
    told = {step: tuple(dict.fromkeys(said)) for step, said in steps.items() if said}
    return Held(proof.policy.name, not proof.ok, told, tuple(plan))


def dry_run_of(
    plan: Steps,
    facts: Mapping[str, ToolFacts],
    inputs: Mapping[str, JSON],
    assumed: Mapping[str, JSON],
    needs_approval: NeedsApproval = (),
    price: float | None = None,
    findings: Findings | None = None,
) -> DryRun:
    """The dry run of a plan that the checks have let pass.

    Raises CallsheetError: RUN040 for an assumption about no step, and what the machine would
    refuse the plan for.
    """
    check_assumed(plan, assumed)
    compile_plan(plan, facts)
    knowledge = Knowledge(
        facts=facts,
        assumed=assumed,
        compute=work_out,
        ask_model=expected_use,
        needs_approval=_predicate(needs_approval),
    )
    forecast = foresee(plan, inputs, knowledge)
    return DryRun(forecast, totals_of(forecast), price, findings or Findings())


def either(rules: Iterable[str], more: NeedsApproval) -> Callable[[str], bool]:
    """The calls before which a person is asked by the rules of a run, or by further ones."""
    by_rule, by_more = _predicate(rules), _predicate(more)
    return lambda tool: by_rule(tool) or by_more(tool)


def check_assumed(plan: Steps, assumed: Iterable[str]) -> None:
    """Raise CallsheetError (RUN040) where a result is assumed of what has none."""
    calls = {step.id: isinstance(step.action, Call) for step in plan.steps}
    for step_id in assumed:
        if step_id not in calls:
            near = did_you_mean(step_id, calls)
            help_ = (
                f"did you mean {' or '.join(near)}?" if near else "`callsheet graph` shows the ids of a plan"
            )
            message = f"there is no step {step_id[:60]} whose result could be assumed"
            raise CallsheetError.single("RUN040", message, help=help_)
        if not calls[step_id]:
            message = f"step {step_id} calls nothing, so it has no result to assume"
            raise CallsheetError.single(
                "RUN040", message, help="assume the result of a step that calls a tool"
            )


def _predicate(given: NeedsApproval) -> Callable[[str], bool]:
    if callable(given):
        return given
    said = "a list of names, or a function that says it of a name"
    if isinstance(given, str):
        raise wrong("needs_approval", given, said)
    names = tuple(
        canonical_tool_name(wanted("needs_approval", name, str, said))
        for name in wanted_list("needs_approval", given, "names")
    )
    return lambda tool: covers(names, tool)
