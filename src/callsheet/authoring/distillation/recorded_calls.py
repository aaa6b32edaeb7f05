"""The calls that a model made in a recorded run, with their results, and what its user said.

In: the events of a run with a session or an agent. Out: its calls in order, and those that led to the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from callsheet.authoring.distillation.choices import counts
from callsheet.authoring.distillation.explanations import column_sums, tables_in
from callsheet.ir import JSON, Effect
from callsheet.machine.agents.actions import Finish, Unreadable, read_action
from callsheet.machine.agents.allowance import MAX_AT_ONCE
from callsheet.store.events import Event, EventType

_TURN = re.compile(r".*/t(\d+)(?:c(\d+))?\Z")
_WORD = re.compile(r"\S{4,}")
"""A word of a listing that is taken for a name."""
_READING = frozenset(
    ("LIST", "GET", "READ", "FIND", "SEARCH", "FETCH", "QUERY", "SHOW", "DESCRIBE", "LOOKUP", "VIEW", "CHECK")
)
_LEAST = 4
"""The characters that a text has at least to be recognised in another one."""


class RecordedCall(NamedTuple):
    """A call with its result; `place` counts from 0 in the order in which the calls were made."""

    place: int
    tool: str
    args: dict[str, JSON]
    result: JSON


@dataclass(slots=True)
class RecordedWork:
    """What a model did: its calls that gave a result, how many did not, and the words of its user."""

    calls: list[RecordedCall] = field(default_factory=list[RecordedCall])
    failed: list[str] = field(default_factory=list[str])
    said: str = ""


def work_in(events: Iterable[Event]) -> RecordedWork:
    """The calls in the events of a run; those that failed, were refused or have no outcome are only named."""
    asked: dict[tuple[str, int], tuple[str, dict[str, JSON]]] = {}
    results: dict[tuple[str, int], JSON] = {}
    said: list[str] = []
    for event in events:
        found = _TURN.match(event.key or "")
        if found is None or event.type is not EventType.OK or event.body is None:
            continue
        turn, value = (event.key or "").partition("c")[0], event.body.get("value")
        if found[2] is not None:
            results[turn, int(found[2])] = value
            continue
        if isinstance(value, dict):
            said += [str(text) for text in cast("dict[str, Any]", value).get("said") or ()]
        actions = read_action(cast("JSON", value), MAX_AT_ONCE)
        if not isinstance(actions, Finish | Unreadable):
            for number, action in enumerate(actions, 1):
                asked[turn, number] = action.tool, {**action.args}
    work = RecordedWork(said="\n".join(said))
    for key, (tool, args) in asked.items():
        if key in results:
            work.calls.append(RecordedCall(len(work.calls), tool, args, results[key]))
        else:
            work.failed.append(tool)
    return work


def slice_of(calls: Sequence[RecordedCall], effects: dict[str, Effect], said: str = "") -> list[RecordedCall]:
    """The calls that changed something or came last, and those whose results went into them.

    If the user has asked for a number of things, the length of a list may go into an argument. A tool of an
    unknown effect whose name begins like one that reads counts as reading here.
    """
    needed: set[int] = set()
    waiting = [call for call in calls if not _reads(call.tool, effects.get(call.tool, Effect.UNSAFE))][::-1]
    waiting += [*calls[-1:]]
    while waiting:
        call = waiting.pop()
        if call.place in needed:
            continue
        needed.add(call.place)
        wanted = {*texts_in(call.args)}
        for before in calls[: call.place]:
            is_counted = counts(said) and any(
                text.isdigit() and int(text) <= len(rows)
                for _, rows in tables_in("", before.result)
                for text in wanted
            )
            if before.place not in needed and (is_counted or _gives(before, wanted)):
                waiting.append(before)
    return [call for call in calls if call.place in needed]


def _reads(tool: str, effect: Effect) -> bool:
    verb = tool.rpartition("__")[2].partition("_")[0]
    return effect.only_reads or (effect is Effect.UNSAFE and verb in _READING)


def _gives(call: RecordedCall, wanted: set[str]) -> bool:
    """Whether a text of a call's result is one of the wanted texts, or a part of one, or the reverse."""
    if any(str(total) in wanted for total in column_sums(call.result)):
        return True
    wanted = {text.lower() for text in wanted}
    for text in map(str.lower, texts_in(call.result)):
        if text in wanted:
            return True
        if len(text) >= _LEAST and any(text in whole for whole in wanted):
            return True
        if any(len(part) >= _LEAST and part in text for part in wanted):
            return True
        words = _WORD.findall(text) if "\n" in text else ()
        if any(word in whole for word in words for whole in wanted):
            return True
    return False


def texts_in(value: JSON) -> Iterable[str]:
    """The texts and numbers in a value, as text."""
    if isinstance(value, dict):
        for item in value.values():
            yield from texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, bool) or value is None:
        return
    else:
        yield str(value)
