"""Forks runs: repeat one from a step on, or continue one from an event with something edited.

In: a journal, a run, the point at which to branch off, and the edits. Out: the predicted side effects; then
the new run, in the journal, for `resume_run` to continue. No tool is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import takewhile
from types import MappingProxyType
from typing import Any, NamedTuple

from callsheet import lazy
from callsheet.diagnostics import meant
from callsheet.frontends.spelling import text_of
from callsheet.ir import JSON, Order, Plan, plan_hash
from callsheet.ir.tree import all_statements
from callsheet.machine import Limits, LimitsChanged, Machine, ToolFacts
from callsheet.machine.forecasting.partial_values import is_same
from callsheet.machine.limits import bounded
from callsheet.policy.model import Policy
from callsheet.runtime.doubt import RunOutcome, check_version, close_run, verified_state
from callsheet.runtime.edits import (
    Edits,
    ParentHistory,
    changed_steps,
    check_inputs,
    check_not_begun,
    check_plain,
    check_same_past,
    edit_of,
    sealed_before,
    secret_in,
    with_arguments,
    with_steps,
)
from callsheet.runtime.effects import EffectAhead, ParentCalls, digest_text, summary
from callsheet.runtime.effects_ahead import effects_ahead
from callsheet.sealing.known import Known
from callsheet.sealing.sealer import DECLARED, LABEL, Path, inputs_at
from callsheet.store import Journal, JournalError
from callsheet.store.branch import (
    Branch,
    Cut,
    KnownCall,
    Visited,
    begins_at,
    branch,
    calls_after,
    first_begun,
    generation_of,
    state_at,
    visit_at,
    with_inputs,
)
from callsheet.store.errors import require_event
from callsheet.store.events import Event, EventType
from callsheet.store.folded import Folded
from callsheet.store.fork import Secrets, write_branch
from callsheet.store.kept_calls import require_not_undone
from callsheet.store.runs import RunInfo
from callsheet.store.start import HOST, Start, facts_to_json, policy_body

Keeps = Callable[[Visited], bool]
_PLACE = lazy.pattern(r"(?:r([0-9]{1,9})/)?(.*?)(?:@([0-9]{1,9}))?", re.DOTALL)


class Draft(NamedTuple):
    """The edited plan of a fork, before its tools are checked.

    `start` is that of the parent; `policy` is the new run's, without approvals of the edited steps.
    """

    plan: Plan
    start: Start
    policy: Policy | None


class Revision(NamedTuple):
    """The edited plan of a fork, with facts about the tools that it calls.

    `policy` is the one that it was proved against; None for a run without one. `servers` are those from which
    its tools come, as in the note of a run.
    """

    plan: Plan
    facts: Mapping[str, ToolFacts]
    pins: Mapping[str, str]
    policy: Policy | None = None
    servers: Mapping[str, JSON] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Forking:
    """A prepared fork; nothing is in the journal yet.

    `at` is the last event of the parent that it shares, `effects` are its predicted side effects after that.
    """

    parent: RunInfo
    branch: Branch
    text: str
    effects: tuple[EffectAhead, ...]
    known: Known
    """The secrets that the parent was given, configured ones, those sealed in it, and what replaces them."""
    secret: frozenset[str] = frozenset()
    """The edited variables that are secret or contained sealed data in the parent."""
    is_sealed: bool = False
    """Whether anything in the parent is sealed."""
    kept: tuple[str, ...] = ()
    """For a run of an edited plan with blocks: what it keeps, runs again, and no longer asks for."""

    @property
    def at(self) -> int:
        """The last event that is shared with the parent."""
        return self.branch.at

    @property
    def folded(self) -> Folded:
        """The new run's state at its beginning."""
        return self.branch.folded

    @property
    def consent(self) -> str:
        """A code for exactly the calls that are shown: equal codes mean equal calls."""
        return sha256(digest_text(self.parent.run_id, self.at, self.effects).encode()).hexdigest()

    def require_consent(self, agreed: bool | str, hint: str) -> None:
        """Raise NeedsConsent if it may change something outside, unless `agreed`: True, or its `consent`."""
        if self.effects and agreed is not True and agreed != self.consent:
            raise NeedsConsent(self, hint)

    def write(self, journal: Journal, run_id: str, host: str = "") -> None:
        """Write the new run into the journal; `resume_run` carries it on. Raises JournalError.

        `host` names the group of servers that carries it on, independent of its parent's.
        """
        sealer = journal.sealer(run_id, self.text)
        sealer.know(self.known)
        launch: dict[str, Any] = {**(self.branch.start.get("launch") or {})}
        launch.pop(HOST, None)
        body: dict[str, Any] = {**self.branch.start, "launch": launch | ({HOST: host} if host else {})}
        start = Start.from_json(body)
        parts = inputs_at(sorted(start.secret), DECLARED)
        if start.policy is not None and start.policy.inputs.is_secret:
            parts = inputs_at(start.inputs, LABEL) | parts
        if self.branch.edit is None:
            parts = inputs_at(sorted(self.secret & start.inputs.keys()), _REPLACES) | parts
        edited: dict[Path, str] = {("values", name): _REPLACES for name in self.secret}
        rebind = journal.rebinder(self.parent.run_id, run_id) if self.is_sealed else None
        secrets = Secrets(sealer, parts, edited, rebind)
        plan = self.branch.plan, self.text
        write_branch(journal.parts, self.parent, run_id, replace(self.branch, start=body), plan, secrets)


class NeedsConsent(JournalError):
    """The effects of a new run need consent; `forking` is that run, which has not been created."""

    def __init__(self, forking: Forking, hint: str) -> None:
        message = f"steps ahead may change something outside: {summary(forking.effects)}"
        super().__init__("JRN083", message, hint)
        self.forking = forking


_REPLACES = "it replaces a secret"
ORIGINS = ("file", "library")
"""The keys in a run's start note for where its plan came from; an edited plan comes from nowhere."""


def drafted(journal: Journal, run_id: str, edits: Edits, known: Known | None = None) -> Draft:
    """The plan of a run with edited steps and arguments.

    `known` are secrets of the configuration. Raises JournalError: JRN084 for an unknown step or an argument
    of a step that calls no tool, SEC009 for an edit with a secret in it; CallsheetError for a text that is
    not a step.
    """
    history = ParentHistory(journal, journal.find_run(run_id), known)
    check_plain(history, edits)
    plan, start = with_arguments(with_steps(history.plan, edits.steps), edits.arguments), history.first()
    policy = None if start.policy is None else start.policy.without(changed_steps(edits))
    return Draft(plan, start, policy)


def fork(
    journal: Journal,
    run_id: str,
    at: int,
    edits: Edits | None = None,
    revision: Revision | None = None,
    known: Known | None = None,
) -> Forking:
    """Prepare a run that shares the events of another up to `at` and goes on with edits.

    If the plan is edited, its `revision` is required. `known` are secrets of the configuration, which are
    sealed in the edits like all others. Raises JournalError: JRN002 for an unknown run, JRN012, JRN015 or
    JRN020 if its events cannot be read, JRN022 for one of another version of the machine, JRN041 for an
    unknown event, JRN082 if the edit comes too late, JRN084 for an unknown name, JRN086 if an undoing has
    taken back an earlier call, SEC009 for a secret in the plan.
    """
    edits = edits or Edits()
    parent = parent_of(journal, run_id)
    require_event(at, parent.events)
    require_not_undone(journal, parent, at)
    history = ParentHistory(journal, parent, known)
    check_plain(history, edits)
    before, last = state_at(history.plan, history.events(), at, history.plan_of)
    plan = history.plan
    body = history.start(at, {"verb": "fork", "by": edits.by, "edits": edits.to_json()})
    if edits.changes_plan:
        assert revision is not None, "the plan is edited"
        plan = revision.plan
        check_not_begun(history, edits, at)
        # a tool that the parent calls has to be the one that it began with, its arguments in the same order
        kept = {name: fact for name, fact in body["facts"].items() if name in body["pins"]}
        body |= {"facts": {**body["facts"], **facts_to_json(revision.facts), **kept}}
        body |= {"pins": {**revision.pins, **body["pins"]}}
        body |= {"launch": {name: value for name, value in body["launch"].items() if name not in ORIGINS}}
        servers = {**revision.servers, **body["launch"].get("servers", {})}
        body |= {"launch": {**body["launch"], "servers": servers}} if servers else {}
        body |= {} if revision.policy is None else policy_body(revision.policy)
    edit = edit_of(before, last, edits)
    check_inputs(before, edits, at)
    if edit is not None and at == 1:
        body, edit = with_inputs(body, edits.variables), None
    if edits.changes_plan:
        check_same_past(
            before, branch(plan, history.events(at), history.plan_of, Cut(at), body).folded, edits
        )
    new_branch = branch(plan, history.events(), history.plan_of, Cut(at), body, edit)
    secret = secret_in(before, history.first(), edits) | sealed_before(history, at, edits)
    edited = frozenset(edits.variables)
    has_new = history.finds_in(dict(edits.variables))
    made = _forking(history, new_branch, plan, secret, edited, has_new=has_new)
    replacing = Known.of((edits.variables[name] for name in sorted(secret)), DECLARED)
    return replace(made, known=made.known + replacing)


def rerun(
    journal: Journal,
    run_id: str,
    places: str | Collection[Visited],
    by: str = "",
    limits: Callable[[Limits], Limits] | None = None,
    origin: Mapping[str, Any] = MappingProxyType({}),
) -> Forking:
    """Prepare a run of the same plan of version 1 that repeats a step and what follows.

    Everything before its turn is kept.

    `places` is the step, or a visit of it such as `S3@2`; in a plan that the run made itself, `r1/S3`. In a
    graph the results of all steps that do not depend on it are kept, in a block those of the other members.
    With several visits, the first one to begin is the step, and the others and what depends on them are
    repeated too. Other `limits` apply before the step begins, so that one which a limit refused can be made.
    `origin` is recorded with the origin of the new run. Raises JournalError as `fork` does; JRN081 for a step
    that the run has not reached.
    """
    parent = parent_of(journal, run_id)
    history = ParentHistory(journal, parent)
    again = {visited_at(places)} if isinstance(places, str) else {*places}
    begun = first_begun(history.plan, history.events(), history.plan_of, again)
    if begun is None:
        visited = min(again)
        raise _not_come_to(history, places if isinstance(places, str) else visited.step, visited)
    first, at, there = begun
    repeated = [first, *sorted(again - {first})]
    early = _early(there.machine).union(*(_issued(history, at, each) for each in repeated))
    cut = Cut(at, early, _keeping(there.machine, repeated))
    place = places if isinstance(places, str) else str(first)
    body = history.start(at, {"verb": "rerun", "from": place, "by": by, "edits": [], **origin})
    before, edit = there.machine.limits, None
    bounds = before if limits is None else bounded(limits(before), there.policy)
    if bounds != before and at == 1:
        body |= {"limits": bounds.to_json()}
    elif bounds != before:
        edit = LimitsChanged(bounds)
    new_branch = branch(history.plan, history.events(), history.plan_of, cut, body, edit)
    return _forking(history, new_branch, history.plan)


def beginning_of(journal: Journal, run_id: str, place: str) -> int:
    """The last event before a step begins, such as S3, S3@2 or in a plan with blocks `S2[4]/S5`.

    Raises JournalError (JRN081) for a step that the run has not reached.
    """
    history = ParentHistory(journal, parent_of(journal, run_id))
    visited = visited_at(place)
    found = begins_at(history.plan, history.events(), history.plan_of, visited)
    if found is None:
        raise _not_come_to(history, place, visited)
    return found[0]


def conclude(journal: Journal, run_id: str) -> RunOutcome:
    """The outcome of a fork that has nothing left to do; raises JournalError.

    A failed graph stays failed, whereas `resume_run` would retry what failed.
    """
    with journal.claim(run_id) as writer:
        folded = verified_state(journal, writer, journal.plan(journal.find_run(run_id).plan_hash)[0])
        return RunOutcome(run_id, close_run(journal, writer, folded), usage=folded.usage())


def parent_of(journal: Journal, run_id: str) -> RunInfo:
    """The run to branch off; raises JournalError (JRN012, JRN022) for one that cannot be."""
    info = journal.find_run(run_id)
    check_version(journal, info.run_id)
    bad = journal.verify(info.run_id)
    if bad is not None:
        raise JournalError(
            "JRN012",
            f"the journal of run {info.run_id} is damaged at event {bad.seq}: {bad.why}",
            hint="restore the journal from a copy, or fork its intact part: `callsheet runs salvage`",
        )
    return info


def _forking(
    history: ParentHistory,
    new_branch: Branch,
    plan: Plan,
    secret: frozenset[str] = frozenset(),
    edited: frozenset[str] = frozenset(),
    *,
    has_new: bool = False,
) -> Forking:
    """The prepared fork with its secrets and predicted effects.

    `edited` are the variables that are edited, and `has_new` says that the edits contain secrets.
    """
    known, run_id = history.known(), history.parent.run_id
    calls = _left_later(history, history.events(), new_branch)
    parent = ParentCalls(run_id, calls)
    if history.opener.has_opened or has_new or secret:
        shown = {call.key: call.args for call in _left_later(history, history.closed(), new_branch)}
        public = frozenset[str]() if has_new else edited - secret
        parent = ParentCalls(run_id, calls, shown, _hidden(history, new_branch, public))
    text = history.text if plan_hash(plan) == history.parent.plan_hash else text_of(plan)
    effects = effects_ahead(new_branch.folded, parent)
    is_sealed = history.opener.has_opened
    return Forking(history.parent, new_branch, text, effects, known, secret, is_sealed)


def _left_later(history: ParentHistory, rows: Iterable[Event], new_branch: Branch) -> list[KnownCall]:
    """The calls of the parent after the cut that the new run does not inherit."""
    later = calls_after(history.plan, rows, history.plan_of, new_branch.at)
    return [call for call in later if call.seq not in new_branch.taken]


def _hidden(history: ParentHistory, new_branch: Branch, public: frozenset[str]) -> frozenset[str] | None:
    """The variables of the new run that are sealed in the journal, or made of what is; None for all."""
    try:
        stored, _ = state_at(history.plan, history.closed(), new_branch.at, history.plan_of)
    except JournalError:
        return None
    closed = stored.machine.all_variables()
    return frozenset(
        name
        for name, value in new_branch.folded.machine.all_variables().items()
        if name not in public and not (name in closed and is_same(value, closed[name]))
    )


# ---------------------------------------------------------------- steps


def visited_at(place: str) -> Visited:
    """The visit that a place such as `S3`, `S3@2` or `r1/S3` names."""
    match = _PLACE.fullmatch(place)
    assert match is not None
    generation, step, visit = match.groups()
    return Visited(int(generation or 0), step, int(visit or 1))


def _not_come_to(history: ParentHistory, place: str, visited: Visited) -> JournalError:
    """The error for a step that the run has not reached, or not as often."""
    folded, _ = state_at(history.plan, history.events(), history.parent.events, history.plan_of)
    machine = folded.machine
    if history.plan.tree is not None:
        names = [one.id for one in all_statements(history.plan.tree)]
        hint = meant(visited.step, names, "`callsheet show RUN` lists what it reached")
        return JournalError("JRN081", f"the run has not reached a step {place[:80]}", hint)
    number = machine.program.number_of.get(visited.step)
    if number is None:
        names = list(machine.program.number_of)
        listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
        hint = meant(visited.step, names, f"its steps are {listed}")
        if generation_of(machine) != visited.generation:
            hint = f"the run made {generation_of(machine)} plans of its own: r1/S1 is a step of the first"
        return JournalError("JRN081", f"the run has not reached a step {place[:80]}", hint)
    times = machine.visits[number]
    message = "it never reached it" if not times else f"it reached it {times} time{'s' if times != 1 else ''}"
    return JournalError(
        "JRN081", f"the run has not reached {place[:80]}", f"{message}: see `callsheet show RUN`"
    )


def _early(machine: Machine) -> frozenset[str]:
    """The calls that had left before their turn; they belong to steps that are repeated."""
    return frozenset() if machine.ahead is None else frozenset(machine.ahead.state.calls)


def _issued(history: ParentHistory, at: int, visited: Visited) -> frozenset[str]:
    """The calls of a visit that were issued up to the event `at`, with which the visit begins.

    They left early too, but are no longer among the early calls once the visit has begun.
    """
    before = takewhile(lambda row: row.seq <= at, history.events())
    keys = (row.key for row in before if row.type is EventType.INTENT)
    return frozenset(key for key in keys if key is not None and visit_at(key) == visited)


def _keeping(machine: Machine, repeated: Sequence[Visited]) -> Keeps:
    """Which visits keep their results, besides those that had ended when the first step's turn came."""
    program, plan = machine.program, machine.program.plan
    first = program.number_of[repeated[0].step]
    if plan.order is Order.DAG:
        assert program.graph is not None
        stack = [program.number_of[each.step] for each in repeated]
        cone = {*stack}
        while stack:
            for following in program.graph.dependents[stack.pop()]:
                if following not in cone:
                    cone.add(following)
                    stack.append(following)
        again = {plan.steps[number].id for number in cone}
        return lambda place: place.step not in again
    group = plan.steps[first].group
    if group is None:
        return lambda place: False
    others = {s.id: machine.visits[n] for n, s in enumerate(plan.steps) if s.group == group and n != first}
    for each in repeated:
        others.pop(each.step, None)
    return lambda place: others.get(place.step) == place.visit
