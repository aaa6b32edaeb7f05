"""Computes the diff of two plans.

Steps are matched (`matching`), then each pair is compared part by part (`parts`). A step is moved if it is
not in a longest sequence of steps that kept their order. References (GOTO, ON_FAIL GOTO, dependencies) are
compared by the step they denote, so that following a renaming is no change. Comments and spans are ignored.
About O(n log n) in the number of steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from callsheet.ir.diff.matching import Matching, match_steps
from callsheet.ir.diff.order import staying
from callsheet.ir.diff.parts import head_changes, reference_changes, step_changes
from callsheet.ir.diff.result import Change, Part, PlanDiff, StepDiff
from callsheet.ir.gc_pause import gc_paused
from callsheet.ir.plan import Plan
from callsheet.ir.step import Step

_LARGE = 2_000
"""From this many steps of both plans on the cyclic collector is paused: no reference cycles arise here."""


def diff_plans(old: Plan, new: Plan) -> PlanDiff:
    """The differences between two plans.

    >>> from callsheet.ir import Literal, Respond
    >>> old = Plan((Step("S1", Respond((Literal("a"),))),))
    >>> new = Plan((Step("S1", Respond((Literal("b"),))),))
    >>> [(c.part.value, c.name, c.old.value, c.new.value) for c in diff_plans(old, new).steps[0].changes]
    [('argument', 1, 'a', 'b')]
    """
    with gc_paused(len(old.steps) + len(new.steps) >= _LARGE):
        return _diff(old, new)


def _diff(old: Plan, new: Plan) -> PlanDiff:
    matching = match_steps(old.steps, new.steps)
    references = _References.of(matching)
    groups = _groups(matching)
    pairs = sorted(matching.partner.items())
    stay = staying([j for _, j in pairs])
    moved = {i for position, (i, _) in enumerate(pairs) if position not in stay}
    sides: dict[int, StepDiff] = {}
    for i, j in pairs:
        was, now = old.steps[i], new.steps[j]
        changes = (*_step_changes(matching, i, j, references), *_group_change(was, now, groups))
        sides[j] = StepDiff(was, now, i, j, changes, i in moved)
    return PlanDiff(old, new, tuple(head_changes(old, new)), tuple(_in_order(matching, sides)))


def _step_changes(matching: Matching, i: int, j: int, references: _References) -> Iterator[Change]:
    old, new = matching.old[i], matching.new[j]
    is_equal = matching.old_keys[i].content == matching.new_keys[j].content
    changes = reference_changes if is_equal else step_changes
    return changes(old, new, references.are_same)


def _in_order(matching: Matching, sides: dict[int, StepDiff]) -> Iterator[StepDiff]:
    """All steps in the order of the new plan; removed ones come after the step that they followed."""
    behind: dict[int, list[int]] = {}
    anchor = -1
    for i in range(len(matching.old)):
        if i in matching.partner:
            anchor = matching.partner[i]
        else:
            behind.setdefault(anchor, []).append(i)

    def removed(after: int) -> Iterator[StepDiff]:
        return (StepDiff(matching.old[i], None, i, None) for i in behind.get(after, ()))

    yield from removed(-1)
    for j, step in enumerate(matching.new):
        yield sides.get(j) or StepDiff(None, step, None, j)
        yield from removed(j)


@dataclass(frozen=True, slots=True)
class _References:
    """Resolves ids to steps: an id denotes the first step that has it."""

    old: dict[str, int]
    new: dict[str, int]
    partner: dict[int, int]

    @classmethod
    def of(cls, matching: Matching) -> _References:
        return cls(_first_of(matching.old), _first_of(matching.new), matching.partner)

    def are_same(self, old: str, new: str) -> bool:
        """Whether two ids denote matching steps; an unresolved id matches only itself."""
        now, was = self.new.get(new), self.old.get(old)
        if now is None:
            return old == new and was not in self.partner
        return was is not None and self.partner.get(was) == now


def _first_of(steps: Sequence[Step]) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, step in enumerate(steps):
        places.setdefault(step.id, place)
    return places


def _groups(matching: Matching) -> dict[int, int]:
    """Maps groups of the old plan to those of the new one, greedily by the number of shared steps."""
    shared: Counter[tuple[int, int]] = Counter()
    for i, j in sorted(matching.partner.items()):
        was, now = matching.old[i].group, matching.new[j].group
        if was is not None and now is not None:
            shared[was, now] += 1
    known: dict[int, int] = {}
    taken: set[int] = set()
    for (was, now), _ in sorted(shared.items(), key=lambda item: (-item[1], item[0])):
        if was not in known and now not in taken:
            known[was] = now
            taken.add(now)
    return known


def _group_change(old: Step, new: Step, groups: dict[int, int]) -> Iterator[Change]:
    same = old.group is new.group is None or (
        old.group is not None and new.group is not None and groups.get(old.group) == new.group
    )
    if not same:
        yield Change(Part.GROUP, old.group, new.group)
