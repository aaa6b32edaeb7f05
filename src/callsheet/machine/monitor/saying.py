"""What a run says to people, judged and as it is shown: answers, messages that end it, words of its calls.

In: a text of a program under way, and the labels of what it was made of. Out: the text as it may be shown; or
RefusedByPolicy.
"""

from __future__ import annotations

from typing import Any

from callsheet.ir import Plan, Terminate
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.machine.frames import Frame
from callsheet.machine.monitor.admitted import Origins
from callsheet.machine.monitor.deciding import Deciding
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.machine.monitor.judging import Judging
from callsheet.machine.monitor.reading import Reading
from callsheet.machine.monitor.reads import argument_of
from callsheet.machine.monitor.standing import PLAIN, Standing
from callsheet.machine.monitor.telling import asked, failure, sent, shown
from callsheet.machine.monitor.underway import Underway
from callsheet.machine.program import NOWHERE, Kind, StepCode
from callsheet.policy.audiences import Audiences
from callsheet.policy.calls import Argument, CallView

RESPOND, TERMINATE, REPLAN = "RESPOND", "TERMINATE", "RE-PLAN"


class Saying:
    """What one program of a run says, by the labels that its monitor keeps."""

    __slots__ = (
        "_audiences",
        "_deciding",
        "_judging",
        "_plan",
        "_reading",
        "_rules",
        "_standing",
        "_underway",
    )

    def __init__(
        self,
        plan: Plan,
        enforcement: Enforcement,
        judging: Judging,
        reading: Reading,
        deciding: Deciding,
        standing: Standing,
        underway: Underway,
    ) -> None:
        self._plan = plan
        self._rules = rules = enforcement.rules
        self._audiences = (
            Audiences(enforcement.policy.audiences) if rules is None else rules.setting.audiences
        )
        self._judging = judging
        self._reading = reading
        self._deciding = deciding
        self._standing = standing
        self._underway = underway

    def as_told(self, args: dict[str, Any], kind: Kind, call: CallView) -> dict[str, Any]:
        """The arguments of a call as those may see them who are asked, or written to."""
        if kind is Kind.ASK:
            return asked(args, call.arguments, self._audiences)
        return sent(args, call, self._rules, self._audiences)

    def answer(self, code: StepCode, slots: list[Any], text: str) -> str:
        """Judge an answer, or the message of a TERMINATE, that reads so; raises RefusedByPolicy.

        Gives it as it may be shown.
        """
        reads = self._reading.reads(code)
        is_end = isinstance(self._plan.steps[code.number].action, Terminate)
        arguments = tuple([make(slots, self._standing.labels) for make in reads.arguments])
        self._say(code, TERMINATE if is_end else RESPOND, arguments, self._standing.read(reads.slots)[1])
        return shown(text, arguments, self._audiences)

    def message(self, frame: Frame, slots: list[Any], text: str) -> str:
        """Judge the message with which ON_FAIL ends the plan; `slots` have the error and the item in it.

        Gives it as it may be shown; raises RefusedByPolicy.
        """
        code = frame.code
        labels = list(self._standing.labels)
        if frame.items is not None:
            labels[code.loop_slot] = self._underway.loops[frame.prefix][0]
        label, origins = self._underway.results.get(frame.prefix, PLAIN)
        if code.out_slot != NOWHERE:
            labels[code.out_slot] = label
        arguments = tuple([make(slots, labels) for make in self._reading.reads(code).message])
        told = self._deciding.noted.get(code.number, LITERAL)
        self._say(code, TERMINATE, arguments, origins, told)
        return shown(text, arguments, self._audiences)

    def failure(self, frame: Frame | None, error: str) -> str:
        """What the answer of a run may say of a step that has failed: its error, or that it is withheld.

        A planner that gives no plan, which has no frame in a graph, may tell of all that there is.
        """
        deciding = self._deciding
        if frame is None or frame.code.kind is Kind.REPLAN:
            label, way = join(told for told, _ in self._standing.by_name().values()), deciding.base
            return failure(error, label, way, REPLAN, self._judging.judge, self._audiences)
        label, way = self.told_by_failure(frame)
        return failure(error, label, way, frame.code.id, self._judging.judge, self._audiences)

    def told_by_failure(self, frame: Frame) -> tuple[Label, Label]:
        """The label of what the error of a failed step tells, and of what decided that there is one."""
        deciding, known, underway = self._deciding, self._standing, self._underway
        number = frame.code.number
        known_of = underway.results.get(frame.prefix) or known.read(self._reading.reads(frame.code).slots)
        label = known_of[0].join(underway.loops.get(frame.prefix, PLAIN)[0])
        return label, deciding.about(number).join(deciding.noted.get(number, LITERAL))

    def implied(self, text: str, slot: int | None = None) -> str:
        """Judge the value that is the answer of a plan which has come to its end without one.

        It is that of a variable, or the last that was set. Gives it as it may be shown.
        """
        known = self._standing
        label, origins = known.last if slot is None else (known.labels[slot], known.origins[slot])
        arguments = (argument_of("0", text, label),)
        call = CallView(origins[-1] if origins else "", RESPOND, arguments, self._deciding.base)
        self._judging.say(call, origins)
        return shown(text, arguments, self._audiences)

    def _say(
        self,
        code: StepCode,
        what: str,
        arguments: tuple[Argument, ...],
        origins: Origins,
        way: Label = LITERAL,
    ) -> None:
        call = CallView(code.id, what, arguments, self._deciding.about(code.number).join(way))
        self._judging.say(call, origins)
