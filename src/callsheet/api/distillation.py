"""Makes a plan of what models did in recorded runs, and verifies it against the recorded answers of tools.

In: recorded runs of one job, sessions or transcripts of agents. Out: the text of a Python plan with its
inputs, which was run and made the calls of each again; or CallsheetError (RUN091, RUN092).

Plans are tried until one makes the calls of each run; the user may choose readings. Where several readings do
so, the plan stops where they differ; what none of them explains stays an input.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from callsheet.api.oneshot import arun
from callsheet.api.plan import Plan
from callsheet.authoring.distillation.candidates import Candidate, candidates
from callsheet.authoring.distillation.patterns import MOST_STEPS, paged_first
from callsheet.authoring.distillation.plan_text import DistilledPlan
from callsheet.authoring.distillation.recorded_calls import (
    RecordedCall,
    RecordedWork,
    in_one_order,
    only_reads,
    slice_of,
    without_guesses,
    without_repetitions,
    work_in,
)
from callsheet.authoring.distillation.rules import in_all
from callsheet.authoring.distillation.scopes import MOST_ITEMS
from callsheet.authoring.distillation.stops import Missed
from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Effect
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool, ToolSpec
from callsheet.store import Journal
from callsheet.store.start import Start

_MOST_CALLS = 2_000


@dataclass(frozen=True, slots=True)
class Distillation:
    """A plan that repeats what a model did: its text and inputs, the calls in it, and all that were made.

    `runs` is how many recorded runs it repeats.
    """

    plan: DistilledPlan
    calls: tuple[RecordedCall, ...]
    work: RecordedWork
    runs: int = 1

    @property
    def left_out(self) -> list[str]:
        """The tools of the calls that gave nothing to the end, by their number."""
        kept = {call.place for call in self.calls}
        return [call.tool for call in self.work.calls if call.place not in kept]


def recorded(journal: Journal, run_id: str) -> tuple[RecordedWork, dict[str, Effect], str]:
    """What a model did in a run, the effects of the tools, and the id of the run.

    Raises CallsheetError (RUN090) for a run without calls of a model, JournalError if it cannot be read.
    """
    info = journal.find_run(run_id)
    events = [*journal.events(info.run_id)]
    work = work_in(events)
    if not work.calls:
        raise CallsheetError.single(
            "RUN090",
            f"run {info.run_id} has no calls that a model made",
            help="name the run of a gate's session, or one with @AGENT_SOLVE; `callsheet runs` lists them",
        )
    facts = Start.from_json(events[0].body or {}).facts
    return work, {name: fact.effect for name, fact in facts.items()}, f"run {info.run_id}"


async def distil_all(
    works: Sequence[RecordedWork],
    effects: Mapping[str, Effect],
    names: Sequence[str],
    answer: Answer | None = None,
    listener: Listener = lambda said: None,
) -> Distillation:
    """The plan of recorded runs of one job, which repeats each of them; `names` say whose they are.

    What the first leaves open the others decide, and then `answer`, if there is one: it is asked which
    reading is meant. `listener` is told what is looked for. Raises CallsheetError: RUN092 if nothing repeats
    all runs, or two are the same, RUN091 if the plan does not repeat the only one; for a run that is too long
    or too deep, either.
    """
    about = f"What {' and '.join(names)} did, as a plan."
    for number, work in enumerate(works):
        if work in works[:number]:
            again = names[works.index(work)]
            raise CallsheetError.single(
                "RUN092",
                f"{names[number]} is the same as {again}: it decides nothing",
                help="name runs of the job with other data",
            )
    code = "RUN091" if len(works) == 1 else "RUN092"
    for work, name in zip(works, names, strict=True):
        if len(work.calls) > _MOST_CALLS:
            what = (
                f"{name} has {len(work.calls):,} calls, of which {_MOST_CALLS:,} at most are looked through"
            )
            raise CallsheetError.single(code, what, help="record the job with less data")
    try:
        found = await Evidence(works, effects, about, listener).plan(answer)
    except RecursionError:
        raise CallsheetError.single(
            code,
            "a value of the recorded calls is nested too deep to be looked through",
            help="record the job with results that are less deep",
        ) from None
    if isinstance(found, list) and len(works) == 1:
        missed = next((" ".join(one) for one in found if any(one)), "")
        raise CallsheetError.single(
            "RUN091",
            f"no plan repeats the run: {missed or 'the order of its calls'} is not explained",
            help=_too_long(works, names, is_ordered=bool(missed))
            or "record the job once more, with other data, and distil both runs",
        )
    if isinstance(found, list):
        missed = next((f": {' '.join(one)} is not explained" for one in found if any(one)), "")
        raise CallsheetError.single(
            "RUN092",
            f"no reading of one run makes the calls of the others{missed}",
            help=_too_long(works, names, is_ordered=bool(missed)) or await _way_out(works, effects, names),
        )
    made, first = found
    return Distillation(made.plan, (*made.calls,), first, len(works))


def _too_long(works: Sequence[RecordedWork], names: Sequence[str], *, is_ordered: bool) -> str:
    """What to do about the first list in which nothing is looked for, or too many calls; "" if all is short.

    `is_ordered` is whether calls and loops were found, so that their number is not at fault.
    """
    for work, name in zip(works, names, strict=True):
        if not is_ordered and len(work.calls) > MOST_STEPS:
            return (
                f"{name} has {len(work.calls):,} calls; of more than {MOST_STEPS} that no loop makes "
                "there is no plan: record a shorter job"
            )
        for call in work.calls:
            waiting: list[tuple[str, JSON]] = [("", call.result)]
            while waiting:
                place, value = waiting.pop()
                if isinstance(value, list) and len(value) > MOST_ITEMS:
                    where = f"{place} of " if place else ""
                    return (
                        f"{where}the result of {call.tool} in {name} is a list of {len(value):,} items; "
                        f"what is used of more than {MOST_ITEMS:,} is not found: take shorter ones"
                    )
                if isinstance(value, dict):
                    waiting += [(f"{place}.{key}", each) for key, each in value.items()]
                elif isinstance(value, list):
                    waiting += [(f"{place}.{number}", each) for number, each in enumerate(value)]
    return ""


async def _way_out(works: Sequence[RecordedWork], effects: Mapping[str, Effect], names: Sequence[str]) -> str:
    """What to do with runs that no plan repeats: which of them gives one by itself, with the least open."""
    alone: list[tuple[int, str]] = []
    for work, name in zip(works, names, strict=True):
        made = await Evidence([work], effects, "").plan()
        if not isinstance(made, list):
            alone.append((len(made[0].plan.unexplained), name))
    record = "record one more whose request has the same words, with other data"
    if not alone:
        return f"none of the runs gives a plan by itself; {record}"
    least, name = min(alone)
    count = "nothing" if not least else f"{least} input{'' if least == 1 else 's'}"
    return f"{record}; or distil {name} alone: its plan leaves {count} unexplained"


@dataclass(frozen=True, slots=True)
class Trial:
    """Whether a plan repeats a recorded run, and how far.

    `missed` are the tool and the arguments of the call that was not as recorded, `made` the calls that were,
    `error` is what ended it.
    """

    is_same: bool
    missed: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    error: str = ""


async def tried(
    plan: DistilledPlan,
    inputs: Mapping[str, JSON],
    calls: Sequence[RecordedCall],
    effects: Mapping[str, Effect],
) -> Trial:
    """Run a plan on the recorded answers of a run; it has to make the calls that changed something."""
    wanted = deque(call for call in calls if not only_reads(call.tool, effects))
    answers: dict[str, deque[JSON]] = {}
    for call in calls:
        if only_reads(call.tool, effects):
            answers.setdefault(key_of(call.tool, call.args), deque()).append(call.result)
    made: list[str] = []
    missed: list[tuple[str, ...]] = []

    def replayed(name: str) -> Tool:
        async def answer(args: dict[str, Any], context: CallContext) -> JSON:
            if missed:
                raise ToolFailed("the run is over")
            if only_reads(name, effects):
                found = answers.get(key_of(name, args))
                if found:
                    made.append(key_of(name, args))
                    return found.popleft() if len(found) > 1 else found[0]
                near = [call for call in calls if call.tool == name]
                best = max(near, key=lambda call: _equal(call.args, args), default=None)
            else:
                best = wanted[0] if wanted and wanted[0].tool == name else None
                if best is not None and best.args == args:
                    made.append(key_of(name, args))
                    return wanted.popleft().result
            wrong = [key for key in args if best is not None and best.args.get(key) != args[key]]
            missed.append((name, *wrong))
            raise ToolFailed(f"the recorded run made no such call: {name} {args}")

        given = dict.fromkeys(arg for call in calls if call.tool == name for arg in call.args)
        schema: dict[str, Any] = {"type": "object", "properties": {arg: {} for arg in given}}
        return Tool(ToolSpec(name, name.lower(), "", schema, effect=effects.get(name, Effect.UNSAFE)), answer)

    read = Plan.parse(plan.text, name="the distilled plan", syntax="python")
    tools = {call.tool for call in (*plan.calls, *calls)}
    result = await arun(read, dict(inputs), tools=[replayed(name) for name in tools])
    if result.error is None and not missed:
        if not wanted:
            return Trial(True, made=(*made,))
        return Trial(False, (wanted[0].tool,), error=f"it does not call {wanted[0].tool}")
    return Trial(False, missed[0] if missed else ("",), error=str(result.error))


def _equal(one: Mapping[str, JSON], other: Mapping[str, JSON]) -> int:
    return sum(key in other and other[key] == value for key, value in one.items())


def key_of(tool: str, args: Mapping[str, JSON]) -> str:
    """A call as a text that is the same for the same call."""
    return tool + json.dumps(args, sort_keys=True, ensure_ascii=False)


class Question(NamedTuple):
    """Which reading is meant of a recorded value, or of what a loop goes over: code that gives it."""

    place: str
    value: JSON
    options: tuple[str, ...]


Answer = Callable[[Question], int]
"""Gives the number of the reading that is meant."""
Listener = Callable[[str], None]
"""Is told what is looked for."""


class Evidence(NamedTuple):
    """Recorded runs of one job, of which a plan is made that does what each of them did."""

    runs: Sequence[RecordedWork]
    effects: Mapping[str, Effect]
    title: str
    listener: Listener = lambda said: None

    async def plan(
        self, answer: Answer | None = None
    ) -> tuple[Candidate, RecordedWork] | list[tuple[str, ...]]:
        """The plan that all runs confirm, and the run whose words its inputs are; or what is not explained.

        What nothing explains in a single run is an input, of which the plan has as few as possible. `answer`
        is asked which reading is meant where several are about as likely. Raises CallsheetError (RUN092) if
        no plan with the reading that was chosen makes the calls again.
        """
        missed: list[tuple[str, ...]] = []
        longest = sorted(self.runs, key=lambda one: -len(one.calls))
        for number in range(len(longest)):
            works = [*longest[number:], *longest[:number]]
            if len(works) > 1:
                which = self.runs.index(works[0]) + 1
                self.listener(f"a plan of run {which} that makes the calls of all runs")
            for runs in self.calls_of(works):
                made = await self.confirmed(runs, works, {}, missed, is_answered=answer is not None)
                if made is not None:
                    return await self.answered(made, runs, works, answer), works[0]
        if len(self.runs) > 1:
            return missed
        found: list[tuple[Candidate, list[Sequence[RecordedCall]]]] = []
        still: list[tuple[str, ...]] = []
        for runs in self.calls_of(self.runs):
            made = await self.confirmed(
                runs, self.runs, {}, still, may_ask=True, is_answered=answer is not None
            )
            found += [(made, runs)] if made is not None else []
        if not found:
            return still or missed
        made, runs = min(found, key=lambda one: one[0].plan.cost)
        return await self.answered(made, runs, self.runs, answer, may_ask=True), self.runs[0]

    async def answered(
        self,
        made: Candidate,
        runs: Sequence[Sequence[RecordedCall]],
        works: Sequence[RecordedWork],
        answer: Answer | None,
        *,
        may_ask: bool = False,
    ) -> Candidate:
        """The plan with the readings that are chosen of what it leaves open. Raises CallsheetError."""
        choices: dict[str, str] = {}
        while answer is not None and (place := next((one for one in made.open if one not in choices), None)):
            value, options = made.open[place]
            choices[place] = options[answer(Question(place, value, options))]
            chosen = await self.confirmed(runs, works, choices, [], may_ask=may_ask, is_answered=True)
            if chosen is None:
                raise CallsheetError.single(
                    "RUN092",
                    f"no plan that takes {choices[place] or 'what the words say'} for {place} makes "
                    "the calls of the runs again",
                    help="choose another reading",
                )
            made = chosen
        return made

    async def confirmed(
        self,
        runs: Sequence[Sequence[RecordedCall]],
        works: Sequence[RecordedWork],
        choices: Mapping[str, str],
        missed: list[tuple[str, ...]],
        *,
        may_ask: bool = False,
        is_answered: bool = False,
    ) -> Candidate | None:
        """The likeliest plan that makes these calls of each run; `missed` gets what is not explained."""
        for made in candidates(
            runs, works, self.title, self.effects, choices, may_ask=may_ask, is_answered=is_answered
        ):
            if isinstance(made, Missed):
                missed.append(made.args)
                continue
            try:
                trials = [
                    await tried(made.plan, inputs, calls, self.effects)
                    for inputs, calls in zip(made.inputs, runs, strict=True)
                ]
            except CallsheetError:
                continue
            if all(one.is_same for one in trials):
                return made
            missed += (one.missed for one in trials if not one.is_same)
        return None

    def calls_of(self, works: Sequence[RecordedWork]) -> Iterator[list[Sequence[RecordedCall]]]:
        """The calls that a plan may be made of: all, without looks of some runs only, the needed ones.

        A look that only repeats an earlier one is none of them.
        """
        every = [without_repetitions(one.calls, self.effects) for one in works]
        needed = [slice_of(calls, self.effects, one.said) for calls, one in zip(every, works, strict=True)]
        common = in_all((call.tool for call in calls) for calls in every)
        wanted = {call.tool for calls in needed for call in calls}
        seen: list[list[Sequence[RecordedCall]]] = []
        for calls in (
            every,
            [
                [one for one in calls if one.tool in common or not only_reads(one.tool, self.effects)]
                for calls in every
            ],
            [[call for call in calls if call.tool in wanted] for calls in every],
            needed,
            [paged_first(calls, self.effects) for calls in every],
            in_one_order(needed, self.effects) if len(works) > 1 else needed,
            [
                without_guesses(calls, self.effects, one.said)
                for calls, one in zip(needed, works, strict=True)
            ],
        ):
            if calls not in seen and all(calls):
                seen.append([*calls])
                yield [*calls]
