"""Scores an answer against what is known about its goal; no person or model judges.

In: the text of an answer. Out: a `Score`. `adequate` means that the plan is equivalent to one of the goal's
own plans: the same calls in order, the same data in the same arguments, the same literals, conditions, loops,
groups and failure handling, and an answer made of the same results if the goal asks for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import cast

from benchmarks.compiling.goals import Goal, Gold, signatures_of
from benchmarks.compiling.outline import Answer, Atom, Deed, Given, Origins, Outline, called, outline

from callsheet.authoring.prompt import read_answer_plan
from callsheet.frontends.ltp import parse
from callsheet.ir import Plan, canonical_tool_name
from callsheet.passes import OPERATIONS, check

_UNSET = frozenset({"CHK001", "CHK002", "CHK020"})
_NO_TOOL = "CHK040"
_ANY = "…"
_MOST_ORDERS = 720


@dataclass(frozen=True, slots=True)
class Score:
    """The properties of an answer; each requires that it parses.

    `valid` is without an error in the checks, `clean` without any finding in them; `known` names only
    tools of the catalogue and variables that an earlier step sets; `in_order` calls the expected tools in
    order; `why` says what kept it from being adequate, for people.
    """

    parsed: bool = False
    valid: bool = False
    clean: bool = False
    known: bool = False
    in_order: bool = False
    adequate: bool = False
    why: str = ""


def score(goal: Goal, answer: str) -> Score:
    """Score the text of an answer."""
    result = read_answer_plan(answer)
    if result.plan is None:
        first = next((d.message for d in result.diagnostics if d.is_error), "no plan")
        return Score(why=f"not parsed: {first}")
    return score_plan(goal, result.plan)


def score_plan(goal: Goal, plan: Plan) -> Score:
    """Score a plan."""
    tools = signatures_of(goal.catalogue)
    found = check(plan, tools=tools)
    errors = [d for d in found if d.is_error]
    compared = [_compare(goal, gold, plan) for gold in goal.plans]
    in_order = any(order for order, _ in compared)
    difference = min((why for _, why in compared), key=len)
    done = not errors and "" in [why for _, why in compared]
    return Score(
        parsed=True,
        valid=not errors,
        clean=not found,
        known=not any(d.code in _UNSET or d.code == _NO_TOOL for d in found),
        in_order=in_order,
        adequate=done,
        why="" if done else (errors[0].message if errors else difference),
    )


def _compare(goal: Goal, gold: Gold, plan: Plan) -> tuple[bool, str]:
    """Whether the tools are in order, and what else differs from one of the goal's plans, "" if nothing."""
    tools = signatures_of(goal.catalogue)
    wanted_plan = parse(gold.text).plan
    assert wanted_plan is not None, goal.id
    counted = {name for name in called(wanted_plan) if name in OPERATIONS}
    wanted = outline(wanted_plan, tools, counted)
    made = outline(plan, tools, counted)
    strangers = [n for n in called(plan) if n not in tools and n not in OPERATIONS and n not in _PASSING]
    if strangers:
        return False, f"calls @{strangers[0]}, which is no tool of the catalogue"
    if sorted(d.tool for d in wanted.deeds) != sorted(d.tool for d in made.deeds):
        names = ", ".join(d.tool.lower() for d in made.deeds) or "nothing"
        return False, f"calls {names} for {', '.join(d.tool.lower() for d in wanted.deeds)}"
    best: str | None = None
    for order in _orders(wanted.deeds, gold.any_order):
        arranged = [made.deeds[there] for there in order]
        if any(w.tool != d.tool for w, d in zip(wanted.deeds, arranged, strict=True)):
            continue
        difference = _difference(wanted, made, order)
        if not difference:
            return True, ""
        best = difference if best is None else best
    return (False, "calls the tools in another order") if best is None else (True, best)


_PASSING = frozenset({"SELECT", "CALC", "FORMAT", "ASK_HUMAN"})


def _orders(deeds: Sequence[Deed], any_order: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """The position in the text for each expected call; neighbours that may swap places are swapped."""
    runs: list[list[int]] = []
    for number, deed in enumerate(deeds):
        free = deed.group is not None or deed.step in any_order
        before = deeds[number - 1] if number else None
        joins = (
            free
            and before is not None
            and (before.group, before.step in any_order) == (deed.group, deed.step in any_order)
        )
        if joins:
            runs[-1].append(number)
        else:
            runs.append([number])
    for count, choice in enumerate(product(*(permutations(run) for run in runs))):
        if count == _MOST_ORDERS:
            return
        yield tuple(number for run in choice for number in run)


def _difference(wanted: Outline, made: Outline, order: Sequence[int]) -> str:
    """The first difference between two outlines whose calls are paired by `order`; "" if there is none."""
    wanted_number = {there: here for here, there in enumerate(order)}
    for here, there in enumerate(order):
        said = _deed_differs(wanted.deeds[here], made.deeds[there], wanted_number)
        if said:
            return f"@{wanted.deeds[here].tool.lower()}: {said}"
    groups = {(wanted.deeds[h].group, made.deeds[t].group) for h, t in enumerate(order)}
    for group in {w for w, _ in groups if w is not None}:
        mates = {m for w, m in groups if w == group}
        if len(mates) != 1 or None in mates:
            return "calls that belong side by side are not in one group"
    for answer in wanted.answers:
        is_free = answer.given.text == _ANY and not answer.when
        if not is_free and not any(_answers(answer, other, wanted_number) for other in made.answers):
            return "the answer is another"
    return ""


def _deed_differs(wanted: Deed, made: Deed, number: dict[int, int]) -> str:
    for name, arg in wanted.args.items():
        other = made.args.get(name)
        if wanted.tool in OPERATIONS:  # what an operation is told is free; what it reads is not
            continue
        if other is None:
            return f"{name} is missing"
        if not _fits(arg, other, number):
            return f"{name} is another"
    if wanted.tool in OPERATIONS and not _reads(wanted) <= _moved(_reads(made), number):
        return "it reads other data"
    if not wanted.each <= _moved(made.each, number) or bool(wanted.each) != bool(made.each):
        return "the loop is another"
    if wanted.when != _moved_atoms(made.when, number):
        return "the condition is another"
    if wanted.retries and wanted.retries != made.retries:
        return "the number of retries is another"
    if wanted.gives_up is not None and (
        made.gives_up is None or not text_fits(wanted.gives_up, made.gives_up)
    ):
        return "what follows a failure is another"
    return ""


def _reads(deed: Deed) -> Origins:
    return deed.positional.union(*(arg.origins for arg in deed.args.values()))


def _answers(wanted: Answer, made: Answer, number: dict[int, int]) -> bool:
    return wanted.when == _moved_atoms(made.when, number) and _fits(wanted.given, made.given, number)


def _fits(wanted: Given, made: Given, number: dict[int, int]) -> bool:
    """Whether an argument holds the data of another and, where its text is given, that text."""
    if not wanted.origins <= _moved(made.origins, number):
        return False
    if wanted.path and made.path and wanted.path != made.path:
        return False
    return bool(wanted.origins) or text_fits(wanted.text, made.text)


def text_fits(pattern: str, text: str) -> bool:
    """Whether a text is the pattern, apart from case, blanks and a full stop; `…` stands for any text.

    >>> text_fits("…battery…", "old battery recycling"), text_fits("a.txt", "b.txt")
    (True, False)
    """
    parts = [re.escape(_plain(part)) for part in pattern.split(_ANY)]
    return re.fullmatch(".*".join(parts), _plain(text), re.DOTALL) is not None


def _plain(text: str) -> str:
    return " ".join(text.split()).lower().rstrip(".;")


def _moved(origins: Origins, number: dict[int, int]) -> Origins:
    return frozenset(number[o] for o in origins if o in number)


def _moved_atoms(atoms: frozenset[Atom], number: dict[int, int]) -> frozenset[Atom]:
    return frozenset(_moved_atom(atom, number) for atom in atoms)


def _moved_atom(atom: Atom, number: dict[int, int]) -> Atom:
    def moved(part: object) -> object:
        if isinstance(part, tuple):
            return _moved_atom(cast("Atom", part), number)
        if isinstance(part, frozenset):
            parts = cast("frozenset[object]", part)
            return frozenset(number.get(p, -1) if isinstance(p, int) else moved(p) for p in parts)
        return part

    return tuple(moved(part) for part in atom)


def expected_of(goal: Goal) -> tuple[str, ...]:
    """The tools that the first of a goal's plans calls, in order, in lower case."""
    plan = parse(goal.plans[0].text).plan
    assert plan is not None
    return tuple(canonical_tool_name(name).lower() for name in called(plan))
