"""A dry run of a plan as JSON data: the same as its text, for programs, in the words of its plan."""

from __future__ import annotations

from typing import Any

from callsheet.ir import plan_hash
from callsheet.ir.tree import Foreach
from callsheet.machine.forecasting import (
    BlockForecast,
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
from callsheet.views.describe import Wording, wording_of
from callsheet.views.dry_run import (
    PolicyVerdict,
    Remark,
    RemarkKind,
    cost_of,
    title_of,
    unknown_text,
    word_of_forecast,
)


def dry_run_json(
    forecast: Forecast, totals: Totals, price: float | None, verdict: PolicyVerdict | None = None
) -> dict[str, Any]:
    """Returns the dry run as data: steps in order, totals, what cannot be predicted, the policy's verdict.

    `price` is that of a million prompt tokens, None if unknown; `verdict` is the verdict of a policy, if any.

        {"plan_hash", "steps": [step, …], "totals", "unforeseen": [text, …], "blocks": [block, …], "policy"}
        step: {"id", "action", "when", "times": {"least", "most"}, "total", "repeats", "depends_on", "group",
               "visits": [{"item", "sure", "inputs": [value, …], "arguments": {name: value}, "place"}, …],
               "tool", "effect", "effect_declared", "needs_approval", "model_calls",   of a call
               "items": value, "per_item", "within", "statement",       of a FOREACH, of a plan with blocks
               "result": {"is": "assumed" | "computed" | "simulated", and a value}, "why_not"}
        block: {"block", "id", "text", "when", "times", "within", "side_by_side", "items", "count", "at_once"}
        value: {"value": JSON} | {"unknown": {"name", "step", "path", "type"}} | {"list": [value, …]}
               | {"text": [text | {"unknown"}, …]} | {"dict": {key: value}}
        totals: {"calls", "tools": [{"tool", "effect", "effect_declared", "least", "most"}, …], "effects",
                 "writes", "model_calls", "prompt_tokens", "prompts_known", "prompt_cost", "needs_approval"}
        policy: {"name", "ok", "steps", "plan"}, each with "refuses": [{"code", "message", "way"}, …], "asks"
                and "sees_to"

    `times` counts each time that the step is reached, `total` the whole run; `most` is null without a bound.
    `depends_on` names the steps whose results are read; members of one `group` run side by side.
    """
    words = wording_of(forecast.plan)
    return {
        "plan_hash": plan_hash(forecast.plan),
        "steps": [_step(step, words) for step in forecast.steps],
        "totals": _totals(totals, price),
        "unforeseen": list(forecast.unforeseen),
        **(
            {"blocks": [_block(key, each, words) for key, each in forecast.blocks.items()]}
            if forecast.blocks
            else {}
        ),
        **({} if verdict is None else {"policy": _policy(verdict)}),
    }


def _block(key: str, block: BlockForecast, words: Wording) -> dict[str, Any]:
    loop: dict[str, Any] = {}
    if isinstance(block.statement, Foreach) and not block.part:
        loop = {"items": _value(block.items, words), "count": block.count, "at_once": block.at_once}
    return {
        "block": key,
        "id": block.id,
        "text": title_of(block, words),
        "when": str(block.when),
        "times": _times(block.times),
        "within": list(block.within),
        "side_by_side": block.is_side_by_side,
        **loop,
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


def _step(step: StepForecast, words: Wording) -> dict[str, Any]:
    out: dict[str, Any] = {
        "id": step.step.id,
        "action": word_of_forecast(step),
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
    if step.statement is not None:
        out["within"] = list(step.within)
        out["statement"] = words.statement(step.statement)
    if step.step.foreach is not None:
        out["items"] = _value(step.items, words)
        out["per_item"] = step.is_per_item
    out["visits"] = [_visit_data(visit, words) for visit in step.visits]
    if step.has_result:
        source = "assumed" if step.is_assumed else "computed" if step.is_computed else "simulated"
        out["result"] = {"is": source, **_value(step.result, words)}
    return out


def _visit_data(visit: Visit, words: Wording) -> dict[str, Any]:
    return {
        "item": visit.item,
        "sure": visit.is_sure,
        "inputs": [_value(value, words) for value in visit.inputs],
        "arguments": {name: _value(value, words) for name, value in visit.arguments},
        **({"place": visit.place} if visit.place else {}),
    }


def _value(value: Foreseen, words: Wording) -> dict[str, Any]:
    match value:
        case Unknown():
            return {"unknown": _unknown(value, words)}
        case Text(parts=parts):
            return {
                "text": [
                    part if isinstance(part, str) else {"unknown": _unknown(part, words)} for part in parts
                ]
            }
        case Items(items=items):
            return {"list": [_value(item, words) for item in items]}
        case Fields(pairs=pairs):
            return {"dict": {key: _value(part, words) for key, part in pairs}}
        case _:
            return {"value": value}


def _unknown(value: Unknown, words: Wording) -> dict[str, Any]:
    return {
        "name": unknown_text(value, words),
        "step": value.step,
        "path": list(value.path),
        "type": value.kind,
    }


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
