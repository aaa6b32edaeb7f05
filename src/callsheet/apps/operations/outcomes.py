"""The state of a run as data: its result, open questions, calls in doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callsheet.apps.rendering.values import iso

if TYPE_CHECKING:
    from callsheet.runtime.answers import PendingAsk
    from callsheet.runtime.doubt import DoubtfulCall, RunOutcome


def outcome_json(
    outcome: RunOutcome, journal: Path | None, diagnostics: Sequence[Mapping[str, object]] = ()
) -> dict[str, Any]:
    """The state of a run as data; `journal` is None if nothing was recorded.

    `diagnostics` are the warnings as JSON objects.
    """
    result = outcome.result
    open_status = "in_doubt" if outcome.in_doubt else "waiting" if outcome.waiting else "interrupted"
    return {
        "run_id": outcome.run_id if journal is not None else None,
        "status": open_status if result is None else str(result.status),
        "outcome": open_status if result is None else str(result.outcome),
        "response": None if result is None else result.response,
        "variables": outcome.variables if result is None else result.variables,
        "steps_executed": None if result is None else result.steps_executed,
        "terminated": None if result is None else result.terminated,
        "error": None if result is None else result.error,
        "ended_at": None if result is None else result.ended_at,
        "failed_steps": None if result is None else list(result.failed_steps),
        "refusal": None if result is None or result.refusal is None else result.refusal._asdict(),
        "objection": None if result is None or result.objection is None else result.objection.to_json(),
        "usage": outcome.usage.to_json(),
        "replanned": outcome.usage.replans > 0,
        "in_doubt": [doubt_json(call) for call in outcome.in_doubt],
        "waiting": [ask_json(ask) for ask in outcome.waiting],
        "unanswered": [doubt_json(call) for call in outcome.unanswered],
        "journal": None if journal is None else str(journal),
        "diagnostics": list(diagnostics),
    }


def doubt_json(call: DoubtfulCall) -> dict[str, Any]:
    """A call in doubt as a JSON object."""
    return {
        "key": call.key,
        "step": call.step,
        "item": call.item,
        "attempt": call.attempt,
        "tool": call.tool,
        "args": call.args,
        "since": iso(call.since),
        "why": call.why,
    }


def run_doubt_json(run_id: str, call: DoubtfulCall) -> dict[str, Any]:
    """A call in doubt in a list of what several runs wait for, beside questions."""
    return {"run_id": run_id, "kind": "doubt", **doubt_json(call)}


def ask_json(ask: PendingAsk) -> dict[str, Any]:
    """A pending question or approval, as data."""
    data: dict[str, Any] = {
        "run_id": ask.run_id,
        "key": ask.key,
        "step": ask.step,
        "kind": ask.kind,
        "since": iso(ask.since),
        "until": None if ask.until is None else iso(ask.until),
        "answered": ask.is_answered,
        "digest": ask.digest,
    }
    if ask.kind == "approval":
        return data | {
            "tool": ask.tool,
            "args": dict(ask.args or {}),
            "inputs": list(ask.inputs),
            "plan_hash": ask.plan_hash,
            "why": list(ask.why),
            "labels": dict(ask.labels or {}),
            **({"answer": ask.answer[0]} if ask.answer else {}),
        }
    schema = None if ask.schema is None else dict(ask.schema)
    return data | {"prompt": ask.prompt, "options": list(ask.options), "schema": schema}
