"""Failures in plan trees: their kinds, as values that a plan can read, and those of pure code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple, TypeVar, cast

from callsheet.ir.failing import GRAVE, IS_FAILURE, Failing
from callsheet.ir.labels import Label, join
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


T = TypeVar("T")

RECORDS: Final = "exceptions"
"""The field of a failure of several with their records."""
_SHOWN: Final = 5
"""How many failed tasks a message names."""
_OF_SEVERAL: Final = (*GRAVE, Failing.GROUP.value)
"""The kinds of a failure that may stand for several."""
_TEXTS: Final = ("kind", "message", "step", "error")
"""What every record of a failure has."""


def gravest(failures: Sequence[Failure]) -> Failure | None:
    """What failures that end together come to if one of them is grave, whatever else has failed; else None.

    It is the first of the gravest kind, and has the words and the records of all others that are grave.
    """
    grave = [one for one in by_gravity(failures, kinds_of) if one.kind in GRAVE]
    if len(grave) < 2:
        return grave[0] if grave else None
    first, *others = grave
    also = shown(others, lambda one: f"{one.step}: {words_of(one.kind, one.text, first)}")
    records = [record for one in grave for record in records_of(one)]
    label = joined_label(grave)
    return first._replace(error=f"{first.text}; also {also}", label=label, fields={RECORDS: records})


def after(pending: Iterable[Failure], failure: Failure) -> Failure:
    """What a failure in a FINALLY block comes to, which takes the place of those that were under way.

    One of them that is grave stays what has failed, and has the words of the one in the block.
    """
    under_way = [one for one in pending if one.kind in GRAVE]
    if not under_way:
        return failure
    whole = gravest([*under_way, failure])
    assert whole is not None
    if failure.kind in GRAVE:
        return whole
    said = f"{whole.text}; then {failure.step}: {failure.text}"
    return whole._replace(error=said, label=joined_label((whole, failure)))


def by_gravity(every: Sequence[T], kinds: Callable[[T], Set[str]]) -> list[T]:
    """All in their order, behind the first that tells of each grave kind: what is cut off hides none."""
    first: list[int] = []
    for grave in GRAVE:
        if not any(grave in kinds(every[place]) for place in first):
            first += [place for place, one in enumerate(every) if grave in kinds(one)][:1]
    return [every[place] for place in dict.fromkeys((*first, *range(len(every))))]


def kinds_of(failure: Failure) -> Set[str]:
    """The kinds that a failure tells of: its own, and those of the failures that it stands for."""
    if failure.kind not in _OF_SEVERAL:
        return {failure.kind}
    return {failure.kind, *(record["kind"] for record in records_of(failure))}


def kinds_of_record(record: Mapping[str, Any]) -> Set[str]:
    """The kinds that a record of a failure tells of."""
    return {record["kind"]}


def records_of(failure: Failure) -> list[Any]:
    """The failures that a failure stands for, as records."""
    fields: Any = failure.fields
    if failure.kind in _OF_SEVERAL and isinstance(fields, dict):
        inner: Any = cast("dict[str, Any]", fields).get(RECORDS)
        if isinstance(inner, list) and all(map(_is_record, cast("list[Any]", inner))):
            return cast("list[Any]", inner)
    return [marked_record(failure)]


def marked_record(failure: Failure) -> dict[str, Any]:
    """A failure as a record that is known as one among values."""
    return {**record_of(failure), IS_FAILURE: True}


def _is_record(value: Any) -> bool:
    """Whether a value is the record of a failure: a plan may raise data as one, with anything among it."""
    if not isinstance(value, dict) or IS_FAILURE not in value:
        return False
    record = cast("dict[str, Any]", value)
    return all(isinstance(record.get(key), str) for key in _TEXTS)


def words_of(kind: str, text: str, whole: Failure) -> str:
    """What is said of one of several failures: its kind, too, where it is grave and the whole has another."""
    return f"{kind}: {text}" if kind in GRAVE and kind != whole.kind else text


def shown(every: Sequence[T], said: Callable[[T], str]) -> str:
    """What is said of the first few, and how many others there are."""
    more = len(every) - _SHOWN
    return ", ".join(map(said, every[:_SHOWN])) + (f" and {more} more" if more > 0 else "")


def joined_label(failures: Iterable[Failure]) -> Label | None:
    """The label of what is said of several failures; None in a run without a policy."""
    labels = [one.label for one in failures if one.label is not None]
    return join(labels) if labels else None
