"""What the analysis has found of a plan: labels of values, of ways and of results, and what is asked of them.

In: a plan made ready, and the labels as far as they have risen. Out: what a step sees, what decides about it,
the calls that it may make.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from callsheet.ir import Respond
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.passes.verify.anew import reads_its_own
from callsheet.passes.verify.left import NOTHING_LEFT
from callsheet.passes.verify.subject import Subject
from callsheet.passes.verify.views import call_views, written_source
from callsheet.policy.calls import Argument, CallView
from callsheet.policy.model import Implicit

_SENT = "what it reads"
"""The argument that stands for what a call takes along of files, facts or notes."""


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
    planner: Label
    """That of the planner, who decides about all of the plan."""
    every_bit: bool = False
    """Whether single bits count wherever they fall."""
    from_before: set[int] = field(default_factory=set[int])
    """The steps that read what earlier runs have left, of another label than the policy gives its place."""
    _calls: dict[int, tuple[dict[str, Label], list[CallView]]] = field(
        default_factory=dict[int, "tuple[dict[str, Label], list[CallView]]"]
    )
    """By step the calls that were made last, with the labels that they were made of."""
    _items: dict[int, tuple[list[Label], Label]] = field(
        default_factory=dict[int, "tuple[list[Label], Label]"]
    )
    """By step the label of its items, with those of the variables that they were made of."""

    def seen(self, step: int, names: Iterable[str]) -> Label:
        """The join of what a step sees under these names."""
        label, of_value = LITERAL, self.of_value
        values, reading = self.subject.web.seen[step], self.subject.readings[step]
        for name in names:
            if name == reading.loop or name in values:
                seen = self.items(step) if name == reading.loop else of_value[values[name]]
                if seen is not label and seen is not LITERAL:
                    label = label.join(seen)
        return label

    def items(self, step: int) -> Label:
        """The label of the items of a step's loop: of the source's variables, and of what is made of them."""
        subject, seen = self.subject, self.subject.web.seen[step]
        names = subject.readings[step].source
        known = [self.of_value[seen[name]] if name in seen else LITERAL for name in names]
        kept = self._items.get(step)
        if kept is not None and kept[0] == known:
            return kept[1]
        around = subject.surroundings(dict(zip(names, known, strict=True)).__getitem__)
        source = written_source(subject.plan.steps[step], around)
        label = join(known) if source is None else subject.judge.of_items(source)
        self._items[step] = known, label
        return label

    def shown(self, step: int, names: Iterable[str]) -> Label:
        """What is told by whether these are empty, beside the one bit of the data itself.

        A value that was set only because private data says so tells what it says.
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
        """The label of a variable as the step reads it; its own output is the error when it fails."""
        value = self.subject.web.seen[step].get(name)
        if value is None:
            own = self.subject.plan.steps[step].output
            if own is not None and own.var == name:
                return self.results[step]
        elif name != self.subject.readings[step].loop:
            return self.of_value[value]
        return self.seen(step, (name,))

    def calls(self, step: int) -> list[CallView]:
        """The calls that a step may make with the labels as they are now, as if nothing decided about it."""
        known = self._known(step)
        kept = self._calls.get(step)
        if kept is not None and kept[0] == known:
            return kept[1]
        made = self._made(step, known, LITERAL)
        self._calls[step] = known, made
        return made

    def _known(self, step: int) -> dict[str, Label]:
        """The labels of what a step's action is given, as they are now."""
        reading, values = self.subject.readings[step], self.subject.web.seen[step]
        of_value, loop = self.of_value, reading.loop
        known: dict[str, Label] = {}
        for name in reading.arguments:
            is_plain = name in values and name != loop
            known[name] = of_value[values[name]] if is_plain else self.label_of(step, name)
        if self.subject.accesses[step].sends:
            known[_SENT] = self._sent(step)
        return known

    def _sent(self, step: int) -> Label:
        """What the step's call takes along of the places that it reads; who wrote that decides nothing."""
        subject, reads = self.subject, self.subject.accesses[step].reads
        label = self.seen(step, reads)
        if subject.left is not NOTHING_LEFT and not reads_its_own(subject, step):
            label = label.join(subject.left.of_places(reads))
        return Label(False, label.readers)

    def _made(
        self, step: int, known: dict[str, Label], way: Label, *, repeats: bool = False
    ) -> list[CallView]:
        around = self.subject.surroundings(known.__getitem__)
        made = call_views(self.subject.plan.steps[step], around, way, repeats=repeats)
        sent = known.get(_SENT)
        if sent is None or sent.is_public:
            return made
        along = Argument(_SENT, (), sent)
        return [call._replace(arguments=(*call.arguments, along)) for call in made]

    def judged_calls(self, step: int) -> list[CallView]:
        """The calls that a step may make, with what decides about them; they are made ready once."""
        way, repeats = self.way(step), bool(self.subject.control.in_cycle[step])
        known, kept = self._known(step), self._calls.pop(step, None)
        if kept is None or kept[0] != known:
            return self._made(step, known, way, repeats=repeats)
        return [call.behind(way, repeats=repeats) for call in kept[1]]

    def guard(self, step: int) -> Label:
        """What decides about the step's own action, once it is come to: its condition and its items."""
        reading = self.subject.readings[step]
        if not (reading.contents or reading.source or reading.emptiness):
            return LITERAL
        label = self.seen(step, (*reading.contents, *reading.source))
        return label.join(self.shown(step, reading.emptiness)) if reading.emptiness else label

    def counts(self, step: int) -> bool:
        """Whether one bit counts here: in a strict policy, and where it is told repeatedly."""
        subject = self.subject
        is_strict = subject.judge.policy.implicit is Implicit.STRICT
        return self.every_bit or is_strict or bool(subject.control.in_cycle[step])

    def way(self, step: int) -> Label:
        """What decides whether the step's action is done."""
        way, guard = self.ways[step], self.guard(step)
        if way is not self.planner:
            way = self.planner.join(way)
        return way if guard is way else way.join(guard)

    def decision(self, step: int) -> Label:
        """What is told by where the plan goes on behind the step."""
        label = self.ways[step].join(self.guard(step))
        action = self.subject.plan.steps[step].action
        if self.subject.leads_by_failure(step):
            label = label.join(self.results[step] if self.counts(step) else self.present[step])
        if isinstance(action, Respond):
            label = label.join(self.shown(step, self.subject.readings[step].arguments))
        return label

    def failure_way(self, step: int) -> Label:
        """What decides whether the message of its failure is shown."""
        return self.way(step).join(self.results[step] if self.counts(step) else self.present[step])
