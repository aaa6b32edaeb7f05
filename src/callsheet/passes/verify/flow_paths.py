"""Traces how data reached a step: the shortest path from where it entered the plan, for error messages.

In: the labels of a plan and a predicate for offending labels. Out: the path as texts.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from callsheet import lazy
from callsheet.ir import Ending, Order
from callsheet.ir.control import decides
from callsheet.ir.labels import Label, join
from callsheet.passes.verify.dependencies import literal_texts, reached, texts_in
from callsheet.passes.verify.outcome import Labels
from callsheet.passes.verify.subject import Subject
from callsheet.passes.verify.values import Kind
from callsheet.policy.builtins import ANSWERS
from callsheet.policy.calls import Objection, Part, Rule
from callsheet.policy.labelled import is_shown
from callsheet.policy.links import images
from callsheet.policy.model import Implicit
from callsheet.policy.rules import answers
from callsheet.policy.rules.base import own_texts

_MOST_VALUES = 20_000


@dataclass(slots=True)
class FlowPaths:
    """Finds data-flow paths within one work budget for the whole plan."""

    labels: Labels
    _left: int = 200_000
    _deciders: dict[Callable[[Label], bool], list[int]] = field(
        default_factory=dict[Callable[[Label], bool], list[int]]
    )

    def path_to(
        self,
        step: int,
        names: Iterable[str],
        is_guilty: Callable[[Label], bool],
        was_guilty: Callable[[Label], bool] | None = None,
    ) -> tuple[str, ...]:
        """The path to one of the names that a step reads, if its label is offending; else empty.

        It leads back as far as data `was_guilty`, by default as far as it is.
        """
        subject = self.labels.subject
        seen = subject.web.seen[step]
        starts = [seen[name] for name in subject.readings[step].outer(names) if name in seen]
        guilty = [value for value in starts if is_guilty(self.labels.of_value[value])]
        return self._search(guilty, was_guilty or is_guilty) if guilty else ()

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
        if steps[number].is_guarded and is_guilty(self.labels.decision(number)):
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


_BEGINNINGS = ("!", "![x]")
"""Prefixes that turn a following link or address into an image."""
_LOADS = lazy.pattern(r"\bsrc(?:set)?\s*=", re.IGNORECASE)
_HINT = "show it unconditionally, or answer with text"


def image_objections(
    labels: Labels, numbers: Iterable[int], last: Iterable[int]
) -> Iterator[tuple[int, Objection]]:
    """An ANSWER objection for each of these steps that shows a value whose private presence decides about an
    image.

    The results of the steps in `last` are the plan's implicit answer.
    """
    presence, web = labels.presence, labels.subject.web
    shown = [(number, _shown(labels, number)) for number in numbers]
    shown += [(number, [web.made[number]]) for number in last]
    decided = [
        (n, private) for n, values in shown if (private := [v for v in values if not presence[v].is_public])
    ]
    if not decided:
        return
    revealed = join(presence[value] for _, values in decided for value in values)
    steps = _may_say_images(labels)
    holding = reached(labels.subject, [number for number in steps if _names_image(labels, number, revealed)])
    beginning = reached(labels.subject, [number for number in steps if _begins_image(labels, number)])
    for number, values in decided:
        guilty = [value for value in values if value in holding]
        begun = [] if guilty else [value for value in values if value in beginning]
        if guilty or (begun and _completes_image(labels, number, begun, revealed)):
            name = web.values[(guilty or begun)[0]].name
            message = f"whether ${name} holds an image from outside tells its host about private data"
            yield number, Objection(Rule.ANSWER, message, None, _HINT)


def _may_say_images(labels: Labels) -> list[int]:
    """The steps whose texts may contain or begin an image; all steps if a constant may."""
    subject = labels.subject
    steps = subject.plan.steps
    texts = (text for value in subject.constants.values() for text in texts_in(value))
    if any(_is_sign(text) for text in texts):
        return list(range(len(steps)))
    return [number for number, step in enumerate(steps) if any(map(_is_sign, literal_texts(step)))]


def _is_sign(text: str) -> bool:
    return "!" in text or "<" in text or "url(" in text.casefold()


def _shown(labels: Labels, number: int) -> list[int]:
    """The values that a step shows to the user: in an answer, a question, or its failure message."""
    subject = labels.subject
    reading, seen = subject.readings[number], subject.web.seen[number]
    names = reading.failure
    if subject.prepared[number].tool in ANSWERS:
        names = (*names, *reading.outer(reading.arguments))
    return [seen[name] for name in names if name in seen]


def _completes_image(labels: Labels, number: int, values: list[int], revealed: Label) -> bool:
    """Whether the step's own text forms an image if one of these values is the beginning of one."""
    subject = labels.subject
    names = {subject.web.values[value].name for value in values}
    if subject.prepared[number].tool not in ANSWERS:
        return False
    for call in labels.calls(number):
        parts = answers.parts_of(call)
        own = "".join([_filled(part, names, "") for part in parts])
        if not answers.leads_outside(subject.judge.setting, own, revealed):
            continue
        beginnings = _BEGINNINGS if _LOADS.search(own) is None else (*_BEGINNINGS, "<img ")
        if any(images("".join([_filled(part, names, begun) for part in parts])) for begun in beginnings):
            return True
    return False


def _filled(part: Part, names: set[str], beginning: str) -> str:
    if isinstance(part, str):
        return part
    return beginning if part.name.partition(".")[0] in names else part.text or "x"


def _begins_image(labels: Labels, number: int) -> bool:
    """Whether a step's text contains a prefix that makes an image of what follows it."""
    if labels.subject.plan.steps[number].call is None:
        return False
    own = [
        text for call in labels.calls(number) for argument in call.arguments for text in own_texts(argument)
    ]
    return any("![" in text or "<i" in text.casefold() or text.endswith("!") for text in own)


def _names_image(labels: Labels, number: int, revealed: Label) -> bool:
    """Whether a step's text contains an image on a host that may not learn data of this label."""
    step, tool = labels.subject.plan.steps[number], labels.subject.prepared[number].tool
    if step.call is None or tool in ANSWERS:
        return False
    judge = labels.subject.judge
    return any(
        answers.leaks_through_image(judge.setting, call.behind(revealed, repeats=False))
        for call in labels.calls(number)
    )


def leaked_bits(labels: Labels) -> int:
    """The number of steps that leak a bit of private data which their own label does not cover."""
    subject = labels.subject
    if subject.judge.policy.implicit is Implicit.STRICT:
        return 0
    return sum(_reveals_bit(labels, number) for number in _asking(subject))


def _asking(subject: Subject) -> list[int]:
    """The steps that may leak a bit: by an emptiness test, an answer, or a failure."""
    may_fail = subject.plan.order is Order.DAG
    return [
        number
        for number, (step, reading) in enumerate(zip(subject.plan.steps, subject.readings, strict=True))
        if may_fail or reading.emptiness or step.on_fail is not None or step.course.ends is Ending.ANSWER
    ]


def _reveals_bit(labels: Labels, number: int) -> bool:
    subject = labels.subject
    if not subject.is_reached[number] or labels.counts(number):
        return False
    step, reading = subject.plan.steps[number], subject.readings[number]
    if reading.emptiness and _is_more(labels, number, reading.emptiness):
        return True
    if step.course.ends is Ending.ANSWER:
        return _is_more(labels, number, reading.arguments)
    can_jump = step.call is not None and subject.leads_by_failure(number)
    computes = can_jump and not labels.seen(number, reading.arguments).is_public
    return computes and not is_shown(labels.results[number], labels.present[number])


def _is_more(labels: Labels, number: int, names: tuple[str, ...]) -> bool:
    return not is_shown(labels.seen(number, names), labels.shown(number, names))


def last_values(subject: Subject) -> list[int]:
    """The steps whose result may be the plan's answer; none if the plan always answers explicitly."""
    steps, last = subject.plan.steps, len(subject.plan.steps) - 1
    if last < 0:
        return []
    if subject.plan.order is Order.DAG:
        says_one = any(step.course.ends is Ending.ANSWER and step.condition is None for step in steps)
        return [] if says_one or not _sets(subject, last) else [last]
    if not _falls(subject, last):
        return []
    values: list[int] = []
    seen, stack = {last}, [last]
    while stack:
        number = stack.pop()
        if _sets(subject, number):
            values.append(number)
            if steps[number].condition is None and steps[number].group is None:
                continue
        for before in subject.flow.predecessors[number]:
            if before <= last and before not in seen and subject.is_reached[before]:
                seen.add(before)
                stack.append(before)
    return sorted(values)


def _sets(subject: Subject, number: int) -> bool:
    step = subject.plan.steps[number]
    return step.call is not None and step.output is not None and bool(subject.is_reached[number])


def _falls(subject: Subject, last: int) -> bool:
    """Whether control may fall off the end of the plan, after its last step or group, without an answer."""
    if not subject.is_reached[last]:
        return False
    first = last
    while first > 0 and subject.flow.group_end[first - 1] == subject.flow.group_end[last]:
        first -= 1
    return all(
        step.call is not None or step.condition is not None or step.foreach is not None
        for step in subject.plan.steps[first : last + 1]
    )
