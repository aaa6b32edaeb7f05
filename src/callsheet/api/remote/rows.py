"""What the HTTP API tells, as the types of the library: results of runs, rows of lists, events, questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from callsheet.api.recorded_runs import JournalEvent, RecordedRun
from callsheet.api.result import RunResult
from callsheet.diagnostics import Diagnostic
from callsheet.machine import PolicyRefusal, Refusal, Usage
from callsheet.runtime.answers import PendingAsk
from callsheet.runtime.doubt import DoubtfulCall
from callsheet.store import RunStatus

Row = Mapping[str, Any]
UNDERWAY = frozenset({"queued", "running"})
"""The statuses of a run that its server is carrying on; all others are ends, or wait for somebody."""


def result_of(row: Row, diagnostics: Sequence[Diagnostic] = ()) -> RunResult:
    """The result of a run from its details; `diagnostics` are the warnings with which it was started."""
    refusal, objection, status = row["refusal"], row["objection"], row["status"]
    return RunResult(
        row["run_id"],
        RunStatus(status) if status in {*map(str, RunStatus)} else RunStatus.RUNNING,
        response=row["response"] or "",
        variables=dict(row["variables"]),
        steps_executed=row["steps_executed"],
        terminated=bool(row["terminated"]),
        error=row["error"],
        ended_at=row["ended_at"],
        in_doubt=tuple(map(call_of, row["in_doubt"])),
        waiting=tuple(ask_of(ask) for ask in row["waiting"] if not ask["answered"]),
        unanswered=tuple(map(call_of, row["unanswered"])),
        refusal=None if refusal is None else Refusal(**refusal),
        objection=None if objection is None else PolicyRefusal.from_json(objection),
        usage=Usage.from_json(row["usage"]),
        failed_steps=tuple(row["failed_steps"] or ()),
        diagnostics=tuple(diagnostics),
        answer=row["answer"],
    )


def call_of(row: Row) -> DoubtfulCall:
    """A call in doubt, or one without an answer."""
    return DoubtfulCall(
        row["key"],
        row["step"],
        row["tool"],
        dict(row["args"]),
        _moment(row["since"]),
        row["item"],
        row["attempt"],
        row["why"],
    )


def ask_of(row: Row) -> PendingAsk:
    """A question, or a call to approve."""
    return PendingAsk(
        row["run_id"],
        row["key"],
        row["step"],
        row["kind"],
        row["digest"],
        _moment(row["since"]),
        None if row["until"] is None else _moment(row["until"]),
        prompt=row.get("prompt", ""),
        options=tuple(row.get("options", ())),
        schema=row.get("schema"),
        tool=row.get("tool", ""),
        args=row.get("args"),
        inputs=tuple(row.get("inputs", ())),
        plan_hash=row.get("plan_hash", ""),
        is_answered=row["answered"],
        why=tuple(row.get("why", ())),
        labels=row.get("labels"),
        answer=(row["answer"],) if "answer" in row else (),
        role=row.get("role", ""),
    )


def run_of(row: Row) -> RecordedRun:
    """A run in a list."""
    return RecordedRun(
        row["run_id"],
        row["status"],
        row["plan"],
        row["plan_hash"],
        _moment(row["created"]),
        _moment(row["updated"]),
        row["events"],
        row["parent"],
        row["forked_at"],
        row["goal"],
        None if row["ended"] is None else _moment(row["ended"]),
        row["failed_step"],
        row["waits_for"],
        row["cost"],
        row["tokens"],
        row["tags"],
    )


def event_of(run_id: str, row: Row) -> JournalEvent:
    """An event of the journal."""
    return JournalEvent(
        run_id, row["seq"], _moment(row["time"]), row["type"], row["key"], row["step"], row["body"]
    )


def _moment(text: str) -> float:
    """A time in seconds since 1970, from ISO 8601."""
    return datetime.fromisoformat(text).timestamp()
