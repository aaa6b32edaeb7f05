"""Renders a dry run of a plan as text.

In: a forecast, the verdict of a policy on each step. Out: each step with its inputs and costs, then the
totals. `views/dry_run_data` has the same as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import NamedTuple

from callsheet.ir import Ending, Step, word_of
from callsheet.ir.tree import Compute, Foreach, If, Invoke, Repeat, Say, variables_set
from callsheet.machine.forecasting import (
    BlockForecast,
    Fields,
    Forecast,
    Foreseen,
    Items,
    StepForecast,
    Text,
    Times,
    Totals,
    Unknown,
    Visit,
    When,
    model_calls_of,
)
from callsheet.views.columns import CUT, cut, escaped, pad, printable, width
from callsheet.views.describe import (
    LTP,
    Wording,
    describe_condition,
    describe_failure,
    describe_output,
    wording_of,
)


class RemarkKind(Enum):
    """The kinds of remarks of a policy."""

    REFUSES = "refuses"
    NEEDS_APPROVAL = "asks"
    ENFORCES = "sees to"


class Remark(NamedTuple):
    """One remark of a policy on a step.

    For a refusal, `code` is that of its diagnostic, `path` the path that the data would take.
    """

    kind: RemarkKind
    text: str
    code: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class PolicyVerdict:
    """The verdict of a policy: its remarks on each step, by id, and on the plan as a whole."""

    policy: str
    is_refused: bool
    steps: Mapping[str, tuple[Remark, ...]] = field(default_factory=dict[str, tuple[Remark, ...]])
    plan: tuple[Remark, ...] = ()

    @property
    def asked(self) -> tuple[str, ...]:
        """The ids of the steps whose calls need a person's approval."""
        return tuple(
            step
            for step, remarks in self.steps.items()
            if any(remark.kind is RemarkKind.NEEDS_APPROVAL for remark in remarks)
        )


def lines_of(remark: Remark) -> tuple[str, ...]:
    """Returns the lines of a remark.

    >>> lines_of(Remark(RemarkKind.REFUSES, "private data would reach outside", "POL103", "S1 $a → S2 query"))
    ('refused (POL103): private data would reach outside', '  path: S1 $a → S2 query')
    """
    match remark.kind:
        case RemarkKind.REFUSES:
            head = f"refused ({remark.code}): {remark.text}"
        case RemarkKind.NEEDS_APPROVAL:
            head = f"needs approval: {remark.text}"
        case RemarkKind.ENFORCES:
            head = f"enforced: {remark.text}"
    return (head, f"  path: {remark.path}") if remark.path else (head,)


_MOST_PARTS = 40
_MOST_TEXT = 2_000


def action_word(step: Step) -> str:
    """Returns the action of a step without its arguments.

    >>> from callsheet.ir import Call, Goto
    >>> action_word(Step("S1", Call("READ_FILE"))), action_word(Step("S1", Goto("S2")))
    ('@READ_FILE', 'GOTO S2')
    """
    jump = step.course.jump
    return word_of(step.action) if jump is None else f"GOTO {jump.target}"


def word_of_forecast(step: StepForecast) -> str:
    """Returns the action of a step, or of the statement that it stands for, without arguments."""
    match step.statement:
        case Compute():
            return "COMPUTE"
        case Say(word=word):
            return word.value
        case _:
            return action_word(step.step)


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


def shown(value: Foreseen, words: Wording = LTP) -> str:
    """Returns a value on one line: JSON, with placeholders in angle brackets outside quotes.

    >>> shown(Text(("a ", Unknown("X result")))), shown("<X result>"), shown([1, "b"])
    ('"a " <X result>', '"<X result>"', '[1, "b"]')
    """
    match value:
        case Unknown():
            return escaped(unknown_text(value, words))
        case Text(parts=parts):
            texts = [
                escaped(unknown_text(p, words)) if isinstance(p, Unknown) else _json(p)
                for p in parts[:_MOST_PARTS]
            ]
            return " ".join(texts + [CUT] * (len(parts) > _MOST_PARTS))
        case Items(items=items):
            return f"[{_some((shown(item, words) for item in items), len(items))}]"
        case Fields(pairs=pairs):
            named = (f"{_json(key)}: {shown(part, words)}" for key, part in pairs)
            return f"{{{_some(named, len(pairs))}}}"
        case _:
            return _json(value)


def unknown_text(value: Unknown, words: Wording) -> str:
    """What a value is of which only a run will know."""
    if words is LTP:
        return str(value)
    path = "".join(f"[{json.dumps(part)}]" for part in value.path)
    what = value.whole or value.what
    whole = what + path
    said = words.expression(whole)
    if said == whole:
        said = words.expression(what) + path
    return f"<{cut(said, _MOST_STATEMENT) if value.whole else said}>"


def _some(parts: Iterator[str], number: int) -> str:
    """The first of so many parts: some, and no more once they are as long as a known value may be."""
    taken: list[str] = []
    length = 0
    for text in islice(parts, _MOST_PARTS):
        taken.append(text)
        length += len(text)
        if length > 2 * _MOST_TEXT:
            break
    return ", ".join(taken + [CUT] * (len(taken) < number))


def _json(value: object) -> str:
    if isinstance(value, str) and len(value) > _MOST_TEXT:
        value = value[:_MOST_TEXT] + CUT
    return escaped(json.dumps(value, ensure_ascii=False, default=str)[: 2 * _MOST_TEXT])


def occurrence(step: StepForecast, words: Wording = LTP) -> str:
    """Returns when and how often a step acts: `always`, `maybe, for each item of <X result>`."""
    parts = [str(step.when)]
    if step.when is When.NEVER:
        return f"never: {step.why_not}"
    if step.statement is not None:
        if step.times not in (Times(1, 1), Times(0, 1)):
            parts.append(f"{counted(step.times)} times")
    elif step.is_per_item:
        parts.append(f"for each item of {shown(step.items, words)}")
    elif step.step.foreach is not None and step.tool is not None:
        parts.append(f"{counted(step.times)} of its items")
    if step.repeats:
        parts.append("repeatedly")
    return ", ".join(parts)


_MOST_ID = 24
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
    words = wording_of(forecast.plan)
    most = max(columns, _LEAST)
    lines = ["nothing is called: values in <…> are known only when the plan runs"]
    ids = [cut(printable(step.step.id), _MOST_ID) for step in forecast.steps]
    indent = max(map(width, ids), default=0) + 2
    group: int | None = None
    within: tuple[str, ...] = ()
    for step, id_ in zip(forecast.steps, ids, strict=True):
        lines += _headings(forecast, within, step.within, words)
        within = step.within
        if step.step.group is not None and step.step.group != group:
            lines.append("concurrently:")
        elif step.step.group is None and group is not None:
            lines.append("then:")
        group = step.step.group
        deeper = _DEEPER * len(within)
        lines.append(deeper + pad(id_, indent) + _heading(step, words))
        lines += (deeper + " " * indent + "  " + line for line in _details(step, words))
        if verdict is not None:
            remarks = _remarks_on(step, verdict)
            lines += (
                deeper + " " * indent + "  " + printable(words.prose(line))
                for remark in remarks
                for line in lines_of(remark)
            )
    lines += ["", *_sums(forecast, totals, price, words)]
    if verdict is not None:
        lines += [printable(words.prose(line)) for line in _verdict_lines(verdict)]
    return "\n".join(cut(line, most) for line in lines)


_DEEPER = "  "
_MOST_STATEMENT = 60


def _remarks_on(step: StepForecast, verdict: PolicyVerdict) -> tuple[Remark, ...]:
    """The remarks on a step; those on a step of a sub-plan are about each of its calls."""
    found = verdict.steps.get(step.step.id)
    if found is None and step.statement is not None:
        found = verdict.steps.get(step.statement.id)
    return found or ()


def _headings(
    forecast: Forecast, before: tuple[str, ...], now: tuple[str, ...], words: Wording
) -> Iterator[str]:
    """The blocks that begin before a step: those that were not around the step before it."""
    for depth, key in enumerate(now):
        if before[: depth + 1] != now[: depth + 1]:
            block = forecast.blocks[key]
            yield _DEEPER * depth + printable(f"{title_of(block, words)}{_state_of(block, words)}")


def title_of(block: BlockForecast, words: Wording = LTP) -> str:
    """Returns what a block is, as the plan writes it."""
    statement, part = block.statement, block.part
    if isinstance(statement, If) and part != "ELSE":
        number = 0 if part == "IF" else int(part.rpartition(" ")[2])
        condition = statement.branches[number].condition
        return f"{block.id}: {words.branch(number, condition)}"
    if part:
        return f"{block.id}: {words.part(part)}"
    return f"{block.id}: {words.statement(statement)}"


def _state_of(block: BlockForecast, words: Wording) -> str:
    """When and how often a block is executed, and which of it side by side."""
    parts: list[str] = [] if block.when is When.ALWAYS else [str(block.when)]
    statement = block.statement
    if block.when is When.NEVER:
        return ", never"
    if isinstance(statement, Foreach) and not block.part:
        if block.count is None:
            parts.append(f"for each item of {shown(block.items, words)}")
        else:
            parts.append(f"{block.count:,} items" if block.count != 1 else "1 item")
        at_once = f", at most {block.at_once} at a time" if block.at_once is not None else ""
        while_ = f" while they differ in {' and '.join(block.differing)}" if block.differing else ""
        parts.append(f"side by side{at_once}{while_}" if block.is_side_by_side else "one after another")
    elif isinstance(statement, Repeat) and not block.part:
        parts.append(f"{counted(block.times)} rounds")
    elif block.is_side_by_side:
        parts.append("side by side")
    elif isinstance(statement, Invoke) and block.times not in (Times(1, 1), Times(0, 1)):
        parts.append(f"{counted(block.times)} times")
    return f"  {', '.join(parts)}" if parts else ""


def _heading(step: StepForecast, words: Wording) -> str:
    word = word_of_forecast(step)
    if step.statement is not None and words is not LTP:
        word = cut(words.statement(step.statement), _MOST_STATEMENT)
    parts = [word, occurrence(step, words)]
    if step.effect is not None:
        parts.append(str(step.effect) if step.is_declared else f"{step.effect} (undeclared)")
    if step.needs_approval:
        parts.append("needs approval")
    return printable("  ".join(parts))


def _details(step: StepForecast, words: Wording) -> Iterator[str]:
    if step.when is When.NEVER:
        return
    for visit in step.visits[:_MOST_VISITS]:
        yield from _visit_line(step, visit, words)
    more = len(step.visits) - _MOST_VISITS
    most = step.times.most
    if step.statement is not None:
        more = 0 if most is None or step.repeats else most - min(len(step.visits), _MOST_VISITS)
    elif most is not None and step.tool is not None and most > _MOST_VISITS:
        more = most - _MOST_VISITS
    if more > 0:
        yield f"… and {more:,} more {'items' if step.statement is None else 'times'}"
    if step.step.condition is not None and not all(visit.is_sure for visit in step.visits):
        yield f"if {describe_condition(step.step.condition)}"
    if step.models is not None:
        repair = (
            " (one for the new plan, possibly one to repair it)"
            if step.step.course.ends is Ending.NEW_PLAN
            else ""
        )
        yield f"model calls: {counted(model_calls_of(step))}{repair}, {_prompt(step)}"
    if step.has_result:
        yield _result(step, words)
    if step.step.on_fail is not None:
        yield f"on failure: {describe_failure(step.step.on_fail)}"
    if step.statement is not None and (said := words.recovery(step.statement)):
        yield f"on failure: {said}"
    if step.depends_on:
        ids = [printable(id_) for id_ in step.depends_on[:_MOST_READS]]
        yield "after " + ", ".join(ids + ["…"] * (len(step.depends_on) > _MOST_READS))


def _visit_line(step: StepForecast, visit: Visit, words: Wording) -> Iterator[str]:
    texts = [shown(value, words) for value in visit.inputs]
    texts += [f"{printable(name)}: {shown(value, words)}" for name, value in visit.arguments]
    if step.statement is not None:
        around = visit.place != step.step.id and bool(visit.place)
        yield from (f"{visit.place}: {', '.join(texts)}",) if around else texts
    elif visit.item is None or step.is_per_item:
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


def _result(step: StepForecast, words: Wording) -> str:
    target = describe_output(step.step)
    if step.statement is not None:
        target = " ".join(words.target(printable(name)) for name in variables_set(step.statement))
    assumed = " (assumed)" if step.is_assumed else ""
    return f"{target} = {shown(step.result, words)}{assumed}"


def _sums(forecast: Forecast, totals: Totals, price: float | None, words: Wording) -> Iterator[str]:
    yield f"calls: {counted(totals.calls)}" + (_meaning(totals.calls) if totals.tools else "")
    name_width = max((width(words.tool(printable(name))) for name, *_ in totals.tools), default=0) + 2
    for name, effect, declared, times in totals.tools:
        text = str(effect) if declared else f"{effect} (undeclared)"
        yield f"  {pad(words.tool(printable(name)), name_width)}{counted(times)}  {text}"
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


__all__ = ["PolicyVerdict", "Remark", "RemarkKind", "dry_run_text"]
