"""The state of the analysis of a tree: variables and places in layers, counters, the origins of data."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from callsheet.ir.labels import LITERAL, Label
from callsheet.ir.tree_flow import Region, TreeFlow
from callsheet.passes.verify.dependencies import unmarked
from callsheet.policy.labelled import Labelled, raised

Site = tuple[tuple[str, ...], str]
"""A statement at one of the places where its sub-plan is called: the ids of the CALLs, and its own id."""


class Layers:
    """What is known by name, in layers: a branch writes into one of its own, which is merged or dropped.

    Where a value is set, it is as the plan writes it, whatever decided that the branch is taken: what is done
    with it there is behind the same decision. Outside of the branch it tells of the decision.
    """

    __slots__ = ("_counters", "_layers")

    def __init__(self) -> None:
        self._layers: list[dict[str, Labelled]] = [{}]
        self._counters: list[dict[str, Label]] = [{}]

    def get(self, name: str) -> Labelled | None:
        """What is known of a name, None if nothing has set it."""
        for layer in reversed(self._layers):
            found = layer.get(name)
            if found is not None:
                return found
        return None

    def put(self, name: str, value: Labelled, pc: Label = LITERAL) -> None:
        """Set a name in the uppermost layer, behind decisions of this label."""
        self._layers[-1][name] = value
        if pc is not LITERAL or name in self._counters[-1]:
            self._counters[-1][name] = pc

    @property
    def depth(self) -> int:
        """How many layers there are."""
        return len(self._layers)

    def since(self, depth: int, around: Label) -> dict[str, Labelled]:
        """What is set in the layers above this depth, as it is outside of them, behind these decisions."""
        found: dict[str, Labelled] = {}
        for layer, counters in zip(self._layers[depth:], self._counters[depth:], strict=True):
            for name, value in layer.items():
                pc = counters.get(name, LITERAL)
                found[name] = value if pc.flows_to(around) else raised(value, pc)
        return found

    def push(self, known: Mapping[str, Labelled] | None = None) -> None:
        """Begin a layer, with these values."""
        self._layers.append(dict(known or {}))
        self._counters.append({})

    def pop(self, around: Label = LITERAL) -> dict[str, Labelled]:
        """Drop the uppermost layer and give what was set in it, as it is outside, behind these decisions."""
        layer = self._layers.pop()
        for name, pc in self._counters.pop().items():
            if not pc.flows_to(around):
                layer[name] = raised(layer[name], pc)
        return layer

    def merge(
        self,
        branches: Iterable[Mapping[str, Labelled]],
        joined: Callable[[Labelled, Labelled], Labelled],
        pc: Label = LITERAL,
    ) -> None:
        """Set each name to what is known after either of the branches."""
        branches = list(branches)
        for name in dict.fromkeys(name for branch in branches for name in branch):
            before = self.get(name)
            values = [value for branch in branches if (value := branch.get(name, before)) is not None]
            merged = values[0]
            for value in values[1:]:
                merged = joined(merged, value)
            self.put(name, merged, pc)


class Counters:
    """The label of the program counter at each statement of one body, which only rises."""

    __slots__ = ("_marked", "labels", "why")

    def __init__(self, flow: TreeFlow) -> None:
        self.labels = [LITERAL] * flow.size
        self.why: list[tuple[int, ...]] = [()] * flow.size
        self._marked: dict[Label, dict[int, int]] = {}

    def note(self, regions: Iterable[Region], label: Label, why: int) -> int:
        """A decision of this label governs these regions; gives how many counters rise.

        Each number is visited once for each label.
        """
        if label is LITERAL:
            return 0
        risen = 0
        marked = self._marked.setdefault(label, {})
        for region in regions:
            number = unmarked(marked, region.first)
            while number <= region.last:
                marked[number] = number + 1
                joined = self.labels[number].join(label)
                if joined != self.labels[number]:
                    self.labels[number] = joined
                    self.why[number] = (*self.why[number], why)
                    risen += 1
                number = unmarked(marked, number + 1)
        return risen


@dataclass(slots=True)
class _Origin:
    site: Site
    text: str
    label: Label
    sources: tuple[int, ...]


_MOST_STEPS = 20_000


@dataclass(slots=True)
class Origins:
    """Where data comes from: a graph of named values, for the paths that messages show."""

    _made: list[_Origin] = field(default_factory=list[_Origin])
    _numbers: dict[tuple[Site, str], int] = field(default_factory=dict[tuple[Site, str], int])

    def add(self, site: Site, text: str, label: Label, sources: tuple[int, ...]) -> int:
        """The number of a value with this name; known ones get the new label and more sources."""
        number = self._numbers.get((site, text))
        if number is None:
            self._numbers[site, text] = number = len(self._made)
            self._made.append(_Origin(site, text, label, sources))
        else:
            one = self._made[number]
            one.label = label
            one.sources = tuple(dict.fromkeys((*one.sources, *sources)))
        return number

    def path(self, starts: Iterable[int], is_guilty: Callable[[Label], bool]) -> tuple[str, ...]:
        """The shortest path from where guilty data came in to one of these values; empty if none is."""
        came = dict.fromkeys((start for start in starts if is_guilty(self._made[start].label)), -1)
        queue = deque(came)
        last = queue[0] if queue else -1
        while queue and len(came) < _MOST_STEPS:
            number = queue.popleft()
            before = [one for one in self._made[number].sources if is_guilty(self._made[one].label)]
            if not before:
                last = number
                break
            for one in before:
                if one not in came:
                    came[one] = number
                    queue.append(one)
        return tuple(self._walk(came, last))

    def maker(self, number: int) -> str:
        """The id of the statement that a value comes from directly; empty for what comes from outside."""
        path, id_ = self._made[number].site
        return id_ or (path[-1] if path else "")

    def _walk(self, came: Mapping[int, int], last: int) -> Iterator[str]:
        before = ""
        while last >= 0:
            text = self._made[last].text
            if text != before:
                yield text
            before, last = text, came[last]
