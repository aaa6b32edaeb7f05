"""Assembles a distilled plan: its text, its inputs, and what is to be read in it.

In: recorded calls in order, and the words of the user. Out: the plan with the fewest values that nothing
explains, and the calls that it makes; calls that only looked at what nothing follows from are no part of it.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from callsheet.authoring.distillation.inputs import SAID, Inputs
from callsheet.authoring.distillation.recorded_calls import RecordedCall, only_reads, texts_in
from callsheet.authoring.distillation.rounds import segments
from callsheet.authoring.distillation.sources import Sources
from callsheet.authoring.distillation.wording import condition_in, unquoted
from callsheet.authoring.distillation.writer import STOP, Writer, WrittenCall
from callsheet.ir import JSON, Effect

_FEW, _MOST_CALLS = 6, 300
"""Up to so many calls of a reading tool each is tried to be left out, in a run of at most so many calls."""
_TEST = "\n        if "
"""How a plan asks something of what it has looked up in a round, as the user's words ask."""
_IMPORTS = (
    ("re.search(", "import re\n"),
    ("re.findall(", "import re\n"),
    ("timedelta(", "from datetime import date, datetime, timedelta\n"),
)
_NO_EFFECTS: Mapping[str, Effect] = MappingProxyType({})


class DistilledPlan(NamedTuple):
    """A plan, the inputs of the recorded run, and why each of them is an input.

    `readings` are the places of the plan that rest on how the user's words were read, `stops` the conditions
    without which it stops, since the record does not tell what to do then. `calls` are those in the text.
    """

    text: str
    inputs: dict[str, JSON]
    reasons: dict[str, str]
    readings: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    calls: tuple[WrittenCall, ...] = ()

    @property
    def unexplained(self) -> frozenset[str]:
        """What nothing explains, as JSON."""
        open_ones = (self.inputs[name] for name, reason in self.reasons.items() if reason != SAID)
        return frozenset(json.dumps(value, sort_keys=True) for value in open_ones)

    @property
    def cost(self) -> tuple[int, int]:
        """How much nothing explains, where a list is more than a value; then how long it is."""
        return sum(1 + one.startswith("[") for one in self.unexplained), self.text.count("await ")


def plans(
    calls: Sequence[RecordedCall],
    every: Sequence[RecordedCall],
    said: str,
    title: str,
    effects: Mapping[str, Effect] = _NO_EFFECTS,
) -> Iterator[tuple[DistilledPlan, list[RecordedCall]]]:
    """The plans that may do what these calls did, the likeliest first, each with the calls that it makes.

    `every` are all calls of the run: one that looked at something before something was changed is made again
    if its arguments are explained, since what it found may have been a reason.
    """
    either = (calls,) if [*calls] == [*every] else (calls, every)
    seen = frozenset(chain.from_iterable(texts_in(call.result) for call in every))

    def made(of: Sequence[RecordedCall]) -> DistilledPlan:
        return distilled(of, said, title, effects, seen)

    tried = [_least(one, made, effects) for one in either if len(one) <= _MOST_CALLS]
    tried.append((made(calls), [*calls]))
    tried.sort(key=lambda one: one[0].cost)
    yield _with_looks(*tried[0], every, made, effects)
    yield from tried


def _with_looks(
    plan: DistilledPlan,
    calls: Sequence[RecordedCall],
    every: Sequence[RecordedCall],
    made: Callable[[Sequence[RecordedCall]], DistilledPlan],
    effects: Mapping[str, Effect],
) -> tuple[DistilledPlan, list[RecordedCall]]:
    """The plan with the calls that looked at what may have been a reason to go on."""
    kept = [*calls]
    last = max((call.place for call in kept if not only_reads(call.tool, effects)), default=-1)
    looks = [
        call for call in every if call.place < last and only_reads(call.tool, effects) and call not in kept
    ]
    for tool in dict.fromkeys(call.tool for call in looks):
        group = [call for call in looks if call.tool == tool]
        more = sorted((*kept, *group), key=lambda one: one.place)
        other = made(more) if len(group) > 1 else plan
        if _is_guarded(other, plan):
            plan, kept = other, more
    counts = Counter(call.tool for call in looks)
    for call in [call for call in looks if counts[call.tool] <= _FEW]:
        if any(one.tool == call.tool and one.args == call.args for one in kept):
            continue
        more = sorted((*kept, call), key=lambda one: one.place)
        other = made(more)
        if _is_guarded(other, plan):
            plan, kept = other, more
    return plan, kept


def _is_guarded(plan: DistilledPlan, before: DistilledPlan) -> bool:
    """Whether a plan looks once more than another, and stops where it finds something else."""
    is_once = plan.text.count("\n    for ") == before.text.count("\n    for ")
    wanted = before.cost[0], before.cost[1] + 1
    return is_once and plan.cost == wanted and len(plan.stops) > len(before.stops)


def _least(
    calls: Sequence[RecordedCall],
    made: Callable[[Sequence[RecordedCall]], DistilledPlan],
    effects: Mapping[str, Effect],
) -> tuple[DistilledPlan, list[RecordedCall]]:
    """The plan without the reading calls that it does not need: all of a tool, or one of a few."""
    kept = [*calls]
    plan = made(kept)
    reads = Counter(call.tool for call in calls if only_reads(call.tool, effects))
    groups = [{call.place for call in calls if call.tool == tool} for tool in reads]
    groups += [{call.place} for call in calls[::-1] if 1 < reads[call.tool] <= _FEW]
    for group in groups:
        rest = [one for one in kept if one.place not in group]
        if not rest or len(rest) == len(kept):
            continue
        other = made(rest)
        keeps_tests = other.text.count(_TEST) >= plan.text.count(_TEST)
        is_simpler = other.unexplained <= plan.unexplained and other.cost < plan.cost and keeps_tests
        if is_simpler or other.cost[0] < plan.cost[0]:
            plan, kept = other, rest
    return plan, kept


def distilled(
    calls: Sequence[RecordedCall],
    said: str,
    title: str,
    effects: Mapping[str, Effect] = _NO_EFFECTS,
    seen: frozenset[str] = frozenset(),
) -> DistilledPlan:
    """The plan of these calls; there is at least one. `seen` are the texts in the results of the run."""
    names = {call.tool.lower() for call in calls} | {"main", "row", "each", "one"}
    words = (re.split(r"\W|_", text.lower()) for call in calls for text in (call.tool, *call.args))
    vocabulary = chain(chain.from_iterable(words), *(_fields_of(call.result) for call in calls))
    inputs = Inputs(said, unquoted(said), frozenset(vocabulary), names)
    changing = [call for call in calls if not only_reads(call.tool, effects)]
    writer = Writer(
        inputs,
        Sources(inputs, frozenset(chain.from_iterable(texts_in(call.args) for call in calls))),
        reads=frozenset(call.tool for call in calls if only_reads(call.tool, effects)),
        changed=frozenset(chain.from_iterable(texts_in(call.args) for call in changing)),
        open_condition=condition_in(said),
        seen=seen,
    )
    for segment in segments(calls, writer.sources.is_known, writer.reads):
        writer.write(segment)
    writer.close_condition()
    plan = assembled(writer.guarded_lines(), inputs, title, writer.sources.known[-1].name, writer.calls)
    return plan._replace(readings=(*_readings(writer, plan.text.splitlines()),))


def assembled(
    lines: Sequence[str], inputs: Inputs, title: str, answer: str, calls: Sequence[WrittenCall]
) -> DistilledPlan:
    """The plan of some lines, with the inputs that they use; it ends with the answer."""
    lines = _without_idle_lists(lines, answer)
    inputs.forget_all_but(_names_in(lines))
    given = ", ".join(f"{name}: {_type_of(value)}" for name, value in inputs.values.items())
    why = "".join(f"    {name}: {reason}\n" for name, reason in inputs.reasons.items())
    about = f'    """{title}\n\n{why}    """\n' if why else f'    """{title}"""\n'
    body = "\n".join([*lines, f"    return {answer}", ""])
    imports = "".join(line for word, line in _IMPORTS if word in body)
    text = f"{imports}async def main({given}):\n{about}{body}"
    found = (line.strip()[len("assert ") :].partition(f', "{STOP}')[0] for line in lines if STOP in line)
    stops = tuple(dict.fromkeys(found))
    return DistilledPlan(text, inputs.values, inputs.reasons, (), stops, (*calls,))


def _fields_of(value: JSON) -> Iterator[str]:
    """The words for the fields of a result that have texts and numbers; what has a flag may be otherwise."""
    if isinstance(value, list):
        for item in value:
            yield from _fields_of(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, str | int | float) and not isinstance(item, bool):
                yield from re.split(r"\W|_", name.lower())
            yield from _fields_of(item)


def _names_in(lines: Sequence[str]) -> set[str]:
    """The names that are read in the body of a plan."""
    body = ast.parse("\n".join(["async def main():", *lines]))
    return {node.id for node in ast.walk(body) if isinstance(node, ast.Name)}


def _readings(writer: Writer, lines: Sequence[str]) -> Iterator[str]:
    """The parts of lists, and the words around data, that a plan has because of the user's words."""
    text = "\n".join(lines)
    for code in writer.parts_used:
        yield f"{code} is what the user's words select, and was so in the run"
    for words in dict.fromkeys(writer.inputs.words_kept):
        quoted = json.dumps(words, ensure_ascii=False)
        if words.strip() and quoted[1:-1].strip() in text:
            yield f"the words {quoted} are taken for those of the user, and stay the same"


def _without_idle_lists(lines: Sequence[str], answer: str) -> list[str]:
    """The lines without the lists of results that nothing uses."""
    text = "\n".join(lines)
    idle: set[str] = set()
    for line in lines:
        name = line.strip().removesuffix(" = []")
        if line.endswith(" = []") and name != answer and len(re.findall(rf"\b{name}\b", text)) == 2:
            idle.add(name)
    return [
        line for line in lines if not any(re.match(rf"\s*{name}( = \[\]$|\.append\()", line) for name in idle)
    ]


def _type_of(value: JSON) -> str:
    match value:
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case str():
            return "str"
        case list():
            kinds = {_type_of(item) for item in value}
            return f"list[{kinds.pop()}]" if len(kinds) == 1 else "list"
        case _:
            return "dict"
