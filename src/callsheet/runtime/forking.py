"""Runs that branch off from others: run again from a step, or go on from an event with something edited.

In: a journal, a run, where it branches off and what is edited. Out: what the new run would do to the world;
then the new run, in the journal, for `resume_run` to carry on. No tool is called here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from callsheet.diagnostics import did_you_mean
from callsheet.ir import JSON, Order, Plan, plan_hash
from callsheet.machine import Edited, Machine, ToolFacts
from callsheet.machine.keys import parse_key
from callsheet.policy.model import Policy
from callsheet.runtime.doubt import RunOutcome, check_version, close_run, stand
from callsheet.runtime.effects_ahead import EffectAhead, effects_ahead
from callsheet.runtime.recording import text_of
from callsheet.runtime.revising import with_arguments, with_steps
from callsheet.sealing.known import Known
from callsheet.sealing.sealer import DECLARED, LABEL, Path, inputs_at
from callsheet.store import EventType, Journal, JournalError
from callsheet.store.branch import (
    Branch,
    Cut,
    Visited,
    begins_at,
    branch,
    calls_after,
    generation_of,
    stand_at,
    tells_the_machine,
    with_inputs,
)
from callsheet.store.events import Event
from callsheet.store.fork import Secrets, hash_at, write_branch
from callsheet.store.reader import RunInfo
from callsheet.store.records import Start, facts_to_json, policy_body
from callsheet.store.replay import Folded

Keeps = Callable[[Visited], bool]
_PLACE = re.compile(r"(?:r([0-9]{1,9})/)?(.+?)(?:@([0-9]{1,9}))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Edits:
    """What is edited where a run is forked, and by whom.

    `variables` by name; `arguments` by step and name; `steps`, a line of plan each (in a graph a JSON
    object), by id.
    """

    variables: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    arguments: Mapping[tuple[str, str], JSON] = field(default_factory=dict["tuple[str, str]", JSON])
    steps: Mapping[str, str] = field(default_factory=dict[str, str])
    by: str = ""

    @property
    def changes_plan(self) -> bool:
        """Whether the new run goes by another plan."""
        return bool(self.arguments or self.steps)

    def to_json(self) -> list[dict[str, JSON]]:
        """The edits as the start of the new run tells them; values of variables stand in its `edit` event."""
        rows: list[dict[str, JSON]] = [{"set": name} for name in self.variables]
        rows += [{"args": f"{step}.{name}", "value": v} for (step, name), v in self.arguments.items()]
        return rows + [{"replace": step, "line": line} for step, line in self.steps.items()]


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
    """The secrets that the parent was given."""
    secret: frozenset[str] = frozenset()
    """The edited variables that nobody may read."""

    @property
    def at(self) -> int:
        """The event of the parent after which it goes its own way."""
        return self.branch.at

    @property
    def folded(self) -> Folded:
        """The new run as it begins."""
        return self.branch.folded

    def write(self, journal: Journal, run_id: str) -> None:
        """Put the new run into the journal; `resume_run` carries it on. Raises JournalError."""
        sealer = journal.sealer(self.text)
        sealer.know(self.known)
        start = Start.from_json(self.branch.start)
        parts = inputs_at(sorted(start.secret), DECLARED)
        if start.policy is not None and start.policy.inputs.is_secret:
            parts = inputs_at(start.inputs, LABEL) | parts
        edited: dict[Path, str] = {("values", name): LABEL for name in self.secret}
        secrets = Secrets(sealer, parts, edited)
        plan = self.branch.plan, self.text
        write_branch(journal.parts, self.parent, run_id, self.branch, plan, secrets)


def drafted(journal: Journal, run_id: str, edits: Edits) -> Draft:
    """The plan of a run with its steps and arguments edited.

    Raises JournalError: JRN084 for a step or an argument that is not there; CallsheetError for a text that is
    no step.
    """
    way = _Way(journal, journal.find_run(run_id))
    plan, start = with_arguments(with_steps(way.plan, edits.steps), edits.arguments), way.first()
    policy = None if start.policy is None else start.policy.without(_changed_steps(edits))
    return Draft(plan, start, policy)


def fork(
    journal: Journal, run_id: str, at: int, edits: Edits | None = None, revision: Revision | None = None
) -> Forking:
    """A run that goes its own way after the event `at` of another, with something edited there.

    With edits of the plan its `revision` has to be given. Raises JournalError: JRN002 for an unknown run,
    JRN012, JRN015 or JRN020 where its events cannot be read, JRN022 for one of another version of the
    machine, JRN041 for an event that it does not have, JRN082 where the edit comes too late, JRN084 for what
    is not there.
    """
    edits = edits or Edits()
    parent = _parent(journal, run_id)
    if not 1 <= at <= parent.events:
        raise JournalError(
            "JRN041", f"the run has no event {at}", f"its events have the numbers 1 to {parent.events}"
        )
    way = _Way(journal, parent)
    before, last = stand_at(way.plan, way.events(), at, way.plan_of)
    plan = way.plan
    body = way.start(at, {"verb": "fork", "by": edits.by, "edits": edits.to_json()})
    if edits.changes_plan:
        assert revision is not None, "the plan is edited"
        plan = revision.plan
        _check_not_begun(way, edits, at)
        body |= {"facts": {**body["facts"], **facts_to_json(revision.facts)}}
        body |= {"pins": {**body["pins"], **revision.pins}}
        body |= {} if revision.policy is None else policy_body(revision.policy)
    edit = _edit(before, last, edits)
    if edit is not None and at == 1:
        body, edit = with_inputs(body, edits.variables), None
    if edits.changes_plan:
        _check_same_past(before, branch(plan, way.events(at), way.plan_of, Cut(at), body).folded, edits)
    made = branch(plan, way.events(), way.plan_of, Cut(at), body, edit)
    return way.forking(made, plan, _secret(before, way.first(), edits))


def rerun(journal: Journal, run_id: str, place: str, by: str = "") -> Forking:
    """A run of the same plan in which all counts that had come before the turn of a step.

    `place` is the step, or one of its visits such as `S3@2`, of a plan that the run has made itself
    `r1/S3`. In a graph the results stand of all steps that do not wait for it, in a block those of the other
    members. Raises JournalError as `fork` does; JRN081 for a step that the run has not come to.
    """
    parent = _parent(journal, run_id)
    way = _Way(journal, parent)
    visited = _visited(place)
    found = begins_at(way.plan, way.events(), way.plan_of, visited)
    if found is None:
        raise _not_come_to(way, place, visited)
    at, there = found
    cut = Cut(at, _early(there.machine), _keeping(there.machine, visited))
    body = way.start(at, {"verb": "rerun", "from": place, "by": by, "edits": []})
    made = branch(way.plan, way.events(), way.plan_of, cut, body)
    return way.forking(made, way.plan)


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


class _Way:
    """The events and plans of the run that another one branches off from."""

    def __init__(self, journal: Journal, parent: RunInfo) -> None:
        self._journal = journal
        self.parent = parent
        self.opener = journal.opener(parent.run_id)
        self.plan, self.text = journal.plan(parent.plan_hash)

    def plan_of(self, digest: str) -> Plan:
        """A plan by its hash."""
        return self._journal.plan(digest)[0]

    def events(self, upto: int | None = None) -> Iterator[Event]:
        """The events of the parent, opened: what a run does follows from its secrets too."""
        for event in self.opener.events(self._journal.events(self.parent.run_id)):
            if upto is not None and event.seq > upto:
                return
            yield event

    def first(self) -> Start:
        """What the parent was started with."""
        return Start.from_json(next(self.events()).body or {})

    def start(self, at: int, told: Mapping[str, Any]) -> dict[str, Any]:
        """The body of the new run's start: that of the parent, and where the new one comes from."""
        first = next(self.events())
        parent = self.parent.run_id
        origin = {"run": parent, "event": at, "hash": hash_at(self._journal.parts, parent, at)}
        return {**(first.body or {}), "fork": {**origin, **told}}

    def forking(self, made: Branch, plan: Plan, secret: frozenset[str] = frozenset()) -> Forking:
        """The new run with all that is to be known before it is made."""
        has_secrets = self.opener.has_opened
        # what is shown of the calls is told with secrets closed
        rows = self._journal.events(self.parent.run_id) if has_secrets else self.events()
        later = calls_after(self.plan, rows, self.plan_of, made.at)
        again = [call for call in later if call.seq not in made.taken]
        text = self.text if plan_hash(plan) == self.parent.plan_hash else text_of(plan)
        effects = effects_ahead(made.folded, again, has_secrets=has_secrets)
        known = self.opener.declared
        return Forking(self.parent, made, text, effects, known, secret)


# ---------------------------------------------------------------- edits


def _edit(before: Folded, last: Event, edits: Edits) -> Edited | None:
    """The edit of variables as the run is told of it; raises JournalError (JRN082, JRN084)."""
    if not edits.variables and not edits.changes_plan:
        return None
    machine = before.machine
    if machine.result is not None and (before.ended or not tells_the_machine(last.type)):
        raise JournalError(
            "JRN082",
            f"the run had ended at event {last.seq}: nothing follows that an edit could change",
            way_out="name an earlier event: `callsheet show RUN --events` lists them",
        )
    known = {*machine.program.names, *machine.variables()}
    for name in edits.variables:
        if name not in known:
            near = did_you_mean(name, known)
            way_out = f"did you mean {' or '.join('$' + n for n in near)}?" if near else None
            raise JournalError("JRN084", f"the run has no variable ${name[:80]}", way_out)
    if not edits.variables:
        return None
    return Edited(dict(edits.variables), edits.by, holds=tells_the_machine(last.type))


def _secret(before: Folded, start: Start, edits: Edits) -> frozenset[str]:
    """The edited variables that take the place of what nobody may read."""
    monitor = before.machine.monitor
    labels = {} if monitor is None else monitor.variables()
    return frozenset(
        name
        for name in edits.variables
        if name in start.secret or (name in labels and labels[name][0].is_secret)
    )


def _changed_steps(edits: Edits) -> set[str]:
    return {*edits.steps, *(step for step, _ in edits.arguments)}


def _check_not_begun(way: _Way, edits: Edits, at: int) -> None:
    """Refuse to edit a step of which calls had left; raises JournalError (JRN082)."""
    changed = _changed_steps(edits)
    for event in way.events(at):
        if event.type is EventType.PLAN:
            raise JournalError(
                "JRN082",
                f"at event {event.seq} the run had made a plan of its own, which this does not edit",
                way_out=f"fork before it, or edit variables alone: --at {event.seq - 1}",
            )
        if event.key is not None and parse_key(event.key).step in changed:
            step = parse_key(event.key).step
            raise JournalError(
                "JRN082",
                f"step {step} had begun at event {event.seq}: its results stand, and the edit comes too late",
                way_out=f"fork before it: --at {max(1, event.seq - 1)}",
            )


def _check_same_past(before: Folded, now: Folded, edits: Edits) -> None:
    """Refuse an edit of the plan with which the run had gone otherwise; raises JournalError (JRN082)."""
    changed = _changed_steps(edits)

    def left(folded: Folded) -> dict[str, object]:
        others = ((key, c) for key, c in folded.waiting.items() if parse_key(key).step not in changed)
        return {key: command for key, command in others if key in folded.launched}

    is_same = before.machine.variables() == now.machine.variables() and left(before) == left(now)
    if not is_same:
        raise JournalError(
            "JRN082",
            f"with {', '.join(sorted(changed))} edited, the run had gone another way before that event",
            way_out="fork at an earlier event: `callsheet show RUN --events` lists them",
        )


# ---------------------------------------------------------------- steps


def _visited(place: str) -> Visited:
    match = _PLACE.fullmatch(place)
    assert match is not None
    generation, step, visit = match.groups()
    return Visited(int(generation or 0), step, int(visit or 1))


def _not_come_to(way: _Way, place: str, visited: Visited) -> JournalError:
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
