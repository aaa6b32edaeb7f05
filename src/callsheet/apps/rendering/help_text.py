"""Rewrites the help of diagnostics for HTTP and MCP, where command-line options do not apply.

In: diagnostics whose help names command-line options. Out: the same with the parameters of HTTP or MCP.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from callsheet.diagnostics import Diagnostic

_VARIABLE = re.compile(r"(?:(?:give it )?with |give )?--var (\w+)=(?:…|VALUE)")
_SYNTAX = re.compile(r"--syntax (\w+) reads")


@dataclass(frozen=True, slots=True)
class HelpRewriter:
    """Rewrites help for one interface; `variables` describes its parameter for variables."""

    variables: str

    def rewrite(self, hint: str) -> str:
        """Help for this interface.

        >>> HTTP.rewrite("it is null here; give it with --var city=… or set it with a step")
        'it is null here; give city in `inputs` or set it with a step'
        """
        text = _VARIABLE.sub(rf"give \1 in {self.variables}", hint)
        return _SYNTAX.sub(r"`syntax` \1 reads", text)

    def rewrite_all(self, diagnostics: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
        """Diagnostics with help for this interface."""
        return tuple(d if d.help is None else replace(d, help=self.rewrite(d.help)) for d in diagnostics)

    def rewrite_rows(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """A result as JSON data, with help for this interface in its `diagnostics`."""
        rows = data.get("diagnostics")
        if not isinstance(rows, list | tuple):
            return dict(data)
        return {**data, "diagnostics": [self._row(row) for row in cast("Sequence[object]", rows)]}

    def _row(self, row: object) -> object:
        if not isinstance(row, dict):
            return row
        fields = cast("dict[str, object]", row)
        hint = fields.get("help")
        return {**fields, "help": self.rewrite(hint)} if isinstance(hint, str) else fields


HTTP = HelpRewriter("`inputs`")
MCP = HelpRewriter("`variables` of the run (`inputs` where it is only checked)")
