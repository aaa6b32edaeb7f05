"""One question for a program: beside a call that waits for an approval, the further calls that will ask.

In: the journal of a run that waits. Out: those calls as far as they are known now, and what a person's yes
to them covers. Plans with blocks only.

A yes covers a call at its place in the plan (which item of which loop), once, if all that decides what it
does was shown and is the same when the call is made, and if nothing is a reason to ask that was not shown.
What a call says, where that decides nothing, may be known only when it is made; it is shown as such. Every
other call is asked about when its turn comes, and the question says so.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, cast

from callsheet.ir import JSON, Plan
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.ir.operations import CallKind
from callsheet.ir.tree import Act
from callsheet.machine.forecasting import Fields, Foreseen, Items, Knowledge, Text, Unknown
from callsheet.machine.forecasting.forecast import When
from callsheet.machine.forecasting.tree_calls import ForeseenCall, Recalled
from callsheet.machine.forecasting.tree_interpreter import foresee_tree
from callsheet.machine.monitor.reads import argument_of
from callsheet.machine.questions import needs_approval
from callsheet.passes.verify import verify
from callsheet.policy.builtins import approver_of
from callsheet.policy.calls import Argument, CallView, Hole
from callsheet.policy.judge import judge_of
from callsheet.policy.model import Policy
from callsheet.policy.tool_facts import facts_of
from callsheet.ports.transforms import work_out
from callsheet.runtime.doubt import fold_run
from callsheet.runtime.precedents import deciding_arguments
from callsheet.sealing.sealer import is_sealed
from callsheet.store import EventType, Journal, JournalError
from callsheet.store.folded import Folded
from callsheet.store.kept_calls import KeptCalls, calls_of, content_of
from callsheet.views.call_site import CallSite, call_site
from callsheet.views.describe import LTP, Wording, wording_of

MOST_LISTED = 50
"""So many further calls are shown; those behind them ask when their turn comes."""
_LONGEST = 2_000
"""The most characters of an argument that are read before a yes; a call with a longer one asks by itself."""


@dataclass(frozen=True, slots=True)
class FurtherCall:
    """A call that the plan will ask about, as far as it is known now.

    `key` is its place, "" if that is not known. `arguments` are shown with placeholders for what is known
    only then. `alone` says why it will ask by itself, whatever is answered now; None for a call that a yes
    covers. `role` is the one that the policy demands of whoever approves it.
    """

    key: str
    step: str
    tool: str
    arguments: tuple[tuple[str, Foreseen], ...]
    why: tuple[str, ...]
    is_sure: bool
    alone: str | None
    role: str = ""
    site: CallSite | None = None
    """Where it stands in the text of the plan."""
    words: Wording = field(default=LTP, compare=False, repr=False)
    """How what is not known yet is worded."""

    def beside(self, role: str) -> FurtherCall:
        """The call beside a question that whoever has this role may answer, and else nobody in particular."""
        if self.alone is not None or self.role in ("", role):
            return self
        return replace(self, alone=f"only somebody with the role {self.role} may answer")

    def to_json(self, plan: str) -> dict[str, Any]:
        """What a yes covers, as JSON data."""
        known = {name: value for name, value in self.arguments if is_whole(value)}
        return {
            "key": self.key,
            "step": self.step,
            "tool": self.tool,
            "plan": plan,
            "args": known,
            "free": sorted(name for name, _ in self.arguments if name not in known),
            "why": [*self.why],
        }


@dataclass(frozen=True, slots=True)
class ProgramQuestion:
    """The further calls of a plan that will ask, and the hash of all that is shown of them and of the first.

    `more` counts those that are not listed, which will ask by themselves.
    """

    calls: tuple[FurtherCall, ...]
    more: int
    digest: str

    @property
    def covered(self) -> tuple[FurtherCall, ...]:
        """The calls that a yes covers."""
        return tuple(call for call in self.calls if call.alone is None)


def is_whole(value: Foreseen) -> bool:
    """Whether a value is known completely.

    >>> is_whole(["a"]), is_whole(Items(("a", Unknown("x"))))
    (True, False)
    """
    return not isinstance(value, Unknown | Text | Items | Fields)


def program_questions(
    journal: Journal, run_id: str, asked: Iterable[tuple[str, str]]
) -> dict[str, ProgramQuestion]:
    """The question about a plan's further calls beside each open one of a run, by the digest of that one.

    `asked` are the keys and digests of the open ones. There is none where no further call is that a yes could
    cover: then it would say nothing. There is none either for a run with sealed values, of which nothing may
    be shown here: each of its calls is asked about with what it shows.
    """
    ahead = _calls_ahead(journal, run_id)
    questions = ((digest, _beside(ahead, key, digest)) for key, digest in asked)
    return {digest: question for digest, question in questions if question is not None}


def _calls_ahead(journal: Journal, run_id: str) -> list[FurtherCall]:
    """The calls of a run that wait for an answer or will ask, apart from those that were answered."""
    try:
        hash_ = journal.find_run(run_id).plan_hash
        plan, text = journal.plan(hash_)
        if plan.tree is None:
            return []
        if any(is_sealed(row.body) for row in journal.events(run_id)):
            return []
        folded = fold_run(journal, run_id, plan)
        finished = calls_of(journal, run_id)
    except JournalError:
        return []
    if folded.machine.program.plan.tree is None or folded.has_diverged:
        return []
    answered = {row.key for row in journal.question_events(run_id) if row.type is EventType.SIGNAL}
    ahead, words = _Ahead(folded, KeptCalls(plan, finished), answered).calls(plan), wording_of(plan)
    return [
        replace(
            call, site=call_site(text, hash_, call.key or f"{call.step}.1", call.tool, plan.id), words=words
        )
        for call in ahead
    ]


def _beside(ahead: Sequence[FurtherCall], key: str, digest: str) -> ProgramQuestion | None:
    """What is further of these calls beside the one with this key; None if a yes could cover none."""
    role = next((call.role for call in ahead if call.key == key), "")
    calls = [call.beside(role) for call in ahead if call.key != key]
    listed = calls[:MOST_LISTED]
    if not any(call.alone is None for call in listed):
        return None
    more = len(calls) - len(listed)
    hashed = [digest, more, [[call.to_json(""), call.alone, call.is_sure, _data(call)] for call in listed]]
    text = json.dumps(hashed, sort_keys=True, default=repr)
    return ProgramQuestion(tuple(listed), more, sha256(text.encode("utf-8", "surrogatepass")).hexdigest())


def _data(call: FurtherCall) -> list[str]:
    return [f"{name}={value!r}" for name, value in call.arguments]


class _Ahead:
    """Walks the plan of a run with the outcomes that it has; what is left is ahead."""

    def __init__(self, folded: Folded, finished: KeptCalls, asked: Collection[str | None]) -> None:
        self._folded, self._finished, self._asked_before = folded, finished, asked
        self._found: list[ForeseenCall] = []
        self._policy: Policy | None = folded.policy

    def calls(self, plan: Plan) -> list[FurtherCall]:
        """The further calls that will ask, in the order of the plan."""
        knowledge = Knowledge(facts=self._folded.facts, compute=work_out, most_visits=1)
        foresee_tree(plan, self._folded.start.inputs, knowledge, self._recall)
        judged = self._asked(plan)
        return [call for found in self._found if (call := self._further(found, judged)) is not None]

    def _recall(self, call: ForeseenCall) -> Recalled | None:
        if call.place and call.is_known:
            content = content_of(call.tool, call.inputs, call.arguments, call.wants_data)  # pyright: ignore[reportArgumentType]
            found = self._finished.take(content, f"{call.place}.1")
            if found is not None:
                return None if found.outcome is None else Recalled(found.outcome.value)
        if isinstance(call.statement, Act) and call.when is not When.NEVER:
            self._found.append(call)
        return None

    def _asked(self, plan: Plan) -> Mapping[str, Sequence[CallView]]:
        """The calls that the proof says will ask, by statement."""
        if self._policy is None:
            return {}
        start, policy = self._folded.start, self._policy
        secret = dict.fromkeys(start.secret, Label(True, frozenset()))
        verdict = verify(
            plan,
            policy,
            inputs=dict.fromkeys(start.inputs, policy.inputs) | start.input_labels(policy) | secret,
            parameters={name: fact.parameters for name, fact in self._folded.facts.items()},
            can_ask=True,
        )
        found: dict[str, list[CallView]] = {}
        for view in verdict.asked:
            found.setdefault(view.step, []).append(view)
        return found

    def _further(self, call: ForeseenCall, judged: Mapping[str, Sequence[CallView]]) -> FurtherCall | None:
        key = f"{call.place}.1" if call.place else ""
        statement = call.statement
        by_rule = needs_approval(self._folded.start.approve, call.tool, statement.id)
        views = judged.get(statement.id, ())
        if key in self._asked_before or not isinstance(statement, Act) or not (views or by_rule):
            return None
        arguments = tuple(call.arguments.items())
        why, is_secret = self._reasons(call, views)
        alone = self._alone(call, key, is_secret=is_secret)
        if views and not why and not by_rule:
            return None
        shown = tuple((name, Unknown("hidden") if is_secret else value) for name, value in arguments)
        role = "" if self._policy is None else approver_of(self._policy, call.tool)
        is_sure = call.when is When.ALWAYS
        return FurtherCall(key, statement.id, call.tool, shown, why, is_sure, alone, role)

    def _alone(self, call: ForeseenCall, key: str, *, is_secret: bool) -> str | None:
        """Why a call asks by itself."""
        statement = call.statement
        assert isinstance(statement, Act)
        if statement.kind is not CallKind.TOOL or call.inputs:
            return "it is no call of a tool"
        if is_secret:
            return "it has a secret argument"
        if not key:
            return "it is not known yet how often it is made"
        known = {name: value for name, value in call.arguments.items() if is_whole(value)}
        if any(_size(value) > _LONGEST for value in known.values()):
            return "an argument is too long to be shown here"
        args = {name: cast("JSON", known.get(name)) for name in call.arguments}
        deciding = {*deciding_arguments(self._policy, call.tool, args), *facts_of([*args]).deciding}
        missing = [name for name in args if name in deciding and name not in known]
        return f"{' and '.join(missing)} will be known only then" if missing else None

    def _reasons(self, call: ForeseenCall, views: Sequence[CallView]) -> tuple[tuple[str, ...], bool]:
        """The reasons to ask about a call with what is known of it, and whether it has secret arguments."""
        if not views or self._policy is None:
            return (), False
        labels: dict[str, Label] = {}
        for view in views:
            for argument in view.arguments:
                labels[argument.name] = labels.get(argument.name, LITERAL).join(argument.label)
        worst = join(labels.values())
        arguments = tuple(
            _argument(name, value, labels.get(name, worst)) for name, value in call.arguments.items()
        )
        beside = [view.arguments for view in views]
        sent = tuple(one for group in beside for one in group if one.name not in call.arguments)
        pc = join(view.pc for view in views)
        notes = judge_of(self._policy).notes(views[0]._replace(arguments=(*arguments, *sent), pc=pc))
        why = () if notes is None else tuple(dict.fromkeys(notes.approvals))
        return why, any(label.is_secret for label in labels.values())


def _argument(name: str, value: Foreseen, label: Label) -> Argument:
    match value:
        case Unknown(what=what):
            return Argument(name, (Hole(what, label),), label)
        case Text(parts=parts):
            holes = (
                Hole(each.what, label) if isinstance(each, Unknown) else Hole("", label, each)
                for each in parts
            )
            return Argument(name, tuple(holes), label)
        case Items(items=items):
            return Argument(name, (), label, tuple(_argument(name, each, label) for each in items))
        case Fields(pairs=pairs):
            members = (
                part
                for key, each in pairs
                for part in (Argument(name, (Hole("", label, key),), label), _argument(key, each, label))
            )
            return Argument(name, (), label, tuple(members))
        case _:
            return argument_of(name, value, label)


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str))
