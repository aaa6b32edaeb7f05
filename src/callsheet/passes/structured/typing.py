"""The shape of an expression, and what is wrong in it: fields, operators, comparisons, functions, nulls.

In: an expression and what is known of the variables where it stands. Out: its shape. Findings go to the
report: CHK103 and CHK120 to CHK123. What is not known is not complained about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol, assert_never

from callsheet.diagnostics import Edit, Fix, Severity, Span
from callsheet.ir.expr import Literal
from callsheet.ir.expression import (
    Binary,
    BinaryOp,
    Bound,
    Call,
    Coalesce,
    Compared,
    Comprehension,
    Conditional,
    Display,
    Expression,
    Field,
    Hole,
    Index,
    Kind,
    Lambda,
    Logic,
    LogicOp,
    Method,
    Slice,
    Target,
    Text,
    Unary,
    UnaryOp,
    Variable,
)
from callsheet.ir.expression import Mapping as Pairs
from callsheet.ir.inputs import duration_of
from callsheet.ir.tree import Statement
from callsheet.passes.finding import Suggestion
from callsheet.passes.structured import operations as of
from callsheet.passes.structured import shapes, subexpressions
from callsheet.passes.structured.findings import Report, article, conversion, plain, spelled
from callsheet.passes.structured.shapes import (
    ANY,
    BOOL,
    INT,
    NULL,
    STR,
    Fields,
    Items,
    Known,
    Shape,
    Special,
    Table,
    Tuple,
    families,
    join,
    list_of,
)
from callsheet.passes.structured.state import Path, path_of, tests_of

_PATHS = (Field, Index, Slice, Method)


class Variables(Protocol):
    """What is known of the plan's variables where an expression stands."""

    def read(self, name: str, span: Span | None) -> Shape:
        """The shape of a variable; a finding if it is not set here."""
        ...

    def fact(self, path: Path) -> Shape | None:
        """What a test has shown of a path; None without one."""
        ...


class Typer:
    """Finds the shapes of the expressions of one statement.

    `is_caught` says that the plan goes on after a failure of the statement.
    """

    def __init__(
        self, variables: Variables, report: Report, statement: Statement, is_caught: bool = False
    ) -> None:
        self.is_caught = is_caught
        self.variables, self.report, self.statement = variables, report, statement
        self.bound: dict[str, Shape] = {}
        self.facts: dict[Path, Shape] = {}
        self.forgives = False
        self.is_quiet = False

    # ------------------------------------------------------------ entries

    def data(self, node: Expression) -> Shape:
        """The shape of an expression that is used as data: a failure is none."""
        shape = self.value(node)
        return self.no_failure(node, shape)

    def no_failure(self, node: Expression, shape: Shape) -> Shape:
        """The shape without a failure; CHK103 if it may be one."""
        if not shape.may_fail:
            return shape
        rest = shape.without(Special.FAILURE)
        be = "may be" if rest.kinds else "is"
        self.add(
            "CHK103",
            f"{spelled(node)} {be} a failure here, which is no data",
            node,
            "test it first: ?IF (FAILED($x)) { … } ELSE { … }; or give a value with ON_FAIL USE (…)",
        )
        return rest if rest.kinds else ANY

    def no_null(self, node: Expression, shape: Shape, where: str, *, fails: bool = True) -> Shape:
        """The shape without null; CHK122 if it may be null, which cannot be `where`.

        It is an error if the value is null in any case, and the step then `fails`.
        """
        if not shape.may_be_null:
            return shape
        rest = shape.without(Special.NULL)
        has_value = bool(rest.kinds)
        shown = spelled(node)
        path = spelled(replace(node, is_optional=False)) if isinstance(node, Field | Index) else shown
        self.add(
            "CHK122",
            f"{shown} {'may be' if has_value else 'is'} null, which {'cannot ' if fails else ''}{where}",
            node,
            f'say what stands for it: {path} ?? "none"; or test it first: {shown} is not None',
            Severity.ERROR if fails and not has_value else Severity.WARNING,
        )
        return rest if has_value else ANY

    def message(self, values: Iterable[Expression]) -> None:
        """Values that are joined as the message that ends a run, of which null says nothing."""
        for value in values:
            self.no_null(value, self.data(value), "leaves a gap in the message", fails=False)

    def add(
        self,
        code: str,
        message: str,
        node: Expression,
        help_: str | Suggestion | None = None,
        severity: Severity = Severity.ERROR,
        fix: Fix | None = None,
    ) -> None:
        """Note a finding at a node; what fails where the plan handles a failure is a warning.

        But for a failure that is used as data: the plan knows that it may be one, and can ask.
        """
        if not self.is_quiet:
            if self.is_caught and severity is Severity.ERROR and code != "CHK103":
                severity = Severity.WARNING
            span = node.span
            self.report.add(code, message, self.statement, span=span, help=help_, severity=severity, fix=fix)

    def quietly(self, node: Expression) -> Shape:
        """The shape of an expression, without findings."""
        before, self.is_quiet = self.is_quiet, True
        try:
            return self.value(node)
        finally:
            self.is_quiet = before

    # ------------------------------------------------------------ values

    def value(self, node: Expression) -> Shape:
        """The shape of an expression's value."""
        if not isinstance(node, _PATHS):
            return self.other(node)
        shape, may_cut = self.chain(node)
        return join(shape, NULL) if may_cut else shape

    def chain(self, node: Expression) -> tuple[Shape, bool]:
        """The shape of a node, and whether a `?` in its path may have ended the path before."""
        if not isinstance(node, _PATHS):
            return self.other(node), False
        path = path_of(node)
        fact = None if path is None else self.fact(path)
        if fact is not None:
            return fact, False
        if isinstance(node, Field):
            return subexpressions.field(self, node)
        target, may_cut = self.chain(node.target)
        match node:
            case Index():
                shape, cuts = subexpressions.index(self, node, target)
                return shape, may_cut or cuts
            case Slice():
                return subexpressions.part(self, node, target), may_cut
            case Method():
                return subexpressions.method(self, node, target), may_cut
        assert_never(node)

    def fact(self, path: Path) -> Shape | None:
        """What a test has shown of a path, in this expression or before it."""
        found = self.facts.get(path)
        return found if found is not None else self.variables.fact(path)

    def other(self, node: Expression) -> Shape:  # noqa: PLR0911, PLR0912 - a case for each kind of node
        """The shape of what is no path."""
        match node:
            case Literal(value=value):
                return shapes.literal(value)
            case Variable(name=name, span=span):
                found = self.facts.get((f"${name}",)) if self.facts else None
                if found is not None:
                    return found
                return self.variables.read(name, None if self.is_quiet else span)
            case Text(parts=parts):
                for part in parts:
                    if isinstance(part, Hole):
                        self.hole(part)
                return STR
            case Bound(name=name):
                return self.facts.get((name,)) or self.bound.get(name, ANY)
            case Unary(op=op, operand=operand):
                return self.unary(node, op, self.data(operand))
            case Binary():
                return self.binary(node)
            case Compared():
                return subexpressions.compared(self, node)
            case Logic(op=op, operands=operands):
                return self.logic(op, operands)
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                self.data(condition)
                with_, without = (
                    self.under(self.tests(condition, truth=truth), part)
                    for truth, part in ((True, then), (False, otherwise))
                )
                return join(with_, without)
            case Coalesce(left=left, right=right):
                return self.coalesce(left, right)
            case Display(kind=kind, items=items):
                each = tuple(self.data(item) for item in items)
                if kind is Kind.TUPLE:
                    return Shape((Tuple(each),))
                return Shape((Items("set" if kind is Kind.SET else "list", join(*each)),))
            case Pairs(items=pairs):
                return self.pairs(pairs)
            case Comprehension():
                return self.comprehension(node)
            case Lambda(body=body):
                self.data(body)
                return Shape((Special.FUNCTION,))
            case Call():
                return subexpressions.call(self, node)
            case Field() | Index() | Slice() | Method():
                return self.value(node)
        assert_never(node)

    def under(self, facts: Mapping[Path, Shape], node: Expression) -> Shape:
        """The shape of a node where these facts hold."""
        if not facts:
            return self.data(node)
        before = self.facts
        self.facts = {**before, **facts}
        try:
            return self.data(node)
        finally:
            self.facts = before

    def logic(self, op: LogicOp, operands: tuple[Expression, ...]) -> Shape:
        """`and` and `or`: each operand knows how the ones before have turned out."""
        before = self.facts
        found: list[Shape] = []
        for number, operand in enumerate(operands):
            shape = self.data(operand)
            is_last = number + 1 == len(operands)
            found.append(shape if is_last or op is LogicOp.AND else shape.without(Special.NULL))
            if not is_last:
                self.facts = {**self.facts, **self.tests(operand, truth=op is LogicOp.AND)}
        self.facts = before
        return join(*found)

    def coalesce(self, left: Expression, right: Expression) -> Shape:
        """`left ?? right`."""
        before = self.forgives
        self.forgives = isinstance(left, Field | Index)
        shape = self.data(left)
        self.forgives = before
        return join(shape.without(Special.NULL), self.data(right))

    def hole(self, part: Hole) -> None:
        """`${…}` in a text."""
        if part.is_open and not self.is_quiet and self.ends_early(part.expression):
            return
        shape = self.data(part.expression)
        shape = self.no_null(part.expression, shape, "stand in a text")
        if shape.kinds and shape is not ANY and families(shape) == {of.SET}:
            message = f"{spelled(part.expression)} is a set, which has no text"
            self.add("CHK123", message, part.expression, "write sorted(…) or list(…)")

    def ends_early(self, path: Expression) -> bool:
        """CHK126 for `$a.b.c` without braces in a text, where it is not known that the path goes on."""
        steps: list[Field | Index] = []
        while isinstance(path, Field | Index):
            steps.append(path)
            path = path.target
        for step in reversed(steps):
            shape = self.quietly(step.target)
            known = families(shape)
            goes_on = known & {of.DICT, of.LIST, of.TUPLE} or any(isinstance(k, Special) for k in shape.kinds)
            if goes_on and of.UNKNOWN not in known:
                continue
            whole, end = steps[0].span, (steps[0] if of.UNKNOWN in known else step.target).span
            if whole is None or end is None or not known:
                return False
            shown, start = spelled(step.target), whole.start + 1
            which = "whose type is not known" if of.UNKNOWN in known else f"which is {article(plain(shape))}"
            edits = (Edit(Span(start, start), "{"), Edit(Span(end.end, end.end), "}"))
            short = "${" + shown.removeprefix("$") + "}"
            self.add(
                "CHK126",
                f"it is not clear where this reference ends: a field follows {shown}, {which}",
                steps[0],
                f"write braces: {short} for {shown} alone, or around the whole path",
                fix=Fix("write braces around the reference", edits),
            )
            return True
        return False

    def pairs(self, pairs: tuple[tuple[Expression, Expression], ...]) -> Shape:
        """A dict."""
        fields: dict[str, Known] = {}
        is_known = True
        for key, value in pairs:
            self.data(key)
            shape = self.data(value)
            if isinstance(key, Literal) and isinstance(key.value, str):
                fields[key.value] = Known(shape)
            else:
                is_known = False
        if is_known:
            return Shape((Fields(fields),))
        return Shape((Table(ANY),))

    # ------------------------------------------------------------ paths

    # ------------------------------------------------------------ operators

    def unary(self, node: Unary, op: UnaryOp, operand: Shape) -> Shape:
        """A sign or `not`."""
        if op is UnaryOp.NOT:
            return BOOL
        operand = self.no_null(node.operand, operand, f"have a {op.value}")
        if not operand.kinds or families(operand) & {of.NUM, of.TRUTH, of.SPAN, of.UNKNOWN}:
            one_by_one = [Shape((kind,)) for kind in operand.kinds]
            signed = [INT if families(one) == {of.TRUTH} else one for one in one_by_one]
            return join(*signed) if signed else operand
        self.add(
            "CHK123",
            f"{spelled(node.operand)} is {article(shapes.text(operand))}, which has no {op.value}",
            node,
        )
        return ANY

    def binary(self, node: Binary) -> Shape:
        """Two operands with an operator."""
        left, right = self.value(node.left), self.data(node.right)
        if left == shapes.FAILURE and node.op is BinaryOp.UNION:
            left = shapes.Shape((shapes.Table(shapes.ANY),))  # a failure with more fields is a record
        left = self.no_failure(node.left, left)
        where = f"stand beside {node.op.value}"
        left, right = self.no_null(node.left, left, where), self.no_null(node.right, right, where)
        made = of.binary(node.op, left, right)
        if made is None:
            one, two = shapes.text(shapes.widened(left)), shapes.text(shapes.widened(right))
            texts = {of.TEXT} in (families(left), families(right))
            is_moment = bool((families(left) | families(right)) & {of.TIME, of.DAY, of.SPAN})
            help_ = conversion(left, right)
            if is_moment and of.NUM in families(left) | families(right):
                help_ = 'a number of days is a duration: duration("2d"), or duration(days=…)'
            elif texts and node.op.value == "+":
                help_ = f'a text with values in it is written "…${{{spelled(node.right)}}}…"'
            elif texts and node.op.value == "%":
                help_ = 'write "${x:.2f}"'
            self.add("CHK123", f"there is no {node.op.value} of {one} and {two}", node, help_)
            return ANY
        return made

    def near(self, word: str, known: Iterable[str]) -> Suggestion | None:
        """A "did you mean", if findings are told at all."""
        return None if self.is_quiet else self.report.suggest(word, known)

    def expect(
        self, node: Expression, shape: Shape, name: str, why: str, *, takes_null: bool = False
    ) -> None:
        """CHK123 unless a value may be of a family."""
        if not takes_null:
            shape = self.no_null(node, shape, "stand here")
        known = families(shape)
        if known and not known & {name, of.UNKNOWN}:
            self.add("CHK123", f"{spelled(node)} is {article(plain(shape))}: {why}", node)

    # ------------------------------------------------------------ comprehensions

    def items(self, node: Expression, shape: Shape, what: str = "be gone through") -> Shape:
        """The shape of what is gone through in a value."""
        shape = self.no_null(node, shape, what)
        found = of.items_of(shape)
        if found is None:
            self.add(
                "CHK123",
                f"{spelled(node)} is {article(plain(shape))}, which has no items to go through",
                node,
                f"range({spelled(node)}) counts up to it" if families(shape) == {of.NUM} else None,
            )
            return ANY
        return found

    def comprehension(self, node: Comprehension) -> Shape:
        """A comprehension."""
        before, facts = self.bound, self.facts
        self.bound = dict(before)
        try:
            for clause in node.clauses:
                item = self.items(clause.source, self.data(clause.source))
                self.bind(clause.target, item)
                for condition in clause.conditions:
                    self.data(condition)
                    self.facts = {**self.facts, **self.tests(condition, truth=True)}
            key = None if node.key is None else self.data(node.key)
            element = self.data(node.element)
        finally:
            self.bound, self.facts = before, facts
        match node.kind:
            case Kind.DICT:
                return Shape((Table(element, key),))
            case Kind.SET:
                return Shape((Items("set", element),))
            case Kind.LIST | Kind.TUPLE | Kind.GENERATOR:
                return list_of(element)
        assert_never(node.kind)

    def bind(self, target: Target, item: Shape) -> None:
        """Give names of a comprehension the shapes of what they take."""
        if isinstance(target, str):
            self.bound[target] = item if item.kinds else ANY
            return
        for number, part in enumerate(target.parts):
            whole = item.kinds[0] if len(item.kinds) == 1 else None
            if isinstance(whole, Tuple) and len(whole.items) == len(target.parts):
                self.bind(part, whole.items[number])
            else:
                self.bind(part, whole.item if isinstance(whole, Items) else ANY)

    # ------------------------------------------------------------ calls

    # ------------------------------------------------------------ tests

    def tests(self, condition: Expression, *, truth: bool) -> dict[Path, Shape]:
        """What is known of paths once a condition has turned out true, or false."""
        found: dict[Path, Shape] = {}
        for node, change in tests_of(condition, truth):
            path = path_of(node)
            if path is not None:
                known = found.get(path)
                found[path] = change(self.quietly(node) if known is None else known)
        return found


def waited(typer: Typer, value: Expression, word: str) -> None:
    """Finds what is no time, behind WAIT, `every=` and WITHIN, where null is no limit."""
    shape = typer.data(value)
    shape = shape.without(Special.NULL) if word == "WITHIN" else typer.no_null(value, shape, "be waited for")
    help_ = 'write every="10s" or every=30' if word == "every" else f'write {word} ("10s") or {word} (30)'
    if families(shape) and not families(shape) & {of.NUM, of.SPAN, of.TEXT, of.UNKNOWN}:
        message = f"{word} takes seconds or a duration, not {shapes.text(shapes.widened(shape))}"
        typer.add("CHK123", message, value, help_)
    match value:
        case Literal(value=str(text)):
            try:
                duration_of(text)
            except ValueError as error:
                typer.add("CHK123", f"{word}: {error}", value, help_)
        case _:
            pass
