"""Finds the reading of a recorded run that other runs of the same job confirm, or the user.

In: recorded runs of one job. Out: a plan that makes the calls of each of them again, with the inputs that the
words of each say. Where several readings do so, the plan stops where they differ; what none of them explains
stays an input.
"""

from __future__ import annotations

import ast
import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from callsheet.api.oneshot import arun
from callsheet.api.plan import Plan
from callsheet.authoring.distillation.inputs import SAID
from callsheet.authoring.distillation.leaves import Explained
from callsheet.authoring.distillation.plan_text import DistilledPlan, distilled
from callsheet.authoring.distillation.readings import Readings
from callsheet.authoring.distillation.recorded_calls import (
    RecordedCall,
    RecordedWork,
    only_reads,
    slice_of,
    texts_in,
)
from callsheet.authoring.distillation.retelling import Retelling
from callsheet.authoring.distillation.writer import STOP
from callsheet.ir import JSON, Effect
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool, ToolSpec

_MOST_TRIALS, _MOST_IN_ALL, _MOST_RIVALS, _MOST_ASIDE = 120, 240, 2, 4
"""The trials of one search, and of those for plans made of each run in turn."""
_MOST_CALLS = 6_000
"""The recorded calls that the trials of one search repeat, so that long runs have fewer trials."""
_MOST_READ = 8
_LENIENT = 30
"""So many trials are left at least for a plan with open inputs."""
_NO_NUMBER, _OPEN = -982_451_653, "\0open"
"""What an input has that nothing explains, so that nothing is taken for right that uses it."""
_STOPPED = re.compile(r"stop §(\d+)")


@dataclass(frozen=True, slots=True)
class Trial:
    """How far a plan repeats a recorded run: the arguments that were as recorded, and what ended it.

    `missed` are the tool and the arguments of the call that was not as recorded, `stopped_by` the condition;
    `made` are the calls that were as recorded.
    """

    is_same: bool
    score: int
    missed: tuple[str, ...] = ()
    stopped_by: str = ""
    made: tuple[str, ...] = ()
    error: str = ""


class Candidate(NamedTuple):
    """A plan with its readings, and its calls in the run that it is made of."""

    plan: DistilledPlan
    readings: Readings
    calls: Sequence[RecordedCall]


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
    score = 0
    made: list[str] = []
    missed: list[tuple[str, ...]] = []

    def replayed(name: str) -> Tool:
        async def answer(args: dict[str, Any], context: CallContext) -> JSON:
            nonlocal score
            if missed:
                raise ToolFailed("the run is over")
            if only_reads(name, effects):
                found = answers.get(key_of(name, args))
                if found:
                    score += 1 + len(args)
                    made.append(key_of(name, args))
                    return found.popleft() if len(found) > 1 else found[0]
                near = [call for call in calls if call.tool == name]
                best = max(near, key=lambda call: _equal(call.args, args), default=None)
            else:
                best = wanted[0] if wanted and wanted[0].tool == name else None
                if best is not None and best.args == args:
                    score += 1 + len(args)
                    made.append(key_of(name, args))
                    return wanted.popleft().result
            score += _equal(best.args, args) if best is not None else 0
            wrong = [key for key in args if best is not None and best.args.get(key) != args[key]]
            missed.append((name, *wrong))
            raise ToolFailed(f"the recorded run made no such call: {name} {args}")

        given = dict.fromkeys(arg for call in calls if call.tool == name for arg in call.args)
        schema: dict[str, Any] = {"type": "object", "properties": {arg: {} for arg in given}}
        return Tool(ToolSpec(name, name.lower(), "", schema, effect=effects.get(name, Effect.UNSAFE)), answer)

    read, conditions = _read(plan.text)
    tools = {call.tool for call in (*plan.calls, *calls)}
    result = await arun(read, dict(inputs), tools=[replayed(name) for name in tools])
    if result.error is None and not missed:
        if not wanted:
            return Trial(True, score + 1, made=(*made,))
        return Trial(False, score, (wanted[0].tool,), error=f"it does not call {wanted[0].tool}")
    stopped = _STOPPED.search(str(result.error))
    if stopped is not None and not missed:
        return Trial(False, score, (), conditions[int(stopped[1])], error=str(result.error))
    return Trial(False, score, missed[0] if missed else ("",), error=str(result.error))


@lru_cache(maxsize=_MOST_READ)
def _read(text: str) -> tuple[Plan, tuple[str, ...]]:
    """The plan, whose conditions stop it with their numbers; and the conditions."""
    module = ast.parse(text)
    conditions: list[str] = []
    for node in ast.walk(module):
        if not isinstance(node, ast.Assert) or not isinstance(node.msg, ast.Constant):
            continue
        if str(node.msg.value).startswith(STOP):
            node.msg.value = f"stop §{len(conditions)}"
            conditions.append(ast.get_source_segment(text, node.test) or "")
    return Plan.parse(ast.unparse(module), name="the distilled plan", syntax="python"), (*conditions,)


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
"""Is told what is looked for, and how many plans are tried at most."""


class Evidence:
    """Recorded runs of one job, and how plans made of the first do on all of them."""

    def __init__(
        self,
        runs: Sequence[RecordedWork],
        effects: Mapping[str, Effect],
        title: str,
        listener: Listener = lambda said: None,
    ) -> None:
        self.first, *self.others = runs
        self.runs = runs
        self.effects = effects
        self.title = title
        self.listener = listener
        calls = sum(len(one.calls) for one in runs)
        self.most = min(_MOST_TRIALS, _MOST_IN_ALL // len(runs), _MOST_CALLS // max(1, calls))
        self.left = self.most
        self.memory: dict[str, list[Explained]] = {}
        self.told = [Retelling(self.first.said, one.said) for one in self.others]

    def candidate(self, calls: Sequence[RecordedCall], readings: Readings) -> Candidate:
        """The plan of the first run with these readings."""
        fresh = Readings(readings.chosen, readings.rivals, readings.dropped, memory=self.memory)
        seen = frozenset(text for call in self.first.calls for text in texts_in(call.result))
        plan = distilled(calls, self.first.said, self.title, self.effects, seen, fresh)
        return Candidate(plan, fresh, calls)

    def with_reading(self, made: Candidate, place: str, number: int) -> Candidate:
        """The plan with another reading at one place, and without rivals."""
        chosen = {**made.readings.chosen, place: number}
        return self.candidate(made.calls, Readings(chosen, dropped=made.readings.dropped))

    def without_stop(self, made: Candidate, trial: Trial) -> Candidate | None:
        """The plan without the condition that stopped it in a trial; None if that was dropped before."""
        dropped = made.readings.dropped | {made.plan.as_found(trial.stopped_by)}
        if dropped == made.readings.dropped:
            return None
        return self.candidate(made.calls, Readings(made.readings.chosen, made.readings.rivals, dropped))

    def inputs_for(self, plan: DistilledPlan, number: int, *, lenient: bool) -> dict[str, JSON] | None:
        """The inputs of the plan for another run; what its words do not say, its calls have."""
        found: dict[str, JSON] = {}
        for name, value in plan.inputs.items():
            is_open = plan.reasons.get(name) != SAID
            if is_open and not lenient:
                found[name] = _unlike(value)
                continue
            told = None if is_open else self.told[number].value_for(value)
            if told is None:
                told = _called_with(plan, name, self.others[number].calls)
            if told is None:
                return None
            found[name] = told
        return found

    async def trials(self, made: Candidate, *, lenient: bool = True) -> Trial:
        """How a plan does on all runs: the first that it does not repeat."""
        self.left -= 1
        first = await tried(made.plan, made.plan.inputs, made.calls, self.effects)
        if not first.is_same:
            return first
        score = first.score
        for number, other in enumerate(self.others):
            inputs = self.inputs_for(made.plan, number, lenient=lenient)
            if inputs is None:
                return Trial(False, score, ("",))
            trial = await tried(made.plan, inputs, other.calls, self.effects)
            score += trial.score
            if not trial.is_same:
                return Trial(False, score, trial.missed, trial.stopped_by)
        return Trial(True, score)

    async def search(self, calls: Sequence[RecordedCall]) -> tuple[Candidate, Trial]:
        """The readings with which the plan repeats the most of all runs, one place after the other.

        Only where none explains everything, a value stays an input that each run gives.
        """
        made = self.candidate(calls, Readings())
        self.left = self.most
        for lenient in (False, True):
            self.left = max(self.left, _LENIENT)
            trial = await self.trials(made, lenient=lenient)
            while not trial.is_same and self.left > 0:
                found = await self.step(made, trial, lenient=lenient)
                if found is None:
                    break
                made, trial = found
            if trial.is_same:
                break
        return made, trial

    async def step(self, made: Candidate, trial: Trial, *, lenient: bool) -> tuple[Candidate, Trial] | None:
        """A plan that repeats more than another, with one reading changed, or two."""
        if trial.stopped_by:
            other = self.without_stop(made, trial)
            return None if other is None else (other, await self.trials(other, lenient=lenient))
        aside: list[tuple[Candidate, Trial]] = []
        for other in self.near(made, trial):
            found = await self.trials(other, lenient=lenient)
            if (
                found.is_same
                or found.score > trial.score
                or (found.score == trial.score and found.stopped_by)
            ):
                return other, found
            if found.score == trial.score and [*other.readings.options] != [*made.readings.options]:
                aside.append((other, found))
            if self.left < 0:
                break
        for other, missed in aside[:_MOST_ASIDE]:
            for next_one in self.near(other, missed, only_missed=True) if self.left > 0 else ():
                found = await self.trials(next_one, lenient=lenient)
                if found.is_same or found.score > trial.score:
                    return next_one, found
        return None

    def near(self, made: Candidate, trial: Trial, *, only_missed: bool = False) -> Iterator[Candidate]:
        """The plans with another reading at one place; first those places that the trial missed."""
        tool, *args = trial.missed or ("",)
        places = sorted(
            made.readings.options,
            key=lambda place: (
                not any(place.startswith(f"{tool}.{arg}#") for arg in args),
                not place.startswith(("loop", "tail", "rounds")),
                not place.startswith(f"{tool}."),
            ),
        )
        for place in places:
            if only_missed and not any(place.startswith(f"{tool}.{arg}#") for arg in args):
                break
            taken = made.readings.chosen.get(place, 0)
            for number in range(len(made.readings.options[place])):
                if number != taken:
                    yield self.with_reading(made, place, number)

    async def with_rivals(self, made: Candidate) -> Candidate:
        """The plan that stops where readings differ that all runs bear out, and no words decide between."""
        self.listener(f"other readings of {len(made.readings.options)} places that do the same")
        rivals: dict[str, tuple[int, ...]] = {}
        for place, options in made.readings.options.items():
            taken = made.readings.chosen.get(place, 0)
            if not self._is_asked(made, place) or _is_constant(options[min(taken, len(options) - 1)]):
                continue
            found: list[int] = []
            for number in range(len(options)):
                if number == taken or _is_constant(options[number]) or len(found) >= _MOST_RIVALS:
                    continue
                other = self.with_reading(made, place, number)
                if self._is_open(other.plan) > self._is_open(made.plan):
                    continue
                if (await self.trials(other)).is_same:
                    found.append(number)
            rivals[place] = tuple(found)
        return self.candidate(made.calls, Readings(made.readings.chosen, rivals, made.readings.dropped))

    @staticmethod
    def _is_open(plan: DistilledPlan) -> int:
        return len(plan.unexplained)

    async def plan(self, answer: Answer | None = None) -> tuple[Candidate, RecordedWork] | Trial:
        """The plan that all runs confirm, and the run that it is made of; or how far the first one came.

        `answer` is asked what no run decides.
        """
        failed: list[Trial] = []
        longest = sorted(self.runs, key=lambda one: -len(one.calls))
        for number in range(len(longest)):
            runs = [*longest[number:], *longest[:number]]
            turned = Evidence(runs, self.effects, self.title, self.listener)
            if (missing := turned.missing_tool()) is not None:
                failed.append(Trial(False, 0, (missing,)))
                continue
            self.listener(f"a plan of run {self.runs.index(runs[0]) + 1} that makes the calls of all runs: "
                          f"tries {2 * (turned.most + _LENIENT)} at most")  # fmt: skip
            made, trial = await turned.best()
            if trial.is_same:
                made = await turned.without_idle(made)
                if answer is not None:
                    return await turned.answered(made, answer), turned.first
                careful, trial = await turned.without_stops(await turned.with_rivals(made))
                if trial.is_same:
                    return careful, turned.first
            failed.append(trial)
        return failed[0]

    def missing_tool(self) -> str | None:
        """A tool that changed something in another run, and that no plan of the first run calls."""
        known = {call.tool for call in self.first.calls}
        calls = (call for one in self.others for call in one.calls if not only_reads(call.tool, self.effects))
        return next((call.tool for call in calls if call.tool not in known), None)

    async def without_stops(self, made: Candidate) -> tuple[Candidate, Trial]:
        """The plan without the conditions that stop it on a run."""
        trial = await self.trials(made)
        while trial.stopped_by and (other := self.without_stop(made, trial)) is not None:
            made, trial = other, await self.trials(other)
        return made, trial

    async def answered(self, made: Candidate, answer: Answer) -> Candidate:
        """The plan with the readings that are meant: of each place that no words decide, one is asked for."""
        done: set[str] = set()
        while True:
            options = made.readings.options
            place = next((one for one in options if one not in done and self._is_asked(made, one)), None)
            if place is None:
                return made
            done.add(place)
            possible = [made.readings.chosen.get(place, 0)]
            for number in range(len(options[place])):
                if number not in possible:
                    other = self.with_reading(made, place, number)
                    if (await self.trials(other)).is_same:
                        possible.append(number)
            if len(possible) < 2:
                continue
            question = Question(
                place, made.readings.values.get(place), tuple(options[place][n] for n in possible)
            )
            made = self.with_reading(made, place, possible[answer(question)])

    @staticmethod
    def _is_asked(made: Candidate, place: str) -> bool:
        return made.readings.chosen.get(place, 0) >= made.readings.supported.get(place, 0)

    async def best(self) -> tuple[Candidate, Trial]:
        """The plan of the first run that repeats the most of all, with the fewest open inputs."""
        best: tuple[Candidate, Trial] | None = None
        needed = slice_of(self.first.calls, self.effects, self.first.said)
        for calls in (self.first.calls, needed) if len(needed) < len(self.first.calls) else (needed,):
            made, trial = await self.search(calls)
            if trial.is_same and (
                best is None or not best[1].is_same or self._is_open(made.plan) < self._is_open(best[0].plan)
            ):
                best = made, trial
            best = best or (made, trial)
            if trial.is_same and not self._is_open(made.plan):
                break
        assert best is not None
        return best

    async def without_idle(self, made: Candidate) -> Candidate:
        """The plan without the reading calls with open inputs, if it still repeats all runs."""
        for tool in {call.tool for call in made.calls if only_reads(call.tool, self.effects)}:
            rest = [call for call in made.calls if call.tool != tool]
            if not self._is_open(made.plan) or not rest:
                break
            other = self.candidate(rest, made.readings)
            if self._is_open(other.plan) < self._is_open(made.plan) and (await self.trials(other)).is_same:
                made = other
        return made


def _called_with(plan: DistilledPlan, name: str, calls: Sequence[RecordedCall]) -> JSON:
    """The value of an input that stands in a call as it is: that of the first such call in the run."""
    for written in plan.calls:
        argument = next((key for key, code in written.arguments.items() if code == name), None)
        found = next((call for call in calls if call.tool == written.tool), None)
        if argument is not None and found is not None:
            return found.args.get(argument)
    return None


def _unlike(value: JSON) -> JSON:
    """A value of the same type that no call has."""
    match value:
        case list():
            return [_unlike(item) for item in value]
        case bool() | None:
            return value
        case int() | float():
            return type(value)(_NO_NUMBER)
        case str():
            return _OPEN
        case _:
            return {}


def _is_constant(code: str) -> bool:
    return code.startswith('"') and code.endswith('"') and code.count('"') == 2
