"""What comparisons compare: CHK121 for values that are of different types."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from callsheet.diagnostics import Severity
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Compared, Comparison, Expression
from callsheet.passes.structured import operations as of
from callsheet.passes.structured.report import listed
from callsheet.passes.structured.shapes import BOOL, Fields, Options, Shape, Special, families
from callsheet.passes.structured.words import article, conversion, plain, spelled

if TYPE_CHECKING:
    from callsheet.passes.structured.typing import Typer


def compared(typer: Typer, node: Compared) -> Shape:
    """The shape of a chain of comparisons, after a look at each pair."""
    left, shape = node.first, typer.data(node.first)
    for op, right in node.rest:
        other = typer.data(right)
        match op:
            case Comparison.EQ | Comparison.NE:
                _equality(typer, node, left, shape, right, other)
            case Comparison.LT | Comparison.LE | Comparison.GT | Comparison.GE:
                _order(typer, node, op, left, shape, right, other)
            case Comparison.IN | Comparison.NOT_IN:
                _membership(typer, node, left, shape, right, other)
            case Comparison.IS | Comparison.IS_NOT:
                pass
        left, shape = right, other
    return BOOL


def _equality(
    typer: Typer, node: Compared, left: Expression, one: Shape, right: Expression, two: Shape
) -> None:
    first, second = families(one), families(two)
    if not first or not second or of.UNKNOWN in first | second or first & second:
        _options(typer, node, left, one, right, two)
        return
    typer.add(
        "CHK121",
        f"{spelled(left)} is {article(plain(one))} and {spelled(right)} {article(plain(two))},"
        " which are never equal",
        node,
        conversion(one, two),
        Severity.WARNING if one.may_be_null or two.may_be_null else Severity.ERROR,
    )


def _options(
    typer: Typer, node: Compared, left: Expression, one: Shape, right: Expression, two: Shape
) -> None:
    """CHK121 as a warning where a value is one of some texts and is compared with another text."""
    pair = (one.without(Special.NULL).kinds, two.without(Special.NULL).kinds)
    if not all(len(kinds) == 1 and isinstance(kinds[0], Options) for kinds in pair):
        return
    values = [kind.values for kinds in pair for kind in kinds if isinstance(kind, Options)]
    if isinstance(left, Literal) and isinstance(right, Literal):
        return
    if not set(values[0]) & set(values[1]):
        (many, shown), (single, _) = sorted(
            zip(values, (spelled(left), spelled(right)), strict=True), key=lambda each: -len(each[0])
        )
        help_ = typer.near(str(single[0]), [str(each) for each in many])
        message = f"{shown} is one of {listed(map(repr, many))}, never {single[0]!r}"
        typer.add("CHK121", message, node, help_, Severity.WARNING)


def _order(
    typer: Typer,
    node: Compared,
    op: Comparison,
    left: Expression,
    one: Shape,
    right: Expression,
    two: Shape,
) -> None:
    one = typer.no_null(left, one, f"be compared by {op.value}")
    two = typer.no_null(right, two, f"be compared by {op.value}")
    first, second = ({of.NUM if name == of.TRUTH else name for name in families(each)} for each in (one, two))
    if not first or not second or of.UNKNOWN in first | second:
        return
    if not first & second:
        typer.add(
            "CHK121",
            f"{spelled(left)} is {article(plain(one))} and {spelled(right)} {article(plain(two))},"
            f" which {op.value} does not compare",
            node,
            _field_of(one, second) or _field_of(two, first) or conversion(one, two),
        )
    elif first == second == {of.DICT}:
        typer.add("CHK123", f"dicts have no order: {op.value} does not compare them", node)


def _field_of(record: Shape, other: Collection[str]) -> str | None:
    """Which fields of a record can be compared instead of it; None if it is no record, or has none."""
    fields = [
        key
        for kind in record.kinds
        if isinstance(kind, Fields)
        for key, known in kind.fields.items()
        if set(families(known.shape)) & set(other)
    ]
    if not fields:
        return None
    names = " or ".join(f'"{name}"' for name in fields[:4])
    return f"compare its field {names}"


def _membership(
    typer: Typer, node: Compared, left: Expression, one: Shape, right: Expression, two: Shape
) -> None:
    two = typer.no_null(right, two, "contain anything")
    known = families(two)
    if not known or of.UNKNOWN in known:
        return
    if known == {of.TEXT}:
        one = typer.no_null(left, one, "be in a text")
        if families(one) and not families(one) & {of.TEXT, of.UNKNOWN}:
            message = f"{spelled(right)} is a text, which contains texts, not {article(plain(one))}"
            typer.add("CHK121", message, node, "write str(…)")
        return
    items = of.items_of(two)
    if items is None:
        typer.add("CHK123", f"{spelled(right)} is {article(plain(two))}, which contains nothing", node)
        return
    first, second = families(one), families(items)
    if first and second and of.UNKNOWN not in first | second and not first & second:
        message = f"{spelled(left)} is {article(plain(one))}, and {spelled(right)} has {plain(items)} in it"
        typer.add("CHK121", message, node, conversion(one, items), Severity.WARNING)
