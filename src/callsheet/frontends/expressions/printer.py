"""Prints expressions in their canonical spelling, with the fewest brackets that mean the same."""

from __future__ import annotations

import json
from typing import Final, assert_never

from callsheet import lazy
from callsheet.frontends.expressions.operators import (
    AND,
    ATOM,
    BINDINGS,
    COALESCE,
    COMPARE,
    NOT,
    OR,
    SIGN,
    TERNARY,
    UNION,
)
from callsheet.ir.expr import Literal
from callsheet.ir.expression import (
    Binary,
    BinaryOp,
    Bound,
    Call,
    Clause,
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
    Mapping,
    Method,
    Slice,
    Target,
    Text,
    Unary,
    UnaryOp,
    Variable,
    children,
)


def format_expression(node: Expression) -> str:
    """The canonical text of an expression; parsing it gives an equal one.

    Raises ValueError where texts in the braces of texts nest more than four deep, which no text says.

    >>> from callsheet.frontends.expressions import read_expression
    >>> format_expression(read_expression("( $a+1 )*2").expression)
    '($a + 1) * 2'
    """
    return _Printer(()).at(node, TERNARY)


def format_lines(node: Expression, indent: str) -> str | None:
    r"""A text of several lines in triple quotes, each of its lines indented; None for any other expression.

    A text with blanks at the end of a line is none: nobody would see them. Raises ValueError as
    `format_expression` does.

    >>> from callsheet.frontends.expressions import read_expression
    >>> format_lines(read_expression(r'"Dear ${$who.name},\nhello"').expression, "  ").splitlines()[1:3]
    ['  Dear ${who.name},', '  hello']
    """
    match node:
        case Text(parts=parts):
            pass
        case Literal(value=str(text)):
            parts = (text,)
        case _:
            return None
    seen = "".join(part if isinstance(part, str) else part.format or "$" for part in parts)
    first, _, others = seen.partition("\n")
    is_one_line = "\n" not in others and not (first.strip() and others.strip())
    if is_one_line or _BLANK_END.search(seen) is not None:
        return None
    quotes = ("'", '"') if max(map(_text_depth, children(node)), default=0) <= 2 else ("'''", '"', "'")
    inside = _Printer(quotes)
    body = "".join(_escaped_block(part) if isinstance(part, str) else inside.braced(part) for part in parts)
    lines = [f"{indent}{line}" if line else "" for line in body.split("\n")]
    return "\n".join(['"""', *lines, f'{indent}"""'])


def format_hole(node: Expression) -> str:
    """The text of an expression in `${ }` where any text may stand around it: a path has no `$`.

    Raises ValueError as `format_expression` does.
    """
    return _Printer(()).hole(node)


_QUOTES: Final = (('"',), ('"', "'"), ('"""', "'", '"'), ('"""', "'''", '"', "'"))
"""The quotes of texts inside texts, from the outermost: a text ends at the first of its own."""
_BLANK_END: Final = lazy.pattern(r" (?:\n|\Z)")
"""Blanks at the end of a line."""


class _Printer:
    """Prints with the quotes that the texts around leave; outside of texts each text chooses its own."""

    def __init__(self, quotes: tuple[str, ...]) -> None:
        self.quotes = quotes

    def quotes_for(self, node: Expression) -> tuple[str, ...]:
        """The quotes of a text and of those inside it. Raises ValueError where texts nest too deep."""
        needed = _text_depth(node)
        if not self.quotes and needed <= len(_QUOTES):
            return _QUOTES[needed - 1]
        if needed > len(self.quotes):
            raise ValueError(
                f"texts inside ${{ }} nest more than {len(_QUOTES)} deep; compute a part with LET before"
            )
        return self.quotes

    def at(self, node: Expression, binding: int) -> str:
        """The text of a node, in brackets if it binds looser than its place demands."""
        text, own = self.text(node)
        return f"({text})" if own < binding else text

    def operand(self, node: Expression, binding: int) -> str:
        """The text of an operand: `??` stands in brackets there, since Python has no place for it."""
        return self.at(node, max(binding, UNION) if isinstance(node, Coalesce) else binding)

    def coalesced(self, node: Expression, binding: int) -> str:
        """The text of a side of `??`, where what is joined by another operator stands in brackets."""
        return self.at(node, SIGN if isinstance(node, Binary) else binding)

    def whole(self, node: Expression) -> str:
        return self.at(node, TERNARY)

    def text(self, node: Expression) -> tuple[str, int]:  # noqa: PLR0911, PLR0912 - a case for each kind of node
        match node:
            case Literal():
                return self.literal(node)
            case Variable(name=name):
                return f"${name}", ATOM
            case Bound(name=name):
                return name, ATOM
            case Field(target=target, name=name, is_optional=is_optional):
                return f"{self.target(target)}.{name}{'?' * is_optional}", ATOM
            case Index(target=target, index=index, is_optional=is_optional):
                return f"{self.target(target)}[{self.whole(index)}]{'?' * is_optional}", ATOM
            case Slice(target=target, start=start, stop=stop, step=step):
                parts = [start, stop] if step is None else [start, stop, step]
                inside = ":".join("" if part is None else self.whole(part) for part in parts)
                return f"{self.target(target)}[{inside}]", ATOM
            case Unary(op=op, operand=operand):
                if op is UnaryOp.NOT:
                    return f"not {self.operand(operand, NOT)}", NOT
                inner = self.at(operand, SIGN)
                is_number = isinstance(operand, Literal) and type(operand.value) in (int, float)
                return f"{op}({inner})" if is_number else f"{op}{inner}", SIGN
            case Binary():
                return self.binary(node)
            case Compared(first=first, rest=rest):
                words = [self.operand(first, COALESCE)]
                words += [f"{op} {self.operand(operand, COALESCE)}" for op, operand in rest]
                return " ".join(words), COMPARE
            case Logic(op=op, operands=operands):
                own = AND if op is LogicOp.AND else OR
                return f" {op} ".join(self.operand(operand, own + 1) for operand in operands), own
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                first, test = self.operand(then, OR), self.operand(condition, OR)
                return f"{first} if {test} else {self.operand(otherwise, TERNARY)}", TERNARY
            case Coalesce(left=left, right=right):
                return f"{self.coalesced(left, UNION)} ?? {self.coalesced(right, COALESCE)}", COALESCE
            case Text():
                return self.filled(node), ATOM
            case Display(kind=kind, items=items):
                return self.display(kind, [self.whole(item) for item in items]), ATOM
            case Mapping(items=pairs):
                inside = ", ".join(f"{self.whole(key)}: {self.whole(value)}" for key, value in pairs)
                return f"{{{inside}}}", ATOM
            case Comprehension():
                return self.comprehension(node), ATOM
            case Lambda(parameters=parameters, body=body):
                return f"lambda {', '.join(parameters)}: {self.whole(body)}", TERNARY
            case Call(function=function, arguments=arguments, named=named):
                return f"{function}({self.arguments(arguments, named)})", ATOM
            case Method(target=target, name=name, arguments=arguments, named=named):
                return f"{self.target(target)}.{name}({self.arguments(arguments, named)})", ATOM
        assert_never(node)

    def target(self, node: Expression) -> str:
        """What stands before a dot or a bracket; a number needs brackets there."""
        text = self.at(node, ATOM)
        return f"({text})" if isinstance(node, Literal) and type(node.value) in (int, float) else text

    def binary(self, node: Binary) -> tuple[str, int]:
        own = BINDINGS[node.op]
        if node.op is BinaryOp.POWER:
            return f"{self.at(node.left, ATOM)} ** {self.at(node.right, SIGN)}", own
        return f"{self.at(node.left, own)} {node.op} {self.at(node.right, own + 1)}", own

    def display(self, kind: Kind, items: list[str]) -> str:
        inside = ", ".join(items)
        if kind is Kind.TUPLE:
            return f"({inside},)" if len(items) == 1 else f"({inside})"
        return f"{{{inside}}}" if kind is Kind.SET else f"[{inside}]"

    def comprehension(self, node: Comprehension) -> str:
        element = self.whole(node.element)
        if node.key is not None:
            element = f"{self.whole(node.key)}: {element}"
        inside = " ".join([element, *map(self.clause, node.clauses)])
        if node.kind is Kind.LIST:
            return f"[{inside}]"
        return f"({inside})" if node.kind is Kind.GENERATOR else f"{{{inside}}}"

    def clause(self, clause: Clause) -> str:
        words = [f"for {_target(clause.target)} in {self.at(clause.source, OR)}"]
        words += [f"if {self.at(condition, OR)}" for condition in clause.conditions]
        return " ".join(words)

    def arguments(self, arguments: tuple[Expression, ...], named: tuple[tuple[str, Expression], ...]) -> str:
        if len(arguments) == 1 and not named and isinstance(arguments[0], Comprehension):
            text = self.whole(arguments[0])
            return text[1:-1] if arguments[0].kind is Kind.GENERATOR else text
        given = [self.whole(one) for one in arguments]
        return ", ".join([*given, *(f"{name}={self.whole(value)}" for name, value in named)])

    def literal(self, node: Literal) -> tuple[str, int]:
        value = node.value
        if isinstance(value, str):
            quote = self.quotes_for(node)[0]
            if "\\" in value and _is_raw(value, quote[0]):
                return f"r{quote}{value}{quote}", ATOM
            return f"{quote}{_escaped(value, quote)}{quote}", ATOM
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            text = repr(value)
            return text, SIGN if text.startswith("-") else ATOM
        return repr(value), ATOM

    def filled(self, node: Text) -> str:
        quote, *others = self.quotes_for(node)
        inner = _Printer(tuple(others) or (quote,))
        inside: list[str] = []
        for part in node.parts:
            if isinstance(part, str):
                inside.append(_escaped(part, quote))
                continue
            inside.append(inner.braced(part))
        return f"{quote}{''.join(inside)}{quote}"

    def braced(self, hole: Hole) -> str:
        spec = "" if hole.format is None else f":{hole.format}"
        return f"${{{self.hole(hole.expression)}{spec}}}"

    def hole(self, node: Expression) -> str:
        """What stands in `${ }`; a path alone drops its `$`."""
        text = self.whole(node)
        path = node
        while isinstance(path, (Field, Index)):
            if isinstance(path, Index) and not isinstance(path.index, Literal):
                return text
            path = path.target
        return text.removeprefix("$") if isinstance(path, Variable) else text


def _target(target: Target) -> str:
    if isinstance(target, str):
        return target
    inside = ", ".join(
        _target(part) if isinstance(part, str) else f"({_target(part)})" for part in target.parts
    )
    return f"{inside}," if len(target.parts) == 1 else inside


def _text_depth(node: Expression) -> int:
    """How deep texts nest in an expression, itself included."""
    inner = max(map(_text_depth, children(node)), default=0)
    return inner + (isinstance(node, Text) or (isinstance(node, Literal) and isinstance(node.value, str)))


def _escaped(text: str, quote: str) -> str:
    """The inside of a text: JSON's escapes, and one for the dollar sign and for its own quote."""
    inside = json.dumps(text, ensure_ascii=False)[1:-1].replace("$", "\\$")
    if quote[0] == "'":
        inside = inside.replace('\\"', '"').replace("'", "\\'")
    return "".join(char if char.isprintable() else _escape(char) for char in inside)


def _is_raw(text: str, quote: str) -> bool:
    """Whether a text, such as a pattern with backslashes, can be written without any escape."""
    return quote not in text and "$" not in text and not text.endswith("\\") and text.isprintable()


def _escaped_block(text: str) -> str:
    """The inside of a text in triple quotes: its lines, with escapes for what is special or unseen."""
    lines = (_escaped(line, '"').replace('\\"', '"') for line in text.split("\n"))
    return "\n".join(lines).replace('"""', '""\\"')


def _escape(char: str) -> str:
    return json.dumps(char)[1:-1]
