"""The state of an open turn-by-turn operation (a "talk"), and the calls made for it."""

from __future__ import annotations

from typing import Any

from callsheet.ir import JSON
from callsheet.machine.agents.actions import Action, Finish, Unreadable, read_action
from callsheet.machine.agents.allowance import MAX_ROUNDS, OWN_ARGUMENTS, Allowance, read_allowance
from callsheet.machine.agents.conversation import ObservedCall, Turn
from callsheet.machine.agents.rounds import next_round
from callsheet.machine.commands import AgentTurn, CallModel
from callsheet.machine.frames import Attempt, Frame
from callsheet.machine.keys import turn_key
from callsheet.machine.program import Kind, StepCode

QUESTION = -1
"""The place of the question to the model, among the calls of a turn."""


class Talk(Attempt):
    """A call of an operation that takes several turns, from its first question to its value.

    `turns` are the finished ones. For the current turn, `answer` is the model's answer, `actions` are the
    calls that it asks for, `seen` their outcomes by place; `next` is the first action not handled yet and
    `open` counts open calls. `refused` says which limit of the run was reached, "" if none.
    """

    __slots__ = ("actions", "allowed", "answer", "next", "open", "refused", "seen", "turns")

    def __init__(self, frame: Frame, index: int, key: str, args: dict[str, Any], inputs: list[JSON]) -> None:
        self.begin(frame, index, key, args, inputs)
        self.turns: list[Turn] = []
        self.answer: JSON = None
        self.actions: tuple[Action, ...] = ()
        self.seen: list[ObservedCall | None] = []
        self.next = 0
        self.open = 0
        self.refused = ""
        loop = frame.code.loop
        assert loop is not None
        if frame.code.kind is Kind.MODEL:
            self.allowed = Allowance(turns=rounds_in(args))
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
    return AgentTurn(key, code.id, code.tool, talk.inputs, args, talk.allowed, tuple(talk.turns), may_fail)
