"""What is asked of a server, as bodies, paths and queries, and what it tells, as the types of the library."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from callsheet.api.arguments import InDoubt, verdict_of
from callsheet.api.findings import PlanError
from callsheet.api.plan import Plan, PlanLike, as_plan
from callsheet.api.recorded_runs import JournalEvent, RecordedRun
from callsheet.api.result import RunResult
from callsheet.diagnostics import Diagnostic, Source
from callsheet.diagnostics.wrong_type import wanted
from callsheet.machine import Limits, PolicyRefusal, Refusal, TookPlace, Usage
from callsheet.machine.limits import IN_REQUESTS
from callsheet.runtime.answers import PendingAsk
from callsheet.runtime.doubt import DoubtfulCall
from callsheet.store import RunStatus, check_run_id
from callsheet.store.pauses import RunPause
from callsheet.store.runs import RunFilter
from callsheet.views.call_site import CallSite, Line

_TIMES = frozenset({"since", "until", "ended_since", "ended_until"})
"""The conditions on runs that are times."""


class Beginning(NamedTuple):
    """The id of a new run, the request that starts it, and the text of its plan."""

    run_id: str
    body: Mapping[str, Any]
    source: Source


class Sent(NamedTuple):
    """A plan on its way to a server: the members of a request, and the text that findings point into."""

    body: Mapping[str, Any]
    source: Source

    @classmethod
    def of(cls, given: PlanLike, inputs: Mapping[str, Any]) -> Sent:
        """A plan as its own text if the server reads that as the same plan, else as canonical JSON.

        Raises PlanError for a text that is not a plan.
        """
        plan = as_plan(given, inputs.keys())
        source = plan.source
        if source is None or not _reads_alike(source, plan, inputs):
            source = Source("<plan>", json.dumps(plan.to_json()))
        return cls({"plan": source.text, "name": source.name}, source)


def _reads_alike(source: Source, plan: Plan, inputs: Mapping[str, Any]) -> bool:
    """Whether a text is read as the plan where nothing is known of its syntax, nor of files beside it."""
    try:
        return Plan.parse(source.text, inputs=inputs.keys()) == plan
    except PlanError:
        return False


def of_run(run_id: str, page: str = "") -> str:
    """The path of a run, or of a page about it; raises JournalError (JRN001) for what is no id."""
    return f"/v1/runs/{check_run_id(run_id)}{page}"


def conditions_of(where: RunFilter) -> dict[str, Any]:
    """The conditions on runs that are set, as a query."""
    given = {name: value for name, value in asdict(where).items() if value not in (None, "", ())}
    query = {name: _iso_text(value) if name in _TIMES else value for name, value in given.items()}
    if "tags" in query:
        query["tag"] = ",".join(query.pop("tags"))
    return query


def _iso_text(seconds: float) -> str:
    """A time in seconds since 1970, as a query of the API names it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def limits_of(given: Limits | None) -> dict[str, Any]:
    """The limits that a request may name; a server decides the pace of retries and its memory."""
    if given is None:
        return {}
    data = wanted("limits", given, Limits, "Limits(…)").to_json()
    return {name: value for name, value in data.items() if name in IN_REQUESTS and value is not None}


def terms_of(accept_changed_tools: bool, as_recorded: bool, limits: Limits | None) -> dict[str, Any]:
    """On what terms a run goes on."""
    return {
        "accept_changed_tools": accept_changed_tools,
        "as_recorded": as_recorded,
        "limits": limits_of(limits),
    }


def decision_of(given: InDoubt) -> dict[str, Any]:
    """A decision on calls in doubt; raises as `verdict_of` does."""
    verdict = verdict_of(given)
    if isinstance(verdict, TookPlace):
        return {"decision": "value", "value": verdict.value}
    return {"decision": str(verdict)}


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
        pause=pause_of(row.get("pause")),
    )


_Told = TypeVar("_Told", DoubtfulCall, PendingAsk, RecordedRun, JournalEvent)
_MOMENTS = frozenset({"since", "until", "created", "updated", "ended", "time"})
"""The names of times."""


def _told(kind: type[_Told], row: Row, **own: Any) -> _Told:
    """A value of the library from a row with the names of its fields; `own` are those that differ."""
    given: dict[str, Any] = {field.name: row[field.name] for field in fields(kind) if field.name in row}
    times: dict[str, Any] = {
        name: _moment(given[name]) for name in _MOMENTS & given.keys() if given[name] is not None
    }
    return kind(**{**given, **times, **own})


def pause_of(row: Row | None) -> RunPause | None:
    """Who has paused a run, if it is paused."""
    return None if row is None else RunPause(row["by"], _moment(row["since"]), row["reason"])


def call_of(row: Row) -> DoubtfulCall:
    """A call in doubt, or one without an answer."""
    return _told(DoubtfulCall, row)


def ask_of(row: Row) -> PendingAsk:
    """A question, or a call to approve."""
    lists = {name: tuple(row[name]) for name in ("options", "inputs", "why") if name in row}
    answer = (row["answer"],) if "answer" in row else ()
    site = _site_of(row["site"]) if "site" in row else None
    return _told(PendingAsk, row, is_answered=row["answered"], answer=answer, site=site, **lists)


def _site_of(row: Row) -> CallSite:
    return CallSite(row["tool"], tuple(Line(one["line"], one["text"]) for one in row["lines"]))


def run_of(row: Row) -> RecordedRun:
    """A run in a list."""
    return _told(RecordedRun, row, pause=pause_of(row.get("pause")))


def page_of(row: Row) -> tuple[list[RecordedRun], bool]:
    """The runs of a page, and whether there are more after them; ValueError for none with more after them."""
    runs, goes_on = [run_of(each) for each in row["runs"]], bool(row["more"])
    if goes_on and not runs:
        raise ValueError("more runs after none")
    return runs, goes_on


def asks_of(row: Row) -> list[PendingAsk]:
    """The questions of an inbox."""
    return [ask_of(each) for each in row["asks"]]


def calls_by_run(row: Row) -> dict[str, tuple[DoubtfulCall, ...]]:
    """The calls in doubt of an inbox, by the ids of their runs."""
    found: dict[str, tuple[DoubtfulCall, ...]] = {}
    for each in row["in_doubt"]:
        found[each["run_id"]] = (*found.get(each["run_id"], ()), call_of(each))
    return found


def most_of(row: Row) -> int | None:
    """How many events a run has that its server does not carry on; None while it does."""
    return None if row["status"] in UNDERWAY else int(row["events"])


def event_of(run_id: str, row: Row) -> JournalEvent:
    """An event of the journal."""
    return _told(JournalEvent, row, run_id=run_id)


def _moment(text: str) -> float:
    """A time in seconds since 1970, from ISO 8601."""
    return datetime.fromisoformat(text).timestamp()
