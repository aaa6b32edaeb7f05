"""Syntax highlighting by one table of lexical rules for each spelling: spans with scopes, a TextMate grammar.

The rules are generated from the parser's keyword tables.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final, NamedTuple

from callsheet.diagnostics import Span
from callsheet.frontends.expressions.names import FUNCTIONS, VERSION_1
from callsheet.frontends.ltp.words import CONTROL_SPELLINGS, VERSION_2
from callsheet.frontends.micro.verbs import CONTROLS, VERBS
from callsheet.frontends.spelling import Syntax
from callsheet.frontends.structured.lines import ID_SHAPE, WORDS
from callsheet.frontends.values.reader import LABEL, NAME
from callsheet.ir import Cast, CompareOp
from callsheet.ir.failing import Failing
from callsheet.ir.operations import AGENT_OPERATIONS, HUMAN_OPERATIONS, MODEL_OPERATIONS, TRANSFORMS
from callsheet.ir.types import Basic


class Scope(StrEnum):
    """The kind of a piece of text."""

    COMMENT = "comment"
    MARKER = "marker"
    """`PLAN_START`, `PLAN_END`."""
    LABEL = "label"
    """The id of a step."""
    KEYWORD = "keyword"
    """A control word: guards, `@PARALLEL`, `ON_FAIL`, `GOTO`, `@RESPOND`, …"""
    WORD = "word"
    """A word inside a condition: `AND`, `contains`, `IS_EMPTY`, …"""
    OPERATION = "operation"
    """An operation of callsheet itself, with its `@`."""
    TOOL = "tool"
    """Any other tool, with its `@`."""
    VARIABLE = "variable"
    PATH = "path"
    """The path after a variable's name: `.field[0]`."""
    CAST = "cast"
    ARGUMENT = "argument"
    """The name of an argument."""
    STRING = "string"
    ESCAPE = "escape"
    NUMBER = "number"
    CONSTANT = "constant"
    """`true`, `false`, `null`."""
    OPERATOR = "operator"
    BRACKET = "bracket"
    """Brackets, commas and colons."""


@dataclass(frozen=True, slots=True, eq=False)  # a scan finds what it compiled of one by its identity
class Rule:
    """A pattern; `scopes` are those of its groups in order, or without groups that of the whole match."""

    pattern: str
    scopes: tuple[Scope | None, ...]


@dataclass(frozen=True, slots=True, eq=False)  # as above
class Region:
    """The text from a match of `begin` to one of `end`; `end` is tried before the rules `inside`.

    `begin_scope` and `end_scope` are the scopes of the delimiters, `scope` is that of the text between which
    no rule matches.
    """

    begin: str
    end: str
    inside: tuple[Rule | Region, ...]
    scope: Scope | None = None
    begin_scope: Scope | None = None
    end_scope: Scope | None = None


def _any(words: frozenset[str] | tuple[str, ...]) -> str:
    """Returns an alternation of the words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=lambda w: (-len(w), w)))


_PATH = r"(?:\.\w+|\[[ \t]*(?:-?\d+|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')[ \t]*\])*"
_NEXT_STEP = rf"(?=^[ \t]*(?:{LABEL}[ \t]*:[ \t]*[@?]|PLAN_END\b|\}}[ \t]*$))"
"""Ends an unterminated text or guard: the next line that certainly begins another step."""
_CASTS = _any(tuple(str(cast) for cast in Cast))
_OPERATORS = r"==|!=|>=|<=|>|<"
_OPERATIONS = MODEL_OPERATIONS | AGENT_OPERATIONS | TRANSFORMS | HUMAN_OPERATIONS
_ENDINGS = tuple(word for word in CONTROL_SPELLINGS if word != "GOTO")
assert {str(op) for op in CompareOp} == {*_OPERATORS.split("|"), "contains"}

_BESIDE = frozenset(
    {
        "THEN",
        "WHILE",
        "IN",
        "ORDER",
        "TOGETHER",
        "STOP",
        "FIRST",
        "WITHIN",
        "DONE",
        "MAX",
        "LIMIT",
        "SKIP",
        "UNDO",
        "AS",
        "FROM",
        "LIBRARY",
        "SECRET",
    }
)
"""The words of version 2 that begin no line."""

_ESCAPE = Rule(r"\\(?:u[0-9A-Fa-f]{4}|[^\n])", (Scope.ESCAPE,))
_NO_REFERENCE = Rule(r"\$\$", (Scope.STRING,))
_BRACED = Rule(rf"(\$\{{{NAME})({_PATH})(\}})", (Scope.VARIABLE, Scope.PATH, Scope.VARIABLE))
_IN_TEXT = (_ESCAPE, _NO_REFERENCE, _BRACED, Rule(rf"(\${NAME})((?:\.\w+)*)", (Scope.VARIABLE, Scope.PATH)))


def _text(prefix: str, quote: str, *, is_raw: bool, holds_references: bool) -> Region:
    """Returns the region of a quoted text; a raw text with single quotes ends with its line at the latest."""
    end = quote if len(quote) == 3 else f"{quote}|$" if is_raw else f"{quote}|{_NEXT_STEP}"
    inside = () if is_raw else _IN_TEXT if holds_references else (_ESCAPE,)
    return Region(prefix + quote, end, inside, Scope.STRING, Scope.STRING, Scope.STRING)


TEXTS = (
    _text(r"\b[rR]", '"""', is_raw=True, holds_references=False),
    _text(r"\b[rR]", "'''", is_raw=True, holds_references=False),
    _text(r"\b[rR]", '"', is_raw=True, holds_references=False),
    _text(r"\b[rR]", "'", is_raw=True, holds_references=False),
    _text("", '"""', is_raw=False, holds_references=True),
    _text("", "'''", is_raw=False, holds_references=False),
    _text(r"(?<!\w)", '"', is_raw=False, holds_references=True),
    _text(r"(?<!\w)", "'", is_raw=False, holds_references=False),
)

COMMENT = Rule(r"#[^\n]*", (Scope.COMMENT,))

VALUES: tuple[Rule | Region, ...] = (
    COMMENT,
    *TEXTS,
    _BRACED,
    Rule(rf"(\${NAME})({_PATH})", (Scope.VARIABLE, Scope.PATH)),
    Rule(r"(?<![\w.])-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])", (Scope.NUMBER,)),
    Rule(r"\b(?i:true|false|null|none)\b", (Scope.CONSTANT,)),
)

OUTPUT = Rule(
    rf"(>)[ \t]*(\$?{NAME})(?:[ \t]*(:)[ \t]*({_CASTS})\b)?",
    (Scope.OPERATOR, Scope.VARIABLE, Scope.BRACKET, Scope.CAST),
)
"""The output of a step."""

CONDITION: tuple[Rule | Region, ...] = (
    *VALUES,
    Rule(r"\b(?:AND|OR|NOT|IN)\b|\b(?i:IS_EMPTY|NOT_EMPTY|contains)\b", (Scope.WORD,)),
    Rule(_OPERATORS, (Scope.OPERATOR,)),
    Rule(r"[()\[\]{},:]", (Scope.BRACKET,)),
)
"""The rules between a guard's word and THEN."""

_HEADER = rf"^[ \t]*#[ \t]*ltp:[ \t]*{VERSION_2}[ \t]*$"
"""The line from which a text is version 2 of the language."""
_NEVER = r"(?!)"
_TYPES = _any((*(str(basic) for basic in Basic), "list", "dict"))
_BARE = _any(tuple((WORDS - {"IF", "FOREACH", "REPEAT", "RESPOND", "PARALLEL"}) | _BESIDE))


def _expressions(*, in_text: bool) -> tuple[Rule | Region, ...]:
    """The rules of an expression; in the braces of a text it has no texts with texts in them."""
    hole: tuple[Rule | Region, ...] = (
        ()
        if in_text
        else (
            Region(
                r"\$\{",
                r"\}",
                _expressions(in_text=True),
                begin_scope=Scope.VARIABLE,
                end_scope=Scope.VARIABLE,
            ),
        )
    )
    reference = Rule(rf"(\${NAME})((?:\.\w+)*)", (Scope.VARIABLE, Scope.PATH))
    inside = (_ESCAPE, *hole, *((reference,) if not in_text else ()))
    texts = tuple(
        Region(prefix + quote, quote, () if prefix else inside, Scope.STRING, Scope.STRING, Scope.STRING)
        for quote in ('"""', "'''", '"', "'")
        for prefix in (r"\b[rR]", "")
    )
    return (
        *texts,
        Rule(rf"(\${NAME})({_PATH})", (Scope.VARIABLE, Scope.PATH)),
        Rule(rf"(?<=\$\{{)({NAME})((?:\.\w+)*)(?![\w(])", (Scope.VARIABLE, Scope.PATH)),
        Rule(r"(?<![\w.])(?:0|[1-9][0-9_]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])", (Scope.NUMBER,)),
        Rule(r"\b(?:True|False|None|true|false|null)\b", (Scope.CONSTANT,)),
        Rule(r"\b(?:and|or|not|in|is|if|else|for|lambda)\b", (Scope.WORD,)),
        Rule(rf"\b(?:{_any(FUNCTIONS | VERSION_1)})(?=\()", (Scope.OPERATION,)),
        Rule(rf"\b(?:{_TYPES})\b(?!\()", (Scope.CAST,)),
        Rule(rf"(?<![$\w.])({NAME})[ \t]*(=)(?!=)", (Scope.ARGUMENT, Scope.OPERATOR)),
        Rule(r"\?\?|\*\*|//|==|!=|>=|<=|->|[-+*/%|&^<>=?]", (Scope.OPERATOR,)),
        Rule(r"[()\[\]{},:]", (Scope.BRACKET,)),
    )


TREE: tuple[Rule | Region, ...] = (
    COMMENT,
    Rule(rf"^[ \t]*({ID_SHAPE})[ \t]*(:)(?=[ \t]*[@?A-Za-z])", (Scope.LABEL, Scope.BRACKET)),
    Rule(r"\?(?:IF|FOREACH|REPEAT)\b|\bELSE[ \t]+IF\b", (Scope.KEYWORD,)),
    Rule(r"@(?:RESPOND|RETRY)\b|@PARALLEL(?=[ \t]*\{)", (Scope.KEYWORD,)),
    Rule(rf"(?<![$\w.])(?:{_BARE})\b(?![ \t]*=)", (Scope.KEYWORD,)),
    Rule(rf"(?<![$\w.])(?:{_any(tuple(Failing))})\b", (Scope.CONSTANT,)),
    Rule(rf"@(?:{_any(_OPERATIONS)})\b", (Scope.OPERATION,)),
    Rule(r"@[A-Za-z0-9_]+", (Scope.TOOL,)),
    *_expressions(in_text=False),
)
"""The rules of a text of version 2, behind its header."""

ROOT: tuple[Rule | Region, ...] = (
    Region(_HEADER, _NEVER, TREE, begin_scope=Scope.COMMENT),
    Rule(rf"^[ \t]*(?:(?:[-*+•]|[0-9]+[.)])[ \t]+)?({LABEL})[ \t]*(:)(?![:/])", (Scope.LABEL, Scope.BRACKET)),
    Rule(r"\b(?i:PLAN_START|PLAN_END)\b", (Scope.MARKER,)),
    Region(
        r"[?@][ \t]*(?i:FOREACH|IF)\b|\b(?:FOREACH|IF)\b",
        rf"\b(?i:THEN)\b|{_NEXT_STEP}",
        CONDITION,
        begin_scope=Scope.KEYWORD,
        end_scope=Scope.KEYWORD,
    ),
    Rule(r"@?\b(?i:PARALLEL)(?=[ \t]*(?:\{|$))", (Scope.KEYWORD,)),
    Rule(rf"(@?\b(?i:GOTO)\b)(?:[ \t]+({LABEL}))?", (Scope.KEYWORD, Scope.LABEL)),
    Rule(rf"@?\b(?i:{_any(_ENDINGS)})\b(?![ \t]*=)", (Scope.KEYWORD,)),
    Rule(r"@(?i:RETRY)\b|\b(?i:ON_FAIL)\b", (Scope.KEYWORD,)),
    Rule(rf"@(?i:{_any(_OPERATIONS)})\b", (Scope.OPERATION,)),
    Rule(r"@[A-Za-z0-9_]+", (Scope.TOOL,)),
    OUTPUT,
    Rule(rf"(?<![$\w])({NAME})[ \t]*(=)(?!=)", (Scope.ARGUMENT, Scope.OPERATOR)),
    *VALUES,
    Rule(r"[()\[\]{},:]", (Scope.BRACKET,)),
)
"""The rules everywhere else."""


class Piece(NamedTuple):
    """A span of text and its scope."""

    span: Span
    scope: Scope


class _State(NamedTuple):
    """A list of rules compiled to one pattern; group `rN` is rule N, group `end` the end of the region."""

    pattern: re.Pattern[str]
    rules: tuple[tuple[Rule | Region, re.Pattern[str]], ...]


def scan(text: str, rules: tuple[Rule | Region, ...] = ROOT) -> Iterator[Piece]:
    """Yields the pieces of a text, by default of LTP text.

    >>> [str(piece.scope) for piece in scan('S1: @A ("$y") > $z')][:5]
    ['label', 'bracket', 'tool', 'bracket', 'string']
    """
    stack: list[Region | None] = [None]
    root = _root(rules)
    pos = 0
    while True:
        region = stack[-1]
        state = root if region is None else _inside(region)
        match = state.pattern.search(text, pos)
        within = None if region is None else region.scope
        end = len(text) if match is None else match.start()
        if within is not None and end > pos:
            yield Piece(Span(pos, end), within)
        if match is None:
            return
        pos = match.end()
        if match.lastgroup == "end":
            stack.pop()
            scope = region.end_scope if region is not None else None
            if scope is not None and match[0]:
                yield Piece(Span(*match.span()), scope)
            continue
        rule, own = state.rules[int((match.lastgroup or "r0")[1:])]
        if isinstance(rule, Region):
            if rule.begin_scope is not None:
                yield Piece(Span(*match.span()), rule.begin_scope)
            stack.append(rule)
        else:
            yield from _pieces(rule, own, text, match.start())


def _pieces(rule: Rule, own: re.Pattern[str], text: str, start: int) -> Iterator[Piece]:
    match = own.match(text, start)
    if match is None:
        return
    if not own.groups:
        (scope,) = rule.scopes
        if scope is not None:
            yield Piece(Span(*match.span()), scope)
        return
    for number, scope in enumerate(rule.scopes, 1):
        span = Span(*match.span(number))
        if scope is not None and span.start < span.end:
            yield Piece(span, scope)


@cache
def _root(rules: tuple[Rule | Region, ...]) -> _State:
    return _state(rules, None)


@cache
def _inside(region: Region) -> _State:
    return _state(region.inside, region.end)


def _state(rules: Sequence[Rule | Region], end: str | None) -> _State:
    patterns = [rule.begin if isinstance(rule, Region) else rule.pattern for rule in rules]
    options = [] if end is None else [f"(?P<end>{end})"]
    options += [f"(?P<r{number}>{pattern})" for number, pattern in enumerate(patterns)]
    compiled = re.compile("|".join(options), re.MULTILINE)
    own = tuple((rule, re.compile(p, re.MULTILINE)) for rule, p in zip(rules, patterns, strict=True))
    return _State(compiled, own)


SCOPE_NAME = "source.ltp"

NAMES: dict[Scope, str] = {
    Scope.COMMENT: "comment.line.number-sign.ltp",
    Scope.MARKER: "keyword.other.marker.ltp",
    Scope.LABEL: "entity.name.label.ltp",
    Scope.KEYWORD: "keyword.control.ltp",
    Scope.WORD: "keyword.operator.word.ltp",
    Scope.OPERATION: "support.function.operation.ltp",
    Scope.TOOL: "entity.name.function.tool.ltp",
    Scope.VARIABLE: "variable.other.ltp",
    Scope.PATH: "variable.other.property.ltp",
    Scope.CAST: "storage.type.cast.ltp",
    Scope.ARGUMENT: "variable.parameter.ltp",
    Scope.STRING: "string.quoted.ltp",
    Scope.ESCAPE: "constant.character.escape.ltp",
    Scope.NUMBER: "constant.numeric.ltp",
    Scope.CONSTANT: "constant.language.ltp",
    Scope.OPERATOR: "keyword.operator.ltp",
    Scope.BRACKET: "punctuation.ltp",
}
"""The TextMate name of each scope."""


def textmate_grammar() -> dict[str, Any]:
    """Returns the grammar.

    >>> textmate_grammar()["scopeName"]
    'source.ltp'
    """
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "LTP plan",
        "scopeName": SCOPE_NAME,
        "fileTypes": ["ltp"],
        "patterns": _patterns(ROOT),
    }


def _patterns(rules: Sequence[Rule | Region]) -> list[dict[str, Any]]:
    return [_region(rule) if isinstance(rule, Region) else _rule(rule) for rule in rules]


def _rule(rule: Rule) -> dict[str, Any]:
    if len(rule.scopes) == 1 and rule.scopes[0] is not None and not _has_groups(rule.pattern):
        return {"match": rule.pattern, "name": NAMES[rule.scopes[0]]}
    captures = {
        str(number): {"name": NAMES[scope]}
        for number, scope in enumerate(rule.scopes, 1)
        if scope is not None
    }
    return {"match": rule.pattern, "captures": captures}


def _region(region: Region) -> dict[str, Any]:
    region_rule: dict[str, Any] = {"begin": region.begin, "end": region.end}
    if region.scope is not None:
        region_rule["name"] = NAMES[region.scope]
    for key, scope in (("beginCaptures", region.begin_scope), ("endCaptures", region.end_scope)):
        if scope is not None and scope is not region.scope:
            region_rule[key] = {"0": {"name": NAMES[scope]}}
    if region.inside:
        region_rule["patterns"] = _patterns(region.inside)
    return region_rule


def _has_groups(pattern: str) -> bool:
    return re.compile(pattern).groups > 0


_BRACKETS: Final = Rule(r"[()\[\]{},:]", (Scope.BRACKET,))
_CODE_ESCAPE: Final = Rule(r"\\[^\n]", (Scope.ESCAPE,))

MICRO: Final[tuple[Rule | Region, ...]] = (
    COMMENT,
    *TEXTS,
    Rule(rf"^[ \t]*(?:(?:[-*+•]|[0-9]+[.)])[ \t]+)?({LABEL})[ \t]*(:)(?![:/])", (Scope.LABEL, Scope.BRACKET)),
    Rule(r"\b(?:PLAN_START|PLAN_END)\b", (Scope.MARKER,)),
    Rule(r"\??\b(?i:foreach|if)\b|@?\b(?i:parallel)(?=[ \t]*\{)|\b(?i:on_fail|retry)\b", (Scope.KEYWORD,)),
    Rule(rf"\b(goto)\b(?:[ \t]+({LABEL}))?", (Scope.KEYWORD, Scope.LABEL)),
    OUTPUT,
    Rule(rf"(?<![$\w])({NAME})(=)(?!=)", (Scope.ARGUMENT, Scope.OPERATOR)),
    Rule(rf"(?<![$\w.@])(?:{'|'.join(sorted(CONTROLS))})\b", (Scope.KEYWORD,)),
    Rule(rf"(?<![$\w.@])(?:{'|'.join(sorted(VERBS, key=len, reverse=True))})\b", (Scope.OPERATION,)),
    Rule(r"@[A-Za-z0-9_]+", (Scope.TOOL,)),
    Rule(r"\b(?:and|or|not|in|contains|empty|notempty)\b", (Scope.WORD,)),
    *VALUES,
    Rule(r"==|!=|>=|<=|>|<", (Scope.OPERATOR,)),
    _BRACKETS,
)

_REFERENCE: Final = Rule(r"\$\{[^}\n]*\}?", (Scope.VARIABLE,))
_KEY: Final = rf"(?:{NAME}|\"(?:[^\"\\\n]|\\.)*\")"
DATA: Final[tuple[Rule | Region, ...]] = (
    Rule(r"(?:^|(?<=[ \t]))#[^\n]*", (Scope.COMMENT,)),
    Rule(rf"(?:^|(?<=[{{,]))[ \t]*(?:-[ \t]+)*({_KEY})[ \t]*(:)(?=\s)", (Scope.PATH, Scope.BRACKET)),
    Rule(r"(\"(?:[^\"\\\n]|\\.)*\")[ \t]*(:)", (Scope.PATH, Scope.BRACKET)),
    Region('"', '"|$', (_CODE_ESCAPE, _REFERENCE), Scope.STRING, Scope.STRING, Scope.STRING),
    Region(r"(?<!\w)'", "'|$", (_REFERENCE,), Scope.STRING, Scope.STRING, Scope.STRING),
    _REFERENCE,
    Rule(r"(?<![\w.])-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])", (Scope.NUMBER,)),
    Rule(r"\b(?:true|false|null)\b", (Scope.CONSTANT,)),
    Rule(r"^[ \t]*(-)(?=\s)", (Scope.OPERATOR,)),
    _BRACKETS,
)
"""Both forms of a JSON plan."""

_CONSTANTS: Final = ("True", "False", "None")
_OPERATORS_IN_WORDS: Final = ("and", "or", "not", "in", "is")
_KEYWORDS: Final = sorted({*keyword.kwlist} - {*_CONSTANTS, *_OPERATORS_IN_WORDS})


def _python_text(letters: str, quote: str) -> Region:
    inside: tuple[Rule, ...] = () if "r" in letters else (_CODE_ESCAPE,)
    if "f" in letters:
        inside = (*inside, Rule(r"\{\{|\}\}", (Scope.STRING,)), Rule(r"\{[^{}\n]*\}", (Scope.VARIABLE,)))
    begin = f"(?<![\\w\"'])(?i:{letters}){quote}" if letters else f"(?i:\\b[bu])?{quote}"
    end = quote if len(quote) == 3 else f"{quote}|$"
    return Region(begin, end, inside, Scope.STRING, Scope.STRING, Scope.STRING)


PYTHON: Final[tuple[Rule | Region, ...]] = (
    COMMENT,
    *(
        _python_text(letters, quote)
        for quote in ('"""', "'''", '"', "'")
        for letters in ("fr", "rf", "br", "rb", "f", "r", "")
    ),
    Rule(r"^[ \t]*(@[\w.]+)", (Scope.MARKER,)),
    Rule(r"\b(def|class)[ \t]+(\w+)", (Scope.KEYWORD, Scope.LABEL)),
    Rule(r"\b(await)[ \t]+([\w.]+)(?=[ \t]*\()", (Scope.KEYWORD, Scope.TOOL)),
    Rule(rf"(?<![\w.])(?:{'|'.join(_KEYWORDS)})\b", (Scope.KEYWORD,)),
    Rule(rf"(?<![\w.])(?:{'|'.join(_OPERATORS_IN_WORDS)})\b", (Scope.WORD,)),
    Rule(rf"(?<![\w.])(?:{'|'.join(_CONSTANTS)})\b", (Scope.CONSTANT,)),
    Rule(r"(?<![\w.])(?:int|float|str|bool|bytes|list|dict|set|tuple)\b", (Scope.CAST,)),
    Rule(rf"^[ \t]*({NAME})(?=[ \t]*(?::[^=\n]*)?[-+*/%|&]?=(?!=))", (Scope.VARIABLE,)),
    Rule(rf"(?<![\w.])({NAME})(=)(?![=\s])", (Scope.ARGUMENT, Scope.OPERATOR)),
    Rule(rf"(?<![\w.]){NAME}(?=\()", (Scope.OPERATION,)),
    Rule(rf"(?<=\.){NAME}", (Scope.PATH,)),
    Rule(r"(?<![\w.])[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])", (Scope.NUMBER,)),
    Rule(r":=|->|\*\*|//|==|!=|>=|<=|[-+*/%|&^<>=~]", (Scope.OPERATOR,)),
    _BRACKETS,
)

RULES: Final[Mapping[Syntax, tuple[Rule | Region, ...]]] = {
    Syntax.LTP: ROOT,
    Syntax.MICRO: MICRO,
    Syntax.DAG: DATA,
    Syntax.PYTHON: PYTHON,
}
"""The rules of each spelling."""
