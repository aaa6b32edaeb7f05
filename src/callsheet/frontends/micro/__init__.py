"""Micro-CLI, the shorthand that models write: `parse_micro` reads it, `format_micro` writes it."""

from callsheet.frontends.micro.document import parse_micro
from callsheet.frontends.micro.printer import format_micro

__all__ = ["format_micro", "parse_micro"]
