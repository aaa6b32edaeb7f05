"""Version 2 of the plan language as text: `read_structured` parses it, `format_structured` prints it."""

from callsheet.frontends.structured.document import read_structured
from callsheet.frontends.structured.lines import is_structured
from callsheet.frontends.structured.printer import format_structured

__all__ = ["format_structured", "is_structured", "read_structured"]
