"""Failures in plan trees: their kinds, as values that a plan can read, and those of pure code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from callsheet.ir.failing import Failing
from callsheet.ir.labels import Label
from callsheet.machine.expressions import ExpressionFailed, FailureKind
from callsheet.machine.expressions.values import FailureRecord

KINDS: dict[FailureKind, Failing] = {
    FailureKind.TYPE: Failing.TYPE,
    FailureKind.VALUE: Failing.VALUE,
    FailureKind.KEY: Failing.KEY,
    FailureKind.INDEX: Failing.INDEX,
    FailureKind.ATTRIBUTE: Failing.ATTRIBUTE,
    FailureKind.ZERO: Failing.ZERO,
    FailureKind.OVERFLOW: Failing.OVERFLOW,
    FailureKind.LIMIT: Failing.LIMIT,
}
_NAMES = {kind.value: failing.value for kind, failing in KINDS.items()} | {"ToolError": Failing.TOOL.value}
"""The kinds by the names of Python's exceptions."""


class Failure(NamedTuple):
    """Why a statement failed: its kind, its own words, the full text, where, and after how many attempts."""

    kind: str
    message: str
    step: str
    error: str = ""
    attempts: int = 1
    label: Label | None = None
    """The label of its words, in a run under a policy."""
    fields: Any = None
    """What an exception of the program's own class carries beside its words."""

    @classmethod
    def of(cls, failed: ExpressionFailed, step: str) -> Failure:
        """The failure of an expression at a place."""
        kind = KINDS[failed.kind].value
        if failed.words is not None:
            return cls(kind, failed.words, step, failed.message)
        return cls(kind, failed.message, step)

    @property
    def text(self) -> str:
        """The full text, with what is around the own words."""
        return self.error or self.message


class StatementFailed(Exception):
    """Unwinds an operation whose statement has failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


def record_of(failure: Failure) -> FailureRecord:
    """A failure as a value: what `$error` and CONTINUE give."""
    made = FailureRecord(
        error=failure.text,
        message=failure.message,
        kind=failure.kind,
        step=failure.step,
        attempts=failure.attempts,
    )
    if failure.fields is not None:
        made["fields"] = failure.fields
    return made


def is_failure(values: list[Any]) -> bool:
    """Whether a FAIL is given a failure, and not the words of one."""
    one = values[0] if len(values) == 1 else None
    return isinstance(one, dict) and {"kind", "message", "step"} <= cast("dict[str, Any]", one).keys()


def failure_of(record: Mapping[str, Any], place: str) -> Failure:
    """The failure that a record of one tells of, raised again."""
    attempts = record.get("attempts")
    return Failure(
        str(record["kind"]),
        str(record["message"]),
        str(record["step"] or place),
        str(record.get("error") or ""),
        attempts if isinstance(attempts, int) else 1,
        fields=record.get("fields"),
    )


def of_compute(failure: Failure) -> Failure:
    """The failure of a COMPUTE: its port says the exception's name in front."""
    name, colon, rest = failure.message.partition(": ")
    if not colon or not name.isidentifier():
        return failure
    kind = _NAMES.get(name, name)
    return failure._replace(kind=kind, message=rest)
