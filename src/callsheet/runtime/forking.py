"""Runs that branch off from others: run again from a step, or go on from an event with something edited.

In: a journal, a run, where it branches off and what is edited. Out: what the new run would do to the world;
then the new run, in the journal, for `resume_run` to carry on. No tool is called here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from callsheet.diagnostics import did_you_mean
from callsheet.ir import Order, Plan, plan_hash
from callsheet.machine import Machine, ToolFacts
from callsheet.policy.model import Policy
from callsheet.runtime.doubt import RunOutcome, check_version, close_run, stand
from callsheet.runtime.edits import (
    Edits,
    changed_steps,
    check_not_begun,
    check_plain,
    check_same_past,
    edit_of,
    sealed_before,
    secret_in,
)
from callsheet.runtime.effects_ahead import EffectAhead, effects_ahead
from callsheet.runtime.parent import Way
from callsheet.runtime.recording import text_of
from callsheet.runtime.revising import with_arguments, with_steps
from callsheet.sealing.known import Known
from callsheet.sealing.sealer import DECLARED, LABEL, Path, inputs_at
from callsheet.store import Journal, JournalError
from callsheet.store.branch import (
    Branch,
    Cut,
    Visited,
    begins_at,
    branch,
    calls_after,
    generation_of,
    stand_at,
    with_inputs,
)
from callsheet.store.folded import Folded
from callsheet.store.fork import Secrets, write_branch
from callsheet.store.records import Start, facts_to_json, policy_body
from callsheet.store.runs import RunInfo

Keeps = Callable[[Visited], bool]
_PLACE = re.compile(r"(?:r([0-9]{1,9})/)?(.*?)(?:@([0-9]{1,9}))?", re.DOTALL)


class Draft(NamedTuple):
    """The plan of a fork that is edited, to be held against the tools that there are.

    `start` is that of the run, `policy` the one that the new run is under: nobody has approved the edited
    steps yet.
    """

    plan: Plan
    start: Start
    policy: Policy | None


class Revision(NamedTuple):
    """The plan of a fork that is edited, with what is known of the tools that it calls.

    `policy` is the one that it was proved against; None for a run without one.
    """

    plan: Plan
    facts: Mapping[str, ToolFacts]
    pins: Mapping[str, str]
    policy: Policy | None = None


@dataclass(frozen=True, slots=True)
class Forking:
    """A run that is about to branch off; nothing is in the journal yet.

    `at` is the event of the parent after which it goes its own way, `effects` what it may do to the world
    from there on.
    """

    parent: RunInfo
    branch: Branch
    text: str
    effects: tuple[EffectAhead, ...]
    known: Known
    """The secrets that the parent was given, that are configured, and the texts that were sealed in it."""
    secret: frozenset[str] = frozenset()
    """The edited variables that nobody may read, or of which something was sealed in the parent."""

    @property
    def at(self) -> int:
        """The event of the parent after which it goes its own way."""
        return self.branch.at

    @property
    def folded(self) -> Folded:
        """The new run as it begins."""
        return self.branch.folded

    def write(self, journal: Journal, run_id: str, host: str = "") -> None:
        """Put the new run into the journal; `resume_run` carries it on. Raises JournalError.

        `host` names the servers of which one carries it on, whoever has carried its parent.
        """
        sealer = journal.sealer(self.text)
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
        secrets = Secrets(sealer, parts, edited)
        plan = self.branch.plan, self.text
        write_branch(journal.parts, self.parent, run_id, replace(self.branch, start=body), plan, secrets)


_REPLACES = "it takes the place of a secret"
HOST = "host"
"""Where what is noted with the start of a run has the name of the servers that carry it."""


def drafted(journal: Journal, run_id: str, edits: Edits, known: Known | None = None) -> Draft:
    """The plan of a run with its steps and arguments edited.

    `known` are secrets of the configuration. Raises JournalError: JRN084 for a step or an argument that is
    not there, SEC009 for one with a secret in it; CallsheetError for a text that is no step.
    """
    way = Way(journal, journal.find_run(run_id), known)
    check_plain(way, edits)
    plan, start = with_arguments(with_steps(way.plan, edits.steps), edits.arguments), way.first()
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
    """A run that goes its own way after the event `at` of another, with something edited there.

    With edits of the plan its `revision` has to be given. `known` are secrets of the configuration, which are
    sealed in what is edited as all others are. Raises JournalError: JRN002 for an unknown run,
    JRN012, JRN015 or JRN020 where its events cannot be read, JRN022 for one of another version of the
    machine, JRN041 for an event that it does not have, JRN082 where the edit comes too late, JRN084 for what
    is not there, SEC009 for a secret that would stand in the plan.
    """
    edits = edits or Edits()
    parent = _parent(journal, run_id)
    if not 1 <= at <= parent.events:
        raise JournalError(
            "JRN041", f"the run has no event {at}", f"its events have the numbers 1 to {parent.events}"
        )
    way = Way(journal, parent, known)
    check_plain(way, edits)
    before, last = stand_at(way.plan, way.events(), at, way.plan_of)
    plan = way.plan
    body = way.start(at, {"verb": "fork", "by": edits.by, "edits": edits.to_json()})
    if edits.changes_plan:
        assert revision is not None, "the plan is edited"
        plan = revision.plan
        check_not_begun(way, edits, at)
        body |= {"facts": {**body["facts"], **facts_to_json(revision.facts)}}
        body |= {"pins": {**body["pins"], **revision.pins}}
        body |= {} if revision.policy is None else policy_body(revision.policy)
    edit = edit_of(before, last, edits)
    if edit is not None and at == 1:
        body, edit = with_inputs(body, edits.variables), None
    if edits.changes_plan:
        check_same_past(before, branch(plan, way.events(at), way.plan_of, Cut(at), body).folded, edits)
    made = branch(plan, way.events(), way.plan_of, Cut(at), body, edit)
    secret = secret_in(before, way.first(), edits) | sealed_before(way, at, edits)
    return _forking(way, made, plan, secret, has_new=way.finds_in(dict(edits.variables)))


def rerun(journal: Journal, run_id: str, place: str, by: str = "") -> Forking:
    """A run of the same plan in which all counts that had come before the turn of a step.

    `place` is the step, or one of its visits such as `S3@2`, of a plan that the run has made itself
    `r1/S3`. In a graph the results stand of all steps that do not wait for it, in a block those of the other
    members. Raises JournalError as `fork` does; JRN081 for a step that the run has not come to.
    """
    parent = _parent(journal, run_id)
    way = Way(journal, parent)
    visited = _visited(place)
    found = begins_at(way.plan, way.events(), way.plan_of, visited)
    if found is None:
        raise _not_come_to(way, place, visited)
    at, there = found
    cut = Cut(at, _early(there.machine), _keeping(there.machine, visited))
    body = way.start(at, {"verb": "rerun", "from": place, "by": by, "edits": []})
    made = branch(way.plan, way.events(), way.plan_of, cut, body)
    return _forking(way, made, way.plan)


def conclude(journal: Journal, run_id: str) -> RunOutcome:
    """How a new run ended that branched off where nothing was left to do; raises JournalError.

    A graph that had failed stays so: `resume_run` would try again what failed.
    """
    with journal.claim(run_id) as writer:
        folded = stand(journal, writer, journal.plan(journal.find_run(run_id).plan_hash)[0])
        return RunOutcome(run_id, close_run(journal, writer, folded), usage=folded.usage())


def _parent(journal: Journal, run_id: str) -> RunInfo:
    info = journal.find_run(run_id)
    check_version(journal, info.run_id)
    bad = journal.verify(info.run_id)
    if bad is not None:
        raise JournalError(
            "JRN012",
            f"the journal of run {info.run_id} is damaged at event {bad.seq}: {bad.why}",
            way_out="restore the journal from a copy, or fork what is whole of it: `callsheet runs salvage`",
        )
    return info


def _forking(
    way: Way, made: Branch, plan: Plan, secret: frozenset[str] = frozenset(), *, has_new: bool = False
) -> Forking:
    """The new run with all that is to be known before it is made; `has_new` says that secrets were set."""
    known = way.known()
    has_secrets = way.opener.has_opened or has_new or bool(secret)
    # what is shown of the calls is told with secrets closed
    rows = way.closed() if has_secrets else way.events()
    later = calls_after(way.plan, rows, way.plan_of, made.at)
    again = [call for call in later if call.seq not in made.taken]
    text = way.text if plan_hash(plan) == way.parent.plan_hash else text_of(plan)
    effects = effects_ahead(made.folded, again, has_secrets=has_secrets)
    return Forking(way.parent, made, text, effects, known, secret)


# ---------------------------------------------------------------- steps


def _visited(place: str) -> Visited:
    match = _PLACE.fullmatch(place)
    assert match is not None
    generation, step, visit = match.groups()
    return Visited(int(generation or 0), step, int(visit or 1))


def _not_come_to(way: Way, place: str, visited: Visited) -> JournalError:
    """That the run never came to a step, or not so often."""
    folded, _ = stand_at(way.plan, way.events(), way.parent.events, way.plan_of)
    machine = folded.machine
    number = machine.program.number_of.get(visited.step)
    if number is None:
        names = list(machine.program.number_of)
        near = did_you_mean(visited.step, names)
        listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
        way_out = f"did you mean {' or '.join(near)}?" if near else f"its steps are {listed}"
        if generation_of(machine) != visited.generation:
            way_out = f"the run made {generation_of(machine)} plans of its own: r1/S1 is a step of the first"
        return JournalError("JRN081", f"the run has not come to a step {place[:80]}", way_out)
    times = machine.visits[number]
    said = "it never came to it" if not times else f"it came to it {times} time{'s' if times != 1 else ''}"
    return JournalError(
        "JRN081", f"the run has not come to {place[:80]}", f"{said}: see `callsheet show RUN`"
    )


def _early(machine: Machine) -> frozenset[str]:
    """The calls that had left before their turn: they belong to steps that are run again."""
    return frozenset() if machine.ahead is None else frozenset(machine.ahead.at.calls)


def _keeping(machine: Machine, visited: Visited) -> Keeps:
    """Which visits keep what comes of them, other than those that were over when the step's turn came."""
    program, plan = machine.program, machine.program.plan
    first = program.number_of[visited.step]
    if plan.order is Order.DAG:
        assert program.graph is not None
        cone, stack = {first}, [first]
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
    return lambda place: others.get(place.step) == place.visit
