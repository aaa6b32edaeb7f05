"""The shapes of paths: fields, keys, items and slices, and what is told where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from callsheet.diagnostics import Severity
from callsheet.frontends.expressions.names import METHODS
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Field, Index, Slice
from callsheet.ir.types import Basic
from callsheet.passes.finding import Suggestion
from callsheet.passes.structured import operations as of
from callsheet.passes.structured import shapes
from callsheet.passes.structured.report import listed
from callsheet.passes.structured.shapes import (
    ANY,
    INT,
    NULL,
    STR,
    Fields,
    Items,
    Options,
    Shape,
    Special,
    Table,
    Tuple,
    families,
    family,
    join,
)
from callsheet.passes.structured.words import article, may_be_number, optional, spelled

if TYPE_CHECKING:
    from callsheet.passes.structured.typing import Typer

_LENGTHS = frozenset({"length", "size", "len", "count"})


def field(typer: Typer, node: Field) -> tuple[Shape, bool]:
    """The shape of `target.name`, and whether a `?` may have ended the path."""
    target, may_cut = typer.chain(node.target)
    if target.may_fail:
        known = _of_failure(target, node.name)
        if known is not None:
            return known, may_cut
        target = typer.no_failure(node.target, target)
    shape, cuts = key(typer, node, target, node.name)
    return shape, may_cut or cuts


def _of_failure(target: Shape, name: object) -> Shape | None:
    """The shape of a field that a failure has, where the target may be one; None for other names."""
    known = shapes.FAILURE_FIELDS.get(name) if isinstance(name, str) else None
    if known is None:
        return None
    return join(known, ANY) if target.without(Special.FAILURE).kinds else known


def index(typer: Typer, node: Index, target: Shape) -> tuple[Shape, bool]:
    """The shape of `target[index]`, and whether a `?` may have ended the path."""
    at = typer.data(node.index)
    literal = node.index.value if isinstance(node.index, Literal) else None
    known = _of_failure(target, literal) if target.may_fail else None
    if known is not None:
        return known, False
    target = typer.no_failure(node.target, target)
    if isinstance(literal, str) and families(target) & {of.DICT}:
        return key(typer, node, target, literal)
    if target.may_be_null and not node.is_optional:
        target = typer.no_null(node.target, target, "be indexed; [ ]? gives null there")
    found: list[Shape] = []
    wrong: list[str] = []
    for kind in target.without(Special.NULL).kinds:
        one = item(kind, literal)
        if one is None:
            wrong.append(family(kind))
        else:
            found.append(one)
    sequences = families(target) <= {of.LIST, of.TUPLE, of.TEXT}
    if not found and wrong:
        typer.add("CHK123", f"{spelled(node.target)} is {article(wrong[0])}, which has no items", node)
    elif found and target.kinds and sequences and not may_be_number(at):
        there = spelled(node.target)
        typer.add(
            "CHK123",
            f"{there} is {article(shapes.text(target))}, whose index is an int, not {shapes.text(at)}",
            node,
            f"[x for x in {there} if x.name == …] finds items by a field",
        )
    shape = join(*found) if found else ANY
    return (shape.without(Special.NULL) if node.is_optional else shape), node.is_optional


def item(kind: shapes.Kind, index: object) -> Shape | None:
    """An item of a kind of values by index; None if it has none."""
    match kind:
        case Basic.JSON:
            return ANY
        case Items(kind=sort, item=item):
            return None if sort == "set" else item
        case Tuple(items=items):
            at = index if type(index) is int and -len(items) <= index < len(items) else None
            return join(*items) if at is None else items[at]
        case Table(value=value):
            return value
        case Fields():
            return ANY
        case Basic.STR | Options():
            return STR
        case _:
            return None


def key(typer: Typer, node: Field | Index, target: Shape, name: str) -> tuple[Shape, bool]:
    """The field of a dict or date by its name, and whether a `?` may have ended the path here."""
    is_optional = node.is_optional
    if target.may_be_null and not is_optional:
        shown = spelled(node.target)
        is_null = target == NULL
        typer.add(
            "CHK122",
            f"{shown} {'is' if is_null else 'may be'} null, which has no field {name}",
            node,
            f"write {optional(node.target)}.{name}, or test it first: {shown} is not None",
            Severity.ERROR if is_null else Severity.WARNING,
        )
    found: list[Shape] = []
    lacking: list[shapes.Kind] = []
    is_absent = False
    for kind in target.without(Special.NULL).kinds:
        if kind is Basic.JSON:
            found.append(ANY)
        elif isinstance(kind, Table):
            found.append(kind.value)
        elif isinstance(kind, Fields) and name in kind.fields:
            found.append(kind.fields[name].shape)
            is_absent = is_absent or kind.fields[name].may_be_absent
        elif isinstance(kind, Fields) and kind.is_open:
            found.append(ANY)
        elif name in of.PARTS.get(kind, ()):
            found.append(INT)
        else:
            lacking.append(kind)
    if lacking and not found:
        is_certain = not (is_optional and target.may_be_null)
        lacks(typer, node, lacking[0], name, Severity.ERROR if is_certain else Severity.WARNING)
        return ANY, is_optional
    if is_absent and not is_optional and not typer.forgives and not lacking:
        typer.add(
            "CHK122",
            f"{spelled(node)} may be absent, which fails the step",
            node,
            f'write {optional(node)} for null there, or {spelled(node)} ?? "none" for another value',
            Severity.WARNING,
        )
    shape = join(*found)
    return (shape.without(Special.NULL), True) if is_optional else (shape, False)


def lacks(typer: Typer, node: Field | Index, kind: shapes.Kind, name: str, severity: Severity) -> None:
    """CHK120: a field that there is not, and what there is instead."""
    shown = spelled(node.target)
    message = f"{shown} is {article(shapes.text(Shape((kind,))))}, which has no field {name}"
    help_: str | Suggestion | None = None
    match kind:
        case Fields(fields=fields, of=whole):
            message = f"{shown}: {whole} has no field {name}"
            if node.is_optional:
                message, severity = f"{message}; this is always null", Severity.WARNING
            elif typer.forgives:
                message, severity = f"{message}, so ?? always gives the other value", Severity.WARNING
            help_ = f"there is {listed(fields)}" if fields else "it has no fields"
            near = None if typer.is_quiet else typer.report.suggest(name, fields)
            if near is not None:
                help_ = Suggestion(f"{near.words} {help_}", near.swap)
        case _ if name in _LENGTHS and (isinstance(kind, Items) or family(kind) == of.TEXT):
            help_ = f"write len({shown})"
        case Items(kind="list"):
            message = f"{shown} is a list, which has no field {name}"
            help_ = f"its items may have: [x.{name} for x in {shown}], or ?FOREACH goes through it"
        case _ if name in METHODS.get(family(kind), ()):
            help_ = f"a method is called: .{name}()"
        case _ if kind in of.PARTS:
            help_ = f"it has {listed(sorted(of.PARTS[kind]))}"
        case _:
            pass
    typer.add("CHK120", message, node, help_, severity)


def part(typer: Typer, node: Slice, target: Shape) -> Shape:
    """The shape of `target[start:stop:step]`."""
    for bound in (node.start, node.stop, node.step):
        if bound is not None:
            typer.expect(bound, typer.data(bound), of.NUM, "bounds of a slice are ints", takes_null=True)
    target = typer.no_failure(node.target, target)
    target = typer.no_null(node.target, target, "be sliced")
    if families(target) & {of.TEXT, of.LIST, of.TUPLE, of.UNKNOWN} or not target.kinds:
        return join(*map(_part, target.kinds))
    typer.add(
        "CHK123", f"{spelled(node.target)} is {article(shapes.text(target))}, which has no slices", node
    )
    return ANY


def _part(kind: shapes.Kind) -> Shape:
    """What a slice of a kind of values gives."""
    match kind:
        case Tuple():
            return Shape((Items("tuple", ANY),))
        case Options():
            return STR
        case _:
            return Shape((kind,))
