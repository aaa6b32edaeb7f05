"""The finished calls that a run on Temporal keeps of an earlier run, as an argument of its workflow.

The client finds them in its journal, which has a copy of the earlier run; the workflow gives each call that
is the same its recorded outcome, and makes only the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from callsheet.ir import Plan
from callsheet.machine import Succeeded
from callsheet.runtime.engines.temporal.wire import (
    command_from_json,
    command_to_json,
    outcome_from_json,
    outcome_to_json,
)
from callsheet.store import Journal
from callsheet.store.kept_calls import Finished, Kept, KeptCalls, content_of_command, kept_by


def kept_of(journal: Journal, run_id: str) -> dict[str, Any] | None:
    """What a recorded run keeps of its parent, as data; None if it keeps nothing. Raises JournalError."""
    kept = kept_by(journal, run_id)
    return None if kept is None else kept_to_json(kept.calls, kept.again)


def kept_to_json(calls: Iterable[Finished], again: Iterable[str]) -> dict[str, Any]:
    """Calls with their outcomes, and the statements that keep nothing, as data."""
    return {"calls": [_call_to_json(call) for call in calls], "again": [*again]}


def read_kept(plan: Plan, data: Mapping[str, Any]) -> KeptCalls:
    """What a run of this plan keeps; raises KeyError, TypeError or ValueError for invalid data."""
    rows: Sequence[Mapping[str, Any]] = data["calls"]
    return KeptCalls(plan, map(_read_call, rows), data["again"])


def _call_to_json(call: Finished) -> dict[str, Any]:
    return {
        "run_id": call.run_id,
        "seq": call.seq,
        "key": call.key,
        "command": command_to_json(call.command),
        "outcome": None if call.outcome is None else outcome_to_json(call.outcome),
        "signature": call.signature,
    }


def _read_call(row: Mapping[str, Any]) -> Finished:
    command = cast("Kept", command_from_json(row["command"]))
    outcome = None if row["outcome"] is None else cast("Succeeded", outcome_from_json(row["outcome"]))
    content = content_of_command(command)
    return Finished(row["run_id"], row["seq"], row["key"], command, outcome, row["signature"], content)
