"""Parses an expression of version 2: values, paths, calls and comprehensions, joined by operators.

In: a text and where the expression begins. Out: an `Expression` whose spans are offsets in the text, and
where it ends: at the first character that cannot belong to it, outside brackets at the latest at the end of
the line. The grammar is that of the specification of version 2, "Expressions" and its decisions 6 and 7.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Final, NamedTuple, NoReturn

from callsheet.diagnostics import Span
from callsheet.frontends.expressions.cursor import BLANK, WORD, NotAnExpression
from callsheet.frontends.expressions.names import (
    FUNCTIONS,
    KEYED,
    METHOD_NAMES,
    OTHER_FUNCTIONS,
    OTHER_METHODS,
    OTHER_WORDS,
    VERSION_1,
)
from callsheet.frontends.expressions.operators import COALESCE, POWER, Operators, joined_span
from callsheet.frontends.values.reader import NAME
from callsheet.ir.expr import Literal
from callsheet.ir.expression import (
    Bound,
    Call,
    Clause,
    Coalesce,
    Comprehension,
    Display,
    Expression,
    Field,
    Hole,
    Index,
    Kind,
    Lambda,
    Mapping,
    Method,
    Names,
    Slice,
    Target,
    Variable,
    mapped,
    target_names,
)


class Reading(NamedTuple):
    """An expression and the offset at which it ends."""

    expression: Expression
    end: int


def read_expression(
    text: str,
    start: int = 0,
    end: int | None = None,
    *,
    is_whole: bool = True,
    in_brackets: bool = False,
    names: Collection[str] = (),
) -> Reading:
    """Parse the expression at `start`.

    `is_whole` demands that it reaches to `end` (blanks and comments aside); `in_brackets` says that it stands
    inside brackets, where it may go on in the next line; `names` are variables that need no `$`. Raises
    NotAnExpression.

    >>> read_expression("$a.size + 1").expression
    ... # doctest: +NORMALIZE_WHITESPACE
    Binary(op=<BinaryOp.ADD: '+'>, left=Field(target=Variable(name='a'), name='size', is_optional=False),
           right=Literal(value=1))
    """
    parser = _Parser(text, start, len(text) if end is None else end)
    parser.brackets, parser.names = int(in_brackets), names
    found = parser.known(parser.expression(), start)
    at = parser.pos
    while text[at - 1].isspace():
        at -= 1
    if is_whole:
        parser.skip()
        if parser.pos < parser.end and parser.text[parser.pos] not in "#\n":
            parser.unexpected()
    return Reading(found, at)


def read_operand(text: str, start: int, names: Collection[str] = ()) -> Reading:
    """Parse what stands at `start` as far as no operator joins it: a literal, a path, brackets, a call.

    Raises NotAnExpression.
    """
    parser = _Parser(text, start, len(text))
    parser.names = names
    return Reading(parser.known(parser.operation(POWER), start), parser.pos)


def read_text(text: str, start: int, end: int) -> Expression:
    """Parse what stands between the double quotes around `start` to `end`. Raises NotAnExpression."""
    parser = _Parser(text, start, end)
    made = parser.body(start, end, "", Span(start - 1, end + 1), is_block=False)
    parser.pos = end
    return parser.known(made, start)


def read_hole(text: str, at: int) -> tuple[Hole, int]:
    """Parse `${expression:format}` at `at`, which any text may have around it; gives also where it ends.

    Raises NotAnExpression.
    """
    parser = _Parser(text, at, len(text))
    parts: list[str | Hole] = []
    end = parser.hole(at, len(text), parts)
    (hole,) = (part for part in parts if isinstance(part, Hole))
    parser.pos = end
    return Hole(parser.known(hole.expression, at), hole.format), end


_WORDS: Final = frozenset({"and", "or", "not", "in", "is", "if", "else", "for", "lambda"})
_CONSTANTS: Final = {
    **dict.fromkeys(("None", "null", "NULL"), None),
    **dict.fromkeys(("True", "true", "TRUE"), True),
    **dict.fromkeys(("False", "false", "FALSE"), False),
}
_FIELD: Final = re.compile(r"\.(?:(\d+)(?!\w)|([^\W\d]\w*))")
_STRING: Final = re.compile(r"([rRfFbBuU]{0,2})(\"\"\"|'''|\"|')")
_OPTIONAL: Final = re.compile(r"\?(?!\?)")
_REFERENCE: Final = re.compile(rf"\$({NAME})((?:\.(?:\d+(?!\w)|[^\W\d]\w*))*)")
_BARE_PATH: Final = re.compile(rf"[ \t]*({NAME})(?![\w(])")

_LENIENT: Final = re.compile(rf"(v1\.{NAME})\(")
"""A function of version 1; `v1` may also be a name of a comprehension, whose methods have other names."""


class _Parser(Operators):
    has_names = False
    """Whether there is a bare name, so that `resolved` may change something."""

    def known(self, node: Expression, start: int) -> Expression:
        """The expression read from `start` to the position, not too high, with its bare names resolved."""
        self.bounded(node, start, self.pos)
        return self.resolved(node, frozenset()) if self.has_names else node

    # ------------------------------------------------------------ paths and calls

    def postfix(self, found: Expression | None = None) -> Expression:
        """A value, or what has been `found`, with the fields and indexes behind it."""
        node = self.atom() if found is None else found
        start = _start(node, self.pos)
        while self.pos < self.end:
            char = self.text[self.pos]
            if char == ".":
                node = self.field(node, start)
            elif char == "[":
                node = self.index(node, start)
            else:
                break
        return node

    def optional(self) -> bool:
        found = _OPTIONAL.match(self.text, self.pos, self.end)
        if found is None:
            return False
        self.pos = found.end()
        return True

    def field(self, target: Expression, start: int) -> Expression:
        found = _FIELD.match(self.text, self.pos, self.end)
        if found is None:
            self.fail("a field's name or an index is missing after the dot", self.pos)
        at, self.pos = self.pos, found.end()
        number, name = found.groups()
        if number is not None:
            index = Literal(self.integer(number, at + 1), Span(at + 1, self.pos))
            return Index(target, index, self.optional(), Span(start, self.pos))
        if self.text.startswith("(", self.pos) and self.pos < self.end:
            if name not in METHOD_NAMES:
                self.fail(
                    f"there is no method {name}",
                    at + 1,
                    self.pos,
                    OTHER_METHODS.get(name)
                    or _meant(name, METHOD_NAMES)
                    or "methods are Python's of texts, lists and dicts that change nothing",
                )
            arguments, named = self.arguments(name)
            return Method(target, name, arguments, named, Span(start, self.pos))
        return Field(target, name, self.optional(), Span(start, self.pos))

    def index(self, target: Expression, start: int) -> Expression:
        self.pos += 1
        parts: list[Expression | None] = []
        with self.bracket():
            while True:
                char = self.skip()
                parts.append(None if char and char in ":]" else self.expression())
                if self.skip() == ":" and len(parts) < 3:
                    self.pos += 1
                    continue
                break
            self.expect("]", "at the end of the index")
        if len(parts) == 1:
            if parts[0] is None:
                self.fail("an index is missing", self.pos - 1)
            return Index(target, parts[0], self.optional(), Span(start, self.pos))
        begin, stop, step = (*parts, None)[:3]
        return Slice(target, begin, stop, step, Span(start, self.pos))

    def arguments(self, function: str) -> tuple[tuple[Expression, ...], tuple[tuple[str, Expression], ...]]:
        """The arguments in parentheses; a generator may be the only one."""
        self.pos += 1
        positional: list[Expression] = []
        named: dict[str, Expression] = {}
        with self.bracket():
            while self.skip() != ")":
                at = self.pos
                word = self.word()
                after = BLANK.match(self.text, at + len(word), self.end)
                equals = at if after is None else after.end()
                is_named = (
                    bool(word)
                    and self.text.startswith("=", equals)
                    and not self.text.startswith("==", equals)
                )
                if is_named:
                    self.pos = equals + 1
                    if word in named:
                        self.fail(f"{word} is given twice", at, at + len(word))
                    is_key = word == "key" and function in KEYED
                    named[word] = self.lambda_or_expression() if is_key else self.expression()
                elif named:
                    self.fail("an argument without a name stands before the named ones", at)
                else:
                    positional.append(self.argument(at))
                if self.skip() != ",":
                    break
                self.pos += 1
            self.expect(")", f"at the end of the arguments of {function}")
        lone = [one for one in positional if isinstance(one, Comprehension) and one.kind is Kind.GENERATOR]
        if lone and len(positional) + len(named) > 1 and not self.is_parenthesised(lone[0]):
            self.fail(
                "put the comprehension in parentheses beside other arguments", _start(lone[0], self.pos)
            )
        return tuple(positional), tuple(named.items())

    def is_parenthesised(self, node: Expression) -> bool:
        start = _start(node, 0)
        return self.text.startswith("(", start)

    def argument(self, at: int) -> Expression:
        element = self.expression()
        return self.comprehension(Kind.GENERATOR, element, None, at) if self.word() == "for" else element

    def lambda_or_expression(self) -> Expression:
        self.skip()
        start = self.pos
        if not self.takes("lambda"):
            word = self.word()
            after = self.text[self.pos + len(word) : self.pos + len(word) + 1]
            if word in FUNCTIONS and after in {",", ")"}:
                self.pos += len(word)  # key=len is key=lambda x: len(x)
                span = Span(start, self.pos)
                return Lambda(("x",), Call(word, (Bound("x", span),), (), span), span)
            return self.fail("a key is a lambda here: key=lambda x: x.name", start)
        names: list[str] = []
        while (name := self.word()) and name not in _WORDS:
            names.append(name)
            self.pos += len(name)
            if self.skip() != ",":
                break
            self.pos += 1
        self.expect(":", "after the names of the lambda")
        if not names:
            self.fail("a lambda takes an argument: lambda x: x.name", start)
        body = self.expression()
        return Lambda(tuple(names), body, Span(start, self.pos))

    # ------------------------------------------------------------ atoms

    def atom(self) -> Expression:
        char = self.skip()
        start = self.pos
        if char == "$":
            return self.variable()
        found = _STRING.match(self.text, start, self.end)
        if found is not None:
            return self.string(found)
        if char.isdigit() or (char == "." and self.text[start + 1 : start + 2].isdigit()):
            return self.number()
        if char == "(":
            return self.parenthesis()
        if char == "[":
            return self.display("]", Kind.LIST)
        if char == "{":
            return self.display("}", Kind.SET)
        word = self.word()
        if word in _CONSTANTS:
            self.pos += len(word)
            return Literal(_CONSTANTS[word], Span(start, self.pos))
        if word == "lambda":
            self.fail("a lambda stands only as a key: sorted($rows, key=lambda r: r.name)", start, start + 6)
        if not word or word in _WORDS:
            self.unexpected()
        return self.name(word)

    def name(self, word: str) -> Expression:
        start, after = self.pos, self.pos + len(word)
        lenient = _LENIENT.match(self.text, start, self.end)
        if lenient is not None and lenient[1].removeprefix("v1.") not in METHOD_NAMES:
            word, after = lenient[1], lenient.end(1)
            if word not in VERSION_1:
                help_ = _meant(word, VERSION_1) or "v1.… are the functions that callsheet upgrade writes"
                self.fail(f"there is no function {word}", start, after, help_)
            self.pos = after
            arguments, named = self.arguments(word)
            if named:
                self.fail(f"the arguments of {word} have no names", start, self.pos)
            return Call(word, arguments, (), Span(start, self.pos))
        if word.isupper() and word in OTHER_WORDS:
            self.other_word(word)
        if self.text.startswith("(", after) and after < self.end:
            if word not in FUNCTIONS:
                self.fail(
                    f"there is no function {word}",
                    start,
                    after,
                    OTHER_FUNCTIONS.get(word)
                    or _meant(word, FUNCTIONS)
                    or "a tool is called by a step of its own: @TOOL (…) > $x",
                )
            self.pos = after
            arguments, named = self.arguments(word)
            return Call(word, arguments, named, Span(start, self.pos))
        self.pos = after
        self.has_names = True
        return Bound(word, Span(start, after))

    def variable(self) -> Expression:
        start = self.pos
        found = WORD.match(self.text, start + 1, self.end)
        if found is None:
            self.fail("a variable's name is missing after $", start)
        self.pos = found.end()
        return Variable(found[0], Span(start, self.pos))

    def parenthesis(self) -> Expression:
        start = self.pos
        self.pos += 1
        with self.bracket():
            if self.skip() == ")":
                self.pos += 1
                return Display(Kind.TUPLE, (), Span(start, self.pos))
            first = self.expression()
            if self.word() == "for":
                made = self.comprehension(Kind.GENERATOR, first, None, start)
                self.expect(")", "at the end of the comprehension")
                return made
            items = [first]
            is_tuple = False
            while self.skip() == ",":
                is_tuple = True
                self.pos += 1
                if self.skip() == ")":
                    break
                items.append(self.expression())
            self.expect(")", "at the end of the brackets")
        return Display(Kind.TUPLE, tuple(items), Span(start, self.pos)) if is_tuple else first

    def display(self, close: str, kind: Kind) -> Expression:
        """A list, a set or a dict, or a comprehension of one."""
        start = self.pos
        self.pos += 1
        with self.bracket():
            if self.skip() == close:
                self.pos += 1
                span = Span(start, self.pos)
                return Display(Kind.LIST, (), span) if close == "]" else Mapping((), span)
            first = self.expression()
            value: Expression | None = None
            if close == "}" and self.skip() == ":":
                self.pos += 1
                value = self.expression()
            if self.word() == "for":
                made = (
                    self.comprehension(kind, first, None, start)
                    if value is None
                    else self.comprehension(Kind.DICT, value, first, start)
                )
                self.expect(close, "at the end of the comprehension")
                return made
            return self.items(start, close, kind, first, value)

    def items(
        self, start: int, close: str, kind: Kind, first: Expression, value: Expression | None
    ) -> Expression:
        """The rest of a display after its first item, or its first key and value."""
        items, pairs = [first], [(first, value)]
        while self.skip() == ",":
            self.pos += 1
            if self.skip() == close:
                break
            item = self.expression()
            if value is None:
                items.append(item)
                continue
            self.expect(":", "between key and value")
            pairs.append((item, self.expression()))
        if self.skip() != close:
            self.unexpected_in(start, close)
        self.pos += 1
        span = Span(start, self.pos)
        if value is None:
            return Display(kind, tuple(items), span)
        keys = [key.value for key, _ in pairs if isinstance(key, Literal)]
        if len(set(keys)) < len(keys):
            twice = next(key for index, key in enumerate(keys) if key in keys[:index])
            self.fail(f"the key {twice!r} is given twice", start, self.pos)
        return Mapping(tuple((key, held) for key, held in pairs if held is not None), span)

    def unexpected_in(self, start: int, close: str) -> NoReturn:
        if self.pos >= self.end:
            self.fail(f"{close} is missing for the bracket that is opened here", start)
        self.unexpected()

    # ------------------------------------------------------------ comprehensions

    def comprehension(
        self, kind: Kind, element: Expression, key: Expression | None, start: int
    ) -> Expression:
        """The clauses after the element."""
        clauses: list[Clause] = []
        while self.takes("for"):
            target = self.target()
            if not self.takes("in"):
                self.fail("in is missing: for x in $xs", self.pos)
            source = self.disjunction()
            conditions: list[Expression] = []
            while self.takes("if"):
                conditions.append(self.disjunction())
            clauses.append(Clause(target, source, tuple(conditions)))
        return Comprehension(kind, element, tuple(clauses), key, Span(start, self.pos))

    def resolved(self, node: Expression, known: frozenset[str]) -> Expression:
        """The expression, in which each bare name is one that a comprehension or a lambda binds around it.

        A lone name in `${ }` that nothing binds is a variable. The source of a comprehension's first clause
        stands outside of its names, as in Python.
        """
        match node:
            case Bound(name=name, span=span) if name not in known:
                if span in self.lone or name in self.names:
                    return Variable(name, span)
                start, end = span or Span(self.pos, self.pos)
                help_ = f'a variable is written ${name}, a text "{name}"'
                return self.fail(f"{name} is not known here", start, end, help_)
            case Lambda(parameters=parameters, body=body):
                return replace(node, body=self.resolved(body, known | frozenset(parameters)))
            case Comprehension(clauses=clauses):
                inner: list[Clause] = []
                for clause in clauses:
                    source = self.resolved(clause.source, known)
                    known = known.union(target_names(clause.target))
                    conditions = tuple(self.resolved(one, known) for one in clause.conditions)
                    inner.append(Clause(clause.target, source, conditions))
                key = None if node.key is None else self.resolved(node.key, known)
                element = self.resolved(node.element, known)
                return replace(node, key=key, element=element, clauses=tuple(inner))
            case _:
                return mapped(node, lambda part: self.resolved(part, known))

    def target(self) -> Target:
        parts = [self.one_target()]
        is_tuple = False
        while self.skip() == ",":
            is_tuple = True
            self.pos += 1
            if self.word() == "in":
                break
            parts.append(self.one_target())
        return Names(tuple(parts)) if is_tuple else parts[0]

    def one_target(self) -> Target:
        char = self.skip()
        if char == "(":
            self.pos += 1
            inner = self.target()
            self.expect(")", "at the end of the names")
            return inner
        word = self.word()
        if not word or word in _WORDS:
            if char == "$":
                self.fail("a name of a comprehension has no $: for x in $xs", self.pos)
            self.fail("a name is missing: for x in $xs", self.pos)
        self.pos += len(word)
        return word

    # ------------------------------------------------------------ references in texts

    def reference(self, at: int, end: int, parts: list[str | Hole]) -> int:
        """`$name.path` or `${expression:format}`; a dollar sign before anything else is itself."""
        if self.text.startswith("${", at) and at + 1 < end:
            return self.hole(at, end, parts)
        found = _REFERENCE.match(self.text, at, end)
        if found is None:
            parts.append("$")
            return at + 1
        name, path = found.groups()
        stop = at + 1 + len(name)
        node: Expression = Variable(name, Span(at, stop))
        if path:
            inner = _Parser(self.text, stop, found.end())
            node = inner.postfix(node)
        parts.append(Hole(node, is_open=True))
        return found.end()

    def hole(self, at: int, end: int, parts: list[str | Hole]) -> int:
        inner = _Parser(self.text, at + 2, end)
        inner.brackets, inner.depth, inner.lone = 1, self.depth + 1, self.lone
        try:
            node = inner.hole_expression()
        except NotAnExpression as error:
            if error.span.start < end:
                raise
            self.unclosed(at)
        spec = None
        char = inner.skip()
        if char == ":":
            close = self.text.find("}", inner.pos, end)
            if close == -1:
                self.unclosed(at)
            spec = self.text[inner.pos + 1 : close]
            inner.pos = close
        elif char != "}":
            if not char:
                self.unclosed(at)
            inner.unexpected()
        self.has_names = self.has_names or inner.has_names
        parts.append(Hole(node, spec))
        return inner.pos + 1

    def unclosed(self, at: int) -> NoReturn:
        help_ = "inside ${ } use the other kind of quote; \\$ is a dollar sign"
        self.fail("the } of ${ is missing before the text ends", at, at + 2, help_)

    def hole_expression(self) -> Expression:
        """What stands in `${ }`: an expression, or a path without its `$` (decision 6)."""
        bare = _BARE_PATH.match(self.text, self.pos, self.end)
        word = "" if bare is None else bare[1]
        if not word or word in _WORDS or word in _CONSTANTS:
            return self.expression()
        start = self.pos
        self.skip()
        if _LENIENT.match(self.text, self.pos, self.end) is not None:
            return self.expression()
        span = Span(self.pos, self.pos + len(word))
        self.pos += len(word)
        self.has_names = True
        node = self.postfix(Bound(word, span))
        if self.operator() == "??":
            self.pos += 2
            right = self.operation(COALESCE)
            node = Coalesce(node, right, joined_span(node, right))
        if not (char := self.skip()) or char in ":}":
            self.lone.add(span)
            return node
        self.pos = start
        return self.expression()


def _start(node: Expression, default: int) -> int:
    return default if node.span is None else node.span.start


def _meant(word: str, known: frozenset[str]) -> str | None:
    from callsheet.diagnostics.diagnostic import did_you_mean  # noqa: PLC0415 - only in a message

    found = did_you_mean(word, sorted(known), 1)
    return f"did you mean {found[0]}?" if found else None
