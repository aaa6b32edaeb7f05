"""Judges the texts that a run shows to people: answers, messages, errors, and texts in its calls.

In: a text, and the labels of what it was made of. Out: the text as it may be shown, or RefusedByPolicy.
"""

from __future__ import annotations

from typing import Any

from callsheet.ir import Plan, Terminate
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.machine.frames import Frame
from callsheet.machine.monitor.admitted import Origins
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.machine.monitor.implicit_flows import ImplicitFlows
from callsheet.machine.monitor.judging import Judging
from callsheet.machine.monitor.open_calls import OpenCalls
from callsheet.machine.monitor.reads import argument_of
from callsheet.machine.monitor.reads_cache import ReadsCache
from callsheet.machine.monitor.sanitizing import failure, sanitized_question, sanitized_text, sent
from callsheet.machine.monitor.variable_labels import PLAIN, VariableLabels
from callsheet.machine.program import NOWHERE, Eval, Kind, StepCode
from callsheet.machine.values import to_json_text
from callsheet.policy.audiences import Audiences
from callsheet.policy.calls import Argument, CallView
from callsheet.policy.rules.answers import links_data

RESPOND, TERMINATE, REPLAN = "RESPOND", "TERMINATE", "RE-PLAN"


class ShownTexts:
    """Judges the texts of one program, by the labels that its monitor keeps."""

    __slots__ = (
        "_audiences",
        "_implicit_flows",
        "_judging",
        "_open_calls",
        "_plan",
        "_reading",
        "_rules",
        "_variables",
    )

    def __init__(
        self,
        plan: Plan,
        enforcement: Enforcement,
        judging: Judging,
        reading: ReadsCache,
        implicit_flows: ImplicitFlows,
        variables: VariableLabels,
        open_calls: OpenCalls,
    ) -> None:
        self._plan = plan
        self._rules = rules = enforcement.rules
        self._audiences = (
            Audiences(enforcement.policy.audiences) if rules is None else rules.setting.audiences
        )
        self._judging = judging
        self._reading = reading
        self._implicit_flows = implicit_flows
        self._variables = variables
        self._open_calls = open_calls

    def as_told(self, args: dict[str, Any], kind: Kind, call: CallView) -> dict[str, Any]:
        """The arguments of a call as shown to the person who is asked, or to whom a message is sent."""
        if kind is Kind.ASK:
            return sanitized_question(args, call.arguments, self._audiences)
        return sent(args, call, self._rules, self._audiences)

    def answer(self, code: StepCode, slots: list[Any], text: str) -> str:
        """Judge the `text` of an answer or a TERMINATE; gives it as it may be shown.

        Raises RefusedByPolicy.
        """
        reads = self._reading.reads(code)
        is_end = isinstance(self._plan.steps[code.number].action, Terminate)
        arguments = tuple([make(slots, self._variables.labels) for make in reads.arguments])
        self._judge(code, TERMINATE if is_end else RESPOND, arguments, self._variables.read(reads.slots)[1])
        return sanitized_text(self._spaced(text, arguments, code.inputs, slots), arguments, self._audiences)

    def message(self, frame: Frame, slots: list[Any], text: str) -> str:
        """Judge the message of an ON_FAIL TERMINATE; gives it as it may be shown.

        `slots` must hold the error and the item. Raises RefusedByPolicy.
        """
        code = frame.code
        labels = list(self._variables.labels)
        if frame.items is not None:
            labels[code.loop_slot] = self._open_calls.loops[frame.prefix][0]
        label, origins = self._open_calls.results.get(frame.prefix, PLAIN)
        if code.out_slot != NOWHERE:
            labels[code.out_slot] = label
        arguments = tuple([make(slots, labels) for make in self._reading.reads(code).message])
        decided_by = self._implicit_flows.noted.get(code.number, LITERAL)
        self._judge(code, TERMINATE, arguments, origins, decided_by)
        text = self._spaced(text, arguments, code.fail_message or (), slots)
        return sanitized_text(text, arguments, self._audiences)

    def _spaced(
        self, text: str, arguments: tuple[Argument, ...], inputs: tuple[Eval, ...], slots: list[Any]
    ) -> str:
        """The text, its lists and dicts with blanks if an address in one would otherwise run on into data.

        JSON without blanks is a single word to the programs that find addresses in a text.
        """
        if self._rules is None or not any(a.items and not a.label.is_public for a in arguments):
            return text
        if not links_data(self._rules.setting, CallView("", RESPOND, arguments), gap=""):
            return text
        values = [make(slots) for make in inputs]
        return " ".join([said for value in values if value is not None and (said := to_json_text(value))])

    def failure(self, frame: Frame | None, error: str) -> str:
        """What a run's answer may say about a failed step: its error, or that it is withheld.

        Without a frame, a planner gave no plan for a graph; its error may reveal all variables.
        """
        implicit_flows = self._implicit_flows
        if frame is None or frame.code.kind is Kind.REPLAN:
            label, pc = join(known for known, _ in self._variables.by_name().values()), implicit_flows.base
            return failure(error, label, pc, REPLAN, self._judging.judge, self._audiences)
        label, pc = self.told_by_failure(frame)
        return failure(error, label, pc, frame.code.id, self._judging.judge, self._audiences)

    def told_by_failure(self, frame: Frame) -> tuple[Label, Label]:
        """The labels of what the error of a failed step reveals, and of what decided that there is one."""
        implicit_flows, known, open_calls = self._implicit_flows, self._variables, self._open_calls
        number = frame.code.number
        known_of = open_calls.results.get(frame.prefix) or known.read(self._reading.reads(frame.code).slots)
        label = known_of[0].join(open_calls.loops.get(frame.prefix, PLAIN)[0])
        return label, implicit_flows.about(number).join(implicit_flows.noted.get(number, LITERAL))

    def implied(self, text: str, slot: int | None = None) -> str:
        """Judge the implied answer of a plan that ended without RESPOND; gives it as it may be shown.

        It is the value of the variable in `slot`, or the value stored last. Raises RefusedByPolicy.
        """
        known = self._variables
        label, origins = known.last if slot is None else (known.labels[slot], known.origins[slot])
        arguments = (argument_of("0", text, label),)
        call = CallView(origins[-1] if origins else "", RESPOND, arguments, self._implicit_flows.base)
        self._judging.judge_shown(call, origins)
        return sanitized_text(text, arguments, self._audiences)

    def _judge(
        self,
        code: StepCode,
        what: str,
        arguments: tuple[Argument, ...],
        origins: Origins,
        pc: Label = LITERAL,
    ) -> None:
        call = CallView(code.id, what, arguments, self._implicit_flows.about(code.number).join(pc))
        self._judging.judge_shown(call, origins)
