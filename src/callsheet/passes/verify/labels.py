"""The labels of all values of a plan, by a worklist until nothing changes.

In: a subject. Out: for each value its label, for each step the label of the way to it. Labels only rise and
there are few of them, so that a step is looked at a few times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from callsheet.ir import Call, Order, Respond
from callsheet.ir.control import decides
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.passes.verify.anew import reads_its_own
from callsheet.passes.verify.subject import Subject
from callsheet.passes.verify.values import Kind
from callsheet.passes.verify.views import call_views, tool_of
from callsheet.policy.builtins import PUBLIC_WORLD, Traits, fold
from callsheet.policy.judge import unasked
from callsheet.policy.model import Implicit


@dataclass(slots=True)
class Labels:
    """The outcome of the analysis."""

    subject: Subject
    of_value: list[Label]
    presence: list[Label]
    """What decides whether each value is there at all, and is not empty."""
    ways: list[Label]
    """What decides whether a step is come to, by the number of the node."""
    results: list[Label]
    present: list[Label]
    """What decides whether there is a result, by the number of the step."""
    every_bit: bool = False
    """Whether single bits count wherever they fall."""
    from_before: set[int] = field(default_factory=set[int])
    """The steps that read what earlier runs have left, of another label than the policy gives its place."""

    def seen(self, step: int, names: Iterable[str]) -> Label:
        """The join of what a step sees under these names."""
        label = LITERAL
        values = self.subject.web.seen[step]
        reading = self.subject.readings[step]
        for name in names:
            if name == reading.loop:
                label = label.join(self.seen(step, reading.source))
            elif name in values:
                label = label.join(self.of_value[values[name]])
        return label

    def shown(self, step: int, names: Iterable[str]) -> Label:
        """What is told by whether these are empty, beside the one bit of the data itself.

        A value that was set only because private data says so tells what it says.
        """
        if self.counts(step):
            return self.seen(step, names)
        label = LITERAL
        values = self.subject.web.seen[step]
        for name in names:
            if name == self.subject.readings[step].loop:
                label = label.join(self.shown(step, self.subject.readings[step].source))
            elif name in values:
                label = label.join(self.presence[values[name]])
        return label

    def label_of(self, step: int, name: str) -> Label:
        """The label of a variable as the step reads it; its own output is the error when it fails."""
        own = self.subject.plan.steps[step].output
        if own is not None and own.var == name and name not in self.subject.web.seen[step]:
            return self.results[step]
        return self.seen(step, (name,))

    def guard(self, step: int) -> Label:
        """What decides about the step's own action, once it is come to: its condition and its items."""
        reading = self.subject.readings[step]
        label = self.seen(step, (*reading.contents, *reading.source))
        return label.join(self.shown(step, reading.emptiness)) if reading.emptiness else label

    def counts(self, step: int) -> bool:
        """Whether one bit counts here: in a strict policy, and where it is told repeatedly."""
        subject = self.subject
        is_strict = subject.judge.policy.implicit is Implicit.STRICT
        return self.every_bit or is_strict or bool(subject.control.in_cycle[step])

    def way(self, step: int) -> Label:
        """What decides whether the step's action is done."""
        return self.subject.judge.policy.planner.join(self.ways[step]).join(self.guard(step))

    def decision(self, step: int) -> Label:
        """What is told by where the plan goes on behind the step."""
        label = self.ways[step].join(self.guard(step))
        action = self.subject.plan.steps[step].action
        on_fail = self.subject.plan.steps[step].on_fail
        if on_fail is not None and on_fail.then is not None:
            label = label.join(self.results[step] if self.counts(step) else self.present[step])
        if isinstance(action, Respond):
            label = label.join(self.shown(step, self.subject.readings[step].arguments))
        return label

    def failure_way(self, step: int) -> Label:
        """What decides whether the message of its failure is shown."""
        return self.way(step).join(self.results[step] if self.counts(step) else self.present[step])


def labels_of(subject: Subject, *, every_bit: bool = False) -> Labels:
    """Propagate the labels of a plan until nothing changes; with `every_bit` as a strict policy has it."""
    web = subject.web
    count = len(subject.flow.successors)
    nothing = [LITERAL] * count
    values = [LITERAL] * len(web.values)
    labels = Labels(subject, values, list(values), list(nothing), nothing, list(nothing), every_bit)
    for number, decided in subject.standing.ways.items():
        labels.ways[number] = decided
    _Propagation(labels).go()
    return labels


@dataclass(slots=True)
class _Propagation:
    """The worklist: steps by their number, joins behind them."""

    labels: Labels
    _readers: list[list[int]] = field(default_factory=list[list[int]])
    _depth: list[int] = field(default_factory=list[int])
    _marked: dict[Label, dict[int, int]] = field(default_factory=dict[Label, dict[int, int]])
    _told: dict[int, Label] = field(default_factory=dict[int, Label])
    _waiting: deque[int] = field(default_factory=deque[int])
    _is_waiting: bytearray = field(default_factory=bytearray)
    _sources: dict[int, Label] = field(default_factory=dict[int, Label])
    _unknown_hosts: list[int] = field(default_factory=list[int])
    _has_settled: bool = False
    _dependents: list[list[int]] = field(default_factory=list[list[int]])
    _steps: int = 0

    def go(self) -> None:
        """Run until nothing waits."""
        subject, web = self.labels.subject, self.labels.subject.web
        self._steps = len(subject.plan.steps)
        self._readers = [[] for _ in web.values]
        for step, seen in enumerate(web.seen):
            for value in seen.values():
                self._readers[value].append(step)
        for value, operands in enumerate(web.operands):
            for operand in operands:
                self._readers[operand].append(self._steps + value)
        if subject.plan.order is Order.DAG:
            self._dependents = _dependents(subject)
        self._depth = _depths(subject.control.after, subject.flow.end)
        self._is_waiting = bytearray(self._steps + len(web.values))
        self._entries()
        for step in range(self._steps):
            if subject.is_reached[step]:
                self._wake(step)
        while self._waiting:
            work = self._waiting.popleft()
            self._is_waiting[work] = 0
            if work >= self._steps:
                self._join(work - self._steps)
            elif subject.is_reached[work]:
                self._step(work)
            if not self._waiting and not self._has_settled:
                self._settle()

    def _settle(self) -> None:
        """Addresses that only the plan itself makes up may be those of private hosts."""
        self._has_settled = True
        subject = self.labels.subject
        for number in self._unknown_hosts:
            around = subject.surroundings(lambda name, at=number: self.labels.label_of(at, name))
            for call in call_views(subject.plan.steps[number], around, LITERAL):
                self._sources[number] = self._sources[number].join(subject.judge.source(call))
            self._wake(number)

    def _wake(self, work: int) -> None:
        if not self._is_waiting[work]:
            self._is_waiting[work] = 1
            self._waiting.append(work)

    def _raise(self, value: int, label: Label, presence: Label = LITERAL) -> None:
        labels = self.labels
        joined = labels.of_value[value].join(label)
        present = labels.presence[value].join(presence)
        if joined != labels.of_value[value] or present != labels.presence[value]:
            labels.of_value[value] = joined
            labels.presence[value] = present
            for reader in self._readers[value]:
                self._wake(reader)

    def _entries(self) -> None:
        """What is there before the first step: inputs, initial variables, the notes of the run so far."""
        subject = self.labels.subject
        policy = subject.judge.policy
        initial = {name for name, _ in subject.plan.variables}
        for number, value in enumerate(subject.web.values):
            if value.kind is Kind.ENTRY:
                given = subject.inputs.get(value.name, LITERAL)
                if value.name in initial:
                    given = given.join(policy.planner)
                if value.name.startswith("note:") and value.name != "note:?":
                    given = policy.memory
                self._raise(number, given, subject.standing.presence.get(value.name, LITERAL))
            elif value.kind is Kind.JOIN:
                self._wake(self._steps + number)

    def _join(self, value: int) -> None:
        label, presence = LITERAL, LITERAL
        for operand in self.labels.subject.web.operands[value]:
            label = label.join(self.labels.of_value[operand])
            presence = presence.join(self.labels.presence[operand])
        self._raise(value, label, presence)

    def _step(self, number: int) -> None:
        labels, subject = self.labels, self.labels.subject
        step = subject.plan.steps[number]
        way = labels.way(number)
        if isinstance(step.action, Call):
            result = self._result(number, way)
            if result != labels.results[number]:
                labels.results[number] = result
            present = self._present(number, way)
            labels.present[number] = present
            if step.output is not None:
                self._raise(subject.web.made[number, Kind.RESULT, step.output.var], result, present)
            if subject.accesses[number].writes:
                stored = self._stored(number, way)
                for place in subject.accesses[number].writes:
                    self._raise(subject.web.made[number, Kind.STORED, place], stored, present)
        if self._dependents:
            self._tell(self._dependents[number], labels.decision(number))
        elif decides(step):
            self._decide(number)

    def _present(self, number: int, way: Label) -> Label:
        """What decides whether the step gives something: its way, and whether its arguments are there."""
        labels, subject = self.labels, self.labels.subject
        if subject.plan.steps[number].id in subject.judge.policy.declassify:
            return Label(way.untrusted, None)
        label = way
        values, reading = subject.web.seen[number], subject.readings[number]
        for name in (*reading.arguments, *reading.source, *subject.accesses[number].reads):
            if name in values:
                label = label.join(labels.presence[values[name]])
        return label

    def _result(self, number: int, way: Label) -> Label:
        """The label of what the step gives, the error text of a failure included."""
        labels, subject = self.labels, self.labels.subject
        step, judge = subject.plan.steps[number], self.labels.subject.judge
        tool = tool_of(step)
        traits = judge.traits(tool)
        data = judge.policy.planner.join(labels.seen(number, subject.readings[number].arguments))
        if fold(tool) == "ASK_HUMAN":
            around = subject.surroundings(lambda name: labels.label_of(number, name))
            unanswered = join(unasked(call) for call in call_views(step, around, LITERAL))
            return self._source(number).join(unanswered).join(way)
        result = self._source(number).join(data).join(labels.seen(number, subject.accesses[number].reads))
        if not result.is_public:
            result = self._as_link(number, traits, result)
        result = result.join(way)
        if step.id in judge.policy.declassify:
            result = Label(result.untrusted, None)
        return result

    def _as_link(self, number: int, traits: Traits | None, label: Label) -> Label:
        """The label without the user, if what is made may be an address that carries the data away."""
        subject = self.labels.subject
        step = subject.plan.steps[number]
        around = subject.surroundings(lambda name: self.labels.label_of(number, name))
        calls = call_views(step, around, LITERAL)
        made = any(subject.judge.makes_links(traits, call, label) for call in calls)
        return subject.judge.unshown(label) if made else label

    def _source(self, number: int) -> Label:
        """What the world adds, and what runs have left in it; a run's own notes are looked up instead."""
        if number not in self._sources:
            subject = self.labels.subject
            step = subject.plan.steps[number]
            label, tool = LITERAL, fold(tool_of(step))
            around = subject.surroundings(lambda _name: PUBLIC_WORLD)
            calls = list(call_views(step, around, LITERAL))
            if tool != "GET_WM":
                for call in calls:
                    label = label.join(subject.judge.source(call))
            left = subject.left.read_by(tool, calls)
            if not left.flows_to(label) and not reads_its_own(subject, number):
                self.labels.from_before.add(number)
                label = label.join(left)
            traits = subject.judge.traits(tool_of(step))
            if traits is not None and traits.address is not None:
                self._unknown_hosts.append(number)
            self._sources[number] = label
        return self._sources[number]

    def _stored(self, number: int, way: Label) -> Label:
        """The label of what the step puts into a place."""
        labels, subject = self.labels, self.labels.subject
        step = subject.plan.steps[number]
        if fold(tool_of(step)) == "AGENT_SOLVE":
            return labels.results[number]
        data = subject.judge.policy.planner.join(labels.seen(number, subject.readings[number].arguments))
        label = data.join(way)
        if label.is_public:
            return label
        around = subject.surroundings(lambda name: labels.label_of(number, name))
        made = any(subject.judge.links_data(call) for call in call_views(step, around, LITERAL))
        return subject.judge.unshown(label) if made else label

    def _tell(self, nodes: Iterable[int], decision: Label) -> None:
        """Something decides whether these are come to."""
        ways = self.labels.ways
        for node in nodes:
            joined = ways[node].join(decision)
            if joined != ways[node]:
                ways[node] = joined
                if node < self._steps:
                    self._wake(node)

    def _decide(self, number: int) -> None:
        """Tell all that depend on where the plan goes on behind a step."""
        labels, subject = self.labels, self.labels.subject
        decision = labels.decision(number)
        if decision == self._told.get(number, LITERAL):
            return
        self._told[number] = decision
        branch = subject.flow.group_end[number]
        after = subject.control.after
        if len(subject.flow.successors[branch]) < 2 or after[branch] < 0:
            return
        marked = self._marked.setdefault(decision, {})
        stop = self._depth[after[branch]]
        for start in subject.flow.successors[branch]:
            node = _unmarked(marked, start)
            while node >= 0 and self._depth[node] > stop:
                marked[node] = after[node]
                self._tell((node,), decision)
                node = _unmarked(marked, after[node])


def _dependents(subject: Subject) -> list[list[int]]:
    """In a plan of dependencies, the steps that wait for each step."""
    found: list[list[int]] = [[] for _ in subject.plan.steps]
    for number, step in enumerate(subject.plan.steps):
        for before in step.depends_on or ():
            if before in subject.flow.number_of:
                found[subject.flow.number_of[before]].append(number)
    return found


def _unmarked(marked: dict[int, int], node: int) -> int:
    """The node, or the next one up the tree that has not been told; paths are made short on the way."""
    path: list[int] = []
    while node in marked:
        path.append(node)
        node = marked[node]
    for passed in path:
        marked[passed] = node
    return node


def _depths(after: list[int], end: int) -> list[int]:
    """How far below the end each node stands in the tree of post-dominators."""
    depth = [-1] * len(after)
    depth[end] = 0
    for start in range(len(after)):
        path: list[int] = []
        node = start
        while node >= 0 and depth[node] < 0:
            path.append(node)
            node = after[node]
        level = depth[node] if node >= 0 else 0
        for passed in reversed(path):
            level += 1
            depth[passed] = level
    return depth
