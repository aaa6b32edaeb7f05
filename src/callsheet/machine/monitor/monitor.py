"""What happens in a run, hook by hook, told as labels, and as calls to be judged before they leave.

In: what the machine does, hook by hook, in its order. Out: for each call the label of its result and what a
person has to say yes to; or RefusedByPolicy, which ends the run. A variable's label is that of its last value
joined with those of the guards that decided whether it was set; what a guard has decided is joined into all
that its two ways may set, so that a step that was left out tells no more than one that was taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from callsheet.ir.labels import LITERAL, Label, join
from callsheet.machine.agents.talk import InnerCall, Talk
from callsheet.machine.course import Course
from callsheet.machine.frames import Attempt, Frame
from callsheet.machine.monitor.admitted import Admitted, Origins
from callsheet.machine.monitor.deciding import Deciding
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.machine.monitor.judging import Judging
from callsheet.machine.monitor.narrowing import narrowed
from callsheet.machine.monitor.origins import merged
from callsheet.machine.monitor.passing import Passing
from callsheet.machine.monitor.reading import Reading
from callsheet.machine.monitor.reads import argument_of
from callsheet.machine.monitor.refusal import RefusedByPolicy, check_seen, objected
from callsheet.machine.monitor.saying import REPLAN, Saying
from callsheet.machine.monitor.standing import PLAIN, Standing
from callsheet.machine.monitor.underway import Underway
from callsheet.machine.program import FIRST, NOWHERE, Kind, Program, StepCode
from callsheet.policy.calls import Argument, CallView, Objection, Rule, bare
from callsheet.policy.judge import Judge
from callsheet.policy.model import Implicit, Policy

_MEMORY = frozenset({"QUERY_MEMORY", "GET_WM"})
_AGENT = Kind.AGENT
"""Looked at for every call: a module's name is found faster than an enum's member."""
_WAYS_OUT = {
    Rule.FLOW: "send it to somebody whom the policy trusts; `callsheet labels` shows and corrects what runs"
    " have left",
    Rule.PATH: "write another file; what runs are held by is changed by hand",
}


class Monitor:
    """The labels of one run; `load` begins a program, the other methods are the machine's hooks."""

    __slots__ = (
        "_base",
        "_course",
        "_exact",
        "_judging",
        "_reading",
        "deciding",
        "enforcement",
        "is_anew",
        "literal",
        "passing",
        "program",
        "saying",
        "standing",
        "underway",
    )

    def __init__(self, enforcement: Enforcement) -> None:
        self.enforcement = enforcement
        self.literal = enforcement.policy.planner
        self._course: Course | None = None
        self.is_anew = False
        """Whether the program is one that the run itself has asked for."""
        self._base: Label = LITERAL
        self.standing = Standing()
        self.underway = Underway()

    # ------------------------------------------------------------ programs and variables

    def load(self, program: Program) -> None:
        """Begin a program: what is known of variables by name stays."""
        self._take_program(program)
        self.standing.load(program, self.literal)

    def take_course(self, course: Course) -> None:
        """Note what the policy says of calls, or let it say what is told."""
        self._course = course
        self._judging.judge = course.judging(self._judging.judge)
        self._pass_by(None)

    def resume_plan(self, base: Label, noted: dict[int, Label], *, is_anew: bool) -> None:
        """Be amid the program that was loaded: the first of the run, or one that the run has asked for."""
        self.is_anew, self._base = is_anew, base
        self._take_program(self.program)
        self.deciding.resume(noted)

    def _take_program(self, program: Program) -> None:
        self.program = program
        self._exact = program.graph is not None
        self._reading = Reading.of(program, self.literal)
        rules = self.enforcement.of_new_plans() if self.is_anew else self.enforcement
        course = self._course
        self._judging = Judging(rules.judge if course is None else course.judging(rules.judge), self.standing)
        self.deciding = Deciding(
            program, self._base.join(self.literal), counts_bits=rules.policy.implicit is Implicit.STRICT
        )
        self.saying = Saying(
            program.plan,
            self.enforcement,
            self._judging,
            self._reading,
            self.deciding,
            self.standing,
            self.underway,
        )
        self._pass_by(None if course is not None else rules.rules)

    def _pass_by(self, rules: Judge | None) -> None:
        self.passing = Passing(rules, self.deciding, self.standing, self._judging.extended, self.program)

    def change(self, policy: Policy) -> None:
        """Another policy holds from now on."""
        noted, self._base = self.deciding.noted, self.deciding.base
        self.enforcement = Enforcement.under(policy, self.enforcement.inputs)
        self.literal = self.literal.join(policy.planner)
        self._take_program(self.program)
        self.deciding.resume(noted)

    def given(self, names: Iterable[str]) -> None:
        """The run begins with these variables."""
        known = self.enforcement
        for name in names:
            self.standing.give(name, known.inputs.get(name, known.given))

    def edited(self, names: Iterable[str]) -> None:
        """Somebody has set these variables by hand, who vouches for them as for what a run is given."""
        known = self.enforcement
        for name in names:
            self.standing.edit(name, known.inputs.get(name, known.given))

    def variables(self) -> dict[str, tuple[Label, Origins]]:
        """Label and origins of each variable, by name."""
        return self.standing.by_name()

    def secret_variables(self) -> frozenset[str]:
        """The variables that nobody may read."""
        return frozenset(name for name, (label, _) in self.variables().items() if label.is_secret)

    def holds_secrets_of(self, step: str) -> bool:
        """Whether a call of a step that is under way takes along, or has given, what nobody may read."""
        return self.underway.holds_secrets_of(step)

    def context_of(self, key: str, shown: Label | None) -> Label:
        """The label of what a planner was told: what it was `shown` of data, and the reason, if there is one.

        Where nobody knows what that was, it is taken to have been everything. The call of this key is
        under way no more.
        """
        reason = self.underway.calls.pop(key, None)
        if shown is None:
            shown = join(label for label, _ in self.variables().values())
        return shown if reason is None else shown.join(reason.sent)

    def plan_anew(self, number: int, context: Label | None) -> None:
        """Another plan takes over: what its planner was told is in all that it says."""
        self.literal = self.enforcement.policy.planner.join(context or LITERAL)
        self.is_anew = True
        if number != NOWHERE:
            self._base = self.deciding.about(number)

    # ------------------------------------------------------------ what decides

    def _note(self, code: StepCode, label: Label) -> None:
        """A step has decided something by data of this label: what comes of it tells of that data."""
        slots, told = self.deciding.note(code, label)
        standing = self.standing
        for slot in slots:
            standing.labels[slot] = standing.labels[slot].join(told)
            standing.add_presence(slot, told)

    def _by_emptiness(self, slots: Iterable[int], code: StepCode) -> Label:
        """What is told by whether these variables are empty, beside the one bit of the data itself.

        A value that was set only because private data says so tells what it says.
        """
        if not self.standing.presence:
            return LITERAL
        source = self._reading.guards(code).source
        every = [at for slot in slots for at in (source if slot == code.loop_slot else (slot,))]
        return self.standing.presence_at(every)

    def tested(self, code: StepCode) -> None:
        """The guard of a step is about to be asked, of a loop for one item."""
        (tests, emptiness, _), labels = self._reading.guards(code), self.standing.labels
        label = join([labels[slot] for slot in tests])
        if emptiness:
            if self.deciding.counts_all(code):
                label = label.join(join([labels[slot] for slot in emptiness]))
            else:
                label = label.join(self._by_emptiness(emptiness, code))
        if label is not LITERAL:
            self._note(code, label)

    def answers(self, code: StepCode) -> None:
        """An answer is about to be looked at, whether there is any."""
        slots = self._reading.reads(code).slots
        counts = self.deciding.counts_all(code)
        self._note(code, self.standing.read(slots)[0] if counts else self._by_emptiness(slots, code))

    def loop(self, frame: Frame, slots: list[Any]) -> None:
        """A loop begins: how often it goes round tells of what it goes through, and so do its items."""
        label, origins = self.standing.read(self._reading.guards(frame.code).source)
        self._note(frame.code, label)
        if (source := self._reading.source(frame.code)) is not None:
            label = self.enforcement.of_items(source(slots, self.standing.labels))
        self.underway.loops[frame.prefix] = label, origins

    def enter(self, frame: Frame) -> tuple[Label, Origins]:
        """An item of a loop stands in its variable; gives what `leave` puts back."""
        slot, standing = frame.code.loop_slot, self.standing
        before = standing.labels[slot], standing.origins[slot]
        standing.labels[slot], standing.origins[slot] = self.underway.loops[frame.prefix]
        return before

    def leave(self, frame: Frame, before: tuple[Label, Origins]) -> None:
        """What stood in a loop's variable before stands there again."""
        slot, standing = frame.code.loop_slot, self.standing
        standing.labels[slot], standing.origins[slot] = before

    # ------------------------------------------------------------ calls

    def admit(self, attempt: Attempt, slots: list[Any], *, is_asked: bool) -> Admitted:
        """Judge a call of a step; `is_asked` says that a person is asked before it anyway.

        Raises RefusedByPolicy.
        """
        code = attempt.code
        number = code.number
        if not is_asked:
            passed = self.passing.admitted(code, attempt.args, attempt.inputs)
            if passed is not None:
                self.underway.calls[attempt.key] = passed
                return passed
        reads = self._reading.reads(code)
        labels = self.standing.labels
        arguments = tuple([make(slots, labels) for make in reads.arguments])
        way = self.deciding.about(number)
        repeats = code.recurs and self.deciding.repeats(code)
        made = code.id, code.tool or REPLAN, arguments, way, code.retries, False, is_asked, repeats
        call = bare(CallView, made)
        origins = self.standing.origins_at(reads.slots)
        if code.kind is _AGENT and code.loop is None:
            unseen = "the agent makes its calls by itself, so that nobody could hold them against the policy"
            raise objected(call, Objection(Rule.AGENT, unseen), origins)
        admitted = self._judging.admitted(call, origins, is_asked=is_asked)
        self.underway.calls[attempt.key] = admitted
        attempt.args = self.saying.as_told(attempt.args, code.kind, call)
        if not is_asked:
            self.passing.note(code, admitted, attempt.args, attempt.inputs)
        if code.loop is not None and isinstance(attempt, Talk):
            self.underway.talks[attempt.key] = admitted.sent, admitted.origins
            self.narrow(attempt)
        return admitted

    def narrow(self, talk: Talk) -> None:
        """Leave an operation in turns no more than the policy gives its kind."""
        rule = self.enforcement.policy.agent
        if rule is not None and talk.code.kind is Kind.AGENT:
            talk.allowed = narrowed(talk.allowed, rule)

    def admit_inner(self, call: InnerCall, *, is_asked: bool) -> None:
        """Judge a call that an agent asks for: all that its model has seen may be in it.

        Raises RefusedByPolicy.
        """
        label, origins = self.underway.talks[call.talk.key]
        arguments = tuple([argument_of(name, value, label) for name, value in call.args.items()])
        code, way = call.code, self.deciding.about(call.talk.code.number)
        view = CallView(code.id, code.tool, arguments, way, in_agent=True, approved=is_asked)
        self.underway.calls[call.key] = self._judging.admitted(view, origins, is_asked=is_asked)
        words = tuple([argument_of(name, value, label.retold()) for name, value in call.args.items()])
        call.args = self.saying.as_told(call.args, code.kind, view._replace(arguments=words))

    def forbidden(self, attempt: Attempt, why: str, rule: Rule) -> RefusedByPolicy:
        """That a call which was let pass may not leave after all, by a rule and what is known of the world.

        `why` says which data would reach whom, or what would be written.
        """
        admitted = self.underway.calls.get(attempt.key)
        sent, origins = PLAIN if admitted is None else (admitted.sent, admitted.origins)
        code = attempt.code
        call = CallView(code.id, code.tool, (Argument("", (), sent),), self.deciding.about(code.number))
        origins = tuple(step for step in origins if step != code.id)
        return objected(call, Objection(rule, why, help=_WAYS_OUT.get(rule, "")), origins)

    # ------------------------------------------------------------ outcomes

    def came(self, attempt: Attempt, reported: Label | None = None) -> None:
        """A call has its outcome; `reported` is the label that the world says the value has."""
        admitted = self.underway.calls.pop(attempt.key, None)
        if admitted is None:
            return
        label, origins = admitted.result, admitted.origins
        if reported is not None and not self._is_declassified(attempt.code):
            # what is known of each fact takes the place of what the policy says of all memory
            label = reported.join(admitted.sent if attempt.code.tool in _MEMORY else label)
        if isinstance(attempt, InnerCall):
            self.underway.has_seen(attempt.talk.key, label, origins)
            check_seen(attempt.code, label, origins)
            return
        if isinstance(attempt, Talk):
            seen, before = self.underway.talks.pop(attempt.key)
            if not seen.is_public:  # of public data alone it makes nothing that tells anybody anything
                label = label.retold()
            label, origins = label.join(seen), merged(before, origins)
        self.underway.add_result(attempt.frame.prefix, label, origins)
        code = attempt.code
        if self._exact or code.fail_target is not None or code.fail_message is not None:
            self._led(code, label)

    def kept(self, code: StepCode, key: str) -> None:
        """The only call of a step has its outcome, and the step is done: `came` and `stored` in one."""
        label, _, origins, _, _ = self.underway.calls.pop(key)
        if self._exact or code.fail_target is not None or code.fail_message is not None:
            self._led(code, label)
        if code.out_slot != NOWHERE:
            self._set(code, label, origins)

    def came_to_group(self, code: StepCode, key: str) -> None:
        """The only call of a step has its outcome, and the group that the step stands in may go on."""
        label, _, origins, _, _ = self.underway.calls.pop(key)
        self.underway.add_result(key.removesuffix(FIRST), label, origins)
        if code.fail_target is not None or code.fail_message is not None:
            self._led(code, label)

    def failed(self, attempt: Attempt) -> None:
        """A call has failed for good: what its error says may tell of all that the call took along."""
        admitted = self.underway.calls.get(attempt.key)
        if admitted is not None:
            self.underway.calls[attempt.key] = admitted._replace(result=admitted.result.join(admitted.sent))
        self.came(attempt)

    def fell(self, frame: Frame) -> None:
        """A step of a graph has failed, and nothing reads what it gave but who plans anew.

        Such a planner may be told its error, by the name of its variable or, where it has none, its own.
        """
        label, way = self.saying.told_by_failure(frame)
        step = self.program.plan.steps[frame.code.number]
        self.standing.add(step.id if step.output is None else step.output.var, label.join(way))
        self.underway.forget(frame.prefix)

    def unmade(self, frame: Frame) -> None:
        """The arguments of a call could not be made: the error tells of what it would have read."""
        self.underway.results[frame.prefix] = self.standing.read(self._reading.reads(frame.code).slots)

    def renamed(self, before: str, key: str) -> None:
        """A call is tried again under another key."""
        self.underway.rename(before, key)

    def stored(self, code: StepCode, prefix: str) -> None:
        """A step is done, whose keys begin so: its value stands in its variable, where it has one."""
        underway = self.underway
        underway.loops.pop(prefix, None)
        label, origins = underway.results.pop(prefix, PLAIN)
        if code.out_slot != NOWHERE:
            self._set(code, label, origins)

    def _led(self, code: StepCode, label: Label) -> None:
        """That a call succeeded, or failed, led the plan on; `label` is that of what it gave."""
        if self.deciding.counts_all(code):
            self._note(code, label)
            return
        label = self._by_emptiness(self._reading.slots(code), code)
        if label is not LITERAL or self.deciding.noted:
            self._note(code, label)

    def _set(self, code: StepCode, label: Label, origins: Origins) -> None:
        """What a step has given stands in its variable."""
        slot, deciding, standing = code.out_slot, self.deciding, self.standing
        way = deciding.about(code.number) if deciding.noted else deciding.base
        if way is not label:
            label = label.join(way)
        standing.last = label, origins
        if way is not LITERAL or standing.presence:
            self._note_presence(code, way)
        standing.labels[slot], standing.origins[slot] = label, origins

    def _is_declassified(self, code: StepCode) -> bool:
        return not self.is_anew and code.id in self.enforcement.policy.declassify

    def _note_presence(self, code: StepCode, way: Label) -> None:
        """What decided whether a step gives something: its way, and whether its arguments are there."""
        slots = *self._reading.slots(code), *self._reading.guards(code).source
        told = way.join(self._by_emptiness(slots, code))
        if self._is_declassified(code):
            told = Label(way.untrusted, None)
        self.standing.put_presence(code.out_slot, told)

    def label_of(self, key: str) -> Label | None:
        """The label of all that a call takes along."""
        return self.underway.sent_by(key)

    def told_of_planning(self, key: str) -> dict[str, Any]:
        """What the command for a new plan tells besides: the labels of variables, and that of the reason."""
        labels = {name: label for name, (label, _) in self.variables().items()}
        return {"labels": labels, "context": self.label_of(key) or self.deciding.base}
