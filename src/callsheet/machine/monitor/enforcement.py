"""A policy in force in a run: its rules, the labels of the inputs, and whether a call is admitted.

In: a call whose arguments have labels, and the steps that its data came from. Out: an `Admitted`, or
RefusedByPolicy with the flow of its data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from callsheet.ir import JSON
from callsheet.ir.labels import LITERAL, MODEL, Label, join
from callsheet.machine.keys import place_of_key
from callsheet.machine.monitor.reads import DEEPEST, MOST_MEMBERS
from callsheet.machine.monitor.variable_labels import (
    NONE,
    NOTHING_SHOWN,
    Admitted,
    Extended,
    Origins,
    VariableLabels,
    merged,
)
from callsheet.machine.notes import ASKED, REFUSED
from callsheet.machine.program import StepCode
from callsheet.machine.result import PolicyRefusal, RefusedByPolicy
from callsheet.machine.values import to_json_text, to_text
from callsheet.policy.builtins import is_approved_ahead
from callsheet.policy.calls import Argument, CallView, Hole, Judgement, Objection, Rule, bare
from callsheet.policy.judge import Judge, judge_of
from callsheet.policy.limits import CallHistory, note_breaches
from callsheet.policy.model import Policy
from callsheet.policy.rules.base import Verdicts, shown

_MOST_SAID = 200_000
"""The most characters of a user's words that are kept; the oldest are forgotten."""
_BEFORE = r"(?<![\w@/+%.:&=?#~-])"
_AFTER = r"(?![\w@/+%&=?#~-]|[.:](?=\w))"
"""What may not stand around a value: parts of a longer word, address or path."""


class ClientWords:
    """The words of one session's user, and the policy's harmless values.

    >>> words = ClientWords(["yes"], LITERAL)
    >>> words.hear(["Send the report to bob@out.example, please."])
    >>> [words.cover(text) for text in ("bob@out.example", "ob@out.example", "bob@out", "yes", "no")]
    [True, False, False, True, False]
    """

    __slots__ = ("_asked", "_label", "_listed", "_said")

    def __init__(self, harmless: Iterable[str], label: Label) -> None:
        self._listed = frozenset(harmless)
        self._label = label
        self._said = ""
        self._asked: set[str] = set()

    def hear(self, texts: Iterable[str]) -> None:
        """The user has said this too."""
        for text in texts:
            self._said = f"{self._said}\n{text}"[-_MOST_SAID:]
            self._asked.clear()  # said again, it may be done again

    def label_of(self, value: JSON, seen: Label) -> Label:
        """The label of a plain value that a client chose after it has seen data of the label `seen`."""
        text = to_text(value)
        if text in self._listed:
            return LITERAL
        return self._label if self._has_said(text) else seen

    def cover(self, value: JSON) -> bool:
        """Whether a value, with all its members and keys, was said or is harmless."""
        if isinstance(value, dict):
            members = cast("dict[str, JSON]", value)
            return all(self.cover(key) and self.cover(item) for key, item in members.items())
        if isinstance(value, list):
            return all(map(self.cover, cast("list[JSON]", value)))
        text = to_text(value)
        return text in self._listed or self._has_said(text)

    def ask_for(self, tool: str, args: Mapping[str, Any]) -> bool:
        """Whether the user has asked for exactly this call: all of it was said, and it was not made since."""
        if not self._said or not all(map(self.cover, args.values())):
            return False
        call = f"{tool} {to_json_text(dict(args))}"
        is_first = call not in self._asked
        self._asked.add(call)
        return is_first

    def argument(self, name: str, value: JSON, seen: Label, depth: int = 0) -> Argument:
        """An argument of a call, by members if these are few; each has its own label."""
        if not isinstance(value, list | dict) or not 0 < len(value) <= MOST_MEMBERS or depth >= DEEPEST:
            plain = isinstance(value, list | dict) and bool(value)
            label = seen if plain else self.label_of(value, seen)
            return Argument(name, (Hole("", label, to_text(value)),), label)
        items: list[Argument] = []
        if isinstance(value, dict):
            for key, item in cast("dict[str, JSON]", value).items():
                of_key = self.label_of(key, seen)
                items.append(Argument(name, (Hole("", of_key, key),), of_key))
                items.append(self.argument(key, item, seen, depth + 1))
        else:
            items += [self.argument(name, item, seen, depth + 1) for item in value]
        return Argument(name, (), join(each.label for each in items), tuple(items))

    def _has_said(self, text: str) -> bool:
        if not text.strip() or text not in self._said:
            return False
        return re.search(_BEFORE + re.escape(text) + _AFTER, self._said) is not None


JudgeCall: TypeAlias = "Callable[[CallView], Judgement]"


@dataclass(frozen=True, slots=True)
class Enforcement:
    """The policy of a run, and its rules.

    `inputs` are the labels of the run's input variables by name; others have the label `given`. `rules` is
    the Judge behind `judge`, if known: then judgements can be cached.
    """

    policy: Policy
    judge: JudgeCall
    inputs: Mapping[str, Label] = field(default_factory=dict[str, Label])
    given: Label = LITERAL
    rules: Judge | None = None

    @classmethod
    def under(cls, policy: Policy, inputs: Mapping[str, Label] | None = None) -> Enforcement:
        """The enforcement of a policy; raises ValueError if one of its patterns or hosts is invalid."""
        rules = judge_of(policy)
        return cls(policy, rules.decide, inputs or {}, policy.inputs, rules)

    def of_items(self, source: Argument) -> Label:
        """The label of the items of a loop whose source is written in the plan."""
        return (self.rules or judge_of(self.policy)).of_items(source)

    def of_new_plans(self) -> Enforcement:
        """The enforcement for plans made during the run: rules that name steps do not apply to them."""
        own = self.policy.without_steps()
        return self if own is self.policy else Enforcement.under(own, self.inputs)


class OpenCalls:
    """The labels of what is in progress, by key of a call or by key prefix of a step's visit."""

    __slots__ = ("calls", "loops", "results", "talks", "words")

    def __init__(self) -> None:
        self.calls: dict[str, Admitted] = {}
        """Calls without an outcome, by key."""
        self.talks: dict[str, tuple[Label, Origins]] = {}
        """All that the model of a turn-by-turn operation has seen so far, by key."""
        self.words: dict[str, ClientWords] = {}
        """What the users of sessions have said, by key of the talk."""
        self.loops: dict[str, tuple[Label, Origins]] = {}
        """The items of open loops, by key prefix."""
        self.results: dict[str, tuple[Label, Origins]] = {}
        """The results so far of open steps, by key prefix."""

    def has_seen(self, talk: str, label: Label, origins: Origins) -> None:
        """The model of a talk has seen data of this label."""
        seen, before = self.talks[talk]
        self.talks[talk] = seen.join(label), merged(before, origins)

    def add_result(self, prefix: str, label: Label, origins: Origins) -> None:
        """Join a label into that of a step's result."""
        known = self.results.get(prefix)
        if known is None:
            self.results[prefix] = label, origins
        elif known[0] is not label or known[1] is not origins:
            self.results[prefix] = label.join(known[0]), merged(known[1], origins)

    def forget(self, prefix: str) -> None:
        """Drop the labels of the failed step whose keys have this prefix."""
        self.results.pop(prefix, None)
        self.loops.pop(prefix, None)

    def rename(self, before: str, key: str) -> None:
        """A call is retried under another key."""
        if before in self.calls:
            self.calls[key] = self.calls.pop(before)
        if before in self.talks:
            self.talks[key] = self.talks.pop(before)

    def sent_by(self, key: str) -> Label | None:
        """The label of all data that a call sends; None if it is not open."""
        admitted = self.calls.get(key)
        return None if admitted is None else admitted.sent

    def holds_secrets_of(self, step: str) -> bool:
        """Whether an open call of a step sends, or has given, secret data."""
        calls = [key for key, a in self.calls.items() if a.result.is_secret or a.sent.is_secret]
        prefixes = (*self.results.items(), *self.loops.items())
        calls += [f"{prefix}0.1" for prefix, (label, _) in prefixes if label.is_secret]
        calls += [key for key, (label, _) in self.talks.items() if label.is_secret]
        return any(place_of_key(key)[0] == step for key in calls)


_MODEL = frozenset({MODEL})
_IN_A_STEP = "remove the tool from the agent's tools, and call it in a step"


def objected(call: CallView, objection: Objection, origins: Origins) -> RefusedByPolicy:
    """The exception for an objection to a call whose data came from the steps `origins`."""
    argument = None if objection.argument is None else call.argument(objection.argument)
    label = join(a.label for a in call.arguments) if argument is None else argument.label
    return RefusedByPolicy(
        PolicyRefusal(
            call.step,
            call.tool,
            str(objection.rule),
            objection.message,
            objection.argument,
            str(label),
            str(call.pc),
            (*origins, call.step),
            objection.help,
        )
    )


def unseen(code: StepCode, label: Label, origins: Origins) -> RefusedByPolicy | None:
    """The refusal to show the result of an agent's call to the agent's model; None if it may be shown."""
    if label.may_reach(_MODEL):
        return None
    call = CallView(code.id, code.tool, (Argument("", (), label),), LITERAL, in_agent=True)
    why = f"{shown(label)} that @{code.tool} gave the agent would reach the language model"
    steps = tuple(step for step in origins if step != code.id)
    return objected(call, Objection(Rule.FLOW, why, help=_IN_A_STEP), steps)


def session_of(label: Label) -> Admitted:
    """The admission of a client's session, which sends nothing itself; it begins with data of a label."""
    return bare(Admitted, (label, label, NONE, (), NOTHING_SHOWN))


class Judging:
    """Judges calls by one set of rules; `variables` knows where variables come from.

    Under a policy that only observes, `observe` is told what would have been refused or asked, and the call
    is admitted.
    """

    __slots__ = ("_policy", "_variables", "extended", "history", "judge", "observe")

    def __init__(
        self,
        judge: Callable[[CallView], Judgement],
        variables: VariableLabels,
        observe: Callable[[str, str], None] | None = None,
        *,
        policy: Policy,
        history: CallHistory | None = None,
    ) -> None:
        self.judge = judge
        self._variables = variables
        self.extended = Extended()
        self.observe = observe
        self.history = history if history is not None and history.is_needed else None
        """The calls so far; None if the policy has no limits over them."""
        self._policy = policy

    def apply(self, judge: Callable[[CallView], Judgement], history: CallHistory, policy: Policy) -> None:
        """Judge by another policy from now on, whose limits go on with the calls of this history."""
        self.judge, self._policy = judge, policy
        self.history = history if history.is_needed else None

    def refuse(self, refused: RefusedByPolicy) -> None:
        """Raise a refusal, or tell of it if nothing is refused."""
        if self.observe is None:
            raise refused
        self.observe(refused.refusal.step, f"{REFUSED}{refused.refusal.reason()}")

    def admitted(
        self,
        call: CallView,
        origins: Origins,
        *,
        is_asked: bool,
        origins_of: Callable[[str], Origins] | None = None,
    ) -> Admitted:
        """Judge a call; `is_asked` says that a person is asked before it anyway. Raises RefusedByPolicy.

        `origins_of` tells the origins of an argument by its name, where its variables do not tell them.
        """
        pc, arguments = call.pc, call.arguments
        judgement = self.judge(call)
        if self.history is not None:
            judgement = self._within_limits(call, judgement, self.history)
        if judgement.objections:
            self.refuse(objected(call, judgement.objections[0], origins))
            judgement = judgement._replace(approvals=())
        elif judgement.approvals and not is_asked:
            approved = self.judge(call._replace(approved=True))
            if approved.objections:  # an approval would not help
                self.refuse(objected(call, approved.objections[0], origins))
                judgement = judgement._replace(approvals=())
        if judgement.approvals and self.observe is not None:
            self.observe(call.step, f"{ASKED}@{call.tool}: {'; '.join(judgement.approvals)}")
            judgement = judgement._replace(approvals=())
        sent = pc
        for argument in arguments:
            if argument.label is not sent:
                sent = sent.join(argument.label)
        if judgement.links:
            sent = Judge.unshown(sent)
        result = judgement.result
        if pc is not LITERAL:
            result = result.join(pc)
        made_by = self.extended.extend(origins, call.step)
        if not (is_asked or judgement.approvals):
            return bare(Admitted, (result, sent, made_by, (), NOTHING_SHOWN))
        return Admitted(
            result, sent, made_by, judgement.approvals, self._shown(arguments, origins, origins_of)
        )

    def _within_limits(self, call: CallView, judgement: Judgement, history: CallHistory) -> Judgement:
        """The judgement with what the policy's limits say against one more call."""
        notes = Verdicts()
        is_approved = is_approved_ahead(self._policy, call.step, call.tool)
        note_breaches(history.breaches(call), call, notes, is_approved=is_approved)
        history.add(call)
        if notes.is_empty:
            return judgement
        return judgement._replace(
            objections=(*judgement.objections, *notes.objections),
            approvals=(*judgement.approvals, *notes.approvals),
        )

    def judge_shown(self, call: CallView, origins: Origins) -> None:
        """Judge a text for the person who runs the plan; raises RefusedByPolicy."""
        for objection in self.judge(call).objections:
            self.refuse(objected(call, objection, origins))
            return

    def _shown(
        self,
        arguments: tuple[Argument, ...],
        origins: Origins,
        origins_of: Callable[[str], Origins] | None,
    ) -> dict[str, JSON]:
        """What a person who approves is told of the arguments with labels."""
        labels: dict[str, JSON] = {}
        for argument in arguments:
            if argument.label != LITERAL:
                name = argument.name
                known = self._origins_of(argument, origins) if origins_of is None else origins_of(name)
                steps: JSON = [*known]
                labels[name] = {"label": str(argument.label), "from": steps}
        return labels

    def _origins_of(self, argument: Argument, origins: Origins) -> Origins:
        all_origins: Origins = NONE
        for hole in _holes(argument):
            of_hole = self._variables.origins_of(hole.partition(".")[0])
            all_origins = origins if of_hole is None else merged(all_origins, of_hole)
        return all_origins


def _holes(argument: Argument) -> Iterable[str]:
    for part in argument.parts:
        if not isinstance(part, str):
            yield part.name
    for item in argument.items:
        yield from _holes(item)
