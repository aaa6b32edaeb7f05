"""A cursor over a text of version 2: expressions, lists of values, names and types at its position."""

from __future__ import annotations

import json
import re
from typing import Final

from callsheet import lazy
from callsheet.diagnostics import Span, did_you_mean
from callsheet.diagnostics.diagnostic import span_of
from callsheet.frontends.expressions import NotAnExpression, read_expression, read_text
from callsheet.frontends.structured.lines import STATEMENT_LINE, comments_in, gap_before, next_statement
from callsheet.frontends.values.reader import NAME, Reader, Stop, comment_text, replace, shown
from callsheet.ir.expr import JSON, Literal
from callsheet.ir.expression import Display, Expression, Field, Kind, Mapping, Variable
from callsheet.ir.tree import Into
from callsheet.ir.types import Basic, DictOf, ListOf, Maybe, Named, OneOf, Record, Type

_NAME = lazy.pattern(NAME)
_WORD = lazy.pattern(r"@?\??[A-Za-z_][A-Za-z0-9_]*(?:-PLAN\b)?", re.IGNORECASE)
_NAMED = lazy.pattern(rf"(?:({NAME})|\"([^\"\\\n$]*)\")[ \t\r\n]*=(?!=)")
_USUAL_ARGUMENT = lazy.pattern(
    rf"[ ]?(?:({NAME})=)?"
    rf"(?:\"(?!\"\")([^\"\\\$\r\n]*+(?:\$(?!\{{)[^\"\\\$\r\n]*+)*+)\"|\$({NAME})((?:\.[A-Za-z_]\w*+(?!\())*+)"
    r"|(-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?))([,)])"
)
"""The most frequent spellings of an argument, with the character after it, in one match."""
_VARIABLE = lazy.pattern(rf"(\$?)({NAME})")
_STRING = lazy.pattern(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n\"]|\\.)*'")
_NUMBER = lazy.pattern(r"-?\d{1,18}\b(?!\.)")
_ARROW = lazy.pattern(r"->|=>|→")

_TYPES: Final[dict[str, Type]] = {
    **{basic.value: basic for basic in Basic},
    "list": ListOf(Basic.JSON),
    "dict": DictOf(Basic.JSON),
}
_GENERIC: Final = {
    "Optional": "str?, with the type before the ?",
    "Union": 'json; only literals stand beside each other: "a" | "b"',
    "Literal": '"a" | "b"',
    **dict.fromkeys(("List", "Sequence", "array", "Array", "set", "tuple"), "list[…]"),
    **dict.fromkeys(("Dict", "Mapping", "map", "object"), "dict[str, …]"),
}
"""Types of other languages with brackets behind them, and what is written here."""
_MEANT: Final = {
    "string": "str",
    "text": "str",
    "integer": "int",
    "number": "float",
    "double": "float",
    "boolean": "bool",
    "array": "list",
    "object": "json",
    "any": "json",
    "map": "dict",
    "timedelta": "duration",
}
_LITERALS: Final = {"True": True, "true": True, "False": False, "false": False}

Arguments = tuple[tuple[Expression, ...], tuple[tuple[str, Expression], ...]]


_SEVERAL: Final = "write [ ] around several values that are meant as one"
_WITHOUT_RESULT: Final = frozenset({"YIELD", "RETURN", "NOTE", "WAIT"})
_STORED = lazy.pattern(rf"\)\s*>\s*\$({NAME})\Z")


class Cursor(Reader):
    """A reader of the parts of statements; what it cannot read is a diagnostic and a `Stop`."""

    __slots__ = ("bare_names",)

    def __init__(self, text: str, pos: int = 0) -> None:
        super().__init__(text, pos)
        self.bare_names: frozenset[str] = frozenset()
        """Variables that are written without their `$`, too."""

    # ------------------------------------------------------------ words

    def word(self) -> str:
        """The word at the position, with its `@` or `?`, not consumed; "" where there is none."""
        self.skip()
        found = _WORD.match(self.text, self.pos)
        return "" if found is None else found[0]

    def takes(self, word: str) -> bool:
        """Consume a keyword if it stands here, in another case with a hint."""
        found = self.word()
        if found.upper() != word:
            return False
        end = self.pos + len(found)
        if found != word:
            self.loose("LTP105", f"{found} is written {word}", self.pos, end, word)
        self.pos = end
        return True

    def expect(self, char: str, why: str) -> None:
        """Consume a bracket or sign, or raise with `why` as the message's end."""
        if self.skip() != char:
            raise self.error("LTP021", f"{char} is missing {why}")
        self.pos += 1

    def head_comments(self, start: int, comments: list[str]) -> None:
        """Keep the comments between `start` and the position, which stand inside brackets."""
        comments.extend(comments_in(self.text, start, self.pos))
        self.comments.clear()

    def remark(self) -> str | None:
        """The comment at the end of the line, consumed."""
        if self.skip() != "#":
            return None
        start = self.pos
        self.pos = self.line_end(start)
        return comment_text(self.text[start : self.pos])

    def at_line_end(self) -> bool:
        """Whether nothing but a comment follows on the line."""
        return self.skip() in {"", "\n", "#"}

    def since(self, start: int) -> Span:
        """The span from a place to the last character before the position."""
        end = self.pos
        while end > start and self.text[end - 1] in " \t\r\n":
            end -= 1
        return span_of((start, end))

    # ------------------------------------------------------------ values

    def expression(self, *, in_brackets: bool = False) -> Expression:
        """The expression at the position."""
        try:
            reading = read_expression(
                self.text, self.pos, is_whole=False, in_brackets=in_brackets, names=self.bare_names
            )
        except NotAnExpression as error:
            raise self._not_an_expression(error, in_brackets=in_brackets) from None
        if self.text.find("\n", self.pos, reading.end) >= 0:
            self._check_texts(reading.end, in_brackets=in_brackets)
        self.pos = reading.end
        return reading.expression

    def _check_texts(self, end: int, *, in_brackets: bool) -> None:
        """Raise where a text in plain quotes goes on over a line that begins a statement."""
        bound = next_statement(self.text, self.pos)
        if bound >= end:
            return
        try:
            before = gap_before(self.text, bound).start
            read_expression(self.text, self.pos, before, is_whole=False, in_brackets=in_brackets)
        except NotAnExpression as error:
            start = error.span.start
            if "not closed" in error.message and not self.text.startswith(
                ('"""', "'''", 'r"""', "r'''"), start
            ):
                raise self.error(
                    "LTP020", error.message, start, self.line_end(start), help=error.help
                ) from None

    def _not_an_expression(self, error: NotAnExpression, *, in_brackets: bool) -> Stop:
        """Say why there is no expression, as it looks before the next line that begins a statement."""
        bound = next_statement(self.text, self.pos)
        if error.span.start >= bound:
            end = gap_before(self.text, bound).start
            try:
                read_expression(self.text, self.pos, end, is_whole=False, in_brackets=in_brackets)
            except NotAnExpression as nearer:
                error = nearer
        start = self._visible(min(error.span.start, len(self.text)))
        stop = max(start, min(error.span.end, self.line_end(start)))
        if "not closed" in error.message:
            return self.error("LTP020", error.message, start, self.line_end(start), help=error.help)
        return self.error("LTP201", error.message, start, stop, help=error.help)

    def _visible(self, at: int) -> int:
        return gap_before(self.text, at).start if at >= len(self.text) or self.text[at] == "\n" else at

    def one_value(self, of: str, several: str = _SEVERAL) -> Expression:
        """The value in parentheses after a word, as in `YIELD (e)`; without them with a hint.

        `several` is the help where there are several.
        """
        char = self.skip()
        start = self.pos
        if char in {"", "\n", "#", "{"}:
            raise self.error("LTP211", f"{of} needs a value", help=f"write {of} (value)")
        value = self.expression()
        if char != "(":
            written = f"({self.text[start : self.pos]})"
            self.loose("LTP112", "the value is written in parentheses", start, self.pos, written)
        elif isinstance(value, Display) and value.kind is Kind.TUPLE and value.span == (start, self.pos):
            raise self.error("LTP211", f"{of} takes one value", start, self.pos, help=several)
        elif of in _WITHOUT_RESULT and (arrow := _STORED.search(self.text, start, self.pos)) is not None:
            help_ = "the list of what YIELD gives is stored behind the loop: } > $list"
            at = self.pos - len(arrow[0]) + 1
            raise self.error(
                "LTP019", f"{of} stores no result", at, self.pos, help=help_ if of == "YIELD" else None
            )
        return value

    def arguments(self, of: str) -> Arguments:
        """The arguments in the parentheses at the position, if there are any: named ones last."""
        positional: list[Expression] = []
        named: dict[str, Expression] = {}
        if self.skip() != "(":
            return (), ()
        opening = self.pos
        self.open()
        before = opening
        while True:
            usual = _USUAL_ARGUMENT.match(self.text, self.pos)
            if usual is not None:
                name, *given, after = usual.groups()
                is_new = not named if name is None else name not in named
                value = _usual_value(usual, *given) if is_new else None
                if value is not None:
                    if name is None:
                        positional.append(value)
                    else:
                        named[name] = value
                    self.pos = before = usual.end()
                    if after == ")":
                        self.pos -= 1
                        break
                    continue
            if self.skip() == ")":
                break
            start = self.pos
            if self.begins_statement(before):
                raise self.not_closed(opening, before, of)
            head = _NAMED.match(self.text, start)
            if head is not None:
                self.pos = head.end()
                if self.skip() in {",", ")"}:
                    raise self.error("LTP022", "expected a value after =", help="write name=value")
                self._add(head[1] if head[1] is not None else head[2], named, start, head.end())
            elif named:
                raise self.error(
                    "LTP026",
                    "this argument has no name, but stands after one that has",
                    help="write the arguments without names first",
                )
            else:
                positional.append(self.expression(in_brackets=True))
            self.separator(opening, start, of)
            before = self.pos
        self.pos += 1
        self.depth -= 1
        return tuple(positional), tuple(named.items())

    def _add(self, name: str, named: dict[str, Expression], start: int, end: int) -> None:
        value = self.expression(in_brackets=True)
        if name in named:
            raise self.error("LTP027", f"the argument {shown(name)} is given twice", start, end)
        named[name] = value

    def separator(self, opening: int, last: int, of: str) -> None:
        """A comma, or the closing parenthesis, which is not consumed; `last` is where the argument begins."""
        char = self.skip()
        if char == ",":
            self.pos += 1
        elif char != ")":
            if self.pos >= min(len(self.text), next_statement(self.text, last)):
                raise self.not_closed(opening, last, of)
            word = shown(self.text[self.pos : self.line_end(self.pos)], 20)
            raise self.error("LTP021", f"a comma or ) is missing before {word}")

    def begins_statement(self, before: int) -> bool:
        """Whether the position is at a line that begins a statement, after the line of `before`."""
        line = self.line_start(self.pos)
        return line > before and STATEMENT_LINE.match(self.text, line) is not None

    def not_closed(self, opening: int, last: int, of: str) -> Stop:
        """The error for parentheses that the next statement, or the end of the text, finds open.

        If a text after `last` has swallowed the next statement, it is the text that is not closed.
        """
        end = gap_before(self.text, next_statement(self.text, last)).start
        name = _NAMED.match(self.text, last)
        try:
            read_expression(
                self.text, last if name is None else name.end(), end, is_whole=False, in_brackets=True
            )
        except NotAnExpression as error:
            if "not closed" in error.message:
                self.pos = error.span.start
                return self.error("LTP020", error.message, error.span.start, self.line_end(error.span.start))
        at = max(end, opening + 1)
        help_ = "close the brackets on the line, or indent what follows"
        return self.error("LTP021", f"the ) of {of} is missing", at, at, help=help_)

    def values(self, of: str) -> tuple[Expression, ...]:
        """The values in the parentheses at the position, none where there are no parentheses."""
        if (
            self.skip() != "("
            and not self.at_line_end()
            and self.word().upper() not in {"ON_FAIL", "FINALLY"}
        ):
            start = self.pos
            value = self.expression()
            written = f"({self.text[start : self.pos]})"
            self.loose("LTP112", "the value is written in parentheses", start, self.pos, written)
            return (value,)
        start = self.pos
        positional, named = self.arguments(of)
        if named:
            raise self.error("LTP023", f"{of} takes no named values", start, self.pos)
        return positional

    def constant(self, of: str) -> JSON:
        """A value without variables, as JSON."""
        self.skip()
        start = self.pos
        try:
            return _constant(self.expression())
        except ValueError:
            message = f"{of} is a constant: a text, a number, a list or an object of them"
            raise self.error("LTP209", message, start, self.pos) from None

    # ------------------------------------------------------------ names

    def variable(self, where: str) -> str:
        """A variable's name, consumed."""
        self.skip()
        start = self.pos
        found = _VARIABLE.match(self.text, start)
        if found is None:
            raise self.error("LTP050", f"expected a variable {where}", help="write $name; a name is ASCII")
        self.pos = found.end()
        if not found[1]:
            self.loose("LTP109", "a variable is written with its $", start, self.pos, f"${found[2]}")
        if self.text[self.pos : self.pos + 1] in {".", "["}:
            help_ = "a part of a variable is only read; build the whole value anew"
            raise self.error("LTP050", f"expected a whole variable {where}, not a part of one", help=help_)
        return found[2]

    def name(self, what: str) -> str:
        """A bare name, consumed."""
        self.skip()
        found = _NAME.match(self.text, self.pos)
        if found is None:
            raise self.error(
                "LTP209", f"expected the name of {what}", help="a name is ASCII letters, digits, _"
            )
        self.pos = found.end()
        return found[0]

    def into(self) -> Into | None:
        """`> $name:type` at the position."""
        char = self.skip()
        start = self.pos
        arrow = _ARROW.match(self.text, start)
        if arrow is not None:
            self.loose("LTP106", "the result is stored with >", start, arrow.end(), ">")
            self.pos = arrow.end()
        elif char == ">":
            self.pos += 1
        else:
            return None
        name = self.variable("for the result after >")
        kind = self.type() if self._colon() else None
        return Into(name, kind, span_of((start, self.pos)))

    def _colon(self) -> bool:
        if self.skip() != ":":
            return False
        self.pos += 1
        return True

    # ------------------------------------------------------------ types

    def type(self) -> Type:
        """The type at the position."""
        kind = self._alternatives()
        while self.text.startswith("?", self.pos):
            self.pos += 1
            kind = kind if isinstance(kind, Maybe) else Maybe(kind)
        return kind

    def _alternatives(self) -> Type:
        """A type, or literals with `|` between them."""
        char = self.skip()
        if char == "(":
            self.open()
            kind = self.type()
            self.expect(")", "at the end of the type")
            self.depth -= 1
            return kind
        literal = self._literal()
        if literal is None:
            return self._one_type()
        values = [literal]
        while self.skip() == "|":
            self.pos += 1
            self.skip()
            other = self._literal()
            if other is None:
                message = "only texts, whole numbers, True and False stand on both sides of |"
                raise self.error(
                    "LTP208", message, self.pos, self.pos + 1, help="any JSON value is the type json"
                )
            values.append(other)
        after = self.pos
        while self.text[after - 1] in " \t\r\n":
            after -= 1
        self.pos = after
        return OneOf(tuple(values))

    def _literal(self) -> str | int | bool | None:
        found = _STRING.match(self.text, self.pos)
        if found is not None:
            start, self.pos = self.pos, found.end()
            inside = found[0][1:-1]
            if found[0][0] == "'":
                inside = inside.replace("\\'", "'")
            try:
                return str(json.loads(f'"{inside}"'))
            except ValueError:
                raise self.error("LTP208", "this text has an unknown escape", start, self.pos) from None
        number = _NUMBER.match(self.text, self.pos)
        if number is not None:
            self.pos = number.end()
            return int(number[0])
        word = _NAME.match(self.text, self.pos)
        if word is None or word[0] not in _LITERALS:
            return None
        self.pos = word.end()
        return _LITERALS[word[0]]

    def _one_type(self) -> Type:
        char = self.skip()
        start = self.pos
        if char == "{":
            return self.record()
        found = _NAME.match(self.text, start)
        if found is None:
            raise self.error("LTP208", "expected a type", help=f"types are {', '.join(_TYPES)}, and records")
        name, self.pos = found[0], found.end()
        has_items = self.text.startswith("[", self.pos)
        if has_items and name in _GENERIC:
            raise self.error(
                "LTP051", f"there is no type {name}[…]", start, self.pos, help=f"write {_GENERIC[name]}"
            )
        if has_items and name == "list":
            self.open()
            item = self.type()
            self.expect("]", "at the end of list[…]")
            self.depth -= 1
            return ListOf(item)
        if has_items and name == "dict":
            self.open()
            if not self.takes_name("str"):
                raise self.error("LTP208", "the keys of a dict are texts", help="write dict[str, type]")
            self.expect(",", "after the type of the keys: dict[str, type]")
            value = self.type()
            self.expect("]", "at the end of dict[…]")
            self.depth -= 1
            return DictOf(value)
        known = _TYPES.get(name)
        if known is not None:
            return known
        meant = _MEANT.get(name.lower()) or next(
            (one for one in did_you_mean(name, tuple(_TYPES)) if name.islower()), None
        )
        if meant is not None:
            raise self.error(
                "LTP051",
                f"there is no type {shown(name)}",
                start,
                self.pos,
                help=f"did you mean {meant}?",
                fix=replace(f"write {meant}", start, self.pos, meant),
            )
        return Named(name)

    def takes_name(self, name: str) -> bool:
        """Consume this very name if it stands here."""
        self.skip()
        found = _NAME.match(self.text, self.pos)
        if found is None or found[0] != name:
            return False
        self.pos = found.end()
        return True

    def record(self) -> Record:
        """`{name: type, …}` at the position."""
        if self.skip() != "{":
            raise self.error(
                "LTP209", "expected the fields of the record", help="write {id: int, title: str?}"
            )
        self.open()
        fields: dict[str, Type] = {}
        while self.skip() != "}":
            start = self.pos
            name = self.name("a field")
            self.expect(":", f"after the field {name}: write {name}: type")
            if name in fields:
                raise self.error("LTP217", f"the field {name} is declared twice", start, start + len(name))
            fields[name] = self.type()
            if self.skip() != ",":
                break
            self.pos += 1
        self.expect("}", "at the end of the record")
        self.depth -= 1
        return Record(tuple(fields.items()))


def _usual_value(
    found: re.Match[str], text: str | None, name: str | None, path: str, number: str
) -> Expression | None:
    """The value of a `_USUAL_ARGUMENT`: a fast path with the same result as the general parser.

    None where that is to say what is wrong. The texts are those of the groups 2 to 5 of `found`.
    """
    if text is not None:
        start, end = found.span(2)
        if "$" in text:
            try:
                return read_text(found.string, start, end)
            except NotAnExpression:
                return None
        return Literal(text, span_of((start - 1, end + 1)))
    if name is None:
        return Literal(float(number) if "." in number else int(number), span_of(found.span(5)))
    start, end = found.span(3)
    start -= 1
    node: Expression = Variable(name, span_of((start, end)))
    for part in path.split(".")[1:] if path else ():
        end += len(part) + 1
        node = Field(node, part, False, span_of((start, end)))
    return node


def _constant(node: Expression) -> JSON:
    match node:
        case Literal(value=value):
            return value
        case Display(kind=Kind.LIST, items=items):
            return [_constant(item) for item in items]
        case Mapping(items=pairs):
            return {_key(key): _constant(value) for key, value in pairs}
        case _:
            raise ValueError


def _key(node: Expression) -> str:
    if isinstance(node, Literal) and isinstance(node.value, str):
        return node.value
    raise ValueError
