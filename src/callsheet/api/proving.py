"""Proves a plan against a policy and the available tools, before anything runs.

In: a plan, a policy, a registry, the run's inputs, what the runtime guarantees. Out: a `Proof`, with a
located diagnostic for each violation, for each obligation that the settings do not meet, and for steps that
would write a protected file. Nothing is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_network
from typing import Any

from callsheet.api.arguments import names_of
from callsheet.api.plan import Plan as ReadPlan
from callsheet.api.policy_entries import bind_policy, with_hints
from callsheet.api.requirements import with_inverses
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source
from callsheet.ir import Call, Plan, Step, plan_hash
from callsheet.ir.labels import LITERAL, Label
from callsheet.ir.plan import called_names
from callsheet.machine import PolicyRefusal
from callsheet.passes import in_words_of
from callsheet.passes.verify import NOTHING_LEFT, PersistedLabels, StepLabels, Verdict, Violation, verify
from callsheet.passes.verify.call_views import ViewContext, call_views, tool_of
from callsheet.policy.addresses import AllowedHosts
from callsheet.policy.builtins import approver_of, fold, traits_of
from callsheet.policy.calls import CODES, CallView, Duty, Obligation, Rule
from callsheet.policy.judge import Judge
from callsheet.policy.model import WHETHER, Policy
from callsheet.policy.overwriting import HINT, may_overwrite
from callsheet.ports.builtin import ExecutionSettings, FetchSettings
from callsheet.ports.tools import Registry
from callsheet.runtime.gateway import Unmet
from callsheet.runtime.remaining import places_of, rewritten

_BUILTIN = "builtin"
_SHOWS = "shows it only the files that its call declares, and no secret"


@dataclass(frozen=True, slots=True)
class Guarantees:
    """What a runtime guarantees: how it fetches pages and runs code, and whether labels outlive a run.

    `workspace` is the folder of the file tools. `files` are the absolute paths of the files that configure
    the runtime; no call under a policy may write them.
    """

    registry: Registry
    fetch: FetchSettings | None = None
    execution: ExecutionSettings | None = None
    keeps_labels: bool = True
    workspace: str = ""
    files: tuple[str, ...] = ()


def unmet(
    obligations: Iterable[Obligation], plan: Plan, policy: Policy, guarantees: Guarantees
) -> tuple[Diagnostic, ...]:
    """Diagnostics for the obligations that are not met; an error among them refuses the plan."""
    diagnostics: dict[Diagnostic, None] = {}
    for obligation in obligations:
        for diagnostic in _unmet(obligation, policy, guarantees):
            step = plan.step(obligation.step)
            span = None if step is None else step.action.span or step.span
            diagnostics[replace(diagnostic, span=span, step=obligation.step)] = None
    return tuple(diagnostics)


def _unmet(obligation: Obligation, policy: Policy, guarantees: Guarantees) -> Iterator[Diagnostic]:
    match obligation.kind:
        case Duty.SSRF_GUARD:
            tool = guarantees.registry.get(obligation.tool)
            if tool is not None and tool.spec.origin != _BUILTIN:
                yield _of_another(obligation, "reaches only public addresses")
            elif guarantees.fetch is not None:
                yield from map(_private_host, untrusted_hosts(policy, guarantees.fetch))
        case Duty.SANDBOX:
            tool = guarantees.registry.get(obligation.tool)
            if tool is not None and tool.spec.origin != _BUILTIN:
                yield _of_another(obligation, f"runs code without a network, and {_SHOWS}")
            elif guarantees.execution is not None and (
                guarantees.execution.network or guarantees.execution.require != "sandbox"
            ):
                yield _network()
        case Duty.FILES if policy.exec_network:
            tool = guarantees.registry.get(obligation.tool)
            if tool is not None and tool.spec.origin != _BUILTIN:
                yield _of_another(obligation, _SHOWS)
            elif guarantees.execution is not None and guarantees.execution.require != "sandbox":
                yield _SEES_FILES
        case Duty.FILES:
            pass  # SANDBOX asks for as much
        case Duty.STORE_LABEL:
            if obligation.weakens and not guarantees.keeps_labels:
                yield _forgets(obligation)
        case Duty.VERIFY_AGAIN | Duty.APPROVE:
            pass  # always met: the gateway proves new plans, the machine judges each call and asks


def undertaking(guarantees: Callable[[], Guarantees]) -> Unmet:
    """What a new plan of a run relies on that is not among these guarantees, for the run's ports."""

    def missing(plan: Plan, policy: Policy, obligations: Sequence[Obligation]) -> tuple[Diagnostic, ...]:
        held = guarantees()
        policy = policy.with_files(held.files)
        return (*unmet(obligations, plan, policy, held), *rewriting(plan, policy, held))

    return missing


def untrusted_hosts(policy: Policy, fetch: FetchSettings) -> list[str]:
    """The entries of `allow_private_hosts` that are in no audience of the policy."""
    known = AllowedHosts.parse(host for audience in policy.audiences for host in audience.hosts)
    return [entry for entry in fetch.allow_private_hosts if not _covers(known, entry)]


def _covers(known: AllowedHosts, entry: str) -> bool:
    """Whether every host that a configuration entry matches belongs to an audience."""
    name = entry.strip().lower().removesuffix(".")
    if name == "*":
        return known.everything
    try:
        network = ip_network(name.strip("[]"), strict=False)
    except ValueError:
        if name.startswith("*."):
            return known.everything or f"x{name[1:]}".endswith(known.suffixes)
        return known.allow_name(name)
    return any(
        network.version == other.version and network.subnet_of(other)  # pyright: ignore[reportArgumentType]
        for other in known.networks
    )


_SEES_FILES = Diagnostic(
    "POL121",
    Severity.ERROR,
    "code may run without a sandbox here, where nothing hides secrets and files that it does not declare",
    help='set require = "sandbox"; `callsheet doctor` says whether this machine has one',
)


def _private_host(entry: str) -> Diagnostic:
    return Diagnostic(
        "POL118",
        Severity.ERROR,
        f"the configuration allows fetching from {entry}, which no audience of the policy has",
        help="remove it from allow_private_hosts, or add it to an audience of the policy",
    )


def _of_another(obligation: Obligation, what: str) -> Diagnostic:
    return Diagnostic(
        "POL119",
        Severity.WARNING,
        f"the proof assumes that @{obligation.tool} {what}, and this is not the built-in tool",
        help="make sure that it does",
    )


def _network() -> Diagnostic:
    return Diagnostic(
        "POL010",
        Severity.ERROR,
        "the policy requires a sandbox without a network for code, which is not guaranteed here",
        help="remove --allow-unsandboxed, or declare in the policy that code reaches the network",
    )


def _forgets(obligation: Obligation) -> Diagnostic:
    return Diagnostic(
        "POL120",
        Severity.ERROR,
        f"data with the label {obligation.detail} would be stored where later runs assume a less strict "
        "label",
        help="record the run in a journal: labels are stored beside it",
    )


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


@dataclass(frozen=True, slots=True, repr=False)
class Proof:
    """The result of proving a plan against a policy.

    `policy` is bound to the available tools. `doubts` are diagnostics about the policy's entries and the
    runtime's settings; an error among them refuses the plan too. `registry` and `assumed` are those of the
    proof, so that another policy can be tried.
    """

    plan: Plan
    policy: Policy
    verdict: Verdict
    doubts: tuple[Diagnostic, ...] = ()
    registry: Registry | None = None
    assumed: Assumptions | None = None

    @property
    def ok(self) -> bool:
        """Whether the plan may run."""
        return self.verdict.ok and not any(doubt.is_error for doubt in self.doubts)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All diagnostics: first the doubts, then the violations in the order of the steps."""
        found = (*self.doubts, *map(diagnostic_of, _once_each(self.verdict.violations)))
        return in_words_of(self.plan, found)

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
            raise PolicyRefused(wrong, source, self)

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

    The command line ends with exit status 3. `proof` is that of the plan, if there is one.
    """

    def __init__(
        self, diagnostics: Sequence[Diagnostic], source: Source | None = None, proof: Proof | None = None
    ) -> None:
        super().__init__(diagnostics, source)
        self.proof = proof


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
    if registry is not None:
        plan = with_inverses(plan, registry)
    bound, doubts = (policy, ()) if registry is None else bind_policy(policy, registry, _may_call(plan))
    approved = frozenset(names_of(assumed.approved, "approved"))
    bound = replace(bound, approved=bound.approved | approved)
    doubts = (*doubts, *_not_ahead(plan, bound, approved))
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
    return Proof(plan, bound, verdict, doubts, registry, assumed)


def _not_ahead(plan: Plan, policy: Policy, approved: frozenset[str]) -> Iterator[Diagnostic]:
    """A warning for each step that was approved before the run though somebody with a role has to do it."""
    for step in plan.steps if approved else ():
        role = approver_of(policy, tool_of(step))
        if role and {step.id, f"{step.id}{WHETHER}"} & approved:
            yield Diagnostic(
                "POL012",
                Severity.WARNING,
                f"the approval of {step.id} before the run does not count: the policy wants that of somebody"
                f" with the role {role}, who is asked during the run",
                step.span,
                step=step.id,
            )


def _may_call(plan: Plan) -> frozenset[str] | None:
    """The folded names of the tools that a plan may call; None if a model chooses some during the run."""
    if plan.is_open:
        return None
    return frozenset(fold(name) for name in called_names(plan))


def _parameters(registry: Registry) -> dict[str, tuple[str, ...]]:
    return {
        name: tool.spec.parameter_names
        for own, tool in zip(registry.names(), registry, strict=True)
        for name in registry.names_of(own)
    }


def _once_each(violations: Iterable[Violation]) -> Iterator[Violation]:
    """The violations, once for each call: a function that calls itself has copies of it."""
    seen: set[tuple[object, ...]] = set()
    for one in violations:
        key = one.rule, one.message, one.span
        if one.span is None or key not in seen:
            yield one
        seen.add(key)


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
