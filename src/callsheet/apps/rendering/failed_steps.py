"""Renders the steps that failed in a run whose plan continued."""

from __future__ import annotations

from collections.abc import Sequence

from callsheet.apps.rendering.values import without_controls

_NAMED = 5
"""How many of the steps are named."""


def failed_steps_line(steps: Sequence[str]) -> str:
    """A line that names the first of the steps and counts them; `steps` is not empty.

    >>> failed_steps_line(["S1", "S4"])
    '2 steps failed and the plan continued: S1, S4 (ON_FAIL TERMINATE would end it)'
    """
    named = ", ".join(steps[:_NAMED]) + (f" and {len(steps) - _NAMED} more" if len(steps) > _NAMED else "")
    count = "1 step" if len(steps) == 1 else f"{len(steps)} steps"
    return (
        f"{count} failed and the plan continued: {without_controls(named)} (ON_FAIL TERMINATE would end it)"
    )
