"""Judges the texts that a run shows to people: answers, messages, errors, and texts in its calls.

In: a text, and the labels of what it was made of. Out: the text as it may be shown, or RefusedByPolicy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from callsheet.ir import JSON, Ending, Plan
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.machine.frames import Frame
from callsheet.machine.monitor.enforcement import Enforcement, Judging, OpenCalls
from callsheet.machine.monitor.judgement_cache import ImplicitFlows
from callsheet.machine.monitor.reads import ReadsCache, argument_of
from callsheet.machine.monitor.variable_labels import PLAIN, Origins, VariableLabels
from callsheet.machine.program import NOWHERE, Eval, Kind, StepCode
from callsheet.machine.values import to_json_text
from callsheet.policy.audiences import Audiences
from callsheet.policy.calls import Argument, CallView, Hole, Judgement
from callsheet.policy.disarming import Allowed, addresses_in, disarmed
from callsheet.policy.judge import Judge
from callsheet.policy.links import inert, is_active, opens_tag, runs_an_address
from callsheet.policy.rules.answers import links_data, parts_of
from callsheet.policy.rules.base import leaves

_FAILED = "failed: "


def sanitized_text(
    text: str,
    arguments: Iterable[Argument],
    audiences: Audiences,
    known_links: frozenset[str] = frozenset(),
) -> str:
    """A text as it may be shown: if links may carry private data, those to hosts not allowed it are disabled.

    Addresses written in the plan itself stay, and `known_links`, which tell nothing that their authors do not
    know; but no image of them, since which ones are loaded tells something. Markup that data has brought, and
    that could take up private data from elsewhere, is disabled too.
    """
    arguments = tuple(arguments)
    text = _without_foreign_markup(text, arguments, audiences)
    parts = [part for argument in arguments for leaf in leaves(argument) for part in leaf.parts]
    label = join(part.label for part in parts if not isinstance(part, str) and part.label.may_link)
    if label is LITERAL:
        return text
    own = frozenset(address for part in parts if isinstance(part, str) for address in addresses_in(part))
    return disarmed(text, _allowed(label, audiences, own, known_links))


def _without_foreign_markup(text: str, arguments: tuple[Argument, ...], audiences: Audiences) -> str:
    """The text without tags, if some that data has brought may read private data, or may contain it."""
    if "<" not in text and ":" not in text:
        return text
    parts = parts_of(CallView("", "RESPOND", arguments), "")
    private = [part for part in parts if isinstance(part, Hole) and not part.label.is_public]
    if not private or len(parts) == 1:
        return text
    is_one = len({hole.name.partition(".")[0] for hole in private}) == 1
    foreign = "".join(
        [
            part if isinstance(part, str) else " " if is_one and not part.label.is_public else part.text or ""
            for part in parts
        ]
    )
    if runs_an_address(foreign):
        text = disarmed(text, _allowed(join(hole.label for hole in private), audiences, frozenset()))
    return inert(text) if is_active(foreign) or opens_tag(parts) else text


def sanitized_question(
    args: dict[str, Any], arguments: Iterable[Argument], audiences: Audiences
) -> dict[str, Any]:
    """The arguments of a question, its prompt as it may be shown."""
    prompt = args.get("prompt")
    return (
        args | {"prompt": sanitized_text(prompt, arguments, audiences)} if isinstance(prompt, str) else args
    )


def sent(args: dict[str, Any], call: CallView, rules: Judge | None, audiences: Audiences) -> dict[str, Any]:
    """The arguments of a call that sends a message, its texts as they may be shown to the recipients."""
    if (
        rules is None
        or all(argument.label.is_public for argument in call.arguments)
        or not rules.is_message(call.tool)
    ):
        return args
    read = rules.read_in(call)
    arguments = {
        argument.name: _sanitized(args[argument.name], argument, audiences)
        for argument in call.arguments
        if argument.name in read and argument.name in args and not argument.label.is_public
    }
    return args | arguments if arguments else args


def _sanitized(
    value: JSON, argument: Argument, audiences: Audiences, known_links: frozenset[str] = frozenset()
) -> JSON:
    """The value of an argument with every text in it, at any depth, as it may be shown."""
    if isinstance(value, str):
        return sanitized_text(value, (argument,), audiences, known_links)
    if isinstance(value, list):
        items = argument.items if len(argument.items) == len(value) else (argument,) * len(value)
        return [
            _sanitized(part, item, audiences, known_links) for part, item in zip(value, items, strict=True)
        ]
    if isinstance(value, dict):
        members = {item.name: item for item in argument.items}
        return {
            key: _sanitized(part, members.get(key, argument), audiences, known_links)
            for key, part in value.items()
        }
    return value


def sanitized_value(
    value: JSON,
    arguments: tuple[Argument, ...],
    audiences: Audiences,
    known_links: frozenset[str] = frozenset(),
) -> JSON:
    """An answer made of these arguments with every text in it, at any depth, as it may be shown."""
    if isinstance(value, str):
        return sanitized_text(value, arguments, audiences, known_links)
    return value if not arguments else _sanitized(value, arguments[0], audiences, known_links)


def remark(
    text: str, label: Label, step: str, judge: Callable[[CallView], Judgement], audiences: Audiences
) -> str:
    """A remark of a plan, or that it is withheld from those who may not read data of its label (POL180)."""
    argument = Argument("0", (Hole("remark", label, text),), label)
    objections = judge(CallView(step, "TERMINATE", (argument,))).objections
    if objections:
        return f"POL180: what it says is withheld: {objections[0].message}"
    return text if label.is_public else sanitized_text(text, (argument,), audiences)


def failure(
    error: str,
    label: Label,
    pc: Label,
    step: str,
    judge: Callable[[CallView], Judgement],
    audiences: Audiences,
) -> str:
    """What may be said about a failure: its error, judged like an answer, or that it is withheld (POL180)."""
    argument = Argument("0", (_FAILED, Hole("error", label, error)), label)
    objections = judge(CallView(step, "TERMINATE", (argument,), pc)).objections
    if objections:
        return f"POL180: its error is withheld: {objections[0].message}"
    if label.is_public or not label.untrusted:
        return error
    return disarmed(error, _allowed(label, audiences, frozenset()))


def _allowed(
    label: Label, audiences: Audiences, own: frozenset[str], known: frozenset[str] = frozenset()
) -> Allowed:
    def may_know(host: str) -> bool:
        return label.may_reach(audiences.of_host(host))

    return Allowed(may_know, own, known)


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
        is_end = self._plan.steps[code.number].course.ends is Ending.MESSAGE
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
        text = self._spaced(text, arguments, code.fail_values, slots)
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
