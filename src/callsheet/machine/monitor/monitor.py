"""The labels of a run's values, and its calls judged one by one before they leave.

In: what the machine does, hook by hook, in its order. Out: for each call the label of its result and what a
person has to say yes to; or RefusedByPolicy, which ends the run. A variable's label is that of its last value
joined with those of the guards that decided whether it was set; what a guard has decided is joined into all
that its two ways may set, so that a step that was left out tells no more than one that was taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from callsheet.ir import JSON, Call, CallKind, Terminate
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.machine.agents.talk import InnerCall, Talk
from callsheet.machine.course import Course
from callsheet.machine.frames import Attempt, Frame
from callsheet.machine.keys import place_of_key
from callsheet.machine.monitor.admitted import NOTHING_SHOWN, Admitted, Origins
from callsheet.machine.monitor.deciding import Deciding
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.machine.monitor.origins import NONE, Extended, merged
from callsheet.machine.monitor.reads import Reads, argument_of, reads_of, written_of
from callsheet.machine.monitor.refusal import objected
from callsheet.machine.program import NOWHERE, Kind, Program, StepCode
from callsheet.policy.builtins import fold
from callsheet.policy.calls import Argument, CallView, Objection, Rule, bare
from callsheet.policy.model import Implicit, Policy

_MEMORY = frozenset({"QUERY_MEMORY", "GET_WM"})
_AGENT = Kind.AGENT
"""Looked at for every call: a module's name is found faster than an enum's member."""
RESPOND, TERMINATE, REPLAN = "RESPOND", "TERMINATE", "RE-PLAN"
_PLAIN: tuple[Label, Origins] = (LITERAL, NONE)


class Monitor:
    """The labels of one run; `load` begins a program, the other methods are the machine's hooks."""

    __slots__ = (
        "_base",
        "_course",
        "_exact",
        "_extended",
        "_judge",
        "_plan",
        "_reads",
        "_slot_of",
        "calls",
        "deciding",
        "enforcement",
        "extra",
        "is_anew",
        "labels",
        "last",
        "literal",
        "loops",
        "origins",
        "presence",
        "program",
        "results",
        "talks",
    )

    def __init__(self, enforcement: Enforcement) -> None:
        self.enforcement = enforcement
        self.literal = enforcement.policy.planner
        self._course: Course | None = None
        self.is_anew = False
        """Whether the program is one that the run itself has asked for."""
        self._base: Label = LITERAL
        self.last: tuple[Label, Origins] = _PLAIN
        """What stands beside the last value that was set."""
        self.labels: list[Label] = []
        self.origins: list[Origins] = []
        self.extra: dict[str, tuple[Label, Origins]] = {}
        """Of variables that the program does not name."""
        self.presence: dict[str, Label] = {}
        """What decided whether variables are set and not empty, by name, where that is not plain."""
        self.calls: dict[str, Admitted] = {}
        """Calls without an outcome, by key."""
        self.talks: dict[str, tuple[Label, Origins]] = {}
        """What the model of an operation in turns has seen so far, by key."""
        self.loops: dict[str, tuple[Label, Origins]] = {}
        """What loops under way go through, by the prefix of their keys."""
        self.results: dict[str, tuple[Label, Origins]] = {}
        """What has come of the calls of steps under way, by the prefix of their keys."""

    # ------------------------------------------------------------ programs and variables

    def load(self, program: Program) -> None:
        """Begin a program: what is known of variables by name stays."""
        known = self.variables() if self.labels else {**self.extra}
        plan = program.plan
        self._take_program(program)
        self.labels, self.origins = [LITERAL] * len(program.names), [NONE] * len(program.names)
        self.extra = {name: told for name, told in known.items() if name not in program.slot_of}
        for name, _ in plan.variables:
            self.labels[program.slot_of[name]] = self.literal
        for name, (label, origins) in known.items():
            slot = program.slot_of.get(name)
            if slot is not None:
                self.labels[slot], self.origins[slot] = label.join(self.labels[slot]), origins

    def take_course(self, course: Course) -> None:
        """Note what the policy says of calls, or let it say what is told."""
        self._course = course
        self._judge = course.judging(self._judge)

    def resume_plan(self, base: Label, noted: dict[int, Label], *, is_anew: bool) -> None:
        """Be amid the program that was loaded: the first of the run, or one that the run has asked for."""
        self.is_anew, self._base = is_anew, base
        self._take_program(self.program)
        self.deciding.noted = noted

    def _take_program(self, program: Program) -> None:
        self.program = program
        self._plan = program.plan
        self._exact = program.graph is not None
        self._slot_of = program.slot_of.__getitem__
        self._reads: list[Reads | None] = [None] * len(program.steps)
        self._extended = Extended()
        rules = self.enforcement
        judge = rules.judge_of_new_plans() if self.is_anew else rules.judge
        self._judge = judge if self._course is None else self._course.judging(judge)
        self.deciding = Deciding(
            program, self._base.join(self.literal), counts_bits=rules.policy.implicit is Implicit.STRICT
        )

    def change(self, policy: Policy) -> None:
        """Another policy holds from now on."""
        noted, self._base = self.deciding.noted, self.deciding.base
        self.enforcement = Enforcement.under(policy, self.enforcement.inputs)
        self.literal = self.literal.join(policy.planner)
        self._take_program(self.program)
        self.deciding.noted = noted

    def given(self, names: Iterable[str]) -> None:
        """The run begins with these variables."""
        known, slot_of = self.enforcement, self.program.slot_of
        for name in names:
            label = known.inputs.get(name, known.given)
            slot = slot_of.get(name)
            if slot is None:
                self.extra[name] = label, NONE
            else:
                self.labels[slot] = label

    def edited(self, names: Iterable[str]) -> None:
        """Somebody has set these variables by hand, who vouches for them as for what a run is given.

        They may have been made of what they replace: nobody may read them who may not read that.
        """
        known, slot_of = self.enforcement, self.program.slot_of
        for name in names:
            slot = slot_of.get(name)
            before = self.extra.get(name, _PLAIN)[0] if slot is None else self.labels[slot]
            label = known.inputs.get(name, known.given).join(Label(False, before.readers))
            if slot is None:
                self.extra[name] = label, NONE
            else:
                if self.last[0] is before and self.last[1] is self.origins[slot]:
                    self.last = label, NONE
                self.labels[slot], self.origins[slot] = label, NONE

    def variables(self) -> dict[str, tuple[Label, Origins]]:
        """Label and origins of each variable, by name."""
        told = dict(self.extra)
        told.update(zip(self.program.names, zip(self.labels, self.origins, strict=True), strict=True))
        return told

    def secret_variables(self) -> frozenset[str]:
        """The variables that nobody may read."""
        return frozenset(name for name, (label, _) in self.variables().items() if label.is_secret)

    def holds_secrets_of(self, step: str) -> bool:
        """Whether a call of a step that is under way takes along, or has given, what nobody may read."""
        calls = [key for key, a in self.calls.items() if a.result.is_secret or a.sent.is_secret]
        prefixes = (*self.results.items(), *self.loops.items())
        calls += [f"{prefix}0.1" for prefix, (label, _) in prefixes if label.is_secret]
        calls += [key for key, (label, _) in self.talks.items() if label.is_secret]
        return any(place_of_key(key)[0] == step for key in calls)

    def context_of(self, key: str, shown: Label | None) -> Label:
        """The label of what a planner was told: what it was `shown` of data, and the reason, if there is one.

        Where nobody knows what that was, it is taken to have been everything. The call of this key is
        under way no more.
        """
        reason = self.calls.pop(key, None)
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

    def _reads_of(self, code: StepCode) -> Reads:
        reads = self._reads[code.number]
        if reads is None:
            step = self._plan.steps[code.number]
            written = written_of(step, lambda call: self._named(code, call))
            reads = reads_of(step, code, written, self._slot_of, self.literal, exact=self._exact)
            self._reads[code.number] = reads
        return reads

    def _named(self, code: StepCode, call: Call) -> tuple[tuple[str, Any], ...]:
        if call.kind is CallKind.MODEL or call.kind is CallKind.AGENT:
            return (*((str(n), value) for n, value in enumerate(call.positional)), *call.named)
        return code.written

    def _note(self, code: StepCode, label: Label) -> None:
        """A step has decided something by data of this label: what comes of it tells of that data."""
        slots, told = self.deciding.note(code, label)
        for slot in slots:
            self.labels[slot] = self.labels[slot].join(told)
            self._add_presence(slot, told)

    def _add_presence(self, slot: int, label: Label) -> None:
        name = self.program.names[slot]
        self.presence[name] = label.join(self.presence.get(name, LITERAL))

    def _by_emptiness(self, slots: Iterable[int], code: StepCode) -> Label:
        """What is told by whether these variables are empty, beside the one bit of the data itself.

        A value that was set only because private data says so tells what it says.
        """
        if not self.presence:
            return LITERAL
        reads, names = self._reads_of(code), self.program.names
        every = [at for slot in slots for at in (reads.source if slot == code.loop_slot else (slot,))]
        return join([self.presence.get(names[slot], LITERAL) for slot in every])

    def tested(self, code: StepCode) -> None:
        """The guard of a step is about to be asked, of a loop for one item."""
        reads = self._reads_of(code)
        label = join([self.labels[slot] for slot in reads.tests])
        if reads.emptiness:
            if self.deciding.counts_all(code):
                label = label.join(join([self.labels[slot] for slot in reads.emptiness]))
            else:
                label = label.join(self._by_emptiness(reads.emptiness, code))
        if label is not LITERAL:
            self._note(code, label)

    def answers(self, code: StepCode) -> None:
        """An answer is about to be looked at, whether there is any."""
        slots = self._reads_of(code).slots
        counts = self.deciding.counts_all(code)
        self._note(code, self._read(slots)[0] if counts else self._by_emptiness(slots, code))

    def loop(self, frame: Frame) -> None:
        """A loop begins: how often it goes round tells of what it goes through, and so do its items."""
        self.loops[frame.prefix] = told = self._read(self._reads_of(frame.code).source)
        self._note(frame.code, told[0])

    def enter(self, frame: Frame) -> tuple[Label, Origins]:
        """An item of a loop stands in its variable; gives what `leave` puts back."""
        slot = frame.code.loop_slot
        before = self.labels[slot], self.origins[slot]
        self.labels[slot], self.origins[slot] = self.loops[frame.prefix]
        return before

    def leave(self, frame: Frame, before: tuple[Label, Origins]) -> None:
        """What stood in a loop's variable before stands there again."""
        self.labels[frame.code.loop_slot], self.origins[frame.code.loop_slot] = before

    # ------------------------------------------------------------ calls

    def admit(self, attempt: Attempt, slots: list[Any], *, is_asked: bool) -> Admitted:
        """Judge a call of a step; `is_asked` says that a person is asked before it anyway.

        Raises RefusedByPolicy.
        """
        code = attempt.code
        number = code.number
        reads = self._reads[number] or self._reads_of(code)
        labels = self.labels
        arguments = tuple([make(slots, labels) for make in reads.arguments])
        way = self.deciding.about(number)
        repeats = code.recurs and self.deciding.repeats(code)
        made = code.id, code.tool or REPLAN, arguments, way, code.retries, False, is_asked, repeats
        call = bare(CallView, made)
        origins = self._origins_at(reads.slots)
        if code.kind is _AGENT and code.loop is None:
            unseen = "the agent makes its calls by itself, so that nobody could hold them against the policy"
            raise objected(call, Objection(Rule.AGENT, unseen), origins)
        admitted = self._judged(call, origins, is_asked=is_asked)
        self.calls[attempt.key] = admitted
        if code.loop is not None and isinstance(attempt, Talk):
            self.talks[attempt.key] = admitted.sent, admitted.origins
            self.narrow(attempt)
        return admitted

    def narrow(self, talk: Talk) -> None:
        """Leave an operation in turns no more than the policy gives its kind."""
        rule, allowed = self.enforcement.policy.agent, talk.allowed
        if rule is None or talk.code.kind is not Kind.AGENT:
            return
        given = {fold(name) for name in rule.tools}
        talk.allowed = allowed._replace(
            tools=tuple(name for name in allowed.tools if fold(name) in given),
            turns=min(allowed.turns, rule.max_turns),
            calls=rule.max_calls if allowed.calls is None else min(allowed.calls, rule.max_calls),
            arguments=rule.arguments,
        )

    def admit_inner(self, call: InnerCall, *, is_asked: bool) -> None:
        """Judge a call that an agent asks for: all that its model has seen may be in it.

        Raises RefusedByPolicy.
        """
        label, origins = self.talks[call.talk.key]
        arguments = tuple([argument_of(name, value, label) for name, value in call.args.items()])
        code, way = call.code, self.deciding.about(call.talk.code.number)
        view = CallView(code.id, code.tool, arguments, way, in_agent=True, approved=is_asked)
        self.calls[call.key] = self._judged(view, origins, is_asked=is_asked)

    def _judged(self, call: CallView, origins: Origins, *, is_asked: bool) -> Admitted:
        way, arguments = call.pc, call.arguments
        judgement = self._judge(call)
        if judgement.objections:
            raise objected(call, judgement.objections[0], origins)
        if judgement.approvals and not is_asked:
            approved = self._judge(call._replace(approved=True))
            if approved.objections:  # it would be asked in vain
                raise objected(call, approved.objections[0], origins)
        sent = way
        for argument in arguments:
            if argument.label is not sent:
                sent = sent.join(argument.label)
        result = judgement.result
        if way is not LITERAL:
            result = result.join(way)
        made_by = self._extended.by(origins, call.step)
        if not (is_asked or judgement.approvals):
            return bare(Admitted, (result, sent, made_by, (), NOTHING_SHOWN))
        return Admitted(result, sent, made_by, judgement.approvals, self._shown(arguments, origins))

    def answer(self, code: StepCode, slots: list[Any]) -> None:
        """Judge an answer, or the message of a TERMINATE; raises RefusedByPolicy."""
        reads = self._reads_of(code)
        is_end = isinstance(self._plan.steps[code.number].action, Terminate)
        arguments = tuple([make(slots, self.labels) for make in reads.arguments])
        self._say(code, TERMINATE if is_end else RESPOND, arguments, self._read(reads.slots)[1])

    def message(self, frame: Frame, slots: list[Any]) -> None:
        """Judge the message with which ON_FAIL ends the plan; `slots` have the error and the item in it."""
        code = frame.code
        kept = list(self.labels)
        if frame.items is not None:
            self.labels[code.loop_slot] = self.loops[frame.prefix][0]
        label, origins = self.results.get(frame.prefix, _PLAIN)
        if code.out_slot != NOWHERE:
            self.labels[code.out_slot] = label
        arguments = tuple([make(slots, self.labels) for make in self._reads_of(code).message])
        self.labels = kept
        told = self.deciding.noted.get(code.number, LITERAL)
        self._say(code, TERMINATE, arguments, origins, told)

    def implied(self, text: str, slot: int | None = None) -> None:
        """Judge the value that is the answer of a plan which has come to its end without one.

        It is that of a variable, or the last that was set.
        """
        label, origins = self.last if slot is None else (self.labels[slot], self.origins[slot])
        call = CallView(
            origins[-1] if origins else "", RESPOND, (argument_of("0", text, label),), self.deciding.base
        )
        for objection in self._judge(call).objections:
            raise objected(call, objection, origins)

    def _say(
        self,
        code: StepCode,
        what: str,
        arguments: tuple[Argument, ...],
        origins: Origins,
        way: Label = LITERAL,
    ) -> None:
        call = CallView(code.id, what, arguments, self.deciding.about(code.number).join(way))
        for objection in self._judge(call).objections:
            raise objected(call, objection, origins)

    def _shown(self, arguments: tuple[Argument, ...], origins: Origins) -> dict[str, JSON]:
        """What a person is told of the arguments that are not plain."""
        told: dict[str, JSON] = {}
        for argument in arguments:
            if argument.label != LITERAL:
                came: JSON = [*self._origins_of(argument, origins)]
                told[argument.name] = {"label": str(argument.label), "from": came}
        return told

    def _origins_of(self, argument: Argument, origins: Origins) -> Origins:
        found: Origins = NONE
        for hole in _holes(argument):
            slot = self.program.slot_of.get(hole.partition(".")[0])
            found = merged(found, self.origins[slot]) if slot is not None else origins
        return found

    # ------------------------------------------------------------ outcomes

    def came(self, attempt: Attempt, reported: Label | None = None) -> None:
        """A call has its outcome; `reported` is the label that the world says the value has."""
        admitted = self.calls.pop(attempt.key, None)
        if admitted is None:
            return
        label, origins = admitted.result, admitted.origins
        if reported is not None and not self._is_declassified(attempt.code):
            # what is known of each fact takes the place of what the policy says of all memory
            label = reported.join(admitted.sent if attempt.code.tool in _MEMORY else label)
        if isinstance(attempt, InnerCall):
            seen, before = self.talks[attempt.talk.key]
            self.talks[attempt.talk.key] = seen.join(label), merged(before, origins)
            return
        if isinstance(attempt, Talk):
            seen, before = self.talks.pop(attempt.key)
            label, origins = label.join(seen), merged(before, origins)
        prefix = attempt.frame.prefix
        known = self.results.get(prefix)
        if known is None:
            self.results[prefix] = label, origins
        elif known[0] is not label or known[1] is not origins:
            self.results[prefix] = label.join(known[0]), merged(known[1], origins)
        code = attempt.code
        leads = self._exact or code.fail_target is not None or code.fail_message is not None
        if leads and self.deciding.counts_all(code):
            self._note(code, label)
        elif leads and not self._exact:
            self._note(code, self._by_emptiness(self._reads_of(code).slots, code))

    def failed(self, attempt: Attempt) -> None:
        """A call has failed for good: what its error says may tell of all that the call took along."""
        admitted = self.calls.get(attempt.key)
        if admitted is not None:
            self.calls[attempt.key] = admitted._replace(result=admitted.result.join(admitted.sent))
        self.came(attempt)

    def unmade(self, frame: Frame) -> None:
        """The arguments of a call could not be made: the error tells of what it would have read."""
        self.results[frame.prefix] = self._read(self._reads_of(frame.code).slots)

    def renamed(self, before: str, key: str) -> None:
        """A call is tried again under another key."""
        if before in self.calls:
            self.calls[key] = self.calls.pop(before)
        if before in self.talks:
            self.talks[key] = self.talks.pop(before)

    def stored(self, frame: Frame) -> None:
        """A step is done: its value stands in its variable, where it has one."""
        code = frame.code
        self.loops.pop(frame.prefix, None)
        label, origins = self.results.pop(frame.prefix, _PLAIN)
        if code.out_slot == NOWHERE:
            return
        way = self.deciding.about(code.number)
        label = label.join(way)
        self.last = label, origins
        if way is not LITERAL or self.presence:
            self._note_presence(code, way)
        self.labels[code.out_slot], self.origins[code.out_slot] = self.last

    def _is_declassified(self, code: StepCode) -> bool:
        return not self.is_anew and code.id in self.enforcement.policy.declassify

    def _note_presence(self, code: StepCode, way: Label) -> None:
        """What decided whether a step gives something: its way, and whether its arguments are there."""
        reads = self._reads_of(code)
        told = way.join(self._by_emptiness((*reads.slots, *reads.source), code))
        if self._is_declassified(code):
            told = Label(way.untrusted, None)
        self.presence.pop(self.program.names[code.out_slot], None)
        if told != LITERAL:
            self._add_presence(code.out_slot, told)

    def label_of(self, key: str) -> Label | None:
        """The label of all that a call takes along."""
        admitted = self.calls.get(key)
        return None if admitted is None else admitted.sent

    def told_of_planning(self, key: str) -> dict[str, Any]:
        """What the command for a new plan tells besides: the labels of variables, and that of the reason."""
        labels = {name: label for name, (label, _) in self.variables().items()}
        return {"labels": labels, "context": self.label_of(key) or self.deciding.base}

    def _read(self, slots: tuple[int, ...]) -> tuple[Label, Origins]:
        label = LITERAL
        for slot in slots:
            label = label.join(self.labels[slot])
        return label, self._origins_at(slots)

    def _origins_at(self, slots: tuple[int, ...]) -> Origins:
        """The steps that the values of these slots were made by."""
        found = NONE
        for slot in slots:
            origins = self.origins[slot]
            if origins and origins is not found:
                found = merged(found, origins)
        return found


def _holes(argument: Argument) -> Iterable[str]:
    for part in argument.parts:
        if not isinstance(part, str):
            yield part.name
    for item in argument.items:
        yield from _holes(item)
