"""Doubts about a plan beside its goal: what of it no call has, cases without an answer, or with the same.

Pure. In: a plan with blocks, and its goal. Out: warnings.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from callsheet import lazy
from callsheet.authoring.compiler.quantities import ways
from callsheet.authoring.compiler.value_doubts import PART, plain
from callsheet.diagnostics import Diagnostic, Severity
from callsheet.ir import CallKind, Literal
from callsheet.ir.expression import Display, Expression, Index, Text, nodes, variables_in
from callsheet.ir.tree import (
    Act,
    Block,
    Compute,
    Foreach,
    If,
    Invoke,
    Let,
    Parallel,
    Recovery,
    Repeat,
    Say,
    Statement,
    Tree,
    Try,
    Word,
    acts,
    all_statements,
    operands,
    statements,
)
from callsheet.ports.models.prompts import one_line
from callsheet.ports.tools import ToolSpec
from callsheet.views.python_types import table

_NUMBERS = lazy.pattern(r"\d+(?:\.\d+)?", re.ASCII)
_THOUSANDS = lazy.pattern(r"(?<=\d),(?=\d{3})", re.ASCII)
_LISTED = lazy.pattern(r"(?:(?<=\s)|\A)\(?\d{1,2}[.)]\s")
"""What numbers the parts of a goal that begins with 1."""


_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_TODAY_IS = lazy.pattern(
    r"\b(?:today is|today's date is|it is now|now is)"
    rf"(?:[\s,:]+(?:\w+day|{_MONTH}|\d[\w:./+-]*|the|of|at|am|pm|utc)\b\.?)*",
    re.IGNORECASE,
)
"""What a goal says of the time at which it is said, which asks for nothing; the rest of the sentence may."""


def left_out(tree: Tree, goal: str, tools: Collection[ToolSpec] = ()) -> Iterator[Diagnostic]:
    """CMP016 for each number and name of a goal that a plan has nowhere; CMP013 for names in an answer alone.

    The texts of answers do not count, nor does what numbers the lines of a goal, nor today's date. A number
    may have become a part of a date, an hour of the afternoon, a factor, a smaller unit, a place in a list or
    its length.
    Names are words with a capital within a sentence, which tell nothing where many have one or in German,
    and parts with an `@` or with letters and digits, but no quantities (`5kg`, `3pm`). A call has also the
    words of its tool and of what `tools` say of it, and of a name with digits it may have these alone
    (`quarter=3` for Q3). Told is also a word of the goal by which a lookup that is called can choose, if it
    does not: a value of an enumeration.

    >>> from callsheet.frontends.python import read_python
    >>> plan = read_python('async def main(): await pay(to="R-7", amount=3 * 1.1, at="15:00")').plan
    >>> list(left_out(plan.tree, "Pay R-7 3 plus 10 percent at 3pm."))
    []
    >>> [one.message for one in left_out(plan.tree, "Pay R-7 for 25 days.")]
    ['the goal says 25, and no call or condition of the plan has it']
    >>> plan = read_python("async def main():\\n    return (await f())[:5]").plan
    >>> list(left_out(plan.tree, "1. Read.\\n2. Tell the first 5."))
    []
    >>> list(left_out(plan.tree, "Today is Friday, 2026-05-08. Tell the first 5."))
    []
    >>> [one.message for one in left_out(plan.tree, "It is now 8 May 2026, 09:00, so tell 7 of the first 5.")]
    ['the goal says 7, and no call or condition of the plan has it']
    >>> plan = read_python('async def main(): await close(); return "Closed, and Lena was told of it."').plan
    >>> [one.message for one in left_out(plan.tree, "If it rains in Bergen close the shop and tell Lena.")]
    ['the goal says Bergen, and no call or condition of the plan has it', \
'the answer speaks of Lena, and no call or condition does']
    >>> list(left_out(plan.tree, "Close the shop."))
    []
    """
    found = [*map(str, _said_in(tree))]
    texts = plain(" ".join(found))
    numbers = {float(each) for one in found for each in _NUMBERS.findall(one)}
    goal = _TODAY_IS.sub(".", goal)
    parts = _LISTED.sub(" ", goal) if _LISTED.match(goal.lstrip()) else goal
    for part in dict.fromkeys(PART.findall(_THOUSANDS.sub("", parts))):
        shown = part.strip(".:!?")
        stated = [float(each) for each in _NUMBERS.findall(shown)]
        if stated and plain(shown) not in texts and not all(map(numbers.intersection, map(ways, stated))):
            yield _nowhere(shown)
    called = {one.tool for one in acts(tree)}
    about = (text for spec in tools if spec.name in called for text in (spec.name, spec.description))
    done = {plain(one) for one in (*found, *called, *about)}
    for name in dict.fromkeys(_named_in(goal)):
        spelled = plain(name)
        digits = "".join(filter(str.isdigit, spelled))
        if digits in done or any(spelled in each for each in done):
            continue
        answer = next((one for one in all_statements(tree) if _speaks_of(one, spelled)), None)
        if answer is not None:
            yield Diagnostic(
                "CMP013",
                Severity.WARNING,
                f"the answer speaks of {one_line(name)[:60]}, and no call or condition does",
                answer.span,
                "make the call that this needs, or leave it out of the answer",
                step=answer.id,
            )
        elif not digits and name.isascii():  # other letters may stand for the same name
            yield _nowhere(name)
    yield from map(_nowhere, _choices(tree, goal, [spec for spec in tools if spec.name in called]))


def _choices(tree: Tree, goal: str, called: Iterable[ToolSpec]) -> Iterator[str]:
    """The words of a goal by which a lookup that is called can choose, where the plan has them nowhere.

    They are the values of its arguments that have an enumeration: all active members, of a `status`.
    """
    done = plain(" ".join((*map(str, _said_in(tree)), *(act.tool for act in acts(tree)))))
    values = (
        value
        for spec in called
        if spec.effect.only_reads
        for schema in table(spec.parameters.get("properties")).values()
        for one in (schema, *table(schema).get("anyOf", ()))
        for value in table(one).get("enum", ())
    )
    known = {value.casefold() for value in values if isinstance(value, str)}
    for word in dict.fromkeys(_WORDS.findall(goal.casefold())):
        one = word if word in known else word.removesuffix("s")
        if one in known and one not in done:
            yield word


_WORDS = lazy.pattern(r"[^\W\d_]{4,}")


def _nowhere(said: str) -> Diagnostic:
    return Diagnostic(
        "CMP016",
        Severity.WARNING,
        f"the goal says {one_line(said)[:60]}, and no call or condition of the plan has it",
        help="use it where the goal means it to be used",
    )


def _speaks_of(one: Statement, spelled: str) -> bool:
    """Whether a statement is an answer that has a name in its own words."""
    texts = (part for value in one.values for part in _texts_of(value)) if isinstance(one, Say) else ()
    return any(plain(part.partition("'")[0]) == spelled for text in texts for part in PART.findall(text))


def _said_in(tree: Tree) -> Iterator[object]:
    """The literals of a plan, but for the texts of its answers, with places counted from 1, and lengths."""
    for one in all_statements(tree):
        is_answer = isinstance(one, Say) and one.word in (Word.RESPOND, Word.TERMINATE, Word.FAIL, Word.NOTE)
        if isinstance(one, Foreach):
            yield one.most
        if isinstance(one, Compute):
            yield one.source
        for node in (node for whole in operands(one) for node in nodes(whole)):
            match node:
                case Literal(value=value) if not (is_answer and isinstance(value, str)):
                    yield value
                case Text(parts=parts) if not is_answer:
                    yield from (part for part in parts if isinstance(part, str))
                case Index(index=Literal(value=int() as place)):
                    yield place + 1
                case Display(items=items):
                    yield len(items)
                case _:
                    pass


def _named_in(goal: str) -> Iterator[str]:
    """The names in a goal: words with a capital, except beside a number, and what has an `@` or mixed signs.

    An abbreviation (`IDs`) is none.

    >>> list(_named_in("Tell Lena of O-7 on 4 May or May 5th. Add 10 percent!"))
    ['Lena', 'O-7']
    """
    words = [match[0].strip(".:!?").partition("'")[0] for match in PART.finditer(goal)]
    begins = [not before or before[-1] in ".:!?\n" for before in _before_each_part(goal)]
    mixed = [
        "@" in word
        or (
            any(c.isdigit() for c in word)
            and any(c.isalpha() for c in word)
            and not _QUANTITY.fullmatch(word)
        )
        for word in words
    ]
    capitals = [
        len(word) > 1
        and word[0].isupper()
        and not word[1].isupper()
        and not (mixed[n] or begins[n] or any(one[:1].isdigit() for one in words[max(0, n - 1) : n + 2]))
        for n, word in enumerate(words)
    ]
    are_names = sum(capitals) <= max(1, _SHARE_OF_NAMES * len(words)) and _GERMAN.search(goal) is None
    for word, is_capital, is_mixed in zip(words, capitals, mixed, strict=True):
        if is_mixed or (is_capital and are_names):
            yield word


_QUANTITY = lazy.pattern(r"\d[\d.,:]*[^\W\d_]{1,3}")
"""A number and its unit."""


def _before_each_part(text: str) -> Iterator[str]:
    """What stands before each part, back to the beginning of the one before it."""
    start = 0
    for match in PART.finditer(text):
        yield text[start : match.start()].rstrip(" \t\"'(")
        start = match.start()


_SHARE_OF_NAMES = 0.2
"""The most of a goal's words that may be names; where there are more, every noun has a capital."""
_GERMAN = lazy.pattern(
    r"[äöüß]|\b(?:der|die|das|den|dem|ein|eine|einen|einem|einer|und|nicht|ist|mit|bitte)\b",
    re.IGNORECASE,
)
"""What shows a text to be German, where every noun has a capital."""


def _texts_of(value: Expression) -> Iterator[str]:
    """The texts that stand in an answer as they are."""
    match value:
        case Literal(value=str() as text):
            yield text
        case Text(parts=parts):
            yield from (part for part in parts if isinstance(part, str))
        case _:
            return


def answers_sometimes(tree: Tree, reading: Collection[str] = ()) -> Iterator[Diagnostic]:
    """CMP014 for a plan that has an answer, and can also end without one and without any change.

    `reading` are the tools that change nothing.

    >>> from callsheet.frontends.python import read_python
    >>> text = "async def main():\\n    x = await f()\\n    if x:\\n        return 1\\n"
    >>> [one.message for one in answers_sometimes(read_python(text).plan.tree, ["F"])]
    ['in some case the plan changes nothing and has no answer']
    >>> list(answers_sometimes(read_python(f"{text}    await g()").plan.tree, ["F"]))
    []
    """
    answers = [one for one in all_statements(tree) if isinstance(one, Say) and one.word is Word.RESPOND]
    if answers and not _always_tells(tree.body, reading):
        yield Diagnostic(
            "CMP014",
            Severity.WARNING,
            "in some case the plan changes nothing and has no answer",
            answers[0].span,
            "say what is to be done or answered in that case, too",
        )


def answers_alike(tree: Tree, reading: Collection[str] = ()) -> Iterator[Diagnostic]:
    """CMP015 for a change under a condition behind which there is one and the same answer in each case.

    None where another change is made in any case, and for conditions within loops. `reading` are the tools
    that change nothing.

    >>> from callsheet.frontends.python import read_python
    >>> text = "async def main():\\n    if await f():\\n        await g()\\n    return 'Done.'"
    >>> [one.message for one in answers_alike(read_python(text).plan.tree, ["F"])]
    ["the answer is the same whether or not @G is called: 'Done.'"]
    >>> list(answers_alike(read_python(text.replace("'Done.'", "await h()")).plan.tree, ["F", "H"]))
    []
    """
    *before, last = tree.body or (None,)
    if not isinstance(last, Say) or last.word is not Word.RESPOND:
        return
    constants = {one.name for one in before if isinstance(one, Let) and isinstance(one.value, Literal)}
    if not all(constants.issuperset(variables_in(value)) for value in last.values):
        return
    changing: list[Act] = []
    for one in before:
        inside = [*_changes((one,), reading)]
        if inside and (not isinstance(one, If) or any(_changes(one.otherwise or (), reading))):
            return
        if any(isinstance(each, Say) for each in statements((one,))):
            return
        changing += inside
    text = " ".join(part for value in last.values for part in _texts_of(value))
    if changing:
        yield Diagnostic(
            "CMP015",
            Severity.WARNING,
            f"the answer is the same whether or not @{changing[0].tool} is called: {one_line(text)[:60]!r}",
            last.span,
            "look whether the condition is meant as it stands, and answer in each branch what was done",
            step=last.id,
        )


def _always_tells(block: Block, reading: Collection[str]) -> bool:
    """Whether a block ends the plan or makes a change, whatever its conditions come to."""
    for one in block:
        match one:
            case Say(word=Word.RESPOND | Word.TERMINATE | Word.FAIL | Word.RETURN | Word.REPLAN):
                return True
            case Act() if _may_change(one, reading):
                return True
            case If(branches=branches, otherwise=last) if last is not None:
                if all(_always_tells(each, reading) for each in (*(one.body for one in branches), last)):
                    return True
            case Try(body=body):
                if all(_always_tells(each, reading) for each in (body, *_handled(one.recovery))):
                    return True
            case Invoke() | Parallel() | Repeat():
                return True  # what is inside is not followed
            case _:
                pass
    return False


def _may_change(one: Act, reading: Collection[str]) -> bool:
    return one.kind is CallKind.TOOL and one.tool not in reading


def _changes(block: Block, reading: Collection[str]) -> Iterator[Act]:
    return (one for one in statements(block) if isinstance(one, Act) and _may_change(one, reading))


def _handled(recovery: Recovery) -> Iterator[Block]:
    return (one.body for one in recovery.handlers)
