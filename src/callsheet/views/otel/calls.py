"""Collects the calls of a run from its events: when each was issued and answered, and its outcome.

In: events, by their type, key and body. Out: `Called` records, kept until their visit is exported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from callsheet.ir import JSON
from callsheet.machine import AgentTurn, Awaited, CallModel, CallTool, Compile, RunAgent, Spent
from callsheet.machine.keys import parse_key, visit_of
from callsheet.store.events import EventType
from callsheet.views.otel.names import Wrong


@dataclass(slots=True)
class Called:
    """One call. `left` (when it was issued) and `ended` are nanoseconds since 1970; `ended` is 0 until then.

    `wrong` is the kind of its failure, `said` the error's text; `model` and `prompt` are those of the answer.
    """

    key: str
    left: int
    ended: int = 0
    wrong: Wrong | None = None
    said: str = ""
    value: JSON = None
    spent: Spent | None = None
    model: str = ""
    prompt: str = ""

    def is_within(self, key: str) -> bool:
        """Whether it was made within the operation with this key."""
        return self.key.startswith(f"{key}/")


def base_of(key: str) -> str:
    """Returns the key of the attempt that a call belongs to, without its turn within an operation."""
    head, mark, rest = key.rpartition("/t")
    return head if mark and rest.replace("c", "").isdigit() and "." in head else key


@dataclass(slots=True)
class Calls:
    """The calls of visits that have not been exported yet, by the key prefix of the visit."""

    by_visit: dict[str, dict[str, Called]] = field(default_factory=dict[str, "dict[str, Called]"])

    def left(self, key: str, now: int) -> None:
        """Record that a call was issued. It replaces an earlier record, of a process that ended before."""
        self.by_visit.setdefault(visit_of(key), {})[key] = Called(key, now)

    def outcome(
        self, kind: str, key: str, body: Mapping[str, Any], now: int, command: Awaited | None
    ) -> None:
        """Record the outcome of a call: a result, an error, that it is in doubt, or a decision about it."""
        of_visit = self.by_visit.setdefault(visit_of(key), {})
        called = of_visit.get(key)
        if called is None:
            called = of_visit[key] = Called(key, now)
        called.ended = now
        match kind:
            case EventType.OK:
                called.value = body.get("value")
            case EventType.ERR:
                called.wrong, called.said = _wrong(command), str(body.get("error", ""))
            case EventType.IN_DOUBT:
                called.wrong, called.said = Wrong.IN_DOUBT, str(body.get("reason", ""))
            case EventType.DECIDED:
                _decide(called, body)
            case _:
                pass
        if "spent" in body:
            called.spent = Spent(*body["spent"])
        for remark in body.get("remarks", ()):
            if remark.get("fact") == "model":
                called.model = str(remark["text"])
            elif remark.get("fact") == "prompt":
                called.prompt = str(remark["text"])

    def of(self, visit: str) -> list[Called]:
        """Returns the calls of a visit, in the order in which they were first issued."""
        return list(self.by_visit.get(visit, {}).values())

    def forget(self, visit: str, *, but_open: bool = False) -> None:
        """Remove the calls of a visit that has been exported; with `but_open`, only those that have ended."""
        held = self.by_visit.pop(visit, {})
        if but_open:
            kept = {key: called for key, called in held.items() if not called.ended}
            if kept:
                self.by_visit[visit] = kept


def attempts_in(calls: Iterable[Called]) -> dict[int, dict[str, list[Called]]]:
    """Groups calls by item, then by the key of their attempt, both in ascending order."""
    found: dict[int, dict[str, list[Called]]] = {}
    for called in calls:
        base = base_of(called.key)
        found.setdefault(parse_key(base).index, {}).setdefault(base, []).append(called)
    return {
        item: dict(sorted(found[item].items(), key=lambda pair: parse_key(pair[0]).attempt))
        for item in sorted(found)
    }


def _decide(called: Called, body: Mapping[str, Any]) -> None:
    decision = body.get("decision")
    if decision == "retry":
        called.ended = 0
    elif decision != "fail":
        called.wrong, called.said, called.value = None, "", body.get("value")


def _wrong(command: Awaited | None) -> Wrong:
    match command:
        case CallModel() | AgentTurn():
            return Wrong.MODEL
        case RunAgent():
            return Wrong.AGENT
        case Compile():
            return Wrong.PLANNER
        case CallTool():
            return Wrong.TOOL
        case _:
            return Wrong.STEP
