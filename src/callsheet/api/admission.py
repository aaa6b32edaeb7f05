"""Admits plans, and the sessions of clients: every face checks, proves and launches a run here, nowhere else.

A plan is checked against the tools, then proved under the policy, and only then is there a launch; nothing is
recorded and no tool is called, and all errors are told at once. What the plan of a session will call is not
known, so it is not proved: each call is judged when it is made, with the label of all that the session has
read (`machine.agents`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from callsheet import ir
from callsheet.api.checking import NO_PROVIDERS, Providers, check_plan, idle_inputs, idle_rules
from callsheet.api.findings import PlanError
from callsheet.api.requirements import AgentRules, facts_of, pins_of, servers_of, with_inverses, wrong_tools
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, did_you_mean
from callsheet.lazy import NamedTuple, dataclass
from callsheet.machine import Limits, Program, ToolFacts, compile_plan
from callsheet.machine.program import Loop
from callsheet.passes import in_words_of
from callsheet.policy.model import Policy
from callsheet.ports.tools import Registry
from callsheet.runtime.launch import Launch
from callsheet.sealing.known import SHORTEST, Known
from callsheet.store.start import labels_of_inputs

if TYPE_CHECKING:
    from callsheet.api.proving import Guarantees
    from callsheet.passes.verify import PersistedLabels
    from callsheet.ports.mcp import ServerStatus
    from callsheet.runtime.forking import Draft, Revision


def _as_they_are(_: ir.Plan, diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(diagnostics)


def _nothing_left() -> PersistedLabels:
    from callsheet.passes.verify import NOTHING_LEFT  # noqa: PLC0415 - brings the verifier, only under a policy

    return NOTHING_LEFT


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """What a run has at hand: the open tools, what the runtime guarantees, and what earlier runs left.

    `doubts` are diagnostics about servers and `not_asked` a place that may have further tools. `guarantees`
    and `left` (the labels of files that earlier runs wrote) are asked only under a policy. `advise` puts help
    into the words of the face.
    """

    registry: Registry
    guarantees: Callable[[], Guarantees]
    left: Callable[[], PersistedLabels] = _nothing_left
    agents: AgentRules | None = None
    providers: Providers = NO_PROVIDERS
    servers: tuple[ServerStatus, ...] = ()
    doubts: tuple[Diagnostic, ...] = ()
    not_asked: str | None = None
    on_in_doubt: ir.OnInDoubt = ir.OnInDoubt.ASK
    known: Known = field(default_factory=Known)
    """The credentials of the tools."""
    workspace: str = ""
    advise: Callable[[ir.Plan, Iterable[Diagnostic]], tuple[Diagnostic, ...]] = _as_they_are

    def facts(self, plan: ir.Plan) -> dict[str, ToolFacts]:
        """The machine's facts about the tools that a plan may call."""
        return facts_of(plan, self.registry, self.on_in_doubt, self.agents)

    def pins(self, plan: ir.Plan) -> dict[str, str]:
        """The pins of the tools that a plan may call."""
        return pins_of(plan, self.registry, self.agents)

    def sources(self, plan: ir.Plan, policy: Policy | None) -> dict[str, ir.JSON]:
        """The server of each server tool that a plan may call; empty without open servers."""
        return servers_of(plan, self.registry, self.servers, self.agents, policy) if self.servers else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A plan that somebody wants to run.

    `findings` are the notes of its reader, and of what else the face has looked at; an error among them
    refuses it. `inputs` are all
    variables, those named in `secret` among them, and those in `untrusted`, which somebody else than the
    user has chosen. `approve` are all rules for approvals; `own_approve` and
    `own_limits` are the tools that this request itself names in such rules and in limits, in contrast to the
    settings, which are for all plans. `approved` are the steps that a person has approved. With `can_ask` a
    call that needs approval can wait for one. `note` is recorded with the run. `done` are the results of
    steps that another program has completed, None for a run from the start.
    """

    plan: ir.Plan
    source: Source | None = None
    findings: tuple[Diagnostic, ...] = ()
    inputs: Mapping[str, ir.JSON] = field(default_factory=dict[str, ir.JSON])
    secret: frozenset[str] = frozenset()
    untrusted: frozenset[str] = frozenset()
    limits: Limits = field(default_factory=Limits)
    policy: Policy | None = None
    approve: tuple[str, ...] = ()
    approval_timeout: Mapping[str, float] = field(default_factory=dict[str, float])
    own_approve: tuple[str, ...] = ()
    own_limits: tuple[str, ...] = ()
    approved: tuple[str, ...] = ()
    can_ask: bool = True
    note: Mapping[str, ir.JSON] = field(default_factory=dict[str, ir.JSON])
    done: Mapping[str, ir.JSON] | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that is ready to begin: checked, proved, launched. Only `prepare` makes one.

    `known` are the credentials of its tools; `diagnostics` are the warnings and hints about it.
    """

    plan: ir.Plan
    launch: Launch
    known: Known
    diagnostics: tuple[Diagnostic, ...] = ()
    done: Mapping[str, ir.JSON] | None = None
    workspace: str = ""


class _Terms(NamedTuple):
    """What the admission of a plan depends on, besides the plan."""

    inputs: frozenset[str]
    secret: frozenset[str]
    untrusted: frozenset[str]
    approved: tuple[str, ...]
    policy: Policy | None
    can_ask: bool
    left: PersistedLabels | None
    """What earlier runs left; None without a policy, which asks for nothing."""
    registry: Registry
    agents: AgentRules | None
    providers: Providers
    doubts: tuple[Diagnostic, ...]
    not_asked: str | None
    on_in_doubt: ir.OnInDoubt


class _Admitted(NamedTuple):
    """What is the same for all runs of a plan on the same terms."""

    diagnostics: tuple[Diagnostic, ...]
    facts: Mapping[str, ToolFacts]
    pins: Mapping[str, str]
    program: Program | None
    policy: Policy | None


class AdmittedPlans:
    """A cache of at most `most` admitted plans, so that further runs of them start faster.

    Plans are compared by identity, as they are before the inverses of their tools are added. The least
    recently used are dropped, and none is kept that has more than `MOST_STEPS` steps. An admission counts
    only on the same terms: the same tools and policy, the same names of inputs, and the same labels left by
    earlier runs.
    """

    MOST_STEPS = 20_000

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._entries: OrderedDict[tuple[int, frozenset[str]], tuple[ir.Plan, _Terms, _Admitted]] = (
            OrderedDict()
        )
        self._wholes: OrderedDict[int, tuple[ir.Plan, Registry, ir.Plan]] = OrderedDict()

    def whole(self, plan: ir.Plan, registry: Registry, make: Callable[[], ir.Plan]) -> ir.Plan:
        """What `make` gives for a plan with these tools, each time the same object."""
        known = self._wholes.get(id(plan))
        if known is not None and known[1] is registry:
            self._wholes.move_to_end(id(plan))
            return known[2]
        made = make()
        if made is not plan and len(plan.steps) <= self.MOST_STEPS:
            self._wholes[id(plan)] = plan, registry, made
            if len(self._wholes) > self._most:
                self._wholes.popitem(last=False)
        return made

    def get(self, request: Request, equipment: Equipment, left: PersistedLabels | None) -> _Admitted | None:
        """The admission of a request on the same terms; None if it is not there."""
        place = id(request.plan), frozenset(request.inputs)
        entry = self._entries.get(place)
        if entry is None or entry[1] != _terms(request, equipment, left):
            return None
        self._entries.move_to_end(place)
        return entry[2]

    def put(
        self, request: Request, equipment: Equipment, left: PersistedLabels | None, admitted: _Admitted
    ) -> _Admitted:
        """Keep an admission, and its compiled plan, which is returned with it."""
        plan = request.plan
        if len(plan.steps) > self.MOST_STEPS:
            return admitted
        admitted = admitted._replace(program=compile_plan(plan, admitted.facts))
        place = id(plan), frozenset(request.inputs)  # the plan is kept: its id must not be another's
        self._entries[place] = plan, _terms(request, equipment, left), admitted
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)
        return admitted

    def clear(self) -> None:
        """Drop everything, because the tools have changed."""
        self._entries.clear()
        self._wholes.clear()


def _terms(request: Request, equipment: Equipment, left: PersistedLabels | None) -> _Terms:
    return _Terms(
        frozenset(request.inputs),
        request.secret,
        request.untrusted,
        request.approved,
        request.policy,
        request.can_ask,
        left,
        equipment.registry,
        equipment.agents,
        equipment.providers,
        equipment.doubts,
        equipment.not_asked,
        equipment.on_in_doubt,
    )


def prepare(
    request: Request,
    equipment: Equipment,
    cache: AdmittedPlans | None = None,
    tell: Callable[[tuple[Diagnostic, ...]], None] = lambda _: None,
) -> Prepared:
    """Check a plan, prove it under the policy, and collect what its run starts with.

    `tell` hears the warnings and hints as soon as they are known, even if the proof then fails. `cache` keeps
    admitted plans. Raises PlanError with all findings for a plan with errors, PolicyRefused, CallsheetError
    (CFG011) for secrets and approvals of nothing.
    """
    written, registry = request.plan, equipment.registry

    def make() -> ir.Plan:
        return _whole(written, registry, request.source)

    whole = make() if cache is None else cache.whole(written, registry, make)
    request = _with_secret_inputs(replace(request, plan=whole))
    plan, policy = request.plan, request.policy
    _check_names(request)
    if plan.tree is not None:
        _refuse_errors(_wrong_inputs(request), request.source)
    wrong = any(d.is_error for d in request.findings)
    left = None if policy is None else equipment.left()
    admitted = None if cache is None or wrong else cache.get(request, equipment, left)
    if admitted is None:
        admitted = _admit(request, equipment, left, tell)
        if cache is not None:
            admitted = cache.put(request, equipment, left, admitted)
    of_request = _of_request(request)
    tell(of_request)
    sources = equipment.sources(plan, admitted.policy)
    launch = Launch(
        facts=admitted.facts,
        pins=admitted.pins,
        inputs=request.inputs,
        limits=request.limits,
        source="" if request.source is None else request.source.text,
        note={**request.note, **({"servers": sources} if sources else {})},
        approve=request.approve,
        approval_timeout=request.approval_timeout,
        program=admitted.program,
        policy=admitted.policy,
        verified="" if admitted.policy is None else ir.plan_hash(plan),
        secret=request.secret,
        untrusted=request.untrusted,
    )
    diagnostics = (*request.findings, *admitted.diagnostics, *of_request)
    return Prepared(plan, launch, equipment.known, diagnostics, request.done, equipment.workspace)


def _whole(plan: ir.Plan, registry: Registry, source: Source | None) -> ir.Plan:
    """The plan with the inverses of its tools; raises PlanError for an ON_FAIL UNDO that has none."""
    try:
        return with_inverses(plan, registry)
    except CallsheetError as error:
        raise PlanError(error.diagnostics, source) from None


def _with_secret_inputs(request: Request) -> Request:
    """The request in which the values of SECRET inputs are secrets, however they are given, defaults too."""
    if request.plan.tree is None:
        return request
    from callsheet.ir.inputs import secret_inputs  # noqa: PLC0415 - only for version 2

    found = secret_inputs(request.plan.tree, request.inputs)
    return replace(request, inputs={**request.inputs, **found}, secret=request.secret | found.keys())


def _wrong_inputs(request: Request) -> tuple[Diagnostic, ...]:
    """What is missing, unknown or of another type among the inputs of a plan of version 2."""
    if request.plan.tree is None:
        return ()
    from callsheet.ir.inputs import read_inputs  # noqa: PLC0415 - only for version 2

    return in_words_of(request.plan, read_inputs(request.plan.tree, request.inputs).diagnostics)


def examine(request: Request, equipment: Equipment) -> tuple[Diagnostic, ...]:
    """All findings about a plan with these tools and inputs; nothing is raised."""
    return (*_examined(request, equipment), *_of_request(request))


def revise(draft: Draft, equipment: Equipment) -> Revision:
    """Check and prove the edited plan of a fork, and collect its tools' facts.

    Raises PlanError for a plan with errors, PolicyRefused for one that the run's policy refuses.
    """
    from callsheet.runtime.forking import Revision  # noqa: PLC0415 - only for edited plans

    plan, start = _whole(draft.plan, equipment.registry, None), draft.start
    found = (*equipment.doubts, *checked(plan, start.inputs, equipment))
    _refuse_errors(found, None)
    policy = None
    if draft.policy is not None:
        labels = Request(
            plan=plan,
            inputs=start.inputs,
            secret=frozenset(start.secret),
            untrusted=frozenset(start.untrusted),
            policy=draft.policy,
        )
        policy, _ = _proved(labels, equipment, equipment.left())
    sources = equipment.sources(plan, policy)
    return Revision(plan, equipment.facts(plan), equipment.pins(plan), policy, sources)


def admit_new_plan(
    plan: ir.Plan,
    variables: Mapping[str, ir.JSON],
    registry: Registry,
    agents: AgentRules | None,
    on_in_doubt: ir.OnInDoubt,
) -> dict[str, ToolFacts]:
    """The facts about the tools of a plan that a run has made itself; raises CallsheetError with its errors.

    It is proved, under a policy, by the gateway of the run, which knows the labels of its values.
    """
    found = (*check_plan(plan, registry, variables), *wrong_tools(plan, registry, agents))
    errors = [d for d in found if d.is_error]
    if errors:
        raise CallsheetError(errors)
    return facts_of(plan, registry, on_in_doubt, agents)


# ---------------------------------------------------------------- check, then prove


def _admit(
    request: Request,
    equipment: Equipment,
    left: PersistedLabels | None,
    tell: Callable[[tuple[Diagnostic, ...]], None],
) -> _Admitted:
    plan = request.plan
    found = _examined(request, equipment)
    _refuse_errors((*found, *(d for d in request.findings if d.is_error)), request.source)
    tell((*request.findings, *found))
    policy, proved = _proved(request, equipment, left)
    tell(proved)
    return _Admitted((*found, *proved), equipment.facts(plan), equipment.pins(plan), None, policy)


def _examined(request: Request, equipment: Equipment) -> tuple[Diagnostic, ...]:
    """The findings about the plan with its tools and the names of its inputs."""
    plan, inputs = request.plan, request.inputs
    return (*equipment.doubts, *checked(plan, inputs, equipment), *idle_inputs(plan, inputs))


def checked(plan: ir.Plan, inputs: Collection[str], equipment: Equipment) -> tuple[Diagnostic, ...]:
    """The findings about a plan with these tools and variables, apart from those about servers."""
    registry, not_asked = equipment.registry, equipment.not_asked
    return equipment.advise(
        plan,
        (
            *check_plan(plan, registry, inputs, not_asked=not_asked, providers=equipment.providers),
            *wrong_tools(plan, registry, equipment.agents, not_asked=not_asked),
        ),
    )


def _refuse_errors(found: tuple[Diagnostic, ...], source: Source | None) -> None:
    if any(d.is_error for d in found):
        raise PlanError(found, source)


def _proved(
    request: Request, equipment: Equipment, left: PersistedLabels | None
) -> tuple[Policy | None, tuple[Diagnostic, ...]]:
    """The policy, bound to the tools, after it has accepted the plan; and the warnings of the proof."""
    if request.policy is None or left is None:
        return None, ()
    from callsheet.api.proving import Assumptions, prove  # noqa: PLC0415 - only under a policy

    assumed = Assumptions(
        inputs=request.inputs,
        labels=labels_of_inputs(request.policy, request.secret, request.untrusted),
        approved=request.approved,
        can_ask=request.can_ask,
        left=left,
    )
    proof = prove(request.plan, request.policy, equipment.registry, assumed).under(equipment.guarantees())
    if request.policy.observes:
        return proof.policy, tuple(map(_observed, proof.diagnostics))
    proof.raise_if_refused(request.source)
    return proof.policy, tuple(proof.diagnostics)


def _observed(diagnostic: Diagnostic) -> Diagnostic:
    """An objection of a policy that only observes: the plan runs all the same."""
    if not diagnostic.is_error:
        return diagnostic
    message = f"would be refused: {diagnostic.message}"
    return replace(diagnostic, severity=Severity.WARNING, message=message)


# ---------------------------------------------------------------- the request itself


def _check_names(request: Request) -> None:
    """Raise CallsheetError (CFG011) for secrets and approvals of nothing."""
    unknown = sorted(request.secret - request.inputs.keys())
    if unknown:
        raise CallsheetError.single("CFG011", f"{unknown[0]} is named as a secret, but has no value")
    if request.approved and request.policy is None:
        raise CallsheetError.single("CFG011", "steps are approved, but no policy requires approval")
    if not request.approved:
        return
    from callsheet.policy.model import WHETHER  # noqa: PLC0415 - only under a policy

    ids = [step.id for step in request.plan.steps]
    for given in request.approved:
        if given.removesuffix(WHETHER) not in ids:
            near = did_you_mean(given, ids)
            hint = f"did you mean {' or '.join(near)}?" if near else None
            raise CallsheetError.single("CFG011", f"the plan has no step {given[:40]!r}", help=hint)


def _of_request(request: Request) -> tuple[Diagnostic, ...]:
    """What is odd about the rules and the secrets of a request."""
    idle = ()
    if request.own_approve or request.own_limits:
        idle = idle_rules(request.plan, request.own_approve, request.own_limits)
    return (*idle, *short_secrets({name: request.inputs[name] for name in sorted(request.secret)}))


def short_secrets(secrets: Mapping[str, ir.JSON]) -> tuple[Diagnostic, ...]:
    """SEC006 for each secret that is too short to be found in other texts."""
    return tuple(
        Diagnostic(
            "SEC006",
            Severity.WARNING,
            f"the secret {name} has {len(secret)} character{'s' if len(secret) > 1 else ''}: "
            "it is encrypted as an input, but not recognized in other texts",
            help="use a longer secret, or run under a policy, whose labels track it",
        )
        for name, secret in secrets.items()
        if isinstance(secret, str) and len(secret) < SHORTEST
    )


def own_limits(limits: Limits, common: Limits) -> tuple[str, ...]:
    """The tools that a request limits, beyond those in the `common` limits, which are for all plans."""
    limited = {**limits.max_calls_by_tool, **limits.max_concurrency_by_tool}
    others = {**common.max_calls_by_tool, **common.max_concurrency_by_tool}
    return tuple(sorted(limited.keys() - others.keys()))


def own_rules(approve: Iterable[str], common: Iterable[str]) -> tuple[str, ...]:
    """The tools for which a request requires approval, beyond those in the `common` rules."""
    others = set(common)
    return tuple(name for name in dict.fromkeys(approve) if name not in others)


_OPERATION = "AGENT_SOLVE"
_JUDGED = "each of its calls is judged when it is made, and it is not resumed after a crash"


class UnprovedProgram(NamedTuple):
    """A program that is no plan, why it is none, and its inputs.

    Nothing is known of its calls before it makes them, except of which tools: `may_call`, with their effects.
    """

    text: str
    why: str
    inputs: Mapping[str, ir.JSON]
    may_call: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """A session that a client begins; with `program` the calls are those of a program, if a person agrees.

    `tools` are the canonical names of the tools that it may call. A person must approve each call of a tool
    in `approve`; `approval_timeout` and `note` are as in `admission.Request`.
    """

    client: str
    tools: tuple[str, ...]
    limits: Limits
    policy: Policy | None = None
    approve: tuple[str, ...] = ()
    approval_timeout: Mapping[str, float] = field(default_factory=dict[str, float])
    note: Mapping[str, ir.JSON] = field(default_factory=dict[str, ir.JSON])
    program: UnprovedProgram | None = None


def prepare_session(request: SessionRequest, equipment: Equipment) -> Prepared:
    """What the run of a session starts with; its policy is bound to the tools.

    Its diagnostics are about entries of the policy that do not hold as they are written.
    Limits on time and on models do not apply: a session lasts as long as its client, and asks no model.
    """
    plan, registry, rules = _plan(request), equipment.registry, AgentRules(request.tools)
    policy, doubts = request.policy, tuple[Diagnostic, ...]()
    if policy is not None:
        from callsheet.api.proving import Assumptions, prove  # noqa: PLC0415 - only under a policy

        proof = prove(plan, policy, registry, Assumptions(inputs=(), can_ask=True))
        policy, doubts = proof.policy, proof.doubts  # the verdict does not count
    facts = facts_of(plan, registry, equipment.on_in_doubt, rules)
    facts[_OPERATION] = ToolFacts(ir.Effect.LLM, loop=Loop(request.tools, is_most=True, is_session=True))
    sources = servers_of(plan, registry, equipment.servers, rules, policy)
    launch = Launch(
        facts=facts,
        pins=pins_of(plan, registry, rules),
        limits=replace(
            request.limits, max_model_calls=None, max_tokens=None, max_cost=None, max_seconds=None
        ),
        note={"plan": plan.title or "", **request.note, **({"servers": sources} if sources else {})},
        approve=(*request.approve, *([] if request.program is None else [_OPERATION])),
        approval_timeout=request.approval_timeout,
        policy=policy,
        verified="" if policy is None else ir.plan_hash(plan),
    )
    return Prepared(plan, launch, equipment.known, doubts, workspace=equipment.workspace)


def _plan(request: SessionRequest) -> ir.Plan:
    program = request.program
    if program is None:
        call = ir.Call(_OPERATION, (), (("goal", ir.Literal(f"the calls of {request.client}")),))
        return ir.Plan((ir.Step("S1", call),), title=f"session of {request.client}")
    given = (
        ("goal", ir.Literal(f"run a program that could not be proved ({program.why}); {_JUDGED}")),
        ("program", ir.Literal(program.text)),
        ("inputs", _constant(dict(program.inputs))),
        ("may_call", _constant([*program.may_call])),
    )
    title = f"unproved program of {request.client}"
    ends = ir.OnFail(then=ir.Terminate())
    runs = ir.Step("S1", ir.Call(_OPERATION, (), given), output=ir.Output("result"), on_fail=ends)
    return ir.Plan((runs, ir.Step("S2", ir.Respond((ir.Ref("result", ()),)))), title=title)


def _constant(value: ir.JSON) -> ir.Value:
    if isinstance(value, dict):
        return ir.DictExpr(tuple((name, _constant(item)) for name, item in value.items()))
    if isinstance(value, list):
        return ir.ListExpr(tuple(map(_constant, value)))
    return ir.Literal(value)
