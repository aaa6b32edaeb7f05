"""The shapes of calls of functions and methods of expressions, and what is told about their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from callsheet.frontends.expressions.names import METHODS, VERSION_1
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Call, Expression, Lambda, Method
from callsheet.passes.structured import operations as of
from callsheet.passes.structured import shapes
from callsheet.passes.structured.report import listed
from callsheet.passes.structured.shapes import ANY, BOOL, Shape, families, join
from callsheet.passes.structured.words import article, count, plain, spelled

if TYPE_CHECKING:
    from callsheet.passes.structured.typing import Typer


def call(typer: Typer, node: Call) -> Shape:
    """The shape of what a function gives; one that is not known gives anything."""
    name = node.function
    if name.upper() in ("FAILED", "IS_EMPTY"):
        for argument in node.arguments:
            typer.value(argument)
        return BOOL
    signature = of.FUNCTIONS.get(name)
    if name in VERSION_1:  # they take a failure for its text
        given = tuple(typer.value(one) for one in node.arguments)
    else:
        given = _arguments(typer, node.arguments)
    key = next((value for one, value in node.named if one == "key"), None)
    for name_, value in node.named:
        if name_ != "key" or not isinstance(value, Lambda):
            typer.data(value)
    if isinstance(key, Lambda):
        _key_function(typer, key, of.items_of(given[0]) or ANY if len(given) == 1 else join(*given))
    if signature is None:
        return ANY
    return _signed(typer, node, signature, given)


def _arguments(typer: Typer, arguments: tuple[Expression, ...]) -> tuple[Shape, ...]:
    return tuple(typer.data(one) for one in arguments)


def _key_function(typer: Typer, key: Lambda, item: Shape) -> None:
    before = typer.bound
    typer.bound = {**before, **dict.fromkeys(key.parameters, item if item.kinds else ANY)}
    typer.data(key.body)
    typer.bound = before


def _signed(typer: Typer, node: Call, signature: of.Signature, given: tuple[Shape, ...]) -> Shape:
    name, many = node.function, len(given)
    if signature.names is not None:
        for one, value in node.named:
            if one not in signature.names:
                typer.add(
                    "CHK123", f"{name}() has no argument {one}", value, typer.near(one, signature.names)
                )
    if many < signature.least and not (node.named and name in ("datetime", "duration")):
        typer.add("CHK123", f"{name}() needs {count(signature.least)}, and has {many}", node)
        return ANY
    if signature.most is not None and many > signature.most:
        typer.add("CHK123", f"{name}() takes at most {count(signature.most)}, and has {many}", node)
        return ANY
    fitting: list[Shape] = []
    for number, (argument, whole) in enumerate(zip(node.arguments, given, strict=True)):
        takes = (
            signature.takes[min(number, len(signature.takes) - 1)] if signature.takes else frozenset[str]()
        )
        shape = whole
        if name not in of.NULL_TAKERS:
            shape = typer.no_null(argument, whole, f"be given to {name}()")
        known = families(shape)
        if takes and known and not known & {*takes, of.UNKNOWN}:
            message = f"{name}() takes no {plain(shape)}: {spelled(argument)} is {article(plain(shape))}"
            typer.add("CHK123", message, argument, f"it takes {listed(sorted(takes))}")
            return ANY
        fitting.append(shape)
    return signature.gives(tuple(fitting))


def method(typer: Typer, node: Method, target: Shape) -> Shape:
    """The shape of what a method gives."""
    given = _arguments(typer, node.arguments)
    for _, value in node.named:
        typer.data(value)
    target = typer.no_failure(node.target, target)
    target = typer.no_null(node.target, target, f"have a method {node.name}")
    found: list[Shape] = []
    lacking: list[shapes.Kind] = []
    first = node.arguments[0] if node.arguments else None
    for kind in target.kinds:
        names = of.method_names(kind, METHODS)
        if names is None:
            found.append(ANY)
        elif node.name in names:
            found.append(
                of.method(kind, node.name, given, first.value if isinstance(first, Literal) else None)
            )
        else:
            lacking.append(kind)
    if lacking and not found:
        names = of.method_names(lacking[0], METHODS) or frozenset()
        message = f"{spelled(node.target)} is {article(plain(target))}, which has no method {node.name}"
        near = typer.near(node.name, sorted(names))
        typer.add("CHK123", message, node, near or (f"it has {listed(sorted(names))}" if names else None))
    if node.name == "join" and given and families(target) == {of.TEXT}:
        items = of.items_of(given[0])
        if items is not None and items.kinds and not families(items) & {of.TEXT, of.UNKNOWN}:
            message = f"join() takes texts, and {spelled(node.arguments[0])} has {plain(items)} in it"
            typer.add("CHK123", message, node, "write str(x) for each of them")
    return join(*found) if found else ANY
