"""Traces how data reached a step: the shortest path from where it entered the plan, for error messages.

In: the labels of a plan and a predicate for offending labels. Out: the path as texts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from callsheet.ir.control import decides
from callsheet.ir.flow import is_guarded
from callsheet.ir.labels import Label
from callsheet.passes.verify.outcome import Labels
from callsheet.passes.verify.values import Kind

_MOST_VALUES = 20_000


@dataclass(slots=True)
class FlowPaths:
    """Finds data-flow paths within one work budget for the whole plan."""

    labels: Labels
    _left: int = 200_000
    _deciders: dict[Callable[[Label], bool], list[int]] = field(
        default_factory=dict[Callable[[Label], bool], list[int]]
    )

    def path_to(self, step: int, names: Iterable[str], is_guilty: Callable[[Label], bool]) -> tuple[str, ...]:
        """The path to one of the names that a step reads, if its label is offending; else empty."""
        subject = self.labels.subject
        seen = subject.web.seen[step]
        starts = [seen[name] for name in subject.readings[step].outer(names) if name in seen]
        guilty = [value for value in starts if is_guilty(self.labels.of_value[value])]
        return self._search(guilty, is_guilty) if guilty else ()

    def decider(self, number: int, is_guilty: Callable[[Label], bool]) -> int | None:
        """The first step that controls by offending data whether this one is executed; the step itself if it
        is guarded.
        """
        subject = self.labels.subject
        steps = subject.plan.steps
        if is_guilty not in self._deciders:
            self._deciders[is_guilty] = [
                other
                for other, step in enumerate(steps)
                if decides(step) and is_guilty(self.labels.decision(other))
            ]
        for other in self._deciders[is_guilty]:
            if other >= number:
                break
            if number in set(subject.control.dependents(other)):
                return other
        if is_guarded(steps[number]) and is_guilty(self.labels.decision(number)):
            return number
        for other in self._deciders[is_guilty]:
            if other >= number and number in set(subject.control.dependents(other)):
                return other
        return self._waited_for(number, is_guilty)

    def _waited_for(self, number: int, is_guilty: Callable[[Label], bool]) -> int | None:
        """In a graph, the nearest dependency whose failure, decided by offending data, skips this step."""
        subject = self.labels.subject
        seen = {number}
        queue = deque(seen)
        while queue:
            other = queue.popleft()
            known = is_guilty(self.labels.decision(other)) and not is_guilty(self.labels.node_pcs[other])
            if other != number and known:
                return other
            names = subject.plan.steps[other].depends_on or ()
            before = {subject.flow.number_of[name] for name in names if name in subject.flow.number_of}
            queue.extend(sorted(before - seen))
            seen |= before
        return None

    def _search(self, starts: list[int], is_guilty: Callable[[Label], bool]) -> tuple[str, ...]:
        """Breadth-first search back to a value without offending operands, where the data entered."""
        web, labels = self.labels.subject.web, self.labels
        came: dict[int, int] = dict.fromkeys(starts, -1)
        queue = deque(starts)
        last = starts[0]
        while queue and self._left > 0 and len(came) < _MOST_VALUES:
            value = queue.popleft()
            self._left -= 1
            before = [v for v in self._operands(value) if v not in came and is_guilty(labels.of_value[v])]
            if not before and web.values[value].kind is not Kind.JOIN:
                last = value
                break
            for operand in before:
                came[operand] = value
                queue.append(operand)
        path: list[str] = []
        while last >= 0:
            text = self._text(last)
            if text is not None and (not path or path[-1] != text):
                path.append(text)
            last = came[last]
        return tuple(path)

    def _operands(self, value: int) -> list[int]:
        subject = self.labels.subject
        maker = subject.web.values[value]
        if maker.kind in (Kind.RESULT, Kind.STORED):
            return list(subject.web.seen[maker.step].values())
        return subject.web.operands.get(value, [])

    def _text(self, value: int) -> str | None:
        subject = self.labels.subject
        maker = subject.web.values[value]
        match maker.kind:
            case Kind.RESULT:
                return f"{subject.plan.steps[maker.step].id} ${maker.name}"
            case Kind.STORED:
                return f"{subject.plan.steps[maker.step].id} {_place(maker.name)}"
            case Kind.ENTRY:
                return f"the input ${maker.name}" if ":" not in maker.name else _place(maker.name)
            case Kind.JOIN:
                return None


def _place(name: str) -> str:
    kind, _, rest = name.partition(":")
    if kind == "memory":
        return "the memory"
    return {"*": f"the {kind}s", "?": f"a {kind}"}.get(rest, f"the {kind} {rest}")
