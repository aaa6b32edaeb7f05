"""Renders the steps that failed in a run whose plan continued."""

from __future__ import annotations

from collections.abc import Sequence

from callsheet.apps.rendering.values import without_controls
from callsheet.machine import Outcome

_NAMED = 5
"""How many of the steps are named."""


def failures_line(steps: Sequence[str]) -> str:
    """A line on a run that is done with failures: it names the first of the steps; `steps` is not empty.

    >>> failures_line(["S1", "S4"])
    'done with failures: S1, S4 failed and the plan went on (ON_FAIL TERMINATE would end it)'
    """
    return f"{Outcome.DONE_WITH_FAILURES.words}: {failed_steps_words(steps)}"


def failed_steps_words(steps: Sequence[str]) -> str:
    """As `failures_line`, without the outcome.

    >>> failed_steps_words(["S1"])
    'S1 failed and the plan went on (ON_FAIL TERMINATE would end it)'
    """
    more = f" and {len(steps) - _NAMED} more" if len(steps) > _NAMED else ""
    named = without_controls(", ".join(steps[:_NAMED]))
    return f"{named}{more} failed and the plan went on (ON_FAIL TERMINATE would end it)"
