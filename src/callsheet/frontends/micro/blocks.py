"""Reads Micro-CLI of version 2: the blocks of version 2 with the verbs and the bare names of the shorthand.

In: a text that begins with `# ltp: 2`. Out: a `ParseResult` with the same tree as LTP text. All that LTP text
of version 2 says may stand here, too. What models write instead of it is read with a hint and a fix.
"""

from __future__ import annotations

import re
from typing import Final

from callsheet import lazy
from callsheet.diagnostics import CallsheetError, did_you_mean
from callsheet.frontends.expressions import NotAnExpression, format_expression
from callsheet.frontends.expressions.names import FUNCTIONS
from callsheet.frontends.expressions.parser import read_hole, read_operand
from callsheet.frontends.micro.failure import refuse_clause
from callsheet.frontends.micro.verbs import VERBS, Misfit, bind
from callsheet.frontends.structured.document import Document, read_document
from callsheet.frontends.structured.failure import read_recovery
from callsheet.frontends.structured.lines import OTHER_WORDS, WORDS
from callsheet.frontends.structured.printer import format_structured
from callsheet.frontends.structured.statements import with_query_parameters
from callsheet.frontends.values.reader import NAME, ParseResult, Stop
from callsheet.frontends.values.reader import replace as replace_text
from callsheet.ir import ListExpr, Literal, Plan, Ref, Value
from callsheet.ir.expression import Display, Expression, Hole, Kind, Text
from callsheet.ir.tree import Act, Into, Statement
from callsheet.ir.tree_edits import changed_nodes, without_spans

_SET_NAMES = lazy.pattern(
    rf">[ \t]*\$?({NAME})|\b(?i:let|set|input|input[ \t]+secret)[ \t]+\$?({NAME})[ \t]*[:=]"
    rf"|\b(?i:foreach)[ \t]*\(?[ \t]*\$?({NAME})[ \t]+(?i:in)\b|(?m:^)[ \t]*({NAME})[ \t]*=[ \t]*@?{NAME}"
)
_ASSIGNED = lazy.pattern(
    rf"((?i:let)[ \t]+)?\$?({NAME})[ \t]*=[ \t]*(?=@?({NAME})([ \t]*\(|[ \t]+[\"'$\w\[{{]|[ \t]*$))"
)
_NAMED = lazy.pattern(rf"({NAME})=(?!=)")
_WORD = lazy.pattern(r"[^\s()\[\]{}\"'$>,;#]+")
_BRACES = lazy.pattern(rf"(?<![\w$\\{{])\{{({NAME})(\.[\w.]+)?\}}(?!\}})")
_PART = r"(?:\[(?:-?\d+|'[^'\\\n]*')\](?:\.[^\W\d]\w*)*)+"
_PARTS = lazy.pattern(rf"(?<![\\$\w])\$({NAME}(?:\.\w+)*{_PART})")
_PART_BEHIND = lazy.pattern(_PART)
_USUAL: Final = frozenset({"LTP105", "LTP106", "LTP109", "LTP112"})
"""The hints for what is the spelling of the shorthand: small letters, names without `$`, no parentheses."""


def parse_blocks(text: str, name: str = "<plan>", *, strict: bool = False) -> ParseResult:
    """Parse Micro-CLI of version 2; `strict` makes spellings that are not canonical errors.

    >>> text = '# ltp: 2\\nsearch "tea" > hits\\nif len(hits) > 3 {\\nrespond "many"\\n}'
    >>> [type(one).__name__ for one in parse_blocks(text).require().tree.body]
    ['Act', 'If']
    """
    return read_document(MicroDocument(text), name, strict=strict)


def format_blocks(plan: Plan) -> str:
    """The text of a plan of version 2. Raises CallsheetError (MIC070) if Micro-CLI reads it otherwise."""
    text = format_structured(plan)
    if parse_blocks(text).plan != plan:
        help_ = "in Micro-CLI a variable's name in braces needs a $; write it as LTP text"
        raise CallsheetError.single("MIC070", "Micro-CLI would read this plan otherwise", help=help_)
    return text


def _with_parts(node: object) -> Text | None:
    """A text whose references without braces go on with the brackets right behind them; None for others."""
    if not isinstance(node, Text):
        return None
    parts: list[str | Hole] = []
    for part in node.parts:
        before = parts[-1] if parts else ""
        if isinstance(part, str) and isinstance(before, Hole) and before.is_open:
            found = _PART_BEHIND.match(part)
            if found is not None:
                hole, _ = read_hole(f"${{{format_expression(before.expression)}{found[0]}}}", 0)
                parts[-1] = without_spans(hole)
                part = part[found.end() :]  # noqa: PLW2901 - the text behind the reference
        if part:
            parts.append(part)
    return Text(tuple(parts), node.span)


class MicroDocument(Document):
    """The reader of one text."""

    __slots__ = ()

    def __init__(self, text: str) -> None:
        super().__init__(text)
        found = (next(filter(None, match.groups())) for match in _SET_NAMES.finditer(text))
        self.bare_names = frozenset({*found, "error"})

    def loose(self, code: str, message: str, start: int, end: int, replacement: str | None) -> None:
        """Record a hint, unless it is about the spelling of the shorthand."""
        if code not in _USUAL:
            super().loose(code, message, start, end, replacement)

    def one(self, comments: list[str], *, is_main: bool) -> Statement | None:
        """The statement at the position; the names in braces in its texts are errors."""
        start = self.pos
        made = super().one(comments, is_main=is_main)
        for found in _BRACES.finditer(self.text, start, self.line_end(start)):
            before = self.text[start : found.start()]
            if found[1] in self.bare_names and before.count('"') % 2:
                fix = replace_text("write $", found.start(), found.start(), "$")
                message = f"{found[0]} is literal text: nothing is inserted there"
                help_ = f"write ${found[0]}"
                self.error("LTP030", message, *found.span(), help=help_, fix=fix)
        has_parts = False
        for found in _PARTS.finditer(self.text, start, self.line_end(start)):
            if self.text.count('"', start, found.start()) % 2:
                has_parts = True
                message = "a reference with brackets stands in braces"
                super().loose("LTP119", message, *found.span(), f"${{{found[1]}}}")
        return changed_nodes(made, _with_parts) if has_parts else made

    def statement(self, comments: list[str]) -> Statement:
        """The statement at the position, or the command."""
        start = self.head = self.pos
        own = self.id()
        self.skip()
        at = self.pos
        assigned = _ASSIGNED.match(self.text, at)
        if assigned is not None and self._is_command(assigned):
            self.pos = assigned.end()
            made = self.command(own, start, comments)
            if made.into is None:
                written = f"{self.text[assigned.end() : self.pos]} > {assigned[2]}"
                super().loose("LTP106", "the result of a command is stored with >", at, self.pos, written)
                made = Act(
                    own, made.tool, made.positional, made.named, Into(assigned[2]), made.recovery,
                    is_named=bool(own), span=made.span,
                )  # fmt: skip
            return self.ended(made, comments)
        word = self.word()
        if self._is_verb(word, at):
            return self.ended(self.command(own, start, comments), comments)
        self.pos = start
        return super().statement(comments)

    def ended(self, made: Statement, comments: list[str]) -> Statement:
        """The statement with the comment at the end of its line; a `;` there is a hint."""
        if self.skip() == ";":
            message = "a command ends at the end of its line, without ;"
            super().loose("LTP116", message, self.pos, self.pos + 1, "")
            self.pos += 1
        return super().ended(made, comments)

    def takes(self, word: str) -> bool:
        """Consume a keyword; a colon with a command behind it on the line is THEN."""
        if (
            word == "THEN"
            and self.skip() == ":"
            and self.text[self.pos + 1 : self.line_end(self.pos)].strip()
        ):
            self.pos += 1
            return True
        return super().takes(word)

    # ------------------------------------------------------------ commands

    def _is_command(self, assigned: re.Match[str]) -> bool:
        """Whether what is assigned is the result of a command; behind LET it may be an expression."""
        word, behind = assigned[3], assigned[4]
        if not self._is_verb(word, assigned.end()):
            return False
        if not assigned[1]:
            return True
        is_call = behind.endswith("(") and (word in FUNCTIONS or word.lower() not in VERBS)
        return not is_call and word not in self.bare_names

    def _is_verb(self, word: str, at: int) -> bool:
        """Whether a word begins a command: a verb, or the name of a tool with an underscore."""
        after = self.text[at + len(word) : self.line_end(at)].lstrip(" \t")
        if not word or word.startswith(("@", "?", "$")) or after.startswith((":", "=")):
            return False
        is_verb = word.lower() in VERBS
        if word.upper() in WORDS and not (is_verb and word.lower() == "set" and after.startswith(('"', "'"))):
            return False
        return is_verb or "_" in word.strip("_")

    def stray(self, start: int, word: str) -> Stop:
        """The error for a line that is no statement and no command."""
        if word.isidentifier() and word.upper() not in OTHER_WORDS:
            meant = did_you_mean(word.lower(), tuple(VERBS), 1)
            if meant:
                end = self.pos + len(word)
                return self.error(
                    "MIC012", f"{word} is not a verb", self.pos, end, help=f"did you mean {meant[0]}?"
                )
        return super().stray(start, word)

    def values(self, of: str) -> tuple[Expression, ...]:
        """The values of a statement, in parentheses or behind it."""
        if self.skip() == "(" or self.at_line_end():
            return super().values(of)
        start = self.pos
        values, named = self.values_of_command()
        if named:
            raise self.error("LTP023", f"{of} takes no named values", start, self.pos)
        return values

    def command(self, own: str, start: int, comments: list[str]) -> Act:
        """`verb value name=value > x ON_FAIL …`."""
        self.skip()
        at = self.pos
        word = self.word()
        self.pos += len(word)
        verb = VERBS.get(word.lower())
        if self.text.startswith("(", self.pos):
            end = self.pos
            values, named = self.arguments(word)
            written = self.text[end + 1 : self.pos - 1]
            super().loose("LTP115", "the values of a command stand behind it", end, self.pos, f" {written}")
        else:
            values, named = self.values_of_command()
        if verb is None:
            tool, positional = word.upper(), values
        else:
            tool = verb.tool
            kept: dict[str, Expression] = {}
            given = [_kept(one, kept) for one in values]
            try:
                bound, more = bind(verb, given, tuple((name, _kept(value, kept)) for name, value in named))
            except Misfit as misfit:
                help_ = f"write {verb.usage}"
                raise self.error("MIC013", f"{word}: {misfit}", at, self.pos, help=help_) from None
            positional = tuple(_given_back(one, kept) for one in bound)
            named = tuple((name, _given_back(value, kept)) for name, value in more)
        self.head_comments(start, comments)
        into = self.into()
        recovery = read_recovery(self, comments)
        positional, named = with_query_parameters(tool, positional, named)
        return Act(own, tool, positional, named, into, recovery, is_named=bool(own), span=self.since(start))

    def values_of_command(self) -> tuple[tuple[Expression, ...], tuple[tuple[str, Expression], ...]]:
        """The values behind a verb, up to `>`, ON_FAIL, a comment or the end of the line."""
        values: list[Expression] = []
        named: dict[str, Expression] = {}
        is_bare = True
        while not self.at_line_end() and self.skip() not in {">", ";", ","}:
            if self.word().upper() in {"ON_FAIL", "FINALLY"}:
                break
            name = _NAMED.match(self.text, self.pos)
            if name is not None:
                self.pos = name.end()
                named[name[1]] = self.operand()
            elif named:
                raise self.error("LTP026", "this value has no name, but stands after one that has")
            else:
                if not is_bare:
                    refuse_clause(
                        self, self.bare_names, "write a condition before its command: if … { respond … }"
                    )
                is_bare = self.text[self.pos].isalpha()
                values.append(self.operand())
                is_bare = is_bare and isinstance(values[-1], Literal)
        return tuple(values), tuple(named.items())

    def operand(self) -> Expression:
        """A value; a bare word that is no variable is a text, with a hint."""
        self.skip()
        start = self.pos
        word = _WORD.match(self.text, start)
        known = self.word().partition(".")[0] in self.bare_names or self.word() in {"true", "false", "null"}
        if word is not None and not known and not word[0][0].isdigit() and word[0][0] not in "-.":
            self.pos = word.end()
            super().loose("MIC103", "a text stands in quotes", start, self.pos, f'"{word[0]}"')
            return Literal(word[0])
        try:
            reading = read_operand(self.text, start, self.bare_names)
        except NotAnExpression as error:
            raise self._not_an_expression(error, in_brackets=False) from None
        self.pos = reading.end
        return reading.expression


def _kept(node: Expression, kept: dict[str, Expression]) -> Value:
    """A value as the table of verbs knows it: literals as they are, all else under a name of its own."""
    if isinstance(node, Literal):
        return node
    if isinstance(node, Display) and node.kind is Kind.LIST:
        literals = tuple(one for one in node.items if isinstance(one, Literal))
        if len(literals) == len(node.items):
            return ListExpr(literals, node.span)
    name = f"v{len(kept)}"
    kept[name] = node
    return Ref(name)


def _given_back(value: Value, kept: dict[str, Expression]) -> Expression:
    match value:
        case Literal():
            return value
        case ListExpr(items=items, span=span):
            return Display(Kind.LIST, tuple(_given_back(one, kept) for one in items), span)
        case Ref(name=name):
            return kept[name]
        case _:
            raise AssertionError(value)  # `_kept` makes no others
