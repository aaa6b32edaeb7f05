"""The lexical rules of the spellings besides LTP text: Micro-CLI, JSON plans as JSON or YAML, Python.

In: the syntax of a text. Out: the rules by which `rules.scan` splits it.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import Final

from callsheet.frontends.micro.verbs import CONTROLS, VERBS
from callsheet.frontends.spelling import Syntax
from callsheet.frontends.values.reader import LABEL, NAME
from callsheet.views.highlight.rules import COMMENT, OUTPUT, ROOT, TEXTS, VALUES, Region, Rule, Scope

_BRACKETS: Final = Rule(r"[()\[\]{},:]", (Scope.BRACKET,))
_ESCAPE: Final = Rule(r"\\[^\n]", (Scope.ESCAPE,))

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
    Region('"', '"|$', (_ESCAPE, _REFERENCE), Scope.STRING, Scope.STRING, Scope.STRING),
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
    inside: tuple[Rule, ...] = () if "r" in letters else (_ESCAPE,)
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
