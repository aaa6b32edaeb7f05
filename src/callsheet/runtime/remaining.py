"""Verifies the remaining part of a run's plan, for a run that is to go on under another policy.

In: the state of the run, a policy. Out: the verdict over everything it may still do, with the current labels
of its values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from os.path import abspath, expanduser, realpath
from os.path import join as join_path
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote

from callsheet.ir.labels import LITERAL, Label, join
from callsheet.ir.tree import Tree, statements
from callsheet.machine import Machine
from callsheet.machine.tree.program import statement_of
from callsheet.passes.verify import NOTHING_LEFT, PersistedLabels, RunPosition, TreePosition, Verdict, verify
from callsheet.policy.builtins import Traits
from callsheet.policy.calls import CallView
from callsheet.policy.model import Policy
from callsheet.policy.overwriting import overwritten
from callsheet.policy.paths import file_key, readings_of
from callsheet.store.database import UNAVAILABLE
from callsheet.store.errors import JournalError
from callsheet.store.folded import Folded
from callsheet.store.label_transfer import has_labels, open_labels
from callsheet.store.labels import EVERYWHERE, LabelStore, Nesting, Noted, notes_of

if TYPE_CHECKING:
    from callsheet.machine.monitor.trees import TreeMonitor


def prove_remaining(
    folded: Folded, policy: Policy, left: PersistedLabels, *, can_ask: bool = True
) -> Verdict:
    """Verify the rest of a run's plan against a policy; raises ValueError for a run without labels.

    A partly finished block is verified as a whole. Files and facts have the labels that the policy gives
    them, joined with those in `left`. In a plan with blocks, what has been read has the label that either
    policy gives it.
    """
    machine = folded.machine
    monitor = machine.monitor
    if monitor is None:
        raise ValueError("the run has no policy, so its values have no labels")
    parameters = {name: fact.parameters for name, fact in folded.facts.items()}
    tree = machine.program.plan.tree
    if tree is not None:
        given = monitor.enforcement
        return verify(
            machine.program.plan,
            replace(policy, planner=policy.planner.join(monitor.literal)),
            inputs={one.name: given.inputs.get(one.name, given.given) for one in tree.inputs},
            parameters=parameters,
            can_ask=can_ask,
            position=_position_in(tree, machine, cast("TreeMonitor", monitor)),
            left=left,
        )
    known = machine.variables()
    policy_in_force = policy.without_steps() if monitor.is_anew else policy
    return verify(
        machine.program.plan,
        replace(policy_in_force, planner=policy_in_force.planner.join(monitor.literal)),
        inputs={name: label for name, (label, _) in monitor.variables().items() if name in known},
        parameters=parameters,
        can_ask=can_ask,
        position=_position_of(machine),
        left=left,
    )


def left_in(store: LabelStore, root: str, run_id: str) -> PersistedLabels:
    """The labels noted for places that a run may read: workspace files, facts that it stored itself, its
    notes.

    Which facts of other runs it finds is not known before; until they are read, they have the policy's label
    for memory. A run that has not begun has the id "". Raises one of `UNAVAILABLE`.
    """
    notes, every = notes_of(run_id), store.entries()
    files = _files_in(root, every, store.near(root)) if root else {}
    facts = join(noted.label for noted in store.entries(run_id) if noted.root == "") if run_id else LITERAL
    known = {noted.name: noted.label for noted in every if noted.root == notes}
    anywhere = files.pop(EVERYWHERE, LITERAL)
    return PersistedLabels(files, anywhere, facts, known)


def _files_in(root: str, every: Iterable[Noted], nearby: Iterable[Nesting]) -> dict[str, Label]:
    """The labels noted for the files of a workspace, also those noted in workspaces above and below."""
    others = {other.root: other for other in nearby}
    files: dict[str, Label] = {}
    for noted in every:
        other = others.get(noted.root)
        name = noted.name if noted.root == root else None if other is None else other.here(noted.name)
        if name is not None:
            files[name] = files.get(name, LITERAL).join(noted.label)
    return files


def left_before(journal: Path, root: str) -> PersistedLabels:
    """The labels noted for files that a new run with this journal and workspace would find; creates no file.

    Raises JournalError (JRN010) if they cannot be read.
    """
    if not root or not has_labels(journal):
        return NOTHING_LEFT
    try:
        with open_labels(journal) as store:
            return left_in(store, root, "")
    except UNAVAILABLE as error:
        raise JournalError(
            "JRN010", f"the labels of files beside {journal} cannot be read: {error}"
        ) from error


def _position_of(machine: Machine) -> RunPosition:
    monitor, schedule = machine.monitor, machine.schedule
    assert monitor is not None
    count = len(machine.program.steps)
    return RunPosition(
        next=0 if schedule is not None else min(machine.pc, count),
        done=frozenset() if schedule is None else frozenset(schedule.numbers_done()),
        pcs={number: monitor.implicit_flows.about(number) for number in range(count)},
        presence=dict(monitor.variable_labels.presence),
        values=machine.variables(),
    )


def _position_in(tree: Tree, machine: Machine, monitor: TreeMonitor) -> TreePosition:
    """Where a run of a plan with blocks is, and the labels that it has found."""
    return TreePosition(
        done=_done_in(tree, machine),
        labels={name: label for name, (label, _) in monitor.variables().items()},
        decided=tuple((one.region, one.label) for one in monitor.main.noted),
        clock=monitor.labels.clock,
    )


def _done_in(tree: Tree, machine: Machine) -> frozenset[str]:
    """The statements in front of the one of the main plan that is under way: nothing leads back to them."""
    assert machine.tree is not None
    main = machine.tree.main
    places = {one.id: place for place, top in enumerate(tree.body) for one in statements((top,))}
    for operation in reversed(main.body.operations[: main.pc + 1]):
        place = places.get(statement_of(operation))
        if place is not None:
            return frozenset(id_ for id_, its in places.items() if its < place)
    return frozenset()


def places_of(files: Iterable[str]) -> Mapping[str, str]:
    """These files by the keys of all places where they are written, by their names and where these lead."""
    return {file_key(spelled): file for file in files for spelled in (file, _real(file))}


def rewritten(protected: Mapping[str, str], root: str, call: CallView, traits: Traits | None) -> str | None:
    """Why a call may not be made: it would write one of the files; None where it writes none of them.

    `protected` is what `places_of` returns, `root` the workspace, "" for the working directory.
    """
    for path in overwritten(call, traits):
        for place in _places(path, root):
            if place in protected:
                return (
                    f"@{call.tool} would write {path}, and {protected[place]} controls how runs are checked"
                )
    return None


def _places(path: str, root: str) -> Iterable[str]:
    """Where a path may lead, as `file_key` has it, whichever way some system may read it."""
    if path.startswith("file://"):
        path = unquote(path.removeprefix("file://").removeprefix("localhost"))
    for reading in dict.fromkeys((*readings_of(path), path.strip())):
        place = join_path(root, expanduser(reading))
        yield from dict.fromkeys((file_key(_real(place)), file_key(_lexical(place))))


def _lexical(path: str) -> str:
    return path if "\x00" in path else abspath(path)


def _real(path: str) -> str:
    return path if "\x00" in path else realpath(path)
