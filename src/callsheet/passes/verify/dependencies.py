"""Dependencies between the steps of a graph, and which steps a failure that ends the plan may cut off.

In: a plan ordered as a graph. Out: the dependents of each step, and the steps that its failure may cut off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from callsheet.ir import DictExpr, ListExpr, Literal, Plan, Step, Template, Value
from callsheet.ir.labels import Label
from callsheet.passes.verify.subject import Subject
from callsheet.policy.builtins import ANSWERS, Reach
from callsheet.policy.links import hosts_spoken

_LEAST_WORK = 100_000
_WORK_PER_STEP = 40


@dataclass(slots=True)
class GraphDependencies:
    """The dependencies of a plan in both directions, by step number."""

    before: Sequence[Sequence[int]]
    dependents: Sequence[Sequence[int]]
    _work: int = 0
    _known: dict[Label, _Ends] = field(default_factory=dict[Label, "_Ends"])

    def cut_off(self, number: int, decision: Label) -> list[int]:
        """The steps that may be skipped if this step's failure ends the plan, except those reported for this
        label before.

        These are all steps that the failing step does not depend on. Beyond a work limit the steps it depends
        on are included too, which is conservative.
        """
        known = self._known.get(decision)
        if known is None:
            known = self._known[decision] = _Ends(range(len(self.before)))
        sooner = self._all_before(number, known.ends)
        known.ends.add(number)
        if sooner is None:
            return []
        unordered = [step for step in known.left if step not in sooner]
        known.left = [step for step in known.left if step in sooner]
        return unordered

    def _all_before(self, number: int, ends: set[int]) -> set[int] | None:
        """The step and its transitive dependencies; empty beyond the work limit.

        None if one of `ends` is among them: every remaining step also precedes that one, so nothing new is
        cut off.
        """
        earlier = {number}
        waiting = [number]
        while waiting:
            step = waiting.pop()
            if step in ends:
                return None
            self._work += len(self.before[step])
            waiting.extend(before for before in self.before[step] if before not in earlier)
            earlier.update(self.before[step])
        most = max(_LEAST_WORK, _WORK_PER_STEP * len(self.before))
        return earlier if self._work <= most else set()


@dataclass(slots=True)
class _Ends:
    """The steps known to end the plan for one label, and the steps that precede all of them."""

    left: Sequence[int]
    ends: set[int] = field(default_factory=set[int])


def waiting_of(plan: Plan) -> GraphDependencies:
    """The dependencies of a plan; names of unknown steps are ignored.

    >>> from callsheet.ir import Call, Order, Plan, Step
    >>> from callsheet.ir.labels import LITERAL
    >>> steps = Step("1", Call("A")), Step("2", Call("B"), depends_on=("1",)), Step("3", Call("C"))
    >>> waiting = waiting_of(Plan(steps, order=Order.DAG))
    >>> waiting.dependents[0], waiting.cut_off(1, LITERAL), waiting.cut_off(0, LITERAL)
    ([1], [2], [1])
    """
    number_of = {step.id: number for number, step in enumerate(plan.steps)}
    before = [[number_of[name] for name in step.depends_on or () if name in number_of] for step in plan.steps]
    dependents: list[list[int]] = [[] for _ in plan.steps]
    for number, names in enumerate(before):
        for name in names:
            dependents[name].append(number)
    return GraphDependencies(before, dependents)


def reached(subject: Subject, sources: Sequence[int]) -> frozenset[int]:
    """The values that may contain what these steps return or write."""
    if not sources:
        return frozenset()
    web, waiting = subject.web, list(sources)
    readers: dict[int, list[int]] = defaultdict(list)
    for number, seen in enumerate(web.seen):
        for name in (*subject.readings[number].arguments, *subject.readings[number].source):
            if name in seen:
                readers[seen[name]].append(number)
        for place in subject.accesses[number].reads:
            if place in seen:
                readers[seen[place]].append(number)
    joined: dict[int, list[int]] = defaultdict(list)
    for value, operands in web.operands.items():
        for operand in operands:
            joined[operand].append(value)
    steps: set[int] = set()
    done = set(waiting)
    while waiting:
        rising = [*made_by(subject, waiting.pop())]
        while rising:
            value = rising.pop()
            if value not in steps:
                steps.add(value)
                rising += joined[value]
                waiting += [reader for reader in readers[value] if reader not in done]
                done.update(readers[value])
    return frozenset(steps)


def made_by(subject: Subject, number: int) -> range:
    """The values that a step makes; its result is left out if the tool has `no_echo`."""
    first, traits = subject.web.made[number], subject.prepared[number].traits
    sets = subject.plan.steps[number].output is not None
    end = first + sets + len(subject.accesses[number].writes)
    return range(first + (sets and traits is not None and traits.no_echo), end)


def steps_with_untrusted_addresses(subject: Subject) -> list[int]:
    """The steps whose text names an address of an unknown host while their tool reaches nobody outside."""
    return [
        number for number, step in enumerate(subject.plan.steps) if _names_stranger(subject, number, step)
    ]


def _names_stranger(subject: Subject, number: int, step: Step) -> bool:
    tool, traits = subject.prepared[number].tool, subject.prepared[number].traits
    is_here = traits is not None and traits.reach in (Reach.NOBODY, Reach.MODEL, Reach.MEMORY)
    if step.call is None or tool in ANSWERS or not is_here:
        return False
    hosts = (host for text in literal_texts(step) for host in hosts_spoken(text))
    return any(host is None or not subject.judge.setting.audiences.of_host(host) for host in hosts)


def literal_texts(step: Step) -> Iterator[str]:
    """The literal texts in a step's arguments and in the source of its loop."""
    for value in step.values():
        yield from texts_in(value)
    if step.foreach is not None:
        yield from texts_in(step.foreach.source)


def texts_in(value: Value) -> Iterator[str]:
    """The literal texts in a value; holes of a template are left out."""
    match value:
        case Literal(value=str() as text):
            yield text
        case Template(parts=parts):
            yield "".join(part for part in parts if isinstance(part, str))
        case ListExpr(items=items):
            for item in items:
                yield from texts_in(item)
        case DictExpr(items=pairs):
            for key, item in pairs:
                yield key
                yield from texts_in(item)
        case _:
            return


def unmarked(marked: dict[int, int], node: int) -> int:
    """The node, or its nearest unmarked ancestor; compresses the paths in `marked`."""
    path: list[int] = []
    while node in marked:
        path.append(node)
        node = marked[node]
    for passed in path:
        marked[passed] = node
    return node


def depths(after: list[int], end: int) -> list[int]:
    """The depth of each node below `end` in the post-dominator tree."""
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
