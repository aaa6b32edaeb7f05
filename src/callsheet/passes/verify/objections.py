"""What both proofs make of what the rules say of a call: objections, obligations, and what explains them.

In: notes of the rules, labels. Out: parts of a verdict. `analysis` proves plans of version 1, `verify_tree`
those of version 2; what data flows where is for them to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from callsheet.ir.labels import Label
from callsheet.policy.builtins import fold
from callsheet.policy.calls import Argument, CallView, Duty, Hole, Objection, Obligation, Rule
from callsheet.policy.judge import Judge
from callsheet.policy.limits import PlannedCalls
from callsheet.policy.rules.base import Notes
from callsheet.policy.rules.opened_files import DECLARE, seen_by

Parameters = Callable[[str], tuple[str, ...]]
"""The names of the parameters of a tool; () if they are not known."""
MOST_BITS = 16
"""The number of bits that may leak to an observer of the plan's actions."""
LARGE = 1_000
"""The number of steps from which on a proof pauses the collector of garbage."""
MOST_PATHS = 50
"""The number of violations, and of questions, that are shown with their data flow."""
AT_ONCE = 256
"""Steps judged in one batch, so that their texts are searched for forbidden patterns in a single pass."""
UNTRUSTED_RULES = frozenset({Rule.CONTROL, Rule.EXECUTABLE, Rule.REPLAN})
CONTROL_RULES = frozenset({Rule.IMPLICIT, Rule.CONSEQUENTIAL})
FLOW_RULES = UNTRUSTED_RULES | {Rule.FLOW, Rule.ANSWER}


def parameters_known(judge: Judge, given: Mapping[str, Sequence[str]]) -> Parameters:
    """The parameters of tools by those that are given, else as the policy describes the tool."""
    known: dict[str, tuple[str, ...]] = {fold(name): tuple(names) for name, names in given.items()}

    @cache
    def names(tool: str) -> tuple[str, ...]:
        traits = judge.traits(tool)
        return known.get(fold(tool), ()) or (traits.parameters if traits is not None else ())

    return names


def notes_of(
    judge: Judge,
    calls: Sequence[CallView],
    clear: frozenset[str],
    planned: PlannedCalls | None,
    *,
    is_sure: bool,
    again: bool,
) -> Iterator[tuple[CallView, Notes]]:
    """What the rules say of each way in which a step may call its tool; of those of which they say anything.

    The texts of `clear` tools have already been searched. `planned` counts the call, if limits may object.
    """
    for call in calls:
        notes = judge.notes(call, is_clear=call.tool in clear)
        if planned is not None:
            notes = Notes() if notes is None else notes
            planned.note(call, notes, is_sure=is_sure, again=again)
            notes = None if notes.is_empty else notes
        if notes is not None:
            yield call, notes
    if planned is not None and calls:
        planned.add(calls, is_sure=is_sure)


def unapproved(question: Objection, argument: str | None) -> Objection:
    """The objection that takes the place of a question that nobody can be asked."""
    message = f"{question.message}, and is not approved"
    return Objection(Rule.CONSEQUENTIAL, message, argument, "approve the step")


def withheld(judge: Judge, step: str, tool: str, label: Label, pc: Label) -> Iterator[Obligation]:
    """Obligations to withhold the words of a failure with this label, which ends the run."""
    error = Argument("0", ("failed: ", Hole("error", label)), label)
    for objection in judge.judge(CallView(step, "TERMINATE", (error,), pc)).objections:
        why = f"its error is withheld where it fails: {objection.message}"
        yield Obligation(Duty.VERIFY_AGAIN, step, why, tool)


def approval(step: str, message: str, tool: str, flow: Sequence[str]) -> Obligation:
    """The approval that a step needs, with the path of the data that it is about."""
    detail = f"{message} ({' → '.join(flow)})" if flow else message
    return Obligation(Duty.APPROVE, step, detail, tool)


def help_of(objection: Objection, bits: int, what: str) -> str | None:
    """The help of an objection; if too many bits leak, that of an implicit flow explains the limit."""
    if bits <= MOST_BITS or objection.rule is not Rule.IMPLICIT:
        return objection.help
    return (
        f"{bits} {what} depend on whether private data is empty or an error, and the plan may reveal "
        f"{MOST_BITS} such bits: use fewer, or do this earlier"
    )


def hint_about(step: str, help_: str | None, *, sees_everything: bool, reads_left: bool) -> str | None:
    """A help that also says what to do about the data that came in with a step."""
    if sees_everything:
        message = f"the program of {step} may read the whole workspace: {DECLARE}"
    elif reads_left:
        message = f"{step} reads data that an earlier run has left: `callsheet labels list` shows it"
    else:
        return help_
    return message if help_ is None else f"{help_}; {message}"


def sees_everything(judge: Judge, tool: str, calls: Iterable[CallView]) -> bool:
    """Whether a program has not declared what it reads."""
    return any(seen_by(judge.setting, tool, call).is_whole for call in calls)


def guilty_of(rule: Rule) -> Callable[[Label], bool]:
    """Which data a rule objects to: what is untrusted, or else what is private."""
    return is_untrusted if rule in UNTRUSTED_RULES or rule is Rule.CONSEQUENTIAL else is_private


def is_private(label: Label) -> bool:
    """Whether not everybody may read it."""
    return not label.is_public


def is_untrusted(label: Label) -> bool:
    """Whether anybody may have written it."""
    return label.untrusted


def given_twice(named: Iterable[tuple[str, object]]) -> list[str]:
    """The names of arguments that are given twice if case is ignored."""
    names = [name.casefold() for name, _ in named]
    return sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
