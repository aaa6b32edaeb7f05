"""The label tables of a plan, and the queries on them: what a step sees, what controls it, which calls it may
make.

In: a prepared plan, and its labels as computed so far. Out: labels and calls. A failed write changes nothing;
the file then has its own label, which is known when it is read at run time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from callsheet.ir import Onward, Order
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.passes.verify.call_views import call_views, written_source
from callsheet.passes.verify.persisted_labels import NOTHING_LEFT
from callsheet.passes.verify.places import ALL_FILES, BELOW, FOLDER, SOME_FILE
from callsheet.passes.verify.subject import AT_THE_START, Subject
from callsheet.policy.builtins import fold
from callsheet.policy.calls import Argument, CallView
from callsheet.policy.model import Implicit


def reads_its_own(subject: Subject, number: int) -> bool:
    """Whether the single file that a step reads was written by the plan on every control-flow path to it."""
    if subject.plan.order is Order.DAG or subject.position is not AT_THE_START:
        return False
    reads = subject.accesses[number].reads
    places = [place for place in reads if place != SOME_FILE and not place.startswith((FOLDER, BELOW))]
    if len(places) != 1 or places[0] == ALL_FILES or not places[0].startswith("file:"):
        return False
    flow, place = subject.flow, places[0]
    group = flow.group_end[number]
    seen = bytearray(len(flow.successors))
    stack = [flow.entry]
    while stack:
        node = stack.pop()
        if node == number:
            return False
        if seen[node] or (
            node < flow.end and _writes(subject, node, place) and flow.group_end[node] != group
        ):
            continue
        seen[node] = 1
        stack += flow.successors[node]
    return True


def _writes(subject: Subject, number: int, place: str) -> bool:
    """Whether a step, once reached, replaces the whole content of this place."""
    step = subject.plan.steps[number]
    if step.condition is not None or step.foreach is not None or step.call is None:
        return False
    return fold(step.call.tool) == "WRITE_FILE" and place in subject.accesses[number].writes


_SENT = "what it reads"
"""Pseudo-argument for the files, facts or notes that a call sends along."""


@dataclass(slots=True)
class Labels:
    """The result of the label analysis; it is mutable while the fixpoint is computed."""

    subject: Subject
    of_value: list[Label]
    presence: list[Label]
    """The label of whether each value exists and is not empty."""
    node_pcs: list[Label]
    """The pc label of each node, by its number: the label of what controls whether the node is reached."""
    results: list[Label]
    present: list[Label]
    """The label of whether each step has a result, by step number."""
    planner: Label
    """The label of the planner, which chose the whole plan."""
    every_bit: bool = False
    """Whether single-bit implicit flows count everywhere."""
    from_before: set[int] = field(default_factory=set[int])
    """The steps that read data of earlier runs whose label exceeds the one the policy gives the place."""
    _calls: dict[int, tuple[dict[str, Label], list[CallView]]] = field(
        default_factory=dict[int, "tuple[dict[str, Label], list[CallView]]"]
    )
    """Cache: by step the last calls built, with the labels they were built from."""
    _items: dict[int, tuple[list[Label], Label]] = field(
        default_factory=dict[int, "tuple[list[Label], Label]"]
    )
    """Cache: by step the label of its loop items, with the variable labels it was computed from."""

    def seen(self, step: int, names: Iterable[str]) -> Label:
        """The join of the labels that a step sees under these names."""
        label, of_value = LITERAL, self.of_value
        values, reading = self.subject.web.seen[step], self.subject.readings[step]
        for name in names:
            if name == reading.loop or name in values:
                seen = self.items(step) if name == reading.loop else of_value[values[name]]
                if seen is not label and seen is not LITERAL:
                    label = label.join(seen)
        return label

    def items(self, step: int) -> Label:
        """The label of a step's loop items: of the source's variables, or of the source that the plan writes
        out.
        """
        subject, seen = self.subject, self.subject.web.seen[step]
        names = subject.readings[step].source
        known = [self.of_value[seen[name]] if name in seen else LITERAL for name in names]
        cached = self._items.get(step)
        if cached is not None and cached[0] == known:
            return cached[1]
        around = subject.surroundings(dict(zip(names, known, strict=True)).__getitem__)
        source = written_source(subject.plan.steps[step], around)
        label = join(known) if source is None else subject.judge.of_items(source)
        self._items[step] = known, label
        return label

    def shown(self, step: int, names: Iterable[str]) -> Label:
        """The label of what the emptiness of these variables reveals, apart from the one bit of the data
        itself.

        A value that was set under private control reveals what controlled it.
        """
        if self.counts(step):
            return self.seen(step, names)
        label = LITERAL
        values = self.subject.web.seen[step]
        for name in self.subject.readings[step].outer(names):
            if name in values:
                label = label.join(self.presence[values[name]])
        return label

    def label_of(self, step: int, name: str) -> Label:
        """The label of a variable as the step reads it; its own output stands for the error text when it
        fails.
        """
        value = self.subject.web.seen[step].get(name)
        if value is None:
            own = self.subject.plan.steps[step].output
            if own is not None and own.var == name:
                return self.results[step]
        elif name != self.subject.readings[step].loop:
            return self.of_value[value]
        return self.seen(step, (name,))

    def calls(self, step: int) -> list[CallView]:
        """The calls that a step may make under the current labels, without its control-flow label."""
        known = self._known(step)
        cached = self._calls.get(step)
        if cached is not None and cached[0] == known:
            return cached[1]
        views = self._made(step, known, LITERAL)
        self._calls[step] = known, views
        return views

    def _known(self, step: int) -> dict[str, Label]:
        """The current labels of the inputs of a step's action."""
        reading, values = self.subject.readings[step], self.subject.web.seen[step]
        of_value, loop = self.of_value, reading.loop
        known: dict[str, Label] = {}
        for name in reading.arguments:
            is_plain = name in values and name != loop
            known[name] = of_value[values[name]] if is_plain else self.label_of(step, name)
        if self.subject.accesses[step].sent:
            known[_SENT] = self._sent(step)
        return known

    def _sent(self, step: int) -> Label:
        """The readers of what the step's call sends along from places; its integrity is irrelevant here."""
        subject, access = self.subject, self.subject.accesses[step]
        label = self.seen(step, access.reads)
        left = LITERAL if subject.left is NOTHING_LEFT else subject.left.of_places(access.sent)
        if not left.flows_to(label) and not reads_its_own(subject, step):
            label = label.join(left)
        return Label(False, label.readers)

    def _made(
        self, step: int, known: dict[str, Label], pc: Label, *, repeats: bool = False
    ) -> list[CallView]:
        around = self.subject.surroundings(known.__getitem__)
        views = call_views(self.subject.plan.steps[step], around, pc, repeats=repeats)
        sent = known.get(_SENT)
        if sent is None or sent.is_public:
            return views
        along = Argument(_SENT, (), sent)
        return [call._replace(arguments=(*call.arguments, along)) for call in views]

    def judged_calls(self, step: int) -> list[CallView]:
        """The calls that a step may make, with its control-flow label; takes them out of the cache."""
        pc, repeats = self.pc(step), bool(self.subject.control.in_cycle[step])
        known, cached = self._known(step), self._calls.pop(step, None)
        if cached is None or cached[0] != known:
            return self._made(step, known, pc, repeats=repeats)
        return [call.behind(pc, repeats=repeats) for call in cached[1]]

    def guard(self, step: int) -> Label:
        """The label of the step's own guard: its condition and its loop source."""
        reading = self.subject.readings[step]
        if not (reading.contents or reading.source or reading.emptiness):
            return LITERAL
        label = self.seen(step, (*reading.contents, *reading.source))
        return label.join(self.shown(step, reading.emptiness)) if reading.emptiness else label

    def counts(self, step: int) -> bool:
        """Whether a single bit counts here: under a strict policy, or inside a cycle."""
        subject = self.subject
        is_strict = subject.judge.policy.implicit is Implicit.STRICT
        return self.every_bit or is_strict or bool(subject.control.in_cycle[step])

    def pc(self, step: int) -> Label:
        """The pc label of the step's action: the label of everything that controls whether it is executed."""
        pc, guard = self.node_pcs[step], self.guard(step)
        if pc is not self.planner:
            pc = self.planner.join(pc)
        return pc if guard is pc else pc.join(guard)

    def decision(self, step: int) -> Label:
        """The label of what is revealed by which step follows this one."""
        label = self.node_pcs[step].join(self.guard(step))
        if self.subject.leads_by_failure(step):
            label = label.join(self._by_failure(step))
        if self.subject.plan.steps[step].course.onward is Onward.IF_EMPTY:
            label = label.join(self.shown(step, self.subject.readings[step].arguments))
        return label

    def failure_pc(self, step: int) -> Label:
        """The pc label of the step's failure message: the label of what controls whether it is shown."""
        return self.pc(step).join(self._by_failure(step))

    def _by_failure(self, step: int) -> Label:
        """The label of what is revealed by whether a step fails."""
        return self.results[step] if self.counts(step) else self.present[step]
