"""Whether a variable has a value where it is read: on every way there, on some, or on none.

Most reads are settled by the tree of dominators; the rest by a search backwards from the read.
All searches of a plan share one budget, so that no plan makes them slow: past it a variable counts as set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from callsheet.ir.dominators import NONE, spans_below
from callsheet.ir.flow import Definition, Flow, Use

_STEPS_PER_NODE = 10
_LEAST_BUDGET = 200_000


class Known(Enum):
    """What is known of a variable at a read."""

    ALWAYS = "set on every way to the read"
    SOMETIMES = "set on some ways to the read"
    NEVER = "set on no way to the read"


def settle(flow: Flow, uses: Sequence[Use]) -> list[Known]:
    """What is known of the variable of each use. Uses in steps that are never reached are NEVER."""
    order, dominator = flow.dominators()
    verdicts = _Above(flow, spans_below(order, dominator)).judge(uses)
    search = _Search(flow, dominator)
    return [
        verdict if verdict is not None else search.judge(use)
        for use, verdict in zip(uses, verdicts, strict=True)
    ]


class _Above:
    """The definitions that dominate a use, by the span of each node in the tree of dominators."""

    def __init__(self, flow: Flow, spans: tuple[list[int], list[int]]) -> None:
        self._flow = flow
        self._first, self._last = spans

    def judge(self, uses: Sequence[Use]) -> list[Known | None]:
        """ALWAYS where a sure definition dominates the use, None where that does not settle it.

        SOMETIMES where only unsure definitions dominate it and there is no sure one anywhere.
        """
        verdicts: list[Known | None] = [None] * len(uses)
        several: dict[str, list[int]] = {}
        first, last, definitions = self._first, self._last, self._flow.definitions
        always, sometimes = Known.ALWAYS, Known.SOMETIMES
        for number, use in enumerate(uses):
            setting = definitions[use.ref.name]
            if len(setting) > 1:
                several.setdefault(use.ref.name, []).append(number)
                continue
            (only,) = setting
            if first[only.committed] < first[use.step] <= last[only.committed]:
                verdicts[number] = always if only.sure else sometimes
        for name, numbers in several.items():
            sure = [d for d in definitions[name] if d.sure]
            verdict = always if sure else sometimes
            for number in self._below(sure or definitions[name], uses, numbers):
                verdicts[number] = verdict
        return verdicts

    def _below(
        self, definitions: Sequence[Definition], uses: Sequence[Use], numbers: list[int]
    ) -> Iterator[int]:
        """Those of the uses that at least one of the definitions dominates, in one sweep over both."""
        first = self._first
        spans = sorted((first[d.committed], self._last[d.committed]) for d in definitions)
        opened = covered = 0
        for number in sorted(numbers, key=lambda number: first[uses[number].step]):
            place = first[uses[number].step]
            while opened < len(spans) and spans[opened][0] < place:
                covered = max(covered, spans[opened][1])
                opened += 1
            if 0 < place <= covered:
                yield number


class _Search:
    """Searches backwards from single uses, within one budget for all of them."""

    def __init__(self, flow: Flow, dominator: list[int]) -> None:
        self._flow = flow
        self._reached = [above != NONE for above in dominator]
        self._budget = max(_LEAST_BUDGET, _STEPS_PER_NODE * len(dominator))
        self._known: dict[tuple[int, str], Known] = {}
        self._setting: dict[str, dict[int, bool]] = {}

    def judge(self, use: Use) -> Known:
        """Whether definitions, and whether the bare entry, lead to the use."""
        if not self._reached[use.step]:
            return Known.NEVER
        at = (use.step, use.ref.name)
        if at not in self._known:
            self._known[at] = self._look(*at)
        return self._known[at]

    def _setters(self, name: str) -> dict[int, bool]:
        """The nodes where the variable is set, and whether surely."""
        if name not in self._setting:
            definitions = sorted(self._flow.definitions[name], key=lambda d: d.sure)
            self._setting[name] = {d.committed: d.sure for d in definitions}
        return self._setting[name]

    def _look(self, step: int, name: str) -> Known:
        flow = self._flow
        sure, entry, predecessors, reached = self._setters(name), flow.entry, flow.predecessors, self._reached
        set_somewhere = unset_somewhere = False
        seen = {step}
        stack = [step]
        first = True
        while stack and not (set_somewhere and unset_somewhere):
            node = stack.pop()
            self._budget -= 1
            if self._budget < 0:
                return Known.ALWAYS
            if not first and node in sure:
                set_somewhere = True
                if sure[node]:
                    continue
            first = False
            for before in predecessors[node]:
                if before == entry:
                    unset_somewhere = True
                elif reached[before] and before not in seen:
                    seen.add(before)
                    stack.append(before)
                elif before == step and before in sure:
                    set_somewhere = True
        if not set_somewhere:
            return Known.NEVER
        return Known.SOMETIMES if unset_somewhere else Known.ALWAYS
