"""Asks a model for a plan, and once more if the answer is wrong or seems incomplete.

In: a conversation, a model, and functions to parse and check an answer. Out: a draft with its accounting.
Calling the model is the only effect; the same answers give the same draft.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from callsheet.authoring.compiler.prompt import beside, finding_line, repair
from callsheet.authoring.compiler.request import Accounting, Draft
from callsheet.diagnostics import Diagnostic, Severity, Source
from callsheet.ir import Plan
from callsheet.machine import Fact
from callsheet.ports.models.model import (
    Completion,
    Constraint,
    Failure,
    LanguageModel,
    ModelFailed,
    Stop,
    diagnose,
)
from callsheet.ports.models.prompts import Messages

NAME = "<model>"
"""The name of an answer's text in diagnostics."""


class Reading(NamedTuple):
    """A parsed answer: its plan, if valid, and the diagnostics.

    `doubts` are findings that are no errors, with their places: reasons to doubt a valid plan, and what else
    is to be mended in a wrong one.
    """

    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]
    source: Source
    doubts: tuple[str, ...] = ()
    question: str = ""
    """What the model asks instead of writing a plan."""

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The errors, which keep the plan from being used."""
        return tuple(d for d in self.diagnostics if d.is_error)


Read: TypeAlias = "Callable[[str, Constraint | None], Reading]"
"""Parses and checks an answer, given the constraint that was applied to it, if any."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for a plan: the conversation, the constraint on the answer, and how to parse it.

    A second answer is constrained by `narrowed` of a wrong or doubtful first one. `plainly` is the
    conversation to use without a constraint; `keeps` tells whether an answer satisfies the constraint.
    `most_tokens` limits each answer; `repairs` says whether to ask again after a wrong answer.
    """

    messages: Messages
    read: Read
    accounting: Accounting
    constraint: Constraint | None = None
    narrowed: Callable[[Draft], Constraint | None] | None = None
    plainly: Messages | None = None
    keeps: Callable[[str], bool] | None = None
    most_tokens: int | None = None
    repairs: bool = True
    placed: Callable[[Iterable[Diagnostic], Source], Iterable[Diagnostic]] | None = None
    """How errors are told to the model, which sees no places; None tells them as they are."""
    afresh: Messages | None = None
    """The conversation that asks again without the answer, with what is wrong beside the goal."""
    is_better: Callable[[Draft, Draft], bool] = lambda first, second: len(second.doubts) < len(first.doubts)
    """Whether a second plan takes the place of a doubted first one."""


async def ask_model(ask: Ask, model: LanguageModel) -> Draft:
    """The draft from the model's answer, or from its second one.

    A failure of the model becomes a diagnostic too; only exceptions that end the program are raised.
    """
    first = await _answered(ask, model, ask.messages)
    if first.plan is not None and first.doubts and ask.repairs:
        return await _second_look(ask, model, first)
    if first.plan is not None or not ask.repairs or first.failure is not None or first.question:
        return first
    ask = replace(ask, accounting=first.accounting)
    if ask.plainly is not None and _was_unconstrained(first):
        ask = replace(ask, constraint=None, messages=ask.plainly)
    elif ask.narrowed is not None and ask.constraint is not None:
        ask = replace(ask, constraint=ask.narrowed(first))
    told = first.errors if ask.placed is None else ask.placed(first.errors, first.source)
    wrong = (*map(finding_line, told), *first.doubts)
    second = await _answered(ask, model, _again(ask, first, wrong))
    second = replace(second, diagnostics=(*_about_server(first), *second.diagnostics))
    if not second.answer and first.answer:  # keep the first answer
        return replace(first, accounting=second.accounting, failure=second.failure)
    return replace(second, accounting=replace(second.accounting, repaired=second.failure is None))


async def _second_look(ask: Ask, model: LanguageModel, first: Draft) -> Draft:
    """The better of the first plan and that of a second request with what is doubtful in it."""
    again = replace(ask, accounting=first.accounting)
    if ask.narrowed is not None and ask.constraint is not None:
        again = replace(again, constraint=ask.narrowed(first))
    second = await _answered(again, model, _again(ask, first, first.doubts, doubted=True))
    is_better = first.plan is not None and second.plan is not None and ask.is_better(first, second)
    doubted = Fact("asked once more", f"{first.doubts[0]}; {_taken(second, is_better=is_better)}")
    accounting = second.accounting.with_remarks(doubted)
    return replace(second if is_better else first, accounting=accounting)


def _again(ask: Ask, first: Draft, wrong: Iterable[str], *, doubted: bool = False) -> Messages:
    if ask.afresh is not None and first.answer.strip():
        return beside(ask.afresh, wrong)
    return repair(ask.messages, first.answer, wrong, doubted=doubted)


def _taken(second: Draft, *, is_better: bool) -> str:
    """Which plan was taken, and what to check in it."""
    if not is_better:
        return "the second answer is no better, so the first plan is used: check whether it leaves that out"
    left = f": check whether it leaves this out: {second.doubts[0]}" if second.doubts else ""
    return f"the second plan is used{left}"


async def _answered(ask: Ask, model: LanguageModel, messages: Messages) -> Draft:
    """One parsed answer; a constraint that the provider refuses is left out."""
    accounting, constraint = ask.accounting, ask.constraint
    try:
        completion = await model.complete(messages, constraint, max_tokens=ask.most_tokens)
    except ModelFailed as error:
        if error.kind is Failure.CONSTRAINT and constraint is not None:
            without = replace(
                ask, constraint=None, accounting=accounting.with_remarks(Fact(_CONSTRAINT, "none: refused"))
            )
            return await _answered(without, model, ask.plainly or messages)
        if error.kind is Failure.EMPTY:
            completion = Completion("", model=model.name)
        else:
            return replace(_draft(ask, "", [diagnose(error)], accounting), failure=error)
    return _read(ask, completion, constraint)


_CONSTRAINT = "constraint"


def _read(ask: Ask, completion: Completion, constraint: Constraint | None) -> Draft:
    accounting = ask.accounting.with_answer(completion)
    is_held = constraint is not None and completion.constrained
    keeps = not is_held or _keeps(ask, completion)
    if constraint is not None:
        kept = str(constraint.syntax) if keeps else f"none: the answer does not match {constraint.syntax}"
        accounting = accounting.with_remarks(Fact(_CONSTRAINT, kept if is_held else "none: omitted"))
    if not completion.text.strip():
        return _draft(ask, completion.text, [_empty()], accounting)
    reading = ask.read(completion.text, constraint if is_held else None)
    diagnostics = list(reading.diagnostics)
    if completion.stop is Stop.LENGTH:
        diagnostics.insert(0, _cut())
    if constraint is not None and not keeps:
        diagnostics.insert(0, _not_kept(completion, constraint))
    wrong = any(d.is_error for d in diagnostics)
    plan = None if wrong else reading.plan
    draft = Draft(
        completion.text, plan, tuple(diagnostics), reading.source, accounting, doubts=reading.doubts
    )
    return replace(draft, question=reading.question)


def _keeps(ask: Ask, completion: Completion) -> bool:
    """Whether an answer satisfies its constraint, as far as that can be checked."""
    is_whole = completion.stop is not Stop.LENGTH and bool(completion.text.strip())
    return ask.keeps is None or not is_whole or ask.keeps(completion.text)


def _draft(ask: Ask, answer: str, wrong: Iterable[Diagnostic], accounting: Accounting) -> Draft:
    return Draft(answer, None, tuple(wrong), Source(NAME, answer), accounting)


def _was_unconstrained(draft: Draft) -> bool:
    return any(
        isinstance(r, Fact) and r.name == _CONSTRAINT and r.text.startswith("none:")
        for r in draft.accounting.remarks
    )


def _empty() -> Diagnostic:
    return Diagnostic(
        "CMP005", Severity.ERROR, "the model's answer is empty", help="ask again, or try another model"
    )


def _cut() -> Diagnostic:
    return Diagnostic(
        "CMP008",
        Severity.ERROR,
        "the answer ends before its plan does: it is longer than the model may write",
        help="write a shorter plan: fewer steps, shorter texts",
    )


_NOT_KEPT = "MDL030"


def _not_kept(completion: Completion, constraint: Constraint) -> Diagnostic:
    asked = f"the model {completion.model}" if completion.model else "the model"
    return Diagnostic(
        _NOT_KEPT,
        Severity.WARNING,
        f"{asked} was asked to keep its answer to a grammar ({constraint.syntax}), but did not",
        help="see what `callsheet doctor` reports about its constraints, and the server's log",
    )


def _about_server(draft: Draft) -> tuple[Diagnostic, ...]:
    """The diagnostics about the server, which remain relevant if another answer is used."""
    return tuple(d for d in draft.diagnostics if d.code == _NOT_KEPT)
