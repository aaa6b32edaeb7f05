"""The plans that recorded runs of one job admit, the likeliest first; or what none explains.

In: the calls of each run and the words of its user, which are compared: what they say otherwise are inputs.
Of a single run the words decide instead: what they name of its lists, and what of them may be data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product
from typing import NamedTuple

from callsheet.authoring.distillation.inputs import SAID, Inputs
from callsheet.authoring.distillation.item_tests import signs_in
from callsheet.authoring.distillation.leaves import Source
from callsheet.authoring.distillation.patterns import patterns
from callsheet.authoring.distillation.plan_text import DistilledPlan, assembled, fields_of
from callsheet.authoring.distillation.readings import Readings
from callsheet.authoring.distillation.recorded_calls import RecordedCall, RecordedWork, only_reads, texts_in
from callsheet.authoring.distillation.retelling import Retelling
from callsheet.authoring.distillation.rules import in_all
from callsheet.authoring.distillation.scopes import Scope
from callsheet.authoring.distillation.stops import Missed, restricts
from callsheet.authoring.distillation.texts import LONE
from callsheet.authoring.distillation.wording import asked_figures, condition_in, said_data, unquoted
from callsheet.authoring.distillation.writer import Open, PlanWriter
from callsheet.ir import JSON, Effect

_TAKEN = ("main", "row", "each", "one", "item", "line", "date", "datetime", "timedelta", "re")
"""The names that expressions have within."""
_ORDER = re.compile(r"sort|order_?by|direction|rank", re.IGNORECASE)
_SHORT = 40
_WORD = re.compile(r"[a-z][\w-]+")


class Candidate(NamedTuple):
    """A plan of the runs, its inputs in each, its calls in the first, and what is open: by place, the
    recorded value and the readings that are about as likely as each other."""

    plan: DistilledPlan
    inputs: Sequence[dict[str, JSON]]
    calls: Sequence[RecordedCall]
    open: Mapping[str, Open]


def candidates(
    runs: Sequence[Sequence[RecordedCall]],
    works: Sequence[RecordedWork],
    title: str,
    effects: Mapping[str, Effect],
    choices: Mapping[str, str],
    *,
    may_ask: bool = False,
    is_answered: bool = False,
) -> Iterator[Candidate | Missed]:
    """The plans of the calls of all runs, the likeliest first; or what was not explained.

    With `may_ask` that is an input. `is_answered` is whether somebody chooses readings.
    """
    first = works[0].said
    reads = frozenset(call.tool for calls in runs for call in calls if only_reads(call.tool, effects))
    seen = frozenset(text for calls in runs for call in calls for text in texts_in(call.result))
    open_word = condition_in(first)
    is_strict = (False, True) if len(runs) == 1 else (True,)
    lacks_bound = False
    for (nodes, found), strict, has_bounds in product(patterns(runs), is_strict, (False, True)):
        if has_bounds and not lacks_bound:
            continue
        lacks_bound = False
        names = {call.tool.lower() for calls in runs for call in calls} | {*_TAKEN}
        inputs = Inputs(first, unquoted(first), _vocabulary(runs), names)
        given = _given(inputs, works, runs[0])
        changing = [call.args for calls in runs for call in calls if call.tool not in reads]
        writer = PlanWriter(
            inputs=inputs, reads=reads, means_all=inputs.means_all(), may_ask=may_ask, choices=choices
        )
        writer.open_condition, writer.given = open_word, given
        writer.requests = [unquoted(one.said) for one in works]
        writer.changed = frozenset(chain.from_iterable(map(texts_in, changing)))
        scope = _scope_of(runs, inputs, given, seen)
        scope.unmet, scope.is_strict, scope.has_bounds = writer.unmet, strict, has_bounds
        scope.is_answered = is_answered
        if len(runs) == 1:
            arguments = chain.from_iterable(texts_in(call.args) for call in runs[0])
            scope.readings = Readings(inputs, frozenset(arguments), is_answered)
        try:
            lines = writer.guarded(writer.write(nodes, found, scope))
            if writer.open_condition and not writer.is_tested(lines):
                lines = [*writer.ask_condition(), *lines]
        except Missed as missed:
            yield missed
            continue
        answer = re.findall(r"^    (\w+) = await", "\n".join(lines), re.MULTILINE)
        try:
            plan = assembled(lines, inputs, title, answer[-1] if answer else "None", writer.calls)
        except UnicodeEncodeError:
            yield Missed("a text that is no Unicode")
            continue
        is_asked = {*plan.reasons.values()} - {SAID}  # what a model decided may be what it was said for
        if (
            missing := _unchanged(runs, reads)
            or (_unused(inputs, works, plan.text) if not is_asked and (changing or len(runs) > 1) else "")
            or _merged(inputs, lines)
            or ("" if has_bounds else _only_in_stops(inputs, plan))
        ):
            lacks_bound = bool(signs_in(inputs.request).get(missing))
            yield Missed(missing)
            continue
        unguarded = writer.unguarded if any(map(_leaves_out, runs, works)) else ()
        if word := writer.not_understood(scope.unclear, plan.text) or next(iter(unguarded), ""):
            yield Missed(f"the word {word}")
            continue
        plan = plan._replace(readings=(*dict.fromkeys(_told(writer, scope, plan.text)),))
        each = [
            {name: given[name][number] if name in given else value for name, value in plan.inputs.items()}
            for number in range(len(runs))
        ]
        yield Candidate(plan, each, runs[0], writer.open)


def _only_in_stops(inputs: Inputs, plan: DistilledPlan) -> str:
    """A bound that the user has said, and by which a plan only stops."""
    body = plan.text.partition('"""\n')[2].splitlines()  # after what it says of its inputs
    code, signs = "\n".join(line for line in body if " assert " not in line), signs_in(inputs.request)
    bounds = {name: str(value) for name, value in plan.inputs.items() if signs.get(str(value))}
    return next((bound for name, bound in bounds.items() if not re.search(rf"\b{name}\b", code)), "")


def _scope_of(
    runs: Sequence[Sequence[RecordedCall]],
    inputs: Inputs,
    given: Mapping[str, Sequence[JSON]],
    seen: frozenset[str],
) -> Scope:
    """What is known where a plan begins: what the users have said, and what their words ask for."""
    sources = [Source(name, tuple(values), is_given=True) for name, values in given.items()]
    said = frozenset(_WORD.findall(inputs.request.lower()))
    scope = Scope(sources, len(runs), said, seen, means_all=inputs.means_all())
    scope.request, scope.signs = inputs.request, _signs(inputs, given)
    scope.asks = asked_figures(inputs.request)
    asked = (name for calls in runs for call in calls for name in call.args)
    scope.is_ordered = any(_ORDER.search(name) for name in asked)
    if len(runs) == 1:
        scope.may_stay = inputs.is_expected
    return scope


def _told(writer: PlanWriter, scope: Scope, text: str) -> Iterator[str]:
    """How the words of the user were read, and those that may restrict what a plan without any test takes."""
    if scope.readings is not None:
        yield from scope.readings.told(text)
        yield from writer.read_in(scope.unclear, text)
    if writer.unguarded and not restricts(text):
        words = " ".join(writer.unguarded)
        yield f"no test in the plan follows the words “{words}”, which may leave items out"


def _leaves_out(kept: Sequence[RecordedCall], work: RecordedWork) -> bool:
    """Whether looks are left out at what another had listed, which may have decided something."""
    tools, known = {call.tool for call in kept}, set[str]()
    for call in work.calls:
        if call.tool not in tools and any(
            one in known and one not in work.said for one in texts_in(call.args)
        ):
            return True
        known |= {*texts_in(call.result)}
    return False


def _signs(inputs: Inputs, given: Mapping[str, Sequence[JSON]]) -> dict[str, str]:
    """By the names of inputs, how the words say that things compare with them."""
    signs = signs_in(inputs.request)
    return {name: signs.get(str(values[0]), "") for name, values in given.items()}


def _vocabulary(runs: Sequence[Sequence[RecordedCall]]) -> frozenset[str]:
    """The words of the tools and their arguments; of one run, also those of the fields of results."""
    words = chain.from_iterable(
        re.split(r"\W|_", text.lower()) for call in runs[0] for text in (call.tool, *call.args)
    )
    if len(runs) == 1:  # no second one shows which words differ
        words = chain(words, *(fields_of(call.result) for call in runs[0]))
    return frozenset(words)


def _given(
    inputs: Inputs, works: Sequence[RecordedWork], calls: Sequence[RecordedCall]
) -> dict[str, list[JSON]]:
    """What the user has said, by the names of inputs, in each run."""
    told = [Retelling(works[0].said, one.said) for one in works[1:]]
    for one in told:
        for span in one.spans():
            if span.isdigit():
                inputs.numbers_said()
            else:
                inputs.said_input(_called(span, calls), span)
    is_one = len(works) == 1
    for name, value in [pair for call in calls for pair in _plain_in(call.args)] if is_one else ():
        if inputs.has_said(value):
            inputs.said_input(name, value)
    for call in calls:
        for name, value in call.args.items():
            inputs.words_in(name, value)
    inputs.words_said(is_one=is_one)
    return _retold(inputs, works)


def _plain_in(value: JSON, name: str = "") -> Iterator[tuple[str, JSON]]:
    """The plain values in arguments, with their names."""
    match value:
        case dict():
            for key, item in value.items():
                yield from _plain_in(item, key)
        case list():
            for item in value:
                yield from _plain_in(item, name)
        case _:
            yield name, value


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


def _merged(inputs: Inputs, lines: Sequence[str]) -> str:
    """A number that the user has said more than once, and that one input stands for in several places."""
    said = LONE.findall(inputs.request)
    text = "\n".join(line for line in lines if " assert " not in line)
    return next(
        (
            f"the number {value}, said more than once,"
            for name, value in inputs.values.items()
            if said.count(str(value)) > 1 and len(re.findall(rf"\b{name}\b(?!=)", text)) > 1
        ),
        "",
    )


def _unchanged(runs: Sequence[Sequence[RecordedCall]], reads: frozenset[str]) -> str:
    """A text that each run wrote where it had read it, as it was: none shows what to change in it."""
    each = [
        {
            f"{call.tool} {name}"
            for number, call in enumerate(calls)
            for name, text in call.args.items()
            if call.tool not in reads and isinstance(text, str) and len(text) > _SHORT
            for look in calls[:number]
            if look.tool in reads
            and text in texts_in(look.result)
            and look.args
            and look.args.items() <= call.args.items()
        }
        for calls in runs
    ]
    return next(iter(in_all(each)), "")


def _unused(inputs: Inputs, works: Sequence[RecordedWork], text: str) -> str:
    """What the users said each time otherwise and no input has; a number of theirs that no plan has."""
    values = [str(value) for value in inputs.values.values()]
    if len(works) == 1:
        known = f"{values} {text}"
        data = said_data(unquoted(works[0].said))
        if one := next((one for one in data if not all(part in known for part in one.split("/"))), ""):
            return one
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
