"""The documented parser: raw text to a plan, None where there is none."""

from __future__ import annotations

import logging

from callsheet.compat.models import LTPPlan
from callsheet.diagnostics import render_all
from callsheet.frontends.ltp import parse

_log = logging.getLogger(__name__)


class LTPParser:
    """Reads LTP text."""

    @staticmethod
    def parse(raw: str) -> LTPPlan | None:
        """The plan of a text; None, with the diagnostics in the log, where it has errors or no step.

        A model that gave no text at all (None) gave no plan; nothing is raised.

        >>> LTPParser.parse('S1: @RESPOND ("hello")').steps[0].tool
        '@RESPOND'
        """
        result = parse(raw if isinstance(raw, str) else "")  # pyright: ignore[reportUnnecessaryIsInstance]
        if result.plan is None:
            _log.warning("the plan does not parse:\n%s", render_all(result.diagnostics, result.source))
            return None
        return LTPPlan.of(result.plan, result.diagnostics)
