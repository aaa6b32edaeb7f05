"""The monitor of a plan tree: judges its calls, and the texts that its run shows, by the labels of the tree.

In: what the machine does with calls, as for any run, and with the scope of their activation. It shares with
`Monitor` what is known by the key of a call; what is known of variables and decisions is in `TreeLabels`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from callsheet.ir import JSON
from callsheet.ir.expression import Expression
from callsheet.ir.labels import LITERAL, Label, join, read_label
from callsheet.ir.operations import COMPUTE
from callsheet.ir.tree import Tree
from callsheet.machine.agents.talk import InnerCall, Talk
from callsheet.machine.decision_log import DecisionLog
from callsheet.machine.frames import Attempt
from callsheet.machine.monitor.enforcement import Enforcement, objected
from callsheet.machine.monitor.monitor import Monitor
from callsheet.machine.monitor.shown_texts import (
    REPLAN,
    failure,
    remark,
    sanitized_question,
    sanitized_value,
    sent,
)
from callsheet.machine.monitor.structured import TreeLabels
from callsheet.machine.monitor.tree_labels import Scope, Values
from callsheet.machine.monitor.variable_labels import Origins
from callsheet.machine.program import Kind
from callsheet.policy.audiences import Audiences
from callsheet.policy.calls import CallView, Objection, Rule
from callsheet.policy.model import Policy

if TYPE_CHECKING:
    from callsheet.machine.frames import TreeFrame


_ANYTHING = Label(True, frozenset())
"""The label of what strangers may have chosen and nobody may read."""


def scope_of(attempt: Attempt) -> Scope:
    """The labels of the activation that waits for a call."""
    scope = cast("TreeFrame", attempt.frame).act.labels
    assert scope is not None
    return scope


class TreeMonitor(Monitor):
    """The labels and open calls of one run of a tree."""

    __slots__ = ("_audiences", "_counters", "_secret_places", "labels", "main")

    def __init__(self, enforcement: Enforcement, tree: Tree, *, literal: Label | None = None) -> None:
        super().__init__(enforcement)
        if literal is not None:
            self.literal, self.is_anew = literal, True
        self.labels = TreeLabels(tree, self._for_plan(), literal=literal)
        self._judging = self.labels.judging
        self._take_rules()
        self.main: Scope = self.labels.begin(())
        self._counters: dict[str, Label] = {}
        """The label of what led to each open call, by its key."""
        self._secret_places: set[str] = set()
        """Statements whose results or failures are secret, by their places."""

    def use_decision_log(self, decision_log: DecisionLog) -> None:
        """Record the policy's judgements in a log, or take them from it."""
        self._decision_log = decision_log
        self._judging.judge = decision_log.judging(self._judging.judge)

    def change(self, policy: Policy) -> None:
        """Apply another policy from now on; what is known of values stays."""
        self.enforcement = Enforcement.under(policy, self.enforcement.inputs)
        self.literal = self.literal.join(policy.planner)
        self.labels.apply(self._for_plan(), self.literal)
        if self._decision_log is not None:
            self._judging.judge = self._decision_log.judging(self._judging.judge)
        self._take_rules()

    def begin_anew(self) -> None:
        """Its plan takes the place of another one, or goes on with it."""
        self.is_anew = True
        self.labels.apply(self._for_plan(), self.literal)
        self._take_rules()

    def _for_plan(self) -> Enforcement:
        """The enforcement for the plan that runs now: what names steps was meant for the first one."""
        return self.enforcement.of_new_plans() if self.is_anew else self.enforcement

    def goes_on(self, tree: Tree, attempt: Attempt, context: Label) -> TreeMonitor:
        """The monitor of the next part of the plan, which was planned by somebody who was told `context`.

        It knows of each variable the label that it has here, and of all decisions that led here.
        """
        pc = self.labels.counter(scope_of(attempt), attempt.code.id)
        known = {name: label for name, (label, _) in self.variables().items()}
        labels = self.labels
        part = TreeMonitor._next(self, tree, context, pc)
        part.main = part.labels.go_on(known, pc, labels.clock, labels.history, labels.known_links_opened)
        part.history, part._secret_places = part.labels.history, self._secret_places
        return part

    @classmethod
    def after_steps(cls, before: Monitor, tree: Tree, number: int, context: Label | None) -> TreeMonitor:
        """The monitor of a plan that takes the place of steps, made for the step of this number.

        A variable has the join of its label and of what decided whether it is set. Nothing says what the
        steps have read without storing it, so nobody may learn the time, which it took.
        """
        pc = before.implicit_flows.about(number)
        presence = before.variable_labels.presence
        known = {
            name: label.join(presence.get(name, LITERAL)) for name, (label, _) in before.variables().items()
        }
        part = cls._next(before, tree, context or LITERAL, pc)
        part.main = part.labels.go_on(known, pc, _ANYTHING, before.history)
        part.history = part.labels.history
        return part

    @classmethod
    def _next(cls, before: Monitor, tree: Tree, context: Label, pc: Label) -> TreeMonitor:
        """A monitor whose plan was made by somebody who was told `context`, behind the decisions of `pc`."""
        literal = before.enforcement.policy.planner.join(context).join(pc)
        part = cls(before.enforcement, tree, literal=literal)
        part.observed = before.observed
        if before._decision_log is not None:
            part.use_decision_log(before._decision_log)
        return part

    def _take_rules(self) -> None:
        policy, rules = self.enforcement.policy, self.enforcement.rules
        self.history = self.labels.history
        self._judging.observe = self._observe if policy.observes else None
        self._audiences = Audiences(policy.audiences) if rules is None else rules.setting.audiences

    def take_back(self, attempt: Attempt) -> None:
        """As in Monitor; pure code is not counted."""
        if attempt.code.tool != COMPUTE:
            super().take_back(attempt)

    # ------------------------------------------------------------ variables

    def label_inputs(self, names: Iterable[str]) -> None:
        """The run begins with these variables."""
        self.main = self.labels.begin(names)

    def variables(self) -> dict[str, tuple[Label, Origins]]:
        """Label and origins of each variable of the main plan, by name."""
        return self.labels.finals(self.main)

    def all_read(self) -> Label:
        """The label of all that the run has read so far and made of it, in items and sub-plans too."""
        seen = [label for label, _ in (*self.variables().values(), *self.open_calls.talks.values())]
        return join((self.labels.clock, *seen))

    def holds_secrets_of(self, step: str) -> bool:
        """Whether a statement at a place sends, has given or has failed with secret data."""
        if step in self._secret_places:
            return True
        calls = self.open_calls.calls
        return any(
            key.startswith(f"{step}.") and (admitted.result.is_secret or admitted.sent.is_secret)
            for key, admitted in calls.items()
        )

    def note_secret(self, place: str, label: Label) -> None:
        """What a statement gives, or fails with, has a label."""
        if label.is_secret:
            self._secret_places.add(place)

    def marks_to_json(self) -> dict[str, Any]:
        """What led to each open call, and which statements are secret, as JSON data."""
        counters = {key: str(label) for key, label in self._counters.items()}
        return {"counters": counters, "secret": sorted(self._secret_places)}

    def put_marks(self, data: Mapping[str, Any]) -> None:
        """Restore what `marks_to_json` gave; raises KeyError, TypeError or ValueError for other data."""
        self._counters = {key: read_label(text) for key, text in data["counters"].items()}
        self._secret_places = set(map(str, data["secret"]))

    # ------------------------------------------------------------ calls

    def counter_of(self, attempt: Attempt) -> Label:
        """The label of all decisions that led to an open call."""
        return self._counters.get(attempt.key, LITERAL)

    def as_told(self, args: dict[str, Any], kind: Kind, call: CallView) -> dict[str, Any]:
        """The arguments of a call as shown to the person who is asked, or to whom a message is sent."""
        if kind is Kind.ASK:
            return sanitized_question(args, call.arguments, self._audiences)
        return sent(args, call, self.enforcement.rules, self._audiences)

    def admit_call(self, attempt: Attempt, values: Values, *, is_asked: bool) -> None:
        """Judge a call of the tree, and disarm links in `attempt.args`; raises RefusedByPolicy."""
        code, scope = attempt.code, scope_of(attempt)
        if code.tool == COMPUTE:
            self.open_calls.calls[attempt.key] = self.labels.computing(scope, code.id, values)
            return
        given: dict[str, Any] = {str(number): value for number, value in enumerate(attempt.inputs)}
        admitted, call = self.labels.admit(scope, code.id, given | attempt.args, values, is_asked=is_asked)
        if code.kind is Kind.AGENT and code.loop is None:
            unseen = "the agent makes its calls by itself, so they cannot be checked against the policy"
            raise objected(call, Objection(Rule.AGENT, unseen), admitted.origins)
        self.open_calls.calls[attempt.key] = admitted
        self._counters[attempt.key] = call.pc
        attempt.args = self.as_told(attempt.args, code.kind, call)
        if code.loop is not None and isinstance(attempt, Talk):
            self.open_calls.talks[attempt.key] = admitted.sent, admitted.origins
            self.narrow(attempt)

    def admit_planning(self, attempt: Attempt, said: Sequence[Expression], values: Values) -> None:
        """Judge what the planner of the next part is told as the reason; raises RefusedByPolicy."""
        code = attempt.code
        admitted, call = self.labels.answered(scope_of(attempt), code.id, REPLAN, said, (), values)
        self.open_calls.calls[attempt.key] = admitted._replace(sent=admitted.sent.join(call.pc))
        self._counters[attempt.key] = call.pc

    def renamed(self, before: str, key: str) -> None:
        """A call is retried under another key."""
        super().renamed(before, key)
        if before in self._counters:
            self._counters[key] = self._counters.pop(before)

    def record_outcome(self, attempt: Attempt, reported: Label | None = None) -> None:
        """A call has its outcome; `reported` is the label that the driver gave for its value."""
        if isinstance(attempt, InnerCall):
            super().record_outcome(attempt, reported)
            return
        admitted = self.open_calls.calls.pop(attempt.key, None)
        self._counters.pop(attempt.key, None)
        if admitted is None or attempt.code.tool == COMPUTE:
            if admitted is not None:
                self.note_secret(attempt.frame.name, admitted.result)
            return
        label, origins = self.result_of(attempt, admitted, reported), admitted.origins
        if isinstance(attempt, Talk):
            label, origins = self.end_talk(attempt, label, origins)
        self.note_secret(attempt.frame.name, label)
        admitted = admitted._replace(origins=origins)
        self.labels.succeeded(scope_of(attempt), attempt.code.id, admitted, label, reported)

    def failed(self, attempt: Attempt) -> None:
        """A call has failed for good: its error may reveal all that the call sent, and its model has seen."""
        if isinstance(attempt, InnerCall):
            super().failed(attempt)
            return
        admitted = self.open_calls.calls.pop(attempt.key, None)
        self._counters.pop(attempt.key, None)
        if admitted is None:
            return
        if isinstance(attempt, Talk):
            seen, _ = self.open_calls.talks.pop(attempt.key)
            admitted = admitted._replace(result=admitted.result.join(seen))
        label = self.labels.failed(scope_of(attempt), attempt.code.id, admitted)
        self.note_secret(attempt.frame.name, label)

    # ------------------------------------------------------------ what people read

    def shown_answer(
        self,
        scope: Scope,
        id_: str,
        tool: str,
        said: Sequence[Expression],
        given: Sequence[Any],
        values: Values,
    ) -> _Shown:
        """Judge an answer or a message; gives what shows its texts. Raises RefusedByPolicy."""
        _, call = self.labels.answered(scope, id_, tool, said, given, values)
        return _Shown(call, self._audiences, self.labels.known_links(scope, values))

    def shown_failure(self, step: str, error: str, label: Label | None) -> str:
        """What the end of a run may say of a failure: its words, or that they are withheld (POL180)."""
        label = LITERAL if label is None else label
        return failure(error, label, LITERAL, step, self._judging.judge, self._audiences)

    def shown_remark(self, step: str, text: str, label: Label) -> str:
        """What a remark of the plan may say: its text, or that it is withheld (POL180)."""
        return remark(text, label, step, self._judging.judge, self._audiences)


class _Shown:
    """The texts of a judged answer, as they may be shown."""

    __slots__ = ("_audiences", "_call", "_known")

    def __init__(self, call: CallView, audiences: Audiences, known: frozenset[str]) -> None:
        self._call, self._audiences, self._known = call, audiences, known

    def text(self, text: str) -> str:
        """The whole text."""
        return cast("str", sanitized_value(text, self._call.arguments, self._audiences, self._known))

    def value(self, value: JSON) -> JSON:
        """The value of an answer with one value."""
        return sanitized_value(value, self._call.arguments[:1], self._audiences, self._known)
