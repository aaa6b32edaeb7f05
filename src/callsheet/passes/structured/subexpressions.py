"""The shapes of the parts of an expression: comparisons, calls of functions and methods, paths."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from callsheet import lazy
from callsheet.diagnostics import Severity
from callsheet.frontends.expressions.names import METHODS, VERSION_1
from callsheet.ir.expr import Literal
from callsheet.ir.expression import (
    Call,
    Compared,
    Comparison,
    Display,
    Expression,
    Field,
    Index,
    Lambda,
    Method,
    Slice,
    Variable,
)
from callsheet.ir.types import Basic
from callsheet.passes.finding import Suggestion
from callsheet.passes.structured import operations as of
from callsheet.passes.structured import shapes
from callsheet.passes.structured.findings import (
    article,
    conversion,
    count,
    listed,
    may_be_number,
    optional,
    plain,
    spelled,
)
from callsheet.passes.structured.shapes import (
    ANY,
    BOOL,
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
                dated(typer, node, left, other)
                dated(typer, node, right, shape)
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
    if isinstance(left, Literal) and isinstance(right, Literal | Display):
        return
    if not set(values[0]) & set(values[1]):
        (many, shown), (single, _) = sorted(
            zip(values, (spelled(left), spelled(right)), strict=True), key=lambda each: -len(each[0])
        )
        help_ = typer.near(str(single[0]), [str(each) for each in many])
        message = f"{shown} is one of {listed(map(repr, many))}, never {listed(map(repr, single))}"
        typer.add("CHK121", message, node, help_, Severity.WARNING)


_FORMS = {
    "date": lazy.pattern(r"\d{4}-\d\d-\d\d", re.ASCII),
    "date-time": lazy.pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?", re.ASCII),
}


def dated(typer: Typer, node: Expression, path: Expression, other: Shape) -> None:
    """CHK121 as a warning where a date or time is equal to none of the texts that it is compared with."""
    match path:
        case Field(target=target, name=name) | Index(target=target, index=Literal(value=str() as name)):
            pass
        case _:
            return
    formats = {
        kind.fields[name].format if isinstance(kind, Fields) and name in kind.fields else ""
        for kind in typer.quietly(target).without(Special.NULL).kinds
    }
    form = formats.pop() if len(formats) == 1 else ""
    texts = [one for kind in other.kinds if isinstance(kind, Options) for one in kind.values]
    if not form or len(other.kinds) != 1 or not texts:
        return
    if any(not any(c.isdigit() for c in str(one)) or _FORMS[form].fullmatch(str(one)) for one in texts):
        return
    shown = spelled(path)
    example = shapes.FORMATS[form]
    help_ = f'write it in that form, or compare the beginning: {shown}.startswith("{example[:10]}")'
    message = f"{shown} has the form {example}, never {listed(repr(one) for one in texts)}"
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
    elif isinstance(right, Display):  # what Python's == is
        _options(typer, node, left, one, right, items)


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
        not_by_name(typer, node, target, at)
    shape = join(*found) if found else ANY
    return (shape.without(Special.NULL) if node.is_optional else shape), node.is_optional


def not_by_name(typer: Typer, node: Index, target: Shape, at: Shape) -> None:
    """CHK123: an index of a list or text that is no number."""
    there = spelled(node.target)
    items = of.items_of(target) or ANY
    names = (next(iter(kind.fields)) for kind in items.kinds if isinstance(kind, Fields) and kind.fields)
    help_ = f"[x for x in {there} if x.{next(names, 'name')} == …] finds items by a field"
    if families(target) == {of.TEXT}:
        help_ = 'a text has no fields: take it apart, or have a model read it, llm_extract("what", text)'
    typer.add(
        "CHK123",
        f"{there} is {article(shapes.text(target))}, whose index is an int, not {shapes.text(at)}",
        node,
        help_,
    )


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


def lacks(
    typer: Typer,
    node: Field | Index,
    kind: shapes.Kind,
    name: str,
    severity: Severity = Severity.ERROR,
) -> None:
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
            elif not typer.is_quiet and (tools := typer.report.telling(name)):
                help_ = f"{' or '.join(tools)} tells it; {help_ or 'here there are no fields'}"
            elif isinstance(node.target, Variable) and whole.startswith("the result of @"):
                help_ += f"; if the tool gives more than it declares, write > {shown}:json"
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
