"""Determines which parts of a run's events are secret by their labels, before they are written.

In: the machine under its policy, and the event to be recorded. Out: the paths of secret parts of its body. If
the label is no longer known, as for a late outcome, everything counts as secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from callsheet.ir.labels import Label, read_label
from callsheet.machine import (
    Answered,
    Approval,
    Ask,
    Decided,
    Doubted,
    Event,
    Failed,
    Machine,
    PlanCompiled,
    Result,
    Status,
    Succeeded,
)
from callsheet.machine.monitor.monitor import Monitor
from callsheet.sealing.sealer import LABEL, Path

_NONE: Mapping[Path, str] = {}
_OUTCOME = ("value", "error", "remarks", "reason")
_QUESTION = ("prompt", "options", "schema", "default")


class Secrecy:
    """The labels of one run under a policy, as its recorder needs them."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    def of(self, event: Event) -> Mapping[Path, str]:
        """The secret parts of the body of an event that has not been fed to the machine yet."""
        match event:
            case Succeeded(key=key, label=label):
                return _OUTCOMES if self._gives_secrets(key, label) else _NONE
            case Failed(key=key) | Doubted(key=key):
                return _OUTCOMES if self._gives_secrets(key) else _NONE
            case Decided(key=key) | Answered(key=key) | PlanCompiled(key=key):
                return _ANSWERS if self._gives_secrets(key) else _NONE
            case _:
                return _NONE

    def of_late(self) -> Mapping[Path, str]:
        """The secret parts of an outcome whose call is closed."""
        return _OUTCOMES

    def of_question(self, ask: Ask) -> Mapping[Path, str]:
        """The secret parts of a question or an approval."""
        if not isinstance(ask.asked, Approval):
            return _QUESTIONS if self._takes_secrets(ask.key) else _NONE
        labels: dict[Path, str] = {}
        for name, label_data in ask.asked.labels.items():
            label = (
                cast("Mapping[str, Any]", label_data).get("label") if isinstance(label_data, dict) else None
            )
            if label is not None and read_label(str(label)).is_secret:
                labels[("args", name) if name in ask.asked.args else ("inputs",)] = LABEL
        if ask.asked.answer and self._gives_secrets(ask.key):
            labels[("answer",)] = LABEL
        return labels | {("why",): LABEL} if labels else labels

    def of_end(self, result: Result, *, has_sealed: bool) -> Mapping[Path, str]:
        """The secret parts of the `end` event: an answer has been judged by the policy, an error has not.

        `has_sealed` means that something in the run was secret, so its error may be.
        """
        if not has_sealed:
            return _NONE
        labels: dict[Path, str] = {} if result.error is None else {("error",): LABEL}
        if result.status is not Status.DONE:
            labels[("response",)] = LABEL
        if result.objection is not None:
            labels |= {("objection", name): LABEL for name in ("message", "help")}
        return labels

    def _gives_secrets(self, key: str, label: Label | None = None) -> bool:
        admitted = self._monitor.open_calls.calls.get(key)
        if label is not None and label.is_secret:
            return True
        talk = self._monitor.open_calls.talks.get(key)
        if talk is not None and talk[0].is_secret:
            return True
        return admitted is not None and (admitted.result.is_secret or admitted.sent.is_secret)

    def _takes_secrets(self, key: str) -> bool:
        admitted = self._monitor.open_calls.calls.get(key)
        return admitted is not None and admitted.sent.is_secret


def secrecy_of(machine: Machine) -> Secrecy | None:
    """The secrecy of a run; None for one without a policy."""
    return None if machine.monitor is None else Secrecy(machine.monitor)


_OUTCOMES: Mapping[Path, str] = {(name,): LABEL for name in _OUTCOME}
_ANSWERS: Mapping[Path, str] = {(name,): LABEL for name in ("value", "note", "remarks")}
_QUESTIONS: Mapping[Path, str] = {(name,): LABEL for name in _QUESTION}
