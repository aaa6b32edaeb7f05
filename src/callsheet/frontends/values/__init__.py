"""The value grammar that the text front ends share: one reader, one parser, one printer."""

from callsheet.frontends.values.conditions import read_condition, read_guard_condition
from callsheet.frontends.values.parser import read_arguments, read_reference, read_value
from callsheet.frontends.values.printer import format_condition, format_text, format_value
from callsheet.frontends.values.reader import ParseResult, Reader, Stop
from callsheet.frontends.values.strings import read_string

__all__ = [
    "ParseResult",
    "Reader",
    "Stop",
    "format_condition",
    "format_text",
    "format_value",
    "read_arguments",
    "read_condition",
    "read_guard_condition",
    "read_reference",
    "read_string",
    "read_value",
]
