"""Matches the steps of one plan with those of another, by exact keys of their parts; finds moved ones."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from callsheet import lazy
from callsheet.ir.canon import Json, action_to_json, condition_to_json, step_to_json, value_to_json
from callsheet.ir.expr import Condition, Value
from callsheet.ir.step import Step, word_of

encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def value_key(value: Value) -> str:
    """A text that is the same for identical values only."""
    return encode(value_to_json(value))


def condition_key(condition: Condition | None) -> str:
    """A text that is the same for identical conditions only; empty for None."""
    return "" if condition is None else encode(condition_to_json(condition))


@dataclass(frozen=True, slots=True)
class StepKey:
    """The key of a step: `content` is everything but its id, its group and the ids it refers to.

    `kind` is the tool that it calls, or the class name of another action.
    """

    content: str
    kind: str


def key_of(step: Step) -> StepKey:
    """The key of a step.

    >>> from callsheet.ir import Goto
    >>> key_of(Step("S1", Goto("S2"))) == key_of(Step("S8", Goto("S9")))
    True
    """
    data: dict[str, Json] = step_to_json(step)
    for name in ("id", "group", "after"):
        data.pop(name, None)
    if "goto" in data["do"]:
        data["do"] = "goto"
    if "goto" in data.get("fail", {}).get("then", {}):
        data["fail"]["then"] = "goto"
    return StepKey(encode(data), word_of(step.action))


def features_of(step: Step) -> frozenset[str]:
    """The parts of a step, one text each; steps that share many are similar."""
    return frozenset(_features(step))


def _features(step: Step) -> Iterator[str]:
    yield "do " + key_of(step).kind
    if (call := step.call) is not None:
        yield from (f"arg {name} {value_key(value)}" for name, value in call.named)
        yield from (f"arg {value_key(value)}" for value in call.positional)
    elif step.values():
        yield "values " + encode(action_to_json(step.action))
    if step.output is not None:
        yield "out " + step.output.var
    if step.condition is not None:
        yield "if " + condition_key(step.condition)
    if step.foreach is not None:
        yield "each " + value_key(step.foreach.source)
    if step.title is not None:
        yield "title " + step.title


def staying(places: Sequence[int]) -> set[int]:
    """The positions of a longest increasing subsequence, which need not move. O(n log n).

    >>> sorted(staying([2, 0, 1, 3]))
    [1, 2, 3]
    """
    tails: list[int] = []
    holders: list[int] = []
    before: list[int] = []
    for position, place in enumerate(places):
        length = bisect_left(tails, place)
        before.append(holders[length - 1] if length else -1)
        if length == len(tails):
            tails.append(place)
            holders.append(position)
        else:
            tails[length] = place
            holders[length] = position
    unmoved: set[int] = set()
    position = holders[-1] if holders else -1
    while position != -1:
        unmoved.add(position)
        position = before[position]
    return unmoved


LEAST_LIKENESS = 0.5
"""The minimum share of common features for two steps to match by similarity."""

_MOST_SHARED = 16
"""Features of more steps than this are ignored as too common."""

_NUMBERED = lazy.pattern(r"[Ss](\d{1,9})")


class Identified(Protocol):
    """A part of a plan that may have an id."""

    @property
    def id(self) -> str:
        """The id; "" for none."""
        ...


_Item = TypeVar("_Item", bound=Identified)


@dataclass(slots=True)
class Matching(Generic[_Item]):
    """Pairs of matching steps, or other parts of plans, by index; each is in at most one.

    `features` gives the parts of one, of which similar ones share many.
    """

    old: Sequence[_Item]
    new: Sequence[_Item]
    old_keys: Sequence[StepKey]
    new_keys: Sequence[StepKey]
    features: Callable[[_Item], frozenset[str]]
    partner: dict[int, int] = field(default_factory=dict[int, int])
    """Indexes in the new plan by those in the old one."""
    taken: dict[int, int] = field(default_factory=dict[int, int])
    """Indexes in the old plan by those in the new one."""

    def pair(self, old: int, new: int) -> None:
        """Records that two steps match."""
        self.partner[old] = new
        self.taken[new] = old

    def left_old(self) -> list[int]:
        """The unmatched steps of the old plan."""
        return [i for i in range(len(self.old)) if i not in self.partner]

    def left_new(self) -> list[int]:
        """The unmatched steps of the new plan."""
        return [i for i in range(len(self.new)) if i not in self.taken]

    def pair_equal(self, old_name: Callable[[int], object], new_name: Callable[[int], object]) -> None:
        """Pairs unmatched steps with equal names, in order."""
        waiting: defaultdict[object, list[int]] = defaultdict(list)
        for i in reversed(self.left_new()):
            waiting[new_name(i)].append(i)
        for i in self.left_old():
            same = waiting.get(old_name(i))
            if same:
                self.pair(i, same.pop())


def match_steps(old: Sequence[Step], new: Sequence[Step]) -> Matching[Step]:
    """The matching that gives the smaller diff of the two plans."""
    old_keys, new_keys = [key_of(s) for s in old], [key_of(s) for s in new]

    def empty() -> Matching[Step]:
        return Matching(old, new, old_keys, new_keys, features_of)

    by_id = _by_id(empty())
    if _cost(by_id) == 0 or not any(is_number(step.id) for step in old):
        return by_id
    by_content = _by_content(empty())
    return by_content if _cost(by_content) < _cost(by_id) else by_id


def is_number(step_id: str) -> bool:
    """Whether an id only numbers its step."""
    return _NUMBERED.fullmatch(step_id) is not None


# ---------------------------------------------------------------- matching by id, by content


def _by_id(matching: Matching[Step]) -> Matching[Step]:
    old, new = matching.old, matching.new
    matching.pair_equal(lambda i: old[i].id, lambda i: new[i].id)
    pair_equal_content(matching)
    pair_alike(matching)
    pair_in_place(matching)
    return matching


def _by_content(matching: Matching[Step]) -> Matching[Step]:
    old, new = matching.old, matching.new
    named = {step.id for step in new if not is_number(step.id)}
    matching.pair_equal(lambda i: old[i].id if old[i].id in named else None, lambda i: new[i].id)
    _pair_ends(matching)
    old_keys, new_keys = matching.old_keys, matching.new_keys
    matching.pair_equal(
        lambda i: (old[i].id, old_keys[i].content), lambda i: (new[i].id, new_keys[i].content)
    )
    pair_equal_content(matching)
    pair_alike(matching)
    pair_in_place(matching)
    return matching


def _pair_ends(matching: Matching[Step]) -> None:
    """Pairs the common prefix and the common suffix of steps with equal content."""
    for backwards in (False, True):
        olds, news = matching.left_old(), matching.left_new()
        if backwards:
            olds.reverse()
            news.reverse()
        for i, j in zip(olds, news, strict=False):
            if matching.old_keys[i].content != matching.new_keys[j].content:
                break
            matching.pair(i, j)


def pair_equal_content(matching: Matching[_Item]) -> None:
    """Pairs equal content: first content that is unique on both sides, then the rest in order."""
    old_keys, new_keys = matching.old_keys, matching.new_keys
    olds = Counter(old_keys[i].content for i in matching.left_old())
    news = Counter(new_keys[i].content for i in matching.left_new())
    once = {content for content, count in olds.items() if count == 1 and news[content] == 1}
    matching.pair_equal(
        lambda i: old_keys[i].content if old_keys[i].content in once else None,
        lambda i: new_keys[i].content,
    )
    matching.pair_equal(lambda i: old_keys[i].content, lambda i: new_keys[i].content)


def pair_alike(matching: Matching[_Item]) -> None:
    """Pairs those of one kind that share at least half of their features, the most similar first."""
    olds = {i: matching.features(matching.old[i]) for i in matching.left_old()}
    news = {j: matching.features(matching.new[j]) for j in matching.left_new()}
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for j, features in news.items():
        for feature in features:
            if len(holders[feature]) <= _MOST_SHARED:
                holders[feature].append(j)
    candidates: list[tuple[float, int, int, int]] = []
    for i, features in olds.items():
        kind = matching.old_keys[i].kind
        few = (holders[f] for f in features if f in holders and len(holders[f]) <= _MOST_SHARED)
        for j in {j for some in few for j in some}:
            likeness = len(features & news[j]) / max(len(features), len(news[j]))
            if likeness >= LEAST_LIKENESS and matching.new_keys[j].kind == kind:
                candidates.append((-likeness, abs(i - j), i, j))
    for _, _, i, j in sorted(candidates):
        if i not in matching.partner and j not in matching.taken:
            matching.pair(i, j)


def pair_in_place(matching: Matching[_Item]) -> None:
    """Pairs those of the same kind that follow the same matched one."""

    def places(left: Iterable[int], known: dict[int, int], *, is_old: bool) -> dict[int, int]:
        index_of: dict[int, int] = {}
        for i in left:
            before = i - 1
            if before in known:
                index_of[i] = before if is_old else known[before]
            else:
                index_of[i] = index_of.get(before, -1)
        return index_of

    olds = places(matching.left_old(), matching.partner, is_old=True)
    news = places(matching.left_new(), matching.taken, is_old=False)
    matching.pair_equal(
        lambda i: (olds[i], matching.old_keys[i].kind), lambda j: (news[j], matching.new_keys[j].kind)
    )


# ---------------------------------------------------------------- cost of a matching


def _cost(matching: Matching[Step]) -> int:
    """The size of the diff that a matching gives.

    One for each step added, removed, moved or changed; two for a change of its kind; one for each renaming,
    where adjacent steps whose numbers shift by the same amount are one renaming.
    """
    pairs = sorted(matching.partner.items())
    alone = len(matching.old) + len(matching.new) - 2 * len(pairs)
    moved = len(pairs) - len(staying([j for _, j in pairs]))
    changed = 0
    for i, j in pairs:
        old, new = matching.old_keys[i], matching.new_keys[j]
        if old.content != new.content:
            changed += 1 if old.kind == new.kind else 2
    renamings = sum(1 for _ in renamings_of((i, j, matching.old[i].id, matching.new[j].id) for i, j in pairs))
    return alone + moved + changed + renamings


def renamings_of(pairs: Iterable[tuple[int, int, str, str]]) -> Iterator[list[int]]:
    """The renamed steps by old index; adjacent ones whose numbers shift by the same amount form one list.

    Takes the old index, new index, old id and new id of each pair, in the order of the old plan.
    """
    run: list[int] = []
    last: tuple[int, int, int | None] = (-2, -2, None)
    for i, j, old, new in pairs:
        if old == new:
            continue
        shift = _shift(old, new)
        if run and shift is not None and last == (i - 1, j - 1, shift):
            run.append(i)
        else:
            if run:
                yield run
            run = [i]
        last = (i, j, shift)
    if run:
        yield run


def _shift(old: str, new: str) -> int | None:
    was, now = _NUMBERED.fullmatch(old), _NUMBERED.fullmatch(new)
    return None if was is None or now is None else int(now[1]) - int(was[1])
