"""What happened in a run, from its journal: its steps, what it waits for, how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callsheet.apps.operations.outcomes import ask_json, doubt_json
from callsheet.apps.operations.runs import INTERRUPTED, plan_name, shown_outcome, shown_status
from callsheet.apps.rendering.runs import ForkOrigin, origin_of
from callsheet.apps.rendering.values import iso, preview

if TYPE_CHECKING:
    from callsheet.runtime.answers import PendingAsk
    from callsheet.runtime.doubt import DoubtfulCall
    from callsheet.store.chain import BadEvent
    from callsheet.store.journal import Journal
    from callsheet.store.runs import RunInfo
    from callsheet.trace.visits import Account, LateAnswer, Visit

_ENDINGS = ("failed", "refused", "cancelled")
"""The statuses with which a run may end while calls are in progress."""


@dataclass(frozen=True, slots=True)
class RunDetails:
    """Everything that is shown about a run; `bad` is the first event that fails verification."""

    info: RunInfo
    status: str
    plan: str
    journal: Path
    bad: BadEvent | None
    account: Account
    asks: tuple[PendingAsk, ...]
    """The questions and approvals that the run has not continued from."""
    in_doubt: tuple[DoubtfulCall, ...]
    origin: ForkOrigin | None = None
    children: tuple[RunInfo, ...] = ()
    """The runs that were forked from this one."""
    unanswered: tuple[DoubtfulCall, ...] = ()
    """The calls of an interrupted run to which models gave no answer."""

    @property
    def outcome(self) -> str:
        """What the run has come to: its status, unless it is done with failures."""
        result = self.account.folded.machine.result
        is_done = result is not None and self.status == result.status
        return str(result.outcome) if result is not None and is_done else self.status


def run_details(journal: Journal, info: RunInfo, bad: BadEvent | None = None) -> RunDetails:
    """The details of a run; `bad` is its first event that failed verification, if it was verified.

    Raises JournalError (JRN012, JRN015, JRN020) if its events cannot be read.
    """
    from callsheet.runtime.doubt import doubtful_calls, unanswered_calls  # noqa: PLC0415 - brings the runtime
    from callsheet.runtime.inbox import asks_of  # noqa: PLC0415 - as above
    from callsheet.trace.visits import account_of  # noqa: PLC0415 - brings the store

    plan = journal.plan_of(info.plan_hash)
    account = account_of(plan, journal.events(info.run_id), journal.plan_of)
    asks = tuple(asks_of(journal, info.run_id))
    status, name = shown_status(journal, info), plan_name(journal, info)
    in_doubt = doubtful_calls(account.folded) if status in (INTERRUPTED, "in_doubt", *_ENDINGS) else ()
    unanswered = unanswered_calls(account.folded) if status == INTERRUPTED else ()
    first = next(iter(journal.events(info.run_id, lenient=True)))
    return RunDetails(
        info=info,
        status=status,
        plan=name,
        journal=journal.path,
        bad=bad,
        account=account,
        asks=asks,
        in_doubt=in_doubt,
        origin=origin_of(first.body),
        children=tuple(journal.children(info.run_id)),
        unanswered=unanswered,
    )


def run_details_json(details: RunDetails) -> dict[str, Any]:
    """The details as JSON data."""
    info, folded = details.info, details.account.folded
    result = folded.machine.result
    return {
        "run_id": info.run_id,
        "status": details.status,
        "outcome": details.outcome,
        "plan": details.plan,
        "plan_hash": info.plan_hash,
        "created": iso(info.created),
        "updated": iso(info.updated),
        "journal": str(details.journal),
        "from": None if details.origin is None else details.origin.to_json(),
        "children": [
            {
                "run_id": child.run_id,
                "event": child.forked_at,
                "status": str(child.status),
                "outcome": shown_outcome(child, str(child.status)),
            }
            for child in details.children
        ],
        "events": info.events,
        "chain": {"ok": True}
        if details.bad is None
        else {"ok": False, "event": details.bad.seq, "why": details.bad.why},
        "steps": [_step_json(visit) for visit in details.account.steps],
        "warnings": details.account.warnings,
        "late": [_late_json(answer) for answer in details.account.late],
        "in_doubt": [doubt_json(call) for call in details.in_doubt],
        "unanswered": [doubt_json(call) for call in details.unanswered],
        "waiting": [ask_json(ask) for ask in details.asks],
        "variables": folded.machine.variables(),
        "response": None if result is None else result.response,
        "error": None if result is None else result.error,
        "terminated": None if result is None else result.terminated,
        "ended_at": None if result is None else result.ended_at,
        "failed_steps": None if result is None else list(result.failed_steps),
        "steps_executed": folded.machine.steps_executed,
        "refusal": None if result is None or result.refusal is None else result.refusal._asdict(),
        "usage": folded.usage().to_json(),
        "limits": folded.machine.limits.to_json(),
    }


def _step_json(visit: Visit) -> dict[str, Any]:
    return {
        "step": visit.step,
        "outcome": visit.outcome,
        "started": iso(visit.started),
        "seconds": None if visit.ended is None else round(visit.ended - visit.started, 6),
        "calls": visit.calls,
        "retries": visit.retries,
        "failed_items": visit.failed_items,
        "detail": visit.detail or None,
        "var": visit.var,
        "preview": preview(visit.value, 200) if visit.var is not None else None,
        "cuts": visit.cuts,
        "empty": visit.empty,
        "facts": visit.facts,
        "answers": visit.answers,
        "turns": visit.turns,
    }


def _late_json(answer: LateAnswer) -> dict[str, Any]:
    return {
        "key": answer.key,
        "step": answer.step,
        "time": iso(answer.ts),
        "outcome": answer.outcome,
        "preview": preview(answer.value, 200),
    }
