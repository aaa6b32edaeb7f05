"""Renders the differences between two LCTL documents as lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from callsheet.trace.lctl.diff import Changed, Diff
from callsheet.trace.lctl.model import Entry
from callsheet.views.columns import cut, escaped

_MOST_VALUE = 60


def changes_text(diff: Diff) -> str:
    """Returns the differences: `+` added, `-` removed, `~` changed.

    >>> from callsheet.trace.lctl.diff import diff as differences
    >>> from callsheet.trace.lctl.model import Chain, Handoff
    >>> a = Handoff(Chain("c"), trace=(Entry(1, "reader", "Read", 0.9),))
    >>> b = Handoff(Chain("c"), trace=(Entry(1, "reader", "Read", 0.8),))
    >>> print(changes_text(differences(a, b)))
    ~ step 1 reader
        confidence: 0.9 → 0.8
    first divergence at step 1
    """
    if diff.is_equal:
        return "no difference (times, the chain's id and shifted step numbers are ignored)"
    return "\n".join(_lines(diff))


def _lines(diff: Diff) -> Iterator[str]:
    for change in diff.steps_changed:
        yield f"~ step {change.step or '?'} {_short(change.agent or '?')}"
        yield from (_change(name, values) for name, values in change.fields.items())
    yield from (f"- {_step(entry)}" for entry in diff.steps_removed)
    yield from (f"+ {_step(entry)}" for entry in diff.steps_added)
    for fact, fields in diff.facts_changed.items():
        yield f"~ fact {_short(fact)}"
        yield from (_change(name, values) for name, values in fields.items())
    yield from (f"- fact {_short(fact)}" for fact in diff.facts_removed)
    yield from (f"+ fact {_short(fact)}" for fact in diff.facts_added)
    for name, values in diff.rest_changed.items():
        yield f"~ {name}"
        yield _change("", values)
    if diff.first_divergence_step is not None:
        yield f"first divergence at step {diff.first_divergence_step}"


def _step(entry: Entry) -> str:
    return f"step {entry.step or '?'} {_short(entry.agent or '?')}: {_short(entry.action or '')}"


def _change(name: str, values: Changed) -> str:
    head = f"{name}: " if name else ""
    return f"    {head}{_shown(values.old)} → {_shown(values.new)}"


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, tuple):
        return _short(", ".join(map(str, cast("tuple[object, ...]", value))) or "none")
    return _short(str(value))


def _short(text: str) -> str:
    return cut(escaped(text[:400]), _MOST_VALUE)
