"""Renders a dry run as JSON data; its schema is documented in `docs/cli.md`.

Every value is an object with a tag, so that a placeholder cannot be confused with a value: `{"value"}` is
known, `{"unknown"}` is a placeholder, `{"text"}`, `{"list"}` and `{"dict"}` may contain both.
"""

from __future__ import annotations

from typing import Any

from callsheet.ir import plan_hash
from callsheet.machine.forecasting import (
    Fields,
    Forecast,
    Foreseen,
    Items,
    ModelUse,
    StepForecast,
    Text,
    Times,
    Totals,
    Unknown,
    Visit,
)
from callsheet.views.dry_run.verdict import PolicyVerdict, Remark, RemarkKind
from callsheet.views.dry_run.words import action_word, cost_of


def dry_run_json(
    forecast: Forecast, totals: Totals, price: float | None, verdict: PolicyVerdict | None = None
) -> dict[str, Any]:
    """Returns the dry run as data: steps in order, totals, what cannot be predicted, the policy's verdict.

    `price` is that of a million prompt tokens, None if unknown; `verdict` is the verdict of a policy, if any.
    """
    return {
        "plan_hash": plan_hash(forecast.plan),
        "steps": [_step(step) for step in forecast.steps],
        "totals": _totals(totals, price),
        "unforeseen": list(forecast.unforeseen),
        **({} if verdict is None else {"policy": _policy(verdict)}),
    }


def _policy(verdict: PolicyVerdict) -> dict[str, Any]:
    return {
        "name": verdict.policy,
        "ok": not verdict.is_refused,
        "steps": [{"id": step, **_remarks(remarks)} for step, remarks in verdict.steps.items()],
        "plan": _remarks(verdict.plan),
    }


def _remarks(remarks: tuple[Remark, ...]) -> dict[str, Any]:
    return {
        "refuses": [
            {"code": remark.code, "message": remark.text, "way": remark.path}
            for remark in remarks
            if remark.kind is RemarkKind.REFUSES
        ],
        "asks": [remark.text for remark in remarks if remark.kind is RemarkKind.NEEDS_APPROVAL],
        "sees_to": [remark.text for remark in remarks if remark.kind is RemarkKind.ENFORCES],
    }


def _step(step: StepForecast) -> dict[str, Any]:
    out: dict[str, Any] = {
        "id": step.step.id,
        "action": action_word(step.step.action),
        "when": str(step.when),
        "times": _times(step.times),
        "total": _times(step.total),
        "repeats": step.repeats,
        "depends_on": list(step.depends_on),
        "group": step.step.group,
    }
    if step.tool is not None:
        out["tool"] = step.tool
        out["effect"] = str(step.effect)
        out["effect_declared"] = step.is_declared
        out["needs_approval"] = step.needs_approval
    if step.tool is not None or step.models is not None:
        out["model_calls"] = None if step.models is None else _models(step.models)
    if step.why_not is not None:
        out["why_not"] = step.why_not
    if step.step.foreach is not None:
        out["items"] = _value(step.items)
        out["per_item"] = step.is_per_item
    out["visits"] = [_visit(visit) for visit in step.visits]
    if step.has_result:
        source = "assumed" if step.is_assumed else "computed" if step.is_computed else "simulated"
        out["result"] = {"is": source, **_value(step.result)}
    return out


def _visit(visit: Visit) -> dict[str, Any]:
    return {
        "item": visit.item,
        "sure": visit.is_sure,
        "inputs": [_value(value) for value in visit.inputs],
        "arguments": {name: _value(value) for name, value in visit.arguments},
    }


def _value(value: Foreseen) -> dict[str, Any]:
    match value:
        case Unknown():
            return {"unknown": _unknown(value)}
        case Text(parts=parts):
            return {
                "text": [part if isinstance(part, str) else {"unknown": _unknown(part)} for part in parts]
            }
        case Items(items=items):
            return {"list": [_value(item) for item in items]}
        case Fields(pairs=pairs):
            return {"dict": {key: _value(part) for key, part in pairs}}
        case _:
            return {"value": value}


def _unknown(value: Unknown) -> dict[str, Any]:
    return {"name": str(value), "step": value.step, "path": list(value.path), "type": value.kind}


def _times(times: Times) -> dict[str, int | None]:
    return {"least": times.least, "most": times.most}


def _models(use: ModelUse) -> dict[str, Any]:
    return {
        "least": use.least,
        "most": use.most,
        "prompt_tokens": use.tokens,
        "prompt_known": use.is_whole,
    }


def _totals(totals: Totals, price: float | None) -> dict[str, Any]:
    return {
        "calls": _times(totals.calls),
        "tools": [
            {"tool": name, "effect": str(effect), "effect_declared": declared, **_times(times)}
            for name, effect, declared, times in totals.tools
        ],
        "effects": {str(effect): _times(times) for effect, times in totals.effects},
        "writes": _times(totals.writes),
        "model_calls": _times(totals.model_calls),
        "prompt_tokens": totals.prompt_tokens,
        "prompts_known": totals.prompts_are_whole,
        "prompt_cost": cost_of(totals, price),
        "needs_approval": list(totals.to_approve),
    }
