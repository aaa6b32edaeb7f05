"""Compiles a goal: selects tools, asks a model, repairs once, and tidies the plan.

In: a goal, the available tools, a model, and a check of plans. Out: a draft whose plan is ready to be
shown: descriptive names, an answer at its end, its goal in the header. Calling the model is the only
effect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from callsheet.authoring.compiler.answers import bound_names, looks_like_program, program_in, question_in
from callsheet.authoring.compiler.asking import NAME, Ask, Reading, ask_model
from callsheet.authoring.compiler.catalogue import FEW_TOOLS, Catalogue, catalogue_for
from callsheet.authoring.compiler.goal_parts import is_empty_word, is_side_by_side, mentions_all, parts_of
from callsheet.authoring.compiler.program import (
    MOST_OF_SMALL,
    asks,
    changes_something,
    fields_of,
    lookups,
    no_program,
    placed,
    read_program_answer,
    told_ids,
    unplaced,
    with_doubts,
)
from callsheet.authoring.compiler.program_prompt import (
    Stubs,
    other_question,
    program_question,
    room_beside,
    stubs_for,
)
from callsheet.authoring.compiler.prompt import Question, as_json, question
from callsheet.authoring.compiler.request import Accounting, Check, Draft, Options, PlanForm, Request
from callsheet.authoring.compiler.review import with_telling_names, with_whole_answer
from callsheet.authoring.likely_effects import likely_effect
from callsheet.authoring.prompt import read_answer_plan
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source
from callsheet.frontends.export import (
    ExportOptions,
    ToolShape,
    as_gbnf,
    as_lark,
    is_sentence,
    plan_gbnf,
    plan_grammar,
    plan_lark,
    plan_schema,
    program_grammar,
    read_flat,
)
from callsheet.frontends.export.rules import Grammar
from callsheet.frontends.ltp import format_plan, parse
from callsheet.ir import CallKind, Plan
from callsheet.ports.models.model import (
    Constraint,
    LanguageModel,
    Strength,
    Syntax,
    context_of,
    identify,
    strength_of,
)
from callsheet.views.stubs import function_name

MAX_GOAL = 20_000
"""The most characters of a goal."""
_MOST_OF_TEXT = 2_000
"""The most tokens of a small model's LTP text."""
MANY_TOOLS = 40
"""The most tools for a strong model."""


def prompt_for(
    request: Request,
    strength: Strength = Strength.STRONG,
    options: Options | None = None,
    window: int | None = None,
) -> Question:
    """The prompt for a model of this strength, whose context has so many tokens, if that is known."""
    chosen = options or Options()
    if chosen.form == PlanForm.PYTHON:
        stubs = stubs_for(
            request.goal, request.tools, strength, chosen.max_tools, room_beside(request, window)
        )
        return program_question(request, stubs, strength)
    catalogue = _catalogue(request, strength, chosen)
    return question(request.goal, request.context, catalogue, request.given)


async def compile_goal(
    request: Request, model: LanguageModel, check: Check, options: Options | None = None
) -> Draft:
    """A plan for a goal, or what is wrong with the last answer. Failures of the model do not raise."""
    chosen = options or Options()
    refused = goal_fault(request.goal)
    if refused is not None:
        return Draft("", None, (refused,), Source(NAME, ""), Accounting(model=model.name))
    await identify(model)
    if chosen.form == PlanForm.PYTHON:
        request = replace(request, answers={**request.answers, **chosen.answers})
        return _headed(await _program(request, model, check, chosen))
    return _headed(await _text(request, model, check, chosen))


async def _program(request: Request, model: LanguageModel, check: Check, chosen: Options) -> Draft:
    """The draft of a Python program; a program without errors is taken as it is."""
    declared = frozenset(one.name for one in request.tools if one.effect.only_reads)
    tools = (replace(one, effect=likely_effect(one.name, one.effect)) for one in request.tools)
    request = replace(request, tools=tuple(tools))
    strength = strength_of(model)
    room = room_beside(request, context_of(model))
    stubs = stubs_for(request.goal, request.tools, strength, chosen.max_tools, room)
    asked = program_question(request, stubs, strength)

    def read(text: str, _: Constraint | None) -> Reading:
        question = question_in(text)
        if question:
            return Reading(None, (asks(question),), Source(NAME, text), question=question)
        if not looks_like_program(text):
            return _in_another_syntax(text, request, check)
        reading = read_program_answer(text, request, check, reads=declared if is_small else None)
        return with_doubts(reading) if is_small and chosen.second_look else reading

    is_small = strength is Strength.SMALL
    grammar = _grammar_of(stubs, request) if is_small else None
    syntaxes = model.accepts if chosen.constrained and grammar is not None else ()
    ask = Ask(
        messages=asked.messages,
        read=read,
        accounting=Accounting(model=model.name, prompt=asked.version, remarks=tuple(asked.remarks)),
        constraint=None if grammar is None else _held(grammar, syntaxes),
        narrowed=lambda first: _held(_grammar_of(stubs, request, first), syntaxes),
        keeps=None
        if grammar is None
        else lambda answer: is_sentence(grammar, program_in(answer).rstrip("\n")),
        most_tokens=chosen.max_tokens or (MOST_OF_SMALL if is_small else None),
        repairs=chosen.repairs,
        placed=(lambda found, _: unplaced(found)) if is_small else placed,
        afresh=other_question(request, asked) if is_small else None,
        is_better=lambda first, second: _is_better(first, second, request),
    )
    return await ask_model(ask, model)


def _is_better(first: Draft, second: Draft, request: Request) -> bool:
    """Whether a second plan has fewer ids that were made up, or as many and fewer other doubts.

    One that changes nothing any more is not: a plan that does less has fewer doubts.
    """
    if first.plan is None or second.plan is None:
        return False
    if changes_something(first.plan, request) and not changes_something(second.plan, request):
        return False
    before, after = (
        (len(lookups(one, request)), len(draft.doubts)) for draft in (first, second) if (one := draft.plan)
    )
    return after < before


def _grammar_of(stubs: Stubs, request: Request, wrong: Draft | None = None) -> Grammar:
    """The grammar of programs over the tools that a small model is told; a strong one needs none.

    A text may be as long as the goal, which it may repeat, and an id is one of the goal's words or read from
    a result. After an answer with a name that nothing sets the variables are those that it set, except under
    names of tools, and after one that was cut off blocks are short: it mostly repeated itself. After a
    doubtful plan the ids that nobody stated are looked up first.
    """
    shapes = [ToolShape(function_name(spec.name), spec.parameters) for spec in stubs.tools]
    given = tuple(name for name in request.given if name.isidentifier())
    longest = min(max(_TEXT, len(request.goal)), _LONGEST_TEXT)
    faults = {one.code for one in wrong.errors} if wrong is not None else set[str]()
    return program_grammar(
        shapes,
        given,
        longest_text=longest,
        variables=bound_names(program_in(wrong.answer)) - {shape.name for shape in shapes}
        if wrong is not None and _UNSET in faults
        else None,
        fields=fields_of(stubs.tools),
        most_statements=(8, 3) if "CMP008" in faults else (20, 8),
        looked_up=None if wrong is None or wrong.plan is None else lookups(wrong.plan, request),
        told=told_ids(stubs.tools, request),
    )


_UNSET = "PYT008"
_TEXT, _LONGEST_TEXT = 400, 1_500
"""The most characters of a text in a program: usually, and for a long goal; llama.cpp takes no more."""


def _held(grammar: Grammar, accepts: Iterable[Syntax]) -> Constraint | None:
    """The constraint for a model, in GBNF if it accepts that: llguidance takes longer for expressions."""
    syntaxes = frozenset(accepts)
    if Syntax.GBNF in syntaxes:
        return Constraint(Syntax.GBNF, as_gbnf(grammar), "program")
    if Syntax.LARK in syntaxes:
        return Constraint(Syntax.LARK, as_lark(grammar), "program")
    return None


def _in_another_syntax(text: str, request: Request, check: Check) -> Reading:
    """The plan of an answer that is no program, but a plan in another syntax."""
    result = read_answer_plan(text, request.given, NAME)
    if result.plan is None:
        return Reading(None, (no_program(text), *result.diagnostics), result.source)
    return _checked(request, Reading(result.plan, result.diagnostics, result.source), check)


async def _text(request: Request, model: LanguageModel, check: Check, chosen: Options) -> Draft:
    """The draft of LTP text."""
    accepts = tuple(model.accepts) if chosen.constrained else ()
    strength = strength_of(model)
    catalogue = _catalogue(request, strength, chosen)
    plain = question(request.goal, request.context, catalogue, request.given)
    constrained = _Constrained.to(catalogue, request, strength, chosen.max_steps)
    constraint = constrained.constraint(accepts)
    is_json = constraint is not None and constraint.syntax is Syntax.JSON_SCHEMA

    def read(text: str, held_to: Constraint | None) -> Reading:
        answer = _read(text, held_to, constrained, request.given)
        return _checked(request, answer, check)

    ask = Ask(
        messages=as_json(plain.messages) if is_json else plain.messages,
        plainly=plain.messages,
        keeps=None if is_json else constrained.keeps,
        read=read,
        accounting=Accounting(model=model.name, prompt=plain.version, remarks=tuple(plain.remarks)),
        constraint=constraint,
        most_tokens=chosen.max_tokens or (_MOST_OF_TEXT if strength is Strength.SMALL else None),
        repairs=chosen.repairs,
    )
    return await ask_model(ask, model)


def _headed(draft: Draft) -> Draft:
    """The draft with a summary diagnostic before the errors of its plan, if the answer was one."""
    if draft.plan is not None or draft.failure is not None or draft.errors[0].code.startswith("CMP"):
        return draft
    again = ", even after one repair" if draft.accounting.repaired else ""
    head = Diagnostic(
        "CMP007",
        Severity.ERROR,
        f"the plan is wrong{again}: {draft.errors[0].message}",
        help="make the goal more precise, or try another model",
    )
    return replace(draft, diagnostics=(head, *draft.diagnostics))


def goal_fault(goal: str) -> Diagnostic | None:
    """Why a goal cannot be compiled at all (CMP002, CMP003), None if it can."""
    if not goal.strip():
        return Diagnostic("CMP002", Severity.ERROR, "the goal is empty", help="describe what should be done")
    if len(goal) > MAX_GOAL:
        message = f"the goal has {len(goal):,} characters; at most {MAX_GOAL:,} are allowed"
        return Diagnostic("CMP003", Severity.ERROR, message, help="shorten it, and pass the rest as context")
    return None


class _Constrained(NamedTuple):
    """The constraint on an answer: the tools and operations offered, and options of the grammar."""

    shapes: list[ToolShape]
    options: ExportOptions

    @classmethod
    def to(cls, catalogue: Catalogue, request: Request, strength: Strength, max_steps: int) -> _Constrained:
        """The constraint for a goal.

        Conditions and the handling of failures are always in it: a goal may ask for them in any words and in
        any language, and a form without them would turn it into an unconditional plan. For a small model it
        has bounds that follow from the goal and the tools; if a plan does not fit them, it is shorter than
        asked for, but does nothing else.
        """
        given, offers = request.given, catalogue.offers
        options = ExportOptions(
            max_steps=max_steps,
            operations=catalogue.operations,
            given=tuple(name for name in given if _NAME.fullmatch(name)),
            item="x",
            groups=True,
        )
        if strength is Strength.SMALL:
            most = min(max_steps, _most_steps(request.goal, catalogue))
            options = replace(
                options,
                max_steps=most,
                fields=_fields_of(request, catalogue),
                min_results=1 if catalogue.fits and most > 1 else 0,
                groups=is_side_by_side(request.goal),
            )
        shapes = [ToolShape(o.name.lower(), o.parameters) for o in offers if o.parameters is not None]
        return cls(shapes, options)

    def constraint(self, accepts: Iterable[Syntax]) -> Constraint | None:
        """The constraint in the first syntax that the model accepts; None if it accepts none."""
        match next(iter(accepts), None):
            case Syntax.LARK:
                return Constraint(Syntax.LARK, plan_lark(self.shapes, self.options), "plan")
            case Syntax.GBNF:
                return Constraint(Syntax.GBNF, plan_gbnf(self.shapes, self.options), "plan")
            case Syntax.JSON_SCHEMA:
                schema = plan_schema(self.shapes, self.options)
                return Constraint(Syntax.JSON_SCHEMA, json.dumps(schema), "plan")
            case None:
                return None

    def keeps(self, answer: str) -> bool:
        """Whether an answer matches the grammar from its first step on: models may reason before it."""
        grammar = plan_grammar(self.shapes, self.options)
        stripped = answer.strip()
        begins = stripped.find("S1: ")
        return is_sentence(grammar, stripped) or (begins > 0 and is_sentence(grammar, stripped[begins:]))


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _fields_of(request: Request, catalogue: Catalogue) -> frozenset[str]:
    """The field names that a path may use: words of the tools' lines, the goal and the variables.

    Any other field would be a guess, and small models guess words of the language.
    """
    summary = "\n".join((catalogue.text, request.goal, request.context[:_LOOKED_AT], *request.given.values()))
    words = (word for word in _FIELD.findall(summary) if len(word) <= _LONGEST_FIELD)
    return frozenset(word for word in words if word not in _NO_FIELDS and not is_empty_word(word))


_FIELD = re.compile(r"(?<![@$\w])(?!v\d|llm_)[a-z_][A-Za-z0-9_]+(?!\w)")
"""A word that may be a field; a capitalised one begins a sentence or is a name."""
_LOOKED_AT = 4_000
_LONGEST_FIELD = 30
_NO_FIELDS = frozenset(
    ("contains", "contain", "is_empty", "not_empty", "foreach", "retry", "gives", "returns", "list", "only")
)


def _most_steps(goal: str, catalogue: Catalogue) -> int:
    """The most steps of a plan for a goal: one per part, one for the answer, and some slack.

    There is slack where a part may need two steps: if it is the only one, speaks of each of several things,
    or asks for an operation on something that has to be loaded first.
    """
    parts = parts_of(goal)
    if len(parts) <= 1:
        return 4
    count = max(len(parts), len(catalogue.parts))
    return count + (2 if catalogue.operations or mentions_all(parts[0]) else 1)


def _catalogue(request: Request, strength: Strength, options: Options) -> Catalogue:
    is_strong = strength is Strength.STRONG
    most = options.max_tools or (MANY_TOOLS if is_strong else FEW_TOOLS)
    return catalogue_for(request.goal, request.tools, max_tools=most)


def _read(text: str, held_to: Constraint | None, constrained: _Constrained, given: Iterable[str]) -> Reading:
    """The plan in an answer; a text without any step gets a diagnostic of the compiler's (CMP006)."""
    if held_to is not None and held_to.syntax is Syntax.JSON_SCHEMA and text.lstrip().startswith("{"):
        result = read_flat(text, constrained.shapes, NAME, constrained.options)
    else:
        result = read_answer_plan(text, given, NAME)
    if result.plan is None and not result.partial.steps:
        return Reading(None, (_no_plan(text), *result.diagnostics), result.source)
    return Reading(result.plan, result.diagnostics, result.source)


def _no_plan(text: str) -> Diagnostic:
    begins = " ".join(text.split())[:80]
    return Diagnostic(
        "CMP006",
        Severity.ERROR,
        f"the model's answer contains no plan: it begins {begins!r}",
        help="make the goal more precise, or try another model",
    )


def _checked(request: Request, reading: Reading, check: Check) -> Reading:
    """The plan as it is shown, with its diagnostics; or the errors of the answer."""
    if reading.plan is None:
        return reading
    plan = with_whole_answer(reading.plan)
    diagnostics = tuple(check(plan))
    if any(d.is_error for d in diagnostics):
        return Reading(None, (*_errors(reading.diagnostics), *diagnostics), reading.source)
    plan = with_telling_names(replace(plan, id=None, title=None, goal=_header(request.goal)), request.given)
    return _shown(plan, request, check)


def _shown(plan: Plan, request: Request, check: Check) -> Reading:
    """The reading of a plan as LTP text, with what the checks find in it, and failures that go unnoticed."""
    try:
        text = format_plan(plan)
        shown = parse(text, NAME).require()
    except CallsheetError as error:
        return Reading(None, tuple(error.diagnostics), Source(NAME, ""))
    found = tuple(check(shown))
    wrong = any(d.is_error for d in found)
    reads = frozenset(spec.name for spec in request.tools if spec.effect.only_reads)
    return Reading(None if wrong else shown, (*found, *_unnoticed_failures(shown, reads)), Source(NAME, text))


def _unnoticed_failures(plan: Plan, reads: Collection[str]) -> Iterator[Diagnostic]:
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


def _errors(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(d for d in diagnostics if d.is_error)


def _header(goal: str) -> str:
    """The goal for the header of a plan, with the blanks around its lines removed."""
    return "\n".join(line.strip() for line in goal.strip().splitlines())
