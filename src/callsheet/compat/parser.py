"""The documented parser: from text to a plan, or None."""

from __future__ import annotations

import logging

from callsheet.compat.models import LTPPlan
from callsheet.diagnostics import render_all
from callsheet.frontends.ltp import parse

_log = logging.getLogger(__name__)


class LTPParser:
    """Parses LTP text."""

    @staticmethod
    def parse(raw: str) -> LTPPlan | None:
        """The plan in a text; None, with the diagnostics in the log, if it has errors or no step.

        For None (a model without an answer) it returns None too; nothing is raised.

        >>> LTPParser.parse('S1: @RESPOND ("hello")').steps[0].tool
        '@RESPOND'
        """
        result = parse(raw if isinstance(raw, str) else "")  # pyright: ignore[reportUnnecessaryIsInstance]
        if result.plan is None:
            _log.warning("the plan does not parse:\n%s", render_all(result.diagnostics, result.source))
            return None
        return LTPPlan.of(result.plan, result.diagnostics)
