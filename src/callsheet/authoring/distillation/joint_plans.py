"""The plans that several recorded runs of one job admit, the likeliest first; or what none explains.

In: the calls of each run and the words of its user, which are compared: what they say otherwise are inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from callsheet.authoring.distillation.inputs import SAID, Inputs
from callsheet.authoring.distillation.joint import JointWriter, Missed, Open
from callsheet.authoring.distillation.leaves import Source
from callsheet.authoring.distillation.patterns import patterns
from callsheet.authoring.distillation.plan_text import DistilledPlan, assembled
from callsheet.authoring.distillation.recorded_calls import RecordedCall, RecordedWork, only_reads, texts_in
from callsheet.authoring.distillation.retelling import Retelling
from callsheet.authoring.distillation.scopes import Scope
from callsheet.authoring.distillation.texts import LONE
from callsheet.authoring.distillation.wording import condition_in, unquoted
from callsheet.ir import JSON, Effect

_TAKEN = ("main", "row", "each", "one", "item", "line", "date", "datetime", "timedelta", "re")
"""The names that expressions have within."""
_WORD = re.compile(r"[a-z][\w-]+")


class JointPlan(NamedTuple):
    """A plan of several runs, its inputs in each, its calls in the first, and what is open: by place, the
    recorded value and the readings that are about as likely as each other."""

    plan: DistilledPlan
    inputs: Sequence[dict[str, JSON]]
    calls: Sequence[RecordedCall]
    open: Mapping[str, Open]


def joint_plans(
    runs: Sequence[Sequence[RecordedCall]],
    works: Sequence[RecordedWork],
    title: str,
    effects: Mapping[str, Effect],
    choices: Mapping[str, str],
) -> Iterator[JointPlan | Missed]:
    """The plans of the calls of several runs, the likeliest first; or what was not explained."""
    first = works[0].said
    reads = frozenset(call.tool for calls in runs for call in calls if only_reads(call.tool, effects))
    seen = frozenset(text for calls in runs for call in calls for text in texts_in(call.result))
    open_word = condition_in(first)
    for nodes, found in patterns(runs):
        names = {call.tool.lower() for calls in runs for call in calls} | {*_TAKEN}
        words = chain.from_iterable(
            re.split(r"\W|_", text.lower()) for call in runs[0] for text in (call.tool, *call.args)
        )
        inputs = Inputs(first, unquoted(first), frozenset(words), names)
        given = _given(inputs, works, runs[0])
        sources = [Source(name, tuple(values), 0, is_given=True) for name, values in given.items()]
        said = frozenset(_WORD.findall(inputs.request.lower()))
        changing = (call.args for calls in runs for call in calls if call.tool not in reads)
        writer = JointWriter(inputs, reads, inputs.means_all(), choices=choices)
        writer.open_condition, writer.given = open_word, given
        writer.requests = [unquoted(one.said) for one in works]
        writer.changed = frozenset(chain.from_iterable(map(texts_in, changing)))
        scope = Scope(sources, len(runs), said, seen, means_all=inputs.means_all())
        if len(runs) == 1:
            scope.may_stay = inputs.is_expected
        try:
            lines = writer.guarded(writer.write(nodes, found, scope))
        except Missed as missed:
            yield missed
            continue
        answer = re.findall(r"^    (\w+) = await", "\n".join(lines), re.MULTILINE)
        plan = assembled(lines, inputs, title, answer[-1] if answer else "None", writer.calls)
        if unused := _unused(inputs, works, plan.text):  # the user meant something by it, which no run shows
            yield Missed(unused)
            continue
        each = [{name: given[name][number] for name in plan.inputs} for number in range(len(runs))]
        yield JointPlan(plan, each, runs[0], writer.open)


def _given(
    inputs: Inputs, works: Sequence[RecordedWork], calls: Sequence[RecordedCall]
) -> dict[str, list[JSON]]:
    """What the user has said, by the names of inputs, in each run."""
    told = [Retelling(works[0].said, one.said) for one in works[1:]]
    for one in told:
        for span in one.spans():
            if span.isdigit():
                inputs.numbers_said(["0"])
            else:
                inputs.said_input(_called(span, calls), span)
    for call in calls:
        for name, value in call.args.items():
            inputs.words_in(name, [value])
    inputs.words_said(1)
    return _retold(inputs, works)


def _retold(inputs: Inputs, works: Sequence[RecordedWork]) -> dict[str, list[JSON]]:
    """The values of inputs in all runs, of those whose words each run has."""
    told = [Retelling(works[0].said, one.said) for one in works[1:]]
    found: dict[str, list[JSON]] = {}
    for name, value in [*inputs.values.items()]:
        values = [value, *(one.value_for(value) for one in told)]
        if inputs.reasons[name] == SAID and None not in values and len({*map(type, values)}) == 1:
            found[name] = values
    return found


def _called(text: str, calls: Sequence[RecordedCall]) -> str:
    """The name of the argument that has a text."""
    return next(
        (name for call in calls for name, value in call.args.items() if value == text),
        text.split(maxsplit=1)[0],
    )


def _unused(inputs: Inputs, works: Sequence[RecordedWork], text: str) -> str:
    """What the users said each time otherwise and no input has; a number of theirs that no plan has."""
    values = [str(value) for value in inputs.values.values()]
    alone, held = ({*LONE.findall(text)} for text in (unquoted(works[0].said), " | ".join(values)))
    for other in works[1:]:
        for span in Retelling(works[0].said, other.said).spans():
            rest = span
            for value in sorted(values, key=len, reverse=True):
                rest = rest.replace(value, "")
            if span in alone - held:  # that a day or a time has the same digits is chance
                return span
            if not any(span in value for value in values) and re.search(r"\w", rest):
                return span
    written = {*re.findall(r"\d+(?:\.\d+)?", f"{' '.join(values)} {text}")}
    return next((number for number in LONE.findall(unquoted(works[0].said)) if number not in written), "")
