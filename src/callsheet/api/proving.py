"""Proves a plan against a policy and the available tools, before anything runs.

In: a plan, a policy, a registry, the run's inputs. Out: a `Proof`, with a located diagnostic for each
violation. Nothing is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from callsheet.api.arguments import names_of
from callsheet.api.binding import bind_policy
from callsheet.api.entries import with_hints
from callsheet.api.obligations import Guarantees, unmet
from callsheet.api.overwriting import rewriting
from callsheet.api.plan import Plan as ReadPlan
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source
from callsheet.ir import Plan, plan_hash
from callsheet.ir.labels import Label
from callsheet.ir.plan import called_names
from callsheet.machine import PolicyRefusal
from callsheet.passes.verify import NOTHING_LEFT, PersistedLabels, StepLabels, Verdict, Violation, verify
from callsheet.policy.builtins import fold
from callsheet.policy.calls import CODES, Obligation, Rule
from callsheet.policy.judge import Judge
from callsheet.policy.model import Policy
from callsheet.ports.tools import Registry


@dataclass(frozen=True, slots=True, repr=False)
class Proof:
    """The result of proving a plan against a policy.

    `policy` is bound to the available tools. `doubts` are diagnostics about the policy's entries and the
    runtime's settings; an error among them refuses the plan too.
    """

    plan: Plan
    policy: Policy
    verdict: Verdict
    doubts: tuple[Diagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the plan may run."""
        return self.verdict.ok and not any(doubt.is_error for doubt in self.doubts)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All diagnostics: first the doubts, then the violations in the order of the steps."""
        return (*self.doubts, *map(diagnostic_of, self.verdict.violations))

    @property
    def obligations(self) -> tuple[Obligation, ...]:
        """What the runtime has to ensure for the proof to hold."""
        return self.verdict.obligations

    @property
    def steps(self) -> Sequence[StepLabels]:
        """The labels of each step's data."""
        return self.verdict.steps

    def __str__(self) -> str:
        """The verdict and the objections, a line each."""
        objections = [d for d in self.diagnostics if d.is_error]
        count = f"{len(objections)} objection{'' if len(objections) == 1 else 's'}"
        verdict = "accepts the plan" if self.ok else f"refuses the plan: {count}"
        places = (f"{d.step}: " if d.step else "" for d in objections)
        lines = (f"  {place}{d.message} ({d.code})" for place, d in zip(places, objections, strict=True))
        return "\n".join((f"the policy {self.policy.name} {verdict}", *lines))

    def __repr__(self) -> str:
        codes = ", ".join(dict.fromkeys(d.code for d in self.diagnostics if d.is_error))
        return f"<Proof by {self.policy.name}: {'ok' if self.ok else codes}>"

    def under(self, guarantees: Guarantees) -> Proof:
        """The proof for this runtime, which names more files that no call may write.

        Its diagnostics include the obligations that the runtime does not meet, and the steps that would write
        one of the protected files.
        """
        policy = self.policy.with_files(guarantees.files)
        findings = (
            *unmet(self.obligations, self.plan, policy, guarantees),
            *rewriting(self.plan, policy, guarantees),
        )
        return replace(self, policy=policy, doubts=(*self.doubts, *findings))

    def raise_if_refused(self, source: Source | None = None) -> None:
        """Raise PolicyRefused with all errors, if there are any; `source` is the text of the plan."""
        wrong = [d for d in self.diagnostics if d.is_error]
        if wrong:
            raise PolicyRefused(wrong, source)

    def to_json(self) -> dict[str, Any]:
        """The proof as JSON data."""
        return {
            "ok": self.ok,
            "policy": self.policy.name,
            "plan_hash": plan_hash(self.plan),
            "violations": [violation_to_json(violation) for violation in self.verdict.violations],
            "obligations": [obligation.to_json() for obligation in self.obligations],
        }


class PolicyRefused(CallsheetError):
    """A policy refuses a plan, of which nothing has run, or the rest of a run that is resumed.

    The command line ends with exit status 3.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What a proof assumes about the run of the plan.

    `inputs` are the names of the run's variables, labelled by `labels`, else by the policy. `approved` are
    ids of steps that a person has approved. With `can_ask=False` calls that need approval are refused. `left`
    are the labels of files that earlier runs wrote.
    """

    inputs: Iterable[str] = ()
    labels: Mapping[str, Label] | None = None
    approved: Iterable[str] = ()
    can_ask: bool = True
    left: PersistedLabels = NOTHING_LEFT


NO_ASSUMPTIONS = Assumptions()


def prove(
    plan: Plan,
    policy: Policy,
    registry: Registry | None = None,
    assumed: Assumptions = NO_ASSUMPTIONS,
    *,
    not_asked: str | None = None,
) -> Proof:
    """Prove a plan against a policy.

    Without a `registry` the policy's entries are used as written. `not_asked` names, for messages, a place
    that may have further tools and was not queried.
    """
    bound, doubts = (policy, ()) if registry is None else bind_policy(policy, registry, _may_call(plan))
    bound = replace(bound, approved=bound.approved | frozenset(names_of(assumed.approved, "approved")))
    verdict = verify(
        plan,
        Judge(bound),
        inputs={**dict.fromkeys(assumed.inputs, bound.inputs), **(assumed.labels or {})},
        parameters={} if registry is None else _parameters(registry),
        can_ask=assumed.can_ask,
        left=assumed.left,
    )
    if registry is not None and not verdict.ok:
        verdict = replace(verdict, violations=with_hints(verdict, plan, policy, registry, not_asked))
    return Proof(plan, bound, verdict, doubts)


def _may_call(plan: Plan) -> frozenset[str] | None:
    """The folded names of the tools that a plan may call; None if a model chooses some during the run."""
    if any(step.is_open for step in plan.steps):
        return None
    return frozenset(fold(name) for name in called_names(plan))


def _parameters(registry: Registry) -> dict[str, tuple[str, ...]]:
    return {
        name: tool.spec.parameter_names
        for own, tool in zip(registry.names(), registry, strict=True)
        for name in registry.names_of(own)
    }


def diagnostic_of(violation: Violation) -> Diagnostic:
    """A violation as a diagnostic at its step."""
    path = f" ({' → '.join(violation.flow)})" if violation.flow else ""
    message = f"{violation.message}{path}"
    code = CODES[violation.rule]
    return Diagnostic(code, Severity.ERROR, message, violation.span, violation.help, step=violation.step)


def violation_to_json(violation: Violation) -> dict[str, Any]:
    """A violation as JSON data."""
    return {
        "step": violation.step,
        "code": CODES[violation.rule],
        "rule": str(violation.rule),
        "message": violation.message,
        "argument": violation.argument,
        "flow": list(violation.flow),
        "help": violation.help,
    }


def objections_by(prove_plan: Callable[[Plan], Proof]) -> Callable[[ReadPlan], tuple[Diagnostic, ...]]:
    """A function that returns the errors of the proof of a plan that a model made."""

    def objections(plan: ReadPlan) -> tuple[Diagnostic, ...]:
        return tuple(d for d in prove_plan(plan.ir).diagnostics if d.is_error)

    return objections


def refused_by(objection: PolicyRefusal) -> PolicyRefused:
    """The error for a call in progress that a policy refuses."""
    code, message = CODES[Rule(objection.rule)], f"{objection.message} ({objection.step} is under way)"
    return PolicyRefused(
        [Diagnostic(code, Severity.ERROR, message, help=objection.help, step=objection.step)]
    )
