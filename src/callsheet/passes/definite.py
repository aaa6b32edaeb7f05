"""Definite assignment: whether a variable is set on every path to a read, on some paths, or on none.

Most reads are decided by the dominator tree, the rest by a backward search from the read. All searches
of a plan share one budget, which bounds the time for any plan; once it is spent, a variable counts as set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from callsheet.ir.dominators import NONE, spans_below
from callsheet.ir.flow import Definition, Flow, Use

_STEPS_PER_NODE = 10
_LEAST_BUDGET = 200_000


class Known(Enum):
    """On which paths to a read the variable is set."""

    ALWAYS = "set on every path to the read"
    SOMETIMES = "set on some paths to the read"
    NEVER = "set on no path to the read"


def settle(flow: Flow, uses: Sequence[Use]) -> list[Known]:
    """The verdict for each use, in the order given; NEVER for uses in unreachable steps."""
    order, dominator = flow.dominators()
    verdicts = _Above(flow, spans_below(order, dominator)).judge(uses)
    search = _Search(flow, dominator)
    return [
        verdict if verdict is not None else search.judge(use)
        for use, verdict in zip(uses, verdicts, strict=True)
    ]


class _Above:
    """Decides uses by dominance: a node's subtree in the dominator tree is a range of preorder numbers."""

    def __init__(self, flow: Flow, spans: tuple[list[int], list[int]]) -> None:
        self._flow = flow
        self._first, self._last = spans

    def judge(self, uses: Sequence[Use]) -> list[Known | None]:
        """ALWAYS if a definition that always takes effect (`sure`) dominates the use; None if undecided.

        SOMETIMES if only conditional definitions dominate it and no sure one exists anywhere.
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
        """The uses that at least one of the definitions dominates, found in one sweep over both."""
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
    """Backward searches from single uses, sharing one budget."""

    def __init__(self, flow: Flow, dominator: list[int]) -> None:
        self._flow = flow
        self._reached = [above != NONE for above in dominator]
        self._budget = max(_LEAST_BUDGET, _STEPS_PER_NODE * len(dominator))
        self._known: dict[tuple[int, str], Known] = {}
        self._setting: dict[str, dict[int, bool]] = {}

    def judge(self, use: Use) -> Known:
        """Whether a definition reaches the use, and whether the entry reaches it without one."""
        if not self._reached[use.step]:
            return Known.NEVER
        at = (use.step, use.ref.name)
        if at not in self._known:
            self._known[at] = self._look(*at)
        return self._known[at]

    def _setters(self, name: str) -> dict[int, bool]:
        """The nodes that set the variable, each with whether it always does so."""
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
