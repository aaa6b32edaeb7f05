"""Interprets the answer of a probe: whether a call took place.

In: what a probe returned, from a Python function or as JSON from another tool. Out: the value that the call
gave, that it was never made, or that this is unknown; an unclear JSON answer counts as unknown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias, cast

from callsheet.machine import TookPlace
from callsheet.ports.answers import as_json
from callsheet.ports.calls import CallContext, ToolFailed

Probed: TypeAlias = "TookPlace | Literal[False] | None"
"""`TookPlace(value)`: the call took place and gave this value; False: it did not; None: unknown."""
Prober: TypeAlias = "Callable[[dict[str, Any], CallContext], Awaitable[Probed]]"
"""Finds out whether a call with these arguments and this idempotency key took place."""


def probed(answer: object) -> Probed:
    """The answer of a Python probe; raises ToolFailed for anything that is not one.

    >>> probed(TookPlace(3)), probed(False), probed(None)
    (TookPlace(value=3), False, None)
    """
    if isinstance(answer, TookPlace):
        return TookPlace(as_json(answer.value))
    if answer is False or answer is None:
        return answer
    raise ToolFailed(
        f"it returned {type(answer).__name__}; a probe returns TookPlace(value), False (it did not happen)"
        " or None (unknown)"
    )


def probed_json(answer: object) -> Probed:
    """The answer of a probing tool: `{"happened": true, "value": …}`, `{"happened": false}`, else unknown.

    >>> probed_json({"happened": True, "value": 3}), probed_json({"happened": False}), probed_json("yes")
    (TookPlace(value=3), False, None)
    """
    if not isinstance(answer, Mapping):
        return None
    fields = cast("Mapping[str, Any]", answer)
    match fields.get("happened"):
        case True if "value" in fields:
            return TookPlace(fields["value"])
        case False:
            return False
        case _:
            return None
