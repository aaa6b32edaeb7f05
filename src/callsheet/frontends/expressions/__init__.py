"""The text of expressions of version 2: `read_expression` parses it, `format_expression` prints it."""

from callsheet.frontends.expressions.cursor import NotAnExpression
from callsheet.frontends.expressions.parser import read_expression, read_hole, read_text
from callsheet.frontends.expressions.printer import format_expression, format_hole, format_lines

__all__ = [
    "NotAnExpression",
    "format_expression",
    "format_hole",
    "format_lines",
    "read_expression",
    "read_hole",
    "read_text",
]
