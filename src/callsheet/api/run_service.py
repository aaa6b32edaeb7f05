"""The run service: every face starts, resumes, decides and cancels runs here; `run_branches` branches off.

In: a prepared run (`admission`) or the id of a recorded one, the open tools, a journal. Out: how the run
ended, or what it waits for. A run is recorded after it was admitted (for a branch: after the consent to its
effects), and a call is sent after it was recorded.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from callsheet.api.admission import Equipment, Prepared
from callsheet.api.policy_entries import bind_policy, other_pin, policy_name
from callsheet.api.proving import Guarantees, Proof, refused_by
from callsheet.api.requirements import AgentRules, absent_tools, names_for_agents, pins_of, refused_tools
from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.ir import JSON, Plan
from callsheet.ir.plan import called_names
from callsheet.lazy import NamedTuple, dataclass, deferred
from callsheet.machine import Limits, PolicyChanged
from callsheet.machine.machine import Observer
from callsheet.passes.verify import PersistedLabels
from callsheet.policy.builtins import fold
from callsheet.policy.canon import differences, policy_hash
from callsheet.policy.model import Policy
from callsheet.ports.tools import Registry
from callsheet.runtime.asking import Respondents
from callsheet.runtime.cancelling import PATIENCE, cancel_run
from callsheet.runtime.doubt import Resolution, RunOutcome, decide_calls, fold_run
from callsheet.runtime.event_loop import Offload, at_once, to_its_end
from callsheet.runtime.gateway import Ports
from callsheet.runtime.launch import Watch, check_pins, origin_change, start_of
from callsheet.runtime.remaining import left_in, prove_remaining
from callsheet.runtime.runs import (
    Amendments,
    BegunRun,
    PolicyFor,
    enlist_run,
    resume_run,
    run_unrecorded,
    start_run,
)
from callsheet.store import Journal, JournalError
from callsheet.store.folded import Folded
from callsheet.store.label_transfer import open_labels
from callsheet.store.start import Start

if TYPE_CHECKING:
    from callsheet.store import label_transfer
else:
    label_transfer = deferred("callsheet.store.label_transfer")

_NOBODY = Watch()
_ABSENT = Respondents()


# ---------------------------------------------------------------- new runs


async def run_prepared(
    prepared: Prepared,
    ports: Ports,
    journal: Journal | None,
    run_id: str,
    watch: Watch = _NOBODY,
    present: Respondents = _ABSENT,
    *,
    labels: Path | None = None,
) -> RunOutcome:
    """Record a prepared run, and carry it to its end, or until it waits for people.

    Without a journal nothing is recorded, and under a policy the labels beside the journal `labels`, if
    given, apply. Raises JournalError if the journal cannot take it.
    """
    plan, launch = prepared.plan, prepared.launch
    if journal is None:
        noted = () if launch.policy is None or labels is None else label_transfer.noted_before(labels)
        result = await run_unrecorded(plan, ports, launch, watch, run_id, present, noted)
        return RunOutcome(run_id, result, usage=result.usage)
    if prepared.done is None:
        return await start_run(plan, ports, launch, journal, run_id, watch, present)
    adopt(prepared, journal, run_id)

    def ports_for(_start: Start, _plan: Plan) -> AbstractAsyncContextManager[Ports]:
        return nullcontext(ports)

    watch = replace(watch, hears_all=False)
    return await resume_run(journal, run_id, ports_for, watch=watch, present=present)


def adopt(prepared: Prepared, journal: Journal, run_id: str) -> None:
    """Record a prepared run whose `done` steps another program has completed; `resume` continues it.

    Raises CallsheetError (PLN028) for a step that cannot be taken over.
    """
    from callsheet.runtime.adopting import adopt_run  # noqa: PLC0415 - judges what others have done

    adopt_run(
        prepared.plan,
        prepared.known,
        prepared.launch,
        journal,
        run_id,
        prepared.done or {},
        prepared.workspace,
    )


async def record(
    prepared: Prepared,
    journal: Journal,
    run_id: str,
    observer: Observer | None = None,
    offload: Offload = at_once,
) -> BegunRun | None:
    """Put a prepared run into the journal; its first event is durable on return.

    The run that is returned can be driven at once, as long as this process owns it; None for one with steps
    that another program has completed, which `resume` continues. Raises JournalError.
    """

    if prepared.done is not None:
        await to_its_end(offload, lambda: adopt(prepared, journal, run_id))
        return None
    return await enlist_run(
        prepared.plan, prepared.known, prepared.launch, journal, run_id, observer, offload
    )


def first_event(prepared: Prepared, journal: Journal) -> Start:
    """The first event of a prepared run, for an engine that records and drives it elsewhere."""
    return start_of(prepared.plan, prepared.launch, journal)


# ---------------------------------------------------------------- recorded runs


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeTerms:
    """The terms on which a run is resumed.

    `in_doubt` is the decision on calls in doubt. `limits` maps the run's limits to those that apply from now
    on. `policy` replaces the run's own if it is the same, or if `accepts_changed_policy`. With `as_recorded`
    it does not matter whether the file of the plan was edited since. `places` are those of tools that were
    moved, as `Start.at_places` takes them.
    """

    in_doubt: Resolution | None = None
    accepts_changed_tools: bool = False
    as_recorded: bool = False
    limits: Callable[[Limits], Limits] | None = None
    policy: Policy | None = None
    accepts_changed_policy: bool = False
    places: Mapping[str, JSON] = field(default_factory=dict[str, JSON])


class Opened(NamedTuple):
    """The open tools of a run that is resumed, and its ports."""

    equipment: Equipment
    ports: Ports


ToolOpener = Callable[[Start, Plan, Limits], AbstractAsyncContextManager[Opened]]
"""Opens the tools of a run with this start, current plan, and the limits that will apply."""


class Conduct(NamedTuple):
    """How the resumption of a run is followed: who watches and answers, and where slow work is done.

    `tell` hears of each accepted difference of a policy. `needs_policy` says that this runtime resumes only
    runs that were started under a policy.
    """

    watch: Watch = _NOBODY
    present: Respondents = _ABSENT
    offload: Offload = at_once
    tell: Callable[[str], None] | None = None
    needs_policy: bool = False


_ALONE = Conduct()


def check_plan_file(journal: Journal, run_id: str, terms: ResumeTerms) -> None:
    """Raise JournalError (JRN024) if a run would go on whose plan was edited in its file since.

    Not for a run that has ended, of which nothing is executed any more, and not `as_recorded`.
    """
    from callsheet.api.plan_sources import check_file, continues  # noqa: PLC0415 - brings the plan library

    if not terms.as_recorded and continues(journal, run_id):
        check_file(journal, run_id)


async def resume(
    journal: Journal, run_id: str, terms: ResumeTerms, open_tools: ToolOpener, conduct: Conduct = _ALONE
) -> RunOutcome:
    """Continue a recorded run where its journal ends, with the tools it was started with.

    Before anything is sent: the file of the plan was not edited since (unless `as_recorded`), the tools are
    there and the same (unless `accepts_changed_tools`), and another policy accepts the rest of the plan.
    Raises CallsheetError as `resume_run` does; JRN024 for an edited file, JRN021 for changed tools, JRN023
    for another policy, PolicyRefused if it refuses the rest of the plan.
    """
    await conduct.offload(lambda: check_plan_file(journal, run_id, terms))
    opened: list[Equipment] = []

    @asynccontextmanager
    async def ports_for(start: Start, plan: Plan) -> AsyncGenerator[Ports]:
        if conduct.needs_policy and start.policy is None:
            from callsheet.api.run_service import unproved  # noqa: PLC0415 - not for a run that begins

            raise unproved(run_id)
        limits = start.limits if terms.limits is None else terms.limits(start.limits)
        async with open_tools(start, plan, limits) as (equipment, ports):
            await conduct.offload(lambda: _check_same(start, plan, equipment, terms))
            opened.append(equipment)
            yield ports

    def policy(folded: Folded) -> Policy | None:
        from callsheet.api.run_service import ResumeContext, other_policy  # noqa: PLC0415 - as above

        assert terms.policy is not None
        equipment = opened[-1]
        context = ResumeContext(journal, run_id, equipment.guarantees(), equipment.workspace)
        accepts = terms.accepts_changed_policy
        return other_policy(terms.policy, context, is_accepted=accepts, tell=conduct.tell)(folded)

    policy_for: PolicyFor | None = None if terms.policy is None else policy
    return await resume_run(
        journal,
        run_id,
        ports_for,
        Amendments(in_doubt=terms.in_doubt, limits=terms.limits, policy=policy_for, places=terms.places),
        watch=conduct.watch,
        present=conduct.present,
        offload=conduct.offload,
    )


def _check_same(start: Start, plan: Plan, equipment: Equipment, terms: ResumeTerms) -> None:
    """Raise CallsheetError for tools that are missing, or differ from those that the run began with."""
    from callsheet.api.run_service import check_present, check_tools  # noqa: PLC0415 - as above

    registry, agents = equipment.registry, equipment.agents
    check_present(plan, registry, agents, equipment.doubts)
    accepts, is_bound_anew = terms.accepts_changed_tools, terms.policy is not None
    check_tools(start, plan, registry, agents, accepts_changed=accepts, is_bound_anew=is_bound_anew)


async def decide(
    journal: Journal,
    run_id: str,
    calls: Sequence[str],
    verdict: Resolution,
    *,
    every: bool = False,
    offload: Offload = at_once,
) -> RunOutcome:
    """Record a decision on calls in doubt; raises JournalError if they are not in doubt."""
    return await offload(lambda: decide_calls(journal, run_id, calls, verdict, every=every))


async def cancel(
    journal: Journal, run_id: str, reason: str = "cancelled", patience: float = PATIENCE
) -> RunOutcome | None:
    """End a run for good; None if its process has been asked and not ended it in `patience` seconds.

    Raises JournalError as `cancel_run` does.
    """
    return await cancel_run(journal, run_id, reason, patience)


__all__ = [
    "BegunRun",
    "Conduct",
    "Opened",
    "ResumeTerms",
    "adopt",
    "cancel",
    "check_plan_file",
    "decide",
    "first_event",
    "record",
    "resume",
    "run_prepared",
]


_MOST_TOLD = 20


class ResumeContext(NamedTuple):
    """Where a run is resumed: its journal, what the runtime guarantees, and the folder of the file tools."""

    journal: Journal
    run_id: str
    undertaking: Guarantees
    workspace: str = ""


def other_policy(
    given: Policy, context: ResumeContext, *, is_accepted: bool, tell: Callable[[str], None] | None = None
) -> PolicyFor:
    """A function that takes a folded run and returns the policy to continue it under.

    It returns None if the given policy is the run's own; `tell` is called with each accepted difference. It
    raises CallsheetError: JRN023 for a policy that differs and is not accepted, and for a run that was
    started without one; PolicyRefused if the policy refuses the rest of the plan.
    """

    def policy(folded: Folded) -> Policy | None:
        own = folded.policy
        if own is None:
            raise unproved(context.run_id)
        registry = context.undertaking.registry
        bound, doubts = bind_policy(given, registry, frozenset(map(fold, own.tools)))
        absent = {key: rule for key, rule in own.tools.items() if rule.does and registry.get(key) is None}
        said = {key: label for key, label in own.server_labels.items() if registry.get(key) is None}
        bound = replace(bound, tools={**absent, **bound.tools}, server_labels={**said, **bound.server_labels})
        bound = replace(bound, approved=bound.approved | own.approved).with_files(own.files)
        if policy_hash(replace(bound, files=own.files)) == policy_hash(own):
            return None
        changes = [str(difference) for difference in differences(own, bound)]
        if not is_accepted:
            raise _differs(context.run_id, own, bound, changes)
        proof = Proof(
            folded.machine.program.plan,
            bound,
            prove_remaining(folded, bound, _stored_labels(context)),
            doubts,
        )
        proof = proof.under(context.undertaking)
        proof.raise_if_refused()
        bound = proof.policy
        _try(context, bound)
        for line in changes if tell is not None else ():
            assert tell is not None
            tell(line)
        return bound

    return policy


def _stored_labels(context: ResumeContext) -> PersistedLabels:
    """The stored labels of the places that the run may read."""
    with open_labels(context.journal.path) as store:
        return left_in(store, context.workspace, context.run_id)


def _try(context: ResumeContext, policy: Policy) -> None:
    """Check the calls in progress against the policy, on a copy of the run; raises PolicyRefused."""
    plan = context.journal.plan(context.journal.find_run(context.run_id).plan_hash)[0]
    copy = fold_run(context.journal, context.run_id, plan)
    if copy.machine.result is not None:
        return
    copy.feed(PolicyChanged(policy))
    result = copy.machine.result
    if result is not None and result.objection is not None:
        raise refused_by(result.objection)


def _differs(run_id: str, own: Policy, given: Policy, changes: list[str]) -> CallsheetError:
    shown = [
        *changes[:_MOST_TOLD],
        *([f"… and {len(changes) - _MOST_TOLD} more"] if len(changes) > _MOST_TOLD else []),
    ]
    return CallsheetError.single(
        "JRN023",
        f"run {run_id} is under the policy {own.name}, and {given.name} differs from it in"
        f" {len(changes)} part{'s' if len(changes) != 1 else ''}",
        help="\n".join(
            [*shown, "--accept-changed-policy continues under it, if the rest of the plan satisfies it"]
        ),
    )


def unproved(run_id: str) -> CallsheetError:
    """The error for resuming a run under a policy when it was started without one."""
    return CallsheetError.single(
        "JRN023",
        f"run {run_id} was started without a policy, so the origin of its values is not known",
        help="resume it without the policy, or start it anew under it",
    )


_OTHER_POLICY = "and continue under it: --policy FILE --accept-changed-policy"


def check_present(
    plan: Plan, registry: Registry, agents: AgentRules | None, doubts: tuple[Diagnostic, ...]
) -> None:
    """Raise CallsheetError (TOL001, TOL003) for missing tools, after the `doubts` about their servers."""
    missing = [registry.missing(name) for name in absent_tools(plan, registry, agents)]
    if missing:
        raise CallsheetError([*doubts, *missing])


def check_tools(
    start: Start,
    plan: Plan,
    registry: Registry,
    agents: AgentRules | None = None,
    *,
    accepts_changed: bool,
    is_bound_anew: bool,
) -> None:
    """Refuse to resume a run with other tools than those it was started with.

    `accepts_changed` lets declarations differ, and servers from which tools come. The pins of the policy in
    `start` hold all the same, unless the run goes on under a policy that `is_bound_anew`. Raises
    CallsheetError: JRN021 for changed tools, POL007 for one that the policy was not written for, TOL020 and
    TOL021 for untrusted ones.
    """
    if not accepts_changed:
        check_pins(start, _pins_now(start, plan, registry, agents))
        _check_servers(start, registry)
    wrong = refused_tools(plan, registry, agents)
    if not is_bound_anew:
        wrong = (*wrong, *_other_pins(start, plan, registry, agents))
    if wrong:
        raise CallsheetError(wrong)


def _pins_now(start: Start, plan: Plan, registry: Registry, agents: AgentRules | None) -> dict[str, str]:
    """The pins of the tools that a plan or its agents may call, each in the form in which it was recorded."""
    pins = pins_of(plan, registry, agents)
    return {
        name: recorded if _has_pin(start, name, recorded, registry) else pins[name]
        for name in pins
        for recorded in [start.pins.get(name, pins[name])]
    }


def _has_pin(start: Start, name: str, pin: str, registry: Registry) -> bool:
    """Whether the tool of this name has a pin that was recorded or named at the start of a run."""
    tool, fact = registry.get(name), start.facts.get(name)
    return tool is not None and tool.spec.has_pin(pin, None if fact is None else fact.parameters)


def _check_servers(start: Start, registry: Registry) -> None:
    """Refuse tools of another origin than at the start; their rules were written for that one."""
    for name in dict.fromkeys((*start.servers, *start.facts)):
        tool = registry.get(name)
        change = None if tool is None else origin_change(name, start.server_of(name), tool.spec.origin)
        if change is not None:
            raise JournalError(
                "JRN021",
                change,
                hint="review the changes (`callsheet tools`), then resume with --accept-changed-tools",
            )


def _other_pins(
    start: Start, plan: Plan, registry: Registry, agents: AgentRules | None
) -> Iterator[Diagnostic]:
    """The tools whose declaration is not the one that the policy's entry was written for."""
    if start.policy is None:
        return
    for name in dict.fromkeys((*called_names(plan), *names_for_agents(plan, registry, agents))):
        tool, rule = registry.get(name), start.policy.tools.get(name)
        if tool is None or rule is None or rule.pin is None or tool.spec.pin is None:
            continue
        if _has_pin(start, name, rule.pin, registry):
            continue
        differences = other_pin(policy_name(name, tool.spec), tool.spec, rule.pin)
        yield replace(differences, help=f"{differences.help} in a policy, {_OTHER_POLICY}")
