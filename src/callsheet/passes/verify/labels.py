"""Computes the labels of all values and steps of a plan by a worklist iteration to a fixpoint.

In: a prepared plan. Out: a label for each value, and the control-flow label of each step. Labels only rise in
a small lattice, so each step is visited a few times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from callsheet.ir import Order
from callsheet.ir.control import decides
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.passes.verify.call_views import call_views, is_plain, stands_apart
from callsheet.passes.verify.dependencies import (
    GraphDependencies,
    depths,
    reached,
    steps_with_untrusted_addresses,
    unmarked,
    waiting_of,
)
from callsheet.passes.verify.outcome import Labels, reads_its_own
from callsheet.passes.verify.persisted_labels import NOTHING_LEFT, Storing
from callsheet.passes.verify.subject import Subject
from callsheet.policy.builtins import PUBLIC_WORLD
from callsheet.policy.calls import CallView
from callsheet.policy.composing import retells
from callsheet.policy.judge import offered
from callsheet.policy.model import Implicit
from callsheet.policy.prepared import Prepared


def labels_of(subject: Subject, *, every_bit: bool = False) -> Labels:
    """Propagate labels to the fixpoint; `every_bit` counts single-bit implicit flows as a strict policy
    would.
    """
    web = subject.web
    count = len(subject.flow.successors)
    nothing = [LITERAL] * count
    values = [LITERAL] * len(web.values)
    planner = subject.judge.policy.planner
    labels = Labels(subject, values, list(values), list(nothing), nothing, list(nothing), planner, every_bit)
    for number, decided in subject.position.pcs.items():
        labels.node_pcs[number] = decided
    _Propagation(labels).run()
    return labels


_LOOKING_UP = frozenset({"READ_FILE", "GET_WM"})
"""Tools that return what is stored under a name."""


@dataclass(slots=True)
class _Propagation:
    """The worklist of steps; the labels of joins are propagated at once, without queueing."""

    labels: Labels
    _readers: list[list[int]] = field(default_factory=list[list[int]])
    _depth: list[int] = field(default_factory=list[int])
    _marked: dict[Label, dict[int, int]] = field(default_factory=dict[Label, dict[int, int]])
    _delayed: dict[Label, set[int]] = field(default_factory=dict[Label, set[int]])
    """By label of decisions inside cycles: the nodes behind them."""
    _decided_by: dict[int, Label] = field(default_factory=dict[int, Label])
    _waiting: deque[int] = field(default_factory=deque[int])
    _is_waiting: bytearray = field(default_factory=bytearray)
    _sources: dict[int, Label] = field(default_factory=dict[int, Label])
    _unknown_hosts: list[int] = field(default_factory=list[int])
    _has_settled: bool = False
    _waiting_for: GraphDependencies | None = None
    _steps: int = 0
    _addresses: frozenset[int] | None = None
    """Values that may contain an address of an unknown host named in the plan; None until it is needed."""

    def run(self) -> None:
        """Iterate until the worklist is empty."""
        subject, web = self.labels.subject, self.labels.subject.web
        self._steps = len(subject.plan.steps)
        readers: list[list[int]] = [[] for _ in web.values]
        for step, seen in enumerate(web.seen):
            for value in seen.values():
                readers[value].append(step)
        for value, operands in web.operands.items():
            for operand in operands:
                readers[operand].append(self._steps + value)
        self._readers = readers
        if subject.plan.order is Order.DAG:
            self._waiting_for = waiting_of(subject.plan)
        self._is_waiting = bytearray(self._steps)
        self._entries()
        reached = [step for step in range(self._steps) if subject.is_reached[step]]
        self._waiting = waiting = deque(reached)
        self._is_waiting = is_waiting = subject.is_reached[: self._steps]
        while waiting:
            step = waiting.popleft()
            is_waiting[step] = 0
            if subject.is_reached[step]:
                self._step(step)
            if not waiting and not self._has_settled:
                self._settle()

    def _settle(self) -> None:
        """After the first fixpoint, join the source labels of steps with an address argument, whose host may
        be private.

        The labels of their calls are final only then: an address that only the plan chooses may be a private
        host.
        """
        self._has_settled = True
        subject = self.labels.subject
        for number in self._unknown_hosts:
            for call in self.labels.calls(number):
                self._sources[number] = self._sources[number].join(subject.judge.source(call))
            self._wake(number)

    def _wake(self, step: int) -> None:
        if not self._is_waiting[step]:
            self._is_waiting[step] = 1
            self._waiting.append(step)

    def _raise(self, value: int, label: Label, presence: Label = LITERAL) -> None:
        """Join a label into a value, and into all joins that have it as an operand."""
        if label is LITERAL and presence is LITERAL:
            return
        of_value, of_presence, steps = self.labels.of_value, self.labels.presence, self._steps
        rising = [(value, label, presence)]
        for risen, put, there in rising:
            known, was = of_value[risen], of_presence[risen]
            joined = put if known is LITERAL else known.join(put)
            present = was if there is LITERAL else was.join(there)
            if (joined is not known and joined != known) or (present is not was and present != was):
                of_value[risen], of_presence[risen] = joined, present
                for reader in self._readers[risen]:
                    if reader >= steps:
                        rising.append((reader - steps, joined, present))
                    elif not self._is_waiting[reader]:
                        self._wake(reader)

    def _entries(self) -> None:
        """Label what exists before the first step: inputs, initial variables, the run's notes."""
        subject = self.labels.subject
        policy = subject.judge.policy
        initial = {name for name, _ in subject.plan.variables}
        for number in subject.web.entries:
            name = subject.web.values[number].name
            given = subject.inputs.get(name, LITERAL)
            if name in initial:
                given = given.join(self.labels.planner)
            if name.startswith("note:") and name != "note:?":
                given = policy.memory
            self._raise(number, given, subject.position.presence.get(name, LITERAL))

    def _step(self, number: int) -> None:
        labels, subject = self.labels, self.labels.subject
        step = subject.plan.steps[number]
        pc = labels.pc(number)
        if step.call is not None:
            labels.results[number] = result = self._result(number, pc)
            labels.present[number] = present = self._present(number, pc)
            node = subject.web.made[number]
            if step.output is not None:
                self._raise(node, result, present)
                node += 1
            places = len(subject.accesses[number].writes)
            if places:
                stored = self._stored(number, pc)
                for value in range(node, node + places):
                    self._raise(value, stored, present)
        if self._waiting_for is not None:
            decision = labels.decision(number)
            self._join_control(self._waiting_for.dependents[number], decision)
            if step.after_failure.leaves and decision != LITERAL:
                self._join_control(self._waiting_for.cut_off(number, decision), decision)
        elif decides(step):
            self._decide(number)

    def _present(self, number: int, pc: Label) -> Label:
        """The label of whether the step gives a result: its control-flow label, and the presence of its
        arguments; for a program that the plan wrote, all that it may have read.
        """
        labels, subject = self.labels, self.labels.subject
        declassify = subject.judge.policy.declassify
        if declassify and subject.plan.steps[number].id in declassify:
            return Label(pc.untrusted, None)
        label = pc
        values, reading, presence = subject.web.seen[number], subject.readings[number], labels.presence
        names, places = reading.arguments, subject.accesses[number].reads
        if reading.source or places:
            names = (*names, *reading.source, *places)
        for name in names:
            if name in values:
                there = presence[values[name]]
                if there is not label and there is not LITERAL:
                    label = label.join(there)
        if subject.prepared[number].tool in _LOOKING_UP:  # presence depends only on which entry is looked up
            label = label.join(labels.seen(number, reading.arguments))
        if subject.prepared[number].is_program:
            label = label.join(labels.results[number])
        return label

    def _result(self, number: int, pc: Label) -> Label:
        """The label of the step's result, which includes the error text of a failure."""
        labels, subject = self.labels, self.labels.subject
        step, judge, prepared = subject.plan.steps[number], subject.judge, subject.prepared[number]
        if prepared.tool == "ASK_HUMAN":
            answers = join(offered(call) for call in labels.calls(number))
            return self._source(number).join(answers).join(pc)
        result = self._source(number)
        if labels.planner is not LITERAL:
            result = result.join(labels.planner)
        arguments, reads = subject.readings[number].arguments, subject.accesses[number].reads
        if step.on_fail is not None and not step.after_failure.leaves:  # what a failure reads is the result
            arguments = (*arguments, *subject.readings[number].failure)
        data = labels.seen(number, arguments) if arguments else LITERAL
        if data is not LITERAL:
            result = result.join(data)
        if reads:
            result = result.join(labels.seen(number, reads))
        if result.readers is not None:
            result = self._as_link(number, prepared, data, result)
        if pc is not LITERAL:
            result = result.join(pc)
        if judge.policy.declassify and step.id in judge.policy.declassify:
            result = Label(result.untrusted, None)
        return result

    def _as_link(self, number: int, prepared: Prepared, data: Label, label: Label) -> Label:
        """The label without the user as reader, if the result may be an address that would leak the data when
        shown.
        """
        traits = prepared.traits
        if traits is not None and traits.no_echo:
            return label
        subject = self.labels.subject
        judge = subject.judge
        if self._retells(number, prepared, data):
            if label.untrusted:
                label = label.retold()
            elif self._reads_address(number):  # only untrusted text has its links disarmed
                return judge.unshown(label)
        if subject.says_its_texts_alone and is_plain(subject.plan.steps[number]):
            return label
        makes_links = any(judge.makes_links(traits, call, label) for call in self.labels.calls(number))
        return judge.unshown(label) if makes_links else label

    def _reads_address(self, number: int) -> bool:
        """Whether the step's input may contain an address that the plan itself names."""
        subject = self.labels.subject
        if self._addresses is None:
            self._addresses = reached(subject, steps_with_untrusted_addresses(subject))
        seen = subject.web.seen[number]
        names = subject.readings[number].outer(subject.readings[number].arguments)
        return any(seen[name] in self._addresses for name in names if name in seen)

    def _retells(self, number: int, prepared: Prepared, data: Label) -> bool:
        """Whether the step composes a text of its own from its arguments, which have the label `data`.

        The step's calls are built only where their content decides this.
        """
        traits, labels = prepared.traits, self.labels
        composes = traits is None or traits.composes
        if composes and labels.planner == LITERAL:
            return data != LITERAL
        if not composes and prepared.tool != "SELECT":
            return False
        return any(retells(traits, call) for call in labels.calls(number))

    def _source(self, number: int) -> Label:
        """The label of what the tool adds from outside, including what runs have left there.

        For the run's own notes (`GET_WM`) only what runs have left counts; the rest flows through values.
        """
        known = self._sources.get(number)
        if known is not None:
            return known
        subject = self.labels.subject
        prepared = subject.prepared[number]
        is_note, label, left = prepared.tool == "GET_WM", LITERAL, LITERAL
        if subject.left is not NOTHING_LEFT:
            left = self._left(number)
        if not is_note:
            label = prepared.source or join(map(subject.judge.source, self._sourced(number)))
        if left is not LITERAL and not left.flows_to(label) and not reads_its_own(subject, number):
            self.labels.from_before.add(number)
            label = label.join(left)
        if prepared.traits is not None and prepared.traits.address is not None:
            self._unknown_hosts.append(number)
        self._sources[number] = label
        return label

    def _left(self, number: int) -> Label:
        """The label of what runs have left in the places that the step reads."""
        subject = self.labels.subject
        calls, reads = self._sourced(number), subject.accesses[number].reads
        return subject.left.read_by(subject.judge.setting, subject.prepared[number], calls, reads)

    def _sourced(self, number: int) -> list[CallView]:
        """The step's calls for determining their source label, independent of the labels of their data."""
        subject = self.labels.subject
        if not subject.readings[number].arguments:
            return self.labels.calls(number)
        around = subject.surroundings(lambda _name: PUBLIC_WORLD)
        return call_views(subject.plan.steps[number], around, LITERAL)

    def _stored(self, number: int, pc: Label) -> Label:
        """The label of what the step writes to a place."""
        labels, subject = self.labels, self.labels.subject
        reads = subject.accesses[number].reads
        data = labels.planner.join(labels.seen(number, subject.readings[number].arguments))
        read, result = labels.seen(number, reads), labels.results[number]
        return Storing(data, read, self._source(number), pc, result).stored(
            subject.judge,
            subject.prepared[number],
            partial(labels.calls, number),
            subject.left.of_places(reads),
            stands_apart=subject.says_its_texts_alone and stands_apart(subject.plan.steps[number]),
        )

    def _join_control(self, nodes: Iterable[int], decision: Label) -> None:
        """Join a decision into the control-flow labels of these nodes."""
        node_pcs = self.labels.node_pcs
        for node in nodes:
            joined = node_pcs[node].join(decision)
            if joined != node_pcs[node]:
                node_pcs[node] = joined
                if node < self._steps:
                    self._wake(node)

    def _delay(self, branch: int, decision: Label) -> None:
        """Propagate a decision inside a cycle to everything behind it: a run may never leave the cycle."""
        if decision.is_public:
            return
        delayed = self._delayed.setdefault(decision, set())
        waiting = [node for node in self.labels.subject.flow.successors[branch] if node not in delayed]
        while waiting:
            node = waiting.pop()
            if node not in delayed:
                delayed.add(node)
                self._join_control((node,), decision)
                waiting.extend(self.labels.subject.flow.successors[node])

    def _decide(self, number: int) -> None:
        """Propagate the step's decision to all nodes that are control dependent on it."""
        labels, subject = self.labels, self.labels.subject
        decision = labels.decision(number)
        if decision == self._decided_by.get(number, LITERAL):
            return
        self._decided_by[number] = decision
        flow, after = subject.control.flow, subject.control.after
        branch = flow.group_end[number]
        if subject.judge.policy.implicit is Implicit.STRICT and subject.control.in_cycle[number]:
            self._delay(branch, decision)
        if len(flow.successors[branch]) < 2 or after[branch] < 0:
            return
        marked = self._marked.setdefault(decision, {})
        self._depth = self._depth or depths(after, flow.end)
        stop = self._depth[after[branch]]
        for start in flow.successors[branch]:
            node = unmarked(marked, start)
            while node >= 0 and self._depth[node] > stop:
                marked[node] = after[node]
                self._join_control((node,), decision)
                node = unmarked(marked, after[node])
