"""Predicts a step's call and value before its turn.

In: a step, the variables, and values that are known but not committed. Out: the command that the machine
will ask for, and the value that an outcome gives the step's variable. The variables are not changed.
"""

from __future__ import annotations

from typing import Any

from callsheet.ir import JSON, Cast
from callsheet.machine.ahead.state import Outcome, Patches
from callsheet.machine.commands import CallModel, CallTool
from callsheet.machine.events import Failed, Succeeded
from callsheet.machine.program import Kind, StepCode
from callsheet.machine.values import cast_value


class PatchedVariables:
    """The variables with `patches` applied, until `restore` is called."""

    __slots__ = ("_before", "slots")

    def __init__(self, slots: list[Any], patches: Patches) -> None:
        self.slots = slots
        self._before = [(slot, slots[slot]) for slot, _ in patches]
        for slot, value in patches:
            slots[slot] = value

    def restore(self) -> None:
        """Put back the values from before."""
        for slot, value in reversed(self._before):
            self.slots[slot] = value


def command_of(key: str, code: StepCode, slots: list[Any]) -> CallTool | CallModel:
    """The command of a step, as the machine will ask for it."""
    args = code.arguments(slots)
    if code.kind is Kind.MODEL:
        inputs = [make(slots) for make in code.inputs]
        return CallModel(key, code.id, code.tool, inputs, args, code.heeds_failure(1))
    return CallTool(key, code.id, code.tool, args, code.wants_data)


def value_or_error(outcome: Outcome) -> JSON:
    """The value of an outcome, or its error."""
    return outcome.value if isinstance(outcome, Succeeded) else outcome.error


def value_of(outcome: Outcome, cast: Cast | None) -> JSON:
    """What an outcome stores in a variable: its value, cast, or its error, which is never cast."""
    if isinstance(outcome, Failed):
        return outcome.error
    return outcome.value if cast is None else cast_value(cast, outcome.value)[0]
