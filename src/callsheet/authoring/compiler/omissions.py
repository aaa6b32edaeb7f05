"""Finds parts of a goal that a valid plan seems to leave out.

Pure. In: a plan, its goal, and candidates for the goal's parts. Out: reminders, each a line for the model.
These are heuristics on words, so they are a reason to ask once more, not to refuse a plan.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from callsheet.diagnostics import Diagnostic, Severity
from callsheet.ir import (
    And,
    Call,
    CallKind,
    Compare,
    Condition,
    DictExpr,
    Ending,
    ListExpr,
    Literal,
    Not,
    Or,
    Place,
    Plan,
    Ref,
    Step,
    Template,
    Value,
)
from callsheet.ir.expr import refs_of

Parts: TypeAlias = "Sequence[tuple[str, Sequence[str]]]"
"""The parts of a goal, each with the canonical names of its candidates, the best first."""

_EACH = re.compile(
    r"\b(?:each|every)\b(?: \w+)?"
    r"|\b(?:delete|remove|archive|close|move|copy|label|cancel|assign|rename)\s+all\b(?: \w+)*",
    re.IGNORECASE,
)
"""How a goal asks for something to be done to each of several things."""
_GIVES = re.compile(r"\b(?:gives?|returns?|each with)\b", re.IGNORECASE)
_MANY = re.compile(
    r"\b(?:list|lists|search|find|query|read|get|fetch|each|all|rows|lines|items|results|any)\b",
    re.IGNORECASE,
)
"""Words in the line of a tool that may give several things."""
_FINDS = re.compile(r"(?:SEARCH|LIST|FIND|QUERY)_")
_MOST = 6
"""The most reminders for one plan."""
_LONGEST = 80
_ROOT = 5
"""The letters by which a word is recognised in another form."""
_SAID = re.compile(
    r"""
    "(?P<quoted>[^"\n]+)"
    | (?P<address>https?://[^\s,;"]+ | (?<![\w.+-])[\w.+-]+@[\w-]+(?:\.\w+)+)
    | (?P<channel>(?<!\w)\#[A-Za-z][\w-]*)
    | (?P<path>(?<![\w/*~-])/?[\w*~-]+(?:[/.][\w*~-]+)+)
    | (?P<name>\b(?=\w*\d)(?=\w*[A-Za-z])[\w-]+\b)
    | (?P<number>\b\d+\b)
    """,
    re.VERBOSE,
)
"""Literal parts of a goal: quoted texts, addresses, channels, paths, names with digits, numbers."""
_PLACES = frozenset({"address", "channel", "path"})
"""The kinds that must be given to a call: mentioning a file in the answer does nothing to it."""
_NO_CALL = re.compile(
    r"(?:if|only|unless|otherwise|when|should|in case|try|trying|retry|stop|end|give up|how|what|which|who"
    r"|where|the|a|an|its|their|his|her|my|of|to|in|on|at|with|from|for)\b",
    re.IGNORECASE,
)
"""How a part begins that needs no call of its own: it states a condition, or belongs to the part before."""


def doubts_of(
    plan: Plan, goal: str, parts: Parts, lines: Mapping[str, str], known: str = ""
) -> tuple[str, ...]:
    """What the goal says and the plan leaves out, and what the plan does more often than asked.

    `parts` are those of the goal with their candidates, `lines` the prompt's lines of the tools, `known` is
    other text that the model was given.
    """
    calls = [step.call for step in plan.steps if step.call is not None]
    doubts = (
        *_left_out(plan, goal),
        *_not_called(calls, parts),
        *_not_each(plan, goal),
        *_called_again(calls, goal, parts),
        *_unused(plan),
        *_reads_nothing(plan, goal, parts),
        *_misread(plan, parts, lines),
        *_made_up(calls, f"{goal}\n{known}", lines),
    )
    return tuple(dict.fromkeys(doubts))[:_MOST]


def _left_out(plan: Plan, goal: str) -> Iterator[str]:
    """Literal parts of the goal that no value of the plan contains."""
    summary = _plain("\n".join(text for step in plan.steps for text in _texts(step)))
    done = _plain("\n".join(t for s in plan.steps if s.course.ends is not Ending.ANSWER for t in _texts(s)))
    for match in _SAID.finditer(goal):
        text = match[match.lastgroup or 0].rstrip(".,;:!?")
        if match.lastgroup == "number" and text in ("0", "1"):  # also said in other words
            continue
        where = done if match.lastgroup in _PLACES else summary
        if re.search(rf"(?<![\w=<>])(?<![=<>] ){re.escape(_plain(text))}(?!\w)", where) is None:
            yield f'the goal says "{text[:_LONGEST]}": write that'


def _not_called(calls: Sequence[Call], parts: Parts) -> Iterator[str]:
    """Parts with candidates of which the plan calls none."""
    called = {call.tool for call in calls}
    for text, names in parts:
        if names and called.isdisjoint(names) and _NO_CALL.match(text) is None:
            yield f'for "{text[:_LONGEST]}" call @{names[0].lower()}'


def _not_each(plan: Plan, goal: str) -> Iterator[str]:
    """A reminder if the goal speaks of each of several things and no step has a loop."""
    match = _EACH.search(goal)
    if match is not None and not any(step.foreach is not None for step in plan.steps):
        yield f'for "{match[0][:_LONGEST]}" list them first, then ?FOREACH ($x IN $v1) THEN'


def _called_again(calls: Sequence[Call], goal: str, parts: Parts) -> Iterator[str]:
    """Tools called more often than the goal asks for, unless with different texts from the goal."""
    for tool in dict.fromkeys(call.tool for call in calls if call.kind is CallKind.TOOL):
        same = [call for call in calls if call.tool == tool]
        near = max(sum(tool in names for _, names in parts), 1)
        if len(parts) < 2 or len(same) <= near:
            continue
        is_new = [
            call not in same[:number] and _plain("\n".join(_literal_texts(call))) in _plain(goal)
            for number, call in enumerate(same)
        ]
        if not all(is_new):
            yield f"call @{tool.lower()} {'once' if near == 1 else f'{near} times'}"


def _unused(plan: Plan) -> Iterator[str]:
    """Tools called several times of which only some results are read by other calls."""
    outputs = [
        (step.call.tool, step.output.var)
        for step in plan.steps
        if step.output is not None and step.condition is None and step.call is not None
    ]
    read = {ref.name for step in plan.steps if step.call is not None for ref in _refs(step)}
    for tool in dict.fromkeys(tool for tool, _ in outputs):
        used = [name in read for other, name in outputs if other == tool]
        if any(used) and not all(used):
            yield f'use all results of @{tool.lower()}, as in "$v1 $v2"'


def _reads_nothing(plan: Plan, goal: str, parts: Parts) -> Iterator[str]:
    """Calls with an invented text, where the goal asks for the result of an earlier call."""
    is_said = _plain(goal)
    first: dict[str, str] = {}
    for step in plan.steps:
        call = step.call
        if call is None:
            continue
        part = next(
            (text for text, names in parts if names and names[0] == call.tool and _MEANS.search(text)), None
        )
        given = [*call.positional, *(value for _, value in call.named)]
        made_up = any(isinstance(v, Literal) and _plain(str(v.value)) not in is_said for v in given)
        if first and part is not None and made_up and not any(True for v in given for _ in refs_of(v)):
            yield f'for "{part[:_LONGEST]}" give @{call.tool.lower()} what a step before gave, as $v1'
        if step.output is not None:
            first[step.output.var] = call.tool


_MEANS = re.compile(
    r"\b(?:it(?! (?:is|was|has)\b)|them|both|all (?:two|three|four|of (?:it|them))|what (?:you|was|is) \w+"
    r"|the (?:results?|summary|texts?|rows|translation|analysis|answers?|findings|lists?|contents?|data))\b",
    re.IGNORECASE,
)
"""How a part refers to the result of an earlier one."""


def _misread(plan: Plan, parts: Parts, lines: Mapping[str, str]) -> Iterator[str]:
    """Fields that a tool's description does not mention, and loops over results that seem to be no list."""
    giver: dict[str, str] = {}
    for step in plan.steps:
        inner: dict[str, str] = {}
        if step.foreach is not None and isinstance(step.foreach.source, Ref):
            tool = giver.get(step.foreach.source.name, "")
            inner[step.foreach.var] = tool
            if tool in lines and not _MANY.search(lines[tool].replace("_", " ")):
                finder = next((n for _, names in parts for n in names if _FINDS.match(n) and n != tool), "")
                yield f"@{tool.lower()} gives no list" + (f": call @{finder.lower()} first" if finder else "")
        for ref in _refs(step):
            tool = (giver | inner).get(ref.name, "")
            gives = _GIVES.search(lines.get(tool, ""))
            field = next((part for part in ref.path if isinstance(part, str)), None)
            if field is not None and gives is not None and not _has_word(lines[tool][gives.start() :], field):
                yield f"@{tool.lower()} gives no {field}"
        if step.sets is not None and step.call is not None:
            giver[step.sets] = step.call.tool


def _has_word(line: str, field: str) -> bool:
    return bool({field.casefold(), f"{field.casefold()}s"} & set(re.findall(r"\w+", line.casefold())))


def _refs(step: Step) -> Iterator[Ref]:
    """The references of a step, except that to the list of its loop."""
    for place, nodes in step.reads():
        if place is not Place.SOURCE:
            for node in nodes:
                yield from refs_of(node)


def _made_up(calls: Sequence[Call], goal_text: str, lines: Mapping[str, str]) -> Iterator[str]:
    """Words given to a tool as a name that do not occur in anything the model was told."""
    folded = goal_text.casefold()
    for call in calls:
        for name, value in call.named:
            if not isinstance(value, Literal) or not isinstance(value.value, str):
                continue
            word, line = value.value.strip(), lines.get(call.tool, "")
            is_name = re.fullmatch(r"[^\W\d_][\w-]{2,}", word) is not None and f"({name}" in line
            if is_name and word.casefold()[:_ROOT] not in folded:
                yield f'the goal does not say "{word[:_LONGEST]}": give @{call.tool.lower()} its words'


def _literal_texts(call: Call) -> Iterator[str]:
    for value in (*call.positional, *(value for _, value in call.named)):
        yield from _in_value(value)


def _texts(step: Step) -> Iterator[str]:
    """Every text and number in a step."""
    values = [*step.values(), *step.failure_values()]
    if step.foreach is not None:
        values.append(step.foreach.source)
    for value in values:
        yield from _in_value(value)
    if step.condition is not None:
        yield from _in_condition(step.condition)
    if step.retry is not None:
        yield str(step.retries)


def _in_value(value: Value) -> Iterator[str]:
    match value:
        case Literal(value=literal):
            yield str(literal)
        case Template(parts=parts):
            yield "".join(part if isinstance(part, str) else "…" for part in parts)
        case ListExpr(items=items):
            for item in items:
                yield from _in_value(item)
        case DictExpr(items=pairs):
            for key, item in pairs:
                yield str(key)
                yield from _in_value(item)
        case _:
            return


def _in_condition(condition: Condition) -> Iterator[str]:
    match condition:
        case Compare(left=left, right=right):
            yield from _in_value(left)
            yield from _in_value(right)
        case Not(condition=inner):
            yield from _in_condition(inner)
        case And(conditions=parts) | Or(conditions=parts):
            for part in parts:
                yield from _in_condition(part)
        case _:
            return


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".,;:!?")


def unnoticed_failures(plan: Plan, reads: Collection[str]) -> Iterator[Diagnostic]:
    """CMP009 for each call of a text that may change something, and after whose failure the plan goes on.

    `reads` are the tools that only read.
    """
    for step in plan.steps if plan.tree is None else ():
        call = step.call
        if call is None or call.kind is not CallKind.TOOL or call.tool in reads or step.after_failure.leaves:
            continue
        yield Diagnostic(
            "CMP009",
            Severity.WARNING,
            f"if @{call.tool} fails, the plan goes on, and the run ends as done",
            help='write ON_FAIL TERMINATE ("…") behind it, or compile the goal as Python, where a failure '
            "ends the plan",
            step=step.id,
        )
