"""What a policy knows of a value of a plan: its label, how the plan composes it, what it is made of.

Values are immutable. What is done with them by expressions is in `expression_labels`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntFlag
from itertools import product
from math import prod
from typing import NamedTuple

from callsheet.ir.expr import Literal
from callsheet.ir.expression import (
    Bound,
    Expression,
    Field,
    Index,
    Variable,
    variables_in,
)
from callsheet.ir.labels import LITERAL, Label
from callsheet.ir.sagas import ARGS, ORDER
from callsheet.policy.calls import Argument, Hole, Part, bare
from callsheet.policy.field_labels import FieldLabels
from callsheet.policy.rules.base import pairs

MOST_SHAPES = 16
"""How many ways of composing one value are told apart."""
MOST_ITEMS = 100
"""How many items of a list that the plan writes are told apart."""
MOST_CHOICES = 128
MOST_PIECES = 500
"""How many texts and pieces of data of one composed value are told apart, so that values made of one another
do not grow from statement to statement.
"""
_LONG = 200
_MOST_ORIGINS = 8


class Says(IntFlag):
    """What texts that the plan itself writes may be in a value."""

    NOTHING = 0
    ADDRESS = 1
    """One with the address of a host that the policy does not know."""
    IMAGE = 2
    """One with an image of a host that the policy does not know."""
    BEGINNING = 4
    """One that makes an image of what follows it."""
    PART = 8
    """Not a text, but that it may be a part that the plan has chosen: whether it is empty tests content."""
    SIZED = 16
    """As a part, and which items are there data decides: a path into it tests content."""
    CHOSEN = 32
    """Content decides which of several values it is: whether it is there tests content."""


class Labelled(NamedTuple):
    """What is known of a value.

    `label` is that of its content. `presence` is the label of what decides whether it is there and of which
    form it is, beyond the one bit that the data itself is. `shapes` are the ways in which the plan composes
    it, none if it is one piece of data. `origins` are numbers of values that it is made of. `fields` are the
    labels of the parts of a piece of data, none of which is stricter than `label`; None if nothing is known
    of them.
    """

    label: Label = LITERAL
    presence: Label = LITERAL
    shapes: tuple[Argument, ...] = ()
    origins: tuple[int, ...] = ()
    says: Says = Says.NOTHING
    fields: FieldLabels | None = None


NOTHING = Labelled()
FAILURE_FIELDS = frozenset({"error", "message", "kind", "step", "attempts"})
"""The fields that every failure has."""
_FAILURE = "$error"


def failure_of(label: Label, presence: Label, origins: tuple[int, ...]) -> Labelled:
    """The failure that a handler sees: its fields are always there, so that reading one tells nothing."""
    return Labelled(label, presence, (Argument(_FAILURE, (Hole("error", label),), label),), origins)


def undo_of(words: Label, presence: Label, given: Label, led: Label, origins: tuple[int, ...]) -> Labelled:
    """The failure that an undo block sees, with the arguments of its calls, which come from what was `given`.

    Which calls these are tells of the decisions that `led` to them, and of nothing that they gave.
    """
    which = presence.join(led)
    fields = FieldLabels.of(words.join(which), {ARGS: given.join(which), ORDER: which})
    return failure_of(fields.whole, presence, origins)._replace(fields=fields)


def item_of(source: Labelled) -> Labelled:
    """What is known of an item of a piece of data."""
    if source.fields is None:
        return source
    label, fields = source.fields.item
    return source._replace(label=label, fields=fields)


def is_failure(value: Labelled) -> bool:
    """Whether a value is surely the failure that a handler sees."""
    return bool(value.shapes) and all(shape.name == _FAILURE for shape in value.shapes)


def raised(value: Labelled, label: Label) -> Labelled:
    """The value where a decision of this label led: everything in it, its texts too, may tell of it."""
    if label is LITERAL or (
        label.flows_to(value.label)
        and label.flows_to(value.presence)
        and not value.shapes
        and value.fields is None
    ):
        return value
    shapes = tuple(_raised_shape(shape, label) for shape in value.shapes)
    fields = None if value.fields is None else value.fields.raised(label)
    return value._replace(
        label=value.label.join(label), presence=value.presence.join(label), shapes=shapes, fields=fields
    )


def _raised_shape(shape: Argument, label: Label) -> Argument:
    parts = tuple(
        Hole("", label, part) if isinstance(part, str) else part._replace(label=part.label.join(label))
        for part in shape.parts
    )
    items = tuple(_raised_shape(item, label) for item in shape.items)
    return Argument(shape.name, parts, shape.label.join(label), items)


def of_origins(value: Labelled, origins: tuple[int, ...]) -> Labelled:
    """The value with these origins."""
    label, presence, shapes, _, says, fields = value
    return bare(Labelled, (label, presence, shapes, origins, says, fields))


def origins_of(values: Iterable[Labelled]) -> tuple[int, ...]:
    """The origins of all these values, each once, the first few of them."""
    found: dict[int, None] = {}
    only: tuple[int, ...] = ()
    for value in values:
        if value.origins:
            only = value.origins if not found else ()
            for origin in value.origins:
                found[origin] = None
    return only if len(only) == len(found) <= _MOST_ORIGINS else tuple(found)[:_MOST_ORIGINS]


def ways_apart(values: tuple[Labelled, ...]) -> list[tuple[Labelled, ...]]:
    """The combinations of the ways in which these values may be composed, if there are not too many."""
    count = 1
    for value in values:
        if len(value.shapes) > 1:
            count *= len(value.shapes)
    if count == 1 or count > MOST_CHOICES:
        return [values]
    options = [[alone(one, shape) for shape in one.shapes] if one.shapes else [one] for one in values]
    return list(product(*options))


def ways_together(variables: Mapping[str, Labelled]) -> list[dict[str, Labelled]] | None:
    """How variables may be composed together, of those with several ways; None for one way or too many."""
    options = {
        name: [alone(value, shape) for shape in value.shapes]
        for name, value in variables.items()
        if len(value.shapes) > 1
    }
    if not options or prod(map(len, options.values())) > MOST_CHOICES:
        return None
    return [dict(zip(options, chosen, strict=True)) for chosen in product(*options.values())]


def one_shape(value: Labelled) -> Argument | None:
    """The only way in which the plan composes a value; None if it is data or there are several."""
    return value.shapes[0] if len(value.shapes) == 1 else None


def named_shape(shape: Argument, name: str) -> Argument:
    """A composed value as an argument of this name, in which the items of a list have the name too."""
    if not shape.items:
        return bare(Argument, (name, shape.parts, shape.label, ()))
    if pairs(shape) is not None:
        items = tuple(
            item._replace(name=name) if number % 2 == 0 else named_shape(item, item.name)
            for number, item in enumerate(shape.items)
        )
    else:
        items = tuple(named_shape(item, name) for item in shape.items)
    return Argument(name, (), shape.label, items)


def dotted(node: Expression) -> str:
    """How a message calls the value of an expression: a path as it is written, else its variables."""
    match node:
        case Variable(name=name) | Bound(name=name):
            return name
        case Field(target=target, name=name):
            return f"{dotted(target)}.{name}"
        case Index(target=target, index=Literal(value=key)):
            return f"{dotted(target)}.{key}"
        case _:
            return ", $".join(variables_in(node)) or "a value"


def literal_text(node: Literal) -> str:
    """A literal as it appears inside a text."""
    value = node.value
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def alone(value: Labelled, shape: Argument) -> Labelled:
    """The value if it is composed in this way; a piece of data is no shape."""
    return value._replace(shapes=(shape,))


def member_of(shape: Argument, key: str | int) -> Argument | None:
    """What the plan has put under a key or at an index; None if it has put nothing there."""
    if not shape.items:
        return None
    values = pairs(shape)
    if values is not None:
        return next((value for value in values if value.name == str(key)), None)
    if isinstance(key, int) and -len(shape.items) <= key < len(shape.items):
        return shape.items[key]
    return None


def has_data(shape: Argument) -> bool:
    """Whether a composed value has data in it that is not known."""
    if shape.items:
        return any(map(has_data, shape.items))
    return any(isinstance(part, Hole) and part.text is None for part in shape.parts)


def pieces_of(shape: Argument) -> int:
    """How many texts and pieces of data a composed value has; a long text counts as several."""
    if shape.items:
        return sum(map(pieces_of, shape.items))
    texts = [part for part in shape.parts if isinstance(part, str)]
    return len(shape.parts) + sum(map(len, texts)) // _LONG


def is_data(shape: Argument) -> bool:
    """Whether a composed value is one piece of data and nothing else."""
    return (
        not shape.items
        and len(shape.parts) == 1
        and isinstance(shape.parts[0], Hole)
        and shape.parts[0].text is None
    )


def merged_parts(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Parts without empty and adjacent texts; at least one."""
    merged: list[Part] = []
    for part in parts:
        if part == "":
            continue
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    return tuple(merged) or ("",)


def said_by(values: Iterable[Labelled]) -> Says:
    """What texts of the plan may be in any of these values."""
    says = Says.NOTHING
    for value in values:
        if value.says is not says:  # most say nothing, and joining flags is slow
            says |= value.says
    return says


def is_shown(data: Label, shown: Label) -> bool:
    """Whether the label of what is shown has the readers of the data, so that no bit is let through."""
    return data.is_public or data.as_told().readers == shown.as_told().readers


def presence_of(value: Labelled, *, by_length: bool = False) -> Label:
    """The label of what decides whether a value is there, or with `by_length` whether it is empty."""
    tells = Says.CHOSEN | Says.PART | Says.SIZED if by_length else Says.CHOSEN
    return value.label if value.says & tells else value.presence


def number_of_items(source: Labelled) -> Label:
    """The label of how many items a list has, and in which order."""
    return source.label if source.fields is None else source.fields.rest


def with_fields(value: Labelled, made_of: Sequence[Labelled]) -> Labelled:
    """A list of some of the items of the first of these values, whose parts have the same labels."""
    first = made_of[0]
    if first.fields is None or any(not one.label.flows_to(first.fields.rest) for one in made_of[1:]):
        return value
    if value.label == first.label.retold():
        return value._replace(fields=first.fields.each(Label.retold))
    return value._replace(fields=first.fields if value.label == first.label else None)


def behind_another(left: Labelled, right: Labelled) -> Labelled | None:
    """Two texts or lists one behind the other; None if the plan composes neither of them."""
    one, other = one_shape(left), one_shape(right)
    if one is None and other is None:
        return None
    first = one if one is not None else Argument("", (Hole("", left.label),), left.label)
    second = other if other is not None else Argument("", (Hole("", right.label),), right.label)
    label = left.label.join(right.label)
    if pieces_of(first) + pieces_of(second) > MOST_PIECES:
        return None
    if first.items or second.items:
        if not (first.items and second.items) or pairs(first) or pairs(second):
            return None
        shape = Argument("", (), label, (*first.items, *second.items))
    else:
        shape = Argument("", merged_parts((*first.parts, *second.parts)), label)
    return Labelled(
        label,
        left.presence.join(right.presence),
        (shape,),
        origins_of((left, right)),
        left.says | right.says,
    )


def are_many(values: Sequence[Labelled]) -> bool:
    """Whether values are too many, or composed of too much, to be told apart in a list or dict of them."""
    shapes = map(one_shape, values)
    return len(values) > MOST_ITEMS or sum(pieces_of(one) for one in shapes if one is not None) > MOST_PIECES
