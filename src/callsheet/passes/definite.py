"""Whether a variable has a value where it is read: on every way there, on some, or on none.

Most reads are settled by the tree of dominators in one walk; the rest by a search backwards
from the read. All searches of a plan share one budget, so that no plan makes them slow: past
it a variable counts as set.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from callsheet.ir.dominators import NONE, immediate_dominators
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
    dominator = immediate_dominators(flow.successors, flow.entry)
    walk = _Walk(flow, dominator)
    verdicts = walk.judge(uses)
    search = _Search(flow, dominator)
    return [
        verdict if verdict is not None else search.judge(use)
        for use, verdict in zip(uses, verdicts, strict=True)
    ]


def _definitions_at(flow: Flow) -> list[list[Definition]]:
    found: list[list[Definition]] = [[] for _ in flow.successors]
    for definitions in flow.definitions.values():
        for definition in definitions:
            found[definition.committed].append(definition)
    return found


class _Walk:
    """One walk down the tree of dominators, with the definitions above, and how many of them are sure."""

    def __init__(self, flow: Flow, dominator: list[int]) -> None:
        self._flow = flow
        self._children: list[list[int]] = [[] for _ in dominator]
        for node, above in enumerate(dominator):
            if above != NONE:
                self._children[above].append(node)
        self._definitions = _definitions_at(flow)
        self._unsure = {
            name
            for name, definitions in flow.definitions.items()
            if not any(definition.sure for definition in definitions)
        }
        """The variables that every step which sets them may leave as they are."""

    def judge(self, uses: Sequence[Use]) -> list[Known | None]:
        """ALWAYS where a sure definition dominates the use, None where that does not settle it.

        SOMETIMES where only unsure definitions dominate it and there is no sure one anywhere.
        """
        uses_at: dict[int, list[int]] = {}
        for number, use in enumerate(uses):
            uses_at.setdefault(use.step, []).append(number)
        verdicts: list[Known | None] = [None] * len(uses)
        depth: dict[str, int] = {}
        partly: dict[str, int] = {}
        stack = [self._flow.entry]
        while stack:
            node = stack.pop()
            if node < 0:
                for definition in self._definitions[~node]:
                    if definition.sure:
                        depth[definition.var] -= 1
                    else:
                        partly[definition.var] -= 1
                continue
            for number in uses_at.get(node, ()):
                name = uses[number].ref.name
                if depth.get(name):
                    verdicts[number] = Known.ALWAYS
                elif partly.get(name) and name in self._unsure:
                    verdicts[number] = Known.SOMETIMES
            for definition in self._definitions[node]:
                above = depth if definition.sure else partly
                above[definition.var] = above.get(definition.var, 0) + 1
            stack.append(~node)
            stack.extend(self._children[node])
        return verdicts


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
