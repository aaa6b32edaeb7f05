"""The talk of an agent, or of a refinement in rounds, and its form in a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from callsheet.ir import JSON
from callsheet.machine.agents.actions import (
    MAX_AT_ONCE,
    MAX_ROUNDS,
    OWN_ARGUMENTS,
    REFINE,
    Action,
    Allowance,
    CallOutcome,
    Finish,
    ObservedCall,
    Turn,
    Unreadable,
    read_action,
    read_allowance,
)
from callsheet.machine.commands import AgentTurn, CallModel
from callsheet.machine.frames import Attempt, Frame, HeldResult, TreeFrame, Wait
from callsheet.machine.keys import turn_key
from callsheet.machine.program import Kind, StepCode
from callsheet.machine.usage import OwnBudget, Spent

EARLIER = "earlier"
"""The argument that gives a round of a critique or consensus the answer of the round before."""


def next_round(
    tool: str, inputs: list[JSON], args: Mapping[str, Any], answer: JSON
) -> tuple[list[JSON], dict[str, Any]]:
    """The inputs and arguments of the next round, after this answer of the round before.

    A refinement continues with the answer as its text; a critique or consensus gets the same texts again.

    >>> next_round("SELF_REFINE", ["a", "b"], {"rounds": 2}, "better")
    (['better', 'b'], {})
    >>> next_round("CONSENSUS", ["a", "b"], {"rounds": 2}, "both")
    (['a', 'b'], {'earlier': 'both'})
    """
    plain = {name: value for name, value in args.items() if name != "rounds"}
    if tool == REFINE:
        return [answer, *inputs[1:]], plain
    return inputs, {**plain, EARLIER: answer}


QUESTION = -1
"""The place of the question to the model, among the calls of a turn."""


class Talk(Attempt):
    """A call of an operation that takes several turns, from its first question to its value.

    `turns` are the finished ones. For the current turn, `answer` is the model's answer, `actions` are the
    calls that it asks for, `seen` their outcomes by place; `next` is the first action not handled yet and
    `open` counts open calls. `refused` says which limit of the run was reached, "" if none. In a session the
    next question is open beside the calls, whose actions are not kept; `is_closing` says that its client has
    left while some were open. `spent` is what its questions and calls have cost, in all attempts.
    """

    __slots__ = (
        "actions", "allowed", "answer", "is_closing", "next", "open", "refused", "seen", "spent", "turns",
    )  # fmt: skip

    def __init__(self, frame: Frame, index: int, key: str, args: dict[str, Any], inputs: list[JSON]) -> None:
        self.begin(frame, index, key, args, inputs)
        self.turns: list[Turn] = []
        self.answer: JSON = None
        self.actions: tuple[Action, ...] = ()
        self.seen: list[ObservedCall | None] = []
        self.next = 0
        self.open = 0
        self.refused = ""
        self.spent = Spent()
        self.is_closing = False
        loop = frame.code.loop
        assert loop is not None
        if frame.code.kind is Kind.MODEL:
            self.allowed = Allowance(turns=rounds_in(args))
        elif loop.is_session:
            self.allowed = Allowance(tuple(loop.tools), at_once=MAX_AT_ONCE, is_session=True)
        elif loop.fault:
            self.allowed = Allowance(fault=loop.fault)
        else:
            self.allowed = read_allowance(tuple(loop.tools), args)

    def question(self) -> InnerCall:
        """The next question, as a call."""
        return InnerCall(self, QUESTION, self.frame.code, {})

    def take(self, answer: JSON, actions: tuple[Action, ...]) -> None:
        """The model has answered, and asks for these calls."""
        self.answer, self.actions = answer, actions
        self.seen = [None] * len(actions)
        self.next = 0

    def close_turn(self) -> None:
        """All calls of the current turn are done: add it to `turns`."""
        self.turns.append(Turn(self.answer, tuple(seen for seen in self.seen if seen is not None)))
        self.answer, self.actions, self.seen = None, (), []

    def calls_made(self) -> int:
        """How many calls have been made."""
        every = [seen for turn in self.turns for seen in turn.seen] + [s for s in self.seen if s is not None]
        return sum(bool(seen.key) for seen in every) + self.open

    @property
    def used(self) -> str:
        """What has been spent of its limits, in words; "" without limits.

        >>> from callsheet.machine.agents.actions import read_allowance
        >>> talk = object.__new__(Talk)
        >>> talk.allowed, talk.spent = read_allowance((), {"max_tokens": 2000}), Spent(1200, 40)
        >>> talk.used, talk.is_overspent
        ('1,240 of 2,000 tokens', False)
        """
        return self._budget.words(self.spent.input_tokens + self.spent.output_tokens, self.spent.cost)

    @property
    def is_overspent(self) -> bool:
        """Whether nothing is left of one of its limits."""
        return self._budget.is_spent(self.spent.input_tokens + self.spent.output_tokens, self.spent.cost)

    @property
    def _budget(self) -> OwnBudget:
        return OwnBudget(self.allowed.tokens, self.allowed.cost)

    def call_at(self, place: int) -> InnerCall:
        """The call at this place of the turn; raises IndexError or KeyError if there is none."""
        if place == QUESTION:
            return self.question()
        action, loop = self.actions[place], self.frame.code.loop
        assert loop is not None
        return InnerCall(self, place, loop.tools[action.tool], action.args)


class InnerCall(Attempt):
    """One call for a talk: the question of a turn, or a call of a tool that an answer asks for."""

    __slots__ = ("called", "place", "talk")

    def __init__(self, talk: Talk, place: int, code: StepCode, args: dict[str, Any]) -> None:
        key = turn_key(talk.key, len(talk.turns) + 1, place + 1)
        self.begin(talk.frame, talk.index, key, args, [])
        self.talk = talk
        self.place = place
        self.called = code

    @property
    def code(self) -> StepCode:
        """The code of what is called: the operation itself, or a tool."""
        return self.called


def rounds_in(args: dict[str, Any]) -> int:
    """How many rounds an operation has; 1 if `rounds` is missing, invalid or out of range."""
    try:
        rounds = int(float(args.get("rounds", 1)))
    except (TypeError, ValueError, OverflowError):
        return 1
    return rounds if 1 <= rounds <= MAX_ROUNDS else 1


def opened(frame: Frame, index: int, key: str, args: dict[str, Any], inputs: list[JSON]) -> Attempt:
    """The first attempt of a call; a Talk if it takes several turns."""
    code = frame.code
    if code.loop is None or (code.kind is Kind.MODEL and rounds_in(args) == 1):
        return Attempt().begin(frame, index, key, args, inputs)
    return Talk(frame, index, key, args, inputs)


def read_actions(talk: Talk, answer: JSON) -> tuple[tuple[Action, ...], str]:
    """The calls that an answer in a talk asks for, and why it is no valid action, "" if it is one."""
    if talk.code.kind is Kind.MODEL:
        return (), ""
    read = read_action(answer, talk.allowed.at_once)
    match read:
        case Unreadable(why=why):
            return (), why
        case Finish():
            return (), ""
        case _:
            return read, ""


def asked_in(question: InnerCall) -> CallModel | AgentTurn:
    """The command for the question of a talk's current turn."""
    talk, code, key = question.talk, question.code, question.key
    may_fail = code.heeds_failure(talk.number)
    if code.kind is Kind.MODEL:
        inputs, args = talk.inputs, {name: value for name, value in talk.args.items() if name != "rounds"}
        if talk.turns:
            inputs, args = next_round(code.tool, inputs, args, talk.turns[-1].answer)
        return CallModel(key, code.id, code.tool, inputs, args, may_fail)
    args = {name: value for name, value in talk.args.items() if name not in OWN_ARGUMENTS}
    turns = () if talk.allowed.is_session else tuple(talk.turns)
    return AgentTurn(key, code.id, code.tool, talk.inputs, args, talk.allowed, turns, may_fail)


Keep: TypeAlias = "Callable[[JSON], JSON]"
Give: TypeAlias = "Callable[[Any], JSON]"


def call_to_json(attempt: Attempt, frame: int, talks: Mapping[int, int], keep: Keep) -> list[Any]:
    """A call as JSON data; `talks` are the numbers of talks by identity."""
    if isinstance(attempt, Talk):
        return ["talk", talks[id(attempt)]]
    if isinstance(attempt, InnerCall):
        return ["inner", talks[id(attempt.talk)], attempt.place, _lost(attempt)]
    if isinstance(attempt, Wait):
        return ["wait", frame, attempt.seconds]
    return _attempt_to_json(attempt, frame, keep)


def call_from_json(data: list[Any], frames: Sequence[Frame], talks: Sequence[Talk], give: Give) -> Attempt:
    """The call from JSON data; raises KeyError, TypeError or ValueError if it is malformed."""
    if data[0] == "talk":
        talk_index: int = data[1]
        return talks[talk_index]
    if data[0] == "inner":
        number: int = data[1]
        call = talks[number].call_at(data[2])
        _put_lost(call, data[3])
        return call
    if data[0] == "wait":
        place: int = data[1]
        return Wait().of(cast("TreeFrame", frames[place]), data[2])
    return _attempt_from_json(data, frames, give)


def talk_to_json(talk: Talk, frame: int, keep: Keep) -> dict[str, Any]:
    """A turn-by-turn operation as JSON data."""
    return {
        "attempt": _attempt_to_json(talk, frame, keep),
        "turns": [
            [keep(turn.answer), *(_seen_to_json(seen, keep) for seen in turn.seen)] for turn in talk.turns
        ],
        "now": [
            keep(talk.answer),
            *(None if seen is None else _seen_to_json(seen, keep) for seen in talk.seen),
        ]
        if talk.actions
        else None,
        "stands": [talk.next, talk.open, talk.refused],
        **({"spent": [*talk.spent]} if talk.spent != Spent() else {}),
    }


def talk_from_json(data: Mapping[str, Any], frames: Sequence[Frame], give: Give) -> Talk:
    """The operation from JSON data; raises KeyError, TypeError or ValueError if it is malformed."""
    given = _attempt_from_json(data["attempt"], frames, give)
    talk = Talk(given.frame, given.index, given.key, given.args, given.inputs)
    talk.number, talk.delivery, talk.held = given.number, given.delivery, given.held
    for answer, *kept in data["turns"]:
        value = give(answer)
        actions, fault = read_actions(talk, value)
        seen = [_seen_from_json(action, item, give) for action, item in zip(actions, kept, strict=True)]
        talk.turns.append(Turn(value, tuple(seen), fault))
    if data["now"] is not None:
        answer, *kept = data["now"]
        value = give(answer)
        actions, _ = read_actions(talk, value)
        talk.take(value, actions)
        talk.seen = [
            None if item is None else _seen_from_json(action, item, give)
            for action, item in zip(actions, kept, strict=True)
        ]
    talk.next, talk.open, talk.refused = data["stands"]
    talk.spent = Spent(*data.get("spent", ()))
    return talk


def _seen_to_json(seen: ObservedCall, keep: Keep) -> list[Any]:
    return [keep(seen.value), str(seen.outcome), seen.key]


def _seen_from_json(action: Action, data: list[Any], give: Give) -> ObservedCall:
    value, outcome, key = data
    return ObservedCall(action.tool, action.args, give(value), CallOutcome(outcome), key)


def _lost(attempt: Attempt) -> list[Any] | None:
    lost = [attempt.delivery, attempt.redelivered, attempt.is_probing]
    return lost if any(lost) else None


def _put_lost(attempt: Attempt, lost: list[Any] | None) -> None:
    if lost is not None:
        attempt.delivery, attempt.redelivered, attempt.is_probing = lost


def _attempt_to_json(attempt: Attempt, frame: int, keep: Keep) -> list[Any]:
    args = {name: keep(value) for name, value in attempt.args.items()}
    inputs = [keep(value) for value in attempt.inputs]
    held_result = [] if attempt.held is None else [[keep(attempt.held.value), attempt.held.why]]
    return [frame, attempt.index, attempt.number, attempt.key, args, inputs, _lost(attempt), *held_result]


def _attempt_from_json(data: list[Any], frames: Sequence[Frame], give: Give) -> Attempt:
    frame_index: int = data[0]
    _, index, number, key, args, inputs, lost, *held_result = data
    given = {name: give(kept) for name, kept in args.items()}
    attempt = Attempt().begin(frames[frame_index], index, key, given, [give(kept) for kept in inputs])
    attempt.number = number
    _put_lost(attempt, lost)
    for value, why in held_result:
        attempt.held = HeldResult(give(value), str(why))
    return attempt
