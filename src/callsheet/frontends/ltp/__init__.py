"""LTP text, the canonical spelling of a plan: `parse` reads it, `format_plan` writes it."""

from callsheet.frontends.ltp.parser import parse
from callsheet.frontends.ltp.printer import format_plan, format_step
from callsheet.frontends.values.result import ParseResult

__all__ = ["ParseResult", "format_plan", "format_step", "parse"]
