"""Forward reachability along data flow: which values may contain the output of given steps.

In: a prepared plan, some of its steps. Out: value numbers. Linear in the plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from callsheet.ir import Call, DictExpr, ListExpr, Literal, Step, Template, Value
from callsheet.passes.verify.subject import Subject
from callsheet.policy.builtins import ANSWERS, Reach
from callsheet.policy.links import hosts_spoken


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
    if not isinstance(step.action, Call) or tool in ANSWERS or not is_here:
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
