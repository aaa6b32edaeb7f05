"""What is asked of a server: plans and runs as bodies, paths and queries of requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, NamedTuple

from callsheet.api.arguments import InDoubt, verdict_of
from callsheet.api.findings import PlanError
from callsheet.api.plan import Plan, PlanLike, as_plan
from callsheet.diagnostics import Source
from callsheet.diagnostics.wrong_type import wanted
from callsheet.machine import Limits, TookPlace
from callsheet.machine.limits import IN_REQUESTS
from callsheet.store import check_run_id
from callsheet.store.runs import RunFilter

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
    query = {name: _moment(value) if name in _TIMES else value for name, value in given.items()}
    if "tags" in query:
        query["tag"] = ",".join(query.pop("tags"))
    return query


def _moment(seconds: float) -> str:
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
