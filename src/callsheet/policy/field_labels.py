"""The labels of the fields of a result: of a mail, the date is the server's word, and the text is anybody's.

In: what a policy says of the fields of a result. Out: the label of what is under a key of it. A part of a
value never has a stricter label than the whole: whoever forgets the fields loses only precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from callsheet.ir.labels import Label, join

ITEM = "[]"
"""Stands for an item of a list, as a path."""


class FieldLabels(NamedTuple):
    """The labels of the parts of a value: `named` by the keys that lead to them, `rest` of all others.

    The items of a list have the fields of the list; where these are no objects, `ITEM` stands for each of
    them. `rest` is also the label of how many items there are.
    """

    rest: Label
    named: tuple[tuple[tuple[str, ...], Label], ...]

    @classmethod
    def of(cls, rest: Label, fields: Mapping[str, Label]) -> FieldLabels:
        """The labels by paths with dots, as policies write them.

        >>> from callsheet.ir.labels import UNKNOWN, read_label
        >>> known = {"date": read_label("T/priv"), "place.city": read_label("T/pub")}
        >>> labels = FieldLabels.of(UNKNOWN, known)
        >>> str(labels.at("date")[0]), str(labels.at("body")[0]), str(labels.at("place")[0])
        ('T/priv', 'U/priv', 'U/priv')
        >>> inside = labels.at(0)[1].at("place")[1]
        >>> str(inside.at("city")[0]), str(inside.at("street")[0])
        ('T/pub', 'U/priv')
        """
        return cls(rest, tuple((tuple(path.split(".")), label) for path, label in sorted(fields.items())))

    @property
    def whole(self) -> Label:
        """The label of the value with all its parts."""
        return join((self.rest, *(label for _, label in self.named)))

    def at(self, key: str | int) -> tuple[Label, FieldLabels | None]:
        """The label of what is under a key or at an index, and what is known of its parts."""
        if isinstance(key, int):
            return self.item
        own, inner = self.rest, list[tuple[tuple[str, ...], Label]]()
        for path, label in self.named:
            if path == (key,):
                own = label
            elif path[0] == key:
                inner.append((path[1:], label))
        if not inner:
            return own, None
        part = FieldLabels(own, tuple(inner))
        return part.whole, part

    @property
    def item(self) -> tuple[Label, FieldLabels | None]:
        """The label of an item of a list, and what is known of its parts."""
        own = next((label for path, label in self.named if path == (ITEM,)), None)
        if own is None:
            return self.whole, self
        others = tuple((path, label) for path, label in self.named if path != (ITEM,))
        part = FieldLabels(own, others)
        return (part.whole, part) if others else (own, None)

    @property
    def is_of_items(self) -> bool:
        """Whether it says anything of the items of a list themselves."""
        return any(path == (ITEM,) for path, _ in self.named)

    def each(self, change: Callable[[Label], Label]) -> FieldLabels:
        """The same parts with other labels."""
        return FieldLabels(change(self.rest), tuple((path, change(label)) for path, label in self.named))

    def raised(self, label: Label) -> FieldLabels:
        """The labels where a decision of this label led to the value."""
        return self.each(label.join)


def either(one: FieldLabels | None, other: FieldLabels | None) -> FieldLabels | None:
    """What is known of the parts of a value that is either of both; None if that is nothing."""
    if one is None or other is None or [p for p, _ in one.named] != [p for p, _ in other.named]:
        return None
    pairs = zip(one.named, other.named, strict=True)
    return FieldLabels(
        one.rest.join(other.rest), tuple((path, label.join(also)) for (path, label), (_, also) in pairs)
    )
