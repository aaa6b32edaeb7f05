"""The lexical highlighting rules for LTP, generated from the parser's keyword tables.

Out: rules and regions, in the order in which they are tried. The patterns have the same meaning in Python
and Oniguruma. No rule matches past the end of a line, so that an editor can highlight line by line.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from callsheet.frontends.ltp.words import CONTROL_SPELLINGS
from callsheet.frontends.values.reader import LABEL, NAME
from callsheet.ir import Cast, CompareOp
from callsheet.ir.operations import AGENT_OPERATIONS, HUMAN_OPERATIONS, MODEL_OPERATIONS, TRANSFORMS


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


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern; `scopes` are those of its groups in order, or without groups that of the whole match."""

    pattern: str
    scopes: tuple[Scope | None, ...]


@dataclass(frozen=True, slots=True)
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
    return "|".join(word.replace("-", r"\-") for word in sorted(words, key=lambda w: (-len(w), w)))


_PATH = r"(?:\.\w+|\[[ \t]*(?:-?\d+|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')[ \t]*\])*"
_NEXT_STEP = rf"(?=^[ \t]*(?:{LABEL}[ \t]*:[ \t]*[@?]|PLAN_END\b|\}}[ \t]*$))"
"""Ends an unterminated text or guard: the next line that certainly begins another step."""
_CASTS = _any(tuple(str(cast) for cast in Cast))
_OPERATORS = r"==|!=|>=|<=|>|<"
_OPERATIONS = MODEL_OPERATIONS | AGENT_OPERATIONS | TRANSFORMS | HUMAN_OPERATIONS
_ENDINGS = tuple(word for word in CONTROL_SPELLINGS if word != "GOTO")
assert {str(op) for op in CompareOp} == {*_OPERATORS.split("|"), "contains"}

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

_VALUES: tuple[Rule | Region, ...] = (
    COMMENT,
    *TEXTS,
    _BRACED,
    Rule(rf"(\${NAME})({_PATH})", (Scope.VARIABLE, Scope.PATH)),
    Rule(r"(?<![\w.])-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])", (Scope.NUMBER,)),
    Rule(r"\b(?i:true|false|null|none)\b", (Scope.CONSTANT,)),
)

CONDITION: tuple[Rule | Region, ...] = (
    *_VALUES,
    Rule(r"\b(?:AND|OR|NOT|IN)\b|\b(?i:IS_EMPTY|NOT_EMPTY|contains)\b", (Scope.WORD,)),
    Rule(_OPERATORS, (Scope.OPERATOR,)),
    Rule(r"[()\[\]{},:]", (Scope.BRACKET,)),
)
"""The rules between a guard's word and THEN."""

ROOT: tuple[Rule | Region, ...] = (
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
    Rule(
        rf"(>)[ \t]*(\$?{NAME})(?:[ \t]*(:)[ \t]*({_CASTS})\b)?",
        (Scope.OPERATOR, Scope.VARIABLE, Scope.BRACKET, Scope.CAST),
    ),
    Rule(rf"(?<![$\w])({NAME})[ \t]*(=)(?!=)", (Scope.ARGUMENT, Scope.OPERATOR)),
    *_VALUES,
    Rule(r"[()\[\]{},:]", (Scope.BRACKET,)),
)
"""The rules everywhere else."""
