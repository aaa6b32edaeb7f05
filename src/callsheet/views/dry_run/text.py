"""Renders a dry run as text: each step with its inputs, then the totals."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.ir import Replan
from callsheet.machine.forecasting import Forecast, StepForecast, Times, Totals, Visit, When, model_calls_of
from callsheet.views.columns import cut, pad, printable, width
from callsheet.views.describe import describe_condition, describe_failure, describe_output
from callsheet.views.dry_run.verdict import PolicyVerdict, RemarkKind, lines_of
from callsheet.views.dry_run.words import action_word, cost_of, counted, occurrence, shown

_MOST_ID = 12
_LEAST = 40
_MOST_VISITS = 5
_MOST_READS = 4


def dry_run_text(
    forecast: Forecast,
    totals: Totals,
    price: float | None = None,
    columns: int = 100,
    verdict: PolicyVerdict | None = None,
) -> str:
    """Returns the dry run in lines of at most `columns` columns, or 40 if `columns` is less.

    `price` is that of a million prompt tokens, None if unknown.
    """
    most = max(columns, _LEAST)
    lines = ["nothing is called: values in <…> are known only when the plan runs"]
    ids = [cut(printable(step.step.id), _MOST_ID) for step in forecast.steps]
    indent = max(map(width, ids), default=0) + 2
    group: int | None = None
    for step, id_ in zip(forecast.steps, ids, strict=True):
        if step.step.group is not None and step.step.group != group:
            lines.append("concurrently:")
        elif step.step.group is None and group is not None:
            lines.append("then:")
        group = step.step.group
        lines.append(pad(id_, indent) + _heading(step))
        lines += (" " * indent + "  " + line for line in _details(step))
        if verdict is not None:
            remarks = verdict.steps.get(step.step.id, ())
            lines += (
                " " * indent + "  " + printable(line) for remark in remarks for line in lines_of(remark)
            )
    lines += ["", *_sums(forecast, totals, price)]
    if verdict is not None:
        lines += [printable(line) for line in _verdict_lines(verdict)]
    return "\n".join(cut(line, most) for line in lines)


def _heading(step: StepForecast) -> str:
    parts = [action_word(step.step.action), occurrence(step)]
    if step.effect is not None:
        parts.append(str(step.effect) if step.is_declared else f"{step.effect} (undeclared)")
    if step.needs_approval:
        parts.append("needs approval")
    return printable("  ".join(parts))


def _details(step: StepForecast) -> Iterator[str]:
    if step.when is When.NEVER:
        return
    for visit in step.visits[:_MOST_VISITS]:
        yield from _visit(step, visit)
    more = len(step.visits) - _MOST_VISITS
    if step.times.most is not None and step.tool is not None and step.times.most > _MOST_VISITS:
        more = step.times.most - _MOST_VISITS
    if more > 0:
        yield f"… and {more:,} more items"
    if step.step.condition is not None and not all(visit.is_sure for visit in step.visits):
        yield f"if {describe_condition(step.step.condition)}"
    if step.models is not None:
        repair = (
            " (one for the new plan, possibly one to repair it)"
            if isinstance(step.step.action, Replan)
            else ""
        )
        yield f"model calls: {counted(model_calls_of(step))}{repair}, {_prompt(step)}"
    if step.has_result:
        yield _result(step)
    if step.step.on_fail is not None:
        yield f"on failure: {describe_failure(step.step.on_fail)}"
    if step.depends_on:
        ids = [printable(id_) for id_ in step.depends_on[:_MOST_READS]]
        yield "after " + ", ".join(ids + ["…"] * (len(step.depends_on) > _MOST_READS))


def _visit(step: StepForecast, visit: Visit) -> Iterator[str]:
    texts = [shown(value) for value in visit.inputs]
    texts += [f"{printable(name)}: {shown(value)}" for name, value in visit.arguments]
    if visit.item is None or step.is_per_item:
        yield from texts
    else:
        maybe = "" if visit.is_sure else " (maybe)"
        yield f"item {visit.item + 1}{maybe}: {', '.join(texts)}"


def _prompt(step: StepForecast) -> str:
    assert step.models is not None
    tokens = step.models.tokens
    if not tokens:
        return "prompt unknown"
    return f"about {tokens:,} prompt tokens" + ("" if step.models.is_whole else ", plus unknown parts")


def _result(step: StepForecast) -> str:
    target = describe_output(step.step)
    if step.is_assumed:
        return f"{target} = {shown(step.result)} (assumed)"
    return f"{target} = {shown(step.result)}"


def _sums(forecast: Forecast, totals: Totals, price: float | None) -> Iterator[str]:
    yield f"calls: {counted(totals.calls)}" + (_meaning(totals.calls) if totals.tools else "")
    name_width = max((width(printable(name)) for name, *_ in totals.tools), default=0) + 3
    for name, effect, declared, times in totals.tools:
        text = str(effect) if declared else f"{effect} (undeclared)"
        yield f"  {pad('@' + printable(name), name_width)}{counted(times)}  {text}"
    yield f"calls that may change something: {counted(totals.writes)}"
    if totals.model_calls != Times():
        yield f"model calls: {counted(totals.model_calls)}, {_costs(totals, price)}"
    if totals.to_approve:
        yield f"needs approval: {', '.join(map(printable, totals.to_approve))}"
    yield from (f"cannot be predicted: {printable(text)}" for text in forecast.unforeseen)


def _verdict_lines(verdict: PolicyVerdict) -> Iterator[str]:
    for remark in verdict.plan:
        yield from lines_of(remark)
    refused = [
        id_
        for id_, remarks in verdict.steps.items()
        if any(remark.kind is RemarkKind.REFUSES for remark in remarks)
    ]
    if verdict.is_refused:
        yield f"refused by {verdict.policy}" + (f": {', '.join(refused)}" if refused else "")
    else:
        yield f"proved against {verdict.policy}"


def _meaning(times: Times) -> str:
    if times.least == times.most:
        return ""
    return " (the minimum if no step fails, the maximum with all retries)"


def _costs(totals: Totals, price: float | None) -> str:
    least = (
        ""
        if totals.prompts_are_whole and totals.model_calls.least == totals.model_calls.most
        else "at least "
    )
    cost = cost_of(totals, price)
    text = "cost unknown (no price given)" if cost is None else f"{least}{cost:,.6f} for prompts"
    tokens = (
        f"{least}about {totals.prompt_tokens:,} prompt tokens" if totals.prompt_tokens else "prompts unknown"
    )
    return f"{tokens}, {text}"
