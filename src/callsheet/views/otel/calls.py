"""Collects the calls of a run from its events: when each was issued and answered, and its outcome.

In: events, by their type, key and body. Out: `CallRecord` records, kept until their visit is exported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from callsheet.ir import JSON
from callsheet.machine import AgentTurn, Awaited, CallModel, CallTool, Compile, RunAgent, Spent
from callsheet.machine.keys import attempt_key, parse_key, visit_of
from callsheet.store.events import EventType
from callsheet.views.otel.model import ErrorType


class Failure(NamedTuple):
    """Why something failed: the type of the error and its text."""

    type: ErrorType
    text: str = ""


@dataclass(slots=True)
class CallRecord:
    """One call. `issued` and `ended` are times in nanoseconds since 1970; `ended` is 0 while it is open.

    `error_type` and `error_text` describe its failure; `model` and `prompt` are those of the answer.
    """

    key: str
    issued: int
    ended: int = 0
    error_type: ErrorType | None = None
    error_text: str = ""
    value: JSON = None
    spent: Spent | None = None
    model: str = ""
    prompt: str = ""

    @property
    def failure(self) -> Failure | None:
        """Why it failed, None if it succeeded; a call that is open when it is exported was interrupted."""
        error_type = self.error_type if self.ended else ErrorType.INTERRUPTED
        return None if error_type is None else Failure(error_type, self.error_text)

    def is_within(self, key: str) -> bool:
        """Whether it was made within the operation with this key."""
        return self.key.startswith(f"{key}/")


@dataclass(slots=True)
class Calls:
    """The calls of visits that have not been exported yet, by the key prefix of the visit."""

    by_visit: dict[str, dict[str, CallRecord]] = field(default_factory=dict[str, "dict[str, CallRecord]"])

    def issued(self, key: str, now: int) -> None:
        """Record that a call was issued. It replaces an earlier record, of a process that ended before."""
        self.by_visit.setdefault(visit_of(key), {})[key] = CallRecord(key, now)

    def outcome(
        self, kind: str, key: str, body: Mapping[str, Any], now: int, command: Awaited | None
    ) -> None:
        """Record the outcome of a call: a result, an error, that it is in doubt, or a decision about it."""
        of_visit = self.by_visit.setdefault(visit_of(key), {})
        called = of_visit.get(key)
        if called is None:
            called = of_visit[key] = CallRecord(key, now)
        called.ended = now
        match kind:
            case EventType.OK:
                called.value = body.get("value")
            case EventType.ERR:
                called.error_type, called.error_text = (
                    _error_type_of_call(command),
                    str(body.get("error", "")),
                )
            case EventType.IN_DOUBT:
                called.error_type, called.error_text = ErrorType.IN_DOUBT, str(body.get("reason", ""))
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

    def of(self, visit: str) -> list[CallRecord]:
        """Returns the calls of a visit, in the order in which they were first issued."""
        return list(self.by_visit.get(visit, {}).values())

    def forget(self, visit: str, *, but_open: bool = False) -> None:
        """Remove the calls of a visit that has been exported; with `but_open`, only those that have ended."""
        records = self.by_visit.pop(visit, {})
        if but_open:
            open_records = {key: called for key, called in records.items() if not called.ended}
            if open_records:
                self.by_visit[visit] = open_records


def attempts_in(calls: Iterable[CallRecord]) -> dict[int, dict[str, list[CallRecord]]]:
    """Groups calls by item, then by the key of their attempt, both in ascending order."""
    attempts: dict[int, dict[str, list[CallRecord]]] = {}
    for called in calls:
        base = attempt_key(called.key)
        attempts.setdefault(parse_key(base).index, {}).setdefault(base, []).append(called)
    return {
        item: dict(sorted(attempts[item].items(), key=lambda pair: parse_key(pair[0]).attempt))
        for item in sorted(attempts)
    }


def _decide(called: CallRecord, body: Mapping[str, Any]) -> None:
    decision = body.get("decision")
    if decision == "retry":
        called.ended = 0
    elif decision != "fail":
        called.error_type, called.error_text, called.value = None, "", body.get("value")


def _error_type_of_call(command: Awaited | None) -> ErrorType:
    match command:
        case CallModel() | AgentTurn():
            return ErrorType.MODEL
        case RunAgent():
            return ErrorType.AGENT
        case Compile():
            return ErrorType.PLANNER
        case CallTool():
            return ErrorType.TOOL
        case _:
            return ErrorType.STEP
