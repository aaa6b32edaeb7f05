"""What a variable keeps of a list or dict that the plan has composed: the labels of its parts."""

from __future__ import annotations

from typing import Any, cast

from callsheet.ir import JSON
from callsheet.machine.monitor.reads import argument_of
from callsheet.policy.calls import Argument, Hole
from callsheet.policy.expression_labels import ExpressionLabels
from callsheet.policy.judge import Judge
from callsheet.policy.labelled import Labelled, one_shape
from callsheet.policy.rules.base import pairs


def stored(value: Labelled, evaluator: ExpressionLabels, judge: Judge) -> Labelled:
    """What is known of a value that is stored: as one piece of data, with the labels of its parts."""
    whole, shape = evaluator.forgotten(value), one_shape(value)
    if shape is None or not shape.items:
        return whole
    parts = _parts(shape, judge)
    return whole._replace(shapes=(parts._replace(label=whole.label),), fields=None) if parts.items else whole


def _parts(shape: Argument, judge: Judge) -> Argument:
    label = judge.of_items(shape)
    values = pairs(shape)
    if values is None:
        items = tuple(_parts(item, judge) for item in shape.items)
    elif all(isinstance(part, str) for key in shape.items[::2] for part in key.parts):
        each = (_parts(value, judge) for value in values)
        items = tuple(one for pair in zip(shape.items[::2], each, strict=True) for one in pair)
    else:  # keys that are data
        items = ()
    if all(not item.items and item.label == label for item in (items if values is None else items[1::2])):
        return Argument(shape.name, (Hole("", label),), label)
    return Argument(shape.name, (), label, items)


def read(shape: Argument, value: JSON, variable: str) -> Argument | None:
    """The present value of a variable with the labels that are stored of its parts; None if it has others."""
    if not shape.items:
        return argument_of(shape.name, value, shape.label, variable)
    values = pairs(shape)
    parts: list[Argument | None]
    if values is None:
        if not isinstance(value, list) or len(value) != len(shape.items):
            return None
        parts = [read(item, one, variable) for item, one in zip(shape.items, value, strict=True)]
    else:
        if not isinstance(value, dict) or [one.name for one in values] != [*cast("dict[str, Any]", value)]:
            return None
        members = cast("dict[str, JSON]", value).values()
        pairs_ = zip(shape.items[::2], values, members, strict=True)
        parts = [part for key, item, one in pairs_ for part in (key, read(item, one, variable))]
    if None in parts:
        return None
    return Argument(shape.name, (), shape.label, tuple(part for part in parts if part is not None))
