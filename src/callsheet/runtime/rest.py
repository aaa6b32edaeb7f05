"""What is left of a run's plan, proved: for a run that is to go on under another policy.

In: the run as it stands, a policy. Out: the verdict over all that it may still do, with the labels that its
values have.
"""

from __future__ import annotations

from dataclasses import replace

from callsheet.ir.labels import LITERAL, join
from callsheet.machine import Machine
from callsheet.passes.verify import Left, Standing, Verdict, verify
from callsheet.policy.model import Policy
from callsheet.store.labels import EVERYWHERE, LabelStore, notes_of
from callsheet.store.replay import Folded


def prove_rest(folded: Folded, policy: Policy, left: Left, *, can_ask: bool = True) -> Verdict:
    """Hold the rest of a run's plan against a policy; raises ValueError for a run without labels.

    A block whose steps are partly done is held against it whole. Files and facts have the labels that the
    policy gives them, joined with those of what was `left` in them.
    """
    machine = folded.machine
    monitor = machine.monitor
    if monitor is None:
        raise ValueError("the run is under no policy, so its values have no labels")
    known = machine.variables()
    held = policy.without_steps() if monitor.is_anew else policy
    return verify(
        machine.program.plan,
        replace(held, planner=held.planner.join(monitor.literal)),
        inputs={name: label for name, (label, _) in monitor.variables().items() if name in known},
        parameters={name: fact.parameters for name, fact in folded.facts.items()},
        can_ask=can_ask,
        standing=_standing(machine),
        left=left,
    )


def left_in(store: LabelStore, root: str, run_id: str) -> Left:
    """What is noted of the places that a run may read: files of its workspace, by whomever they were written;
    the facts that it has stored itself; its own notes.

    Facts of other runs are found by words that are not known before: they have the label that the policy
    gives memory, until they are read. Raises one of `UNAVAILABLE`.
    """
    notes, every = notes_of(run_id), store.entries()
    files = {noted.name: noted.label for noted in every if root and noted.root == root}
    facts = join(noted.label for noted in store.entries(run_id) if noted.root == "")
    known = {noted.name: noted.label for noted in every if noted.root == notes}
    anywhere = files.pop(EVERYWHERE, LITERAL)
    return Left(files, anywhere, facts, known)


def _standing(machine: Machine) -> Standing:
    monitor, schedule = machine.monitor, machine.schedule
    assert monitor is not None
    count = len(machine.program.steps)
    return Standing(
        next=0 if schedule is not None else min(machine.pc, count),
        done=frozenset() if schedule is None else frozenset(schedule.numbers_done()),
        ways={number: monitor.deciding.about(number) for number in range(count)},
        presence=dict(monitor.standing.presence),
        values=machine.variables(),
    )
