"""The hooks by which the machine reports to the policy monitor: propagates labels and judges calls.

In: what the machine does, hook by hook, in order. Out: for each call the label of its result and the
approvals it needs; or RefusedByPolicy, which ends the run. A variable's label is the label of its last value
joined with the labels of the guards that decided whether it was set. A guard's label is joined into all
variables that either of its branches may set, so that a skipped step reveals no more than an executed one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from callsheet.ir.labels import LITERAL, Label, join
from callsheet.machine.agents.actions import Allowance
from callsheet.machine.agents.talk import InnerCall, Talk
from callsheet.machine.decision_log import DecisionLog
from callsheet.machine.frames import Attempt, Frame
from callsheet.machine.monitor.enforcement import (
    ClientWords,
    Enforcement,
    Judging,
    OpenCalls,
    objected,
    session_of,
    unseen,
)
from callsheet.machine.monitor.judgement_cache import ImplicitFlows, JudgementCache
from callsheet.machine.monitor.reads import ReadsCache, argument_of, slots_in
from callsheet.machine.monitor.shown_texts import REPLAN, ShownTexts
from callsheet.machine.monitor.variable_labels import PLAIN, Admitted, Origins, VariableLabels, merged
from callsheet.machine.program import FIRST, NOWHERE, Kind, Program, StepCode
from callsheet.machine.questions import ASK
from callsheet.machine.result import RefusedByPolicy
from callsheet.policy.builtins import fold
from callsheet.policy.calls import Argument, CallView, Objection, Rule, bare
from callsheet.policy.judge import Judge, judge_of
from callsheet.policy.limits import CallHistory, view_of_call
from callsheet.policy.model import AgentRule, Implicit, Policy
from callsheet.policy.overwriting import HINT


def narrowed(allowed: Allowance, rule: AgentRule) -> Allowance:
    """The intersection of both: the tools in both, and the lower limits on turns and calls."""
    given = {fold(name) for name in rule.tools}
    return allowed._replace(
        tools=tuple(name for name in allowed.tools if fold(name) in given),
        turns=min(allowed.turns, rule.max_turns),
        calls=rule.max_calls if allowed.calls is None else min(allowed.calls, rule.max_calls),
        arguments=rule.arguments,
    )


_MEMORY = frozenset({"QUERY_MEMORY", "GET_WM"})
_AGENT = Kind.AGENT
"""Read for every call: a module global is faster than an enum member."""
_HINTS = {
    Rule.FLOW: "send it to a recipient that the policy trusts; `callsheet labels` shows and corrects labels",
    Rule.PATH: HINT,
}


class Monitor:
    """The labels of one run; `load` begins a program, most other methods are hooks for the machine."""

    __slots__ = (
        "_base",
        "_decision_log",
        "_exact",
        "_judging",
        "_reading",
        "enforcement",
        "history",
        "implicit_flows",
        "is_anew",
        "judgement_cache",
        "literal",
        "observed",
        "open_calls",
        "program",
        "shown_texts",
        "variable_labels",
    )

    def __init__(self, enforcement: Enforcement) -> None:
        self.enforcement = enforcement
        self.literal = enforcement.policy.planner
        self.history = CallHistory(enforcement.policy)
        """The calls so far, as far as the policy's limits are about them."""
        self._decision_log: DecisionLog | None = None
        self.is_anew = False
        """Whether the program comes from a plan that was made during the run."""
        self._base: Label = LITERAL
        self.variable_labels = VariableLabels()
        self.open_calls = OpenCalls()
        self.observed: list[tuple[str, str]] = []
        """What a policy that only observes would have refused or asked, by step, until it is told."""

    # ------------------------------------------------------------ programs and variables

    def load(self, program: Program) -> None:
        """Begin a program; the labels of variables are kept by name."""
        self._take_program(program)
        self.variable_labels.load(program, self.literal)

    def use_decision_log(self, decision_log: DecisionLog) -> None:
        """Record the policy's judgements in a log, or take them from it."""
        self._decision_log = decision_log
        self._judging.judge = decision_log.judging(self._judging.judge)
        self._pass_by(None)

    def resume_plan(self, base: Label, noted: dict[int, Label], *, is_anew: bool) -> None:
        """Restore the state of decisions in the loaded program; `is_anew` as the attribute."""
        self.is_anew, self._base = is_anew, base
        self._take_program(self.program)
        self.implicit_flows.resume(noted)

    def _take_program(self, program: Program) -> None:
        self.program = program
        self._exact = program.graph is not None
        self._reading = ReadsCache.of(program, self.literal)
        rules = self.enforcement.of_new_plans() if self.is_anew else self.enforcement
        decision_log = self._decision_log
        self._judging = Judging(
            rules.judge if decision_log is None else decision_log.judging(rules.judge),
            self.variable_labels,
            self._observe if rules.policy.observes else None,
            policy=rules.policy,
            history=self.history,
        )
        self.implicit_flows = ImplicitFlows(
            program, self._base.join(self.literal), counts_bits=rules.policy.implicit is Implicit.STRICT
        )
        self.shown_texts = ShownTexts(
            program.plan,
            self.enforcement,
            self._judging,
            self._reading,
            self.implicit_flows,
            self.variable_labels,
            self.open_calls,
        )
        self._pass_by(None if decision_log is not None else rules.rules)

    def _pass_by(self, rules: Judge | None) -> None:
        self.judgement_cache = JudgementCache(
            rules, self.implicit_flows, self.variable_labels, self._judging.extended, self.program
        )

    def _observe(self, step: str, text: str) -> None:
        self.observed.append((step, text))

    def change(self, policy: Policy) -> None:
        """Apply another policy from now on."""
        noted, self._base = self.implicit_flows.noted, self.implicit_flows.base
        self.enforcement = Enforcement.under(policy, self.enforcement.inputs)
        self.history = self.history.taken_over(policy)
        self.literal = self.literal.join(policy.planner)
        self._take_program(self.program)
        self.implicit_flows.resume(noted)

    def take_back(self, attempt: Attempt) -> None:
        """An open call is about to be judged again: it counts once."""
        is_of_client = isinstance(attempt, Talk) and attempt.allowed.is_session
        if self.history.is_needed and attempt.key in self.open_calls.calls and not is_of_client:
            self.history.take_back(view_of_call(attempt.code.tool or REPLAN, attempt.args))

    def label_inputs(self, names: Iterable[str]) -> None:
        """The run begins with these variables."""
        known = self.enforcement
        for name in names:
            self.variable_labels.set_input(name, known.inputs.get(name, known.given))

    def edited(self, names: Iterable[str]) -> None:
        """A person has set these variables; they get the labels of the run's inputs."""
        known = self.enforcement
        for name in names:
            self.variable_labels.edit(name, known.inputs.get(name, known.given))

    def variables(self) -> dict[str, tuple[Label, Origins]]:
        """Label and origins of each variable, by name."""
        return self.variable_labels.by_name()

    def secret_variables(self) -> frozenset[str]:
        """The names of the variables whose label is secret."""
        return frozenset(name for name, (label, _) in self.variables().items() if label.is_secret)

    def holds_secrets_of(self, step: str) -> bool:
        """Whether an open call of a step sends, or has given, secret data."""
        return self.open_calls.holds_secrets_of(step)

    def context_of(self, key: str, shown: Label | None) -> Label:
        """Close the compilation with this key; gives the label of what its planner was told.

        That is the data it was `shown` (all variables, if None) joined with the reason, if there was one.
        """
        reason = self.open_calls.calls.pop(key, None)
        if shown is None:
            shown = join(label for label, _ in self.variables().values())
        return shown if reason is None else shown.join(reason.sent)

    def plan_anew(self, number: int, context: Label | None) -> None:
        """Another plan takes over: all its literals get the label of what its planner was told."""
        self.literal = self.enforcement.policy.planner.join(context or LITERAL)
        self.is_anew = True
        if number != NOWHERE:
            self._base = self.implicit_flows.about(number)

    # ------------------------------------------------------------ what decides

    def _note(self, code: StepCode, label: Label) -> None:
        """A step has made a decision by data of this label: join it into all that depends on the decision."""
        slots, joined = self.implicit_flows.note(code, label)
        variables = self.variable_labels
        for slot in slots:
            variables.labels[slot] = variables.labels[slot].join(joined)
            variables.add_presence(slot, joined)

    def _by_emptiness(self, slots: Iterable[int], code: StepCode) -> Label:
        """The label revealed by whether these variables are empty, apart from the one bit of the data itself.

        Whether a variable is set at all may depend on private data, which the test then reveals.
        """
        if not self.variable_labels.presence:
            return LITERAL
        source = self._reading.guards(code).source
        every = [at for slot in slots for at in (source if slot == code.loop_slot else (slot,))]
        return self.variable_labels.presence_at(every)

    def tested(self, code: StepCode) -> None:
        """The guard of a step is about to be evaluated, in a loop for one item."""
        (tests, emptiness, _), labels = self._reading.guards(code), self.variable_labels.labels
        label = labels[tests[0]] if len(tests) == 1 else join([labels[slot] for slot in tests])
        if emptiness:
            if self.implicit_flows.counts_all(code):
                label = label.join(join([labels[slot] for slot in emptiness]))
            else:
                label = label.join(self._by_emptiness(emptiness, code))
        if label is not LITERAL:
            self._note(code, label)

    def answers(self, code: StepCode) -> None:
        """Whether an answer is empty is about to be tested."""
        slots = self._reading.reads(code).slots
        counts = self.implicit_flows.counts_all(code)
        self._note(code, self.variable_labels.read(slots)[0] if counts else self._by_emptiness(slots, code))

    def loop(self, frame: Frame, slots: list[Any]) -> None:
        """A loop begins: the number of iterations, and the items, have the label of its source."""
        label, origins = self.variable_labels.read(self._reading.guards(frame.code).source)
        self._note(frame.code, label)
        if (source := self._reading.source(frame.code)) is not None:
            label = self.enforcement.of_items(source(slots, self.variable_labels.labels))
        self.open_calls.loops[frame.prefix] = label, origins

    def enter(self, frame: Frame) -> tuple[Label, Origins]:
        """The loop variable gets the label of the loop's items; gives the label before, for `leave`."""
        slot, variables = frame.code.loop_slot, self.variable_labels
        before = variables.labels[slot], variables.origins[slot]
        variables.labels[slot], variables.origins[slot] = self.open_calls.loops[frame.prefix]
        return before

    def leave(self, frame: Frame, before: tuple[Label, Origins]) -> None:
        """The loop variable gets back its label from before `enter`."""
        slot, variables = frame.code.loop_slot, self.variable_labels
        variables.labels[slot], variables.origins[slot] = before

    # ------------------------------------------------------------ calls

    def admit(self, attempt: Attempt, slots: list[Any], *, is_asked: bool) -> Admitted:
        """Judge a call of a step, and disarm links in `attempt.args`; raises RefusedByPolicy.

        `is_asked` says that a person is asked before the call anyway.
        """
        code = attempt.code
        number = code.number
        if not is_asked and self._judging.history is None:
            passed = self.judgement_cache.admitted(code, attempt.args, attempt.inputs)
            if passed is not None:
                self.open_calls.calls[attempt.key] = passed
                return passed
        reads = self._reading.reads(code)
        labels = self.variable_labels.labels
        arguments = tuple([make(slots, labels) for make in reads.arguments])
        pc = self.implicit_flows.about(number)
        repeats = code.recurs and self.implicit_flows.repeats(code)
        deciders = self.implicit_flows.untrusted_deciders(number) if pc.untrusted else ()
        fields = code.id, code.tool or REPLAN, arguments, pc, code.retries, False, is_asked, repeats, deciders
        call = bare(CallView, fields)
        origins = self.variable_labels.origins_at(reads.slots)
        if code.kind is _AGENT and code.loop is None:
            by_itself = "the agent makes its calls by itself, so they cannot be checked against the policy"
            raise objected(call, Objection(Rule.AGENT, by_itself), origins)
        if code.loop is not None and code.loop.is_session:
            # Not an agent of the plan: each call of its client is judged by itself.
            self.open_calls.calls[attempt.key] = admitted = session_of(
                pc.join(self.enforcement.policy.planner)
            )
            self.open_calls.talks[attempt.key] = admitted.sent, origins
            rules = self.enforcement.policy
            self.open_calls.words[attempt.key] = ClientWords(rules.harmless, rules.inputs)
            return admitted
        already = len(self.observed)
        admitted = self._judging.admitted(call, origins, is_asked=is_asked)
        self.open_calls.calls[attempt.key] = admitted
        attempt.args = self.shown_texts.as_told(attempt.args, code.kind, call)
        if not is_asked and len(self.observed) == already and self._judging.history is None:
            self.judgement_cache.note(code, admitted, attempt.args, attempt.inputs)
        if code.loop is not None and isinstance(attempt, Talk):
            self.open_calls.talks[attempt.key] = admitted.sent, admitted.origins
            self.narrow(attempt)
        return admitted

    def narrow(self, talk: Talk) -> None:
        """Restrict an agent to what the policy's rule for agents allows."""
        rule = self.enforcement.policy.agent
        if rule is not None and talk.code.kind is Kind.AGENT:
            talk.allowed = narrowed(talk.allowed, rule)

    def counter_of(self, attempt: Attempt) -> Label:
        """The label of all decisions that led to an open call of a step."""
        return self.implicit_flows.about(attempt.code.number)

    def as_told(self, args: dict[str, Any], kind: Kind, call: CallView) -> dict[str, Any]:
        """The arguments of a call as shown to the person who is asked, or to whom a message is sent."""
        return self.shown_texts.as_told(args, kind, call)

    def admit_inner(self, call: InnerCall, *, is_asked: bool) -> None:
        """Judge a call that an agent asks for; raises RefusedByPolicy.

        Its arguments, and that it is made, have the label of everything that the agent's model has seen. That
        a question is asked reveals nothing: the links and images in it are disabled.
        """
        if call.talk.allowed.is_session:
            self._admit_of_client(call, is_asked=is_asked)
            return
        label, origins = self.open_calls.talks[call.talk.key]
        arguments = tuple([argument_of(name, value, label) for name, value in call.args.items()])
        code, pc = call.code, self.counter_of(call.talk)
        if code.tool != ASK:
            pc = pc.join(label)
        view = CallView(code.id, code.tool, arguments, pc, in_agent=True, approved=is_asked)
        self.open_calls.calls[call.key] = self._judging.admitted(view, origins, is_asked=is_asked)
        words = tuple([argument_of(name, value, label.retold()) for name, value in call.args.items()])
        call.args = self.as_told(call.args, code.kind, view._replace(arguments=words))

    def _admit_of_client(self, call: InnerCall, *, is_asked: bool) -> None:
        """As `admit_inner`, for a session: what its user has said, or is harmless, has a label of its own.

        A call that consists of such values alone was asked for by the user, so that it is made tells nobody
        about what was read, once. The flows of a session, which has one step, go from tool to tool.
        """
        key, code = call.talk.key, call.code
        (label, origins), words = self.open_calls.talks[key], self.open_calls.words[key]
        arguments = tuple([words.argument(name, value, label) for name, value in call.args.items()])
        pc, is_strict = self.implicit_flows.about(call.talk.code.number), self.implicit_flows.counts_bits
        if is_strict or not words.ask_for(code.tool, call.args):
            pc = pc.join(label)
        view = CallView(code.tool, code.tool, arguments, pc, approved=is_asked)
        self.open_calls.calls[call.key] = self._judging.admitted(view, origins, is_asked=is_asked)
        words_again = tuple(
            [words.argument(name, value, label.retold()) for name, value in call.args.items()]
        )
        call.args = self.shown_texts.as_told(call.args, code.kind, view._replace(arguments=words_again))

    def heard(self, talk: str, said: Iterable[str]) -> None:
        """The user of a session has said this."""
        self.open_calls.words[talk].hear(said)

    def has_read(self, talk: str, what: str, label: Label) -> None:
        """The client of a session has read data of this label elsewhere: `what` names where."""
        self.open_calls.has_seen(talk, label, (what,))

    def seen_by(self, talk: str) -> Label:
        """The label of all that the client of a session has read."""
        return self.open_calls.talks[talk][0]

    def forbidden(self, attempt: Attempt, why: str, rule: Rule) -> RefusedByPolicy:
        """The exception for an admitted call that the driver found to be forbidden.

        `why` says which data would reach whom, or what would be written.
        """
        admitted = self.open_calls.calls.get(attempt.key)
        sent, origins = PLAIN if admitted is None else (admitted.sent, admitted.origins)
        code = attempt.code
        call = CallView(code.id, code.tool, (Argument("", (), sent),), self.counter_of(attempt))
        origins = tuple(step for step in origins if step != code.id)
        return objected(call, Objection(rule, why, help=_HINTS.get(rule, "")), origins)

    # ------------------------------------------------------------ outcomes

    def record_outcome(self, attempt: Attempt, reported: Label | None = None) -> None:
        """A call has its outcome; `reported` is the label that the driver gave for its value."""
        admitted = self.open_calls.calls.pop(attempt.key, None)
        if admitted is None:
            return
        label, origins = self.result_of(attempt, admitted, reported), admitted.origins
        if isinstance(attempt, InnerCall):
            if attempt.talk.allowed.is_session:
                withheld = unseen(attempt.code, label, origins)  # first: what is withheld has not been seen
                if withheld is not None:
                    self._judging.refuse(withheld)
                seen = self.open_calls.talks[attempt.talk.key][0]
                if seen.join(label) == seen:
                    return  # a flow names the tools that have added something
            self.open_calls.has_seen(attempt.talk.key, label, origins)
            withheld = None if attempt.talk.allowed.is_session else unseen(attempt.code, label, origins)
            if withheld is not None:
                self._judging.refuse(withheld)
            return
        if isinstance(attempt, Talk):
            label, origins = self.end_talk(attempt, label, origins)
        self.open_calls.add_result(attempt.frame.prefix, label, origins)
        code = attempt.code
        if self._exact or code.leads_on:
            self._note_success(code, label)

    def result_of(self, attempt: Attempt, admitted: Admitted, reported: Label | None) -> Label:
        """The label of the result of a call; `reported` is the label that the driver gave for it."""
        if reported is None:
            return admitted.result
        if self._is_declassified(attempt.code):  # which says who may read it, not that it can be trusted
            return admitted.result.join(Label(reported.untrusted))
        # the labels of single facts are more exact than the policy's label for all memory
        return reported.join(admitted.sent if attempt.code.tool in _MEMORY else admitted.result)

    def raise_result(self, attempt: Attempt, label: Label) -> None:
        """What an open call brings back, its error too, has at least this label."""
        admitted = self.open_calls.calls.get(attempt.key)
        if admitted is not None:
            self.open_calls.calls[attempt.key] = admitted._replace(result=admitted.result.join(label))

    def end_talk(self, talk: Talk, label: Label, origins: Origins) -> tuple[Label, Origins]:
        """The label and origins of the value of a talk that ends, whose model has seen all its results."""
        seen, before = self.open_calls.talks.pop(talk.key)
        if not seen.is_public:  # made of public data alone, it can reveal nothing
            label = label.retold()
        return label.join(seen), merged(before, origins)

    def record_success(self, code: StepCode, key: str) -> None:
        """The only call of a step has succeeded, ending the step: `record_outcome` and `stored` in one."""
        label, _, origins, _, _ = self.open_calls.calls.pop(key)
        if self._exact or code.leads_on:
            self._note_success(code, label)
        if code.out_slot != NOWHERE:
            self._set(code, label, origins)

    def record_success_in_group(self, code: StepCode, key: str) -> None:
        """The only call of a step in a group has succeeded: `record_outcome` for a plain call."""
        label, _, origins, _, _ = self.open_calls.calls.pop(key)
        self.open_calls.add_result(key.removesuffix(FIRST), label, origins)
        if code.leads_on:
            self._note_success(code, label)

    def failed(self, attempt: Attempt) -> None:
        """A call has failed for good: its error may reveal all that the call sent."""
        admitted = self.open_calls.calls.get(attempt.key)
        if admitted is not None:
            result = admitted.result.join(admitted.sent)
            if attempt.code.fail_values and not attempt.code.leads_on:  # they take the place of the result
                values = self.program.plan.steps[attempt.code.number].failure_values()
                slots = slots_in(values, self.program.slot_of.__getitem__)
                loop = self.open_calls.loops.get(attempt.frame.prefix, PLAIN)[0]
                result = result.join(self.variable_labels.read(slots)[0]).join(loop)
            self.open_calls.calls[attempt.key] = admitted._replace(result=result)
        self.record_outcome(attempt)

    def graph_step_failed(self, frame: Frame) -> None:
        """A step of a graph has failed; only a planner that plans anew will read its error.

        The planner is told it under the name of the step's variable or, without one, of the step.
        """
        label, pc = self.shown_texts.told_by_failure(frame)
        step = self.program.plan.steps[frame.code.number]
        self.variable_labels.add(step.id if step.output is None else step.output.var, label.join(pc))
        self.open_calls.forget(frame.prefix)

    def record_argument_error(self, frame: Frame) -> None:
        """The arguments of a call could not be evaluated: the error gets the label of what they read."""
        self.open_calls.results[frame.prefix] = self.variable_labels.read(
            self._reading.reads(frame.code).slots
        )

    def renamed(self, before: str, key: str) -> None:
        """A call is retried under another key."""
        self.open_calls.rename(before, key)

    def stored(self, code: StepCode, prefix: str) -> None:
        """The step whose keys have this prefix is done, and its value is stored in its variable, if any."""
        open_calls = self.open_calls
        open_calls.loops.pop(prefix, None)
        label, origins = open_calls.results.pop(prefix, PLAIN)
        if code.out_slot != NOWHERE:
            self._set(code, label, origins)

    def _note_success(self, code: StepCode, label: Label) -> None:
        """Whether a call succeeded has decided how the plan continues; `label` is that of its result."""
        if self.implicit_flows.counts_all(code) or (not label.is_public and self._is_program(code)):
            self._note(code, label)
            return
        label = self._by_emptiness(self._reading.slots(code), code)
        if label is not LITERAL or self.implicit_flows.noted:
            self._note(code, label)

    def _set(self, code: StepCode, label: Label, origins: Origins) -> None:
        """Set the label of a step's variable to that of its result."""
        slot, implicit_flows, variables = code.out_slot, self.implicit_flows, self.variable_labels
        pc = implicit_flows.about(code.number) if implicit_flows.noted else implicit_flows.base
        if pc is not label:
            label = label.join(pc)
        variables.last = label, origins
        by_program = label.readers is not None and self._is_program(code)
        if pc is not LITERAL or variables.presence or by_program:
            self._note_presence(code, pc.join(label) if by_program else pc)
        variables.labels[slot], variables.origins[slot] = label, origins

    def _is_program(self, code: StepCode) -> bool:
        """Whether the plan chooses by the data of a call whether it fails or gives anything."""
        rules = self.enforcement.rules
        return bool(code.tool) and (rules or judge_of(self.enforcement.policy)).prepared(code.tool).is_program

    def _is_declassified(self, code: StepCode) -> bool:
        return not self.is_anew and code.id in self.enforcement.policy.declassify

    def _note_presence(self, code: StepCode, pc: Label) -> None:
        """Set what decided whether a step's variable is set: its guards, and whether its arguments are."""
        slots = *self._reading.slots(code), *self._reading.guards(code).source
        presence = pc.join(self._by_emptiness(slots, code))
        if self._is_declassified(code):
            presence = Label(pc.untrusted, None)
        self.variable_labels.put_presence(code.out_slot, presence)

    def label_of(self, key: str) -> Label | None:
        """The label of all data that an open call sends; None if no such call is open."""
        return self.open_calls.sent_by(key)

    def planning_labels(self, key: str) -> dict[str, Any]:
        """The fields that a Compile command has under a policy: labels of variables, and of the reason."""
        labels = {name: label for name, (label, _) in self.variables().items()}
        return {"labels": labels, "context": self.label_of(key) or self.implicit_flows.base}
