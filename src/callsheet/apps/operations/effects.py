"""The effects that a branched run may have, as a JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from callsheet.runtime.effects_ahead import EffectAhead


def effect_json(effect: EffectAhead) -> dict[str, Any]:
    """An effect that a run may have, as a JSON object."""
    return {
        "step": effect.step,
        "tool": effect.tool,
        "effect": str(effect.effect),
        "may_call": list(effect.may_call),
        "calls": [
            {"key": c.key, "args": dict(c.args), "event": c.event, "in_doubt": c.in_doubt}
            for c in effect.calls
        ],
    }
