"""Rules over the calls of a run together: how many, how much in all, what after what, and when.

In: a policy's limits, and the calls of a run in their order. Out: what a limit says against the next call.
What depends on the clock is said by `outside_hours`, or of the calls of all runs; the caller knows both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from math import inf, isclose, isfinite
from typing import Any, NamedTuple

from callsheet.ir import JSON
from callsheet.policy.builtins import fold, is_approved_ahead
from callsheet.policy.calls import Argument, CallView, Duty, Rule
from callsheet.policy.classes import EVERY
from callsheet.policy.model import Limit, Per, Policy
from callsheet.policy.rules.base import Notes, of_name

HOUR = 3_600.0
DAY = 24 * HOUR
_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)|([01]\d|2[0-3]):([0-5]\d)-24:00")
_MANY = 1_000_000_000
"""How often a call in a loop may be made."""
_NUMBER = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*")
_HELP = "split the work, or change the limit in the policy: [[limit]]"


class Breach(NamedTuple):
    """What a limit says against a call."""

    limit: Limit
    message: str


def covers(limit: Limit, tool: str) -> bool:
    """Whether a limit is about the calls of a tool.

    >>> covers(Limit(tools=("SEND_*",), calls=1), "@send_mail")
    True
    """
    return _is_among(tool, limit.tools)


def _is_among(tool: str, patterns: Iterable[str]) -> bool:
    name = fold(tool)
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class CallHistory:
    """The calls of a run so far, as far as the limits of its policy are about them."""

    __slots__ = ("_counts", "_limits", "_sums", "_tools")

    def __init__(self, policy: Policy) -> None:
        self._limits = tuple(limit for limit in policy.limits if not is_of_clock(limit))
        self._counts = [0] * len(self._limits)
        self._sums = [0.0] * len(self._limits)
        self._tools: list[str] = []

    @property
    def is_needed(self) -> bool:
        """Whether the policy has a limit that depends on other calls of the run."""
        return bool(self._limits)

    def breaches(self, call: CallView) -> list[Breach]:
        """What the limits say against a call after all those that were added."""
        found: list[Breach] = []
        for number, limit in enumerate(self._limits):
            if covers(limit, call.tool):
                why = self._breach(number, limit, call)
                if why is not None:
                    found.append(Breach(limit, why))
        return found

    def add(self, call: CallView, times: int = 1) -> None:
        """A call was admitted, or may be so often."""
        self.add_one_of((call,), max, times)

    def add_one_of(
        self, ways: Sequence[CallView], amount: Callable[[Iterable[float]], float], times: int = 1
    ) -> None:
        """A call was made in one of these ways; `amount` says which of their amounts counts."""
        tool = ways[0].tool
        for number, limit in enumerate(self._limits):
            if covers(limit, tool):
                self._counts[number] += times
                if limit.sum is not None:
                    self._sums[number] += amount(amount_of(limit, call) for call in ways) * times
        self.saw(tool)

    def take_back(self, call: CallView) -> None:
        """A call that was added is judged anew; an amount that is not known stays so."""
        for number, limit in enumerate(self._limits):
            if covers(limit, call.tool):
                self._counts[number] = max(self._counts[number] - 1, 0)
                amount = 0.0 if limit.sum is None else amount_of(limit, call)
                if isfinite(amount):
                    self._sums[number] = max(self._sums[number] - amount, 0.0)

    def saw(self, tool: str) -> None:
        """A tool was called, or may have been."""
        name = fold(tool)
        if name not in self._tools and any(
            _is_among(name, (*limit.after, *limit.needs)) for limit in self._limits
        ):
            self._tools.append(name)

    def _breach(self, number: int, limit: Limit, call: CallView) -> str | None:
        if limit.calls is not None and self._counts[number] >= limit.calls:
            return over_count(limit, call.tool, self._counts[number])
        if limit.sum is not None:
            return over_sum(limit, call, self._sums[number])
        if limit.after:
            before = [tool for tool in self._tools if _is_among(tool, limit.after)]
            return f"@{call.tool} comes after @{before[0]}" if before else None
        if limit.needs and not any(_is_among(tool, limit.needs) for tool in self._tools):
            return f"@{call.tool} comes before any call of {_named(limit.needs)}"
        return None

    def to_json(self) -> list[Any]:
        """The history as JSON data; the amounts that are not known are null."""
        sums = [value if isfinite(value) else None for value in self._sums]
        return [list(self._counts), sums, list(self._tools)]

    def restore(self, data: Sequence[Any]) -> None:
        """Take a history from JSON data; raises ValueError if it is of other limits."""
        counts, sums, tools = data
        if len(counts) != len(self._limits) or len(sums) != len(self._limits):
            raise ValueError("it is of other limits")
        self._counts, self._tools = list(counts), list(tools)
        self._sums = [inf if value is None else float(value) for value in sums]

    def taken_over(self, policy: Policy) -> CallHistory:
        """The history of the same run under another policy: what the new limits ask for counts from now on.

        A limit that both have goes on where it was.
        """
        history = CallHistory(policy)
        for number, limit in enumerate(history._limits):
            if limit in self._limits:
                known = self._limits.index(limit)
                history._counts[number], history._sums[number] = self._counts[known], self._sums[known]
        history._tools = list(self._tools)
        return history


def amount_of(limit: Limit, call: CallView) -> float:
    """How much of a limit's sum a call takes up; infinite if that is not known or no number.

    What would lower the sum counts like what raises it.

    >>> limit = Limit(tools=("PAY",), sum="amount", most=9.0)
    >>> call = CallView("S1", "PAY", (Argument("amount", ("-2.5",)),))
    >>> amount_of(limit, call), amount_of(limit, call._replace(arguments=()))
    (2.5, inf)
    """
    argument = of_name(call, limit.sum or "")
    if argument is None or argument.label.is_secret:
        return inf
    return sum(_amounts(argument))


def _amounts(argument: Argument) -> Iterator[float]:
    if argument.items:
        for item in argument.items:
            yield from _amounts(item)
        return
    yield number_of(argument.text)


def number_of(value: JSON) -> float:
    """The size of a number, also of one that is a text; infinite for anything else.

    >>> number_of("12.50"), number_of(-3), number_of("1e999"), number_of("ten"), number_of(True)
    (12.5, 3.0, inf, inf, inf)
    """
    if isinstance(value, bool) or value is None:
        return inf
    if isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        try:
            size = abs(float(value))
        except OverflowError:
            return inf
        return size if isfinite(size) else inf
    return inf


def over_count(limit: Limit, tool: str, before: int) -> str:
    """The words against a call of which there were enough."""
    span = {Per.RUN: "a run", Per.HOUR: "an hour", Per.DAY: "a day"}[limit.per]
    which = f"@{tool} would be call {before + 1} of {_named(limit.written or limit.tools)}"
    return f"{which}, and the policy allows {limit.calls} {span}"


def over_sum(limit: Limit, call: CallView, before: float) -> str | None:
    """The words against a call that would take a sum over its limit; None if it does not."""
    amount, most = amount_of(limit, call), limit.most or 0.0
    if before + amount <= most or isclose(before + amount, most, rel_tol=1e-12):  # 0.1 + 0.2 is 0.3
        return None
    span = {Per.RUN: "in this run", Per.HOUR: "within an hour", Per.DAY: "within a day"}[limit.per]
    if inf in (amount, before):
        what = f"how much {limit.sum} of @{call.tool} comes to {span} is not known"
    else:
        what = f"{limit.sum} of @{call.tool} would come to {before + amount:g} {span}"
    return f"{what}, and the policy allows {most:g}"


def _named(patterns: Sequence[str]) -> str:
    """The patterns as they are shown, without the names that binding has added to them."""
    patterns = [one for one in patterns if EVERY in one] or patterns
    return " and ".join(f"@{pattern}" for pattern in patterns[:3]) + (" …" if len(patterns) > 3 else "")


def note_breaches(
    breaches: Iterable[Breach], call: CallView, notes: Notes, *, is_approved: bool, is_surely: bool = True
) -> None:
    """Record what limits say against a call; what is not sure before the run is left to it."""
    for limit, message in breaches:
        if not is_surely:
            notes.oblige(Duty.VERIFY_AGAIN, call, f"it may be that {message}")
        elif limit.then == "refuse":
            notes.object(Rule.PREDICATE, message, help=_HELP)
        elif not is_approved:
            notes.ask(message)


class PlannedCalls:
    """The calls of a plan in the order of its text, for what its proof can say of limits.

    What is sure is counted apart from what may be: a call in a loop or a branch. `looped` are the tools that
    it calls in loops, any of which may be called before any other of them.
    """

    __slots__ = ("_looped", "_may", "_policy", "_sure")

    def __init__(self, policy: Policy, looped: Iterable[str] = ()) -> None:
        self._policy = policy
        self._looped = frozenset(looped) if policy.limits else frozenset[str]()
        self._sure, self._may = CallHistory(policy), CallHistory(policy)

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to say."""
        return self._sure.is_needed

    def saw(self, tool: str) -> None:
        """A run in progress may have called a tool."""
        self._may.saw(tool)

    def note(self, call: CallView, notes: Notes, *, is_sure: bool, again: bool) -> None:
        """Record what limits say against a way in which the next call of the plan may be made.

        `again`: it is made in a loop. Once all its ways are noted, `add` counts it.
        """
        sure = self._sure.breaches(_known_amounts(call)) if is_sure else []
        sure = [one for one in sure if not one.limit.needs or _is_in(one, self._may.breaches(call))]
        if again:
            for tool in self._looped:
                self._may.saw(tool)
        may = self._may.breaches(call)
        if again:
            self._may.add(call, _MANY)
            known = {id(one.limit) for one in may}
            may += [
                Breach(one.limit, f"@{call.tool}, which is called in a loop, comes to more than is allowed")
                for one in self._may.breaches(call)
                if id(one.limit) not in known
            ]
        is_approved = call.approved or is_approved_ahead(self._policy, call.step, call.tool)
        note_breaches(sure, call, notes, is_approved=is_approved)
        known = {id(one.limit) for one in sure}
        rest = {id(one.limit): one for one in may if id(one.limit) not in known}
        note_breaches(rest.values(), call, notes, is_approved=is_approved, is_surely=False)

    def add(self, ways: Sequence[CallView], *, is_sure: bool) -> None:
        """The plan goes on after a call that is made in one of these ways."""
        if is_sure:
            self._sure.add_one_of([_known_amounts(call) for call in ways], min)
        self._may.add_one_of(ways, max)


def _is_in(breach: Breach, others: Iterable[Breach]) -> bool:
    return any(one.limit is breach.limit for one in others)


def _known_amounts(call: CallView) -> CallView:
    """The call with nothing for amounts that are not known before the run."""
    arguments = tuple(
        argument if argument.items or argument.text is not None else argument._replace(parts=("0",))
        for argument in call.arguments
    )
    return call._replace(arguments=arguments)


# ------------------------------------------------------------ the clock


def is_of_clock(limit: Limit) -> bool:
    """Whether a limit depends on the time, or on calls of other runs."""
    return limit.hours is not None or limit.per is not Per.RUN


def hours_of(text: str) -> tuple[int, int]:
    """The first and the last minute of a day between which calls are made; raises ValueError.

    >>> hours_of("08:00-18:30"), hours_of("22:00-24:00")
    ((480, 1110), (1320, 1440))
    """
    if _HOURS.fullmatch(text) is None:
        raise ValueError('hours such as "08:00-18:00"')
    first, last = (60 * int(part[:2]) + int(part[3:]) for part in text.split("-"))
    if first == last:
        raise ValueError('hours such as "08:00-18:00"; these are empty')
    return first, last


def outside_hours(limit: Limit, tool: str, seconds: float) -> str | None:
    """The words against a call at this time; None if the limit allows it.

    >>> outside_hours(Limit(tools=("PAY",), hours="08:00-18:00"), "PAY", 0.0)
    '@PAY is called at 00:00 (UTC), and the policy allows it from 08:00-18:00'
    """
    if limit.hours is None:
        return None
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - loads time zones only if needed

    now = datetime.fromtimestamp(seconds, ZoneInfo(limit.zone))
    first, last = hours_of(limit.hours)
    minute = 60 * now.hour + now.minute
    is_inside = first <= minute < last if first < last else minute >= first or minute < last
    if is_inside:
        return None
    return f"@{tool} is called at {now:%H:%M} ({limit.zone}), and the policy allows it from {limit.hours}"


def clock_limits(policy: Policy, tool: str) -> list[Limit]:
    """The limits on a tool's calls that depend on the time."""
    return [limit for limit in policy.limits if is_of_clock(limit) and covers(limit, tool)]


def seconds_of(per: Per) -> float:
    """How long a limit looks back."""
    return DAY if per is Per.DAY else HOUR


def limit_name(limit: Limit) -> str:
    """What a limit's calls are counted under, across runs; the same for the same words of a policy."""
    return "|".join([str(limit.per), limit.sum or "calls", *(limit.written or limit.tools)])


def view_of_call(tool: str, args: Mapping[str, JSON]) -> CallView:
    """A call with known arguments, for its amounts."""
    return CallView("", tool, tuple(_argument(name, value) for name, value in args.items()))


def _argument(name: str, value: Any) -> Argument:
    if isinstance(value, list):
        return Argument(name, (), items=tuple(_argument(name, each) for each in value))  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    return Argument(name, ("true" if value is True else str(value),))
