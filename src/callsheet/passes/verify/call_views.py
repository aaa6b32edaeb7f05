"""Translates a step into the calls that the rules judge: named arguments, with labelled holes for data.

In: a step, and the label and perhaps the text of each variable. Out: `CallView`s; more than one for a FOREACH
over a list written in the plan.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from callsheet.ir import (
    DictExpr,
    Foreach,
    ListExpr,
    Literal,
    Ref,
    Step,
    Template,
    Value,
    word_of,
)
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.ir.plan import filled_parameters
from callsheet.policy.calls import Argument, CallView, Hole, Part, bare
from callsheet.policy.composing import Separation, separation

_MOST_ITEMS = 100


class ViewContext(NamedTuple):
    """The context of a step's values: labels and known values of variables, the planner's label, parameter
    names.
    """

    label_of: Callable[[str], Label]
    constants: Mapping[str, Value]
    planner: Label
    parameters: Callable[[str], tuple[str, ...]]

    def of_item(self, items: Mapping[str, Value]) -> ViewContext:
        """The same context with these variables bound to values of the plan."""
        return self._replace(constants={**self.constants, **items})

    def arguments(self, step: Step) -> list[Argument]:
        """The arguments of the action; positional ones are named after the parameter they fill, or their
        position.
        """
        action = step.call
        if action is None:
            return [self.argument(str(number), value) for number, value in enumerate(step.values())]
        named = [self.argument(name, value) for name, value in action.named]
        if not action.positional:
            return named
        names = tuple([name for name, _ in action.named])
        places = _places(self.parameters(action.tool), names, len(action.positional))
        return [
            self.argument(name, value) for name, value in zip(places, action.positional, strict=True)
        ] + named

    def argument(self, name: str, value: Value) -> Argument:
        """A value as an argument of this name."""
        if isinstance(value, Literal):
            text = value.value
            if type(text) is not str:
                text = literal_text(value)
            return bare(Argument, (name, (text,), self.planner, ()))
        if isinstance(value, Ref):
            known = self.known(value)
            if isinstance(known, ListExpr | DictExpr) and known.items and _is_small(known):
                return _labelled(self.argument(name, known), self.label_of(value.name))
            hole = self._hole(value)
            return bare(Argument, (name, (hole,), hole.label, ()))
        if isinstance(value, Template):
            return self._of_parts(name, value.parts)
        if isinstance(value, ListExpr):
            members = tuple(self.argument(name, item) for item in value.items)
        else:
            members = tuple(
                member
                for key, item in value.items
                for member in (Argument(name, (key,), self.planner), self.argument(key, item))
            )
        return Argument(name, (), self.planner.join(join(m.label for m in members)), members)

    def _of_parts(self, name: str, parts: tuple[str | Ref, ...]) -> Argument:
        filled_parts: list[Part] = []
        label, planner = LITERAL, self.planner
        for part in parts:
            filled: Part = part if isinstance(part, str) else self._hole(part)
            filled_parts.append(filled)
            label = label.join(planner if isinstance(filled, str) else filled.label)
        return bare(Argument, (name, tuple(filled_parts), label, ()))

    def known(self, ref: Ref) -> Value | None:
        """The statically known value at a path in a variable; None if there is none.

        Large dicts are not searched, since the search would be repeated at each read.
        """
        value = self.constants.get(ref.name) if self.constants else None
        for part in ref.path:
            if isinstance(value, DictExpr) and len(value.items) <= _MOST_ITEMS:
                value = dict(value.items).get(str(part))
            elif isinstance(value, ListExpr) and isinstance(part, int):
                count = len(value.items)
                value = value.items[part] if -count <= part < count else None
            else:
                return None
        return value

    def _hole(self, ref: Ref) -> Hole:
        known = self.known(ref)
        text = literal_text(known) if isinstance(known, Literal) else None
        return bare(Hole, (ref.dotted, self.label_of(ref.name), text))


def _is_small(value: Value) -> bool:
    """Whether a value has so few members that it can be expanded wherever its variable is read."""
    waiting, seen = [value], 0
    while waiting and seen <= _MOST_ITEMS:
        current = waiting.pop()
        seen += 1
        if isinstance(current, ListExpr):
            waiting += current.items[: _MOST_ITEMS + 1]
        elif isinstance(current, DictExpr):
            waiting += [item for _, item in current.items[: _MOST_ITEMS + 1]]
    return seen <= _MOST_ITEMS


def _labelled(argument: Argument, label: Label) -> Argument:
    """The argument with this label throughout, since a variable's members have the variable's label."""
    items = tuple(_labelled(item, label) for item in argument.items)
    return argument._replace(label=label, items=items)


def call_views(step: Step, around: ViewContext, pc: Label, *, repeats: bool = False) -> list[CallView]:
    """The calls that a step's action may make; none for a GOTO."""
    if step.course.jump is not None:
        return []
    retries = step.retries
    tool = tool_of(step)
    each = _NO_ITEMS if step.foreach is None else _items(step.foreach, around)
    views: list[CallView] = []
    for items in each:
        arguments = tuple((around.of_item(items) if items else around).arguments(step))
        views.append(bare(CallView, (step.id, tool, arguments, pc, retries, False, False, repeats, ())))
    return views


def failure_view(step: Step, around: ViewContext, pc: Label) -> CallView | None:
    """The message that ends the plan when the step fails, as a call; None if there is none."""
    values = step.farewell()
    if not values:
        return None
    arguments = tuple(around.argument(str(n), value) for n, value in enumerate(values))
    return CallView(step.id, "TERMINATE", arguments, pc)


def written_source(step: Step, around: ViewContext) -> Argument | None:
    """The source of a step's loop as an argument if the plan writes it out; None for a variable."""
    if step.foreach is None or isinstance(step.foreach.source, Ref):
        return None
    return around.argument("", step.foreach.source)


def _may_name(text: str) -> bool:
    """Whether a text may contain an address or a tag."""
    return "(" in text or "<" in text or "![" in text or "://" in text or ("/" in text and "." in text)


def is_plain(step: Step) -> bool:
    """Whether a step's inputs cannot form an address together: single variables, and texts that contain no
    address.

    If the plan's literals are public and no variable is constant, the result is then not an address that
    leaks data, since no text adjoins data inside one value. The same holds if all values stand apart.
    """
    if step.foreach is not None:
        return False
    for value in step.values():
        if isinstance(value, Literal):
            text = value.value
            if isinstance(text, str) and _may_name(text):
                return False
        elif not isinstance(value, Ref):
            return stands_apart(step)
    return True


def stands_apart(step: Step) -> bool:
    """Whether all inputs of the step's action are separated by blanks and no text could be part of an
    address.

    If the plan's literals are public and no variable is constant, their combination then is no address with
    data in it and loads nothing.
    """
    return step.foreach is None and separation(step.values()) is not Separation.NO


def tool_of(step: Step) -> str:
    """The tool name under which a step's action is judged."""
    return word_of(step.action).removeprefix("@")


def _items(loop: Foreach, around: ViewContext) -> Sequence[Mapping[str, Value]]:
    """The bindings of a FOREACH's loop variable; one empty binding stands for all items that are not known.

    A text may hold a JSON list, so only one that does not look like JSON is an item by itself.
    """
    source = around.known(loop.source) if isinstance(loop.source, Ref) else loop.source
    match source:
        case ListExpr(items=items) if 0 < len(items) <= _MOST_ITEMS:
            known = [item for item in items if isinstance(item, Literal | ListExpr | DictExpr)]
            rest = _NO_ITEMS if len(known) < len(items) else ()
            return [*({loop.var: item} for item in known), *rest]
        case DictExpr():
            return [{loop.var: source}]
        case Literal(value=str() as text) if text.strip() and text.lstrip()[0] not in '[{"':
            return [{loop.var: source}]
        case _:
            return _NO_ITEMS


_NO_ITEMS: tuple[Mapping[str, Value], ...] = (MappingProxyType({}),)


def values_of(step: Step, argument: str, parameters: Callable[[str], tuple[str, ...]]) -> Iterator[Value]:
    """The values that a step has for the argument of this name, also as a member of another one."""
    action = step.call
    if action is not None:
        names = tuple([name for name, _ in action.named])
        places = _places(parameters(action.tool), names, len(action.positional))
        pairs = [*zip(places, action.positional, strict=True), *action.named]
    else:
        pairs = [(str(number), value) for number, value in enumerate(step.values())]
    while pairs:
        name, value = pairs.pop()
        if name == argument:
            yield value
        elif isinstance(value, DictExpr):
            pairs.extend(value.items)
        elif isinstance(value, ListExpr):
            pairs.extend((name, item) for item in value.items)


def _places(parameters: tuple[str, ...], named: tuple[str, ...], count: int) -> tuple[str, ...]:
    """The names of `count` positional arguments: the parameters that they fill, or their positions."""
    filled = filled_parameters(parameters, named, count)
    return (*filled, *map(str, range(len(filled), count)))


def literal_text(literal: Literal) -> str:
    """A literal as it appears inside a text."""
    value = literal.value
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    return "" if value is None else json.dumps(value)
