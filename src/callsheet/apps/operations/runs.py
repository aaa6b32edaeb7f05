"""Runs as data: rows of lists, details, and what they wait for.

In: a journal, or a question, a call or a pause. Out: JSON data. All words for a run's status are in `Status`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict, cast, get_args

from callsheet.apps.operations.schema import Count, Keyword, Object, PlanHash, Time
from callsheet.apps.rendering.runs import ForkOrigin, origin_of
from callsheet.apps.rendering.values import iso, preview
from callsheet.lazy import dataclass

if TYPE_CHECKING:
    from callsheet.apps.operations.live_calls import UnderWay
    from callsheet.runtime.answers import PendingAsk
    from callsheet.runtime.doubt import DoubtfulCall
    from callsheet.store.chain import BadEvent
    from callsheet.store.journal import Journal
    from callsheet.store.pauses import RunPause
    from callsheet.store.runs import RunInfo, RunOutline
    from callsheet.trace.visits import Account, LateAnswer, Visit

Status = Literal[
    "queued",
    "running",
    "interrupted",
    "waiting",
    "in_doubt",
    "paused",
    "done",
    "done_with_failures",
    "failed",
    "refused",
    "cancelled",
    "corrupt",
]
"""What people are told of a run: by these lists are filtered."""
_QUEUED, *STATUSES = cast("tuple[Status, ...]", get_args(Status))
"""The statuses of the runs of a journal; only a host has a queue."""
INTERRUPTED = "interrupted"
"""The status shown for a run that has not ended and that no process is running."""
PAUSED = "paused"
"""That of a run that only a person lets go on."""
_DONE = "done"
_ENDINGS = ("failed", "refused", "cancelled")
"""The statuses with which a run may end while calls are in progress."""

StatusWord = Annotated[
    str, Keyword("enum", tuple(word for word in get_args(Status) if word != "done_with_failures"))
]
OutcomeWord = Annotated[
    str,
    "the status, or done_with_failures if the run is done and steps failed on the way",
    Keyword("enum", get_args(Status)),
]
FailedSteps = Annotated[list[str] | None, "the ids of the steps that failed and that the plan went past"]


class PauseRow(TypedDict):
    """Who has paused a run."""

    by: str
    since: Time
    reason: str
    words: Annotated[str, "all of it in words"]


PausedBy = Annotated[PauseRow | None, "who has paused the run, or null"]


class DoubtRow(TypedDict):
    """A call in doubt: it was sent without an answer, and may have taken place."""

    key: str
    step: str
    item: Count
    attempt: Count
    tool: str
    args: Object
    since: Time
    why: str


class RunDoubtRow(DoubtRow):
    """A call in doubt, with its run."""

    run_id: str
    kind: Literal["doubt"]


class LineRow(TypedDict):
    """A line of the text of a plan, counted from 1."""

    line: Count
    text: str


class SiteRow(TypedDict):
    """Where a call stands in the text of its plan."""

    tool: Annotated[str, "the tool as the plan names it"]
    lines: Annotated[list[LineRow], "the conditions around the call, outermost first, and the call"]


class AskRow(TypedDict):
    """A question to a person, or a request to approve a call."""

    run_id: str
    key: Annotated[str, "the key of the question, which an answer names"]
    step: str
    kind: Literal["question", "approval"]
    since: Time
    until: Time | None
    answered: Annotated[bool, "whether it was answered and the run has not continued yet"]
    digest: Annotated[str, "the digest that an answer is bound to"]
    tool: NotRequired[str]
    args: NotRequired[Annotated[Object, "the exact arguments of the call"]]
    inputs: NotRequired[list[Any]]
    plan_hash: NotRequired[str]
    why: NotRequired[list[str]]
    labels: NotRequired[Object]
    answer: NotRequired[Annotated[Any, "the answer of an agent that needs review"]]
    prompt: NotRequired[str]
    options: NotRequired[list[Any]]
    schema: NotRequired[Object | None]
    role: NotRequired[Annotated[str, "the role that whoever answers must have"]]
    site: NotRequired[SiteRow]
    program: NotRequired[Annotated[Object, "the further calls of the plan that will ask, and their hash"]]


class Inbox(TypedDict):
    """The unanswered questions and the calls in doubt of all runs."""

    asks: list[AskRow]
    in_doubt: list[RunDoubtRow]


class RunRow(TypedDict):
    """A run in a list."""

    run_id: str
    status: StatusWord
    outcome: OutcomeWord
    plan: Annotated[str, "the name of the plan"]
    goal: Annotated[str | None, "the goal of the plan"]
    plan_hash: PlanHash
    created: Time
    updated: Time
    ended: Time | None
    failed_step: Annotated[str | None, "the step it failed at, else the first that failed"]
    waits_for: Annotated[str | None, "what a run that has stopped waits for"]
    pause: PausedBy
    cost: Annotated[float | None, "the known cost; null while it is running"]
    tokens: Count | None
    tags: Annotated[dict[str, str], "the tags that it was started with"]
    events: Annotated[Count, "the number of its events"]
    parent: Annotated[str | None, "the run that it branched off from"]
    forked_at: Annotated[Count | None, "the last event shared with the parent"]
    in_doubt: NotRequired[list[DoubtRow]]
    under_way: NotRequired[
        Annotated[str, "of a run that goes on: the steps whose calls are open, and how far their loops are"]
    ]


RunDetailsResult = TypedDict(
    "RunDetailsResult",
    {
        "run_id": str,
        "status": StatusWord,
        "outcome": OutcomeWord,
        "plan": str,
        "plan_hash": PlanHash,
        "created": Time,
        "updated": Time,
        "journal": str,
        "tags": Annotated[dict[str, str], "the tags that it was started with"],
        "from": Annotated[Object | None, "the run that it was branched off"],
        "children": list[Object],
        "events": Count,
        "chain": Annotated[Object, "whether the hash chain of the events is intact"],
        "steps": list[Object],
        "warnings": list[str],
        "late": list[Object],
        "in_doubt": list[DoubtRow],
        "unanswered": list[DoubtRow],
        "waiting": list[AskRow],
        "pause": PausedBy,
        "variables": Object,
        "response": str | None,
        "answer": Annotated[Any, "the answer of a plan of version 2 as data; `response` is it as text"],
        "error": str | None,
        "terminated": bool | None,
        "ended_at": Annotated[str | None, "the id of a step"],
        "failed_steps": FailedSteps,
        "steps_executed": Count,
        "refusal": Object | None,
        "objection": Object | None,
        "usage": Object,
        "limits": Object,
    },
)


# ---------------------------------------------------------------- what it waits for


def pause_json(pause: RunPause | None) -> PauseRow | None:
    """Who has paused a run, as data."""
    if pause is None:
        return None
    return {"by": pause.by, "since": iso(pause.since), "reason": pause.reason, "words": pause.words}


def doubt_json(call: DoubtfulCall) -> DoubtRow:
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


def run_doubt_json(run_id: str, call: DoubtfulCall) -> RunDoubtRow:
    """A call in doubt in a list of what several runs wait for, beside questions."""
    return {"run_id": run_id, "kind": "doubt", **doubt_json(call)}


def asks_json(asks: Sequence[PendingAsk]) -> list[AskRow]:
    """What a run asks people, as data."""
    if not asks:
        return []
    from callsheet.apps.operations.asks import ask_json  # noqa: PLC0415 - only where a run asks

    return [ask_json(ask) for ask in asks]


# ---------------------------------------------------------------- lists


def run_row(
    journal: Journal, info: RunInfo, shown: str, under_way: UnderWay | None, *, has_doubts: bool = True
) -> RunRow:
    """A run as a row of a list; `shown` is its status as shown to people.

    The calls in doubt cost a replay of the run, what is `under_way`, if that is given, its
    events since the last look.
    """
    from callsheet.store.pauses import pause_of  # noqa: PLC0415 - brings sqlite3
    from callsheet.store.run_index import tags_in  # noqa: PLC0415 - as above

    row: RunRow = {
        "run_id": info.run_id,
        "status": shown,
        "outcome": shown_outcome(info, shown),
        "plan": plan_name(journal, info),
        "goal": info.goal,
        "plan_hash": info.plan_hash,
        "created": iso(info.created),
        "updated": iso(info.updated),
        "ended": None if info.ended is None else iso(info.ended),
        "failed_step": info.failed_step,
        "waits_for": info.waits_for,
        "pause": pause_json(pause_of(journal, info)),
        "cost": info.cost,
        "tokens": info.tokens,
        "tags": tags_in(info.tags),
        "events": info.events,
        "parent": None if info.forked_at is None else info.parent_run,
        "forked_at": info.forked_at,
    }
    if has_doubts:
        row["in_doubt"] = [doubt_json(call) for call in _doubts(journal, info, shown)]
    if shown == "running" and under_way is not None:
        row["under_way"] = under_way.look(info, info.events).text
    return row


def _doubts(journal: Journal, info: RunInfo, shown: str) -> tuple[DoubtfulCall, ...]:
    """The calls in doubt of a run that no process is running; none if its events cannot be read."""
    if shown not in (INTERRUPTED, "in_doubt", PAUSED):
        return ()
    from callsheet.runtime.inbox import doubts_of  # noqa: PLC0415 - only for such runs

    return doubts_of(journal, info.run_id)


def shown_status(journal: Journal, info: RunInfo | RunOutline) -> str:
    """The status of a run as shown to people."""
    from callsheet.store.listing import shown_status as shown  # noqa: PLC0415 - brings sqlite3

    return shown(journal, info)


def shown_outcome(info: RunInfo | RunOutline, shown: str) -> str:
    """What a run has come to: its `shown` status, unless it is done with failures."""
    from callsheet.store.listing import shown_outcome as outcome  # noqa: PLC0415 - brings sqlite3

    return outcome(info, shown)


def plan_name(journal: Journal, info: RunInfo) -> str:
    """The name of a run's plan: its title or id, else the file it was read from, else its goal."""
    from callsheet.store.listing import plan_name as name  # noqa: PLC0415 - brings sqlite3

    return name(journal, info)


# ---------------------------------------------------------------- details


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
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    """The tags that the run was started with."""
    origin: ForkOrigin | None = None
    children: tuple[RunInfo, ...] = ()
    """The runs that were forked from this one."""
    unanswered: tuple[DoubtfulCall, ...] = ()
    """The calls of an interrupted run to which models gave no answer."""
    pause: RunPause | None = None
    """Who has paused the run, if it is paused."""

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
    from callsheet.trace.visits import account_of  # noqa: PLC0415 - brings the store

    plan = journal.plan_of(info.plan_hash)
    account = account_of(plan, journal.events(info.run_id), journal.plan_of)
    status, name = shown_status(journal, info), plan_name(journal, info)
    asks: tuple[PendingAsk, ...] = ()
    in_doubt: tuple[DoubtfulCall, ...] = ()
    unanswered: tuple[DoubtfulCall, ...] = ()
    if status != _DONE:  # nothing of a run that is done is open
        from callsheet.runtime.doubt import doubtful_calls, unanswered_calls  # noqa: PLC0415 - brings the runtime
        from callsheet.runtime.inbox import asks_of  # noqa: PLC0415 - as above

        asks = tuple(asks_of(journal, info.run_id))
        if status in (INTERRUPTED, "in_doubt", PAUSED, *_ENDINGS):
            in_doubt = doubtful_calls(account.folded)
        if status == INTERRUPTED:
            unanswered = unanswered_calls(account.folded)
    pause: RunPause | None = None
    if status == PAUSED:
        from callsheet.store.pauses import pause_of  # noqa: PLC0415 - only for such runs

        pause = pause_of(journal, info)
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
        tags=_tags_of(first.body),
        origin=origin_of(first.body),
        children=tuple(journal.children(info.run_id)),
        unanswered=unanswered,
        pause=pause,
    )


def _tags_of(start: Mapping[str, Any] | None) -> dict[str, str]:
    """The tags in the body of a first event."""
    from callsheet.store.run_index import TAGS  # noqa: PLC0415 - brings sqlite3

    note: Mapping[str, Any] = (start or {}).get("launch") or {}
    tags: Mapping[str, Any] = note.get(TAGS) or {}
    return {name: str(value) for name, value in tags.items()}


def run_details_json(details: RunDetails) -> RunDetailsResult:
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
        "tags": dict(details.tags),
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
        "waiting": asks_json(details.asks),
        "pause": pause_json(details.pause),
        "variables": folded.variables_to_show(),
        "response": folded.response_to_show,
        "answer": folded.answer_to_show,
        "error": None if result is None else result.error,
        "terminated": None if result is None else result.terminated,
        "ended_at": None if result is None else result.ended_at,
        "failed_steps": None if result is None else list(result.failed_steps),
        "steps_executed": folded.machine.steps_executed,
        "refusal": None if result is None or result.refusal is None else result.refusal._asdict(),
        "objection": None if result is None or result.objection is None else result.objection.to_json(),
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
        "observed": visit.observed,
    }


def _late_json(answer: LateAnswer) -> dict[str, Any]:
    return {
        "key": answer.key,
        "step": answer.step,
        "time": iso(answer.ts),
        "outcome": answer.outcome,
        "preview": preview(answer.value, 200),
    }
