"""What is known of the variables of one activation of a plan tree: their labels, and what decided about them.

A variable is behind the decisions that governed the place where it was set, or might have been set; whoever
reads it outside of what they govern learns of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from callsheet.ir.labels import LITERAL, Label
from callsheet.ir.tree import Block, Say, Statement, Word, statements, variables_set
from callsheet.ir.tree_flow import Region, TreeFlow, flow_of_block
from callsheet.policy.field_labels import FieldLabels
from callsheet.policy.labelled import NOTHING, Labelled


class Noted(NamedTuple):
    """A decision by data of this label, and what it governs."""

    region: Region
    label: Label


@dataclass(slots=True)
class Known:
    """What is known of a variable: `noted` are the decisions behind which it was set, or might have been."""

    value: Labelled
    noted: tuple[Noted, ...] = ()
    has_known_links: bool = False
    """Whether it is the result of a tool whose addresses are known to those who wrote them."""


@dataclass(slots=True)
class Body:
    """What the statements of a main plan or sub-plan govern, and where they set variables."""

    flow: TreeFlow
    numbers: list[int]
    names: list[str]

    @classmethod
    def of(cls, block: Block) -> Body:
        """The table of a body."""
        flow = flow_of_block(block)
        places = [(flow.of[one.id].number, name) for one in statements(block) for name in _made_by(one)]
        places.sort()
        return cls(flow, [number for number, _ in places], [name for _, name in places])

    def set_in(self, region: Region) -> Iterable[str]:
        """The variables that the statements of a region may set."""
        first, last = bisect_left(self.numbers, region.first), bisect_left(self.numbers, region.last + 1)
        return dict.fromkeys(self.names[first:last])


YIELDED, RETURNED = "YIELD", "RETURN"
RESULTS = frozenset({YIELDED, RETURNED})
"""Stand for the result of an item, and of a sub-plan, among the variables that statements set."""


def _made_by(statement: Statement) -> tuple[str, ...]:
    """The variables that a statement sets, and the result that it gives."""
    if isinstance(statement, Say) and statement.word in (Word.YIELD, Word.RETURN):
        return (YIELDED if statement.word is Word.YIELD else RETURNED,)
    return variables_set(statement)


@dataclass(slots=True)
class Lists:
    """The list of a loop under way: the label of its items and of which of them there are."""

    label: Label = LITERAL
    item: Labelled = NOTHING


@dataclass(slots=True)
class Scope:
    """The labels of one activation: the main plan, a sub-plan that is called, or an item of a loop.

    An item's scope sees that of what is around it; they share `noted`, which a sub-plan has for itself.
    """

    body: Body
    parent: Scope | None = None
    base: Label = LITERAL
    in_loop: bool = False
    variables: dict[str, Known] = field(default_factory=dict[str, Known])
    noted: list[Noted] = field(default_factory=list[Noted])
    result: Labelled = NOTHING
    """What the item yields, or the sub-plan returns."""
    failure: Label = LITERAL
    """The label of the failure that is under way, with its words."""
    content: Label = LITERAL
    """Of a plan or sub-plan, the label of the tests of content that may have ended it as failed."""
    caught: Label = LITERAL
    """The label of all that its failure, or that there is none, tells to what handles it."""
    told: dict[str, Label] = field(default_factory=dict[str, Label])
    """By statement, the label of all that its last call has sent and given."""
    fields: dict[str, FieldLabels] = field(default_factory=dict[str, FieldLabels])
    """By statement, the labels of the fields of what its call will give."""
    computed: dict[str, dict[str, Labelled]] = field(default_factory=dict[str, dict[str, Labelled]])
    """By COMPUTE, what is known of the results that it has not given yet."""
    lists: dict[str, Lists] = field(default_factory=dict[str, Lists])
    """The loops under way, by their ids."""
    before: list[tuple[Scope, str, Known]] = field(default_factory=list[tuple["Scope", str, "Known"]])
    """What was known before an item of the outer variables that it may SET."""

    def find(self, name: str) -> Known | None:
        """What is known of a variable here or around."""
        scope: Scope | None = self
        while scope is not None:
            known = scope.variables.get(name)
            if known is not None:
                return known
            scope = scope.parent
        return None

    @property
    def root(self) -> Scope:
        """The scope of the whole plan or sub-plan that it is in."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def home_of(self, name: str) -> Scope:
        """The scope that has a variable; this one if none has it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope
            scope = scope.parent
        return self
