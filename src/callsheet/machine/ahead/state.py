"""The state of calls that run ahead: predictions, the room that limits leave, and its form in a snapshot."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

from callsheet.ir import JSON, Cast, OnInDoubt
from callsheet.machine.agents.actions import MAX_AT_ONCE, MAX_ROUNDS, MAX_TURNS
from callsheet.machine.budget import Budget
from callsheet.machine.commands import CallModel, CallTool
from callsheet.machine.doubt import MOST_REDELIVERIES
from callsheet.machine.events import Failed, Succeeded
from callsheet.machine.program import NOWHERE, Kind, Program, StepCode
from callsheet.machine.usage import Spent
from callsheet.machine.values import cast_value

Outcome: TypeAlias = "Succeeded | Failed"
Patches: TypeAlias = "list[tuple[int, JSON]]"
"""Values, with their slots, that variables will have once earlier steps are committed."""


class EarlyStep:
    """A step that has started before its turn.

    `outcomes` has the outcomes that have arrived, by item (0 without FOREACH), `arrivals` their global order
    of arrival. Once all have arrived, `value` is what its variable will hold, if `is_known`: after a failure
    that may not be certain. `is_taken` says that the machine has asked for one of its calls.
    """

    __slots__ = (
        "arrivals",
        "code",
        "is_known",
        "is_taken",
        "items",
        "next",
        "open",
        "outcomes",
        "patches",
        "prefix",
        "ran",
        "stopped",
        "value",
    )

    def __init__(self, code: StepCode, prefix: str, items: list[JSON] | None, patches: Patches) -> None:
        self.code = code
        self.prefix = prefix
        self.items = items
        self.patches = patches
        self.next = 0
        self.open = 0
        self.stopped = False
        self.outcomes: dict[int, Outcome] = {}
        self.arrivals: dict[int, int] = {}
        self.ran: list[int] = []
        """The items that calls were made for, in order."""
        self.is_known = False
        self.is_taken = False
        self.value: JSON = None


class AheadState:
    """The state of running ahead that does not follow from the program.

    `low` is the step whose turn it was when steps were last examined, `next` the first step not examined yet,
    `high` the last one started. `open` counts early steps with open calls whose turn has not come, `arrived`
    all outcomes that have arrived.
    """

    __slots__ = (
        "arrived",
        "calls",
        "high",
        "low",
        "moved",
        "next",
        "open",
        "queue",
        "ready",
        "skipped",
        "steps",
        "stops",
        "waiters",
        "woken",
    )

    def __init__(self) -> None:
        self.calls: dict[str, tuple[EarlyStep, int]] = {}
        """Early calls that the machine has not asked for yet, by key, each with its item."""
        self.queue: list[tuple[int, Outcome]] = []
        """Outcomes of calls that the machine has asked for, a heap by arrival."""
        self.arrived = 0
        self.forget()

    def forget(self) -> None:
        """Forget all examined steps, so that examining starts again wherever the run continues."""
        self.steps: dict[int, EarlyStep] = {}
        self.skipped: set[int] = set()
        """Steps certain to be skipped."""
        self.stops: set[int] = set()
        """Examined or current steps that may still lead elsewhere."""
        self.waiters: dict[int, list[int]] = {}
        """The steps that wait for a step to be settled, by that step."""
        self.woken: list[int] = []
        """Steps to examine again, a heap."""
        self.ready: list[int] = []
        """Steps that could start if fewer were open, a heap."""
        self.moved: list[EarlyStep] = []
        """Steps with an outcome that has arrived since steps were last examined."""
        self.open = 0
        self.low = self.next = self.high = NOWHERE


class PatchedVariables:
    """The variables with `patches` applied, until `restore` is called."""

    __slots__ = ("_before", "slots")

    def __init__(self, slots: list[Any], patches: Patches) -> None:
        self.slots = slots
        self._before = [(slot, slots[slot]) for slot, _ in patches]
        for slot, value in patches:
            slots[slot] = value

    def restore(self) -> None:
        """Put back the values from before."""
        for slot, value in reversed(self._before):
            self.slots[slot] = value


def command_of(key: str, code: StepCode, slots: list[Any]) -> CallTool | CallModel:
    """The command of a step, as the machine will ask for it."""
    args = code.arguments(slots)
    if code.kind is Kind.MODEL:
        inputs = [make(slots) for make in code.inputs]
        return CallModel(key, code.id, code.tool, inputs, args, code.heeds_failure(1))
    return CallTool(key, code.id, code.tool, args, code.wants_data)


def value_or_error(outcome: Outcome) -> JSON:
    """The value of an outcome, or its error."""
    return outcome.value if isinstance(outcome, Succeeded) else outcome.error


def value_of(outcome: Outcome, cast: Cast | None) -> JSON:
    """What an outcome stores in a variable: its value, cast, or its error, which is never cast."""
    if isinstance(outcome, Failed):
        return outcome.error
    return outcome.value if cast is None else cast_value(cast, outcome.value)[0]


Keep: TypeAlias = "Callable[[JSON], JSON]"
Give: TypeAlias = "Callable[[Any], JSON]"


def ahead_to_json(state: AheadState, keep: Keep) -> dict[str, Any] | None:
    """The state as JSON data, each value passed through `keep`; None if no snapshot can be taken now.

    That is the case for a while: as long as a kept outcome has remarks, outcomes are yet to be handled, or
    the machine is still to ask for calls of a step that is not tracked any more.
    """
    steps = state.steps.values()
    if any(outcome.remarks for early in steps for outcome in early.outcomes.values()):
        return None
    if (
        state.queue
        or state.moved
        or any(state.steps.get(e.code.number) is not e for e, _ in state.calls.values())
    ):
        return None
    return {
        "steps": [_early_to_json(early, keep) for early in steps],
        "calls": [[key, early.code.number, index] for key, (early, index) in state.calls.items()],
        "skipped": sorted(state.skipped),
        "stops": sorted(state.stops),
        "waiters": [[number, waiters] for number, waiters in state.waiters.items()],
        "ready": state.ready,
        "counts": [state.open, state.low, state.next, state.high, state.arrived],
    }


def ahead_from_json(program: Program, data: Mapping[str, Any], give: Give) -> AheadState:
    """The state from JSON data; raises KeyError, IndexError, TypeError or ValueError if it is malformed."""
    state = AheadState()
    for item in data["steps"]:
        early = _early_from_json(program, item, give)
        state.steps[early.code.number] = early
    state.calls = {key: (state.steps[number], index) for key, number, index in data["calls"]}
    state.skipped, state.stops = set(data["skipped"]), set(data["stops"])
    state.waiters = {number: list(waiters) for number, waiters in data["waiters"]}
    state.ready = list(data["ready"])
    state.open, state.low, state.next, state.high, state.arrived = data["counts"]
    return state


def _early_to_json(early: EarlyStep, keep: Keep) -> list[Any]:
    return [
        early.code.number,
        early.prefix,
        None if early.items is None else keep(early.items),
        [[slot, keep(value)] for slot, value in early.patches],
        early.next,
        early.open,
        early.stopped,
        early.ran,
        [
            [index, early.arrivals[index], *_outcome_to_json(outcome, keep)]
            for index, outcome in early.outcomes.items()
        ],
        early.is_known,
        early.is_taken,
        keep(early.value),
    ]


def _early_from_json(program: Program, data: list[Any], give: Give) -> EarlyStep:
    number: int = data[0]
    _, prefix, items, patches, following, is_open, stopped, ran, outcomes, is_known, is_taken, value = data
    list_items = None if items is None else give(items)
    if list_items is not None and not isinstance(list_items, list):
        raise ValueError("the items of a loop are no list")
    early = EarlyStep(
        program.steps[number], prefix, list_items, [(slot, give(kept)) for slot, kept in patches]
    )
    early.next, early.open, early.stopped, early.ran = following, is_open, stopped, ran
    for index, arrival, *outcome in outcomes:
        early.outcomes[index] = _outcome_from_json(f"{prefix}{index}.1", outcome, give)
        early.arrivals[index] = arrival
    early.is_known, early.is_taken, early.value = is_known, is_taken, give(value)
    return early


def _outcome_to_json(outcome: Outcome, keep: Keep) -> list[Any]:
    spent = None if outcome.spent is None else list(outcome.spent)
    if isinstance(outcome, Succeeded):
        return ["ok", keep(outcome.value), spent]
    return ["err", keep(outcome.error), spent, outcome.unsettled, outcome.final, outcome.forbidden]


def _outcome_from_json(key: str, data: list[Any], give: Give) -> Outcome:
    kind, value, spent, *more = data
    took = None if spent is None else Spent(*spent)
    if kind == "ok":
        return Succeeded(key, give(value), (), took)
    return Failed(key, str(give(value)), (), took, *more)


SizeOf = Callable[[int], int | None]
"""Returns the number of items of a step's FOREACH, None if it is not known yet."""
_AMPLE = 0.5
"""What calls spend is known only afterwards: they start early while at most this share of a limit is used."""
_MOST_IN_ROUNDS = MAX_ROUNDS
_MOST_OF_AN_AGENT = MAX_TURNS * (1 + MAX_AT_ONCE * (1 + MOST_REDELIVERIES))
"""Assumes the maximum, since the limits that a step sets for its agent may be data."""
_CALLS = frozenset({Kind.TOOL, Kind.MODEL, Kind.AGENT, Kind.ASK})
_MODELS = frozenset({Kind.MODEL, Kind.AGENT})


class Headroom:
    """The most calls that the steps of a program may make, compared with what a budget leaves."""

    __slots__ = ("_all", "_codes", "_loops", "_models", "bytes", "spent")

    def __init__(self, codes: Sequence[StepCode]) -> None:
        self._codes = codes
        self._loops = [code.number for code in codes if code.source is not None]
        self._all = _sums(codes, _CALLS)
        self._models = _sums(codes, _MODELS)
        self.spent = Spent()
        """What early calls have spent that the budget has not counted yet."""
        self.bytes = 0
        """The size of their results."""

    def is_ample(
        self, code: StepCode, first: int, last: int, items: int, budget: Budget, size_of: SizeOf
    ) -> bool:
        """Whether the calls of a step (one for each of its items) may start before its turn.

        `first` is the current step, `last` the last step that has started or is about to start.
        """
        limits = budget.limits
        if budget.steps + last - first > limits.max_steps:  # the first has been counted
            return False
        if limits.max_items is not None and items > limits.max_items:
            return False
        if limits.max_calls is not None:
            need = self._need(self._all, _CALLS, first, last, limits.max_items, size_of)
            if sum(budget.calls.values()) + need > limits.max_calls:
                return False
        cap = limits.max_calls_by_tool.get(code.tool)
        if cap is not None:
            need = self._need_of(code.tool, first, last, limits.max_items, size_of)
            if budget.calls[code.tool] + need > cap:
                return False
        if limits.max_model_calls is not None and code.kind is Kind.MODEL:
            need = self._need(self._models, _MODELS, first, last, limits.max_items, size_of)
            if budget.model_calls + need > limits.max_model_calls:
                return False
        return self._may_spend(budget)

    def _may_spend(self, budget: Budget) -> bool:
        limits, spent = budget.limits, self.spent
        tokens = budget.input_tokens + budget.output_tokens + spent.input_tokens + spent.output_tokens
        return all(
            limit is None or used <= limit * _AMPLE
            for limit, used in (
                (limits.max_tokens, tokens),
                (limits.max_cost, budget.cost + spent.cost),
                (limits.max_bytes, budget.bytes + self.bytes + spent.kept),
            )
        )

    def _need(
        self,
        sums: list[int],
        kinds: frozenset[Kind],
        first: int,
        last: int,
        most_items: int | None,
        size_of: SizeOf,
    ) -> float:
        """The most calls of these kinds that the steps from `first` to `last` may make."""
        need: float = sums[last + 1] - sums[first]
        for at in range(bisect_left(self._loops, first), len(self._loops)):
            number = self._loops[at]
            if number > last:
                break
            code = self._codes[number]
            if code.kind in kinds:
                need += _most_calls(code) * _items(size_of(number), most_items)
        return need

    def _need_of(self, tool: str, first: int, last: int, most_items: int | None, size_of: SizeOf) -> float:
        """The most calls of a tool that the steps from `first` to `last` may make."""
        need: float = 0
        for code in self._codes[first : last + 1]:
            if code.tool == tool or (code.loop is not None and tool in code.loop.tools):
                items = 1.0 if code.source is None else _items(size_of(code.number), most_items)
                need += _most_calls(code) * items
        return need


def _items(known: int | None, most: int | None) -> float:
    return known if known is not None else math.inf if most is None else most


def _most_calls(code: StepCode) -> int:
    """The most calls for one item that are made without a person's decision."""
    if code.loop is not None:
        return code.retries + (_MOST_IN_ROUNDS if code.kind is Kind.MODEL else _MOST_OF_AN_AGENT)
    again = code.probes or code.on_in_doubt is OnInDoubt.RETRY
    return (1 + code.retries) * (1 + MOST_REDELIVERIES * again)


def _sums(codes: Sequence[StepCode], kinds: frozenset[Kind]) -> list[int]:
    """For each step, the most calls that the steps before it may make, without FOREACH steps."""
    each = (_most_calls(code) if code.kind in kinds and code.source is None else 0 for code in codes)
    return list(accumulate(each, initial=0))
