"""Parser and printer of LTP text, the canonical syntax of plans."""

from callsheet.frontends.ltp.parser import parse
from callsheet.frontends.ltp.printer import format_plan, format_step
from callsheet.frontends.values.reader import ParseResult

__all__ = ["ParseResult", "format_plan", "format_step", "parse"]
