"""Tries plans of recorded runs of one job until one makes the calls of each; the user may choose readings.

In: recorded runs of one job. Out: a plan that makes the calls of each of them again, with the inputs that the
words of each say. Where several readings do so, the plan stops where they differ; what none of them explains
stays an input.
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
from callsheet.authoring.distillation.patterns import paged_first
from callsheet.authoring.distillation.plan_text import DistilledPlan
from callsheet.authoring.distillation.recorded_calls import (
    RecordedCall,
    RecordedWork,
    in_one_order,
    only_reads,
    slice_of,
    without_guesses,
    without_repetitions,
)
from callsheet.authoring.distillation.rules import in_all
from callsheet.authoring.distillation.stops import Missed
from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Effect
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool, ToolSpec


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
