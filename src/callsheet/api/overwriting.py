"""Finds steps of a plan that would write a protected file, as far as the plan contains the path.

In: a plan, a policy that names the files, how the runtime is set up. Out: POL106 for each such step. What
only the real values tell is refused when the call is about to leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from callsheet.api.obligations import Guarantees
from callsheet.diagnostics import Diagnostic, Severity
from callsheet.ir import Call, Plan, Step
from callsheet.ir.labels import LITERAL, Label
from callsheet.passes.verify.call_views import ViewContext, call_views
from callsheet.policy.builtins import fold, traits_of
from callsheet.policy.calls import CODES, CallView, Rule
from callsheet.policy.model import Policy
from callsheet.policy.overwriting import HINT, may_overwrite
from callsheet.runtime.remaining import places_of, rewritten


def rewriting(plan: Plan, policy: Policy, guarantees: Guarantees) -> Iterator[Diagnostic]:
    """What is to be said of steps that would write one of the policy's files."""
    if not policy.files:
        return
    protected: Mapping[str, str] | None = None
    for step in plan.steps:
        action = step.call
        if action is None:
            continue
        traits = traits_of(policy, fold(action.tool))
        if not may_overwrite(action.tool, _names(action), traits):
            continue
        if protected is None:
            protected = places_of(policy.files)
        for call in _calls(step, guarantees):
            why = rewritten(protected, guarantees.workspace, call, traits)
            if why is not None:
                span = action.span or step.span
                yield Diagnostic(CODES[Rule.PATH], Severity.ERROR, why, span, HINT, step=step.id)
                break


def _names(call: Call) -> Iterator[str]:
    """The names of the arguments, those without one by their places."""
    yield from map(str, range(len(call.positional)))
    yield from (name for name, _ in call.named)


def _calls(step: Step, guarantees: Guarantees) -> list[CallView]:
    def parameters(tool: str) -> tuple[str, ...]:
        tool_port = guarantees.registry.get(tool)
        return () if tool_port is None else tool_port.spec.parameter_names

    return call_views(step, ViewContext(_label_of, {}, LITERAL, parameters), LITERAL)


def _label_of(_name: str) -> Label:
    return LITERAL
