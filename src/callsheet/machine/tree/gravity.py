"""Which of several failures is that of the whole, and what is said of the others.

In: failures that end together, or one in a FINALLY block and those that were under way. Out: the failure of
the whole. A person's no, and that something is not undone, are hidden by no other (`ir.failing.GRAVE`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Final, TypeVar, cast

from callsheet.ir.failing import GRAVE, IS_FAILURE, Failing
from callsheet.ir.labels import Label, join
from callsheet.machine.tree.failures import Failure, record_of

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
