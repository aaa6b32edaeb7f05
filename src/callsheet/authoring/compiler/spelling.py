"""Corrects names in a plan by its goal: `#team` for `team`, `*.md` for `.md`, `inv-7` for `-7`.

Pure. In: a plan and its goal. Out: the plan with such texts corrected. A text that occurs in the goal
stays, and so does one that corresponds to nothing in the goal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from callsheet.ir import ListExpr, Literal, Plan, Ref, Step, Value

_NAMED = re.compile(
    r"""
    \#[A-Za-z][\w-]*                                # channels
    | (?<![\w/.*~-])[\w~-]*\*[\w*.-]*               # patterns
    | (?<![\w/.~-])/?[\w~-]+(?:[/.][\w~-]+)+        # paths, files, repositories, versions
    """,
    re.VERBOSE,
)
_AROUND = re.compile(r"\A(?:the\s+|[#*<>=~\s]+)+|[\s;,]+\Z", re.IGNORECASE)
"""Characters that small models omit from names or add to them."""


def as_spelled(plan: Plan, goal: str) -> Plan:
    """The plan with the names in its calls' arguments spelled as in the goal.

    >>> from callsheet.frontends.ltp import format_plan, parse
    >>> plan = parse('S1: @POST (channel="team", text="hi") > $v1').require()
    >>> print(format_plan(as_spelled(plan, "Post hi to #team")).splitlines()[2])
    S1: @POST (channel="#team", text="hi") > $v1
    """
    spelled: dict[str, str] = {}
    for name in _NAMED.findall(goal):
        spelled.setdefault(_bare(name), name.rstrip("."))
    return replace(plan, steps=tuple(_step(step, goal, spelled) for step in plan.steps))


def _step(step: Step, goal: str, spelled: Mapping[str, str]) -> Step:
    call = step.call
    if call is None:
        return step
    named = tuple((name, _named(name, _value(value, goal, spelled), goal)) for name, value in call.named)
    positional = tuple(_value(value, goal, spelled) for value in call.positional)
    return replace(step, action=replace(call, named=named, positional=positional))


def _value(value: Value, goal: str, spelled: Mapping[str, str]) -> Value:
    match value:
        case Literal(value=str(text)) if not _occurs_in(text, goal) and _bare(text) in spelled:
            return replace(value, value=spelled[_bare(text)])
        case ListExpr(items=items):
            return replace(value, items=tuple(_value(item, goal, spelled) for item in items))
        case _:
            return value


def _named(argument: str, value: Value, goal: str) -> Value:
    """Completes a name: an id that lost its beginning, a surname, `shop` for `The Project Shop`."""
    if not isinstance(value, Literal) or not isinstance(value.value, str):
        return value
    text = value.value
    if not _occurs_in(text, goal):
        whole = _whole_of(text, goal) or _respelled(argument, text, goal)
        return value if whole is None else replace(value, value=whole)
    if "name" in argument.casefold() and _WORD.fullmatch(text) and text[:1].isupper():
        longer = re.search(rf"(?<=\w ){re.escape(text)}(?: [A-Z][\w'-]+)+", goal)
        if longer is not None and len(re.findall(rf"\b{re.escape(text)}\b", goal)) == 1:
            return replace(value, value=longer[0])
    return value


_WORD = re.compile(r"[\w'-]+")


def _whole_of(text: str, goal: str) -> str | None:
    """The only word of the goal that ends with the text, after a `-`, `#` or `/`."""
    if not re.fullmatch(r"[-#/_]?\w[\w-]*", text) or len(text) < _SHORTEST:
        return None
    mark = "" if text[0] in "-#/_" else r"[-#/_]"
    spellings = set(re.findall(rf"(?<![\w#/-])[\w#/-]*\w{mark}{re.escape(text)}(?![\w-])", goal))
    return spellings.pop() if len(spellings) == 1 else None


_SHORTEST = 2


def _respelled(argument: str, text: str, goal: str) -> str | None:
    """The goal's spelling with other capitals, or without `the` and the argument's name before it.

    A lower-case word stays if the goal capitalises it only at the beginning of a sentence.
    """
    kind = re.escape(argument.replace("_", " "))
    for words in (re.sub(rf"\A(?:the\s+)?{kind}\s+", "", text, flags=re.IGNORECASE), text):
        spellings = set(re.findall(rf"(?<![\w/#-]){re.escape(words)}(?![\w/-])", goal, re.IGNORECASE))
        if len(spellings) == 1 and len(words) in range(1, _LONGEST):
            (spelling,) = spellings
            return None if text.islower() and _only_begins(spelling, text, goal) else spelling
    return None


def _only_begins(spelling: str, text: str, goal: str) -> bool:
    """Whether a word is capitalised only because it begins a sentence.

    >>> _only_begins("High", "high", "High load: page it"), _only_begins("Lyon", "lyon", "Go to Lyon")
    (True, False)
    """
    within = re.search(rf"[\w,)] +{re.escape(spelling)}(?![\w/-])", goal)
    return spelling == text.capitalize() and within is None


_LONGEST = 60


def _occurs_in(text: str, goal: str) -> bool:
    """Whether the text occurs in the goal as separate words."""
    return re.search(rf"(?<![\w#*./@-]){re.escape(text)}(?![\w*/@-])", goal) is not None


def _bare(name: str) -> str:
    """A name without marks and case, for comparison with a misspelled one."""
    return _AROUND.sub("", name).rstrip(".").casefold()


_MATERIAL = re.compile(
    r"(?:.*_)?(?:text|content|contents|body|message|data|value|query|prompt|input|description|summary|title"
    r"|subject|code|expression|sql|amount|time|date|context|note|reason|comment|caption)",
    re.IGNORECASE,
)
"""Arguments for content, which a call may well return in another form."""
_GIVES = re.compile(r"\b(?:gives?|returns?|yields?|each with)\b", re.IGNORECASE)


def with_same_names(plan: Plan, lines: Mapping[str, str]) -> Plan:
    """The plan in which a later call gets the same name as an earlier one, under the same argument.

    Small models pass the whole result of the earlier call instead. The argument stays if the earlier tool
    says that it gives such a value, or if only a part of its result is passed.

    >>> from callsheet.frontends.ltp import format_plan, parse
    >>> plan = parse('S1: @BOOK (plate="B 12") > $v1\\nS2: @LOCK (plate=$v1) > $v2').require()
    >>> print(format_plan(with_same_names(plan, {})).splitlines()[3])
    S2: @LOCK (plate="B 12") > $v2
    """
    given: dict[str, dict[str, str]] = {}
    steps: list[Step] = []
    for step in plan.steps:
        call = step.call
        if call is None:
            steps.append(step)
            continue
        named = tuple((name, _same(name, value, given)) for name, value in call.named)
        steps.append(step if named == call.named else replace(step, action=replace(call, named=named)))
        if step.output is not None:
            line = lines.get(call.tool, "")
            given[step.output.var] = {
                name: value.value
                for name, value in named
                if isinstance(value, Literal)
                and isinstance(value.value, str)
                and not _MATERIAL.fullmatch(name)
                and not _gives(line, name)
            }
    return replace(plan, steps=tuple(steps))


def _same(name: str, value: Value, given: Mapping[str, Mapping[str, str]]) -> Value:
    if not isinstance(value, Ref) or value.path:
        return value
    text = given.get(value.name, {}).get(name)
    return value if text is None else Literal(text, span=value.span)


def _gives(line: str, name: str) -> bool:
    begins = _GIVES.search(line)
    return begins is not None and re.search(rf"\b{re.escape(name)}\b", line[begins.start() :]) is not None
