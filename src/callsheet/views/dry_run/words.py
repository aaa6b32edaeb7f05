"""Phrases for dry runs: actions, counts, values and costs as text."""

from __future__ import annotations

import json

from callsheet.ir import Action, Goto, word_of
from callsheet.machine.forecasting import (
    Fields,
    Foreseen,
    Items,
    StepForecast,
    Text,
    Times,
    Totals,
    Unknown,
    When,
)
from callsheet.views.columns import CUT, escaped

_MOST_PARTS = 40
_MOST_TEXT = 2_000


def action_word(action: Action) -> str:
    """Returns the action of a step without its arguments.

    >>> from callsheet.ir import Call
    >>> action_word(Call("READ_FILE")), action_word(Goto("S2"))
    ('@READ_FILE', 'GOTO S2')
    """
    return f"GOTO {action.target}" if isinstance(action, Goto) else word_of(action)


def counted(times: Times) -> str:
    """Returns a range of counts as text.

    >>> counted(Times(1, 1)), counted(Times(0, 4)), counted(Times(2, None))
    ('1', '0 to 4', '2 or more')
    """
    if times.most is None:
        return f"{times.least:,} or more"
    return f"{times.least:,}" if times.least == times.most else f"{times.least:,} to {times.most:,}"


def cost_of(totals: Totals, price: float | None) -> float | None:
    """Returns the minimum cost of the prompts, or None without a price.

    `price` is that of a million prompt tokens.
    """
    return None if price is None else totals.prompt_tokens * price / 1_000_000


def shown(value: Foreseen) -> str:
    """Returns a value on one line: JSON, with placeholders in angle brackets outside quotes.

    >>> shown(Text(("a ", Unknown("X result")))), shown("<X result>"), shown([1, "b"])
    ('"a " <X result>', '"<X result>"', '[1, "b"]')
    """
    match value:
        case Unknown():
            return escaped(str(value))
        case Text(parts=parts):
            texts = [escaped(str(p)) if isinstance(p, Unknown) else _json(p) for p in parts[:_MOST_PARTS]]
            return " ".join(texts + [CUT] * (len(parts) > _MOST_PARTS))
        case Items(items=items):
            inner = [shown(item) for item in items[:_MOST_PARTS]] + [CUT] * (len(items) > _MOST_PARTS)
            return f"[{', '.join(inner)}]"
        case Fields(pairs=pairs):
            inner = [f"{_json(key)}: {shown(part)}" for key, part in pairs[:_MOST_PARTS]]
            return f"{{{', '.join(inner + [CUT] * (len(pairs) > _MOST_PARTS))}}}"
        case _:
            return _json(value)


def _json(value: object) -> str:
    if isinstance(value, str) and len(value) > _MOST_TEXT:
        value = value[:_MOST_TEXT] + CUT
    return escaped(json.dumps(value, ensure_ascii=False, default=str)[: 2 * _MOST_TEXT])


def occurrence(step: StepForecast) -> str:
    """Returns when and how often a step acts: `always`, `maybe, for each item of <X result>`."""
    parts = [str(step.when)]
    if step.when is When.NEVER:
        return f"never: {step.why_not}"
    if step.is_per_item:
        parts.append(f"for each item of {shown(step.items)}")
    elif step.step.foreach is not None and step.tool is not None:
        parts.append(f"{counted(step.times)} of its items")
    if step.repeats:
        parts.append("repeatedly")
    return ", ".join(parts)
