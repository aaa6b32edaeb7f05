"""The Pygments lexer for LTP, available in any tool that uses Pygments once callsheet is installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from pygments.lexer import Lexer
from pygments.token import (
    Comment,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
    _TokenType,  # pyright: ignore[reportPrivateUsage] - the type of all tokens has no other name
)

from callsheet.views.highlight.rules import Scope, scan

TOKENS: dict[Scope, _TokenType] = {
    Scope.COMMENT: Comment.Single,
    Scope.MARKER: Keyword.Namespace,
    Scope.LABEL: Name.Label,
    Scope.KEYWORD: Keyword,
    Scope.WORD: Operator.Word,
    Scope.OPERATION: Name.Builtin,
    Scope.TOOL: Name.Function,
    Scope.VARIABLE: Name.Variable,
    Scope.PATH: Name.Attribute,
    Scope.CAST: Keyword.Type,
    Scope.ARGUMENT: Name.Attribute,
    Scope.STRING: String,
    Scope.ESCAPE: String.Escape,
    Scope.NUMBER: Number,
    Scope.CONSTANT: Keyword.Constant,
    Scope.OPERATOR: Operator,
    Scope.BRACKET: Punctuation,
}
"""The Pygments token of each scope."""


class LtpLexer(Lexer):
    """A lexer for plans in LTP text.

    >>> from pygments import highlight
    >>> from pygments.formatters import NullFormatter
    >>> highlight("S1: @RESPOND ($x)", LtpLexer(), NullFormatter())
    'S1: @RESPOND ($x)\\n'
    """

    name = "LTP plan"
    aliases: ClassVar[Sequence[str]] = ["ltp"]
    filenames: ClassVar[Sequence[str]] = ["*.ltp"]
    mimetypes: ClassVar[Sequence[str]] = ["text/x-ltp"]

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, _TokenType, str]]:
        """Yields offset, token and text of every piece of a text, white space and prose included."""
        at = 0
        for span, scope in scan(text):
            if span.start > at:
                yield at, Text, text[at : span.start]
            yield span.start, TOKENS[scope], text[span.start : span.end]
            at = span.end
        if at < len(text):
            yield at, Text, text[at:]
