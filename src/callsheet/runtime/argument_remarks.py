"""What a person who approves a call is told about its arguments: where they come from, misleading letters.

In: a question. Out: lines of text, which may contain control characters of the arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from callsheet.ir import JSON
from callsheet.runtime.answers import PendingAsk
from callsheet.views.lookalikes import lookalikes

_MEANINGS = {
    "U/pub": "untrusted, public",
    "U/priv": "untrusted, private",
    "T/priv": "trusted, private",
    "U/secret": "untrusted, secret",
    "T/secret": "trusted, secret",
}


def misleading_letters(ask: PendingAsk) -> Iterator[str]:
    """A line for each argument or input with words that read as others than they are."""
    inputs = ((f"({number})", value) for number, value in enumerate(ask.inputs, start=1))
    for name, value in [*(ask.args or {}).items(), *inputs]:
        words = lookalikes(value)
        if words:
            yield f"{name} has letters that look like Latin ones: {', '.join(words)}"


def origins(ask: PendingAsk) -> Iterator[str]:
    """A line for each argument with a label that is recorded: its sources, and who may read it."""
    for name, origin in (ask.labels or {}).items():
        yield f"{name} {_origin(origin)}"


def _origin(origin: JSON) -> str:
    if not isinstance(origin, dict):
        return f"has the label {origin}"
    known = cast("dict[str, JSON]", origin)
    label, steps = str(known.get("label")), known.get("from")
    sources = ", ".join(map(str, steps)) if isinstance(steps, list) else ""
    came_from = f"comes from {sources}" if sources else "comes from outside of the plan"
    meaning = _MEANINGS.get(label)
    return f"{came_from}: {label}" if meaning is None else f"{came_from}: {meaning} ({label})"
